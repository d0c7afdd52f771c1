"""Whole gangs: signals that end them, credentials that they carry, nodes in records, and reasons of their end."""

import base64
import json
import subprocess
import sys
import time

import pytest
from made_jobs import POINT, client_result, gang_job

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import RunRecord
from storelab.gang import coordinator, credentials, nodes
from storelab.gang.launchers.local import LocalLauncher


def token(**claims) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{body}.sign"


def test_token_that_ends_too_early_is_named(tmp_path):
    assert "BEARER_TOKEN" in credentials.too_short({"BEARER_TOKEN": token(exp=time.time() + 5)}, 60)
    assert not credentials.too_short({"BEARER_TOKEN": token(exp=time.time() + 500)}, 60)
    assert not credentials.too_short({}, 60)
    (tmp_path / "t").write_text(token(exp=time.time() - 5))
    assert str(tmp_path / "t") in credentials.too_short({"BEARER_TOKEN_FILE": str(tmp_path / "t")}, 1)


def test_batch_system_gets_no_secrets(tmp_path):
    environ = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ACCESS_KEY_ID": "k", "BEARER_TOKEN": "t"}
    assert credentials.clean(environ) == {"PATH": "/bin"}
    with pytest.raises(UserError, match=r"X509_USER_PROXY: .*/none"):
        credentials.collect([{}], {"X509_USER_PROXY": str(tmp_path / "none")})


def test_nodes_on_one_machine_count_once(tmp_path):
    here = nodes.BOOT_ID.read_text().strip()
    watched = {"cores": 4, "cpu_busy_s": 3.0, "seconds": 2.0, "network": {}}

    class Several(LocalLauncher):
        def about(self):
            boots = enumerate((here, here, "other"))
            return [{"node": n, "host": f"n{n}", "boot_id": boot, "watched": watched, "pid": 1} for n, boot in boots]

    results = [client_result(cpu_user_s=1.0, cpu_system_s=0.5)] * 3
    run = RunRecord(point=POINT)
    nodes.add_to(run, Several(tmp_path, 1, [{}]), results, {"server_cpu_s": 0.7})
    assert run.host["cores"] == 8 and run.host["cpu_busy_s"] == 6.0 and run.host["client_cpu_s"] == 4.5
    assert run.shared_machine and run.host["server_cpu_s"] == 0.7 and "pid" not in run.nodes[0]
    one = RunRecord(point=POINT)
    nodes.add_to(one, LocalLauncher(tmp_path, 1, [{}]), results, {})
    assert one == RunRecord(point=POINT)


def test_full_disk_does_not_hide_why_a_gang_ended(tmp_path, monkeypatch):
    class Refuses:
        participants, noun, accept = [0], "client", None

        def start(self):
            monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
            raise MeasurementFailed("no clients today")

        def stop(self):
            self.stopped = True

    launcher = Refuses()
    with pytest.raises(MeasurementFailed, match="no clients today"):
        coordinator.run(launcher, tmp_path, 1, 5, 1, print)
    assert launcher.stopped


def run(code, folder):
    return subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60)


GANG = """
import os, signal, sys
from pathlib import Path
from storelab.gang import coordinator
from storelab.gang.launchers.local import LocalLauncher
coordinator.handle_signals()
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
os.register_at_fork(after_in_parent=lambda: print("dropped"))
folder = Path(sys.argv[1])
coordinator.run(LocalLauncher(folder, 1, [{}]), folder, 1, 20, 20, lambda t0: None)
"""


def test_signal_during_a_fork_ends_the_gang(tmp_path):
    """Python drops what a handler raises there and prints a traceback: the coordinator looks for itself instead."""
    done = run(GANG, tmp_path)
    assert done.returncode == 143 and done.stdout == "dropped\n" and not done.stderr, done.stderr
    assert (tmp_path / "abort").exists()


AGENT = """
import os, signal, sys
from pathlib import Path
from storelab.gang import relay
from storelab.gang.agent import Agent, _end_by_signal
signal.signal(signal.SIGTERM, _end_by_signal)
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
agent = Agent(relay.uplink(sys.argv[1]), 0)
if os.fork() == 0:
    os._exit(0)
print("dropped")
agent._relay = lambda: None
agent._until(lambda: None)
"""


def test_signal_during_a_fork_ends_the_agent(tmp_path):
    gang_job(nodes=[[0]], timeout_ns=20 * 10**9, silence_ns=20 * 10**9).write(tmp_path)
    done = run(AGENT, tmp_path)
    assert done.stdout == "dropped\n" and done.stderr.splitlines()[-1].endswith("walltime is over"), done.stderr
