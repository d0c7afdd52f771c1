"""Ways to fetch the planned ranges of one object, a request each: obstore (S3 and more) and any fsspec file system.

A transport has `fetch(starts, stops)`: buffers in the order of the ranges, each of the length asked for, or an exception; and counts what
it sent in `requests`. None retries. Libraries are imported where they are used. Those of several ranges a request: `readplan.several`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

PARALLEL = 64  # requests in flight, unless told otherwise
TOGETHER = 10  # requests in flight of one call of obstore's `get_ranges`


class WrongAnswer(OSError):
    """The server answered with other bytes than were asked for; `status` of the answer, where that tells."""

    def __init__(self, message: str, status: int = 0):
        self.status = status
        super().__init__(message)


class Transport(Protocol):
    """What the planner needs. parallel: most requests in flight; requests: sent so far.

    One that puts several ranges into a request has also `ranges`: most of them in one, may be set; `groups(starts, stops)`: which go together, as
    slices; `extra`: bytes of answers beside those of the object, where it knows them (heads of parts), so far.
    """

    parallel: int
    requests: int

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """Buffers of [start, stop), in order. Raises what the library raises, or WrongAnswer for another length."""


def messages(transport: Transport, starts: Sequence[int], stops: Sequence[int]) -> int:
    """How many requests these ranges will be."""
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
            return checked(self._some(starts, stops), starts, stops) if starts else []
        calls = [self.pool.submit(self._some, starts[i::lanes], stops[i::lanes]) for i in range(lanes)]
        parts: list[Any] = [None] * len(starts)
        for i, call in enumerate(calls):
            parts[i::lanes] = call.result()
        return checked(parts, starts, stops)

    def close(self) -> None:
        """Its connections end with the store object."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.store = None


class FsspecTransport:
    """File `path` of an fsspec file system that is asynchronous inside (s3fs, http, …) or of any other, by its `cat_ranges`.

    Others (local files) are asked for one range after another: `parallel` is 1 there. For root:// see `several.VectorTransport`.
    """

    def __init__(self, fs: Any, path: str, parallel: int = PARALLEL):
        self.fs, self.path = fs, path
        self.parallel = parallel if getattr(fs, "async_impl", False) else 1
        self.requests = 0

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        starts, stops = [int(s) for s in starts], [int(s) for s in stops]
        self.requests += len(starts)
        more = {"batch_size": self.parallel} if getattr(self.fs, "async_impl", False) else {}
        return checked(
            self.fs.cat_ranges([self.path] * len(starts), starts, stops, on_error="raise", **more), starts, stops
        )

    def close(self) -> None:
        """End its connections, where the file system lets it."""
        session, sync = getattr(self.fs, "_session", None), getattr(self.fs, "close_session", None)
        if session is not None and sync is not None:
            sync(self.fs.loop, session)
        elif getattr(self.fs, "s3", None) is not None:
            from fsspec.asyn import sync as wait

            wait(self.fs.loop, self.fs.s3.__aexit__, None, None, None)
