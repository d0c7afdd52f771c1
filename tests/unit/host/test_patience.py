"""Work in a store ends after a limited time without progress, whichever part stops answering."""

import itertools
import socket
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from honest_s3 import FIRST

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import patience
from storelab.stores.protocols.access import PatientAccess
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.stores.protocols.files import FilesAccess
from storelab.stores.s3 import S3, Settings
from storelab.workloads.probe.plain_http import Connection
from storelab.workloads.staging import buckets, upload

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\nContent-Type: application/xml\r\n\r\n"


@pytest.fixture
def short(monkeypatch):
    """Set the limit to one second."""
    for name, value in (("STALLED_S", 1.0), ("MESSAGE_S", 0.3), ("LOOK_S", 0.05)):
        monkeypatch.setattr(patience, name, value)
    for name, text in FIRST.environ().items():
        monkeypatch.setenv(name, text)


@pytest.fixture(params=["silent", "drips a header", "drips a body"])
def stalled(request):
    """Return the port of a server that takes requests and then sends nothing, or one byte every 50 ms without end."""
    over = threading.Event()

    def answer(connection):
        with connection, suppress(OSError):
            connection.recv(1 << 20)
            if request.param == "drips a body":
                connection.sendall(HEAD)
            while not over.wait(0.05):
                if request.param != "silent":
                    connection.sendall(b"x")

    def serve(server):
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        over.set()
        server.shutdown(socket.SHUT_RDWR)


def test_every_way_into_a_stalled_server_ends(stalled, short, tmp_path):
    """Staging by threads, listing, cleaning, the first list of a store and the probe."""
    store = S3("mine", Settings(kind="s3", endpoint=f"http://127.0.0.1:{stalled}"), tmp_path)
    endpoint = Endpoint(f"http://127.0.0.1:{stalled}/", protocol="http")
    files = PatientAccess(FilesAccess(endpoint, "stores.dav"))
    plain = SimpleNamespace(name="dav", protocol="http", access=lambda account: files)
    body = tmp_path / "body"
    body.write_bytes(b"x")
    ways = {
        "read": lambda: store.access().read("b", "k"),
        "write": lambda: store.access().write("b", "k", b"x"),
        "list": lambda: list(store.access().keys("b")),
        "buckets": lambda: store.access().bucket_names(),
        "delete": lambda: store.access().delete("b", ["k"]),
        "marker": lambda: buckets.marked(store.access(), Bucket("b")),
        "greet": lambda: store.up(),
        "files": lambda: list(files.keys("b")),
        "upload": lambda: upload.put_items(plain, "small", [(Bucket("b"), f"k{i}", body) for i in range(20)]),
        "probe": lambda: Connection(endpoint.url).send("GET", "/b/k"),
    }
    for name, way in ways.items():
        begun = time.monotonic()
        with pytest.raises((MeasurementFailed, UserError, TimeoutError)):
            way()
        assert time.monotonic() - begun < 10, name


def test_steady_progress_is_never_ended(short):
    """The work takes four times the limit, with a step or 64 kB now and then."""
    assert patience.call("it", lambda: time.sleep(0.6) or 7) == 7
    with pytest.raises(KeyError):
        patience.call("it", {}.popitem)
    came = []
    for n in patience.stream("it", lambda: (time.sleep(0.4) or m for m in range(10))):
        came.append(n)
        time.sleep(0.01)
    assert came == list(range(10))
    bytes_ = itertools.count(0, patience.MIN_PROGRESS_BYTES // 10)
    waiting = patience.Patience("it", traffic=bytes_.__next__)
    for _ in range(40):
        time.sleep(0.05)
        waiting.look()


def test_stream_hands_errors_and_early_ends_over(short):
    def two():
        yield from (1, 2)
        raise OSError("broken")

    came = []
    with pytest.raises(OSError, match="broken"):
        for item in patience.stream("it", two):
            came.append(item)
    assert came == [1, 2]
    before = threading.active_count()
    assert next(patience.stream("it", lambda: itertools.count())) == 0
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before, "the thread of an abandoned listing ends"


def test_own_traffic_counts_sockets(short):
    """A trickle is counted to the byte, so that it does not count as progress."""
    left, right = socket.create_server(("127.0.0.1", 0)), socket.socket()
    right.connect(left.getsockname())
    peer, _ = left.accept()
    with left, right, peer:
        from storelab.host import proc

        before = proc.socket_bytes()
        right.sendall(bytes(200_000))
        got = 0
        while got < 200_000:
            got += len(peer.recv(1 << 16))
        time.sleep(0.1)
        assert proc.socket_bytes() - before == 400_000, "sent by one, received by the other"


def test_staging_by_loadgen_ends_without_progress(short, monkeypatch):
    """Errors are not progress; objects are."""
    script = """
import sys, time, json
sys.stdin.readline()
for n in range(40):
    print(json.dumps({"progress": {"operations": n // 10 if sys.argv[1] == "slow" else min(n, 3), "errors": n}}),
          file=sys.stderr, flush=True)
    time.sleep(0.05)
print(json.dumps({"summary": {"operations": 4, "errors": 0}}), file=sys.stderr, flush=True)
"""
    job, steps = {"objects": {"key": ["k"] * 4}}, []
    import sys

    monkeypatch.setattr(upload.subprocess, "Popen", _popen(upload.subprocess.Popen))
    monkeypatch.setattr(upload.loadgen, "binary", lambda: [sys.executable, "-c", script, "slow"])
    assert upload._run_loadgen(job, {}, steps.append, "staging", 1.0)["operations"] == 4 and sum(steps) == 4
    monkeypatch.setattr(upload.loadgen, "binary", lambda: [sys.executable, "-c", script, "stuck"])
    with pytest.raises(MeasurementFailed, match="staging: no progress for 1 s, 3 of 4 objects are done"):
        upload._run_loadgen(job, {}, steps.append, "staging", 1.0)


def _popen(real):
    return lambda command, **more: real(command[0], **more)
