"""Read the planned ranges of one object: one transport for each client library.

`fetch(starts, stops)` of a transport returns buffers of the requested lengths, in the order of the ranges, or raises an
error. The transport counts its requests in `requests`, and never retries. obstore (S3 and others) and fsspec file
systems send one request per range. HTTP requests for several ranges, with answers of type `multipart/byteranges` (RFC
9110, 14.6), and vector reads over root:// combine several ranges. `probe()` tests whether a server correctly answers
several ranges, because many servers announce this but do not do it. Client libraries are imported only in the functions
that use them.
"""

import bisect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from typing import Any, Protocol

_CONTENT_RANGE = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)\s*\Z", re.IGNORECASE)
Range = tuple[int, int]  # first and last byte, both inclusive
PARALLEL = 64  # default number of requests in flight
TOGETHER = 10  # requests in flight of one call of `get_ranges` in obstore
MAX_HEAD = 600  # maximum bytes of the header of a part, including a gap that the server sends
FEW = 3  # number of ranges in the first test with several ranges


@dataclass(frozen=True)
class Part:
    """One part of a multipart answer: its bytes, the first and last position, and the size of the whole object."""

    first: int
    last: int
    total: int | None  # None if the server sends '*'
    body: bytes


class Malformed(ValueError):
    """The answer is not valid `multipart/byteranges`; the message states where the error is."""


def range_header(ranges: Sequence[Range]) -> str:
    """Return the value of the `Range` header."""
    return "bytes=" + ",".join(f"{a}-{b}" for a, b in ranges)


def content_range(text: str | None) -> tuple[int, int, int | None] | None:
    """Return (first, last, total) of a Content-Range header, or None if it is invalid. total is None for '*'."""
    found = _CONTENT_RANGE.match(text.strip()) if text else None
    if not found:
        return None
    first, last, total = int(found[1]), int(found[2]), None if found[3] == "*" else int(found[3])
    return (first, last, total) if first <= last and (total is None or last < total) else None


def boundary(content_type: str) -> str | None:
    """Return the boundary of the type `multipart/byteranges`, or None for other types."""
    head = Message()
    head["content-type"] = content_type
    return (head.get_boundary() or None) if head.get_content_type() == "multipart/byteranges" else None


def parse(body: bytes, mark: str) -> list[Part]:
    """Return the parts of an answer.

    The length of each part is taken from its Content-Range, because its data can contain the boundary. Raises
    Malformed.
    """
    delimiter = b"--" + mark.encode("latin-1")
    at = 0 if body.startswith(delimiter) else body.find(b"\r\n" + delimiter) + 2
    if at == 1:
        raise Malformed("the body does not contain the boundary")
    parts: list[Part] = []
    while True:
        if body[at : at + len(delimiter)] != delimiter:
            raise Malformed(
                f"no boundary at byte {at} after part {len(parts)}: the part is longer or shorter than its "
                "Content-Range"
            )
        at += len(delimiter)
        if body[at : at + 2] == b"--":
            return parts
        end = body.find(b"\r\n\r\n", at)
        if end < 0:
            raise Malformed(f"the header of part {len(parts) + 1} does not end")
        lines = [line.partition(":") for line in body[at:end].decode("latin-1").split("\r\n") if line.strip()]
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        place = content_range(headers.get("content-range"))
        if place is None:
            raise Malformed(f"part {len(parts) + 1} has no valid Content-Range ({headers.get('content-range')!r})")
        first, last, total = place
        begin = end + 4
        data = body[begin : begin + last - first + 1]
        if len(data) != last - first + 1:
            raise Malformed(f"the body ends inside part {len(parts) + 1}")
        parts.append(Part(first, last, total, data))
        at = begin + len(data)
        if body[at : at + 2] != b"\r\n":
            raise Malformed(f"part {len(parts)} is longer than its Content-Range")
        at += 2


class WrongAnswer(OSError):
    """The server returned bytes that were not requested. `status` is the HTTP status, or 0 if it is unknown."""

    error_class = "WrongAnswer"

    def __init__(self, message: str, status: int = 0):
        self.status = status
        super().__init__(message)


class Transport(Protocol):
    """The interface that the planner needs.

    A transport with several ranges per request also has `ranges`, `groups()` and `extra`. `ranges` is the maximum
    number of ranges per request and can be set. `groups(starts, stops)` returns slices of the ranges that share a
    request. `extra` counts the received bytes that do not belong to the object, for example headers of parts.

    Attributes
    ----------
    parallel
        Maximum number of requests in flight.
    requests
        Number of requests sent so far.
    """

    parallel: int
    requests: int

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Return buffers of [start, stop), in order.

        Raises the errors of the library, or WrongAnswer if a buffer has the wrong length.
        """

    def size(self) -> int:
        """Return the size of the object in bytes, by one request. Raises the same errors as `fetch()`."""


def messages(transport: Transport, starts: Sequence[int], stops: Sequence[int]) -> int:
    """Return the number of requests for these ranges."""
    groups = getattr(transport, "groups", None)
    return len(groups(starts, stops)) if groups else len(starts)


def checked(parts: list[Any], starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
    """Return the parts if each of them has the size of its range.

    Raises WrongAnswer if the number of parts or the size of a part is wrong. If a part is an exception, raises it.
    """
    if len(parts) != len(starts):
        raise WrongAnswer(f"the server returned {len(parts)} instead of {len(starts)} ranges")
    for part, start, stop in zip(parts, starts, stops, strict=True):
        if isinstance(part, BaseException):  # fsspec returns errors among the results
            raise part
        if memoryview(part).nbytes != stop - start:
            raise WrongAnswer(f"the server returned {memoryview(part).nbytes} B for bytes {start} to {stop - 1}")
    return parts


def known_size(size: int | None, path: str) -> int:
    """Return the size that a server reported. Raises WrongAnswer if the server did not report a size."""
    if size is None:
        raise WrongAnswer(f"the server does not report the size of {path}")
    return int(size)


class ObstoreTransport:
    """Object `path` of an obstore store (`obstore.store.S3Store(...)`), read by `get_ranges` in threads.

    This transport needs less CPU time per request than all others. Neighbouring ranges go to different threads, because
    `get_ranges` joins ranges that touch even with `coalesce=0`.
    """

    def __init__(self, store: Any, path: str, parallel: int = PARALLEL):
        self.store, self.path, self.parallel = store, path, parallel
        self.requests = 0
        self.threads = max(2, -(-parallel // TOGETHER))
        self.pool = ThreadPoolExecutor(self.threads)

    @classmethod
    def s3(cls, endpoint: str, bucket: str, path: str, parallel: int = PARALLEL, **settings: Any) -> "ObstoreTransport":
        """Return a transport for an S3 endpoint, with `settings` of `S3Store`.

        Plain HTTP is allowed for `http://` URLs.
        """
        from obstore.store import S3Store

        settings["client_options"] = {
            "allow_http": endpoint.startswith("http://"),
            **settings.get("client_options", {}),
        }
        return cls(S3Store(bucket, endpoint=endpoint, **settings), path, parallel)

    def size(self) -> int:
        """Return the size of the object in bytes, from a HEAD request."""
        import obstore

        self.requests += 1
        return int(obstore.head(self.store, self.path)["size"])

    def _fetch_several(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        import obstore

        return obstore.get_ranges(self.store, self.path, starts=starts, ends=stops, coalesce=0)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Return the bytes of each range, in order. Raises the errors of obstore, and WrongAnswer."""
        self.requests += len(starts)
        lanes = min(self.threads, len(starts))
        if lanes <= 1:
            return checked(self._fetch_several(starts, stops), starts, stops) if starts else []
        calls = [self.pool.submit(self._fetch_several, starts[i::lanes], stops[i::lanes]) for i in range(lanes)]
        parts: list[Any] = [None] * len(starts)
        for i, call in enumerate(calls):
            parts[i::lanes] = call.result()
        return checked(parts, starts, stops)

    def close(self) -> None:
        """Stop the threads. The connections close when the store object is deleted."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.store = None


class FsspecTransport:
    """File `path` of any fsspec file system, read by `cat_ranges`.

    Asynchronous file systems (s3fs, http, …) read ranges in parallel. Others (local files) read them one by one and
    have `parallel` 1. For root://, use `VectorTransport`. `owns` is True if only this transport uses the file system
    (`skip_instance_cache=True`). By default, fsspec gives all callers the same instance with the same connections.
    """

    def __init__(self, fs: Any, path: str, parallel: int = PARALLEL, owns: bool = False):
        self.fs, self.path, self.owns = fs, path, owns
        self.parallel = parallel if getattr(fs, "async_impl", False) else 1
        self.requests = 0

    def size(self) -> int:
        """Return the size of the file in bytes. Raises WrongAnswer if the server does not report it."""
        self.requests += 1
        return known_size(self.fs.size(self.path), self.path)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Return the bytes of each range, in order. Raises the errors of the file system, and WrongAnswer."""
        self.requests += len(starts)
        more = {"batch_size": self.parallel} if getattr(self.fs, "async_impl", False) else {}
        return checked(
            self.fs.cat_ranges([self.path] * len(starts), starts, stops, on_error="raise", **more), starts, stops
        )

    def close(self) -> None:
        """Close the connections if only this transport uses the file system and the file system supports closing."""
        if not self.owns:
            return
        session, sync = getattr(self.fs, "_session", None), getattr(self.fs, "close_session", None)
        if session is not None and sync is not None:
            sync(self.fs.loop, session)
        elif getattr(self.fs, "s3", None) is not None:
            from fsspec.asyn import sync as wait

            wait(self.fs.loop, self.fs.s3.__aexit__, None, None, None)


def grouped(weights: Sequence[int], ranges: int, most: int, parallel: int) -> list[slice]:
    """Return slices of neighbouring ranges that share a request.

    Each slice has at most `ranges` ranges with a total weight of at most `most`. Without these
    limits, there are at most `parallel` slices of similar length.
    """
    count = max(1, min(ranges, -(-len(weights) // parallel)))
    out, begin, total = [], 0, 0
    for i, weight in enumerate(weights):
        if i > begin and (i - begin == count or total + weight > most):
            out.append(slice(begin, i))
            begin, total = i, 0
        total += weight
    return [*out, slice(begin, len(weights))] if len(weights) else []


class HttpTransport:
    """An object at a URL (presigned or public), read with several ranges per request if the server supports it.

    nginx and XrdHttp support this. The Content-Range of each part gives its position, and the parts must cover the
    request. If a server returns the whole object, or only some of the ranges, `fetch()` raises WrongAnswer.

    Parameters
    ----------
    url
        URL of the object.
    parallel
        Maximum number of requests in flight.
    ranges
        Maximum number of ranges per request; XrdHttp accepts 1024.
    header_bytes
        Maximum length in bytes of the `Range` header; nginx and versitygw limit the header.
    headers
        Additional headers of each request.
    ca_file, verify
        Certificates of authorities that the client trusts, and False to accept any certificate of the server.
    timeout_s
        Seconds without an answer after which a request fails.
    certificate
        PEM file with the client's certificate and key.
    """

    def __init__(
        self,
        url: str,
        parallel: int = 16,
        ranges: int = 500,
        header_bytes: int = 7000,
        headers: Mapping[str, str] | None = None,
        ca_file: str | None = None,
        verify: bool = True,
        timeout_s: float = 120.0,
        certificate: str = "",
    ):
        import urllib3

        self.url, self.headers = url, dict(headers or {})
        self.parallel, self.ranges, self.header_bytes = parallel, ranges, header_bytes
        self.requests = self.extra = 0
        self.lock = threading.Lock()
        trust: dict[str, Any] = {"cert_reqs": "CERT_REQUIRED" if verify else "CERT_NONE"}
        trust |= {"ca_certs": ca_file} if ca_file else {}
        trust |= {"cert_file": certificate} if certificate else {}
        self.http = urllib3.PoolManager(
            maxsize=parallel,
            block=True,
            retries=False,
            timeout=urllib3.Timeout(connect=10, read=timeout_s),
            **(trust if url.startswith("https") else {}),
        )
        self.pool = ThreadPoolExecutor(parallel)

    def groups(self, starts: Sequence[int], stops: Sequence[int]) -> list[slice]:
        """Return slices of ranges that share a request, within `ranges` and `header_bytes`.

        Without these limits, there are at most `parallel` slices of similar length.
        """
        lengths = [len(f"{start}-{stop - 1},") for start, stop in zip(starts, stops, strict=True)]
        return grouped(lengths, self.ranges, self.header_bytes - len("bytes="), self.parallel)

    def fitting(self, size: int) -> int:
        """Return a lower bound on the number of ranges that fit into the header of one request.

        size: the size of the object in bytes.
        """
        return max(1, (self.header_bytes - len("bytes=")) // (2 * len(str(size)) + 2))

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Return the bytes of each range, in order. Raises the errors of the HTTP library, and WrongAnswer."""
        groups = self.groups(starts, stops)
        calls = [self.pool.submit(self.ask, starts[g], stops[g]) for g in groups]
        return checked([part for call in calls for part in call.result()], starts, stops)

    def size(self) -> int:
        """Return the size of the object in bytes.

        The request is a GET of one byte, because a server rejects HEAD for a URL that was presigned for GET.
        """
        with self.lock:
            self.requests += 1
        reply = self.http.request(
            "GET", self.url, headers={**self.headers, "Range": "bytes=0-0"}, preload_content=False
        )
        try:
            place = content_range(reply.headers.get("content-range"))
            if reply.status == 206 and place:
                reply.read()
                return known_size(place[2], "the object")
            reply.close()  # the server sent the whole object, or an error
            raise WrongAnswer(
                f"the server answered the request for the object's size with status {reply.status}", reply.status
            )
        finally:
            reply.release_conn()

    def ask(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Send one request for all these ranges, and return their bytes. Raises the same errors as `fetch()`."""
        requested = [(a, b - 1) for a, b in zip(starts, stops, strict=True)]
        with self.lock:
            self.requests += 1
        reply = self.http.request(
            "GET", self.url, headers={**self.headers, "Range": range_header(requested)}, preload_content=False
        )
        try:
            mark = boundary(reply.headers.get("content-type", ""))
            place = content_range(reply.headers.get("content-range"))
            if reply.status != 206 or (mark is None and place is None):
                answer = f"status {reply.status}, Content-Range {reply.headers.get('content-range')!r}"
                raise WrongAnswer(
                    f"the server answered a request for {len(requested)} ranges with {answer}", reply.status
                )
            body = reply.read()
        except BaseException:
            reply.close()  # do not read the rest of the answer
            raise
        finally:
            reply.release_conn()  # otherwise the pool waits for it forever
        if mark is None:
            assert place is not None  # checked above
            if [place[:2]] != requested:
                raise WrongAnswer(
                    f"the server answered {len(requested)} ranges, the first {requested[0]}, with only {place[:2]}"
                )
            return [body]
        try:
            parts = sorted(parse(body, mark), key=lambda p: p.first)
        except Malformed as error:
            raise WrongAnswer(f"the answer to several ranges cannot be parsed: {error}") from None
        begins = [p.first for p in parts]
        out = []
        for first, last in requested:
            at = bisect.bisect_right(begins, first) - 1
            if at < 0 or parts[at].last < last:
                raise WrongAnswer(f"the {len(parts)} parts of {len(requested)} ranges do not contain {first} to {last}")
            out.append(memoryview(parts[at].body)[first - begins[at] : last + 1 - begins[at]])
        with self.lock:
            self.extra += len(body) - sum(stops) + sum(starts)
        return out

    def close(self) -> None:
        """Close all connections, without waiting for requests that are in flight."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.http.clear()


def probe(
    transport: HttpTransport, starts: Sequence[int], stops: Sequence[int], right: Callable[[int, Any], bool]
) -> list[dict[str, Any]]:
    """Test how many ranges the server correctly answers in one request, and set `transport.ranges` to this number.

    The first request has one range and must succeed; it raises the same errors as `fetch()`. The second has 3 ranges.
    The third has all ranges, up to the limit `ranges`. Each further request has a quarter of the ranges, until one
    succeeds. A wrong answer counts as a failure: the whole object, only the first range, or wrong bytes.

    Parameters
    ----------
    transport
        Transport of the object; its `ranges` is the limit, and is set.
    starts, stops
        Ranges with known content, ascending and far from each other.
    right
        Function right(i, bytes) that returns True if these are the bytes of range i.

    Returns
    -------
    list
        One mapping {ranges, answer} for each request.
    """
    most, seen = min(transport.ranges, transport.fitting(max(stops)), len(starts)), []

    def well(count: int) -> bool:
        chosen = [i * len(starts) // count for i in range(count)]
        a, b = [int(starts[i]) for i in chosen], [int(stops[i]) for i in chosen]
        before = transport.extra
        try:
            wrong = sum(not right(i, part) for i, part in zip(chosen, checked(transport.ask(a, b), a, b), strict=True))
            answer = f"{wrong} with wrong bytes" if wrong else "right"
            if (more := transport.extra - before) > MAX_HEAD * count:
                answer = f"{more} additional bytes"
        except WrongAnswer as error:
            failed = error.status == 429 or (error.status >= 500 and error.status != 501)  # 501: not implemented
            if count == 1 or failed:
                raise
            answer = str(error)
        seen.append({"ranges": count, "answer": answer})
        return answer == "right"

    transport.ranges = 1
    if well(1) and most >= FEW and well(FEW):
        transport.ranges = next((n for n in (most // 4**i for i in range(6)) if n > FEW and well(n)), FEW)
    return seen


class VectorTransport:
    """File `path` on a root:// server, read by vector reads of fsspec-xrootd.

    All reads share one connection. A vector read has at most the number of ranges that the server allows, usually 1024.
    Each range has at most 2 MiB; a longer range is split into several elements. `requests` counts the vector reads, the
    opening of the file, and the query of the server's limits. `fs` is an XRootDFileSystem, and `owns` is explained at
    `FsspecTransport`.
    """

    ELEMENT_BYTES = 16  # bytes of the header of each element in an answer (XRootD protocol, kXR_readv)

    def __init__(self, fs: Any, path: str, parallel: int = 4, owns: bool = False):
        self.fs, self.path, self.parallel, self.owns = fs, path, parallel, owns
        self.requests = self.extra = 0
        self.ranges = self.most = fs.default_max_num_chunks - 1
        self.longest = fs.default_max_chunk_size
        self.opened = False

    def _open(self) -> None:
        from fsspec.asyn import sync

        async def ask() -> tuple[int, int]:
            known = len(self.fs._dataserver_info_cache)
            self.requests += 1
            file = await self.fs._readonly_filehandle_cache._open(self.fs.unstrip_protocol(self.path), self.fs.timeout)
            limits: tuple[int, int] = await self.fs._get_max_chunk_info(file)
            self.requests += len(self.fs._dataserver_info_cache) > known
            return limits

        most, self.longest = sync(self.fs.loop, ask)
        self.most = most - 1  # fsspec-xrootd sends an empty vector after a full one, which is an error
        self.ranges = min(self.ranges, self.most)
        self.opened = True

    def close(self) -> None:
        """Close the files if only this transport uses the file system.

        The client of XRootD keeps its connection until the process ends.
        """
        if self.owns:
            self.fs._readonly_filehandle_cache.close_all()
        self.opened = False

    def size(self) -> int:
        """Return the size of the file in bytes. Raises WrongAnswer if the server does not report it."""
        self.requests += 1
        return known_size(self.fs.size(self.path), self.path)

    def groups(self, starts: Sequence[int], stops: Sequence[int]) -> list[slice]:
        """Return slices of ranges that share a vector read."""
        elements = [max(1, -(-(stop - start) // self.longest)) for start, stop in zip(starts, stops, strict=True)]
        return grouped(elements, self.ranges, self.most, self.parallel)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Return the bytes of each range, in order, read by vector reads. Raises OSError and WrongAnswer."""
        from fsspec.asyn import sync

        if not starts:
            return []
        if not self.opened:
            self._open()
        groups = self.groups(starts, stops)
        self.requests += len(groups)
        parts = sync(self.fs.loop, self._all, starts, stops, groups)
        self.extra += self.ELEMENT_BYTES * sum(
            max(1, -(-(stop - start) // self.longest)) for start, stop in zip(starts, stops, strict=True)
        )
        return checked(parts, starts, stops)

    async def _all(self, starts: list[int], stops: list[int], groups: list[slice]) -> list[Any]:
        import asyncio

        free = asyncio.Semaphore(self.parallel)

        async def some(group: slice) -> list[Any]:
            async with free:
                paths = [self.path] * (group.stop - group.start)
                found: list[Any] = await self.fs._cat_ranges(paths, starts[group], stops[group])
                return found

        return [part for parts in await asyncio.gather(*map(some, groups)) for part in parts]
