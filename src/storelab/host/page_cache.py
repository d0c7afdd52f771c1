"""The kernel's page cache of files on this machine: drop it, and check that it is dropped. Standard library only.

This makes reads cold if a store's data are here. It needs the right to read the files. Mapped pages and pages that are
not written yet stay.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

PLACES = 64  # checked in a file


class PageCache:
    """folders: where the files are; empty (data elsewhere, or in memory): drops nothing, and `facts()` says so."""

    def __init__(self, folders: list[str]):
        self.folders = folders
        self.drops = self.seen = self.cached = 0
        if folders:
            os.sync()  # unwritten pages cannot be dropped

    def drop(self) -> None:
        """Drop the cached pages of all files, then check the largest file."""
        if not self.folders:
            return
        self.drops += 1
        files = [path for folder in self.folders for path in Path(folder).rglob("*") if path.is_file()]
        for path in files:
            with contextlib.suppress(OSError), path.open("rb", buffering=0) as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if files:
            self._look(max(files, key=lambda path: path.stat().st_size))

    def _look(self, path: Path) -> None:
        """Count places whose bytes come without waiting for the disk."""
        size = path.stat().st_size
        with path.open("rb", buffering=0) as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # the check must not read ahead
            for i in range(PLACES):
                self.seen += 1
                with contextlib.suppress(OSError):
                    self.cached += os.preadv(f.fileno(), [bytearray(1)], i * size // PLACES, os.RWF_NOWAIT) > 0

    def facts(self) -> dict[str, Any]:
        """For records: how often dropped; the fraction of the largest file still cached afterwards (None: unknown)."""
        if not self.folders:
            return {"dropped": 0, "why": "the store's data are not on disks of this machine"}
        return {"dropped": self.drops, "still_cached": self.cached / self.seen if self.seen else None}
