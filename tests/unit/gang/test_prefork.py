"""Clients forked from one process: each has its rank, log and keys; how each ended is known; none outlives its parent."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from storelab.core import clock
from storelab.gang import client
from storelab.gang.launchers import choose, local
from storelab.gang.launchers.local import LocalLauncher

# In place of a client: `work` of a rank says what it sees, and does what the rank's file says.
CLIENT = """
import os, signal, sys, time
from pathlib import Path
from storelab.core import clock
from storelab.gang import prefork

if sys.argv[1:2] != ["--"]:
    for early in sys.argv[1:]:
        Path(early).touch()

def preload(folder, ranks):
    if (folder / "broken").exists():
        raise ImportError("no such engine")
    (folder / f"loaded.{os.getpid()}").touch()

def work(folder, rank):
    asked = []
    def end(*_):
        asked.append(time.monotonic())
    signal.signal(signal.SIGTERM, signal.SIG_IGN if (folder / "deaf").exists() else end)
    print("client", rank, os.environ.get("KEY"), os.getsid(0) == os.getpid(), clock._offset, flush=True)
    (folder / f"there.{rank}").touch()
    while not (folder / f"end.{rank}").exists():
        time.sleep(0.01)
        if asked and time.monotonic() > asked[0] + 0.3:  # it closes what it opened
            return 143 if len(asked) == 1 else 99
    return int((folder / f"end.{rank}").read_text())

prefork.run(preload, work)
"""


def until(look, seconds=20):
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A function that starts clients in a folder of their own; `python -m storelab.gang.client` is CLIENT here."""
    module = tmp_path / "code" / "storelab_client.py"
    module.parent.mkdir()
    module.write_text(CLIENT)
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" "{module}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    launchers = []

    def start(ranks, environs=({},), mark="", **more):
        folder = tmp_path / "gang"
        folder.mkdir()
        if mark:
            (folder / mark).touch()
        launchers.append(LocalLauncher(folder, ranks, list(environs), **more))
        launchers[-1].start()
        return folder, launchers[-1]

    yield start
    for each in launchers:
        each.stop()


def there(folder, ranks):
    until(lambda: all((folder / f"there.{rank}").exists() for rank in ranks))


def log(folder, rank):
    return (folder / f"client.{rank}.log").read_text()


def test_each_has_its_rank_log_session_and_keys_and_says_how_it_ended(started, monkeypatch):
    monkeypatch.delenv("KEY", raising=False)
    folder, launcher = started([3, 5, 8], [{"KEY": "a", clock.OFFSET: "-7"}, {"KEY": "b"}])
    there(folder, [3, 5, 8])
    said = ["client 3 b True 0\n", "client 5 b True 0\n", "client 8 a True -7\n"]
    assert [log(folder, rank) for rank in (3, 5, 8)] == said
    until(lambda: len(launcher.pids()) == 3)
    parents = {psutil.Process(pid).ppid() for pid in launcher.pids().values()}
    assert len(parents) == 1 and parents.pop() not in (os.getpid(), *launcher.pids().values())
    assert len(list(folder.glob("loaded.*"))) == 1, "loaded once"
    command = launcher.started[0].process.args
    assert command[-5:] == ["--", str(folder), "3", "5", "8"], "whose process it is can be seen, and cleaned up by"
    assert launcher.ended() == {}
    for rank, status in ((5, 7), (8, 0)):
        (folder / f"end.{rank}").write_text(str(status))
    until(lambda: launcher.ended() == {5: 7, 8: 0})
    os.kill(launcher.pids()[3], signal.SIGKILL)
    until(lambda: launcher.ended() == {3: -9, 5: 7, 8: 0})


def test_no_key_stands_on_a_command_line_or_in_the_environment_of_what_forks_them(started):
    folder, launcher = started(2, [{"KEY": "secret-0"}, {"KEY": "secret-1"}])
    there(folder, [0, 1])
    until(lambda: len(launcher.pids()) == 2)
    parent = psutil.Process(launcher.pids()[0]).ppid()
    for pid in (parent, *launcher.pids().values()):
        proc = Path(f"/proc/{pid}")
        assert b"secret" not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()


def test_stop_ends_all_of_them_in_order(started):
    folder, launcher = started(3)
    there(folder, range(3))
    until(lambda: len(launcher.pids()) == 3)
    pids = launcher.pids()
    launcher.started[0].process.terminate()
    time.sleep(0.1)
    launcher.stop()
    launcher.stop()
    assert launcher.ended() == dict.fromkeys(range(3), 143), "asked once, not twice"
    assert not [pid for pid in pids.values() if psutil.pid_exists(pid)]


def test_who_does_not_hear_is_killed(started, monkeypatch):
    folder, launcher = started(2, mark="deaf")
    there(folder, range(2))
    begun = time.monotonic()
    launcher.stop()
    assert launcher.ended() == {0: -9, 1: -9} and time.monotonic() - begun < 15
    assert launcher.started[0].process.returncode == 0, "by what forked them, which saw them end"


def test_they_end_with_what_forked_them(started):
    folder, launcher = started(2, mark="deaf")
    there(folder, range(2))
    until(lambda: len(launcher.pids()) == 2)
    pids = launcher.pids()
    os.kill(psutil.Process(pids[0]).ppid(), signal.SIGKILL)
    until(lambda: not [pid for pid in pids.values() if psutil.pid_exists(pid)])
    until(lambda: launcher.ended() == {0: -9, 1: -9})


def test_what_cannot_be_loaded_is_told_of_every_client(started):
    folder, launcher = started(2, mark="broken")
    until(lambda: launcher.ended() == {0: 1, 1: 1})
    assert "no such engine" in log(folder, 0) and log(folder, 1) == ""


def test_what_the_clients_of_a_host_share_is_loaded_before_they_are_forked(tmp_path, monkeypatch):
    """The clients of all roles, each once; a workload that chooses its client in another way loads it itself."""
    loaded = []
    axes = [{"engine": "obstore"}, {"engine": "obstore"}, {"engine": "s5cmd"}, {"engine": "none"}, {}]
    points = [
        SimpleNamespace(workload=w, axes=a) for w, a in zip(["put", "put", "get", "calibrate", "x"], axes, strict=True)
    ]
    monkeypatch.setattr(client, "load_job", lambda folder, rank: (SimpleNamespace(point=points[rank]), {}))
    monkeypatch.setattr(client.engines, "load", loaded.append)
    monkeypatch.setattr(client.prefork, "without_pandas", lambda: loaded.append("pyarrow"))
    client.preload(tmp_path, range(5))
    assert loaded[0] == "pyarrow" and sorted(loaded[1:]) == [
        "storelab.engines.obstore.transfers:ObstorePut",
        "storelab.engines.s5cmd.transfers:S5cmdGet",
    ]


def test_clients_of_another_host_have_a_process_of_their_own(started, tmp_path):
    """`beside` enters that host; what enters one loads its clients once there."""
    enters = ("/usr/bin/env", "HOST=other")
    folder, launcher = started(4, beside=lambda rank: enters if rank % 2 else ())
    there(folder, range(4))
    until(lambda: len(launcher.pids()) == 4)
    parents = {rank: psutil.Process(pid).ppid() for rank, pid in launcher.pids().items()}
    assert parents[0] == parents[2] != parents[1] == parents[3]
    assert psutil.Process(parents[1]).environ()["HOST"] == "other"
    assert "HOST" not in psutil.Process(parents[0]).environ()


def test_a_spare_one_loads_at_once_and_forks_the_clients_of_this_host(started, tmp_path):
    """Those of another host have a process of their own; logs are the gang's, whatever came before them."""
    with local.spare([str(tmp_path / "early")]) as spare:
        until((tmp_path / "early").exists)
        assert spare.poll() is None, "it waits for its clients"
        folder, launcher = started(4, [{"KEY": "a"}], beside=lambda rank: ("/usr/bin/env",) * (rank % 2), spare=spare)
        there(folder, range(4))
        until(lambda: len(launcher.pids()) == 4)
        parents = {rank: psutil.Process(pid).ppid() for rank, pid in launcher.pids().items()}
        assert parents[0] == parents[2] == spare.pid != parents[1] == parents[3]
        assert log(folder, 2).startswith("client 2 a True")
        (folder / "end.0").write_text("7")
        until(lambda: launcher.ended() == {0: 7})
        launcher.stop()
        assert launcher.ended() == {0: 7, 1: 143, 2: 143, 3: 143} and spare.returncode == 0


def test_a_spare_one_that_nobody_took_ends(started):
    with local.spare([]) as spare:
        children = {spare.pid}
    assert spare.returncode == -signal.SIGTERM and not [pid for pid in children if psutil.pid_exists(pid)]


def test_a_spare_one_that_ended_is_no_loss(started):
    with local.spare([]) as spare:
        spare.kill()
        spare.wait()
        folder, launcher = started(2, spare=spare)
        there(folder, range(2))
        (folder / "end.1").write_text("0")
        until(lambda: launcher.ended() == {1: 0})


def test_what_a_spare_one_cannot_load_is_told_of_every_client(started):
    """It says so in the log of the first, as a process that was begun with them does."""
    with local.spare([]) as spare:
        folder, launcher = started(2, mark="broken", spare=spare)
        until(lambda: launcher.ended() == {0: 1, 1: 1})
    assert "no such engine" in log(folder, 0)


def test_nobody_wants_clients_where_standard_input_ends(tmp_path):
    command = [sys.executable, "-m", "storelab.gang.client", "storelab.engines.no_such:Client", "--", "gang", "0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (
        "a class that cannot be loaded fails its clients only"
    )


@pytest.mark.parametrize("kind, begun", [("local", [["storelab.engines.obstore.transfers:ObstorePut"]]), ("srun", [])])
def test_a_spare_one_is_begun_where_clients_start_on_this_host(monkeypatch, kind, begun):
    """With the classes of all roles, each once."""
    asked = []

    @contextlib.contextmanager
    def spare(places):
        asked.append(places)
        yield "process"

    monkeypatch.setattr(local, "spare", spare)
    parts = [
        SimpleNamespace(point=SimpleNamespace(workload="put", axes={"engine": e}))
        for e in ("obstore", "obstore", "none")
    ]
    config = SimpleNamespace(launcher=SimpleNamespace(kind=kind))
    with choose.spare(config, SimpleNamespace(parts=lambda: parts)) as given:
        assert asked == begun and given == ("process" if begun else None)
    with choose.spare(config, None) as given:
        assert given is None and asked == begun
