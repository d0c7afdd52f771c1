"""Ask questions to an XRootD server over root://, through the Python bindings of XRootD.

Vector reads are the requests that ROOT sends: many ranges of one file in one request (`kXR_readv`).
"""

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from XRootD import client
from XRootD.client.flags import OpenFlags, QueryCode

from readplan.transports import Range
from storelab.engines.contract import Job
from storelab.stores.protocols import filesystems
from storelab.workloads.probe import byteranges
from storelab.workloads.probe.answers import Answer, NotTried, Otherwise, Questions, Refuted, confirm, demand
from storelab.workloads.probe.byteranges import MULTI
from storelab.workloads.probe.context import LISTED, SMALL, Context, overwritten

WRITERS = 64  # number of parallel writers, because a redirector delays the creation of a file by a second or more
TIMEOUT = 30  # timeout in seconds, also for requests that the client of XRootD sends without an explicit timeout


class Root(Context):
    """The context for an XRootD server: a connection, paths for this client, and a known file."""

    def __init__(self, job: Job):
        super().__init__(job)
        filesystems.trust(self.endpoint)
        client.EnvPutInt("RequestTimeout", TIMEOUT)
        parts = urlsplit(self.endpoint.url)
        self.host_url = f"{parts.scheme}://{parts.netloc}"
        self.base = f"{parts.path.rstrip('/')}/{self.bucket.name}/"
        self.fs = client.FileSystem(self.host_url)

    def key(self, name: str) -> str:
        """Return the complete path of a file of this client."""
        return self.base + super().key(name)

    def open(self, path: str, flags: int = 0) -> Any:
        """Open a file, by default for reading. Raises Refuted."""
        f = client.File()
        _ok(f.open(f"{self.host_url}/{path}", flags or OpenFlags.READ), "open")
        return f

    def put(self, path: str, body: bytes, exclusive: bool = False) -> None:
        """Write a whole file. Raises Refuted."""
        f = self.open(path, (OpenFlags.NEW if exclusive else OpenFlags.DELETE) | OpenFlags.MAKEPATH)
        (status, _), (closed, _) = f.write(body), f.close()
        demand(status.ok and closed.ok, f"write: {status_text(closed if status.ok else status)}")

    def read(self, path: str, offset: int = 0, size: int = 0) -> bytes:
        """Read these bytes; with size 0, read all bytes. Raises Refuted."""
        with self.open(path) as f:
            return bytes(_ok(f.read(offset, size), "read"))

    def holds(self, path: str, body: bytes) -> bool:
        """Return True if the file has exactly these bytes. Raises Refuted if it cannot be read."""
        return self.read(path) == body

    def chunks(self, f: Any, ranges: list[Range]) -> list[tuple[Range, bytes]]:
        """Send one vector read of an open file, and return the chunks with their first and last byte.

        Raises Refuted.
        """
        info = _ok(f.vector_read([(a, b - a + 1) for a, b in ranges]), f"{len(ranges)} chunks in one vector read")
        return [((k.offset, k.offset + k.length - 1), bytes(k.buffer)) for k in info.chunks]


def _ok(answer: tuple[Any, Any], what: str) -> Any:
    """Return the value of an XRootD answer. Raises Refuted with `what` if its status is a failure."""
    status, value = answer
    demand(status.ok, f"{what}: {status_text(status)}")
    return value


def status_text(status: Any) -> str:
    """Return the message of XRootD on one line."""
    return " ".join(str(status.message).split()).removeprefix("[ERROR] Server responded with an error: ")[:160]


def single(c: Root) -> Answer:
    """Check that a read from the middle of a file returns the right bytes."""
    data = c.read(c.base + c.known, 123456, 10000)
    demand(data == c.body[123456:133456], f"{len(data)} bytes, not those at 123456", Otherwise)
    return confirm("10000 bytes at 123456")


def beyond(c: Root) -> Answer:
    """Check that a read beyond the end of a file returns only the bytes that exist."""
    data = c.read(c.base + c.known, len(c.body) - 100, 200)
    demand(data == c.body[-100:], f"{len(data)} bytes", Otherwise)
    return confirm("the 100 bytes that exist")


def _vector(c: Root, count: int) -> Answer:
    """Check offset, length and bytes of every chunk in one vector read."""
    ranges = byteranges.spread(count, len(c.body))
    with c.open(c.base + c.known) as f:
        chunks = c.chunks(f, ranges)
    wrong = [r[0] for r, chunk in zip(ranges, chunks, strict=False) if chunk != (r, c.body[r[0] : r[1] + 1])]
    demand(len(chunks) == count, f"{len(chunks)} of {count} chunks", Otherwise)
    demand(not wrong, f"{len(wrong)} of {count} chunks have wrong bytes, the first at {wrong[:1]}", Otherwise)
    return confirm(f"{count} chunks in one vector read, every offset and byte compared")


def config(c: Root, name: str) -> str:
    """Return a value of the server's configuration, or '' if the server does not report it."""
    status, answer = c.fs.query(QueryCode.CONFIG, name)
    value = bytes(answer or b"").decode(errors="replace").strip("\0\n ") if status.ok else ""
    return "" if value == name else value


def bounds(c: Root) -> Answer:
    """Return the maximum number and size of the chunks in one vector read, as reported by the server."""
    chunks, size = config(c, "readv_iov_max"), config(c, "readv_ior_max")
    demand(bool(chunks), "the server does not report readv_iov_max")
    return confirm(
        f"{chunks} chunks of at most {size or '?'} bytes in one request", readv_iov_max=chunks, readv_ior_max=size
    )


def split(c: Root) -> Answer:
    """Check 1500 chunks in several requests, for servers that accept fewer chunks in one vector read."""
    most = config(c, "readv_iov_max")
    demand(most.isdigit(), "the server reports no limit", NotTried)
    ranges, step = byteranges.spread(1500, len(c.body)), min(1500, int(most))
    with c.open(c.base + c.known) as f:
        got = [chunk for i in range(0, 1500, step) for chunk in c.chunks(f, ranges[i : i + step])]
    right = sum(chunk == (r, c.body[r[0] : r[1] + 1]) for r, chunk in zip(ranges, got, strict=False))
    demand(right == 1500, f"{right} of 1500 chunks are right", Otherwise)
    return confirm(f"1500 chunks in {-(-1500 // step)} vector reads, every offset and byte compared")


def put_get_head(c: Root) -> Answer:
    """Check that a new file is read back unchanged and that stat returns its size."""
    path = c.key("object")
    c.put(path, SMALL)
    demand(c.holds(path, SMALL), "read back with other bytes")
    info = _ok(c.fs.stat(path), "stat")
    demand(info.size == len(SMALL), f"stat reports {info.size} bytes", Otherwise)
    return confirm(f"stat reports {info.size} bytes")


def missing(c: Root) -> Answer:
    """Check that stat of a file that does not exist fails with `no such file`."""
    status, _ = c.fs.stat(c.key("never-written"))
    demand(not status.ok, "stat of a missing file succeeds", Otherwise)
    demand(status.errno == 3011, f"{status_text(status)} instead of 'no such file' (3011)", Otherwise)
    return confirm(status_text(status))


def delete(c: Root) -> Answer:
    """Check that a file does not exist after rm."""
    path = c.key("delete")
    overwritten(c, path)
    _ok(c.fs.rm(path), "rm")
    demand(not c.fs.stat(path)[0].ok, "removed, but it still exists")
    return confirm("gone")


def rename(c: Root) -> Answer:
    """Check that mv gives a file a new name."""
    old, new = c.key("move-source"), c.key("move-target")
    c.put(old, SMALL)
    _ok(c.fs.mv(old, new), "mv")
    demand(c.holds(new, SMALL), "renamed, but with other bytes")
    return confirm("mv")


def _checksum(c: Root, name: str, checksum: Callable[[bytes], int]) -> Answer:
    """Compare the server's checksum of the known object with the right one."""
    wanted = f"{checksum(c.body):08x}"
    status, answer = c.fs.query(QueryCode.CHECKSUM, f"{c.base}{c.known}?cks.type={name}")
    demand(status.ok, f"{status_text(status)}")
    kind, _, value = bytes(answer or b"").decode(errors="replace").strip("\0\n ").partition(" ")
    demand(kind == name, f"answered {kind} {value}", Otherwise)
    demand(value.lower() == wanted, f"{value} instead of {wanted}", Otherwise)
    return confirm(f"{name} {value}, the known object's")


def crc32c(body: bytes) -> int:
    """Return the CRC with the polynomial of Castagnoli, which none of the installed libraries provides."""
    table, crc = list(range(256)), 0xFFFFFFFF
    for _ in range(8):
        table = [(value >> 1) ^ (0x82F63B78 if value & 1 else 0) for value in table]
    for byte in body:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def exclusive(c: Root) -> Answer:
    """Check that an existing file cannot be created again, and that its content does not change."""
    path = c.key("exclusive")
    c.put(path, SMALL)
    try:
        c.put(path, b"intruder", exclusive=True)
    except Refuted as refused:
        demand(c.holds(path, SMALL), "refused, but the content was changed", Otherwise)
        return confirm(f"{refused}; its bytes unchanged")
    raise Refuted("an existing file can be created again")


def listing(c: Root) -> Answer:
    """Check that dirlist lists a folder with LISTED files completely."""
    wanted = {f"{i:04d}" for i in range(LISTED)}
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda name: c.put(c.key(f"many/{name}"), b"x"), sorted(wanted)))
    got = {entry.name for entry in _ok(c.fs.dirlist(c.key("many")), "dirlist")}
    demand(got == wanted, f"{len(got & wanted)} of {LISTED} files listed")
    return confirm(f"dirlist, {LISTED} files")


def tpc(c: Root) -> Answer:
    """Check the server's configuration. No transfer is tried."""
    value = config(c, "tpc")
    demand(value not in ("", "0"), f"the server's configuration has {f'tpc {value}' if value else 'no entry tpc'}")
    return confirm(f"the server reports tpc {value}")


QUESTIONS: Questions = {
    ("ranges", "single range"): single,
    ("ranges", "range beyond the end"): beyond,
    **{("ranges", f"multi-range {count}"): partial(_vector, count=count) for count in MULTI},
    ("ranges", "bounds of a vector read"): bounds,
    ("ranges", "more chunks than the bound, split"): split,
    ("objects", "put, get, head"): put_get_head,
    ("objects", "missing object"): missing,
    ("objects", "overwrite and delete"): delete,
    ("objects", "rename"): rename,
    ("checksums", "adler32"): partial(_checksum, name="adler32", checksum=zlib.adler32),
    ("checksums", "crc32c"): partial(_checksum, name="crc32c", checksum=crc32c),
    ("conditional", "put if absent"): exclusive,
    ("listing", "a folder of 1001"): listing,
    ("transfer", "third-party copy"): tpc,
}
CONTEXT = Root
