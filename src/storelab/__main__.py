"""Run the command line (python -m storelab)."""

from storelab.cli import main

main()
