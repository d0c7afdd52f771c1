"""Tests of GlusterFS and OpenAFS only; test_store_contract.py has the others."""

from pathlib import Path

import managed
import pytest
from laboratory import bucket_for

from storelab import stores
from storelab.measure.faults import Runner
from storelab.stores.base import CLEAN
from storelab.stores.mounted import Mounted, mounted

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.heavy]
FIXED = ("/var/lib/glusterd", "/run/gluster", "/etc/openafs", "/etc/openafs/server", "/var/lib/openafs", "/")
KINDS = [kind for kind in stores.KINDS if issubclass(stores.load(kind), Mounted)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_place_of_the_system_is_touched(kind, tmp_path):
    """No system folder is changed; sparse reads are measured; `down` removes an unrecorded mount."""
    reads = {"workload": "read_volume", "axes": {"engine": "planned", "volume_fraction": 5.0}}
    before = {place: place.stat().st_mtime_ns for place in map(Path, FIXED) if place.exists()}
    lab = managed.Lab(
        tmp_path, managed.settings_of(kind), {"sparse": reads | {"duration": "400 ms", "warm_up": "1 ms"}}
    )
    store = lab.store
    managed.skip_unless_usable(store)
    managed.kill_in_up(managed.created("one", lab.settings, store.state), lab.settings, "mount-1")
    assert store.namespace.processes()
    store.down()
    assert managed.left_behind(store) == [] and not mounted(store.mount_point())
    with managed.running(store):
        rows, record, _ = lab.measured("sparse")
        assert rows and {r["error"] for r in rows} == {None} and record["store"]["deployment"]["daemons"]["mount"] == 1
        assert set(store.actors()) >= {n for stage in store.stages(["mount-1"]) for n in stage}
    assert {place: place.stat().st_mtime_ns for place in before} == before


def test_returning_brick_gets_missed_writes(tmp_path):
    store = managed.made("one", managed.settings_of("glusterfs"), tmp_path)
    bodies = {f"k{i}": b"%d" % i * 50_000 for i in range(12)}
    with managed.running(store):
        store.up()
        bucket, way = bucket_for(store, "faulty"), store.access()
        brick = store.data / "brick-2" / bucket.name
        act = {"at": "0 s", "act": "kill", "actor": "data.1"}
        with Runner(store, "f", managed.acts(act), report=print) as runner:
            runner.start(0)
            managed.until(lambda: "degraded" in managed.states(runner))
            for key, body in bodies.items():
                way.write(bucket.name, key, body)
            assert {key: way.read(bucket.name, key) for key in bodies} == bodies and not list(brick.glob("k*"))
            runner.settle(120)
        assert runner.failed() == [] and runner.recovered and managed.states(runner)[-1] == CLEAN
        assert {p.name: p.read_bytes() for p in brick.glob("k*")} == bodies
