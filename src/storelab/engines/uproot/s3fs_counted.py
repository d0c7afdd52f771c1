"""s3fs with retries off and everything counted: requests, bytes asked, bytes of bodies, bytes on the wire.

May import: s3fs, uproot, and no other engine. Requests and bodies are counted by botocore's events, wire
bytes by the kernel's `TCP_INFO` of sockets that are made here and read once more when they close.
`docs/sparse-reads.md` tells how this was verified; `tests/real/test_selection_reads.py` repeats it with a counting
proxy.
"""

import contextlib
import re
from concurrent.futures import Future
from typing import Any

import fsspec.asyn
import s3fs
import uproot.source.fsspec

from storelab.core import clock
from storelab.engines.common import s3_library
from storelab.engines.common.wire import Counts, Wire
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Endpoint

_RANGE = re.compile(r"bytes=(\d+)-(\d+)\Z")


class Counter:
    """Counts requests and answers, by events of the S3 client and the sockets of `wire`."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.requests = self.asked = self.body = 0
        self.statuses: dict[int, int] = {}

    def attach(self, events: Any) -> None:
        events.register("before-send.s3", self._sent)
        events.register("after-call.s3", self._answered)

    def _sent(self, request: Any = None, **_: Any) -> None:
        self.requests += 1
        value = request.headers.get("Range", "")
        if match := _RANGE.match(value.decode() if isinstance(value, bytes) else value):
            self.asked += int(match[2]) - int(match[1]) + 1

    def _answered(self, http_response: Any = None, parsed: Any = None, model: Any = None, **_: Any) -> None:
        status = http_response.status_code
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status < 300 and model is not None and model.name == "GetObject":
            self.body += int(parsed.get("ContentLength") or 0) or _length(parsed.get("ContentRange"))

    def now(self) -> Counts:
        return Counts(self.requests, self.asked, self.body, self.wire.bytes)


def _length(content_range: str | None) -> int:
    """Return the bytes that an answer without a length (in chunks) says to have; 0 where it does not say."""
    found = re.match(r"bytes (\d+)-(\d+)/", content_range or "")
    return int(found[2]) + 1 - int(found[1]) if found else 0


class OnceFileSystem(s3fs.S3FileSystem):
    """s3fs that tries once, raises errors instead of returning them among the results, and stops at `latest_ns`."""

    retries = 1  # attempts, not repetitions
    latest_ns = 2**63 - 1
    split = 0  # bytes; 0: not

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """As s3fs's, but raises FSTimeoutError once the clock passes `latest_ns`."""
        timeout_s = max(0.001, (self.latest_ns - clock.now_ns()) / 1e9)
        return fsspec.asyn.sync(self.loop, self._cat_file, path, start=start, end=end, timeout=timeout_s, **kwargs)

    async def _cat_ranges(
        self, paths: list[str], starts: list[int], ends: list[int], *args: Any, **kwargs: Any
    ) -> list[bytes]:
        """As s3fs's, but fetches ranges longer than `split` bytes in pieces, over several connections."""
        kwargs["on_error"] = "raise"
        cuts = [[*range(a, b, self.split or max(1, b - a)), b] for a, b in zip(starts, ends, strict=True)]
        counts = [len(cut) - 1 for cut in cuts]
        places = [path for path, n in zip(paths, counts, strict=True) for _ in range(n)]
        begins, stops = [a for cut in cuts for a in cut[:-1]], [b for cut in cuts for b in cut[1:]]
        parts = iter(await super()._cat_ranges(places, begins, stops, *args, **kwargs))
        return [next(parts) if n == 1 else b"".join(next(parts) for _ in range(n)) for n in counts]


def settings(endpoint: Endpoint, pool: int, read_timeout_s: int) -> dict[str, Any]:
    """Settings for the records; nothing secret."""
    return {
        "retries": 0,
        "max_pool_connections": pool,
        "addressing": endpoint.addressing,
        "region": endpoint.region,
        "verify_tls": endpoint.verify,
        "connect_timeout_s": 10,
        "read_timeout_s": read_timeout_s,
    }


def filesystem(endpoint: Endpoint, counter: Counter, chosen: dict[str, Any]) -> OnceFileSystem:
    """A new file system (no instance cache), not connected yet. chosen: `settings()`.

    Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. Raises UserError if they are
    missing.
    """
    own = s3_library.keys()
    fs = filesystems.made(
        OnceFileSystem,
        anon=False,
        session=filesystems.bare_session(),
        key=own.access_key,
        secret=own.secret_key,
        token=own.session_token,
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
    fs.connect()  # makes the client, sends nothing
    counter.attach(fs.s3.meta.events)
    return fs


def disconnect(fs: OnceFileSystem) -> None:
    """Close the connections."""
    with contextlib.suppress(fsspec.asyn.FSTimeoutError):
        fsspec.asyn.sync(fs.loop, fs.s3.__aexit__, None, None, None, timeout=2)


class _RecordingExecutor(uproot.source.fsspec.FSSpecLoopExecutor):
    def __init__(self) -> None:
        self.futures: list[Future] = []

    def submit(self, coroutine: Any) -> Future:
        self.futures.append(super().submit(coroutine))
        return self.futures[-1]


class CountedSource(uproot.source.fsspec.FSSpecSource):
    """uproot's fsspec source on a given file system (option `fs`), with access to its futures."""

    def _open(self) -> None:
        self._fs = self._fsspec_options["fs"]
        self._file_path = self._fs._strip_protocol(self._file_path_orig)
        self._open_file = contextlib.nullcontext()
        self._executor = _RecordingExecutor()
        self._async_impl = True
        self._closed = False

    @property
    def futures(self) -> list[Future]:
        """Futures of the transfers since this list was last cleared."""
        return self._executor.futures
