"""Tests of Garage only: nodes and gateways; test_store_contract.py has the others."""

import os
from functools import partial

import managed
import pytest
from laboratory import bucket_for, nightly_garage

from storelab import install
from storelab.core.errors import MeasurementFailed
from storelab.install import cargo
from storelab.stores.base import YES
from storelab.stores.garage import PROGRAM

pytestmark = [pytest.mark.real, pytest.mark.heavy, nightly_garage]


def new(folder, **settings):
    return managed.made("gar", managed.settings_of("garage", **settings), folder)


@pytest.fixture
def fresh(tmp_path):
    """Return a store that was never up; stop it at the end."""
    with managed.running(new(tmp_path)) as store:
        yield store


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Return three nodes with three copies, a gateway and three accounts."""
    with managed.running(new(tmp_path_factory.mktemp("gar"), servers=3, redundancy="replica-3")) as store:
        store.up(4, 3)
        yield store


def test_gateway_is_counted(running):
    assert len(running.endpoints(4)) == 4 and running.deployment()["gateways"] == 1
    if (install.tools_folder() / "bin" / "garage.json").exists():  # not a program of the system
        assert cargo.present(PROGRAM, install.tools_folder()) and running.version() == PROGRAM.version
    users, _ = running.administration()
    assert users.answer == YES and "3 of the 3 that storelab uses" in users.evidence


def test_data_are_on_the_nodes_only(running):
    bucket, way, body = bucket_for(running, "places"), running.access(), os.urandom(4_000_000)

    def sizes() -> list[int]:
        folders = [running.data / f"node-{i}" / "data" for i in range(1, 5)]
        return [sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) for folder in folders]

    before = sizes()
    way.write(bucket.name, "k", body)
    # The third copy may come after the answer.
    managed.until(lambda: all(now - was >= len(body) for now, was in zip(sizes()[:3], before[:3], strict=True)))
    grown = [now - was for now, was in zip(sizes(), before, strict=True)]
    assert max(grown) < 1.1 * len(body) and grown[3] == 0


def test_gateway_has_a_vote_on_buckets(fresh):
    """After a restart it is needed, and returns by itself."""
    fresh.up(2)
    way, bucket = fresh.access(0), bucket_for(fresh, "kept")
    way.write(bucket.name, "k", b"x" * 20_000)
    fresh.down()
    later = managed.again(fresh)
    later.up()
    assert set(later.actors()) == {"node-1", "node-2"}
    assert later.access(0, 1).read(bucket.name, "k") == b"x" * 20_000
    later.access(0).make_bucket(later.bucket("kept", 7).name)


def test_space_follows_copies(tmp_path):
    for servers, redundancy in ((1, "none"), (2, "none"), (2, "replica-2"), (3, "replica-3")):
        with managed.running(
            new(tmp_path / f"{redundancy}-{servers}", servers=servers, redundancy=redundancy)
        ) as store:
            store.up()
            bucket, way = bucket_for(store, "space"), store.access()
            empty, factor = store.used_bytes(), store.tolerated_failures() + 1
            for i in range(4):
                way.write(bucket.name, f"k{i}", os.urandom(5_000_000))
            grown = partial(_grown, store, empty)
            managed.until(lambda enough=20e6 * factor, grown=grown: grown() >= enough)
            assert grown() < 20e6 * factor * 1.1, redundancy


def _grown(store, empty: int) -> int:
    return store.used_bytes() - empty


def test_cluster_without_keys_is_taken_up(tmp_path):
    """storelab was killed when one of three nodes was not recorded: the cluster has no layout and no key."""
    settings = managed.settings_of("garage", servers=3, redundancy="replica-3")
    with managed.running(managed.made("gar", settings, tmp_path)) as store:
        managed.kill_in_up(store, settings, "node-3")
        assert len(managed.left_behind(store)) == 3
        store.up()
        store.access().write(bucket_for(store, "after").name, "k", b"x")


def test_taken_port_leaves_nothing_running(fresh):
    managed.refuses_a_taken_port(fresh, fresh.settings.port + 20, "node-1")  # of the administration


def test_node_that_cannot_start_reports_why(fresh):
    fresh.prepare()
    (fresh.data / "node-1").write_text("no folder")
    with pytest.raises(MeasurementFailed, match=r"stores\.gar: node-1 ended during its start; end of its log: "):
        fresh.up()
    assert fresh.actors() == {} and managed.left_behind(fresh) == []
