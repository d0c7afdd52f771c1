"""Transports with one range in a request: fsspec, obstore; their requests, results, refusals and closing."""

import threading
from types import SimpleNamespace

import fsspec
import numpy as np
import pytest
from fsspec.asyn import get_loop
from range_server import range_server

from readplan import FsspecTransport, HttpTransport, ObstoreTransport, PlannedSource, transports
from readplan.transports import WrongAnswer, checked, messages

DATA = bytes(np.random.default_rng(3).integers(0, 256, 60_000, dtype=np.uint8))


class Files:
    """An fsspec file system in memory; `asked` has what each call got. change: what it gives for the right bytes."""

    def __init__(self, asynchronous=False, change=lambda data: data):
        self.async_impl, self.change, self.received = asynchronous, change, []

    def cat_ranges(self, paths, starts, stops, on_error, **more):
        self.received.append((paths, on_error, more))
        return [self.change(DATA[a:b]) for a, b in zip(starts, stops, strict=True)]


def test_asynchronous_file_system_fetches_in_parallel():
    for asynchronous, parallel, more in ((True, 7, {"batch_size": 7}), (False, 1, {})):
        fs = Files(asynchronous)
        transport = FsspecTransport(fs, "file", 7)
        assert transport.parallel == parallel and transport.fetch([0, 9], [4, 12]) == [DATA[:4], DATA[9:12]]
        assert fs.received == [(["file", "file"], "raise", more)] and transport.requests == 2
        transport.fetch([1], [2])
        assert transport.requests == 3


def test_wrong_lengths_and_errors_are_raised():
    lengths = (
        ([b"ab", b"abc"], "the server returned 3 B for bytes 4 to 5"),
        ([b"a", b"ab"], "the server returned 1 B for bytes 0 to 1"),
    )
    for parts, place in (([b"ab"], "the server returned 1 instead of 2 ranges"), *lengths):
        with pytest.raises(WrongAnswer, match=place):
            checked(parts, [0, 4], [2, 6])
    assert checked([b"ab", memoryview(b"cd")], [0, 4], [2, 6])[0] == b"ab"
    with pytest.raises(WrongAnswer, match="the server returned 7 B for bytes 0 to 7"):
        FsspecTransport(Files(change=lambda data: data[1:]), "x").fetch([0], [8])
    with pytest.raises(OSError, match="gone"):
        FsspecTransport(Files(change=lambda data: OSError("gone")), "x").fetch([0], [8])
    error = WrongAnswer("reason", 503)
    assert isinstance(error, OSError) and (error.status, str(error), WrongAnswer("x").status) == (503, "reason", 0)


def test_obstore_spreads_ranges_over_threads(monkeypatch):
    import obstore

    calls = []

    def get_ranges(store, path, starts, ends, coalesce):
        assert (store, path, coalesce) == ("store", "path", 0)
        calls.append(list(starts))
        return [DATA[a:b] for a, b in zip(starts, ends, strict=True)]

    monkeypatch.setattr(obstore, "get_ranges", get_ranges)
    transport = ObstoreTransport("store", "path", 25)
    assert transport.threads == 3 and ObstoreTransport("store", "path", 4).threads == 2
    starts = [10 * i for i in range(8)]
    assert transport.fetch(starts, [s + 5 for s in starts]) == [DATA[s : s + 5] for s in starts]
    assert sorted(calls) == [starts[0::3], starts[1::3], starts[2::3]] and transport.requests == 8
    calls.clear()
    assert transport.fetch([5], [6]) == [DATA[5:6]] and calls == [[5]] and transport.fetch([], []) == []
    transport.close()
    assert transport.store is None and transports.PARALLEL == 64


def test_obstore_allows_plain_http_by_url():
    keys = {"region": "us-east-1", "access_key_id": "k", "secret_access_key": "s"}
    for scheme, allowed in (("http", "true"), ("https", "false")):
        one = ObstoreTransport.s3(f"{scheme}://127.0.0.1:9", "bucket", "o", 7, client_options={"timeout": "3s"}, **keys)
        options = {k: str(v).lower() for k, v in one.store.client_options.items()}
        assert (options["allow_http"], options["timeout"], one.path, one.parallel) == (allowed, "3s", "o", 7)


def test_messages_are_groups_where_ranges_share_requests():
    assert messages(SimpleNamespace(), [1, 2, 3], [2, 3, 4]) == 3
    assert messages(SimpleNamespace(groups=lambda a, b: [slice(0, 3)]), [1, 2, 3], [2, 3, 4]) == 1


def test_size_takes_one_request(tmp_path):
    from obstore.store import LocalStore

    (tmp_path / "f").write_bytes(DATA)
    by_fsspec = FsspecTransport(fsspec.filesystem("file"), str(tmp_path / "f"))
    for transport in (by_fsspec, ObstoreTransport(LocalStore(tmp_path), "f")):
        assert (transport.size(), transport.requests) == (len(DATA), 1)
        assert PlannedSource("f", transport=transport).num_bytes == len(DATA)
    with pytest.raises(WrongAnswer, match="size of x"):
        FsspecTransport(SimpleNamespace(size=lambda path: None), "x").size()


# How transports close


def test_shared_file_system_stays_open():
    with range_server(DATA) as server:
        url = f"http://127.0.0.1:{server.server_port}/o"
        shared = fsspec.filesystem("http")
        first, second = (FsspecTransport(fs, url) for fs in (shared, fsspec.filesystem("http")))
        assert first.fs is second.fs
        first.fetch([0], [9])
        session = shared._session
        first.close()
        assert not session.closed and second.fetch([5], [9]) == [DATA[5:9]]
        alone = FsspecTransport(fsspec.filesystem("http", skip_instance_cache=True), url, owns=True)
        alone.fetch([0], [9])
        session = alone.fs._session
        alone.close()
        assert session.closed


class Session:
    """The client of s3fs; `left` counts how often it was left."""

    left = 0

    async def __aexit__(self, *reason):
        assert reason == (None, None, None)
        self.left += 1


def test_owned_file_system_closes_its_session():
    """An HTTP file system has `close_session(loop, session)`; s3fs leaves its client; others have nothing to close."""
    for http, s3 in ((True, False), (False, True), (True, True), (False, False)):
        client, closed = Session(), []
        fs = SimpleNamespace(async_impl=True, loop=get_loop())
        if http:
            fs._session = "session"
            fs.close_session = lambda loop, session, closed=closed: closed.append((loop, session))
        if s3:
            fs.s3 = client
        FsspecTransport(fs, "f").close()
        assert not closed and not client.left, "others may use what fsspec shares"
        FsspecTransport(fs, "f", owns=True).close()
        assert closed == ([(fs.loop, "session")] if http else []) and client.left == (s3 and not http)
        if http and not s3:
            fs._session = None
            FsspecTransport(fs, "f", owns=True).close()
            assert len(closed) == 1, "a session that never was"


def test_close_drops_calls_that_wait():
    """Calls in flight continue."""
    for one in (ObstoreTransport("store", "path", 2), HttpTransport("http://h/x", 2)):
        go, begun = threading.Event(), threading.Semaphore(0)

        def work(go=go, begun=begun):
            begun.release()
            return go.wait(60)

        flying = [one.pool.submit(work) for _ in range(2)]
        for _ in flying:
            assert begun.acquire(timeout=60)
        waiting = [one.pool.submit(work) for _ in range(3)]
        one.close()
        assert not any(f.done() for f in flying) and all(f.cancelled() for f in waiting)
        go.set()
        assert [f.result(60) for f in flying] == [True, True]


def test_wrong_answer_spoils_no_later_one():
    data = np.random.default_rng(1).bytes(3_000_000)
    with range_server(data) as server:
        one = HttpTransport(f"http://127.0.0.1:{server.server_port}/o", parallel=1)
        for _ in range(3):
            server.mode = "whole"
            with pytest.raises(WrongAnswer):
                one.fetch([0, 5000], [10, 5010])
            server.mode = "right"
            assert [bytes(p) for p in one.fetch([0, 5000], [10, 5010])] == [data[:10], data[5000:5010]]


def test_broken_answer_is_not_requested_again():
    """A second try would hide the first, and its time."""
    with range_server(bytes(30_000)) as server:
        server.mode = "dies"
        one = HttpTransport(f"http://127.0.0.1:{server.server_port}/o", parallel=1)
        with pytest.raises(Exception, match=r"IncompleteRead|Connection broken"):
            one.fetch([0, 5000, 10000], [10, 5010, 10010])
        assert len(server.received) == 1 == one.requests
