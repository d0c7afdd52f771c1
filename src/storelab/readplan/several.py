"""Ways to fetch several planned ranges in one request: multi-range GET over HTTP, vector reads over root://.

Transports as in `readplan.transports`. `probe()` finds out whether a server really answers several ranges: many claim
it and do not.
"""

import bisect
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from storelab.readplan import multipart
from storelab.readplan.transports import WrongAnswer, checked, told

MOST_HEAD = 600  # bytes of a part's head, with a gap that a server may send along
FEW = 3  # ranges of the first question


def grouped(weights: Sequence[int], ranges: int, most: int, parallel: int) -> list[slice]:
    """Neighbours that share a request: at most `ranges`, of total weight `most`; `parallel` requests if possible."""
    count = max(1, min(ranges, -(-len(weights) // parallel)))
    out, begin, total = [], 0, 0
    for i, weight in enumerate(weights):
        if i > begin and (i - begin == count or total + weight > most):
            out.append(slice(begin, i))
            begin, total = i, 0
        total += weight
    return [*out, slice(begin, len(weights))] if len(weights) else []


class HttpTransport:
    """An object behind a URL (presigned or public), several ranges per request, for servers that answer them.

    nginx and XrdHttp do. ranges: most in one request; header_bytes: most of a `Range` header (XrdHttp takes 1024
    ranges, nginx and versitygw limit the head). Each part is placed by its own Content-Range, and must hold what was
    asked; a server that answers with the whole object, or with only some of the ranges, raises WrongAnswer. verify,
    ca_file: of the server's certificate; timeout_s: of a silent server, in seconds; certificate: PEM file of the
    client's own, with its key.
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
        """Which ranges share a request: at most `ranges` and `header_bytes`; `parallel` requests if possible."""
        lengths = [len(f"{start}-{stop - 1},") for start, stop in zip(starts, stops, strict=True)]
        return grouped(lengths, self.ranges, self.header_bytes - len("bytes="), self.parallel)

    def fitting(self, size: int) -> int:
        """Lower bound on how many ranges of an object of `size` bytes fit into one request's head."""
        return max(1, (self.header_bytes - len("bytes=")) // (2 * len(str(size)) + 2))

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        groups = self.groups(starts, stops)
        calls = [self.pool.submit(self.ask, starts[g], stops[g]) for g in groups]
        return checked([part for call in calls for part in call.result()], starts, stops)

    def size(self) -> int:
        """By a GET of one byte: a URL presigned for GET answers no HEAD."""
        with self.lock:
            self.requests += 1
        reply = self.http.request(
            "GET", self.url, headers={**self.headers, "Range": "bytes=0-0"}, preload_content=False
        )
        try:
            place = multipart.content_range(reply.headers.get("content-range"))
            if reply.status == 206 and place:
                reply.read()
                return told(place[2], "the object")
            reply.close()  # the whole object, or an error
            raise WrongAnswer(f"the question for its size was answered with status {reply.status}", reply.status)
        finally:
            reply.release_conn()

    def ask(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Send one request for all these ranges. Raises as `fetch()`."""
        asked = [(a, b - 1) for a, b in zip(starts, stops, strict=True)]
        with self.lock:
            self.requests += 1
        reply = self.http.request(
            "GET", self.url, headers={**self.headers, "Range": multipart.range_header(asked)}, preload_content=False
        )
        try:
            mark = multipart.boundary(reply.headers.get("content-type", ""))
            place = multipart.content_range(reply.headers.get("content-range"))
            if reply.status != 206 or (mark is None and place is None):
                said = f"status {reply.status}, Content-Range {reply.headers.get('content-range')!r}"
                raise WrongAnswer(f"{len(asked)} ranges were answered with {said}", reply.status)
            body = reply.read()
        except BaseException:
            reply.close()  # the rest of the answer is not wanted
            raise
        finally:
            reply.release_conn()  # else the pool waits for it for ever
        if mark is None:
            assert place is not None  # else it was refused above
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
        with self.lock:
            self.extra += len(body) - sum(stops) + sum(starts)
        return out

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.http.clear()


def probe(
    transport: HttpTransport, starts: Sequence[int], stops: Sequence[int], right: Callable[[int, Any], bool]
) -> list[dict[str, Any]]:
    """Find out how many of these ranges the server really answers in one request, and set `transport.ranges` to it.

    starts, stops: of known ranges, ascending, far from each other; right(i, bytes): whether these are the bytes of the
    i-th. First one range is asked for, which must work (raises what `fetch()` raises), then 3 together, then as many as
    there are and `ranges` allows, and a quarter of these until it works. An answer that is not what was asked (the
    whole object, the first range, wrong bytes) does not count. Returns what was seen: [{ranges, answer}].
    """
    most, seen = min(transport.ranges, transport.fitting(max(stops)), len(starts)), []

    def well(count: int) -> bool:
        chosen = [i * len(starts) // count for i in range(count)]
        a, b = [int(starts[i]) for i in chosen], [int(stops[i]) for i in chosen]
        before = transport.extra
        try:
            wrong = sum(not right(i, part) for i, part in zip(chosen, checked(transport.ask(a, b), a, b), strict=True))
            said = f"{wrong} with wrong bytes" if wrong else "right"
            if (more := transport.extra - before) > MOST_HEAD * count:
                said = f"{more} other bytes came with it"
        except WrongAnswer as error:
            failed = error.status == 429 or (error.status >= 500 and error.status != 501)  # 501: not implemented
            if count == 1 or failed:
                raise
            said = str(error)
        seen.append({"ranges": count, "answer": said})
        return said == "right"

    transport.ranges = 1
    if well(1) and most >= FEW and well(FEW):
        transport.ranges = next((n for n in (most // 4**i for i in range(6)) if n > FEW and well(n)), FEW)
    return seen


class VectorTransport:
    """File `path` on a root:// server, by the vector reads of fsspec-xrootd (`fs`: its XRootDFileSystem).

    One connection serves all. A vector read holds as many ranges as the server allows (usually 1024), each of at most
    2 MiB: a longer range takes several of its elements. requests: vector reads, the opening of the file, and the
    question what the server allows. owns: as of `FsspecTransport`.
    """

    ELEMENT_BYTES = 16  # in front of each element of an answer (XRootD protocol, kXR_readv)

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
        """Close the files of a file system of its own. XRootD's client keeps its connection until the process ends."""
        if self.owns:
            self.fs._readonly_filehandle_cache.close_all()
        self.opened = False

    def size(self) -> int:
        self.requests += 1
        return told(self.fs.size(self.path), self.path)

    def groups(self, starts: Sequence[int], stops: Sequence[int]) -> list[slice]:
        """Which ranges share a vector read."""
        elements = [max(1, -(-(stop - start) // self.longest)) for start, stop in zip(starts, stops, strict=True)]
        return grouped(elements, self.ranges, self.most, self.parallel)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
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
