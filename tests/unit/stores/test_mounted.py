"""Mounted stores (GlusterFS, OpenAFS): settings, volumes, and the answers of their tools. None is started."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from programs import python
from refusals import refusal

from storelab import stores
from storelab.core.errors import MeasurementFailed
from storelab.core.records import write_json
from storelab.host import processes
from storelab.stores import faults, glusterfs, make, mounted, openafs
from storelab.stores.base import CLEAN, DEGRADED, DOWN, RECOVERING
from storelab.stores.managed import daemons, network
from storelab.stores.managed.daemon import within
from storelab.stores.managed.network import Namespace

KINDS = [k for k in stores.KINDS if issubclass(stores.load(k), mounted.Mounted)]
# Printed by `gluster volume info` of GlusterFS 10.3.
INFO = """
Volume Name: storelab
Type: Distributed-Replicate
Volume ID: 5d1a6d3c-5c0e-4a0f-9d2e-0e7a4c1e9b11
Status: Started
Snapshot Count: 0
Number of Bricks: 2 x 2 = 4
Transport-type: tcp
Bricks:
Brick1: 10.213.85.2:/d/brick-1
Brick2: 10.213.85.2:/d/brick-2
Brick3: 10.213.85.2:/d/brick-3
Brick4: 10.213.85.2:/d/brick-4
Options Reconfigured:
network.ping-timeout: 5
"""


def store(kind: str, folder: Path, **settings):
    return make("m", stores.load(kind).Settings(kind=kind, **settings), folder)


@pytest.fixture
def installed(monkeypatch):
    """Pretend that every program exists, and that root runs storelab."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for module in (mounted, glusterfs, openafs):
        monkeypatch.setattr(module, "program", lambda name, kind, place: Path("/usr/sbin", name))
    for kind in KINDS:
        monkeypatch.setattr(stores.load(kind), "program", lambda self: Path("/usr/sbin/server"))
    monkeypatch.setattr(mounted, "DEVICE", Path(os.devnull))
    monkeypatch.setattr(processes, "run_command", lambda *a, **k: subprocess.CompletedProcess(a, 0, "", ""))


def test_missing_privileges_are_reported(tmp_path, monkeypatch, installed):
    refused = subprocess.CompletedProcess([], 1, "", "unshare: unshare failed: Operation not permitted\n")
    missing = [
        (processes, "run_command", lambda *a, **k: refused, "Operation not permitted"),
        (mounted, "DEVICE", tmp_path / "none", "FUSE"),
        (os, "geteuid", lambda: 1000, "needs root"),
    ]
    for kind in KINDS:
        store(kind, tmp_path).require()
        assert "' '" in refusal(store(kind, tmp_path / "my data").require), "no blanks in paths"
        with monkeypatch.context() as patch:
            for module, name, value, text in missing:
                patch.setattr(module, name, value)
                message = refusal(store(kind, tmp_path).up)
                assert message.startswith("stores.m: ") and text in message and "kind `directory`" in message
                assert not list(tmp_path.iterdir())


def test_missing_program_names_its_installation(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("storelab.install.SERVERS", ())
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    for kind in KINDS:
        assert f"`storelab install {kind}`" in refusal(store(kind, tmp_path).require)
        (part,) = stores.load(kind).recipe(tmp_path)
        assert "iproute2" in part.what and "root or sudo" in part.needs


def test_endpoints_are_folders_and_subnets_are_separate(tmp_path):
    for kind in KINDS:
        one = store(kind, tmp_path)
        first = one.endpoint("mount-1")
        assert first.protocol == "file" and first.url.startswith(f"file://{tmp_path}/m/mount-1")
        assert first.url.removeprefix("file://") == str(one.path)
        last = int(one.settings.subnet.removesuffix("/30").rpartition(".")[2])
        assert one.moved(one.settings, 2).subnet.endswith(f".{last + 8}/30")
        assert one.status().state == "down" and one.used_bytes() is None and one.down() == []
    models = [stores.load(k).Settings.model_fields for k in stores.KINDS]
    subnets = [fields["subnet"].default for fields in models if "subnet" in fields]
    assert len(subnets) == len(set(subnets)) == len(KINDS) + 1


def test_file_with_two_names_counts_once(tmp_path):
    one = store("glusterfs", tmp_path)
    brick = one.data / "brick-1"
    brick.mkdir(parents=True)
    (brick / "a").write_bytes(os.urandom(100_000))
    before = one.used_bytes()
    os.link(brick / "a", brick / "b")
    assert one.used_bytes() == before >= 100_000


def test_mounts_and_namespaces_are_found(tmp_path, monkeypatch):
    assert mounted.mounted(Path("/proc")) and not mounted.mounted(tmp_path)
    (tmp_path / "own").symlink_to("/proc/self/ns/net")
    monkeypatch.setattr(network, "NAMES", tmp_path)
    assert os.getpid() in {p.pid for p in Namespace("own", "10.0.0.0/30", "stores.m").processes()}
    assert Namespace("none", "10.0.0.0/30", "stores.m").processes() == []


# GlusterFS


def test_bricks_make_complete_sets(tmp_path, installed):
    for redundancy, servers, share, kind, tolerated_failures in (
        ("none", 3, 1.0, "Distribute", 0),
        ("replica-2", 2, 2.0, "Replicate", 1),
        ("replica-2", 4, 2.0, "Distributed-Replicate", 1),
        ("replica-3", 3, 3.0, "Replicate", 2),
        ("ec-2-1", 3, 1.5, "Disperse", 1),
        ("ec-2-1", 6, 1.5, "Distributed-Disperse", 1),
    ):
        one = store("glusterfs", tmp_path, redundancy=redundancy, servers=servers)
        one.require()
        assert (one.drives.raw_share(), one._kind(), one.tolerated_failures()) == (share, kind, tolerated_failures), (
            redundancy
        )
        assert one.data_actors() == [f"brick-{i + 1}" for i in range(servers)]
        assert ("heal-1" in one.daemon_actors()) == (redundancy != "none")
        assert (
            faults.resolve(one, "data.0", 2, "f") == "brick-1" and faults.resolve(one, "front.1", 2, "f") == "mount-2"
        )
    for redundancy, servers in (("replica-2", 3), ("replica-3", 4), ("ec-2-1", 2)):
        message = refusal(store("glusterfs", tmp_path, redundancy=redundancy, servers=servers).up)
        assert message.startswith(f"stores.m.servers: {servers} bricks") and redundancy in message
    assert "redundancy" in refusal(store, "glusterfs", tmp_path, redundancy="ec-4-2")


def test_volume_info_is_parsed():
    bricks = [f"10.213.85.2:/d/brick-{i}" for i in (1, 2, 3, 4)]
    assert glusterfs.facts(INFO) == (bricks, "Distributed-Replicate", "Started")
    assert glusterfs.facts("Volume storelab does not exist") == ([], "", "")


def answering(one, monkeypatch, info: str) -> list[tuple[str, ...]]:
    """Record the commands to the volume's tool, which gives this answer to `volume info`."""
    asked: list[tuple[str, ...]] = []

    def ask(*words, seconds=0.0):
        asked.append(words)
        missing = words[:2] == ("volume", "info") and not info and len(asked) == 1
        made = info or INFO.replace("/d/", f"{one.data}/")
        return subprocess.CompletedProcess(words, int(missing), "" if missing else made, "")

    monkeypatch.setattr(one, "_ask", ask)
    return asked


def test_volume_is_made_once_and_never_of_other_data(tmp_path, monkeypatch):
    one = store("glusterfs", tmp_path, redundancy="replica-2", servers=4)
    asked = answering(one, monkeypatch, "")
    one._make_volume()
    assert [w[1] for w in asked] == ["info", "create", "set", "info"]
    assert asked[1][2:5] == ("storelab", "replica", "2") and asked[1][5:] == (*one._brick_addresses, "force")
    assert one._brick_addresses[0] == f"10.213.85.2:{one.data}/brick-1"
    asked = answering(one, monkeypatch, INFO.replace("/d/", f"{one.data}/").replace("Started", "Stopped"))
    one._make_volume()
    assert [w[1] for w in asked] == ["info", "start"]
    for other in (INFO, INFO.replace("/d/", f"{one.data}/").replace("Distributed-R", "R")):
        asked = answering(one, monkeypatch, other)
        message = refusal(one._make_volume)
        assert message.startswith("stores.m: ") and "4 bricks" in message and [w[1] for w in asked] == ["info"]


def test_files_are_healed_after_a_loss_only(tmp_path, monkeypatch):
    one = store("glusterfs", tmp_path)
    listed = one.data / "brick-2" / ".glusterfs" / "indices" / "xattrop"
    listed.mkdir(parents=True)
    (listed / "xattrop-3f0a").touch()  # the file that the others are names of
    running = {f"brick-{i}": os.getpid() for i in (1, 2, 3)}
    monkeypatch.setattr(type(one.daemons), "running", lambda self: running)
    assert one.condition().state == CLEAN
    (listed / "c0ffee").touch()
    assert one.condition().state == CLEAN, "it is being written"
    lost = running.pop("brick-3")
    assert one.condition() == type(one.condition())(DEGRADED, "bricks running 2 of 3; files to heal: 1")
    running["brick-3"] = lost
    assert one.condition().state == RECOVERING
    (listed / "c0ffee").unlink()
    assert one.condition().state == CLEAN
    running.clear()
    assert one.condition().state == DOWN


def test_stopped_process_counts_as_lost():
    with python() as child:
        assert not mounted.is_stopped(child.pid)
        daemons.hold([psutil.Process(child.pid)])
        assert mounted.is_stopped(child.pid)
    assert mounted.is_stopped(child.pid)


def test_restarted_brick_is_the_same_daemon(tmp_path, installed):
    """glusterd starts it without -N; storelab, after a kill, with -N and the same words."""
    one = store("glusterfs", tmp_path)
    words = ["-s", "10.213.85.2", "--brick-name", f"{one.data}/brick-1", "--brick-port", "49152"]
    one.folder.mkdir(parents=True)
    write_json(one._note, {"brick-1": words})
    brick = one.daemon("brick-1")
    assert list(brick.argv) == words and brick.ports == (49152,) and brick.prefix[-2:] == ("/usr/sbin/glusterfsd", "-N")
    for started in (["/usr/sbin/glusterfsd", *words], [*brick.prefix[-2:], *words]):
        assert daemons.runs_as(started, brick.argv)
    assert not daemons.runs_as(["/usr/sbin/glusterfsd", *words[:-1], "49153"], brick.argv)


def test_listening_port_is_recognised():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert not mounted.listens(*taken.getsockname())
        taken.listen()
        assert mounted.listens(*taken.getsockname())


def test_pid_files_of_ended_processes_are_removed(tmp_path, monkeypatch):
    """glusterd trusts the numbers in files, although their processes may have been killed."""
    one = store("glusterfs", tmp_path)
    monkeypatch.setattr(Namespace, "processes", lambda self: [psutil.Process()])
    folder = one._spool / "run" / "gluster"
    folder.mkdir(parents=True)
    (folder / "dead.pid").write_text("4194304\n")
    (folder / "alive.pid").write_text(f"{os.getpid()}\n")
    one._remove_stale_pids()
    assert [p.name for p in folder.iterdir()] == ["alive.pid"]


# OpenAFS


@contextlib.contextmanager
def rx(answer: bytes):
    """Yield the port of a server that answers one packet, and the list of packets that it received."""
    got: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)

        def serve():
            packet, sender = server.recvfrom(1500)
            got.append(packet)
            server.sendto(answer, sender)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], got
        thread.join()


def test_rx_server_reports_its_version():
    """The header of Rx has 28 bytes; its 21st is the type, 13 for a version. Bit 1 marks the side that connected."""
    with rx(bytes(28) + b"OpenAFS 1.8.9") as (port, got):
        assert openafs.answers("127.0.0.1", port)
    assert len(got[0]) == 29 and got[0][20] == 13 and got[0][21] & 1
    assert got[0][:20] == bytes([0, 0, 16, 0]) + bytes(16) and not any(got[0][22:]), "call 0 of connection 0"
    with rx(b"who are you?") as (port, _):
        assert not openafs.answers("127.0.0.1", port)
    assert not openafs.answers("127.0.0.1", port, 0.05)


def made(one, monkeypatch, dump: bytes) -> list[tuple[str, ...]]:
    """Return the commands to `vos` when the volume is made from this dump."""
    asked: list[tuple[str, ...]] = []

    def ask(tool, *words, seconds=0.0):
        asked.append(words)
        missing = words[0] == "examine" and ("restore" not in [w[0] for w in asked])
        if words[0] == "dump":
            (one.data / "lib").mkdir(parents=True)
            (one.data / "lib" / "template.dump").write_bytes(dump)
        if words[0] == "restore":
            assert (one.data / "lib" / "template.dump").read_bytes() == b"head" + openafs.ANY_USER + b"tail"
        return subprocess.CompletedProcess(words, int(missing), f"{one.namespace.server} On-line", "")

    monkeypatch.setattr(one, "_ask", ask)
    one._make_volume()
    return asked


def test_volume_is_open_to_everybody_and_made_once(tmp_path, monkeypatch):
    """Access lists name groups by negative numbers."""
    assert (openafs.ADMINISTRATORS, openafs.ANY_USER) == (b"\xff\xff\xff\x34", b"\xff\xff\xff\x9b")
    one = store("openafs", tmp_path)
    asked = made(one, monkeypatch, b"head" + openafs.ADMINISTRATORS + b"tail")
    changes = [w[0] for w in asked if w[0] not in ("examine", "listaddrs")]
    assert changes == ["create", "dump", "restore", "setfields", "remove"]
    assert ("setfields", "root.cell", "-maxquota", "0") in asked and not list((one.data / "lib").iterdir())
    before = len(asked)
    one._make_volume()
    assert {w[0] for w in asked[before:]} == {"examine", "listaddrs"}
    with pytest.raises(MeasurementFailed, match="access list"):
        made(store("openafs", tmp_path / "other"), monkeypatch, b"an access list of another kind")


def test_folder_of_the_user_is_the_vice_partition(tmp_path, monkeypatch):
    monkeypatch.setattr(Namespace, "up", lambda self: None)
    monkeypatch.setattr(network, "program", lambda name, kind, place: Path("/usr/sbin", name))
    one = store("openafs", tmp_path / "state", directory=str(tmp_path / "lustre"))
    one.make_ready()
    assert (tmp_path / "lustre" / "vicepa" / "AlwaysAttach").exists()
    assert str(tmp_path / "lustre") in one.daemon("fileserver-1").prefix
    own = one._runtime / "etc"
    assert (own / "ThisCell").read_text() == (own / "server" / "ThisCell").read_text() == "storelab.test\n"
    assert one.settings.subnet == "10.213.89.0/30" and "10.213.89.2 #afsdb" in (own / "CellServDB").read_text()
    assert (own / "cacheinfo").read_text() == f"{one.path.parent}:{one._runtime}/cache:100000\n", (
        "afsd.fuse needs it to start"
    )


def test_servers_know_each_other_before_the_next_starts(tmp_path, monkeypatch):
    """The tools are asked until they answer, each twice here."""
    one, asked = store("openafs", tmp_path), []

    def ask(tool, *words, seconds=0.0):
        asked.append((tool, *words))
        return subprocess.CompletedProcess(words, int(asked.count((tool, *words)) == 1), "", "")

    monkeypatch.setattr(one, "_ask", ask)
    monkeypatch.setattr(openafs.time, "sleep", lambda seconds: None)
    for name in ("ptserver-1", "vlserver-1"):
        one.started(SimpleNamespace(name=name))
    assert asked == [("pts", "listentries")] * 2 + [("vos", "listaddrs")] * 2


def test_file_server_quits_before_others_are_stopped(tmp_path, monkeypatch):
    """Even a suspended one gets SIGQUIT, else its volumes must be salvaged; the clients end before it."""
    one, stopped, waited = store("openafs", tmp_path), [], []
    names = ["mount-1", "ptserver-1", "fileserver-1", "volserver-1"]
    heard = partial(signal.signal, signal.SIGQUIT, signal.SIG_DFL)  # shells ignore it in their background
    server = subprocess.Popen(["sleep", "600"], preexec_fn=heard)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        fakes = {
            "records": lambda: {name: {} for name in names},
            "family_of": lambda name: [psutil.Process(server.pid)],
            "running": lambda: {} if server.poll() else {"fileserver-1": server.pid},
            "stop": lambda stage: stopped.append((stage, server.poll())) or [],
            "sweep": lambda: [],
            "elsewhere": lambda: "",
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(one.daemons, name, fake)
        monkeypatch.setattr(openafs, "within", lambda seconds, good: waited.append(within(5.0, good)))
        one.folder.mkdir(parents=True)
        one.down()
    finally:
        server.kill()
    ended = -signal.SIGQUIT
    assert stopped[0] == (["mount-1"], None) and waited == [True]
    assert stopped[1:] == [(["volserver-1"], ended), (["fileserver-1"], ended), (["ptserver-1"], ended)]


def test_version_is_read_from_the_program(tmp_path):
    (tmp_path / "afsd").write_bytes(b"\x7fELF\0@(#) OpenAFS 1.8.9-1+deb12u1-debian 2024-12-25\0")
    assert store("openafs", tmp_path).ask_version(tmp_path / "afsd") == "1.8.9-1+deb12u1-debian"
    (tmp_path / "afsd").write_bytes(b"\x7fELF\0")
    assert store("openafs", tmp_path).ask_version(tmp_path / "afsd") == ""
