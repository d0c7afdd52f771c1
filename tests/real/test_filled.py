"""Drives that are separate file systems: mounted, filled, swept by fill level, and gone with their store."""

import os
import shutil
from pathlib import Path

import managed
import pytest

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.measure import deployment
from storelab.measure.faults import Runner
from storelab.stores.faults import Acts
from storelab.workloads.staging import filling

pytestmark = [
    pytest.mark.real,
    pytest.mark.heavy,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="privilege: needs root to mount drives"),
]
MB = 10**6


def mounts(folder: Path) -> dict[str, str]:
    """Return the type of each mount below a folder, as the kernel has them."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return {place: kind for _, place, kind, *_ in lines if place.startswith(str(folder))}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a laboratory whose store has a drive of 100 MB, and two points: empty, and filled to 60 %."""
    put = {"workload": "put", "axes": {"engine": "obstore", "object_size": "10 kB", "workers": 1, "arrival_rate": 50}}
    common = {"duration": "2 s", "warm_up": "200 ms", "roles": {"uploads": put}}
    settings = managed.settings_of("versitygw", drive_size="100 MB")
    sweeps = {f"to-{fill}": common | {"axes": {"fill": fill}} for fill in (0, 60)}
    lab = managed.Lab(tmp_path_factory.mktemp("filled"), settings, sweeps)
    store = lab.store
    managed.skip_unless_usable(store)
    store.up(1)
    try:
        yield lab
    finally:
        store.down()
        assert not mounts(store.data) and store.drives.images.exists(), "nothing stays mounted, and the data remain"
        shutil.rmtree(store.drives.images)


@pytest.mark.parametrize("backing", ["disk", "tmpfs"])
def test_volume_servers_have_their_own_drives(tmp_path, backing):
    size = {"drive_size": "100 MB", "servers": 2, "redundancy": "replica-2", "max_volumes": 8}
    store = managed.made("s", managed.settings_of("seaweedfs", backing=backing, **size), tmp_path)
    store.up(1)
    try:
        drives = {str(store.data / f"volume-{i}"): "ext4" for i in (1, 2)}
        assert mounts(store.data) == drives
        assert 80 * MB < store.capacity_bytes() < 100 * MB and store.free_bytes() <= store.capacity_bytes()
        assert store.deployment()["drive_size_bytes"] == 100 * MB and store.memory_only() == (backing == "tmpfs")
        store.up(1)
        assert mounts(store.data) == drives, "once"
    finally:
        store.down()
    assert not mounts(store.data) and store.drives.images.exists() == (backing == "disk"), "memory is released"


def test_point_at_a_fill_level(site):
    store = site.store
    _, run, _ = site.measured("to-60")
    fill = run["fill"]
    assert run["valid"] and fill["asked_percent"] == 60 and abs(fill["begin_percent"] - 60) <= 2
    assert fill["begin_percent"] <= fill["end_percent"] < 65 and run["point"]["axes"]["fill"] == 60
    used = sum(shutil.disk_usage(d).used for d in store.drives.folders().values())
    assert 0.5 * store.capacity_bytes() < fill["filler_bytes"] <= used, "it is on the drive"
    _, run, _ = site.measured("to-0")
    assert run["valid"] and "fill" not in run and not filling.may_have_filler(site.config, store)
    used = sum(shutil.disk_usage(d).used for d in store.drives.folders().values())
    assert used < 0.2 * store.capacity_bytes(), "the drive is gone"
    assert not deployment.clean(site.config, store).stays


def test_filled_to_the_last_block_and_emptied(site):
    store, act = site.store, {"at": "100 ms", "act": "fill", "actor": "data.0"}
    Acts(store).require(act, "drive-1", "f")
    way = store.access()
    way.make_bucket("full")
    with Runner(store, "f", managed.acts(act), report=print) as runner:
        runner.start(clock.now_ns())
        managed.until(lambda: any(e["kind"] == "act" for e in runner.events))
        assert all(shutil.disk_usage(d).free < 4096 for d in store.drives.folders().values()), "none is left"
        with pytest.raises((MeasurementFailed, UserError)):
            for i in range(20):
                way.write("full", f"k{i}", os.urandom(4 * MB))
        runner.settle(30)
    assert not runner.failed() and {e["act"] for e in runner.events if e["kind"] == "undone"} == {"fill"}
    assert all(shutil.disk_usage(d).free > 40 * MB for d in store.drives.folders().values())
    assert not [p for d in store.drives.folders().values() for p in d.glob(".storelab-*filler*")]
