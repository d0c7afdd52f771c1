"""A pack elsewhere: taken apart in a new folder, every member held against its checksum; tables and figures made anew
from the records and compared with those that were packed."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.analysis.artefact import archive, crate
from storelab.analysis.records.campaign import read_plan
from storelab.core import records
from storelab.core.errors import MeasurementFailed, UserError

MOST_NAMED = 3  # of files that differ


@dataclass(frozen=True)
class Rebuilt:
    """How many tables and figures were made anew, and came out the same; pictures: those whose bytes are the same, and
    all of them (another matplotlib draws the same data with other bytes)."""

    tables: int
    figures: int
    same_pictures: int
    pictures: int


def unpack(pack: Path, folder: Path) -> tuple[Path, int, bool]:
    """Folder of the campaign, number of files, whether this very pack lay there already.

    Nothing is placed unless all of it is whole. Raises UserError: the pack was changed, something else lies there.
    """
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise UserError(str(folder), "is there already, and is no folder", "give another folder")
    there = folder.is_dir() and any(folder.iterdir())
    if not there:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    beside = None if there else folder if folder.is_dir() else folder.absolute().parent
    work = Path(tempfile.mkdtemp(prefix=".storelab-unpack-", dir=beside))
    try:
        listed = archive.extract(pack, work)
        campaign = _campaign_of(pack, work)
        if there:
            _same_pack(work, folder, listed)
        else:
            _place(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder / campaign, len(listed), there


def _place(work: Path, folder: Path) -> None:
    """Into a new folder by one rename; into an empty one (it may be the working folder) with the list last: what a
    kill leaves has none, and is taken for something else."""
    if not folder.is_dir():
        work.chmod(0o777 & ~_umask())
        os.replace(work, folder)
        return
    for child in sorted(work.iterdir(), key=lambda p: p.name == archive.SUMS):
        os.replace(child, folder / child.name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _campaign_of(pack: Path, folder: Path) -> Path:
    """`results/<name>`. Raises UserError: there is none, or several."""
    found = sorted(p.parent.parent.relative_to(folder) for p in folder.glob("results/*/raw/plan.json"))
    if len(found) != 1 or not (folder / crate.METADATA).is_file():
        raise UserError(str(pack), f"holds {len(found)} campaigns: it is no pack of storelab", archive.AGAIN)
    read_plan(folder / found[0])
    return found[0]


def _same_pack(work: Path, folder: Path, listed: dict[str, str]) -> None:
    """Raises UserError where the folder holds anything but this pack, or a file of it that was changed since."""
    sums, other = work / archive.SUMS, folder / archive.SUMS
    if not other.is_file() or other.read_bytes() != sums.read_bytes():
        raise UserError(str(folder), "is not empty: something else lies there", "give a new folder")
    for name, digest in listed.items():
        place = folder / name
        if not place.is_file() or records.sha256(place) != digest:
            raise UserError(str(place), "is no longer as it was packed", "give a new folder, or remove this one")


def rebuild(campaign_dir: Path, jobs: int = 1) -> Rebuilt:
    """Make tables and figures of an unpacked campaign from its records, beside it, and compare.

    Raises MeasurementFailed where a table has other bytes, or a figure shows something else.
    """
    from storelab.analysis.figures import write as figures
    from storelab.analysis.tables import build as tables

    with tempfile.TemporaryDirectory(prefix="storelab-rebuild-") as place:
        made = Path(place) / campaign_dir.name
        made.mkdir()
        (made / "raw").symlink_to((campaign_dir / "raw").absolute())
        tables.build(made)
        figures.build(made, jobs=jobs)
        kinds = {"tables": "*.csv", "figures": "*.json"}
        differing = [
            name for kind, glob in kinds.items() for name in _differing(campaign_dir / kind, made / kind, glob)
        ]
        if differing:
            more = f" and {len(differing) - MOST_NAMED} more" if len(differing) > MOST_NAMED else ""
            raise MeasurementFailed(
                f"{campaign_dir}: came out different: {', '.join(differing[:MOST_NAMED])}{more}; "
                f"it was packed by storelab {_packed_by(campaign_dir)}, this is {__version__}"
            )
        count = {kind: len(list((made / kind).glob(glob))) for kind, glob in kinds.items()}
        pictures = [p for glob in ("*.pdf", "*.png") for p in (made / "figures").glob(glob)]
        other = sum(1 for p in pictures if not _same(p, campaign_dir / "figures" / p.name))
    return Rebuilt(
        count["tables"], count["figures"] - 1, len(pictures) - other, len(pictures)
    )  # the index is no figure


def _differing(packed: Path, made: Path, glob: str) -> list[str]:
    names = sorted({p.name for folder in (packed, made) for p in folder.glob(glob)})
    return [f"{packed.name}/{name}" for name in names if not _same(packed / name, made / name)]


def _same(one: Path, other: Path) -> bool:
    """Whether two files are the same, of figures without the sums of their pictures."""
    if not (one.is_file() and other.is_file()):
        return False
    if one.suffix != ".json":
        return one.read_bytes() == other.read_bytes()
    return _content(records.read_json(one)) == _content(records.read_json(other))


def _content(told: Any) -> Any:
    """What a figure's `.json`, or the index, says of the data."""
    sums = ("sha256", *records.SUM_KEYS)
    return {k: _content(v) for k, v in told.items() if k not in sums} if isinstance(told, dict) else told


def _packed_by(campaign_dir: Path) -> str:
    graph = records.read_json(campaign_dir.parents[1] / crate.METADATA)["@graph"]
    return next((e["softwareVersion"] for e in graph if e["@id"] == "#storelab"), "of another version")
