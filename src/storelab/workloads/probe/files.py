"""Ask questions to a mounted file system, about properties that analysis and CernVM-FS need."""

import errno
import fcntl
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from storelab.engines.contract import Job
from storelab.workloads.probe import byteranges
from storelab.workloads.probe.answers import Answer, Otherwise, Questions, confirm, demand
from storelab.workloads.probe.byteranges import MULTI
from storelab.workloads.probe.context import LISTED, SMALL, Context


class Files(Context):
    """The context for a mounted file system: a folder for this client, and a file with known content."""

    def __init__(self, job: Job):
        super().__init__(job)
        folder = Path(unquote(urlsplit(job.endpoint.url).path)) / self.bucket.name
        self.client_folder, self.known_path = folder / self.key(""), folder / self.known
        self.client_folder.mkdir(parents=True, exist_ok=True)

    def file(self, name: str) -> Path:
        """Write a small file of this client and return its path."""
        path = self.client_folder / name
        path.write_bytes(SMALL)
        return path


def _tried(act: Callable[[], object]) -> str | None:
    """Return None on success, or the name of the error."""
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return None


def _preads(c: Files, count: int) -> Answer:
    """Check `count` reads at different offsets of one open file."""
    ranges = byteranges.spread(count, len(c.body))
    with open(c.known_path, "rb") as f:
        wrong = [a for a, b in ranges if os.pread(f.fileno(), b - a + 1, a) != c.body[a : b + 1]]
    demand(not wrong, f"{len(wrong)} of {count} have wrong bytes, the first at {wrong[:1]}", Otherwise)
    return confirm(f"{count} preads, every byte compared")


def preadv(c: Files) -> Answer:
    """Check reading one range into several buffers. POSIX cannot read several ranges in one call."""
    buffers = [bytearray(n) for n in (100, 4096, 7)]
    with open(c.known_path, "rb") as f:
        got = os.preadv(f.fileno(), buffers, 5000)
    demand(b"".join(buffers) == c.body[5000 : 5000 + 4203] and got == 4203, f"{got} bytes, some wrong", Otherwise)
    return confirm("preadv into 3 buffers")


def beyond(c: Files) -> Answer:
    """Check that a read beyond the end of a file returns only the bytes that exist."""
    with open(c.known_path, "rb") as f:
        tail, past = os.pread(f.fileno(), 200, len(c.body) - 100), os.pread(f.fileno(), 10, len(c.body) + 10)
    demand(tail == c.body[-100:] and past == b"", f"{len(tail)} and {len(past)} bytes", Otherwise)
    return confirm("the part that exists, then none")


def atomic_rename(c: Files) -> Answer:
    """Check a rename over an existing file: open readers keep the old bytes, and new readers get the new bytes."""
    new, old = c.client_folder / "new", c.file("old")
    new.write_bytes(SMALL[::-1])
    with open(old, "rb") as f:
        new.rename(old)
        kept = f.read()
    demand(old.read_bytes() == SMALL[::-1] and not new.exists(), "the new bytes are not under the old name")
    demand(kept == SMALL, "a reader that had it open does not get the old bytes", Otherwise)
    return confirm("replaced in one step; a reader that had it open gets the old bytes")


def append(c: Files) -> Answer:
    """Check that nothing is lost if two writers append in turn."""
    path = c.client_folder / "append"
    with open(path, "ab", 0) as one, open(path, "ab", 0) as two:
        for i in range(50):
            (one, two)[i % 2].write(b"%07d\n" % i)
    demand(path.read_bytes() == b"".join(b"%07d\n" % i for i in range(50)), "lines of two writers are lost", Otherwise)
    return confirm("O_APPEND of two writers in turn, 50 lines")


def hard_link(c: Files) -> Answer:
    """Check that a hard link gives the same inode a second name."""
    path = c.file("link-source")
    failed = _tried(lambda: os.link(path, c.client_folder / "link"))
    demand(failed is None, f"link: {failed}")
    demand((c.client_folder / "link").stat().st_ino == path.stat().st_ino, "made, but with another inode", Otherwise)
    return confirm("same inode under two names")


def open_removed(c: Files) -> Answer:
    """Check that an open file can be read after it was removed."""
    path = c.file("removed")
    with open(path, "rb") as f:
        path.unlink()
        got = f.read()
    demand(got == SMALL, f"{len(got)} bytes", Otherwise)
    return confirm("a process that has it open can still read it")


def names(c: Files) -> Answer:
    """Check that names with spaces, Unicode, special characters and 255 bytes can be used and are listed."""
    tried = ("with space", "ümläut-日本", "a=b&c+d%e", "x" * 255)
    bad = [
        f"{n[:20]!r} {failed}"
        for n in tried
        if (failed := _tried(lambda n=n: (c.client_folder / n).write_bytes(SMALL)))
    ]
    listed = {p.name for p in c.client_folder.iterdir()}
    bad += [f"{n[:20]!r} not listed" for n in tried if n not in listed and not bad]
    demand(not bad, f"not {', '.join(bad)}", Otherwise)
    return confirm("space, Unicode, = & + %, 255 bytes")


def fsync(c: Files) -> Answer:
    """Check that fsync succeeds."""
    with open(c.client_folder / "fsync", "wb") as f:
        f.write(SMALL)
        f.flush()
        failed = _tried(lambda: os.fsync(f.fileno()))
    demand(failed is None, f"fsync: {failed}")
    return confirm("fsync accepted; whether it reaches the disk cannot be seen here")


def xattr(c: Files) -> Answer:
    """Check extended attributes, in which sites store checksums."""
    path = c.file("xattr")
    failed = _tried(lambda: os.setxattr(path, "user.storelab", b"17"))
    demand(failed is None, f"setxattr: {failed}")
    demand(os.getxattr(path, "user.storelab") == b"17", "kept, but with other bytes", Otherwise)
    return confirm("user.* kept")


def exclusive(c: Files) -> Answer:
    """Check that O_CREAT | O_EXCL fails for an existing file."""
    path = c.client_folder / "exclusive"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    failed = _tried(lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)))
    demand(failed is not None, "the same file can be created twice")
    demand(failed == "EEXIST", f"refused with {failed}", Otherwise)
    return confirm("the second one gets EEXIST")


def _locked(c: Files, lock: Callable[[int, int], None]) -> Answer:
    """Check that a lock of one process excludes another process."""
    path = c.file("lock")
    with open(path, "r+b") as f:
        failed = _tried(lambda: lock(f.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB))
        demand(failed is None, f"a lock is refused: {failed}")
        child = os.fork()
        if child == 0:
            with open(path, "r+b") as other:
                os._exit(1 if _tried(lambda: lock(other.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)) is None else 0)
        got = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    demand(got == 0, "two processes hold the lock at the same time")
    return confirm("excludes another process of this node")


def listing(c: Files) -> Answer:
    """Check that a folder with LISTED files is listed completely, with their sizes."""
    folder = c.client_folder / "many"
    folder.mkdir()
    wanted = {f"{i:04d}" for i in range(LISTED)}
    for name in sorted(wanted):
        (folder / name).write_bytes(b"x")
    found = {e.name: e.stat().st_size for e in os.scandir(folder)}
    demand(set(found) == wanted and set(found.values()) == {1}, f"{len(wanted & set(found))} of {LISTED} files listed")
    return confirm(f"{LISTED} files with their sizes")


QUESTIONS: Questions = {
    **{("ranges", f"multi-range {count}"): partial(_preads, count=count) for count in MULTI},
    ("ranges", "scattered read"): preadv,
    ("ranges", "range beyond the end"): beyond,
    ("objects", "atomic rename"): atomic_rename,
    ("objects", "append"): append,
    ("objects", "hard link"): hard_link,
    ("objects", "open file removed"): open_removed,
    ("objects", "key names"): names,
    ("objects", "synchronised writes"): fsync,
    ("checksums", "extended attributes"): xattr,
    ("conditional", "put if absent"): exclusive,
    ("conditional", "lock (flock)"): partial(_locked, lock=fcntl.flock),
    ("conditional", "lock (fcntl)"): partial(_locked, lock=fcntl.lockf),
    ("listing", "a folder of 1001"): listing,
}
CONTEXT = Files
