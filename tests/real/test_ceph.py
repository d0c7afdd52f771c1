"""Ceph as storelab makes, starts, loses, mends and stops it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import ports
import psutil
import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import program
from storelab.stores.ceph.store import PROGRAMS, Ceph, Settings
from storelab.stores.protocols import s3_clients, s3_mistakes
from storelab.stores.protocols.access import AccessRefused, BucketExists

pytestmark = [pytest.mark.real, pytest.mark.heavy]
EVERYONE = {"mon", "osd-0", "osd-1", "osd-2", "s3-1"}


def new(state: Path, port: int, **settings) -> Ceph:
    return Ceph("ceph", Settings(kind="ceph", port=port, osd_size="2 GB", **settings), state)


@pytest.fixture(scope="module")
def port() -> int:
    """First of 100 free ports; the clusters of this file run one after the other, but for `memory`."""
    try:
        for name in PROGRAMS:
            program(name, "ceph", "stores.ceph")
    except UserError:
        pytest.skip("Ceph is not installed: storelab install ceph")
    return ports.block()


@pytest.fixture(scope="module")
def memory(port, tmp_path_factory) -> Iterator[Ceph]:
    """A cluster in memory with three copies of everything."""
    store = new(tmp_path_factory.mktemp("state"), ports.block())
    store.up()
    yield store
    store.down()
    assert_nothing_left(store)


@pytest.fixture
def fresh(port, tmp_path) -> Iterator[Callable[..., Ceph]]:
    """Makes stores in one folder, on one block of ports; stopped at the end."""
    made = []

    def make(**settings) -> Ceph:
        made.append(new(tmp_path / "state", settings.pop("port", port), **settings))
        return made[-1]

    yield make
    for store in made:
        store.down()
        assert_nothing_left(store)


def assert_nothing_left(store: Ceph) -> None:
    """No process that bears the store's folder, no socket."""
    for process in psutil.process_iter(["cmdline", "status"]):
        assert process.info["status"] == psutil.STATUS_ZOMBIE or not any(
            str(store.folder) in a for a in process.info["cmdline"] or ()
        )
    assert [p for p in store.folder.rglob("*") if p.is_socket()] == []


def kill(store: Ceph, *names: str) -> None:
    """SIGKILL; returns when they are gone."""
    for pid in [store.actors()[n] for n in names]:
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while set(names) & set(store.actors()) and time.monotonic() < until:
        time.sleep(0.01)


def fill(store: Ceph, bucket: str, objects: int = 12) -> dict[str, bytes]:
    """Objects of up to 5.5 MB, more than RGW keeps in one piece, written through the first front-end."""
    way = store.access()
    with contextlib.suppress(BucketExists):
        way.make_bucket(bucket)
    bodies = {f"k/{i}": os.urandom(500_000 * i + 1) for i in range(objects)}
    for key, body in bodies.items():
        way.write(bucket, key, body)
    return bodies


def holds(store: Ceph, bucket: str, bodies: dict[str, bytes], front_end: int = 0) -> bool:
    way = store.access(front_end=front_end)
    listed = dict(way.keys(bucket))
    return listed == {k: len(b) for k, b in bodies.items()} and all(way.read(bucket, k) == b for k, b in bodies.items())


def test_up_is_idempotent_and_grows(memory):
    pids = memory.actors()
    assert set(pids) == EVERYONE
    memory.up()
    assert memory.actors() == pids
    memory.up(3, 2)
    assert memory.actors().items() >= pids.items() and {"s3-2", "s3-3"} <= set(memory.actors())
    memory.up(1)
    assert len(memory.endpoints(3)) == 3 and memory.accounts() == 2
    with pytest.raises(UserError, match="4 front-ends asked, 3 run"):
        memory.endpoints(4)
    status, told = memory.status(), memory.deployment()
    assert (
        status.state == "up"
        and status.version == memory.version() == told["version"]
        and status.version.count(".") == 2
    )
    assert (
        told["daemons"] == {"mon": 1, "osd": 3, "s3": 3}
        and told["backing"] == "memory"
        and told["redundancy"] == "replica-3"
    )
    assert told["objectstore"] == "memstore" and told["placement_groups"]["default.rgw.buckets.data"] == 32
    assert str(memory.folder) not in str(told)
    assert 0 < memory.free_bytes() < 2e9


def test_all_listen_on_loopback_only_and_within_their_block(memory):
    first = memory.settings.port
    for pid in memory.actors().values():
        listening = [c.laddr for c in psutil.Process(pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert listening and all(a.ip == "127.0.0.1" and first <= a.port < first + memory.port_block for a in listening)


def test_written_through_one_front_end_read_through_the_others(memory):
    memory.up(3)
    bodies = fill(memory, "both")
    assert all(holds(memory, "both", bodies, i) for i in range(3))
    s3 = s3_clients.for_store(memory, memory.endpoints(3)[2])
    part = s3.get_object(Bucket="both", Key="k/11", Range="bytes=4194300-4194310")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206 and part["Body"].read() == bodies["k/11"][4194300:4194311]
    several = s3.get_object(Bucket="both", Key="k/11", Range="bytes=0-9,100-109")  # documented: the first range alone
    assert several["ResponseMetadata"]["HTTPStatusCode"] == 206 and several["Body"].read() == bodies["k/11"][:10]


def test_accounts_are_kept_apart(memory):
    memory.up(1, 3)
    first, others = memory.access(0), [memory.access(i) for i in (1, 2)]
    fill(memory, "mine", 1)
    for other in others:
        with pytest.raises(AccessRefused):
            other.read("mine", "k/0")
        with pytest.raises(AccessRefused):
            other.write("mine", "k", b"")
        with pytest.raises(AccessRefused):
            list(other.keys("mine"))
    others[0].make_bucket("theirs")
    others[0].write("theirs", "k", b"theirs")
    assert others[0].read("theirs", "k") == b"theirs" and others[0].bucket_names() == ["theirs"]
    with pytest.raises(AccessRefused):
        first.read("theirs", "k")
    with pytest.raises(UserError, match="account 3 has no keys"):
        memory.credentials(3)
    with pytest.raises(UserError, match="33 accounts asked"):
        memory.up(1, 33)


def test_keys_are_nowhere_but_in_their_file(memory):
    fill(memory, "secret", 1)
    with contextlib.suppress(*s3_mistakes.ERRORS):
        s3_clients.for_store(memory).get_object(Bucket="secret", Key="none")
    texts = [p.read_bytes() for p in memory.folder.rglob("*") if p.is_file() and p.name != "accounts.json"]
    for pid in memory.actors().values():
        texts += [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    assert len(texts) > 20
    accounts = memory.keys()
    for keys in accounts:
        assert not any(keys["access_key"].encode() in text or keys["secret_key"].encode() in text for text in texts)
    for path in (memory.folder / "accounts.json", memory.data / "keyring"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("victim", ["osd-1", "s3-2", "mon"])
def test_a_killed_daemon_comes_back(memory, victim):
    memory.up(2)
    bucket = f"killed-{victim}"
    bodies = fill(memory, bucket)
    pids = memory.actors()
    kill(memory, victim)
    assert memory.status().state == ("up" if victim == "s3-2" else "partly")  # one front-end is enough
    assert holds(memory, bucket, bodies)
    memory.up(2)
    now = memory.actors()
    assert memory.status().state == "up" and {n for n in pids if now[n] != pids[n]} == {victim}
    for i in range(2):
        assert holds(memory, bucket, bodies, i)
        bodies[f"after/{i}"] = b"after"
        memory.access(front_end=i).write(bucket, f"after/{i}", b"after")
    if victim == "osd-1":  # it has all its copies again: another one may go
        kill(memory, "osd-2")
        assert holds(memory, bucket, bodies)
        memory.up(2)


def test_suspended_it_takes_no_cpu_and_wakes_up(memory):
    bodies = fill(memory, "sleep", 3)
    processes = [psutil.Process(p) for p in memory.actors().values()]
    memory.suspend()
    memory.suspend()
    before = [p.cpu_times()[:2] for p in processes]
    time.sleep(6)  # longer than an OSD may miss another one
    assert [p.cpu_times()[:2] for p in processes] == before
    memory.up(len(memory.front_ends()))  # wakes it
    memory.resume()
    assert holds(memory, "sleep", bodies)
    assert [psutil.Process(p) for p in memory.actors().values()] == processes


def test_taken_over_after_a_crash_of_the_manager(memory):
    pids = memory.actors()
    after = new(memory.state, memory.settings.port)
    after.up()
    assert after.actors() == pids
    front_ends = len(after.front_ends())
    after.daemons.file.unlink()  # the manager died before it could record
    after.up(front_ends)
    assert after.actors() == pids


def test_used_bytes_and_reclaim(memory):
    memory.reclaim()
    before, bodies = memory.used_bytes(), fill(memory, "space", 20)
    stored = sum(map(len, bodies.values()))
    memory.reclaim()
    assert 3 * stored <= memory.used_bytes() - before < 3.02 * stored + 1e6
    memory.access().delete("space", list(bodies))
    memory.reclaim()
    assert memory.used_bytes() - before < 1e6


def test_in_memory_it_begins_anew_when_all_is_lost(memory):
    """Last of those that share it: more OSDs are gone than there are copies, so nothing is left to find."""
    memory.up(2, 2)
    keys = memory.keys()
    fill(memory, "gone", 2)
    kill(memory, "osd-0", "osd-1", "osd-2")
    memory.up(2, 2)
    assert memory.keys() == keys and memory.access(1).bucket_names() == []
    assert set(memory.access().bucket_names()) == {"storelab-warmup"}
    assert holds(memory, "gone", fill(memory, "gone", 2), 1)
    memory.down()
    assert {p.name for p in memory.data.iterdir()} == {".storelab"} and memory.down() == []
    assert memory.status().state == "down" and memory.used_bytes() is None


def test_on_disk_data_outlive_whatever_stops_it(fresh):
    """Copies on two of three OSDs; down and up, kill of everything, other ports, other settings, a broken store."""
    store = fresh(backing="disk", redundancy="replica-2")
    store.up(2, 2)
    bodies, keys = fill(store, "kept"), store.keys()
    assert store.deployment()["objectstore"] == "bluestore" and store.deployment()["backing"] not in ("memory", "?")
    assert len(store.down()) == 6
    assert_nothing_left(store)
    store.up(2, 2)
    assert store.keys() == keys and holds(store, "kept", bodies, 1)
    store.access(1).make_bucket("second")  # the account is still there
    kill(store, *store.actors())
    store.up(2)
    assert holds(store, "kept", bodies, 1)
    moved = fresh(backing="disk", redundancy="replica-2", port=ports.block())
    moved.up()
    assert holds(moved, "kept", bodies) and f":{moved.settings.port}" in moved.endpoints()[0].url
    with pytest.raises(
        UserError, match=r"stores\.ceph\.redundancy: none asked, but the data in .* are of a cluster with replica-2"
    ):
        fresh(backing="disk", redundancy="none", port=moved.settings.port).up()
    assert holds(moved, "kept", bodies)
    moved.down()
    (moved.data / "mon" / "store.db" / "CURRENT").write_text("nonsense")
    with pytest.raises(
        MeasurementFailed, match=r"stores\.ceph: mon ended while it started; its log says: .*[Cc]orrupt"
    ):
        moved.up()
    assert moved.actors() == {}


def test_erasure_coded_over_https(fresh):
    store = fresh(redundancy="ec-2-1", tls=True)
    store.up(2)
    empty, bodies = store.used_bytes(), fill(store, "coded")
    assert store.endpoints()[0].url.startswith("https://") and store.endpoints()[0].ca_file
    store.reclaim()
    assert 1.5 <= (store.used_bytes() - empty) / sum(map(len, bodies.values())) < 1.56
    kill(store, "osd-0")
    assert holds(store, "coded", bodies)  # from two of three
    store.up(2)
    assert holds(store, "coded", bodies, 1)


def test_nine_shards_and_three(fresh):
    """Twelve OSDs in memory, three of them lost at once: what was written is there, and is whole again after `up`."""
    store = fresh(redundancy="ec-9-3", servers=12)
    store.up()
    assert store.deployment()["daemons"] == {"mon": 1, "osd": 12, "s3": 1}
    empty, bodies = store.used_bytes(), fill(store, "shards")
    store.reclaim()
    assert 1.33 <= (store.used_bytes() - empty) / sum(map(len, bodies.values())) < 1.5
    kill(store, "osd-0", "osd-5", "osd-11")
    store.up()
    assert holds(store, "shards", bodies)


def test_without_redundancy_and_with_a_manager(fresh):
    store = fresh(redundancy="none", servers=1, mgr=True)
    store.up()
    assert store.deployment()["daemons"] == {"mon": 1, "mgr": 1, "osd": 1, "s3": 1}
    assert "active+clean" in store.admin.tool("ceph", "pg", "stat", timeout=20)
    cluster = store.cluster()["fsid"]
    fill(store, "lost", 2)
    kill(store, "osd-0")
    store.up()
    assert store.cluster()["fsid"] != cluster and "lost" not in store.access().bucket_names()


@pytest.mark.parametrize("after", [0.02, 0.5, 1.2])
def test_storelab_killed_in_the_middle_of_up(fresh, after):
    store = fresh()
    code = "import sys; sys.path[:0] = eval(sys.argv[1]); import test_ceph as t; t.new(t.Path(sys.argv[2]), int(sys.argv[3])).up(2)"
    folders = [str(Path(__file__).parent), *(p for p in sys.path if p)]
    manager = subprocess.Popen([sys.executable, "-c", code, repr(folders), str(store.state), str(store.settings.port)])
    until = time.monotonic() + 20
    while not (store.data / "cluster.json").exists() and time.monotonic() < until:
        time.sleep(0.005)
    time.sleep(after)
    manager.kill()
    manager.wait()
    store.up()
    assert set(store.actors()) >= EVERYONE and holds(store, "b-1", fill(store, "b-1", 2))


def test_a_taken_port_leaves_nothing_running(fresh):
    store = fresh()
    for offset, name in (30, "mon"), (50, "osd-1"), (0, "s3-1"):
        taken = store.settings.port + offset
        with socket.create_server(("127.0.0.1", taken)), pytest.raises(UserError) as caught:
            store.up()
        assert f"port {taken} of {name} is taken by" in str(caught.value) and "stores.ceph.port" in str(caught.value)
        assert store.actors() == {}


def test_what_cannot_be_is_said_at_once(fresh, tmp_path):
    with pytest.raises(UserError, match=r"stores\.ceph\.servers: 2 OSDs cannot hold ec-2-1; set servers to 3 or more"):
        fresh(servers=2, redundancy="ec-2-1").up()
    with pytest.raises(UserError, match=r"stores\.ceph\.osd_size: .* too small"):
        Ceph("ceph", Settings(kind="ceph", osd_size="10 MB"), tmp_path / "state").up()
    with pytest.raises(UserError, match="25 front-ends asked"):
        fresh().up(25)
    with pytest.raises(UserError, match=r"stores\.ceph\.directory: Ceph takes no path like"):
        fresh(directory=str(tmp_path / "a b")).up()
