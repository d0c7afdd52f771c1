"""Engine `uproot-s3fs`: selection reads by uproot on s3fs, with a fixed gap for merging ranges, timed by phase.

All traffic is counted exactly. Events of botocore count requests and bodies. The kernel's `TCP_INFO` gives the wire
bytes of the sockets; it is also read when a socket closes. Retries are off. `docs/sparse-reads.md` describes how this
was verified. `tests/real/test_selection_reads.py` repeats it with a counting proxy.

The phases are: open (header, tree, branches), plan (ranges from uproot's branch metadata), transfer (one `chunks()`
call of uproot's source), verify (CRC-32 compared with the side-car file; not part of any phase), decompress
(`Model_TBasket`), and deserialise (uproot's interpretation, reduced to the wanted entries). Decoded data are not kept.
"""

import contextlib
import itertools
import math
import queue
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import Any

import cramjam  # noqa: F401 - uproot imports it at the first basket; this import must not be measured
import fsspec.asyn
import numpy as np
import pyarrow as pa
import s3fs
import uproot
import uproot.source.fsspec
from fsspec.asyn import FSTimeoutError
from uproot.models.TBasket import Model_TBasket
from uproot.source.coalesce import CoalesceConfig
from uproot.source.cursor import Cursor

from storelab.core import clock
from storelab.datasets.root import baskets
from storelab.datasets.root.baskets import branches_of
from storelab.datasets.root.by_uproot import how, interpret
from storelab.datasets.root.pages import Pages
from storelab.engines.common.selections import Done, Late, SelectionClient, WrongData, allowed_s, as_staged
from storelab.engines.common.wire import Counts, Wire
from storelab.engines.contract import Job
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Endpoint

_RANGE = re.compile(r"bytes=(\d+)-(\d+)\Z")


class TrafficCounter:
    """A counter of requests and answers, by events of the S3 client and by the sockets of `wire`."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.requests = self.asked = self.body = 0
        self.statuses: dict[int, int] = {}

    def attach(self, events: Any) -> None:
        events.register("before-send.s3", self._sent)
        events.register("after-call.s3", self._count_answer)

    def _sent(self, request: Any = None, **_: Any) -> None:
        self.requests += 1
        value = request.headers.get("Range", "")
        if match := _RANGE.match(value.decode() if isinstance(value, bytes) else value):
            self.asked += int(match[2]) - int(match[1]) + 1

    def _count_answer(self, http_response: Any = None, parsed: Any = None, model: Any = None, **_: Any) -> None:
        status = http_response.status_code
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status < 300 and model is not None and model.name == "GetObject":
            self.body += int(parsed.get("ContentLength") or 0) or _length(parsed.get("ContentRange"))

    def now(self) -> Counts:
        return Counts(self.requests, self.asked, self.body, self.wire.bytes)


def _length(content_range: str | None) -> int:
    """Return the length from the Content-Range of an answer that has no Content-Length (sent in chunks), or 0."""
    found = re.match(r"bytes (\d+)-(\d+)/", content_range or "")
    return int(found[2]) + 1 - int(found[1]) if found else 0


class OnceFileSystem(s3fs.S3FileSystem):
    """An s3fs without retries, which stops at `latest_ns`.

    It raises errors instead of returning them among the results.
    """

    retries = 1  # number of attempts, not of repetitions
    latest_ns = 2**63 - 1
    split = 0  # maximum length in bytes of a range; 0: do not split

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """Return the content like s3fs. Raises FSTimeoutError when the time `latest_ns` has passed."""
        timeout_s = max(0.001, (self.latest_ns - clock.now_ns()) / 1e9)
        return fsspec.asyn.sync(self.loop, self._cat_file, path, start=start, end=end, timeout=timeout_s, **kwargs)

    async def _cat_ranges(
        self, paths: list[str], starts: list[int], ends: list[int], *args: Any, **kwargs: Any
    ) -> list[bytes]:
        """Read ranges like s3fs, but split those longer than `split` bytes into pieces over several connections."""
        kwargs["on_error"] = "raise"
        cuts = [[*range(a, b, self.split or max(1, b - a)), b] for a, b in zip(starts, ends, strict=True)]
        counts = [len(cut) - 1 for cut in cuts]
        places = [path for path, n in zip(paths, counts, strict=True) for _ in range(n)]
        begins, stops = [a for cut in cuts for a in cut[:-1]], [b for cut in cuts for b in cut[1:]]
        parts = iter(await super()._cat_ranges(places, begins, stops, *args, **kwargs))
        return [next(parts) if n == 1 else b"".join(next(parts) for _ in range(n)) for n in counts]


def settings(endpoint: Endpoint, pool: int, read_timeout_s: int) -> dict[str, Any]:
    """Return the settings for the records, without secrets."""
    return {
        "retries": 0,
        "max_pool_connections": pool,
        "addressing": endpoint.addressing,
        "region": endpoint.region,
        "verify_tls": endpoint.verify,
        "connect_timeout_s": 10,
        "read_timeout_s": read_timeout_s,
    }


def filesystem(endpoint: Endpoint, counter: TrafficCounter, chosen: dict[str, Any]) -> OnceFileSystem:
    """Return a new file system, which is not shared and not connected yet. chosen: the result of `settings()`.

    Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. Raises UserError if they are
    missing.
    """
    keys = s3_clients.keys()
    fs = filesystems.made(
        OnceFileSystem,
        anon=False,
        session=filesystems.bare_session(),
        key=keys.access_key,
        secret=keys.secret_key,
        token=keys.session_token,
        endpoint_url=endpoint.url,
        client_kwargs=s3_clients.client_options(endpoint),
        config_kwargs=s3_clients.config_options(endpoint)
        | {
            "max_pool_connections": chosen["max_pool_connections"],
            "connect_timeout": chosen["connect_timeout_s"],
            "read_timeout": chosen["read_timeout_s"],
            "http_session_cls": filesystems.http_session(once=True),
            "connector_args": {"socket_factory": counter.wire.factory},
        },
        skip_instance_cache=True,
    )
    fs.connect()  # creates the client, but sends nothing
    counter.attach(fs.s3.meta.events)
    return fs


def disconnect(fs: OnceFileSystem) -> None:
    """Close the connections of a file system."""
    with contextlib.suppress(fsspec.asyn.FSTimeoutError):
        fsspec.asyn.sync(fs.loop, fs.s3.__aexit__, None, None, None, timeout=2)


class _RecordingExecutor(uproot.source.fsspec.FSSpecLoopExecutor):
    def __init__(self) -> None:
        self.futures: list[Future] = []

    def submit(self, coroutine: Any) -> Future:
        self.futures.append(super().submit(coroutine))
        return self.futures[-1]


class CountedSource(uproot.source.fsspec.FSSpecSource):
    """A source of uproot that reads from a given fsspec file system (option `fs`) and gives access to its futures."""

    def _open(self) -> None:
        self._fs = self._fsspec_options["fs"]
        self._file_path = self._fs._strip_protocol(self._file_path_orig)
        self._open_file = contextlib.nullcontext()
        self._executor = _RecordingExecutor()
        self._async_impl = True
        self._closed = False

    @property
    def futures(self) -> list[Future]:
        """Return the futures of the transfers since this list was last cleared."""
        return self._executor.futures


class Reader:
    """A ROOT file in a store, and the branches to read from it. After `latest_ns`, every phase raises Late.

    Parameters
    ----------
    fs
        File system.
    url
        Address of the file, `s3://bucket/key`.
    tree
        Name of the tree.
    side_car
        Result of `baskets.basket_table()` for the staged file.
    branches
        Names of the branches to read.
    gap
        Largest gap in bytes over which ranges are merged.
    """

    def __init__(self, fs: OnceFileSystem, url: str, tree: str, side_car: pa.Table, branches: list[str], gap: int):
        self.fs, self.url, self.name, self.branches, self.gap = fs, url, tree, branches, gap
        self.file: Any = None
        self.layout: baskets.Baskets | None = None
        staged = baskets.Baskets.from_table(side_car)
        rows, code = staged.chosen(branches)
        columns = (getattr(staged, k)[rows] for k in ("basket", "entry_start", "entry_stop", "offset", "size"))
        self.staged = baskets.Baskets(branches, code, *columns)
        self.crc = side_car["crc32"].to_numpy()[rows]

    def open(self) -> None:
        """Open the file, and read the tree's header with all branches.

        Raises Late, or the errors of uproot and s3fs.
        """
        try:
            file = uproot.open(
                {self.url: None},
                handler=CountedSource,
                fs=self.fs,
                coalesce_config=CoalesceConfig(max_range_gap=self.gap),
                object_cache=None,
                array_cache=None,
            )
            tree = file[self.name]
            self.file, self.source = file, tree.file.source
            self.look(tree)
        except FSTimeoutError:
            raise Late from None

    def look(self, tree: Any) -> None:
        """Find the branches of the tree, and the interpretation of the branches to read.

        Branches with objects need the file's class descriptions, which uproot reads when they are first used.
        """
        self.objects = branches_of(tree)
        for name in self.branches:
            how(self.objects[name])

    def found(self) -> baskets.Baskets:
        """Return the branches to read, from uproot's metadata."""
        return baskets.Baskets.from_tree(self.objects, self.branches)

    def plan(self, entries: np.ndarray) -> tuple[np.ndarray, int, list[tuple[int, int]]]:
        """Return `baskets.ranges()` of these entries, from uproot's metadata.

        Raises WrongData if the metadata differ from the side-car file.
        """
        if self.layout is None:
            found = self.found()
            as_staged(found, self.staged, self.crc, self.url)
            self.layout = found
        return baskets.ranges(self.layout, self.branches, entries)

    def transfer(self, ranges: list[tuple[int, int]]) -> list[Any]:
        """Read all ranges by one call of uproot's source, and return chunks in the same order.

        Each chunk has the length of its range.
        """
        if not ranges:
            return []  # the header already contained all data
        notifications: queue.Queue = queue.Queue()
        self.source.futures.clear()
        chunks = self.source.chunks([(offset, offset + size) for offset, size in ranges], notifications)
        for _ in chunks:
            try:
                chunk = notifications.get(timeout=max(0.0, (self.fs.latest_ns - clock.now_ns()) / 1e9))
            except queue.Empty:
                raise Late from None
            chunk.wait(insist=True)  # raises the error of the request, or OSError if the length is wrong
        return chunks

    def settle(self, timeout_s: float) -> None:
        """Wait for requests that are in flight after an error, then cancel them.

        Their bytes belong to the read that sent them.
        """
        if self.file is not None:
            for future in wait(self.source.futures, timeout=max(0.0, timeout_s)).not_done:
                future.cancel()

    def verify(self, rows: np.ndarray, chunks: list[Any]) -> None:
        """Raise WrongData for the first basket whose CRC-32 differs from the value in the side-car file."""
        for crc, chunk in zip(self.crc[rows].tolist(), chunks, strict=True):
            if zlib.crc32(chunk.raw_data) != crc:
                raise WrongData(
                    "ChecksumMismatch",
                    f"bytes {chunk.start} to {chunk.stop - 1} of {self.url} differ from the staged file",
                )

    def decompress(self, rows: np.ndarray, chunks: list[Any]) -> list[Any]:
        """Return uproot's basket objects, in the order of `rows`."""
        layout, file, out = self.layout, self.file.file, []
        for code, number, chunk in zip(layout.branch[rows].tolist(), layout.basket[rows].tolist(), chunks, strict=True):
            self._check_deadline()
            out.append(
                Model_TBasket.read(
                    chunk, Cursor(chunk.start), {"basket_num": number}, file, file, self.objects[layout.names[code]]
                )
            )
        return out

    def embedded(self, entries: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Return rows and basket objects for the baskets of these entries that are in the tree's header.

        These baskets need no transfer.
        """
        rows = baskets.embedded_rows(self.layout, self.branches, entries)
        return rows, [self.layout.inside[row] for row in rows.tolist()]

    def deserialise(self, rows: np.ndarray, data: Any, entries: np.ndarray) -> tuple[int, int, int]:
        """Make the arrays of `arrays()`, delete them, and return the numbers of branches, baskets, and decoded entries.

        data: the result of `decompress()`; baskets from the tree's header are added here.
        """
        inside, held = self.embedded(entries)
        n: Counter[str] = Counter()
        for name, array in self.arrays(np.concatenate((rows, inside)), data + held, entries):
            n[name] += len(array)
        return len(+n), len(rows) + len(inside), n.total()

    def arrays(self, rows: np.ndarray, data: list[Any], entries: np.ndarray) -> Iterator[tuple[str, Any]]:
        """Yield, for each branch, its name and the wanted entries as numpy array (numbers) or awkward array (others).

        Raises WrongData if the number of decoded entries of a branch differs from the number of wanted entries.
        """
        layout = self.layout
        known: dict[tuple[bytes, bytes], tuple[np.ndarray, np.ndarray]] = {}
        for code, positions in baskets.by_branch(layout, rows):
            self._check_deadline()
            start, stop = layout.entry_start[rows[positions]], layout.entry_stop[rows[positions]]
            # branches of a cluster have the same edges: search the entries only once
            key = (start.tobytes(), stop.tobytes())
            if key not in known:
                known[key] = _local(start, stop, entries)
            edges, wanted = known[key]
            array = interpret(self.objects[layout.names[code]], [data[p] for p in positions], edges)
            if len(array) == edges[-1] and len(wanted) < len(array):
                array = array[wanted]
            if len(array) != len(wanted):
                raise WrongData(
                    "EntriesMismatch",
                    f"{layout.names[code]}: {len(array)} entries were decoded instead of {len(wanted)}",
                )
            yield layout.names[code], array

    def _check_deadline(self) -> None:
        if clock.now_ns() > self.fs.latest_ns:
            raise Late


class TupleReader(Reader):
    """A reader of an RNTuple, which has fields and pages instead of branches and baskets."""

    def look(self, tree: Any) -> None:
        self.pages = Pages.of(tree, self.branches)

    def found(self) -> baskets.Baskets:
        return self.pages.layout

    def decompress(self, rows: np.ndarray, chunks: list[Any]) -> dict[int, np.ndarray]:
        """Return the uncompressed pages by their offset in the file."""
        self._check_deadline()
        return self.pages.unpack(rows, [chunk.raw_data for chunk in chunks])

    def deserialise(self, rows: np.ndarray, data: dict[int, np.ndarray], entries: np.ndarray) -> tuple[int, int, int]:
        n: Counter[str] = Counter()
        for name, array in self.pages.arrays(self.branches, data, entries):
            self._check_deadline()
            n[name] += len(array)
        return len(n), len(rows), n.total()


def _local(start: np.ndarray, stop: np.ndarray, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of concatenated baskets, shape (b + 1,), and positions of the wanted entries, shape (k,)."""
    edges = np.concatenate(([0], np.cumsum(stop - start)))
    basket = np.minimum(np.searchsorted(stop, entries, side="right"), len(stop) - 1)
    inside = (entries >= start[basket]) & (entries < stop[basket])
    return edges, (edges[:-1] - start)[basket[inside]] + entries[inside]


class UprootClient(SelectionClient):
    """A client that reads selections of ROOT files with uproot over s3fs."""

    engine = "uproot-s3fs"
    libraries = ("uproot", "s3fs", "fsspec", "awkward", "aiobotocore", "aiohttp", "numpy", "cramjam")

    def __init__(self, job: Job):
        super().__init__(job)
        self.counter = TrafficCounter()
        self.wire = self.counter.wire
        self.fs: OnceFileSystem | None = None
        axes = job.point.axes
        self.gap, self.pool, self.split = axes["max_range_gap"], axes.get("connections", 64), axes.get("split", 0)

    def connect(self, root: dict[str, Any]) -> None:
        """Create the file system and the reader. Nothing is sent."""
        endpoint = self.job.endpoint
        chosen = settings(endpoint, self.pool, math.ceil(allowed_s(self.duration_s)))
        self.settings = {**chosen, "max_range_gap_bytes": self.gap, "split_bytes": self.split, "coalescing": "uproot"}
        self.fs = filesystem(endpoint, self.counter, chosen)
        self.fs.split = self.split
        kind = TupleReader if root.get("format") == "RNTuple" else Reader
        self.reader = kind(
            self.fs, f"s3://{self.bucket.name}/{self.key}", root["tree"], self.side_car, self.branches, self.gap
        )

    def fresh(self) -> None:
        disconnect(self.fs)
        self.connect(self.root)

    def open_file(self) -> None:
        self.fs.latest_ns = self.latest_ns
        self.reader.open()

    def selection(self, entries: np.ndarray) -> Done:
        reader, stamps = self.reader, [clock.now_ns()]
        rows, needed, ranges = reader.plan(entries)
        stamps.append(clock.now_ns())
        chunks = reader.transfer(ranges)
        stamps.append(clock.now_ns())
        reader.verify(rows, chunks)
        stamps.append(clock.now_ns())
        data = reader.decompress(rows, chunks)
        stamps.append(clock.now_ns())
        branches, held, decoded = reader.deserialise(rows, data, entries)
        stamps.append(clock.now_ns())
        starts, stops = baskets.merge(*np.array(ranges, "i8").reshape(-1, 2).T, self.gap)
        lengths = stops - starts
        pieces = int((-(-lengths // self.split)).sum()) if self.split else len(starts)
        planned = int(lengths.sum())
        return Done(branches, held, decoded, needed, pieces, planned, *(b - a for a, b in itertools.pairwise(stamps)))

    def settle(self, timeout_s: float) -> None:
        self.reader.settle(timeout_s)

    def counts(self) -> Counts:
        return self.counter.now()

    def facts(self) -> dict[str, Any]:
        return {"statuses": {str(k): v for k, v in sorted(self.counter.statuses.items())}}

    def close(self) -> None:
        if self.fs is not None:
            with contextlib.suppress(OSError):
                disconnect(self.fs)
            self.fs = None
            super().close()
