"""Ways to fetch the planned ranges of one object: obstore (S3 and more), any fsspec file system, HTTP with several ranges a request.

A transport has `fetch(starts, stops)`: buffers in the order of the ranges, each of the length asked for, or an exception; and counts what
it sent in `requests`. None retries. Libraries are imported where they are used.
"""

import bisect
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from storelab.readplan import multipart

PARALLEL = 64  # requests in flight, unless told otherwise
TOGETHER = 10  # requests in flight of one call of obstore's `get_ranges`


class WrongAnswer(OSError):
    """The server answered with other bytes than were asked for."""


class Transport(Protocol):
    """What the planner needs. parallel: most requests in flight; requests: sent so far."""

    parallel: int
    requests: int

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Buffers of [start, stop), in order. Raises what the library raises, or WrongAnswer for another length."""


def _checked(parts: list[Any], starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
    if len(parts) != len(starts):
        raise WrongAnswer(f"{len(parts)} answers to {len(starts)} requests")
    for part, start, stop in zip(parts, starts, stops, strict=True):
        if isinstance(part, BaseException):  # fsspec puts errors among the results
            raise part
        if memoryview(part).nbytes != stop - start:
            raise WrongAnswer(f"{memoryview(part).nbytes} bytes came of {start} to {stop - 1}")
    return parts


class ObstoreTransport:
    """Object `path` of an obstore store (`obstore.store.S3Store(...)`), in threads of `get_ranges`: the least CPU a request in Python.

    Neighbours go to different threads, because `get_ranges` joins ranges that touch even with `coalesce=0`.
    """

    def __init__(self, store: Any, path: str, parallel: int = PARALLEL):
        self.store, self.path, self.parallel = store, path, parallel
        self.requests = 0
        self.threads = max(2, -(-parallel // TOGETHER))
        self.pool = ThreadPoolExecutor(self.threads)

    def _some(self, starts: list[int], stops: list[int]) -> list[Any]:
        import obstore

        return obstore.get_ranges(self.store, self.path, starts=starts, ends=stops, coalesce=0)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        starts, stops = [int(s) for s in starts], [int(s) for s in stops]
        self.requests += len(starts)
        lanes = min(self.threads, len(starts))
        if lanes <= 1:
            return _checked(self._some(starts, stops), starts, stops) if starts else []
        calls = [self.pool.submit(self._some, starts[i::lanes], stops[i::lanes]) for i in range(lanes)]
        parts: list[Any] = [None] * len(starts)
        for i, call in enumerate(calls):
            parts[i::lanes] = call.result()
        return _checked(parts, starts, stops)


class FsspecTransport:
    """File `path` of an fsspec file system that is asynchronous inside (s3fs, http, …) or of any other, by its `cat_ranges`."""

    def __init__(self, fs: Any, path: str, parallel: int = PARALLEL):
        self.fs, self.path, self.parallel = fs, path, parallel
        self.requests = 0

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        starts, stops = [int(s) for s in starts], [int(s) for s in stops]
        self.requests += len(starts)
        more = {"batch_size": self.parallel} if getattr(self.fs, "async_impl", False) else {}
        return _checked(self.fs.cat_ranges([self.path] * len(starts), starts, stops, on_error="raise", **more), starts, stops)


class HttpTransport:
    """Object behind a URL (presigned, or open to all), several ranges a request: for servers that truly answer them (nginx, XrdHttp).

    ranges: most in one request; header_bytes: most of a `Range` header (XrdHttp takes 1024 ranges, nginx and versitygw bound the head). Every
    part is taken from where it says that it lies, and must hold what was asked; a server that answers with the whole object, or with some
    of the ranges only, raises WrongAnswer. verify, ca_file: of the server's certificate.
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
    ):
        import urllib3

        self.url, self.parallel, self.ranges, self.header_bytes, self.headers = url, parallel, ranges, header_bytes, dict(headers or {})
        self.requests = 0
        trust = {"cert_reqs": "CERT_REQUIRED" if verify else "CERT_NONE"} | ({"ca_certs": ca_file} if ca_file else {})
        self.http = urllib3.PoolManager(maxsize=parallel, block=True, retries=False, **(trust if url.startswith("https") else {}))
        self.pool = ThreadPoolExecutor(parallel)

    def groups(self, starts: Sequence[int], stops: Sequence[int]) -> list[slice]:
        """Which ranges go into one request: at most `ranges`, `header_bytes`, and so few that all of `parallel` have work."""
        most = max(1, min(self.ranges, -(-len(starts) // self.parallel)))
        out, begin, length = [], 0, 6
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            more = len(f"{start}-{stop - 1},")
            if i > begin and (i - begin == most or length + more > self.header_bytes):
                out.append(slice(begin, i))
                begin, length = i, 6
            length += more
        return [*out, slice(begin, len(starts))] if len(starts) else []

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        starts, stops = [int(s) for s in starts], [int(s) for s in stops]
        groups = self.groups(starts, stops)
        self.requests += len(groups)
        calls = [self.pool.submit(self._group, starts[g], stops[g]) for g in groups]
        return _checked([part for call in calls for part in call.result()], starts, stops)

    def _group(self, starts: list[int], stops: list[int]) -> list[Any]:
        asked = [(a, b - 1) for a, b in zip(starts, stops, strict=True)]
        reply = self.http.request("GET", self.url, headers={**self.headers, "Range": multipart.range_header(asked)}, preload_content=False)
        try:
            mark = multipart.boundary(reply.headers.get("content-type", ""))
            place = multipart.content_range(reply.headers.get("content-range"))
            if reply.status != 206 or (mark is None and place is None):
                raise WrongAnswer(
                    f"{len(asked)} ranges were answered with status {reply.status}, Content-Range {reply.headers.get('content-range')!r}"
                )
            body = reply.read()
        finally:
            reply.drain_conn() if reply.status == 206 else reply.close()
        if mark is None:
            if [place[:2]] != asked:
                raise WrongAnswer(f"of {len(asked)} ranges, the first {asked[0]}, only {place[:2]} came")
            return [body]
        try:
            parts = sorted(multipart.parse(body, mark), key=lambda p: p.first)
        except multipart.Malformed as error:
            raise WrongAnswer(f"several ranges were answered with what cannot be read: {error}") from None
        begins = [p.first for p in parts]
        out = []
        for first, last in asked:
            at = bisect.bisect_right(begins, first) - 1
            if at < 0 or parts[at].last < last:
                raise WrongAnswer(f"of {len(asked)} ranges {len(parts)} parts came, without {first} to {last}")
            out.append(memoryview(parts[at].body)[first - begins[at] : last + 1 - begins[at]])
        return out
