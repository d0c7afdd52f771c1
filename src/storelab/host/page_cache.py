"""Drop files of this host from the kernel's page cache, and check the result. Standard library only.

If the data of a store are on this host, the next reads are cold. This process must be allowed to read the files. The
kernel does not drop pages that are mapped or not yet written.
"""

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storelab.host import proc

PLACES = 64  # number of checked positions, evenly distributed over all bytes
KERNEL = Path("/proc/sys/vm/drop_caches")
ALL = b"3"  # pages, dentries and inodes
TRIED = 2**20  # size in bytes of the test file in `counted`


class PageCache:
    """The page cache of the files of a store.

    Without folders, because the data are on other hosts or in memory, nothing is dropped.
    """

    def __init__(self, folders: Sequence[str]):
        self.folders = folders
        self.drops = self.seen = self.cached = self.files = 0
        if folders:
            os.sync()  # the kernel does not drop unwritten pages

    def drop(self) -> None:
        """Drop the cached pages of all files, then check at some positions that they are not cached."""
        if not self.folders:
            return
        self.drops += 1
        files = [path for folder in self.folders for path in Path(folder).rglob("*") if path.is_file()]
        self.files = len(files)
        for path in files:
            with contextlib.suppress(OSError), path.open("rb", buffering=0) as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.look(files)

    def look(self, files: Sequence[Path]) -> None:
        """Check positions in these files, and count those that can be read without waiting for the disk."""
        sizes = []
        for path in files:
            with contextlib.suppress(OSError):  # the file was removed in the meantime
                sizes.append((path.stat().st_size, path))
        total, begin, place = sum(size for size, _ in sizes), 0, 0
        for size, path in sizes:
            offsets = []
            while place < PLACES and (at := place * total // PLACES) < begin + size:
                offsets.append(at - begin)
                place += 1
            begin += size
            if offsets:
                self._look_at(path, offsets)

    def _look_at(self, path: Path, offsets: Sequence[int]) -> None:
        with contextlib.suppress(OSError), path.open("rb", buffering=0) as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # the check must not read ahead
            for offset in sorted({at for at in (_data(f.fileno(), o) for o in offsets) if at is not None}):
                self.seen += 1
                with contextlib.suppress(OSError):
                    self.cached += os.preadv(f.fileno(), [bytearray(1)], offset, os.RWF_NOWAIT) > 0

    @property
    def still_cached(self) -> float | None:
        """Return the fraction of the checked positions that was still cached after a drop; None if unknown."""
        return self.cached / self.seen if self.seen else None

    def facts(self) -> dict[str, Any]:
        """Return for records the number of drops, and the fraction that was still cached (None: unknown)."""
        if not self.folders:
            return {"dropped": 0, "why": "the store's data are not on disks of this machine"}
        return {"dropped": self.drops, "still_cached": self.still_cached}


def _data(descriptor: int, offset: int) -> int | None:
    """Return the next offset with data, or None. Holes of a file are skipped, because they need no disk access."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == errno.ENXIO else offset


def may_drop_all() -> bool:
    """Return True if this process may drop the whole page cache: it is root, and /proc is writable."""
    return os.access(KERNEL, os.W_OK)


def drop_all() -> None:
    """Drop the page cache of all files, and the kernel's data about folders and files. Raises OSError."""
    os.sync()
    with KERNEL.open("wb", buffering=0) as f:
        f.write(ALL)


def counted(folder: Path) -> bool | None:
    """Return True if the kernel counts reads of files in this folder as disk reads; None if this cannot be tested.

    The test writes an unnamed file, drops it from the page cache and reads it.
    """
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:
        return None
    try:
        os.pwrite(descriptor, os.urandom(TRIED), 0)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        before = proc.disk_reads(os.getpid())
        os.pread(descriptor, TRIED, 0)
        after = proc.disk_reads(os.getpid())
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if before is None or after is None else after - before >= 0.9 * TRIED
