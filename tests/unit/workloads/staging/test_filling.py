"""storelab's objects fill a store to a level, and are removed; the store is a folder with a given capacity."""

from types import SimpleNamespace

import pytest
import small_plan
from refusals import refusal

from storelab.core import plan
from storelab.core.errors import MeasurementFailed
from storelab.measure import deployment
from storelab.stores import all_stores
from storelab.stores.external import Directory
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import filling, left_over, upload

CAPACITY = 4_000_000
ROLES = {"uploads": {"workload": "put", "axes": {"engine": "fsspec", "object_size": "4 kB"}}}


class Small(Directory):
    """A folder with a small disk; `others` are the bytes that other users have on it."""

    others = 0

    def capacity_bytes(self):
        return CAPACITY

    def free_bytes(self):
        files = [p for p in self.path.rglob("*") if p.is_file()]
        return CAPACITY - self.others - sum(p.stat().st_size for p in files)


def configured(folder, sweep, stored="20 GB", read_only=False):
    return small_plan.configured(
        stores={"a": {"kind": "directory", "path": str(folder / "disk"), "read_only": read_only}},
        sweeps={"s": {"axes": sweep, "duration": "2 s", "roles": ROLES}},
        limits={"stored_bytes": stored},
        **small_plan.folders(folder),
    )


@pytest.fixture
def site(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(filling.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(upload, "report", lambda line: None)
    config = configured(tmp_path, {"fill": [0, 50, 90]})
    return config, Small("a", config.stores["a"], tmp_path / "state")


def filler(store):
    return sorted(p for p in store.path.rglob("fill/*") if p.is_file())


def test_store_is_filled_and_emptied(site):
    config, store = site
    for wanted in (50, 90, 10, 80):
        found = filling.ensure(config, store, wanted)
        assert found["asked_percent"] == wanted and found["capacity_bytes"] == CAPACITY
        assert found["begin_percent"] == pytest.approx(wanted, abs=1), wanted
        assert found["filler_bytes"] == sum(p.stat().st_size for p in filler(store)) == left_over.filler(config, "a")
    before = {p: p.stat().st_mtime_ns for p in filler(store)}
    filling.ensure(config, store, 80)
    assert {p: p.stat().st_mtime_ns for p in filler(store)} == before, "what is there stays"
    room = left_over.free_space(config, store, 0)
    assert room == pytest.approx(0.9 * 0.2 * CAPACITY, rel=0.06), "nine tenths of what is left"
    assert filling.ensure(config, store, 0) is None and not filler(store) and not filling.may_have_filler(config, store)
    assert filling.ensure(config, store, 0) is None, "nothing to do"


def test_other_data_count_and_too_much_fails(site):
    config, store = site
    store.others = CAPACITY * 3 // 10
    found = filling.ensure(config, store, 50)
    assert found["begin_percent"] == pytest.approx(50, abs=1)
    assert found["filler_bytes"] == pytest.approx(0.2 * CAPACITY, rel=0.06)
    with pytest.raises(MeasurementFailed, match=r"a is 30\.\d % full instead of the requested 10 %"):
        filling.ensure(config, store, 10)
    assert not filler(store)


def test_store_that_takes_more_is_filled_stepwise(site, monkeypatch):
    """Each object costs a third more: two rounds reach the level, one would be too full."""
    config, store = site
    own = Small.free_bytes
    monkeypatch.setattr(Small, "free_bytes", lambda self: CAPACITY - (CAPACITY - own(self)) * 4 // 3)
    assert filling.ensure(config, store, 60)["begin_percent"] == pytest.approx(60, abs=1)


def test_earlier_uploads_go_and_filler_is_ours(site):
    config, store = site
    point = plan.make(config, WORKLOADS)[0]
    filling.ensure(config, store, 20)
    left_over.add(config, "a", point.parts()[0].point, 10, 1)
    filling.ensure(config, store, 50)
    assert left_over.left(config, "a")["objects"] == 0
    (filler(store)[0].parent / "theirs").write_text("x")
    gone = deployment.clean(config, store)
    assert gone.stays == 1 and [p.name for p in filler(store)] == ["theirs"]


def test_fill_is_an_axis_of_the_whole_point(site):
    points = plan.make(site[0], WORKLOADS)
    assert {filling.level(p): "fill~" in p.key for p in points} == {0: False, 50: True, 90: True} and len(points) == 3
    assert filling.level(SimpleNamespace(axes={"workers": 1})) == 0


def test_impossible_fill_is_refused(tmp_path, monkeypatch):
    for level, capacity, more, words in (
        (96, CAPACITY, {}, ("sweeps.s.axes.fill", "96 %", "95")),
        (50, None, {}, ("sweeps.s.axes.fill", "store a", "capacity")),
        (50, CAPACITY, {"read_only": True}, ("sweeps.s.axes.fill", "store a", "read-only")),
        (50, CAPACITY, {"stored": "1 MB"}, ("limits.stored_bytes", "50 %", "2 MB", "1 MB")),
    ):
        monkeypatch.setattr(Directory, "capacity_bytes", lambda self, size=capacity: size)
        config = configured(tmp_path, {"fill": level}, **more)
        message = refusal(filling.check, config, plan.make(config, WORKLOADS), all_stores(config))
        assert all(word in message for word in words), message
