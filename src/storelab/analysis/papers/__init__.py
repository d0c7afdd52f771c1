"""One paper from several campaigns, and where each of its figures, tables and numbers comes from.

May import: all other folders of the analysis, `core`. Nothing here measures, makes tables or draws: `write` reads what
the rules of each campaign left in `tables/`, `figures/` and `tex/`, and writes `results/papers/<names>/`.
This module loads nothing slow: the Snakefile asks it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from storelab.core.errors import UserError

FOLDER = "papers"  # below the results
MOST = 255  # bytes of a folder's name


def distinct(named: Iterable[tuple[str, Path]]) -> None:
    """Raises UserError where a name comes twice."""
    known: dict[str, Path] = {}
    for name, folder in named:
        if name in known:
            twice = known[name].resolve() == folder.resolve()
            where = "is named twice" if twice else f"lies in {known[name]} and in {folder}"
            mend = "name each campaign once" if twice else "campaigns that are not the same one need names of their own"
            raise UserError(f"campaign {name}", f"{where}: no two campaigns of one paper bear one name", mend)
        known[name] = folder


def place(results: Path, names: Sequence[str]) -> Path:
    """The folder of the paper of these campaigns, in this order. Raises UserError where its name would be too long."""
    joined = "+".join(names)
    if len(joined.encode()) > MOST:
        problem = f"{len(names)} names make a folder's name of {len(joined.encode())} signs, more than {MOST}"
        raise UserError("campaign", problem, "join fewer, or call `storelab join` with --output")
    return results / FOLDER / joined
