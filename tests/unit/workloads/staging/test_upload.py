"""Staging is bounded: an endpoint that hangs is told and ends it, and no program outlives its parent."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from storelab.core.errors import MeasurementFailed
from storelab.host import proc, processes
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


def children():
    return [c for c in psutil.Process().children(recursive=True) if "s5cmd" in " ".join(c.cmdline())]


def test_an_endpoint_that_hangs_ends_staging(deaf, tmp_path, monkeypatch, capsys):
    store = S3("mine", Settings(kind="s3", endpoint=deaf), tmp_path)
    body = tmp_path / "body"
    body.write_bytes(bytes(1000))
    monkeypatch.setattr(upload, "TELL_S", 0.5)
    monkeypatch.setattr(upload._run_s5cmd, "__defaults__", (2.0,))
    begun = time.monotonic()
    with pytest.raises(MeasurementFailed, match="staging small into mine: nothing moved for 2 s, 0 of 3 objects"):
        upload.put_items(store, "small", [(Bucket("b"), f"k{i}", body) for i in range(3)])
    assert time.monotonic() - begun < 15
    assert "nothing moved for" in capsys.readouterr().err and not children()


def test_s5cmd_of_staging_ends_with_its_parent(deaf, tmp_path):
    """kill -9 of the process that stages: its s5cmd, with keys in its environment, is gone too."""
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
    end, found = time.monotonic() + 60, []
    while not found and time.monotonic() < end and parent.poll() is None:
        time.sleep(0.1)
        found = [c for c in psutil.Process(parent.pid).children() if "s5cmd" in " ".join(c.cmdline())]
    assert found
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert not psutil.wait_procs(found, timeout=10)[1]


def test_a_short_command_ends_with_its_parent(tmp_path):
    code = "from storelab.host import processes; processes.ask(['sleep', '77.5'], 60)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    end, found = time.monotonic() + 30, []
    while not found and time.monotonic() < end:
        time.sleep(0.05)
        found = [c for c in psutil.Process(parent.pid).children() if "77.5" in c.cmdline()]
    parent.kill()
    parent.wait()
    assert found and not psutil.wait_procs(found, timeout=10)[1]


def test_moved_bytes_see_reads_and_writes():
    before = proc.moved_bytes(os.getpid())
    Path("/dev/null").write_bytes(bytes(1_000_000))
    assert proc.moved_bytes(os.getpid()) - before >= 1_000_000
    assert proc.moved_bytes(2**30) == 0
    assert processes.ask(["true"]).returncode == 0
