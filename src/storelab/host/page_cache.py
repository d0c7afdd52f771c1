"""The kernel's page cache of the files in folders of this machine: dropped, and looked at (level 2, measuring side; standard library only).

For cold reads of a store whose data lie here. It needs the right to read the files. Pages that are mapped or not yet written stay.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

PLACES = 64  # looked at in a file


class PageCache:
    """folders: where the files lie; none: on another machine, or in memory: nothing is dropped, and `facts()` says so."""

    def __init__(self, folders: list[str]):
        self.folders = folders
        self.drops = self.seen = self.cached = 0
        if folders:
            os.sync()  # what is not written cannot be dropped

    def drop(self) -> None:
        """Drop what is cached of all files, then look at the largest of them."""
        if not self.folders:
            return
        self.drops += 1
        files = [path for folder in self.folders for path in Path(folder).rglob("*") if path.is_file()]
        for path in files:
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(fd)
        if files:
            self._look(max(files, key=lambda path: path.stat().st_size))

    def _look(self, path: Path) -> None:
        """Whether bytes come without waiting for the disk."""
        size, fd = path.stat().st_size, os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead by the look itself
            for i in range(PLACES):
                self.seen += 1
                with contextlib.suppress(OSError):
                    self.cached += os.preadv(fd, [bytearray(1)], i * size // PLACES, os.RWF_NOWAIT) > 0
        finally:
            os.close(fd)

    def facts(self) -> dict[str, Any]:
        """For records: times dropped; which part of the largest file was still cached after it (None: could not be looked at)."""
        if not self.folders:
            return {"dropped": 0, "why": "the store's data are not on disks of this machine"}
        return {"dropped": self.drops, "still_cached": self.cached / self.seen if self.seen else None}
