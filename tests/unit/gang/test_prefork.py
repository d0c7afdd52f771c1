"""Clients forked from one process: each has its rank, log and keys; all end with their parent."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from laboratory import gone
from managed import until
from programs import script
from user_environment import user_environment

from storelab.core import clock
from storelab.gang import client, prefork
from storelab.gang.launchers import choose, local
from storelab.gang.launchers.local import LocalLauncher

# It is used as a client: `work` prints what a rank sees, and does what the rank's file says.
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
    if (folder / "deaf").exists():
        prefork.GRACE_S = 1
    (folder / f"loaded.{os.getpid()}").touch()

def work(folder, rank):
    asked = []
    def end(*_):
        asked.append(time.monotonic())
        (folder / f"asked.{rank}").touch()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if (folder / "deaf").exists() else end)
    print("client", rank, os.environ.get("KEY"), os.getsid(0) == os.getpid(), clock._offset, flush=True)
    (folder / f"there.{rank}").touch()
    while not (folder / f"end.{rank}").exists():
        time.sleep(0.01)
        if asked and time.monotonic() > asked[0] + 0.2:  # it closes what it opened
            return 143 if len(asked) == 1 else 99
    return int((folder / f"end.{rank}").read_text())

prefork.run(preload, work)
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Return a function that starts clients in a new folder and waits. CLIENT replaces `storelab.gang.client`."""
    module = tmp_path / "code" / "storelab_client.py"
    module.parent.mkdir()
    module.write_text(CLIENT)
    python = script(tmp_path / "python", f'#!/bin/sh\nshift 2\nexec "{sys.executable}" "{module}" "$@"\n')
    monkeypatch.setattr(sys, "executable", str(python))
    launchers = []

    def start(ranks, environs=({},), mark="", **more):
        folder = tmp_path / "gang"
        folder.mkdir()
        if mark:
            (folder / mark).touch()
        launchers.append(LocalLauncher(folder, ranks, list(environs), **more))
        launchers[-1].start()
        if mark != "broken":
            there(folder, range(ranks) if isinstance(ranks, int) else ranks)
        return folder, launchers[-1]

    yield start
    for each in launchers:
        each.stop()


def there(folder, ranks, what="there"):
    until(lambda: all((folder / f"{what}.{rank}").exists() for rank in ranks))


def running(launcher, number):
    """Return the pids of clients by rank, once this number of them runs."""
    until(lambda: len(launcher.pids()) == number)
    return launcher.pids()


def log(folder, rank):
    return (folder / f"client.{rank}.log").read_text()


def test_clients_see_no_settings_of_user(started, monkeypatch, tmp_path):
    """It also holds for clients on a separate host, and for the process that is started before they are needed."""
    settings = user_environment(tmp_path / "home", "http://elsewhere.test")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    _, launcher = started(2, [{"AWS_REGION": "of-storelab"}], command_prefix=lambda rank: ("env",) if rank else ())
    running(launcher, 2)
    with local.spare(()) as spare:
        for process in (*(each.process for each in launcher.started), spare):
            seen = until(psutil.Process(process.pid).environ)  # empty while a program replaces another
            assert {name for name in settings if seen.get(name) == settings[name]} == {"HOME"}


def test_client_has_rank_log_session_keys_and_status(started, monkeypatch):
    monkeypatch.delenv("KEY", raising=False)
    folder, launcher = started([3, 5, 8], [{"KEY": "a", clock.OFFSET: "-7"}, {"KEY": "b"}])
    printed = ["client 3 b True 0\n", "client 5 b True 0\n", "client 8 a True -7\n"]
    assert [log(folder, rank) for rank in (3, 5, 8)] == printed
    pids = running(launcher, 3)
    (parent,) = {psutil.Process(pid).ppid() for pid in pids.values()}
    assert parent not in (os.getpid(), *pids.values())
    assert len(list(folder.glob("loaded.*"))) == 1, "loaded once"
    command = launcher.started[0].process.args
    assert command[-5:] == ["--", str(folder), "3", "5", "8"], "its owner is known, so that it can be cleaned up"
    assert launcher.ended() == {}
    for rank, status in ((5, 7), (8, 0)):
        (folder / f"end.{rank}").write_text(str(status))
    until(lambda: launcher.ended() == {5: 7, 8: 0})
    os.kill(pids[3], signal.SIGKILL)
    until(lambda: launcher.ended() == {3: -9, 5: 7, 8: 0})


def test_keys_are_in_no_command_line_and_no_parent(started):
    _, launcher = started(2, [{"KEY": "secret-0"}, {"KEY": "secret-1"}])
    pids = running(launcher, 2)
    for pid in (psutil.Process(pids[0]).ppid(), *pids.values()):
        proc = Path(f"/proc/{pid}")
        assert b"secret" not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()


def test_stop_signals_each_client_once(started):
    folder, launcher = started(3)
    pids = running(launcher, 3)
    launcher.started[0].process.terminate()
    there(folder, range(3), "asked")
    launcher.stop()
    launcher.stop()
    assert launcher.ended() == dict.fromkeys(range(3), 143), "asked only once"
    assert gone(pids.values())


def test_client_that_ignores_the_end_is_killed(started):
    _, launcher = started(2, mark="deaf")
    launcher.stop()
    assert launcher.ended() == {0: -9, 1: -9}
    assert launcher.started[0].process.returncode == 0, "by the parent, which noticed their end"


def test_clients_end_with_their_parent(started):
    _, launcher = started(2, mark="deaf")
    pids = running(launcher, 2)
    os.kill(psutil.Process(pids[0]).ppid(), signal.SIGKILL)
    until(lambda: gone(pids.values()))
    until(lambda: launcher.ended() == {0: -9, 1: -9})


@pytest.mark.parametrize("begun", [contextlib.nullcontext, partial(local.spare, [])])
def test_failed_import_fails_every_client(started, begun):
    """The log of the first client has the reason, whether the process was started with the clients or before."""
    with begun() as spare:
        folder, launcher = started(2, mark="broken", spare=spare)
        until(lambda: launcher.ended() == {0: 1, 1: 1})
    assert "no such engine" in log(folder, 0) and log(folder, 1) == ""


def test_classes_of_all_roles_are_loaded_before_forks(tmp_path, monkeypatch):
    """Each is loaded once; a workload that chooses its client in another way loads it itself."""
    loaded = []
    asked = [("put", "obstore"), ("put", "obstore"), ("get", "s5cmd"), ("calibrate", "none"), ("x", None)]
    points = [SimpleNamespace(workload=w, axes={"engine": e} if e else {}) for w, e in asked]
    monkeypatch.setattr(client, "load_job", lambda folder, rank: SimpleNamespace(point=points[rank]))
    monkeypatch.setattr(client.engines, "load", loaded.append)
    monkeypatch.setattr(client.prefork, "without_pandas", lambda: loaded.append("pyarrow"))
    client.preload(tmp_path, range(5))
    assert loaded[0] == "pyarrow" and sorted(loaded[1:]) == [
        "storelab.engines.obstore.transfers:ObstorePut",
        "storelab.engines.s5cmd:S5cmdGet",
    ]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("can't start new thread"), "processes: no more processes and threads can be started"),
        (MemoryError(), "memory: there is not enough memory"),
    ],
)
def test_limit_of_the_machine_is_the_failure_of_a_client(tmp_path, monkeypatch, error, words):
    class Limited:
        def prepare(self):
            raise error

        def close(self):
            pass

    job = SimpleNamespace(point=SimpleNamespace(workload="put"), endpoint=SimpleNamespace(url="http://h"), role="")
    monkeypatch.setattr(client, "load_job", lambda folder, rank: job)
    monkeypatch.setattr(client, "WORKLOADS", {"put": SimpleNamespace(client=lambda job: Limited())})
    assert client.run(tmp_path, 0) != 0
    assert json.loads((tmp_path / "result.0").read_text())["failure"].startswith(words)


def test_spare_process_forks_clients_of_this_host(started, tmp_path):
    """Clients of another host have a separate process there."""
    enters = ("/usr/bin/env", "HOST=other")
    with local.spare([str(tmp_path / "early")]) as spare:
        until((tmp_path / "early").exists)
        assert spare.poll() is None, "it waits for its clients"
        folder, launcher = started(
            4, [{"KEY": "a"}], command_prefix=lambda rank: enters if rank % 2 else (), spare=spare
        )
        parents = {rank: psutil.Process(pid).ppid() for rank, pid in running(launcher, 4).items()}
        assert parents[0] == parents[2] == spare.pid != parents[1] == parents[3]
        assert psutil.Process(parents[1]).environ()["HOST"] == "other"
        assert "HOST" not in psutil.Process(parents[0]).environ()
        assert log(folder, 2).startswith("client 2 a True")
        (folder / "end.0").write_text("7")
        until(lambda: launcher.ended() == {0: 7})
        launcher.stop()
        assert launcher.ended() == {0: 7, 1: 143, 2: 143, 3: 143} and spare.returncode == 0


def test_unused_or_ended_spare_process_is_no_loss(started):
    with local.spare([]) as spare:
        pass
    assert spare.returncode == -signal.SIGTERM and not psutil.pid_exists(spare.pid)
    with local.spare([]) as spare:
        spare.kill()
        spare.wait()
        folder, launcher = started(2, spare=spare)
        (folder / "end.1").write_text("0")
        until(lambda: launcher.ended() == {1: 0})


def test_process_ends_with_its_standard_input(tmp_path):
    """A class that cannot be loaded fails its clients only."""
    command = [sys.executable, "-m", "storelab.gang.client", "storelab.engines.no_such:Client", "--", "gang", "0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_spare_process_is_begun_for_local_clients_only(monkeypatch):
    """It loads the classes of all roles, each once."""
    asked = []

    @contextlib.contextmanager
    def spare(places):
        asked.append(places)
        yield "process"

    monkeypatch.setattr(local, "spare", spare)
    axes = [{"engine": e} for e in ("obstore", "obstore", "none")]
    parts = [SimpleNamespace(point=SimpleNamespace(workload="put", axes=a)) for a in axes]
    point = SimpleNamespace(parts=lambda: parts)
    for kind, begun in (("srun", []), ("local", [["storelab.engines.obstore.transfers:ObstorePut"]])):
        config = SimpleNamespace(launcher=SimpleNamespace(kind=kind))
        with choose.spare(config, point) as given:
            assert asked == begun and given == ("process" if begun else None)
        with choose.spare(config, None) as given:
            assert given is None and asked == begun


WITHOUT_PANDAS = """
import sys
from pathlib import Path
from storelab.core import records
from storelab.gang import prefork
prefork.without_pandas()
records.write_table(Path(sys.argv[1]), {"n": "int64"}, {"n": [1, 2]})
try:
    import pandas
except ModuleNotFoundError as error:
    print(error.name, "pandas" in sys.modules)
"""


def test_records_are_written_without_pandas(tmp_path, monkeypatch):
    """It takes time and memory, and pyarrow would import it."""
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path / "t.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pandas", "False"] and (tmp_path / "t.parquet").exists()
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    prefork.without_pandas()
    with pytest.raises(ModuleNotFoundError, match="pandas"):
        sys.meta_path[0].find_spec("pandas")
    assert sys.meta_path[0].find_spec("numpy") is None
