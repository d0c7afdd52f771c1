"""Write a pack, unpack and check it on another machine, and make tables and figures again to compare them.

A pack is a ZIP file whose bytes depend only on its members. Members are not compressed, because different versions of a
compressor write different bytes. The largest part of a campaign are Parquet files, which are already compressed. A pack
is not trusted when it is read: names, sizes and links are checked.
"""

import errno
import hashlib
import io
import os
import shutil
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from storelab import __version__
from storelab.analysis.records.campaign import read_plan
from storelab.core import integrity, records, units
from storelab.core.errors import MeasurementFailed, UserError, shown

Member = Path | bytes
SUMS, METADATA = "SHA256SUMS", "ro-crate-metadata.json"
WHEN = (1980, 1, 1, 0, 0, 0)  # time stamp of all members, the earliest that a ZIP file can store
CHUNK = 1 << 20
MAX_SUMS = 10**8  # maximum size of the list of checksums in bytes (about a million files); it is read as a whole
AGAIN = "download the pack again from its source"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError)


def write(target: Path, members: Mapping[str, Member]) -> None:
    """Write a pack atomically. members: name in the pack -> file or content.

    Raises UserError if a name is not allowed in a pack, or if a file changes while it is packed.
    """
    for name in members:
        if wrong := _wrong_name(name):
            raise UserError(shown(name), f"cannot be in a pack: its name {wrong}", "rename the file")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            sums = {name: _add(archive, name, members[name]) for name in sorted(members)}
            _add(archive, SUMS, integrity.sums_text(sums))
        records.move_in(temporary, target)
    except OSError as error:
        if error.filename in (None, str(temporary)):  # if the disk is full, the error has no file name
            error.filename = str(target)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, name: str, member: Member) -> str:
    """Add a member to the archive, and return its SHA-256 checksum."""
    info = zipfile.ZipInfo(name, WHEN)
    info.create_system = 3  # 3 is Unix, so that the permissions below are used
    runs = isinstance(member, Path) and bool(member.stat().st_mode & stat.S_IXUSR)
    info.external_attr = (stat.S_IFREG | (0o755 if runs else 0o644)) << 16
    wanted = info.file_size = size_of(member)
    opened = io.BytesIO(member) if isinstance(member, bytes) else member.open("rb")
    with opened as source, archive.open(info, "w") as sink:
        digest, size = _copy(source, sink)
    if size != wanted:
        raise UserError(str(member), "changed while it was packed", "pack again when no process writes to the campaign")
    return digest


def size_of(member: Member) -> int:
    """Return the size of a member in bytes."""
    return len(member) if isinstance(member, bytes) else member.stat().st_size


def _copy(source: BinaryIO, sink: BinaryIO) -> tuple[str, int]:
    """Copy a stream, and return the SHA-256 checksum and the size of the copied bytes."""
    digest, size = hashlib.sha256(), 0
    while part := source.read(CHUNK):
        sink.write(part)
        digest.update(part)
        size += len(part)
    return digest.hexdigest(), size


def extract(path: Path, folder: Path) -> dict[str, str]:
    """Write all members of a pack to an empty folder, and return the list of the pack: name -> SHA-256 checksum.

    Raises UserError if a member differs from the list, has a path outside the folder, is a link, is missing, or is not
    in the list. Files that were written before are not removed.
    """
    with _opened(path) as archive:
        infos = _members(path, archive)
        if SUMS not in infos:
            raise UserError(str(path), f"is not a pack of storelab, because it has no {SUMS}", AGAIN)
        listed = integrity.parsed_sums(_sums(path, archive), f"{path}: {SUMS}", AGAIN)
        _same_names(path, listed, infos)
        _require_space(path, folder, sum(info.file_size for info in infos.values()))
        now = time.time()
        for name in sorted(infos):
            _place(path, archive, infos[name], folder / name, listed.get(name))
            # all files get the same time, so that Snakemake makes none of them again
            os.utime(folder / name, (now, now))
    return listed


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    if not path.is_file():
        raise UserError(str(path), "is a folder, not a pack" if path.is_dir() else "does not exist", "check the path")
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise UserError(str(path), f"is not a pack, or is damaged ({error})", AGAIN) from None
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise UserError(str(path), "is a damaged pack", AGAIN) from None
        raise
    with archive:
        yield archive


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the files in an archive: name -> entry. Raises UserError if a member is not allowed."""
    out: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        place = f"{path}: {shown(info.orig_filename)}"
        kind = stat.S_IFMT(info.external_attr >> 16)
        if wrong := _wrong_name(info.orig_filename.removesuffix("/")):
            problem = f"the name {wrong}, which storelab never writes: nothing was unpacked"
            raise UserError(place, problem, AGAIN)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise UserError(place, "is a link or a device, which storelab never packs: nothing was unpacked", AGAIN)
        if info.orig_filename in out:
            raise UserError(place, "is in the pack twice", AGAIN)
        if not info.orig_filename.endswith("/"):
            out[info.orig_filename] = info
    return out


def _wrong_name(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or any(part in ("", ".", "..") for part in parts):
        return "is a path outside the folder"
    if not name.isprintable():
        return "has characters that cannot be printed"
    return "is too long" if len(name.encode()) > 1000 or max(len(p.encode()) for p in parts) > 255 else ""


def _same_names(path: Path, listed: Mapping[str, str], infos: Mapping[str, zipfile.ZipInfo]) -> None:
    if gone := sorted(listed.keys() - infos.keys()):
        raise UserError(f"{path}: {gone[0]}", f"is missing, but {SUMS} lists it", AGAIN)
    if added := sorted(infos.keys() - listed.keys() - {SUMS}):
        raise UserError(f"{path}: {added[0]}", f"was added to the pack later: {SUMS} does not list it", AGAIN)


def _require_space(path: Path, folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        problem = f"needs {units.human_size(wanted)}, but {folder.parent} has only {units.human_size(free)} free"
        raise UserError(str(path), problem, "unpack it on another disk")


@contextmanager
def _reading(path: Path, name: str) -> Iterator[None]:
    """Return a context that reports data which cannot be read as a member that was changed."""
    try:
        yield
    except DAMAGE:
        raise _changed(path, name) from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # the archive refers to a position before the start of the file
            raise _changed(path, name) from None
        raise


def _sums(path: Path, archive: zipfile.ZipFile) -> bytes:
    with _reading(path, SUMS):
        if archive.getinfo(SUMS).file_size > MAX_SUMS:
            raise ValueError
        return archive.read(SUMS)


def _place(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, digest: str | None) -> None:
    """Write a member to `target` and check its SHA-256 checksum `digest` (None for the list of checksums)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _reading(path, info.filename), archive.open(info) as source, target.open("xb") as sink:
        found, _ = _copy(source, sink)
    if digest not in (None, found):
        raise _changed(path, info.filename)
    if info.external_attr >> 16 & stat.S_IXUSR:
        target.chmod(target.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _changed(path: Path, name: str) -> UserError:
    return UserError(f"{path}: {name}", "was changed after it was packed", AGAIN)


# --- unpack and rebuild ---

MAX_NAMED = 3  # maximum number of differing files that are named


@dataclass(frozen=True)
class Rebuilt:
    """The numbers of tables and figures that were made again with the same result.

    pictures: number of all pictures; same_pictures: number of pictures with the same bytes. Another version of
    matplotlib draws the same data with other bytes.
    """

    tables: int
    figures: int
    same_pictures: int
    pictures: int


def unpack(pack: Path, folder: Path) -> tuple[Path, int, bool]:
    """Unpack a pack. Returns the campaign's folder, the number of files, and True if the pack existed there before.

    No file is written to the folder unless the whole pack is valid. Raises UserError if the pack was changed, or if the
    folder has other content.
    """
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise UserError(str(folder), "exists and is not a folder", "choose another folder")
    there = folder.is_dir() and any(folder.iterdir())
    if not there:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    parent = None if there else folder if folder.is_dir() else folder.absolute().parent
    work = Path(tempfile.mkdtemp(prefix=".storelab-unpack-", dir=parent))
    try:
        listed = extract(pack, work)
        campaign = _campaign_of(pack, work)
        if there:
            _same_pack(work, folder, listed)
        else:
            _move_whole(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder / campaign, len(listed), there


def _move_whole(work: Path, folder: Path) -> None:
    """Move the unpacked files to their folder. A new folder is made by one rename.

    If the folder exists and is empty, the list of checksums is moved last. If the process is killed before, the folder
    has no list and is not treated as this pack.
    """
    if not folder.is_dir():
        os.umask(mask := os.umask(0))  # reading the mask is only possible by setting it
        work.chmod(0o777 & ~mask)
        os.replace(work, folder)
        return
    for child in sorted(work.iterdir(), key=lambda p: p.name == SUMS):
        os.replace(child, folder / child.name)


def _campaign_of(pack: Path, folder: Path) -> Path:
    """Return the path `results/<name>` of the campaign in an unpacked folder.

    Raises UserError if there is not exactly one campaign.
    """
    found = sorted(p.parent.parent.relative_to(folder) for p in folder.glob("results/*/raw/plan.json"))
    if len(found) != 1 or not (folder / METADATA).is_file():
        problem = f"is not a pack of storelab: it contains {len(found)} campaigns, or no {METADATA}"
        raise UserError(str(pack), problem, AGAIN)
    read_plan(folder / found[0])
    return found[0]


def _same_pack(work: Path, folder: Path, listed: dict[str, str]) -> None:
    """Raise UserError if a folder does not contain this pack, or if one of its files was changed."""
    sums, other = work / SUMS, folder / SUMS
    if not other.is_file() or other.read_bytes() != sums.read_bytes():
        raise UserError(str(folder), "is not empty and has other content", "choose a new folder")
    for name, digest in listed.items():
        place = folder / name
        if not place.is_file() or records.sha256(place) != digest:
            raise UserError(str(place), "was changed after it was unpacked", "choose a new folder, or remove this one")


def rebuild(campaign_dir: Path, jobs: int = 1) -> Rebuilt:
    """Make the tables and figures of an unpacked campaign again in a temporary folder, and compare them.

    Raises MeasurementFailed if a table has other bytes, or if a figure shows other data.
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
            more = f" and {len(differing) - MAX_NAMED} more" if len(differing) > MAX_NAMED else ""
            raise MeasurementFailed(
                f"{campaign_dir}: the rebuilt files differ: {', '.join(differing[:MAX_NAMED])}{more}; "
                f"the pack was made by storelab {_packed_by(campaign_dir)}, this is version {__version__}"
            )
        count = {kind: len(list((made / kind).glob(glob))) for kind, glob in kinds.items()}
        pictures = [p for glob in ("*.pdf", "*.png") for p in (made / "figures").glob(glob)]
        other = sum(1 for p in pictures if not _same(p, campaign_dir / "figures" / p.name))
    return Rebuilt(
        count["tables"], count["figures"] - 1, len(pictures) - other, len(pictures)
    )  # the index is not a figure


def _differing(packed: Path, made: Path, glob: str) -> list[str]:
    names = sorted({p.name for folder in (packed, made) for p in folder.glob(glob)})
    return [f"{packed.name}/{name}" for name in names if not _same(packed / name, made / name)]


def _same(one: Path, other: Path) -> bool:
    """Return True if two files are equal. For descriptions of figures, checksums of pictures are ignored."""
    if not (one.is_file() and other.is_file()):
        return False
    if one.suffix != ".json":
        return one.read_bytes() == other.read_bytes()
    return _content(records.read_json(one)) == _content(records.read_json(other))


def _content(content: Any) -> Any:
    """Return the content of the `.json` of a figure or of the index without checksums."""
    sums = ("sha256", *records.SUM_KEYS)
    return {k: _content(v) for k, v in content.items() if k not in sums} if isinstance(content, dict) else content


def _packed_by(campaign_dir: Path) -> str:
    graph = records.read_json(campaign_dir.parents[1] / METADATA)["@graph"]
    return next((e["softwareVersion"] for e in graph if e["@id"] == "#storelab"), "of another version")
