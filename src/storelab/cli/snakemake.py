"""Run Snakemake without its line about profiles, which it prints even with `quiet: all`.

`make` and `storelab run` start `python -m storelab.cli.snakemake` with Snakemake's own options.
"""

import builtins
from typing import Any

import snakemake.cli


def _print(*values: Any, **options: Any) -> None:
    if not str(values[:1]).endswith("for setting default command line arguments.',)"):
        builtins.print(*values, **options)


def main() -> None:
    """Run Snakemake's command line."""
    snakemake.cli.print = _print
    snakemake.cli.main()


if __name__ == "__main__":
    main()
