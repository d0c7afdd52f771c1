"""A pack as a file: a ZIP whose bytes follow from its members alone, and that bears their checksums.

Members are stored as they are: what compresses writes other bytes in another version, and Parquet files, which are most
of a campaign, are compressed already. Who reads a pack believes nothing in it: neither names, nor sizes, nor links.
"""

import errno
import hashlib
import io
import os
import shutil
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from storelab.core import evidence, records, units
from storelab.core.errors import UserError, shown

Member = Path | bytes
SUMS = "SHA256SUMS"
WHEN = (1980, 1, 1, 0, 0, 0)  # of every member: the earliest that a ZIP can tell
CHUNK = 1 << 20
MOST_SUMS = 10**8  # bytes of the list, which is read as a whole: a million files
AGAIN = "fetch the pack again from where it came"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError)


def write(target: Path, members: Mapping[str, Member]) -> None:
    """The whole pack at `target`, or nothing. Raises UserError: a name that no pack may have, a file that changes."""
    for name in members:
        if wrong := _wrong_name(name):
            raise UserError(shown(name), f"cannot be in a pack: its name {wrong}", "give it another name")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            sums = {name: _add(archive, name, members[name]) for name in sorted(members)}
            _add(archive, SUMS, evidence.sums_text(sums))
        records.move_in(temporary, target)
    except OSError as error:
        if error.filename in (None, str(temporary)):  # a full disk is told without one
            error.filename = str(target)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, name: str, member: Member) -> str:
    """Returns its SHA-256."""
    info = zipfile.ZipInfo(name, WHEN)
    info.create_system = 3  # Unix, whose rights the next line has
    runs = isinstance(member, Path) and bool(member.stat().st_mode & stat.S_IXUSR)
    info.external_attr = (stat.S_IFREG | (0o755 if runs else 0o644)) << 16
    wanted = info.file_size = size_of(member)
    opened = io.BytesIO(member) if isinstance(member, bytes) else member.open("rb")
    with opened as source, archive.open(info, "w") as sink:
        digest, size = _copy(source, sink)
    if size != wanted:
        raise UserError(str(member), "changed while it was packed", "pack the campaign when nothing writes in it")
    return digest


def size_of(member: Member) -> int:
    return len(member) if isinstance(member, bytes) else member.stat().st_size


def _copy(source: BinaryIO, sink: BinaryIO) -> tuple[str, int]:
    """SHA-256 and size of what was copied."""
    digest, size = hashlib.sha256(), 0
    while part := source.read(CHUNK):
        sink.write(part)
        digest.update(part)
        size += len(part)
    return digest.hexdigest(), size


def extract(path: Path, folder: Path) -> dict[str, str]:
    """Write every member below `folder`, an empty one; name -> SHA-256 of the pack's own list.

    Raises UserError at the first member that is not what the list says, leads out of the folder, is a link, is missing
    or was added; what was written until then stays.
    """
    with _opened(path) as archive:
        infos = _members(path, archive)
        if SUMS not in infos:
            raise UserError(str(path), f"is no pack of storelab: it has no {SUMS}", AGAIN)
        listed = evidence.parsed_sums(_sums(path, archive), f"{path}: {SUMS}", AGAIN)
        _same_names(path, listed, infos)
        _room(path, folder, sum(info.file_size for info in infos.values()))
        now = time.time()
        for name in sorted(infos):
            _place(path, archive, infos[name], folder / name, listed.get(name))
            os.utime(folder / name, (now, now))  # one time for all: Snakemake finds nothing to be older than another
    return listed


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    if not path.is_file():
        raise UserError(str(path), "is a folder, no pack" if path.is_dir() else "is not there", "check the path")
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise UserError(str(path), f"is no pack, or a damaged one ({error})", AGAIN) from None
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise UserError(str(path), "is a damaged pack", AGAIN) from None
        raise
    with archive:
        yield archive


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Name -> file in the archive. Raises UserError for one that may not be there."""
    out: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        place = f"{path}: {shown(info.orig_filename)}"
        kind = stat.S_IFMT(info.external_attr >> 16)
        if wrong := _wrong_name(info.orig_filename.removesuffix("/")):
            raise UserError(place, f"its name {wrong}: nothing was unpacked", "no pack of storelab has such a name")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise UserError(place, "is a link or a device: nothing was unpacked", "no pack of storelab has one")
        if info.orig_filename in out:
            raise UserError(place, "is in the pack twice", AGAIN)
        if not info.orig_filename.endswith("/"):
            out[info.orig_filename] = info
    return out


def _wrong_name(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or any(part in ("", ".", "..") for part in parts):
        return "leads out of the folder"
    if not name.isprintable():
        return "has signs that cannot be printed"
    return "is too long" if len(name.encode()) > 1000 or max(len(p.encode()) for p in parts) > 255 else ""


def _same_names(path: Path, listed: Mapping[str, str], infos: Mapping[str, zipfile.ZipInfo]) -> None:
    if gone := sorted(listed.keys() - infos.keys()):
        raise UserError(f"{path}: {gone[0]}", f"is missing, though {SUMS} has it", AGAIN)
    if added := sorted(infos.keys() - listed.keys() - {SUMS}):
        raise UserError(f"{path}: {added[0]}", f"was added after it was packed: {SUMS} does not have it", AGAIN)


def _room(path: Path, folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        problem = f"holds {units.human_size(wanted)}, and {folder.parent} has {units.human_size(free)} free"
        raise UserError(str(path), problem, "unpack it on another disk")


@contextmanager
def _reading(path: Path, name: str) -> Iterator[None]:
    """What the ZIP cannot make sense of is a member that was changed."""
    try:
        yield
    except DAMAGE:
        raise _changed(path, name) from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # it said to look before the begin of the file
            raise _changed(path, name) from None
        raise


def _sums(path: Path, archive: zipfile.ZipFile) -> bytes:
    with _reading(path, SUMS):
        if archive.getinfo(SUMS).file_size > MOST_SUMS:
            raise ValueError
        return archive.read(SUMS)


def _place(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, digest: str | None) -> None:
    """`digest`: what it must have; None: of the list itself, which bears its own."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _reading(path, info.filename), archive.open(info) as source, target.open("xb") as sink:
        found, _ = _copy(source, sink)
    if digest not in (None, found):
        raise _changed(path, info.filename)
    if info.external_attr >> 16 & stat.S_IXUSR:
        target.chmod(target.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _changed(path: Path, name: str) -> UserError:
    return UserError(f"{path}: {name}", "was changed after it was packed", AGAIN)
