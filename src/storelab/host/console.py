"""Lines of progress on standard error. May import: `core`."""

import sys
from collections.abc import Callable

from storelab.core.redaction import without_tokens

giving_way: list[Callable[[], None]] = []  # called before a line is printed: what a terminal shows gives way to it


def report(line: str) -> None:
    """Print a line of progress to standard error at once, so that Snakemake shows it."""
    for give_way in giving_way:
        give_way()
    print(without_tokens(line), file=sys.stderr, flush=True)
