"""Daemons and their workers: they are started, recognised, suspended, stopped and removed."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest
from laboratory import gone
from managed import until
from programs import python
from refusals import refusal

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.daemons import Daemons, runs_as

SERVER = """
import http.server, sys
at = ("127.0.0.1", int(sys.argv[1]))
http.server.ThreadingHTTPServer(at, http.server.SimpleHTTPRequestHandler).serve_forever()
"""
# A master of two workers with another title than its command line, like nginx; files show that all run.
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


def web(port, code=SERVER, grace=2.0):
    argv = (sys.executable, "-c", code, str(port))
    return Daemon("web", argv, "127.0.0.1", (port,), health="/", grace=grace, environ={"PATH": ""})


@pytest.fixture
def server(port_block):
    return web(port_block)


def begun(daemons, daemon):
    """Start a daemon and wait until it is healthy; return its pid."""
    pid = daemons.start(daemon)
    daemons.wait_healthy(daemon)
    return pid


def test_daemon_is_started_recognised_and_stopped(daemons, server):
    pid = begun(daemons, server)
    assert daemons.running() == {"web": pid} == Daemons(daemons.folder, "stores.d").running()
    assert os.getsid(pid) == pid
    columns = {"pid", "created", "argv", "grace", "host", "ports", "machine", "boot_id"}
    assert set(json.loads(daemons.file.read_text())["daemons"]["web"]) == columns, "and no key of its environment"
    assert daemons.stop() == [pid]
    assert not psutil.pid_exists(pid)
    assert daemons.stop() == []


def test_another_process_of_same_pid_is_never_signalled(daemons, server):
    with python() as bystander:
        pid = daemons.start(server)
        record = daemons.records()["web"]
        mine = psutil.Process(bystander.pid)
        for forged in (
            {"pid": mine.pid},
            {"pid": mine.pid, "created": mine.create_time()},
            {"pid": mine.pid, "argv": mine.cmdline(), "created": 1.0},
        ):
            daemons._write({"web": record | forged})
            assert daemons.running() == {}
            assert daemons.stop() == []
        assert bystander.poll() is None
        assert daemons.adopt(server) == pid  # found again by its command line


def test_daemon_that_ends_at_once_shows_its_log(daemons, server):
    broken = web(server.ports[0], "print('no such disk'); raise SystemExit(3)")
    daemons.start(broken)
    with pytest.raises(MeasurementFailed, match=r"web ended .*no such disk"):
        daemons.wait_healthy(broken)


def test_answer_of_another_store_is_not_health(daemons, server, tmp_path):
    other = Daemons(tmp_path / "other", "stores.other")
    pid = begun(other, server)
    try:
        late = web(server.ports[0], f"import time; time.sleep(0.3)\n{SERVER}")
        daemons.start(late)
        with pytest.raises(UserError, match=rf"stores.d.port: port \d+ of web is in use by .*\(pid {pid}, in "):
            daemons.wait_healthy(late)
        daemons.start(web(server.ports[0], "import time; time.sleep(60)"))
        with pytest.raises(MeasurementFailed, match=r"web is not healthy after 0\.5 s"):
            daemons.wait_healthy(late, 0.5)
    finally:
        other.stop()


def test_log_tail_has_last_lines_with_text(daemons):
    daemons.logs.mkdir(parents=True, exist_ok=True)
    (daemons.logs / "web.log").write_text("begun\n\ncorrupt\n\n  asked\n\n\nended\n\n")
    assert daemons.log_tail("web", 3) == "corrupt | asked | ended"
    assert daemons.log_tail("web") == "begun | corrupt | asked | ended"
    assert daemons.log_tail("none") == "(no log)"


def test_daemon_that_ignores_sigterm_is_killed(daemons, port_block):
    deaf = web(port_block, f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SERVER}", grace=0.1)
    pid = begun(daemons, deaf)
    assert daemons.stop() == [pid]
    assert not psutil.pid_exists(pid)


def test_suspended_daemon_is_resumed_and_stopped(daemons, server):
    pid = begun(daemons, server)
    daemons.suspend()
    assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    assert daemons.resume() == ["web"]
    assert daemons.resume() == []
    daemons.wait_healthy(server)
    daemons.suspend()
    assert daemons.stop() == [pid]


def test_taken_port_names_port_program_and_key(daemons, server):
    with socket.create_server(("127.0.0.1", server.ports[0])):
        message = refusal(daemons.check_ports, [server])
    for text in ("stores.d.port: ", f"port {server.ports[0]} of web", f"(pid {os.getpid()}, in {Path.cwd()})"):
        assert text in message
    message = refusal(daemons.check_ports, [Daemon("web", (), "192.0.2.7", server.ports)])
    assert message.startswith("stores.d.address: 192.0.2.7:")


def test_damaged_records_are_refused(daemons):
    daemons.folder.mkdir()
    whole = {"pid": 1, "created": 1.0, "grace": 2, "argv": ["x"]}
    parts = [{"daemons": {"web": {k: v for k, v in whole.items() if k != name}}} for name in whole]
    for data in ("{", "[]", "7", {"daemons": []}, {"daemons": {"web": 1}}, {"daemons": {"web": []}}, *parts):
        daemons.file.write_text(data if isinstance(data, str) else json.dumps(data))
        assert "daemons.json: the file is damaged; stop" in refusal(daemons.running), data
    daemons.file.unlink()


def test_daemons_without_their_records_are_found(daemons, server):
    pid = begun(daemons, server)
    daemons.file.unlink()
    assert daemons.running() == {} and daemons.adopt(server) == pid and daemons.running() == {"web": pid}
    daemons.file.unlink()
    daemons.note("web", warm=True)
    assert daemons.stop() == [] and daemons.sweep() == [pid] and gone([pid])


def test_one_process_at_a_time_has_the_lock(daemons):
    other = Daemons(daemons.folder, "stores.d")
    with daemons.lock(), pytest.raises(UserError, match="another storelab process"), other.lock(0.1):
        pass


@pytest.fixture
def master(daemons):
    daemons.folder.mkdir()
    ready = lambda: all((daemons.folder / f"worker-{i}").exists() for i in range(2))  # noqa: E731
    entered, environ = ("/bin/sh", "-c", 'exec "$@"', "sh"), {"PATH": os.environ["PATH"]}
    argv = (sys.executable, "-c", MASTER)
    daemon = Daemon("web-1", argv, "127.0.0.1", (9,), ready, prefix=entered, environ=environ)
    daemons.start(daemon)
    daemons.wait_healthy(daemon)
    return daemon


def test_daemon_is_known_by_its_command_line():
    argv = ("/usr/sbin/nginx", "-c", "x.conf")
    for same in (argv, ["nginx:", "master", "process", *argv, ""], ["ip", "netns", "exec", "sl-1", *argv]):
        assert runs_as(same, argv)
    for other in (["/usr/sbin/nginx", "-c", "y.conf"], [], ["nginx: worker process", "", ""]):
        assert not runs_as(other, argv)


def test_workers_are_suspended_and_stopped_too(daemons, master):
    pids = daemons.all_processes()
    assert set(pids) == {"web-1", "web-1/1", "web-1/2"} and daemons.running() == {"web-1": pids["web-1"]}
    daemons.suspend()
    assert {psutil.Process(p).status() for p in pids.values()} == {psutil.STATUS_STOPPED}
    assert daemons.resume() == ["web-1"] and daemons.resume() == []
    assert psutil.STATUS_STOPPED not in {psutil.Process(p).status() for p in pids.values()}
    daemons.suspend()
    assert sorted(daemons.stop()) == sorted(pids.values()) and gone(pids.values())


def test_workers_of_a_killed_daemon_are_swept_up(daemons, master):
    pids = daemons.all_processes()
    os.kill(pids["web-1"], signal.SIGKILL)
    os.kill(pids["web-1/1"], signal.SIGSTOP)
    until(lambda: not daemons.running())
    assert daemons.stop() == [] and not gone([pids["web-1/1"]]) and not gone([pids["web-1/2"]])
    daemons.file.unlink()  # as if it had never been recorded
    assert daemons.sweep(["web-2"]) == []
    assert sorted(daemons.sweep(["web-1"])) == sorted([pids["web-1/1"], pids["web-1/2"]])
    assert gone(pids.values()) and daemons.sweep() == []


def test_running_daemon_is_not_swept(daemons, master):
    pids = daemons.all_processes()
    assert daemons.sweep() == [] and daemons.all_processes() == pids
    daemons.file.unlink()  # never recorded
    assert sorted(Daemons(daemons.folder, "stores.d").sweep()) == sorted(pids.values())
