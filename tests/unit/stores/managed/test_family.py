"""Daemons with workers: suspended, stopped and swept up with them (a small forking program in their place)."""

import contextlib
import os
import signal
import sys
import time

import psutil
import pytest

from storelab.stores.managed import family
from storelab.stores.managed.daemons import Daemon, Daemons

# A master of two workers, which bears another title than its command line like nginx does, and tells by a file that all run.
MASTER = """
import os, pathlib, signal, sys, time
for i in range(2):
    if os.fork() == 0:
        pathlib.Path(f"worker-{i}").touch()
        time.sleep(60)
        os._exit(0)
def end(*_):
    os._exit(0)  # leaves its workers behind
signal.signal(signal.SIGTERM, end)
time.sleep(60)
"""


@pytest.fixture
def daemons(tmp_path):
    out = Daemons(tmp_path / "d", "stores.d")
    yield out
    out.stop()
    out.sweep()


@pytest.fixture
def master(daemons):
    daemons.folder.mkdir()
    argv = (sys.executable, "-c", MASTER)
    ready = lambda: all((daemons.folder / f"worker-{i}").exists() for i in range(2))  # noqa: E731
    daemon = Daemon(
        "web-1",
        argv,
        "127.0.0.1",
        (9,),
        ready,
        prefix=("/bin/sh", "-c", 'exec "$@"', "sh"),
        environ={"PATH": os.environ["PATH"]},
    )
    daemons.start(daemon)
    daemons.wait_healthy(daemon)
    return daemon


def alive(pids) -> list[int]:
    out = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            out += [pid] if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else []
    return out


def test_who_is_who():
    argv = ("/usr/sbin/nginx", "-c", "x.conf")
    assert family.runs_as(argv, argv)
    assert family.runs_as(["nginx:", "master", "process", *argv, ""], argv)
    assert family.runs_as(["ip", "netns", "exec", "sl-1", *argv], argv)
    assert not family.runs_as(["/usr/sbin/nginx", "-c", "y.conf"], argv) and not family.runs_as([], argv)
    assert not family.runs_as(["nginx: worker process", "", ""], argv)


def test_suspended_and_stopped_together(daemons, master):
    pids = daemons.everyone()
    assert set(pids) == {"web-1", "web-1/1", "web-1/2"} and daemons.running() == {"web-1": pids["web-1"]}
    daemons.suspend()
    assert {psutil.Process(p).status() for p in pids.values()} == {psutil.STATUS_STOPPED}
    assert daemons.resume() == ["web-1"] and daemons.resume() == []
    assert psutil.STATUS_STOPPED not in {psutil.Process(p).status() for p in pids.values()}
    daemons.suspend()
    assert sorted(daemons.stop()) == sorted(pids.values()) and alive(pids.values()) == []


@pytest.mark.parametrize("recorded", [True, False])
def test_what_a_killed_one_leaves_is_swept_up(daemons, master, recorded):
    pids = daemons.everyone()
    os.kill(pids["web-1"], signal.SIGKILL)
    os.kill(pids["web-1/1"], signal.SIGSTOP)
    until = time.monotonic() + 5
    while daemons.running() and time.monotonic() < until:
        time.sleep(0.01)
    if not recorded:
        daemons.file.unlink()
    assert daemons.stop() == [] and len(alive(pids.values())) == 2
    assert daemons.sweep(["web-2"]) == []
    assert sorted(daemons.sweep(["web-1"])) == sorted([pids["web-1/1"], pids["web-1/2"]])
    assert alive(pids.values()) == [] and daemons.sweep() == []


def test_one_that_runs_is_not_swept(daemons, master):
    pids = daemons.everyone()
    assert daemons.sweep() == [] and daemons.everyone() == pids
    daemons.file.unlink()  # never recorded
    assert sorted(Daemons(daemons.folder, "stores.d").sweep()) == sorted(pids.values())
