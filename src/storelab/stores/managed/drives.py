"""Drives of a managed store that are separate file systems (setting `drive_size`), and the faults of a drive.

The images of the file systems are in `<data>.drives`, next to the store's data. `down` unmounts them, and removes only
images on tmpfs. Mounting needs root. A fault renames a drive, makes it read-only, or fills it.
"""

import ctypes
import errno
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from storelab.core import units
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.host.scratch import existing, filesystem

WHOLE = "drive-1"  # name of the drive of a store with all data on one drive
MIN_DRIVE = 64_000_000  # minimum size of a drive in bytes
BUSY_S = 10.0  # seconds until a drive must be idle after its daemons have ended
# The command initialises the whole file system, so that the kernel does not do this during a point.
MAKE = ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0")
FILLER = ".storelab-filler"
NOWHERE = "storelab-took-this-drive-away"
MIN_PIECE = 4096  # bytes; file systems do not allocate smaller pieces
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_libc = ctypes.CDLL(None, use_errno=True)


class Drives:
    """The drives of one managed store that are separate file systems. Without `drive_size`, there are none."""

    def __init__(self, store: Any):
        self.store = store
        self.size: int | None = getattr(store.settings, "drive_size", None)
        self.place = f"{store.place}.drive_size"

    def folders(self) -> dict[str, Path]:
        """Return the folder of each drive, by the name of its actor."""
        found = {actor: self.store.drive_folder(actor) for actor in self.store.data_actors()} if self.size else {}
        return {actor: folder for actor, folder in found.items() if folder}

    @property
    def images(self) -> Path:
        return self.store.data.with_name(f"{self.store.data.name}.drives")

    def require(self) -> None:
        """Raise UserError if drives cannot be created or mounted on this machine."""
        if not self.size:
            return
        if os.geteuid() != 0:
            problem = "a separate drive must be mounted, which needs root"
            raise UserError(self.place, problem, "run as root, or remove the setting")
        if missing := [name for name in (MAKE[0], "mount", "umount") if not shutil.which(name)]:
            raise UserError(self.place, f"the program {missing[0]} is missing", "install e2fsprogs and mount")
        if self.size < MIN_DRIVE:
            problem = f"{units.format_size(self.size)} is too small for a drive"
            raise UserError(self.place, problem, "set 64 MB or more")

    def mount(self) -> None:
        """Create missing images, and mount each image at its folder. Raises UserError, MeasurementFailed."""
        size, folders = self.size or 0, self.folders()
        if new := [actor for actor in folders if not self._image(actor).exists()]:
            free, needed = shutil.disk_usage(existing(self.images)).free, len(new) * size
            if needed > free:
                problem = f"{len(new)} drives of {units.human_size(size)} do not fit into {units.human_size(free)} free"
                raise UserError(self.place, problem, "make them smaller, or use another `directory`")
        for actor, folder in folders.items():
            if os.path.ismount(folder):
                continue
            image = self._image(actor)
            if image.exists() and image.stat().st_size != size:
                was = units.human_size(image.stat().st_size)
                raise UserError(
                    self.place,
                    f"the data are on drives of {was}",
                    f"set `drive_size` to {was}, or remove {image.parent}",
                )
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if any(p.name != ".storelab" for p in folder.iterdir()):
                hint = "remove `drive_size`, or use a new `directory`"
                raise UserError(self.place, f"{folder} contains data that are not on a separate drive", hint)
            if not image.exists():
                self._make(image, size)
            _run("mount", "-t", "ext4", "-o", "loop", str(image), str(folder))
            folder.chmod(0o700)
            with suppress(OSError):
                (folder / "lost+found").rmdir()  # a store would treat it as its own data

    def _image(self, actor: str) -> Path:
        return self.images / f"{actor}.img"

    @staticmethod
    def _make(image: Path, size: int) -> None:
        image.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = image.with_suffix(".making")
        with open(partial, "wb") as f:
            f.truncate(size)
        _run(*MAKE, str(partial))
        partial.replace(image)

    def unmount(self) -> None:
        """Unmount all images, and remove images on tmpfs. Raises MeasurementFailed if a drive stays busy."""
        for folder in self.folders().values():
            end = time.monotonic() + BUSY_S
            while os.path.ismount(folder):
                done = processes.run_command(["umount", str(folder)])
                if done.returncode and time.monotonic() > end:
                    raise MeasurementFailed(
                        f"{self.store.place}: {folder} cannot be unmounted: {processes.words(done)}"
                    )
                time.sleep(0.05 if done.returncode else 0)
        settings = self.store.settings
        if settings.backing == "tmpfs" and not settings.directory and self.images.exists():
            shutil.rmtree(self.images)

    def in_memory(self) -> bool:
        """Return whether the images are on tmpfs. The type of the file systems in them does not matter."""
        return bool(self.folders()) and filesystem(self.images) == "tmpfs"

    def free_bytes(self) -> int:
        """Return the free space for objects in bytes. The fullest drive limits it; copies are taken into account."""
        folders = self.folders().values()
        free = min(shutil.disk_usage(f).free if os.path.ismount(f) else self.size or 0 for f in folders)
        return int(free * len(folders) / self.raw_share())

    def capacity_bytes(self) -> int:
        """Return the space for objects on the empty drives, in bytes."""
        folders = self.folders().values()
        usage = [shutil.disk_usage(f) for f in folders if os.path.ismount(f)]
        least = min((u.used + u.free for u in usage), default=self.size or 0)
        return int(least * len(folders) / self.raw_share())

    def raw_share(self) -> float:
        """Return the number of raw bytes for each stored byte.

        `replica-N` stores N copies; `ec-K-M` stores K + M shards of size 1/K.
        """
        kind, *numbers = str(getattr(self.store.settings, "redundancy", "none")).split("-")
        counts = [int(n) for n in numbers]
        return float(counts[0]) if kind == "replica" else sum(counts) / counts[0] if kind == "ec" else 1.0


# Faults of a drive, which is a folder


def away(drive: Path) -> Path:
    """Return the path of a removed drive. It is next to the original path, so that renaming does not copy data."""
    return drive.with_name(f".{drive.name}.away")


def require_removable(drive: Path, how: str, place: str, separate_disk: bool = False) -> None:
    """Raise UserError if a drive cannot be removed in this way."""
    if how == "read-only" and os.geteuid() != 0:
        raise UserError(place, "a read-only drive needs a mount, which needs root", "run as root, or use `how: gone`")
    if how == "gone" and separate_disk:
        problem = f"{drive.name} is a mounted file system, which cannot be renamed"
        raise UserError(place, problem, "use `how: read-only`, or remove `drive_size`")


def remove(drive: Path, how: str) -> None:
    """Remove a drive in one step for all processes that use it.

    A dangling link replaces it, because otherwise a writing store would create the folder again.
    """
    if how == "gone":
        away(drive).symlink_to(NOWHERE)
        _exchange(drive, away(drive))
        return
    _run("mount", "--bind", str(drive), str(drive))
    _run("mount", "-o", "remount,bind,ro", str(drive))


def give_back(drive: Path, how: str) -> None:
    """Undo `remove`. Do nothing if it was already undone."""
    if how == "read-only":
        while _read_only(drive):
            _run("umount", str(drive))
        return
    if drive.is_symlink() and away(drive).is_dir():
        _exchange(drive, away(drive))
    if away(drive).is_symlink():
        away(drive).unlink()


def _exchange(one: Path, other: Path) -> None:
    """Exchange two names in one step (renameat2(2))."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise MeasurementFailed(f"{one.name} cannot be renamed: {os.strerror(number)}")


def _read_only(drive: Path) -> bool:
    """Return whether the last mount at this folder is the read-only mount that `remove` makes."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    here = [line.split() for line in lines if line.split()[4] == str(drive).replace(" ", "\\040")]
    return bool(here) and "ro" in here[-1][5].split(",")


def require_full(drive: Path, place: str) -> None:
    """Raise UserError if a drive must not be filled, because it shares its file system with others."""
    there = drive if drive.exists() else away(drive)
    if not os.path.ismount(there):
        raise UserError(
            place,
            f"{drive.name} is on a disk that others use, and filling it would harm them",
            "give the store separate drives (`drive_size`), or remove `fill`",
        )


def fill(drive: Path) -> int:
    """Fill all the remaining space of a drive, and return the number of bytes written."""
    at, size = 0, 1 << (max(1, shutil.disk_usage(drive).total) - 1).bit_length()
    with open(drive / FILLER, "ab") as f:
        while size >= MIN_PIECE:
            try:
                os.posix_fallocate(f.fileno(), at, size)
                at += size
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EFBIG):
                    raise
                size //= 2
    return at


def empty(drive: Path) -> None:
    """Undo `fill`."""
    for place in (drive, away(drive)):
        (place / FILLER).unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = processes.run_command(command, 120.0)
    if done.returncode:
        raise MeasurementFailed(f"`{' '.join(command[:2])} … {command[-1]}` failed: {processes.words(done)}")
