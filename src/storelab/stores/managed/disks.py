"""Drives of a managed store that are file systems of their own (setting `drive_size`): images, mounted in their places.

The images lie beside the store's data, in `<data>.drives`. They stay while the data stay: `down` unmounts them, and
removes those in memory. Mounting needs root. May import: what `stores` may.
"""

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from storelab.core import units
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.host.folders import existing, filesystem
from storelab.stores.managed.target import Target

WHOLE = "drive-1"  # of a store that has all its data on one
LEAST = 64_000_000  # bytes of a drive
BUSY_S = 10.0  # that a drive may stay busy after its daemons have ended
MAKE = ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0")  # nothing later, in a point


class Disks(Target):
    """Part of every managed store; without the setting it changes nothing."""

    @property
    def drive_size(self) -> int | None:
        return getattr(self.settings, "drive_size", None)

    def data_actors(self) -> list[str]:
        return [WHOLE] if self.drive_size else []

    def drive_folder(self, actor: str) -> Path | None:
        return self.data if self.drive_size and actor == WHOLE else None

    def disks(self) -> dict[str, Path]:
        """The place of each drive that is a file system of its own, by its actor."""
        found = {actor: self.drive_folder(actor) for actor in self.data_actors()} if self.drive_size else {}
        return {actor: folder for actor, folder in found.items() if folder}

    @property
    def images(self) -> Path:
        return self.data.with_name(f"{self.data.name}.drives")

    def require_drives(self) -> None:
        """Raises UserError where drives cannot be made or mounted here."""
        if not (size := self.drive_size):
            return
        place = f"{self.place}.drive_size"
        if os.geteuid() != 0:
            raise UserError(place, "a drive of its own is a mount, which needs root", "run as root, or leave it out")
        if missing := [name for name in (MAKE[0], "mount", "umount") if not shutil.which(name)]:
            raise UserError(place, f"the program {missing[0]} is missing", "install e2fsprogs and mount")
        if size < LEAST:
            raise UserError(place, f"{units.format_size(size)} are too small for a drive", "give 64 MB or more")

    def mount(self) -> None:
        """Make the images that are missing, and mount each in its place. Idempotent. Raises UserError,
        MeasurementFailed."""
        size, place = self.drive_size or 0, f"{self.place}.drive_size"
        if new := [a for a in self.disks() if not self._image(a).exists()]:
            free, needed = shutil.disk_usage(existing(self.images)).free, len(new) * size
            if needed > free:
                told = f"{len(new)} drives of {units.human_size(size)} do not fit into {units.human_size(free)} free"
                raise UserError(place, told, "make them smaller, or give another `directory`")
        for actor, folder in self.disks().items():
            if os.path.ismount(folder):
                continue
            image = self._image(actor)
            if image.exists() and image.stat().st_size != size:
                was = units.human_size(image.stat().st_size)
                raise UserError(place, f"the data are on drives of {was}", f"set it back, or remove {image.parent}")
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if any(p.name != ".storelab" for p in folder.iterdir()):
                mend = "leave `drive_size` out, or give a new `directory`"
                raise UserError(place, f"{folder} holds data that are on no drive of their own", mend)
            if not image.exists():
                self._make(image, size)
            _run("mount", "-t", "ext4", "-o", "loop", str(image), str(folder))
            folder.chmod(0o700)
            with suppress(OSError):
                (folder / "lost+found").rmdir()  # a store would take it for its own

    def _image(self, actor: str) -> Path:
        return self.images / f"{actor}.img"

    @staticmethod
    def _make(image: Path, size: int) -> None:
        image.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        half = image.with_suffix(".making")
        with open(half, "wb") as f:
            f.truncate(size)
        _run(*MAKE, str(half))
        half.replace(image)

    def unmount(self) -> None:
        """Undo `mount`; images in memory go. Idempotent. Raises MeasurementFailed where a drive stays busy."""
        for folder in self.disks().values():
            end = time.monotonic() + BUSY_S
            while os.path.ismount(folder):
                done = processes.ask(["umount", str(folder)])
                if done.returncode and time.monotonic() > end:
                    raise MeasurementFailed(f"{self.place}: {folder} stays mounted: {processes.words(done)}")
                time.sleep(0.05 if done.returncode else 0)
        if self.settings.backing == "tmpfs" and not self.settings.directory and self.images.exists():
            shutil.rmtree(self.images)

    # What it tells

    def memory_only(self) -> bool:
        return super().memory_only() or bool(self.disks() and filesystem(self.images) == "tmpfs")

    def raw_share(self) -> float:
        """Raw bytes for each byte stored: `replica-N` keeps N copies, `ec-K-M` K + M shards of K."""
        kind, *numbers = str(getattr(self.settings, "redundancy", "none")).split("-")
        of = [int(n) for n in numbers]
        return float(of[0]) if kind == "replica" else sum(of) / of[0] if kind == "ec" else 1.0

    def free_bytes(self) -> int | None:
        """Of drives of its own: room for objects, as the fullest has it, copies taken into account."""
        if not (disks := self.disks()):
            return super().free_bytes()
        free = min(shutil.disk_usage(d).free if os.path.ismount(d) else self.drive_size or 0 for d in disks.values())
        return int(free * len(disks) / self.raw_share())

    def capacity_bytes(self) -> int | None:
        """Room for objects on empty drives of its own; None where others use its disk too."""
        if not (disks := self.disks()):
            return None
        usage = [shutil.disk_usage(d) for d in disks.values() if os.path.ismount(d)]
        least = min((u.used + u.free for u in usage), default=self.drive_size or 0)
        return int(least * len(disks) / self.raw_share())

    def deployment(self) -> dict[str, Any]:
        told = {"drive_size_bytes": self.drive_size, "drives_on": filesystem(self.images)} if self.disks() else {}
        return super().deployment() | told

    def require_full(self, actor: str, place: str) -> None:
        if actor not in self.disks():  # mounted or not yet: it will be
            super().require_full(actor, place)


def _run(*command: str) -> None:
    done = processes.ask(command, 120.0)
    if done.returncode:
        raise MeasurementFailed(f"`{' '.join(command[:2])} … {command[-1]}` failed: {processes.words(done)}")
