"""Staging is bounded: an endpoint that hangs ends it, and its programs end with their parent."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import psutil
import pytest

from storelab.core.errors import MeasurementFailed
from storelab.stores.protocols.endpoint import Bucket
from storelab.stores.s3.store import S3, Settings
from storelab.workloads.staging import upload


@pytest.fixture
def deaf(monkeypatch):
    """URL of a server that takes every connection and never answers."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secretexample")
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def programs(pid):
    """Return the processes of s5cmd below a process; others may have its name among their arguments."""
    return [c for c in psutil.Process(pid).children(recursive=True) if "s5cmd" in c.name()]


def test_endpoint_that_hangs_ends_staging(deaf, tmp_path, monkeypatch, capsys):
    """Each look at the clock is 15 s later than the one before."""
    store = S3("mine", Settings(kind="s3", endpoint=deaf), tmp_path)
    body = tmp_path / "body"
    body.write_bytes(bytes(1000))
    clock = itertools.count(0, 15)
    monkeypatch.setattr(upload, "time", SimpleNamespace(monotonic=clock.__next__))
    with pytest.raises(MeasurementFailed, match="staging small into mine: nothing moved for 60 s, 0 of 3 objects"):
        upload.put_items(store, "small", [(Bucket("b"), f"k{i}", body) for i in range(3)])
    assert next(clock) < 500, "60 s, and what s5cmd does when it starts"
    assert "staging small into mine: nothing moved" in capsys.readouterr().err and not programs(os.getpid())


def test_s5cmd_ends_with_its_killed_parent(deaf, tmp_path):
    """Its environment holds keys."""
    (tmp_path / "body").write_bytes(bytes(1000))
    code = f"""
        from pathlib import Path
        from storelab.stores.protocols.endpoint import Bucket
        from storelab.stores.s3.store import S3, Settings
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
