"""The launcher `ssh`: reasons of failed connections, the choice of a Python, and refused lists of hosts."""

import os
import platform
import subprocess
import sys

import pytest
from refusals import refusal
from small_plan import configured

from storelab import __version__
from storelab.gang.launchers import choose, ssh
from storelab.gang.launchers.ssh import Found

CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Offending ED25519 key in /home/user/.ssh/known_hosts:3
Host key for node1 has changed and you have requested strict checking.
Host key verification failed."""
UNKNOWN = (
    "No ED25519 host key is known for node1 and you have requested strict checking.\nHost key verification failed."
)


def test_reasons_name_the_fix():
    for text, words in (
        (CHANGED, ("not the known one (/home/user/.ssh/known_hosts:3)", "ssh-keygen -R")),
        (UNKNOWN, ("host key is not known", "`ssh node1` once")),
        ("node1: Permission denied (publickey,password).", ("no key of this user", "ssh-copy-id node1")),
        ("ssh: Could not resolve hostname node1: Name or service not known", ("Could not resolve hostname",)),
        ("ssh: connect to host node1 port 22: Connection refused", ("connect to host node1 port 22: Connection ref",)),
        ("", ("ended without a message",)),
    ):
        message = ssh.reason("node1", text.splitlines())
        assert all(word in message for word in words), message


def found(version: str = "3.12.1", storelab: str = __version__, path: str = "/usr/bin/python3") -> Found:
    return Found("storelab-python", version, "x86_64", storelab, path)


def test_unfit_python_is_named():
    for pythons, errors, words in (
        ([], [], "there is no Python (python3); install Python 3.11 or newer"),
        ([found("3.9.2")], [], "/usr/bin/python3 is Python 3.9.2; set launcher.python to Python 3.11 or newer"),
        ([found("2.7.18", "-"), found(storelab="0.1.0")], [], f"has storelab 0.1.0, here {__version__}"),
        ([found(storelab="-")], [], "/usr/bin/python3 (Python 3.12.1, x86_64) has no storelab, and this host's is for"),
        ([], ["launcher.setup: line 1: nope", "storelab: node 0 (n): launcher.setup failed"], "line 1: nope"),
    ):
        assert words in ssh.unfit(pythons, ["python3"], errors)


def test_probe_describes_this_python():
    done = subprocess.run([sys.executable, "-c", ssh.PROBE], capture_output=True, text=True, check=True)
    assert Found(*done.stdout.split()) == found(platform.python_version(), path=sys.executable)._replace(
        machine=platform.machine()
    )


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_login_shell_leaves_the_input_to_the_script(shell):
    script = 'exec cat; # \'"$x" \\n !!'
    encoded = ssh.base64.b64encode(script.encode()).decode()
    done = subprocess.run([shell, "-c", ssh.COMMAND], input=f"{encoded}\nrest\n", capture_output=True, text=True)
    assert done.stdout == "rest\n" and not done.stderr


def settings(**launcher):
    sweep = {"workload": "put", "duration": "10 s", "axes": {"clients": 4, "clients_per_node": 2}}
    return configured(sweeps={"up": sweep}, stores={"a": {"kind": "s3", "endpoint": "http://a"}}, launcher=launcher)


def test_wrong_hosts_are_refused():
    for hosts, words in (
        (["-oProxyCommand=x"], "is not a host of ssh"),
        (["a b"], "is not a host of ssh"),
        (["n1", "n1"], "'n1' is listed twice"),
    ):
        assert words in refusal(settings, kind="ssh", hosts=hosts)
    assert refusal(choose.most_nodes, settings(kind="ssh")).startswith("launcher.hosts: the list is empty")
    two = settings(kind="ssh", hosts=["user@node1", "ssh://node2:2222"])
    assert choose.most_nodes(two) == 2
    message = refusal(choose.most_nodes, settings(kind="ssh", hosts=["n1"], nodes=2))
    assert message.startswith("launcher.nodes: 2 nodes are configured, but launcher.hosts has 1")


def test_folders_of_killed_processes_are_removed(tmp_path):
    for pid in (os.getpid(), 2**22 + 1):
        (tmp_path / f"{ssh.FOLDER}{pid}-abc").mkdir()
    (tmp_path / f"{ssh.FOLDER}other").mkdir()
    ssh.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{ssh.FOLDER}{os.getpid()}-abc", f"{ssh.FOLDER}other"}


def test_missing_ssh_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert refusal(ssh.require).startswith("launcher.kind: there is no ssh on PATH; install openssh-client")
