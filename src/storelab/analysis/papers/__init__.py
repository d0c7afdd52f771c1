"""Papers about several campaigns, and the origin of their figures, tables and numbers.

This package does not measure, make tables or draw. `write` reads the files that the rules of each campaign wrote to
`tables/`, `figures/` and `tex/`, and writes `results/papers/<names>/`. This module does not import slow modules,
because the Snakefile imports it. May import: all other folders of the analysis, `core`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from storelab.core.errors import UserError

FOLDER = "papers"  # folder of joined papers in the folder of results
MAX_NAME = 255  # maximum length of the name of a folder in bytes


def distinct(named: Iterable[tuple[str, Path]]) -> None:
    """Raise UserError if a name occurs twice."""
    known: dict[str, Path] = {}
    for name, folder in named:
        if name in known:
            twice = known[name].resolve() == folder.resolve()
            where = "is named twice" if twice else f"is in {known[name]} and in {folder}"
            hint = "name each campaign once" if twice else "use different names for different campaigns"
            raise UserError(f"campaign {name}", f"{where}: all campaigns of a paper need different names", hint)
        known[name] = folder


def place(results: Path, names: Sequence[str]) -> Path:
    """Return the folder of the paper of these campaigns, in this order.

    Raises UserError if its name would be too long.
    """
    joined = "+".join(names)
    if len(joined.encode()) > MAX_NAME:
        size = len(joined.encode())
        problem = f"the name of the folder for {len(names)} campaigns would have {size} bytes, more than {MAX_NAME}"
        raise UserError("campaign", problem, "join fewer campaigns, or run `storelab join` with --output")
    return results / FOLDER / joined
