"""storelab: measures storage the way High Energy Physics uses it, and rebuilds a paper from what it measured."""

import os
import signal
import sys

__version__ = "0.2.0"


def quiet(*_: object) -> None:
    """Ctrl-C while the command `storelab` loads its modules; then `cli.main` takes over."""
    os._exit(130)


if (sys.argv[0].endswith("/storelab") or sys.orig_argv[1:3] == ["-m", "storelab"]) and signal.getsignal(
    signal.SIGINT
) == signal.default_int_handler:  # not in a program that imports this
    signal.signal(signal.SIGINT, quiet)
