"""The launcher `ssh`: connections, reasons of failures, the choice of a Python, sent software, and lists of hosts."""

import fcntl
import io
import os
import platform
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from refusals import refusal
from small_plan import configured

from storelab import __version__
from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.gang.launchers import choose, package, ssh
from storelab.gang.launchers.ssh import Connections, Found, SshLauncher
from storelab.gang.rendezvous import Folder
from storelab.host import processes

# A program in place of ssh, which runs the commands for every host on this one, each with its own cache folder.
SSH = """#!/bin/sh
for word; do case $word in ControlPath=*) socket=${word#*=};; esac; done
how=$1
while [ "$1" != -- ]; do shift; done
case $2 in down*) echo "ssh: connect to host $2 port 22: Connection refused" >&2; exit 255;; esac
if [ "$how" = -M ]; then : >"$socket"; exec sleep 100; fi
XDG_CACHE_HOME="$CACHES/$2" exec /bin/sh -c "$3"
"""

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
        (["-oProxyCommand=x"], "is not a valid SSH host"),
        (["a b"], "is not a valid SSH host"),
        (["n1", "n1"], "'n1' is listed twice"),
    ):
        assert words in refusal(settings, kind="ssh", hosts=hosts)
    assert refusal(choose.most_nodes, settings(kind="ssh")).startswith("launcher.hosts: the list is empty")
    two = settings(kind="ssh", hosts=["user@node1", "ssh://node2:2222"])
    assert choose.most_nodes(two) == 2
    message = refusal(choose.most_nodes, settings(kind="ssh", hosts=["n1"], nodes=2))
    assert message.startswith("launcher.nodes: 2 nodes are configured, but launcher.hosts has 1")


def test_minimum_python_is_accepted():
    for version, fits in (("3.11.0", True), ("3.10.12", False), ("4.0.0", True), ("3.9.2", False)):
        assert found(version).fits() == fits
    here = found(platform.python_version())._replace(machine=platform.machine())
    assert here.like_here() and not here._replace(machine="other").like_here()
    assert not here._replace(version="3.9.2").like_here()


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Yield a function that connects to hosts; they have Python, and storelab if their name begins with `has`."""
    programs, before = tmp_path / "bin", set(psutil.Process().children())
    programs.mkdir()
    plain = " ".join(["storelab-python", platform.python_version(), platform.machine()])
    for name, text in (
        ("ssh", SSH),
        ("python-has", f"#!/bin/sh\necho {plain} {__version__} {sys.executable}\n"),
        ("python-plain", f"#!/bin/sh\necho {plain} - {sys.executable}\n"),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CACHES", str(tmp_path / "caches"))
    (tmp_path / "source.py").write_text("one")
    monkeypatch.setattr(package, "files", lambda: iter([("storelab/source.py", tmp_path / "source.py")]))

    def settings(*names: str, python: str = "python-plain", options: tuple[str, ...] = ()) -> SimpleNamespace:
        return SimpleNamespace(hosts=list(names), python=python, setup=None, options=list(options))

    yield settings
    assert not list(tmp_path.glob(f"{ssh.FOLDER}*")), "the folder of the sockets"
    assert set(psutil.Process().children()) <= before


def connected(settings, **how) -> Connections:
    return Connections(settings.hosts, settings, os.environ, **how)


def test_options_of_the_user_do_not_replace_those_of_storelab(hosts, tmp_path):
    """ssh uses the first value of an option."""
    options = ("-o", "BatchMode=no", "-o", "ConnectTimeout=3", "-o", "LocalForward=1234 localhost:22")
    with closing(connected(hosts("a", options=options), prepare=False)) as connections:
        words = connections.all[0].options
        assert connections.folder.stat().st_mode & 0o777 == 0o700
    command = ["/usr/bin/ssh", "-G", "-F", "none", *words, "a"]
    if not Path(command[0]).exists():
        pytest.skip("OpenSSH is not installed: storelab install sshd")
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for line in ("batchmode yes", "connecttimeout 3", "serveraliveinterval 5", "clearallforwardings yes"):
        assert line in lines


def test_late_command_is_ended(hosts):
    with closing(connected(hosts("a"), prepare=False)) as connections:
        before = psutil.Process().children()
        assert connections.all[0].run("exec sleep 100", 0.3) == (processes.LATE, "", "no answer within 0.3 s")
        assert psutil.Process().children() == before
        assert connections.all[0].run("cat; echo late >&2; exit 3") == (3, "", "late\n")


def test_software_is_sent_once_and_removed_if_unused(hosts, tmp_path, capsys):
    def sent(host: str) -> list[str]:
        return sorted(path.name for path in (tmp_path / "caches" / host / "storelab").iterdir())

    settings = hosts("a", "b")
    for reported in (1, 0):
        with closing(connected(settings)) as connections:
            assert connections.pythons == {0: sys.executable, 1: sys.executable} and not connections.problems
            assert capsys.readouterr().err.count("to 2 hosts without it") == reported
            assert sent("a") == sent("b") == [f"sent-{connections.sent}"]
            script = connections.command(1, "-c", "import os; print(*map(os.environ.get, ['PYTHONPATH', 'X']))")
            folder = tmp_path / "caches" / "b" / "storelab" / f"sent-{connections.sent}"
            assert connections.all[1].run(script) == (0, f"{folder} None\n", "")
            assert (folder / "storelab/source.py").read_text() == "one"
    used = tmp_path / "caches/b/storelab/sent-0"
    used.mkdir()
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    shutil.rmtree(tmp_path / "caches/a")
    ssh.remove(hosts("a", "b", "down"))
    os.close(lock)
    assert sent("b") == ["sent-0"], "an agent uses it"
    assert not (tmp_path / "caches/a/storelab").exists(), "removing sends nothing"


def locked(folder: Path) -> bool:
    """Return whether another process has locked the folder."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def test_software_that_is_being_sent_is_not_removed(hosts, tmp_path):
    """Another campaign of the same user ends while this one sends its software."""
    cache = tmp_path / "caches/a/storelab"
    archive = io.BytesIO()
    package.write(archive)
    with closing(connected(hosts("a"), prepare=False)) as connections:
        connections.all[0].run(ssh.LOOK % "new")
        sending = connections.all[0].begin(ssh.SEND % "new", stdout=subprocess.PIPE)
        sending.stdin.write(archive.getvalue()[:10])
        sending.stdin.flush()
        assert clock.wait_for(lambda: any(map(locked, cache.glob(".sending-*"))), 10, 0.01)
        ssh.remove(hosts("a"))
        assert sending.communicate(archive.getvalue()[10:])[0] == b"storelab-sent\n"
    assert (cache / "sent-new/storelab/source.py").exists() and len(list(cache.iterdir())) == 1
    (cache / ".sending-killed").mkdir()
    ssh.remove(hosts("a"))
    assert not list(cache.iterdir())


def test_host_with_storelab_gets_nothing(hosts, tmp_path, capsys):
    with closing(connected(hosts("a", python="python-has"))) as connections:
        assert connections.pythons == {0: sys.executable} and not connections.plain
        script = connections.command(0, "-c", "import os; print(os.environ.get('STORELAB_TOOLS'))")
        assert connections.all[0].run(script)[1] == os.environ.get("STORELAB_TOOLS", "None") + "\n"
    assert not capsys.readouterr().err and not (tmp_path / "caches").exists()


def test_other_version_of_storelab_is_not_used(hosts, monkeypatch):
    monkeypatch.setattr(ssh, "__version__", "9.9")
    with closing(connected(hosts("a", python="python-has"))) as connections:
        assert [*connections.plain] == [0], "it gets this version"


def test_full_cache_folder_is_named(hosts, monkeypatch):
    lines = ("tar: one: broken", "tar: two: Cannot write: No space left on device", "tar: end")
    monkeypatch.setattr(ssh, "SEND", "cat >/dev/null; printf '%%s\\n' " + " ".join(f"'{line}'" for line in lines))
    monkeypatch.setattr(ssh, "SEND", ssh.SEND + " >&2 # %s")
    with closing(connected(hosts("a", "b"))) as connections:
        (first, _) = connections.named()
        assert first.startswith("a: it has no storelab, and its cache folder cannot take it (tar: two: Cannot write")
        assert not connections.pythons


def launcher(settings, folder: Path) -> SshLauncher:
    return SshLauncher(folder, [[0], [1]], [{}], settings)


def test_problems_are_listed_in_the_order_of_the_hosts(hosts, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")  # as for a user without a login session
    with closing(connected(hosts("a", "down", python="nothing"))) as connections:
        assert connections.folder.parent == Path("/tmp")
        first, second = connections.named()
    assert first.startswith("a: there is no Python (nothing)") and second.startswith("down: connect to host down")


def test_secrets_do_not_reach_ssh(hosts, tmp_path, monkeypatch):
    for name in ("AWS_SECRET_ACCESS_KEY", "BEARER_TOKEN", "TOKEN_OF_A_STORE"):
        monkeypatch.setenv(name, "secret")
    gang = launcher(hosts("has1", "has2", python="python-has"), tmp_path)
    gang.tokens = ("TOKEN_OF_A_STORE",)
    gang.connect()
    try:
        assert gang.connections.pythons and "PATH" in gang.connections.all[0].environ
        assert "secret" not in gang.connections.all[0].environ.values()
    finally:
        gang.stop()


def test_folders_of_killed_agents_are_removed(hosts, tmp_path, monkeypatch):
    """One agent has ended in order, one was killed, one hangs, and the connection of one is lost."""
    gang, scripts = launcher(hosts("a", "b", "c", "d"), tmp_path), {}

    def connection(number: int, end: int | None) -> SimpleNamespace:
        run = lambda script, timeout_s: scripts.update({number: script})  # noqa: E731
        return SimpleNamespace(process=SimpleNamespace(poll=lambda: end), run=run)

    gang.connections = SimpleNamespace(
        all=[connection(n, 255 if n == 3 else None) for n in range(4)],
        command=lambda number, *words: " ".join(words[1:]),
    )
    gang.agents = {n: SimpleNamespace(poll=lambda end=end: end) for n, end in enumerate((0, -9, None, 255))}
    gang.pipes = {n: SimpleNamespace(pid=100 + n) for n in range(4)}
    gang._clear()
    assert not scripts, "there was no job"
    (tmp_path / "job.json").touch()
    monkeypatch.setattr(ssh.GangJob, "read", lambda folder: SimpleNamespace(scratch_base="/scratch"))
    gang._clear()
    sweep = "storelab.gang.agent sweep /scratch"
    assert scripts == {1: sweep, 2: f"kill -9 102 2>/dev/null; {sweep}"}


def test_unusable_host_fails_the_start_and_names_all(hosts, tmp_path):
    gang = launcher(hosts("has1", "down2", "down3", python="python-has"), tmp_path)
    assert gang.hosts == ["has1", "down2"], "the first hosts of the list"
    gang.settings.hosts.reverse()
    try:
        with pytest.raises(MeasurementFailed, match=r"^launcher\.hosts: down2: connect to host down2 port 22: Conn"):
            gang.launch()
        assert not gang.agents
    finally:
        gang.stop()


def test_ended_agent_is_reported_after_its_last_message(hosts, tmp_path):
    """A pipe may still have the record or the failure of an agent that has ended."""
    ends = [None, 1]
    for last, expected in (("node.1", ""), ("failed.1", ""), ("", "node 1 (b): its agent ended with status 1 (gone)")):
        gang = launcher(hosts("a", "b"), folder := tmp_path / f"gang{last}")
        folder.mkdir()
        (folder / "agent.1.err").write_text("first\ngone\n")
        waited: list[float] = []

        def join(seconds, name=last, folder=folder, waited=waited):
            waited.append(seconds)
            if name:
                Folder(folder).put(name, {})

        gang.agents = {n: SimpleNamespace(poll=lambda end=end: end) for n, end in enumerate(ends)}
        gang.pipes = {n: SimpleNamespace(join=join) for n in (0, 1)}
        process = SimpleNamespace(poll=lambda: None)
        gang.connections = SimpleNamespace(all=[SimpleNamespace(process=process, log=folder / "no")] * 2)
        assert gang._ended_early(0.0) == expected and waited == [ssh.SETTLE_S]
        assert gang.running()
    process.poll = lambda: 255
    (folder / "no").write_text("Connection to b closed\nTimeout, server b not responding.\n")
    assert gang._ended_early(0.0) == "node 1 (b): its connection is lost (Timeout, server b not responding.)"


def test_folders_of_killed_processes_are_removed(tmp_path):
    for pid in (os.getpid(), 2**22 + 1):
        (tmp_path / f"{ssh.FOLDER}{pid}-abc").mkdir()
    (tmp_path / f"{ssh.FOLDER}other").mkdir()
    ssh.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{ssh.FOLDER}{os.getpid()}-abc", f"{ssh.FOLDER}other"}
    if os.geteuid() == 0:
        other = tmp_path / f"{ssh.FOLDER}{2**22 + 1}-def"
        other.mkdir()
        os.chown(other, 12345, 12345)
        ssh.sweep(tmp_path)
        assert other.exists(), "it belongs to another user"


def test_missing_ssh_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert refusal(ssh.require).startswith("launcher.kind: there is no ssh on PATH; install openssh-client")
