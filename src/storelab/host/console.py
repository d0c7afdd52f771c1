"""Lines of progress on standard error. Standard library only."""

import sys
from collections.abc import Callable

giving_way: list[Callable[[], None]] = []  # called before a line is printed: what a terminal shows gives way to it


def report(line: str) -> None:
    """Print a line of progress to standard error at once, so that Snakemake shows it."""
    for give_way in giving_way:
        give_way()
    print(line, file=sys.stderr, flush=True)
