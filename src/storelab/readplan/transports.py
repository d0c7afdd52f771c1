"""Ways to fetch the planned ranges of one object, one request each: obstore (S3 and more) and any fsspec file system.

A transport has `fetch(starts, stops)`: buffers in the order of the ranges, each of the length asked for, or an
exception. It counts what it sent in `requests`. None retries. Libraries are imported in the functions that use them.
For several ranges per request see `readplan.several`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

PARALLEL = 64  # requests in flight, by default
TOGETHER = 10  # requests in flight of one call of obstore's `get_ranges`


class WrongAnswer(OSError):
    """The server answered with other bytes than asked for; status: of the HTTP answer, 0 if unknown."""

    error_class = "WrongAnswer"

    def __init__(self, message: str, status: int = 0):
        self.status = status
        super().__init__(message)


class Transport(Protocol):
    """What the planner needs. parallel: most requests in flight; requests: sent so far.

    A transport that puts several ranges into a request also has `ranges` (most in one, may be set), `groups(starts,
    stops)` (slices of the ranges that share a request) and `extra` (bytes of answers that are not of the object, such
    as heads of parts, so far).
    """

    parallel: int
    requests: int

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Buffers of [start, stop), in order. Raises what the library raises, or WrongAnswer for a wrong length."""

    def size(self) -> int:
        """Bytes of the object, asked for with one request. Raises as `fetch()`."""


def messages(transport: Transport, starts: Sequence[int], stops: Sequence[int]) -> int:
    """How many requests these ranges make."""
    groups = getattr(transport, "groups", None)
    return len(groups(starts, stops)) if groups else len(starts)


def checked(parts: list[Any], starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
    if len(parts) != len(starts):
        raise WrongAnswer(f"{len(parts)} answers to {len(starts)} requests")
    for part, start, stop in zip(parts, starts, stops, strict=True):
        if isinstance(part, BaseException):  # fsspec puts errors among the results
            raise part
        if memoryview(part).nbytes != stop - start:
            raise WrongAnswer(f"{memoryview(part).nbytes} bytes came of {start} to {stop - 1}")
    return parts


def told(size: int | None, path: str) -> int:
    """A size that a server told. Raises WrongAnswer if it told none."""
    if size is None:
        raise WrongAnswer(f"the server does not tell the size of {path}")
    return int(size)


class ObstoreTransport:
    """Object `path` of an obstore store (`obstore.store.S3Store(...)`), by `get_ranges` in threads.

    This takes the least CPU per request in Python.

    Neighbours go to different threads, because `get_ranges` joins ranges that touch even with `coalesce=0`.
    """

    def __init__(self, store: Any, path: str, parallel: int = PARALLEL):
        self.store, self.path, self.parallel = store, path, parallel
        self.requests = 0
        self.threads = max(2, -(-parallel // TOGETHER))
        self.pool = ThreadPoolExecutor(self.threads)

    @classmethod
    def s3(cls, endpoint: str, bucket: str, path: str, parallel: int = PARALLEL, **settings: Any) -> "ObstoreTransport":
        """Of an S3 endpoint by its URL: plain HTTP is allowed where the URL says `http://`. settings: of `S3Store`."""
        from obstore.store import S3Store

        settings["client_options"] = {
            "allow_http": endpoint.startswith("http://"),
            **settings.get("client_options", {}),
        }
        return cls(S3Store(bucket, endpoint=endpoint, **settings), path, parallel)

    def size(self) -> int:
        import obstore

        self.requests += 1
        return int(obstore.head(self.store, self.path)["size"])

    def _some(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        import obstore

        return obstore.get_ranges(self.store, self.path, starts=starts, ends=stops, coalesce=0)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        self.requests += len(starts)
        lanes = min(self.threads, len(starts))
        if lanes <= 1:
            return checked(self._some(starts, stops), starts, stops) if starts else []
        calls = [self.pool.submit(self._some, starts[i::lanes], stops[i::lanes]) for i in range(lanes)]
        parts: list[Any] = [None] * len(starts)
        for i, call in enumerate(calls):
            parts[i::lanes] = call.result()
        return checked(parts, starts, stops)

    def close(self) -> None:
        """End the threads; its connections end with the store object."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.store = None


class FsspecTransport:
    """File `path` of any fsspec file system, by its `cat_ranges`.

    Asynchronous ones (s3fs, http, …) fetch in parallel; others (local files) one range after another, with `parallel`
    1. For root:// see `several.VectorTransport`. owns: whether nobody else uses the file system
    (`skip_instance_cache=True`): fsspec gives all callers the same one, and with it the same connections.
    """

    def __init__(self, fs: Any, path: str, parallel: int = PARALLEL, owns: bool = False):
        self.fs, self.path, self.owns = fs, path, owns
        self.parallel = parallel if getattr(fs, "async_impl", False) else 1
        self.requests = 0

    def size(self) -> int:
        self.requests += 1
        return told(self.fs.size(self.path), self.path)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        self.requests += len(starts)
        more = {"batch_size": self.parallel} if getattr(self.fs, "async_impl", False) else {}
        return checked(
            self.fs.cat_ranges([self.path] * len(starts), starts, stops, on_error="raise", **more), starts, stops
        )

    def close(self) -> None:
        """End the connections of a file system of its own, if that allows it; a shared one stays as it is."""
        if not self.owns:
            return
        session, sync = getattr(self.fs, "_session", None), getattr(self.fs, "close_session", None)
        if session is not None and sync is not None:
            sync(self.fs.loop, session)
        elif getattr(self.fs, "s3", None) is not None:
            from fsspec.asyn import sync as wait

            wait(self.fs.loop, self.fs.s3.__aexit__, None, None, None)
