"""Staging is bounded: an endpoint that hangs ends it, and its programs end with their parent."""

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
from honest_s3 import FIRST, honest_s3
from memory_access import MemoryAccess

from storelab.core.errors import MeasurementFailed
from storelab.host import console, patience
from storelab.stores.protocols.access import PatientAccess
from storelab.stores.protocols.endpoint import Bucket
from storelab.stores.s3 import S3, Settings
from storelab.workloads.staging import upload


@pytest.fixture
def deaf(monkeypatch):
    """Return the URL of a server that accepts every connection and never answers."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secretexample")
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def programs(pid):
    """Return the processes of s5cmd below a process; others may have its name among their arguments."""
    return [c for c in psutil.Process(pid).children(recursive=True) if "s5cmd" in c.name()]


def test_endpoint_that_hangs_ends_staging(deaf, tmp_path, monkeypatch, capsys):
    """Each reading of the clock is 15 s later than the one before."""
    store = S3("mine", Settings(kind="s3", endpoint=deaf), tmp_path)
    body = tmp_path / "body"
    body.write_bytes(bytes(1000))
    clock = itertools.count(0, 15)
    monkeypatch.setattr(patience, "_last_message", [0.0])
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=clock.__next__))
    with pytest.raises(MeasurementFailed, match="staging small into mine: no progress for 60 s, 0 of 3 objects"):
        upload.put_items(store, "small", [(Bucket("b"), f"k{i}", body) for i in range(3)])
    assert next(clock) < 500, "60 s, and what s5cmd does when it starts"
    waited = re.findall(r"staging small into mine: no progress for (\d+) s", capsys.readouterr().err)
    assert waited and all(0 < int(seconds) < 60 for seconds in waited) and not programs(os.getpid())


def test_s5cmd_ends_with_its_killed_parent(deaf, tmp_path):
    """Its environment holds keys."""
    (tmp_path / "body").write_bytes(bytes(1000))
    code = f"""
        from pathlib import Path
        from storelab.stores.protocols.endpoint import Bucket
        from storelab.stores.s3 import S3, Settings
        from storelab.workloads.staging import upload
        store = S3("mine", Settings(kind="s3", endpoint={deaf!r}), Path("."))
        upload.put_items(store, "small", [(Bucket("b"), "k", Path({str(tmp_path / "body")!r}))])
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=os.environ)
    found = []
    while not found and parent.poll() is None:
        time.sleep(0.02)
        found = programs(parent.pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert found and not psutil.wait_procs(found, timeout=60)[1]


def test_every_object_arrives_or_is_reported(tmp_path, monkeypatch):
    """s5cmd copies it; an account cannot write into a bucket of another one."""
    for name, text in FIRST.environ().items():
        monkeypatch.setenv(name, text)
    body = tmp_path / "body"
    body.write_bytes(b"some bytes")
    with honest_s3("any signature") as (url, there):
        store = S3("mine", Settings(kind="s3", endpoint=url), tmp_path)
        items = [(Bucket("b", "p/"), f"k{i}", body) for i in range(5)]
        upload.put_items(store, "small", items)
        assert {key: one.body for key, one in there.buckets["b"].objects.items()} == {
            f"p/k{i}": b"some bytes" for i in range(5)
        }
        with pytest.raises(MeasurementFailed, match=r"1 of 6 objects failed: AccessDenied"):
            upload.put_items(store, "small", [*items, (Bucket("b-a1"), "k", body)])


def test_names_of_files_are_data(tmp_path, monkeypatch):
    """A file of any name, in a folder of any name, is sent once and copied inside the store."""
    for name, text in FIRST.environ().items():
        monkeypatch.setenv(name, text)
    folder = tmp_path / "a scratch 'ü'?"
    folder.mkdir()
    for name in ("my file.root", "it's.root", "x?y.root", 'a"b*.root', "#[$HOME].root", "ü \\ `id`.root"):
        path = folder / name
        path.write_text(name)
        with honest_s3("any signature") as (url, there):
            store = S3("mine", Settings(kind="s3", endpoint=url), tmp_path)
            keys = [f"{n}/{name}" for n in range(3)]
            manifest = {
                "dataset": {"name": "d", "kind": "root"},
                "objects": {"key": keys, "bucket": [0] * 3, "body": [0] * 3},
                "bodies": [{"size": len(name.encode())}],
            }
            upload.upload(store, [Bucket("b", "p/")], manifest, [path])
            stored = {key: one.body for key, one in there.buckets["b"].objects.items()}
            assert stored == {f"p/{key}": name.encode() for key in keys}


def test_many_small_objects_go_to_loadgen(tmp_path, monkeypatch):
    """Its items name a bucket, a key, the place of the body among all files, and its size."""
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_bytes(path.name.encode() * 10)
    buckets, given = [Bucket("one", "p/"), Bucket("two", "", 1)], []
    items = [(buckets[i % 2], f"k{i}", paths[i // 2 % 2]) for i in range(2 * upload.MANY)]
    monkeypatch.setattr(upload, "loadgen_reaches", lambda store: True)
    monkeypatch.setattr(upload, "put_by_loadgen", lambda store, name, named, files, step: given.append((named, files)))
    upload.put_items(SimpleNamespace(name="mine"), "many", items)
    assert [files for _, files in given] == [paths, paths]
    wanted = [(bucket, key, paths.index(path), 10) for bucket, key, path in items]
    assert [tuple(item) for named, _ in given for item in named] == wanted[::2] + wanted[1::2]


def test_slow_uploads_are_reported(tmp_path, monkeypatch):
    """The first write ends only after a report that no data are moving."""
    body, reports, reported = tmp_path / "body", [], threading.Event()
    body.write_bytes(b"x")
    monkeypatch.setattr(patience, "MESSAGE_S", 0.01)
    monkeypatch.setattr(console, "report", lambda line: (reports.append(line), reported.set()))

    class Slow(MemoryAccess):
        place = "stores.mine"

        def write(self, bucket, key, data):
            assert reported.wait(20)
            super().write(bucket, key, data)

    slow = Slow({"b": {}})
    store = SimpleNamespace(name="mine", protocol="file", access=lambda account: PatientAccess(slow))
    upload.put_items(store, "small", [(Bucket("b", "p/"), "k", body)])
    assert slow.files == {"b": {"p/k": b"x"}} and "writing b/p/k: no progress for" in reports[0]
