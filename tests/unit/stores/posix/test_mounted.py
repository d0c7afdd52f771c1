"""Stores that storelab mounts: what they are told, what they refuse, and what they make of what their tools say; nothing is started."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from storelab.core import stores
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.stores import make
from storelab.stores.base import CLEAN, DEGRADED, DOWN, RECOVERING
from storelab.stores.faults import acts
from storelab.stores.managed import family, netns
from storelab.stores.managed.netns import Namespace
from storelab.stores.posix import glusterfs, mounted, openafs

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
    """Every program is there, and root runs storelab."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for module in (mounted, glusterfs, openafs):
        monkeypatch.setattr(module, "program", lambda name, kind, place: Path("/usr/sbin", name))
    for kind in KINDS:
        monkeypatch.setattr(stores.load(kind), "program", lambda self: Path("/usr/sbin/server"))
    monkeypatch.setattr(mounted, "DEVICE", Path(os.devnull))
    monkeypatch.setattr(processes, "ask", lambda *a, **k: subprocess.CompletedProcess(a, 0, "", ""))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_is_told_in_one_line(kind, tmp_path, monkeypatch, installed):
    one = store(kind, tmp_path)
    one.require()
    refused = subprocess.CompletedProcess([], 1, "", "unshare: unshare failed: Operation not permitted\n")
    for module, name, value, said in (
        (
            processes,
            "ask",
            lambda *a, **k: refused,
            r"needs namespaces, and none can be made here \(unshare: .*permitted",
        ),
        (mounted, "DEVICE", tmp_path / "none", "is mounted through FUSE, and there is no .*none"),
        (os, "geteuid", lambda: 1000, "needs root"),
    ):
        monkeypatch.setattr(module, name, value)
        with pytest.raises(UserError, match=said) as caught:
            one.up()
        assert caught.value.place == "stores.m" and "kind `directory`" in caught.value.mend
        assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"does not bear ' ' in a path"):
        store(kind, tmp_path / "my data").require()


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_what_installs_it(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("storelab.install.SERVERS", ())
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(UserError, match=f"is not installed; run `storelab install {kind}`"):
        store(kind, tmp_path).require()
    parts = stores.load(kind).recipe(tmp_path)
    assert len(parts) == 1 and "iproute2" in parts[0].what and "root or sudo" in parts[0].needs


@pytest.mark.parametrize("kind", KINDS)
def test_where_it_is_seen(kind, tmp_path):
    one = store(kind, tmp_path)
    first = one.endpoint("mount-1")
    assert first.protocol == "file" and first.url.startswith(f"file://{tmp_path}/m/mount-1")
    assert first.url.removeprefix("file://") == str(one.path)
    moved = one.moved(one.settings, 2)
    last = int(one.settings.subnet.removesuffix("/30").rpartition(".")[2])
    assert moved.subnet.endswith(f".{last + 8}/30")
    assert one.status().state == "down" and one.used_bytes() is None and one.down() == []


def test_no_two_stores_have_one_subnet_by_default():
    subnets = [
        m.model_fields["subnet"].default
        for k in stores.KINDS
        if "subnet" in (m := stores.load(k).Settings).model_fields
    ]
    assert len(subnets) == len(set(subnets)) == len(KINDS) + 1


def test_a_file_with_two_names_counts_once(tmp_path):
    one = store("glusterfs", tmp_path)
    brick = one.data / "brick-1"
    brick.mkdir(parents=True)
    (brick / "a").write_bytes(os.urandom(100_000))
    before = one.used_bytes()
    os.link(brick / "a", brick / "b")
    assert one.used_bytes() == before >= 100_000


def test_mounts_are_known_without_asking_them(tmp_path):
    assert mounted.mounted(Path("/proc")) and not mounted.mounted(tmp_path)


def test_whoever_is_in_a_namespace_is_found(tmp_path, monkeypatch):
    """Every process of this one, where the name is that of our own; nobody without a name."""
    (tmp_path / "own").symlink_to("/proc/self/ns/net")
    monkeypatch.setattr("storelab.stores.managed.netns.NAMES", tmp_path)
    assert os.getpid() in {p.pid for p in Namespace("own", "10.0.0.0/30", "stores.m").processes()}
    assert Namespace("none", "10.0.0.0/30", "stores.m").processes() == []


# GlusterFS


@pytest.mark.parametrize(
    ("redundancy", "servers", "share", "kind", "bears"),
    [
        ("none", 3, 1.0, "Distribute", 0),
        ("replica-2", 2, 2.0, "Replicate", 1),
        ("replica-2", 4, 2.0, "Distributed-Replicate", 1),
        ("replica-3", 3, 3.0, "Replicate", 2),
        ("ec-2-1", 3, 1.5, "Disperse", 1),
        ("ec-2-1", 6, 1.5, "Distributed-Disperse", 1),
    ],
)
def test_sets_of_bricks(tmp_path, installed, redundancy, servers, share, kind, bears):
    one = store("glusterfs", tmp_path, redundancy=redundancy, servers=servers)
    one.require()
    assert (one.raw_share(), one._kind(), one.bears()) == (share, kind, bears)
    assert one.data_actors() == [f"brick-{i + 1}" for i in range(servers)]
    assert ("heal-1" in one.daemon_actors()) == (redundancy != "none")
    assert acts.resolve(one, "data.0", 2, "f") == "brick-1" and acts.resolve(one, "front.1", 2, "f") == "mount-2"


@pytest.mark.parametrize(("redundancy", "servers"), [("replica-2", 3), ("replica-3", 4), ("ec-2-1", 2)])
def test_bricks_that_make_no_whole_set(tmp_path, redundancy, servers):
    with pytest.raises(
        UserError, match=rf"stores\.m\.servers: {servers} bricks make no whole sets of . \({redundancy}\)"
    ):
        store("glusterfs", tmp_path, redundancy=redundancy, servers=servers).up()
    with pytest.raises(ValidationError, match="redundancy"):
        store("glusterfs", tmp_path, redundancy="ec-4-2")


def test_what_glusterd_tells_of_a_volume():
    bricks = [f"10.213.85.2:/d/brick-{i}" for i in (1, 2, 3, 4)]
    assert glusterfs.facts(INFO) == (bricks, "Distributed-Replicate", "Started")
    assert glusterfs.facts("Volume storelab does not exist") == ([], "", "")


def answering(one, monkeypatch, info: str) -> list[tuple[str, ...]]:
    """What the volume's tool is asked, where it answers so to `volume info`."""
    asked: list[tuple[str, ...]] = []

    def ask(*words, seconds=0.0):
        asked.append(words)
        missing = words[:2] == ("volume", "info") and not info and len(asked) == 1
        made = info or INFO.replace("/d/", f"{one.data}/")
        return subprocess.CompletedProcess(words, int(missing), "" if missing else made, "")

    monkeypatch.setattr(one, "_ask", ask)
    return asked


def test_a_volume_is_made_once_and_never_of_other_data(tmp_path, monkeypatch):
    one = store("glusterfs", tmp_path, redundancy="replica-2", servers=4)
    asked = answering(one, monkeypatch, "")
    one._make_volume()
    assert [w[1] for w in asked] == ["info", "create", "set", "info"]
    assert asked[1][2:5] == ("storelab", "replica", "2") and asked[1][5:] == (*one._bricks_told, "force")
    assert one._bricks_told[0] == f"10.213.85.2:{one.data}/brick-1"
    asked = answering(one, monkeypatch, INFO.replace("/d/", f"{one.data}/").replace("Started", "Stopped"))
    one._make_volume()
    assert [w[1] for w in asked] == ["info", "start"]
    for other in (INFO, INFO.replace("/d/", f"{one.data}/").replace("Distributed-R", "R")):
        asked = answering(one, monkeypatch, other)
        with pytest.raises(UserError, match=r"stores\.m: the data are of a volume with 4 bricks"):
            one._make_volume()
        assert [w[1] for w in asked] == ["info"]


def test_what_bricks_list_is_to_be_healed_after_a_loss_only(tmp_path, monkeypatch):
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
    assert one.condition() == type(one.condition())(DEGRADED, "bricks 2 of 3 serve; files to be healed 1")
    running["brick-3"] = lost
    assert one.condition().state == RECOVERING
    (listed / "c0ffee").unlink()
    assert one.condition().state == CLEAN
    running.clear()
    assert one.condition().state == DOWN


def test_a_process_that_stands_still_is_lost():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert not mounted.held(child.pid)
        family.hold([psutil.Process(child.pid)])
        assert mounted.held(child.pid)
    finally:
        child.kill()
        child.wait()
    assert mounted.held(child.pid)


def test_a_brick_of_glusterd_and_its_successor_are_one_daemon(tmp_path, installed, monkeypatch):
    """glusterd starts it without -N; storelab, after a kill, with -N and the same words."""
    from storelab.core.records import write_json

    one = store("glusterfs", tmp_path)
    words = ["-s", "10.213.85.2", "--brick-name", f"{one.data}/brick-1", "--brick-port", "49152"]
    one.folder.mkdir(parents=True)
    write_json(one._note, {"brick-1": words})
    brick = one.daemon("brick-1")
    assert list(brick.argv) == words and brick.ports == (49152,) and brick.prefix[-2:] == ("/usr/sbin/glusterfsd", "-N")
    for started in (["/usr/sbin/glusterfsd", *words], [*brick.prefix[-2:], *words]):
        assert family.runs_as(started, brick.argv)
    assert not family.runs_as(["/usr/sbin/glusterfsd", *words[:-1], "49153"], brick.argv)


def test_two_bricks_never_answer_on_one_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert not mounted.listens(*taken.getsockname())
        taken.listen()
        assert mounted.listens(*taken.getsockname())


def test_who_was_killed_is_not_taken_for_alive(tmp_path, monkeypatch):
    """glusterd trusts numbers in files; nobody may have reaped who had them."""
    one = store("glusterfs", tmp_path)
    monkeypatch.setattr(Namespace, "processes", lambda self: [psutil.Process()])
    folder = one._spool / "run" / "gluster"
    folder.mkdir(parents=True)
    (folder / "dead.pid").write_text("4194304\n")
    (folder / "alive.pid").write_text(f"{os.getpid()}\n")
    one._forget_the_dead()
    assert [p.name for p in folder.iterdir()] == ["alive.pid"]


# OpenAFS


@contextlib.contextmanager
def rx(answer: bytes):
    """A server that answers one packet; what it got."""
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


def test_a_server_of_rx_is_asked_for_its_version():
    """The header of Rx has 28 bytes; its 21st is the type, 13 for a version; who asks began the connection (1)."""
    with rx(bytes(28) + b"OpenAFS 1.8.9") as (port, got):
        assert openafs.answers("127.0.0.1", port)
    assert len(got[0]) == 29 and got[0][20] == 13 and got[0][21] & 1
    with rx(b"who are you?") as (port, _):
        assert not openafs.answers("127.0.0.1", port)
    assert not openafs.answers("127.0.0.1", port, 0.2)


def test_access_lists_name_groups_by_negative_numbers():
    assert (openafs.ADMINISTRATORS, openafs.ANYBODY) == (b"\xff\xff\xff\x34", b"\xff\xff\xff\x9b")


def made(one, monkeypatch, dump: bytes) -> list[tuple[str, ...]]:
    """What `vos` is asked when the volume is made from such a dump."""
    asked: list[tuple[str, ...]] = []

    def ask(tool, *words, seconds=0.0):
        asked.append(words)
        missing = words[0] == "examine" and ("restore" not in [w[0] for w in asked])
        if words[0] == "dump":
            (one.data / "lib").mkdir(parents=True)
            (one.data / "lib" / "template.dump").write_bytes(dump)
        if words[0] == "restore":
            assert (one.data / "lib" / "template.dump").read_bytes() == b"head" + openafs.ANYBODY + b"tail"
        return subprocess.CompletedProcess(words, int(missing), f"{one.namespace.server} On-line", "")

    monkeypatch.setattr(one, "_ask", ask)
    one._make_volume()
    return asked


def test_the_volume_is_open_to_everybody_and_made_once(tmp_path, monkeypatch):
    one = store("openafs", tmp_path)
    asked = made(one, monkeypatch, b"head" + openafs.ADMINISTRATORS + b"tail")
    acts_done = [w[0] for w in asked if w[0] not in ("examine", "listaddrs")]
    assert acts_done == ["create", "dump", "restore", "setfields", "remove"]
    assert ("setfields", "root.cell", "-maxquota", "0") in asked and not list((one.data / "lib").iterdir())
    before = len(asked)
    one._make_volume()
    assert {w[0] for w in asked[before:]} == {"examine", "listaddrs"}
    with pytest.raises(MeasurementFailed, match="access list is not as storelab knows it"):
        made(store("openafs", tmp_path / "other"), monkeypatch, b"an access list of another kind")


def test_a_directory_of_the_users_is_the_vice_partition(tmp_path, monkeypatch):
    monkeypatch.setattr(Namespace, "up", lambda self: None)
    monkeypatch.setattr(netns, "program", lambda name, kind, place: Path("/usr/sbin", name))
    one = store("openafs", tmp_path / "state", directory=str(tmp_path / "lustre"))
    one.make_ready()
    assert (tmp_path / "lustre" / "vicepa" / "AlwaysAttach").exists()
    assert str(tmp_path / "lustre") in one.daemon("fileserver-1").prefix
    own = one._own / "etc"
    assert (own / "ThisCell").read_text() == (own / "server" / "ThisCell").read_text() == "storelab.test\n"
    assert one.settings.subnet == "10.213.89.0/30" and "10.213.89.2 #afsdb" in (own / "CellServDB").read_text()


def test_its_version_stands_in_the_program(tmp_path):
    (tmp_path / "afsd").write_bytes(b"\x7fELF\0@(#) OpenAFS 1.8.9-1+deb12u1-debian 2024-12-25\0")
    assert store("openafs", tmp_path).ask_version(tmp_path / "afsd") == "1.8.9-1+deb12u1-debian"
    (tmp_path / "afsd").write_bytes(b"\x7fELF\0")
    assert store("openafs", tmp_path).ask_version(tmp_path / "afsd") == ""
