"""Questions to an XRootD door over root://, through XRootD's own Python bindings.

Vector reads are what ROOT sends: many ranges of one file in one request (`kXR_readv`).
"""

import zlib
from typing import Any
from urllib.parse import urlsplit

from storelab.engines.contract import Job
from storelab.workloads.probe import multirange
from storelab.workloads.probe.answers import Answer, Checks, NotTried, Otherwise, Refuted, demand, yes
from storelab.workloads.probe.context import Context

CHECKS = Checks()
SMALL = b"one small file of the probe"
TIMEOUT = 30
LISTED = 1001


class Root(Context):
    def __init__(self, job: Job):
        super().__init__(job)
        from XRootD import client

        parts = urlsplit(self.endpoint.url)
        self.client = client
        self.door = f"{parts.scheme}://{parts.netloc}"
        self.base = f"/{parts.path.strip('/')}".rstrip("/") + f"/{self.bucket.name}/"
        self.own = f"{self.base}{self.folder}{job.client}/"
        self.fs = client.FileSystem(self.door)

    def new_wire(self, timeout: float = 0.0) -> None:  # type: ignore[override]  # XrdCl has connections of its own
        return None

    def close(self) -> None:
        return

    def open(self, path: str, flags: Any = None) -> Any:
        """An open file. Raises Refuted."""
        from XRootD.client.flags import OpenFlags

        f = self.client.File()
        status, _ = f.open(f"{self.door}/{path}", OpenFlags.READ if flags is None else flags, timeout=TIMEOUT)
        demand(status.ok, f"open: {said(status)}")
        return f

    def write(self, name: str, body: bytes, exclusive: bool = False) -> None:
        """A whole file. Raises Refuted."""
        from XRootD.client.flags import OpenFlags

        f = self.open(self.own + name, (OpenFlags.NEW if exclusive else OpenFlags.DELETE) | OpenFlags.MAKEPATH)
        status, _ = f.write(body, timeout=TIMEOUT)
        closed, _ = f.close(timeout=TIMEOUT)
        demand(status.ok and closed.ok, f"write: {said(status if not status.ok else closed)}")

    def read(self, path: str, offset: int = 0, size: int = 0) -> bytes:
        f = self.open(path)
        try:
            status, data = f.read(offset, size, timeout=TIMEOUT)
            demand(status.ok, f"read: {said(status)}")
            return bytes(data)
        finally:
            f.close(timeout=TIMEOUT)


def said(status: Any) -> str:
    """What XRootD says, in a line."""
    return " ".join(str(status.message).split()).removeprefix("[ERROR] Server responded with an error: ")[:160]


@CHECKS.add("ranges", "single range")
def single(c: Root) -> Answer:
    data = c.read(c.base + c.known, 123456, 10000)
    demand(data == c.body[123456:133456], f"{len(data)} bytes, not those at 123456", Otherwise)
    return yes("10000 bytes at 123456")


@CHECKS.add("ranges", "range beyond the end")
def beyond(c: Root) -> Answer:
    data = c.read(c.base + c.known, len(c.body) - 100, 200)
    demand(data == c.body[-100:], f"{len(data)} bytes", Otherwise)
    return yes("the 100 bytes that exist")


def _vector(c: Root, count: int) -> Answer:
    """One vector read; offset, length and bytes of every chunk compared."""
    ranges = multirange.spread(count, len(c.body))
    f = c.open(c.base + c.known)
    try:
        status, info = f.vector_read([(a, b - a + 1) for a, b in ranges], timeout=TIMEOUT)
        demand(status.ok, f"{count} chunks in one vector read: {said(status)}")
        chunks = [(chunk.offset, chunk.length, bytes(chunk.buffer)) for chunk in info.chunks]
    finally:
        f.close(timeout=TIMEOUT)
    wrong = [
        a
        for (a, b), (o, n, data) in zip(ranges, chunks, strict=False)
        if (o, n) != (a, b - a + 1) or data != c.body[a : b + 1]
    ]
    demand(len(chunks) == count, f"{len(chunks)} of {count} chunks", Otherwise)
    demand(not wrong, f"{len(wrong)} of {count} chunks are not what stands there, the first at {wrong[:1]}", Otherwise)
    return yes(f"{count} chunks in one vector read, every offset and byte compared")


for _count in (2, 200, 1500):
    CHECKS.add("ranges", f"multi-range {_count}", _count)(_vector)


def config(c: Root, name: str) -> str:
    """What the server says of itself; '' where it does not."""
    from XRootD.client.flags import QueryCode

    status, answer = c.fs.query(QueryCode.CONFIG, name, timeout=TIMEOUT)
    value = bytes(answer or b"").decode(errors="replace").strip("\0\n ") if status.ok else ""
    return "" if value == name else value


@CHECKS.add("ranges", "bounds of a vector read")
def bounds(c: Root) -> Answer:
    chunks, size = config(c, "readv_iov_max"), config(c, "readv_ior_max")
    demand(bool(chunks), "the server does not tell readv_iov_max")
    return yes(
        f"{chunks} chunks of at most {size or '?'} bytes in one request", readv_iov_max=chunks, readv_ior_max=size
    )


@CHECKS.add("ranges", "more chunks than the bound, split")
def split(c: Root) -> Answer:
    """1500 chunks as a reader has to send them where one vector read takes fewer."""
    most = config(c, "readv_iov_max")
    if not most.isdigit():
        raise NotTried("the server tells no bound")
    ranges, step = multirange.spread(1500, len(c.body)), min(1500, int(most))
    f = c.open(c.base + c.known)
    right = 0
    try:
        for i in range(0, len(ranges), step):
            status, info = f.vector_read([(a, b - a + 1) for a, b in ranges[i : i + step]], timeout=TIMEOUT)
            demand(status.ok, f"a vector read of {len(ranges[i : i + step])} chunks: {said(status)}")
            got = zip(ranges[i : i + step], info.chunks, strict=False)
            right += sum((k.offset, bytes(k.buffer)) == (a, c.body[a : b + 1]) for (a, b), k in got)
    finally:
        f.close(timeout=TIMEOUT)
    demand(right == 1500, f"{right} of 1500 chunks are right", Otherwise)
    return yes(f"1500 chunks in {-(-1500 // step)} vector reads, every offset and byte compared")


@CHECKS.add("objects", "put, get, head")
def put_get_head(c: Root) -> Answer:
    c.write("object", SMALL)
    demand(c.read(c.own + "object") == SMALL, "read back otherwise")
    status, info = c.fs.stat(c.own + "object", timeout=TIMEOUT)
    demand(status.ok, f"stat: {said(status)}")
    demand(info.size == len(SMALL), f"stat says {info.size} bytes", Otherwise)
    return yes(f"stat says {info.size} bytes")


@CHECKS.add("objects", "missing object")
def missing(c: Root) -> Answer:
    status, _ = c.fs.stat(c.own + "never-written", timeout=TIMEOUT)
    demand(not status.ok, "stat of what is not there succeeds", Otherwise)
    demand(status.errno == 3011, f"{said(status)} instead of 'no such file' (3011)", Otherwise)
    return yes(said(status))


@CHECKS.add("objects", "overwrite and delete")
def delete(c: Root) -> Answer:
    c.write("delete", SMALL)
    c.write("delete", SMALL[::-1])
    demand(c.read(c.own + "delete") == SMALL[::-1], "the first content is read after the second was written")
    status, _ = c.fs.rm(c.own + "delete", timeout=TIMEOUT)
    demand(status.ok, f"rm: {said(status)}")
    demand(not c.fs.stat(c.own + "delete", timeout=TIMEOUT)[0].ok, "removed, and still there")
    return yes("gone")


@CHECKS.add("objects", "rename")
def rename(c: Root) -> Answer:
    c.write("move-source", SMALL)
    status, _ = c.fs.mv(c.own + "move-source", c.own + "move-target", timeout=TIMEOUT)
    demand(status.ok, f"mv: {said(status)}")
    demand(c.read(c.own + "move-target") == SMALL, "renamed, but other bytes")
    return yes("mv")


def _checksum(c: Root, name: str, wanted: str) -> Answer:
    """The server's own checksum of the known object."""
    from XRootD.client.flags import QueryCode

    status, answer = c.fs.query(QueryCode.CHECKSUM, f"{c.base}{c.known}?cks.type={name}", timeout=TIMEOUT)
    demand(status.ok, f"{said(status)}")
    kind, _, value = bytes(answer or b"").decode(errors="replace").strip("\0\n ").partition(" ")
    demand(kind == name, f"answered {kind} {value}", Otherwise)
    demand(value.lower() == wanted, f"{value} instead of {wanted}", Otherwise)
    return yes(f"{name} {value}, the known object's")


@CHECKS.add("checksums", "adler32")
def adler32(c: Root) -> Answer:
    return _checksum(c, "adler32", f"{zlib.adler32(c.body):08x}")


@CHECKS.add("checksums", "crc32c")
def crc32c(c: Root) -> Answer:
    table = [_castagnoli(i) for i in range(256)]
    crc = 0xFFFFFFFF
    for byte in c.body:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return _checksum(c, "crc32c", f"{crc ^ 0xFFFFFFFF:08x}")


def _castagnoli(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


@CHECKS.add("conditional", "put if absent")
def exclusive(c: Root) -> Answer:
    c.write("exclusive", SMALL)
    try:
        c.write("exclusive", b"intruder", exclusive=True)
    except Refuted as refused:
        demand(c.read(c.own + "exclusive") == SMALL, "refused, but its bytes are gone", Otherwise)
        return yes(f"{refused}; its bytes untouched")
    raise Refuted("a file that is there is made anew")


@CHECKS.add("listing", "a folder of 1001")
def listing(c: Root) -> Answer:
    wanted = {f"{i:04d}" for i in range(LISTED)}
    for name in sorted(wanted):
        c.write(f"many/{name}", b"x")
    status, found = c.fs.dirlist(f"{c.own}many", timeout=TIMEOUT)
    demand(status.ok, f"dirlist: {said(status)}")
    got = {entry.name for entry in found}
    demand(got == wanted, f"{len(got & wanted)} of {LISTED} files listed")
    return yes(f"dirlist, {LISTED} files")


@CHECKS.add("transfer", "third-party copy")
def tpc(c: Root) -> Answer:
    """What the server offers; no transfer is tried."""
    value = config(c, "tpc")
    demand(value not in ("", "0"), f"the server's configuration says {value or 'nothing of it'}")
    return yes(f"the server says tpc {value}")


CONTEXT = Root
