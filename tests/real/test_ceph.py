"""Tests of Ceph only: redundancy, memory and disk; test_store_contract.py has the others."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import managed
import ports
import pytest
from managed import intact

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import everywhere
from storelab.stores.ceph.store import Ceph, Settings

pytestmark = [pytest.mark.real, pytest.mark.heavy]


def new(state: Path, port: int, **settings) -> Ceph:
    return managed.made("ceph", {"kind": "ceph", "port": port, "osd_size": "2 GB"} | settings, state)


@pytest.fixture(scope="module")
def port() -> int:
    """Return the first port of all clusters of this file but `memory`, which run one after the other."""
    return ports.block()


memory = managed.kept_up("ceph", "ceph", osd_size="2 GB")  # three copies of everything


@pytest.fixture
def fresh(port, tmp_path) -> Iterator[Callable[..., Ceph]]:
    """Return a function that makes stores in one folder, on one block of ports; stop them at the end."""
    with contextlib.ExitStack() as stack:

        def make(**settings) -> Ceph:
            return stack.enter_context(managed.running(new(tmp_path / "state", settings.pop("port", port), **settings)))

        yield make


def fill(store: Ceph, campaign: str) -> tuple[str, dict[str, bytes]]:
    """Write objects of up to 7.3 MB, more than RGW keeps in one piece."""
    return managed.filled(store, campaign, 7_300_000)


def test_default_deployment(memory):
    deployment = memory.deployment()
    assert deployment["daemons"] == {"mon": 1, "osd": 3, "s3": 1}
    assert (
        deployment["backing"] == "memory"
        and deployment["redundancy"] == "replica-3"
        and deployment["objectstore"] == "memstore"
    )
    assert deployment["placement_groups"]["default.rgw.buckets.data"] == 32 and 0 < memory.free_bytes() < 2e9
    assert (memory.data / "keyring").stat().st_mode & 0o077 == 0


def test_only_the_killed_daemon_is_started_again(memory):
    memory.up(2)
    bucket, bodies = fill(memory, "killed")
    for victim in ("osd-1", "s3-2", "mon", "osd-2"):  # osd-1 has all its copies again when osd-2 goes
        pids = memory.actors()
        managed.kill(memory, victim)
        assert memory.status().state == ("up" if victim == "s3-2" else "partly")  # one front-end is enough
        assert intact(memory, bucket, bodies)
        memory.up(2)
        now = memory.actors()
        assert memory.status().state == "up" and {n for n in pids if now[n] != pids[n]} == {victim}
        for i in range(2):
            assert intact(memory, bucket, bodies, i)
            bodies[f"after-{victim}/{i}"] = b"after"
            memory.access(front_end=i).write(bucket, f"after-{victim}/{i}", b"after")


def test_suspended_longer_than_a_heartbeat(memory):
    managed.sleeps_and_wakes(memory, len(memory.front_ends()), seconds=6)  # longer than an OSD may miss another one


def test_used_bytes_and_reclaim(memory):
    memory.reclaim()
    before, (bucket, bodies) = memory.used_bytes(), managed.filled(memory, "space", 20_000_000)
    stored = sum(map(len, bodies.values()))
    memory.reclaim()
    assert 3 * stored <= memory.used_bytes() - before < 3.02 * stored + 1e6
    memory.access().delete(bucket, list(bodies))
    memory.reclaim()
    assert memory.used_bytes() - before < 1e6


def test_memory_cluster_without_osds_begins_again(memory):
    """Runs last of the tests that share the store: more OSDs are lost than there are copies, so data are lost."""
    memory.up(2, 2)
    keys = memory.keyring.known()
    fill(memory, "gone")
    managed.kill(memory, "osd-0", "osd-1", "osd-2")
    memory.up(2, 2)
    assert memory.keyring.known() == keys and memory.access(1).bucket_names() == []
    assert set(memory.access().bucket_names()) == {"storelab-warmup"}
    assert intact(memory, *fill(memory, "gone"), 1)
    memory.down()
    assert {p.name for p in memory.data.iterdir()} == {".storelab"} and memory.down() == []
    assert memory.status().state == "down" and memory.used_bytes() is None


def test_data_on_disk_outlive_every_stop(fresh):
    """Copies on two of three OSDs; down and up, kill of everything, other ports, other settings, a broken store."""
    store = fresh(backing="disk", redundancy="replica-2")
    store.up(2, 2)
    (bucket, bodies), keys = fill(store, "kept"), store.keyring.known()
    assert store.deployment()["objectstore"] == "bluestore" and store.deployment()["backing"] not in ("memory", "?")
    assert len(store.down()) == 6
    assert managed.left_behind(store) == []
    store.up(2, 2)
    assert store.keyring.known() == keys and intact(store, bucket, bodies, 1)
    store.access(1).make_bucket("second")  # the account is still there
    managed.kill(store, *store.actors())
    store.up(2)
    assert intact(store, bucket, bodies, 1)
    moved = fresh(backing="disk", redundancy="replica-2", port=ports.block())
    moved.up()
    assert intact(moved, bucket, bodies) and f":{moved.settings.port}" in moved.endpoints()[0].url
    other = r"stores\.ceph\.redundancy: none is set, but .* contains a cluster with replica-2"
    with pytest.raises(UserError, match=other):
        fresh(backing="disk", redundancy="none", port=moved.settings.port).up()
    assert intact(moved, bucket, bodies)
    moved.down()
    (moved.data / "mon" / "store.db" / "CURRENT").write_text("nonsense")
    damaged = r"stores\.ceph: mon ended during its start; end of its log: .*[Cc]orrupt"
    with pytest.raises(MeasurementFailed, match=damaged):
        moved.up()
    assert moved.actors() == {}


def test_erasure_coded_over_https(fresh):
    store = fresh(redundancy="ec-2-1", tls=True)
    store.up(2)
    empty, (bucket, bodies) = store.used_bytes(), fill(store, "coded")
    assert store.endpoints()[0].url.startswith("https://") and store.endpoints()[0].ca_file
    store.reclaim()
    assert 1.5 <= (store.used_bytes() - empty) / sum(map(len, bodies.values())) < 1.56
    managed.kill(store, "osd-0")
    assert intact(store, bucket, bodies)  # from two of three
    store.up(2)
    assert intact(store, bucket, bodies, 1)


def test_twelve_osds_lose_three(fresh):
    """Twelve OSDs in memory, three of them lost at once: written data remain, and are complete again after `up`."""
    store = fresh(redundancy="ec-9-3", servers=12)
    store.up()
    assert store.deployment()["daemons"] == {"mon": 1, "osd": 12, "s3": 1}
    empty, (bucket, bodies) = store.used_bytes(), fill(store, "shards")
    store.reclaim()
    assert 1.33 <= (store.used_bytes() - empty) / sum(map(len, bodies.values())) < 1.5
    managed.kill(store, "osd-0", "osd-5", "osd-11")
    store.up()
    assert intact(store, bucket, bodies)


def test_without_redundancy_and_with_a_manager(fresh):
    store = fresh(redundancy="none", servers=1, mgr=True)
    store.up()
    assert store.deployment()["daemons"] == {"mon": 1, "mgr": 1, "osd": 1, "s3": 1}
    assert "active+clean" in store.admin.tool("ceph", "pg", "stat", timeout=20)
    cluster = store.cluster()["fsid"]
    bucket, _ = fill(store, "lost")
    managed.kill(store, "osd-0")
    store.up()
    assert store.cluster()["fsid"] != cluster and bucket not in store.access().bucket_names()


def test_space_of_copies_and_shards(tmp_path):
    """Two copies take twice the bytes, two data shards and one of parity one and a half times."""
    wanted = {"replica-2": 2, "ec-2-1": 1.5}
    axes = {"object_size": "2 MB", "workers": 4, "backing": "disk"}
    sweeps = {
        r: {"workload": "space", "duration": "1 s", "warm_up": "1 ms", "axes": axes | {"redundancy": r}} for r in wanted
    }
    lab = managed.Lab(tmp_path, {"kind": "ceph", "port": ports.block(352)}, sweeps)
    managed.skip_unless_usable(lab.store)
    try:
        for redundancy, factor in wanted.items():
            _, record, _ = lab.measured(redundancy)
            observed = record["observed"]
            grown = observed["used_after_put_bytes"] - observed["used_before_bytes"]
            assert record["store"]["deployment"]["redundancy"] == redundancy
            assert grown / observed["stored_bytes"] == pytest.approx(factor, rel=0.15)
    finally:
        for store in everywhere(lab.config).values():
            store.down()


def test_impossible_settings_are_refused(tmp_path):
    def refused(message: str, **settings) -> None:
        store = Ceph("ceph", Settings.model_validate({"kind": "ceph"} | settings), tmp_path / "state")
        with pytest.raises(UserError, match=message):
            store.up()

    hint = r"stores\.ceph\.servers: ec-2-1 needs 3 OSDs, but there are 2; set servers to 3"
    refused(hint, servers=2, redundancy="ec-2-1")
    refused(r"stores\.ceph\.osd_size: .* too small", osd_size="10 MB")
    refused(r"stores\.ceph\.directory: Ceph does not support the path", directory=str(tmp_path / "a b"))
