"""Sums of derived files, so that a table, a figure or a file of TeX is only used as it was written.

`tables/SHA256SUMS` has the sums of the tables, of what they were made from, and of the code that made them. The
`<name>.json` of a figure has those of its pictures and its own, and a file of `tex/` ends with its own. May import:
`core`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from storelab.core import evidence, records
from storelab.core.errors import UserError

LINKS = "links.yaml"  # in the folder of the campaign
CODE = ("analysis/tables", "analysis/parts", "analysis/records", "analysis/statistics", "core/axes")
OLDER = "was made by another version of storelab"
ALTERED = "was altered after it was written"
_END = "% SHA-256 of the lines above: "


def mend(folder: Path, command: str = "tables") -> str:
    """Return how the derived files of a folder are made again."""
    return f"run `storelab {command} --campaign-dir {folder}`"


@cache
def code() -> str:
    """Return a sum of the code that tables are made by."""
    package, found = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(path for name in CODE for path in (package / name).rglob("*.py")):
        found.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _inputs(folder: Path) -> dict[str, str]:
    links, sums = folder / LINKS, folder / "raw" / evidence.SUMS
    made_from = {f"../raw/{evidence.SUMS}": evidence.sum_of_records(sums.parent)} if sums.is_file() else {}
    return made_from | ({f"../{LINKS}": records.sha256(links)} if links.is_file() else {})


def write_sums(folder: Path, tables: Iterable[str]) -> None:
    """Write the sums of these tables of a campaign, last. Those of others stay where the same code made them from the
    same records."""
    path, made = folder / "tables" / evidence.SUMS, _inputs(folder)
    try:
        kept = _listed(folder)
    except UserError:
        kept = {}
    made = {name: kept[name] for name in kept if name not in made} | made
    made |= {f"{name}.csv": records.sha256(folder / "tables" / f"{name}.csv") for name in tables}
    records.write_atomic(path, evidence.sums_text(made, code()))


def _listed(folder: Path) -> dict[str, str]:
    """Name -> sum of the tables and their inputs. Raises UserError: damaged, of other code, or of other records."""
    path = folder / "tables" / evidence.SUMS
    if not path.is_file():
        raise UserError(str(path.parent), OLDER, mend(folder))
    data = path.read_bytes()
    listed = evidence.parsed_sums(data, str(path), mend(folder))
    if (made_by := evidence.code_of(data)) is None:
        raise UserError(str(path), ALTERED, mend(folder))
    if made_by != code():
        raise UserError(str(path.parent), OLDER, mend(folder))
    now = _inputs(folder)
    if differing := [n for n in {**now, **listed} if n.startswith("../") and now.get(n) != listed.get(n)]:
        raise UserError(str(path.parent), f"was made before {folder / differing[0][3:]} changed", mend(folder))
    return listed


def require_table(folder: Path, name: str) -> Path:
    """Return the path of a table. Raises UserError: it is not there, or not as it was made from what is there."""
    path = folder / "tables" / f"{name}.csv"
    if not path.exists():
        raise UserError(str(path), "is not there", f"{mend(folder)} first")
    if _listed(folder).get(path.name) != records.sha256(path):
        raise UserError(str(path), ALTERED, mend(folder))
    return path


def damaged_tables(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the tables of these names that are there, but not as they were made from what is there."""
    try:
        listed = _listed(folder)
    except UserError:
        listed = {}
    found = [path for name in names if (path := folder / "tables" / f"{name}.csv").exists()]
    return [path for path in found if listed.get(path.name) != records.sha256(path)]


def with_pictures(folder: Path, entry: Mapping[str, Any], kinds: Iterable[str]) -> dict[str, Any]:
    """Return what is known of a figure with the sums of its pictures, which are in this folder."""
    return {**entry, "sha256": {kind: records.sha256(folder / entry[kind]) for kind in kinds}}


def figure(path: Path) -> dict[str, Any]:
    """Return what is known of a figure, or of all (`index.json`). Raises UserError: damaged, or of an older version."""
    again = mend(path.parents[1], "figures")
    if not path.exists():
        raise UserError(str(path), "is not there", f"{again} first")
    if problem := records.damage(path):
        raise UserError(str(path), problem, again)
    found: dict[str, Any] = json.loads(path.read_bytes())
    if "summed" not in found:
        raise UserError(str(path), OLDER, again)
    return {key: value for key, value in found.items() if key not in records.SUM_KEYS}


def require_picture(folder: Path, entry: Mapping[str, Any], kind: str) -> Path:
    """Return the picture of this kind of a figure. Raises UserError: it is not there, or not as it was drawn."""
    path = folder / entry[kind]
    if not path.is_file() or records.sha256(path) != entry["sha256"][kind]:
        problem = ALTERED if path.is_file() else "is not there"
        raise UserError(str(path), problem, f"{mend(folder.parent, 'figures')} {path.stem}")
    return path


def is_whole(path: Path, kinds: Iterable[str]) -> bool:
    """Whether a figure (its `.json`) and its pictures of these kinds are as they were drawn."""
    try:
        entry = figure(path)
        for kind in () if entry["empty"] else kinds:
            require_picture(path.parent, entry, kind)
    except (UserError, KeyError):
        return False
    return True


def tex(text: str) -> bytes:
    """Return the text of a file of `tex/`, with its sum as a comment in the last line."""
    return f"{text}{_END}{records.sha256_of(text.encode())}\n".encode()


def read_tex(path: Path, again: str) -> str:
    """Return the text of a file of `tex/` without its sum. Raises UserError: it is not as it was written.

    again: how it is written again.
    """
    data = path.read_bytes()
    text, end, digest = data.rpartition(_END.encode())
    if not end:
        raise UserError(str(path), f"{OLDER}, or {ALTERED}", again)
    if digest != f"{records.sha256_of(text)}\n".encode():
        raise UserError(str(path), ALTERED, again)
    return text.decode()
