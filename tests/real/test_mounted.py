"""Tests of GlusterFS and OpenAFS only; test_store_contract.py has the others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import managed
import pytest
import yaml
from common import BIN, environ
from laboratory import bucket_for

from storelab import stores
from storelab.core.errors import UserError
from storelab.gang.testbed.links import Network, Plan, enter
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


def test_mounts_use_the_links_of_nodes(tmp_path, request):
    """In a testbed, two nodes read through mounts of their own: each file passes the link of one node."""
    plan, links = Plan(["", ""], [], "storelab-mt-"), Network(tmp_path / "network")
    settings = managed.settings_of("glusterfs", servers=1, redundancy="none", mounts_in=[*plan.nodes])
    made = managed.created("one", settings, tmp_path / "state")
    with pytest.raises(UserError, match=r"stores\.one\.mounts_in: there is no network namespace storelab-mt-n1"):
        made.require()
    managed.made("one", settings | {"mounts_in": []}, tmp_path / "state")
    config = {"campaign": "campaign.yaml", "stores": {"one": settings}, "state": str(tmp_path / "state")}
    campaign = {"name": "links", "title": "Links", "sweeps": {"put": {"workload": "put", "axes": {"engine": "fsspec"}}}}
    for file, content in (("config.yaml", config), ("campaign.yaml", campaign | {"stores_to_measure": ["one"]})):
        (tmp_path / file).write_text(yaml.safe_dump(content))
    links.up(plan)
    request.addfinalizer(links.down)

    def command(*words):
        run = [*enter(plan.head), str(BIN / "storelab"), *words, "one"]
        return subprocess.run(run, cwd=tmp_path, env=environ(), capture_output=True, text=True, timeout=120)

    def received(node):
        shown = subprocess.run(["ip", "-n", node, "-s", "-j", "link", "show", "eth0"], capture_output=True, check=True)
        return json.loads(shown.stdout)[0]["stats64"]["rx"]["bytes"]

    try:
        done = command("up", "--front-ends", "2")
        assert done.returncode == 0, done.stderr
        first, second = (made.shown(made.mount_point(f"mount-{i}")) for i in (1, 2))
        (first / "large").write_bytes(os.urandom(4_000_000))
        before = [received(node) for node in plan.nodes]
        assert len((second / "large").read_bytes()) == 4_000_000
        moved = [received(node) - n for node, n in zip(plan.nodes, before, strict=True)]
        assert moved[0] < 1_000_000 and 4_000_000 < moved[1] < 5_000_000, moved
    finally:
        assert command("down").returncode == 0
    assert not mounted(made.mount_point())


@pytest.mark.parametrize("propagation", ["private", "shared"])
def test_propagation_of_mounts_is_known(propagation):
    code = "from storelab.gang.testbed import links; print(links.propagates_mounts())"
    run = ["unshare", "--mount", "--propagation", propagation, sys.executable, "-c", code]
    done = subprocess.run(run, env=environ(), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == str(propagation == "shared")
