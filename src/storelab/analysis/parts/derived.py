"""Checksums of derived files, so that tables, figures and TeX files are only used if they are unchanged.

`tables/SHA256SUMS` contains the checksums of the tables, of their inputs, and of the code that made them. The file
`<name>.json` of a figure contains the checksums of its pictures and of itself. A file in `tex/` ends with its own
checksum. May import: `core`.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from storelab.core import integrity, records
from storelab.core.errors import UserError

LINKS = "links.yaml"  # name of the file in the folder of the campaign
CODE = ("analysis/tables", "analysis/parts", "analysis/records", "analysis/statistics", "core/axes")
OLDER = "was made by another version of storelab"
ALTERED = "was altered after it was written"
_END = "% SHA-256 of the lines above: "
# Patterns of the files that are made from tables.
LATER = ("figures/*.*", "tex/*.tex", "*.pdf", "report.html", "notebooks/*.html")
OLD_S = 86400.0  # 1970-01-02, the time of files that are out of date; Snakemake ignores the time 0


def rebuild_hint(folder: Path, command: str = "tables") -> str:
    """Return the hint that names the command which makes the derived files of a campaign's folder again."""
    return f"run `storelab {command} {folder}`"


@cache
def code() -> str:
    """Return a checksum of the code that makes tables."""
    package, found = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(path for name in CODE for path in (package / name).rglob("*.py")):
        found.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _inputs(folder: Path) -> dict[str, str]:
    links, sums = folder / LINKS, folder / "raw" / integrity.SUMS
    made_from = {f"../raw/{integrity.SUMS}": integrity.sum_of_records(sums.parent)} if sums.is_file() else {}
    return made_from | ({f"../{LINKS}": records.sha256(links)} if links.is_file() else {})


def write_sums(folder: Path, tables: Iterable[str]) -> None:
    """Write the checksums of these tables of a campaign. The tables must have been written before.

    The checksums of other tables are kept if the same code made these tables from the same records.
    """
    path, made = folder / "tables" / integrity.SUMS, _inputs(folder)
    try:
        kept = _listed(folder)
    except UserError:
        kept = {}
    made = {name: kept[name] for name in kept if name not in made} | made
    made |= {f"{name}.csv": records.sha256(folder / "tables" / f"{name}.csv") for name in tables}
    records.write_atomic(path, integrity.sums_text(made, code()))


def outdate_future(folder: Path) -> None:
    """Give files that were made from tables an old time if their time is in the future, so that they are made again.

    The clock was ahead when they were written. Otherwise, they would seem to be newer than tables that are made now.
    """
    set_future_times([path for pattern in LATER for path in folder.glob(pattern)], OLD_S)


def set_future_times(paths: Iterable[Path], seconds: float) -> list[Path]:
    """Set the times of those files that are in the future to `seconds`, in Unix seconds. Return their paths.

    Files of another user keep their times.
    """
    now, found = time.time(), []
    for path in paths:
        with suppress(OSError):
            if path.stat().st_mtime > now:
                os.utime(path, (seconds, seconds))
                found.append(path)
    return found


def _listed(folder: Path) -> dict[str, str]:
    """Return name -> checksum of the tables and their inputs.

    Raises UserError if the list is damaged, or if the tables were made by other code or from other records.
    """
    path = folder / "tables" / integrity.SUMS
    if not path.is_file():
        raise UserError(str(path.parent), OLDER, rebuild_hint(folder))
    data = path.read_bytes()
    listed = integrity.parsed_sums(data, str(path), rebuild_hint(folder))
    if (made_by := integrity.code_of(data)) is None:
        raise UserError(str(path), ALTERED, rebuild_hint(folder))
    if made_by != code():
        raise UserError(str(path.parent), OLDER, rebuild_hint(folder))
    now = _inputs(folder)
    if differing := [n for n in {**now, **listed} if n.startswith("../") and now.get(n) != listed.get(n)]:
        raise UserError(str(path.parent), f"was made before {folder / differing[0][3:]} changed", rebuild_hint(folder))
    return listed


def require_table(folder: Path, name: str) -> Path:
    """Return the path of a table. Raises UserError if it does not exist, was altered, or is out of date."""
    path = folder / "tables" / f"{name}.csv"
    if not path.exists():
        integrity.require_measured(folder)
        raise UserError(str(path), "does not exist", f"{rebuild_hint(folder)} first")
    if _listed(folder).get(path.name) != records.sha256(path):
        raise UserError(str(path), ALTERED, rebuild_hint(folder))
    return path


def damaged_tables(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the paths of those tables that exist, but were altered or are out of date. names: tables to check."""
    try:
        listed = _listed(folder)
    except UserError:
        listed = {}
    found = [path for name in names if (path := folder / "tables" / f"{name}.csv").exists()]
    return [path for path in found if listed.get(path.name) != records.sha256(path)]


def with_pictures(folder: Path, entry: Mapping[str, Any], kinds: Iterable[str]) -> dict[str, Any]:
    """Return the entry of a figure with the checksums of its pictures. folder: the folder of the pictures."""
    return {**entry, "sha256": {kind: records.sha256(folder / entry[kind]) for kind in kinds}}


def figure(path: Path) -> dict[str, Any]:
    """Return the entry of a figure, or the entries of all figures. path: `<name>.json` or `index.json`.

    Raises UserError if the file does not exist, is damaged, or was made by an older version.
    """
    again = rebuild_hint(path.parents[1], "figures")
    if not path.exists():
        raise UserError(str(path), "does not exist", f"{again} first")
    if problem := records.damage(path):
        raise UserError(str(path), problem, again)
    found: dict[str, Any] = json.loads(path.read_bytes())
    if "summed" not in found:
        raise UserError(str(path), OLDER, again)
    return {key: value for key, value in found.items() if key not in records.SUM_KEYS}


def require_picture(folder: Path, entry: Mapping[str, Any], kind: str) -> Path:
    """Return the path of a figure's picture of this kind. Raises UserError if it does not exist or was altered."""
    path = folder / entry[kind]
    if not path.is_file() or records.sha256(path) != entry["sha256"][kind]:
        problem = ALTERED if path.is_file() else "does not exist"
        raise UserError(str(path), problem, f"{rebuild_hint(folder.parent, 'figures')} {path.stem}")
    return path


def is_whole(path: Path, kinds: Iterable[str]) -> bool:
    """Check whether a figure and its pictures exist and are unchanged. path: its `.json`; kinds: such as `pdf`."""
    try:
        entry = figure(path)
        for kind in () if entry["empty"] else kinds:
            require_picture(path.parent, entry, kind)
    except (UserError, KeyError):
        return False
    return True


def tex(text: str) -> bytes:
    """Return the content of a file in `tex/`: the text, and its checksum as a comment in the last line."""
    return f"{text}{_END}{records.sha256_of(text.encode())}\n".encode()


def read_tex(path: Path, again: str) -> str:
    """Return the text of a file in `tex/` without its checksum. Raises UserError if the file was altered.

    again: the hint of the error, which names the command that writes the file.
    """
    data = path.read_bytes()
    text, end, digest = data.rpartition(_END.encode())
    if not end:
        raise UserError(str(path), f"has no checksum: it {OLDER}, or {ALTERED}", again)
    if digest != f"{records.sha256_of(text)}\n".encode():
        raise UserError(str(path), ALTERED, again)
    return text.decode()
