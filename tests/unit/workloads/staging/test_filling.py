"""A store is filled up to a level by storelab's own objects, and emptied of them again: on a folder whose capacity is set here."""

from types import SimpleNamespace

import pytest

from storelab.core import plan
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.measure import cleaning
from storelab.stores import all_stores
from storelab.stores.posix.directory import Directory
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import filling, left_over, upload

CAPACITY = 4_000_000
ROLES = {"uploads": {"workload": "put", "axes": {"engine": "fsspec", "object_size": "4 kB"}}}


class Small(Directory):
    """A folder of which nobody else uses the disk; others is what they have on it."""

    others, taken = 0, True

    def capacity_bytes(self):
        return CAPACITY if self.taken else None

    def free_bytes(self):
        files = [p for p in self.path.rglob("*") if p.is_file()]
        return CAPACITY - self.others - sum(p.stat().st_size for p in files)


def configured(folder, sweep, stored="20 GB", read_only=False):
    return Config.model_validate(
        {
            **{"campaign": "c", "name": "c", "use_stores": ["a"], "repetitions": 1, "calibrate": False},
            **{"results": str(folder / "results"), "state": str(folder / "state"), "scratch": str(folder)},
            "stores": {"a": {"kind": "directory", "path": str(folder / "disk"), "read_only": read_only}},
            "sweeps": {"s": {"axes": sweep, "duration": "2 s", "roles": ROLES}},
            "limits": {"stored_bytes": stored},
        }
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


def test_up_and_down_and_empty(site):
    config, store = site
    for wanted in (50, 90, 10, 80):
        told = filling.ensure(config, store, wanted)
        assert told["asked_percent"] == wanted and told["capacity_bytes"] == CAPACITY
        assert told["begin_percent"] == pytest.approx(wanted, abs=1), wanted
        assert told["filler_bytes"] == sum(p.stat().st_size for p in filler(store)) == left_over.filler(config, "a")
    before = {p: p.stat().st_mtime_ns for p in filler(store)}
    filling.ensure(config, store, 80)
    assert {p: p.stat().st_mtime_ns for p in filler(store)} == before, "what is there stays"
    room = left_over.room(config, store, 0)
    assert room == pytest.approx(0.9 * 0.2 * CAPACITY, rel=0.06), "nine tenths of what is left"
    assert filling.ensure(config, store, 0) is None and not filler(store) and not filling.there(config, store)
    assert filling.ensure(config, store, 0) is None, "nothing to do"


def test_data_count_and_too_much_of_them_fails_the_point(site):
    config, store = site
    store.others = CAPACITY * 3 // 10
    told = filling.ensure(config, store, 50)
    assert told["begin_percent"] == pytest.approx(50, abs=1) and told["filler_bytes"] == pytest.approx(
        0.2 * CAPACITY, rel=0.06
    )
    with pytest.raises(MeasurementFailed, match=r"a is 30\.\d % full, and 10 % were asked: its other data take more"):
        filling.ensure(config, store, 10)
    assert not filler(store)


def test_a_store_that_takes_more_than_it_was_given_is_filled_step_by_step(site, monkeypatch):
    """Each object costs a third more: two rounds reach the level, one would be too full."""
    config, store = site
    own = Small.free_bytes
    monkeypatch.setattr(Small, "free_bytes", lambda self: CAPACITY - (CAPACITY - own(self)) * 4 // 3)
    assert filling.ensure(config, store, 60)["begin_percent"] == pytest.approx(60, abs=1)


def test_uploads_of_earlier_points_go_first_and_filler_is_ours(site):
    config, store = site
    point = plan.make(config, WORKLOADS)[0]
    filling.ensure(config, store, 20)
    left_over.add(config, "a", point.parts()[0].point, 10, 1)
    filling.ensure(config, store, 50)
    assert left_over.left(config, "a")["objects"] == 0
    (store.path / filler(store)[0].relative_to(store.path).parent / "theirs").write_text("x")
    gone = cleaning.clean(config, store)
    assert gone.stays == 1 and [p.name for p in filler(store)] == ["theirs"]


def test_the_axis_is_of_the_whole_point_and_left_out_at_its_default(site):
    config, _ = site
    points = plan.make(config, WORKLOADS)
    assert sorted(filling.level(p) for p in points) == [0, 50, 90]
    assert {filling.level(p): "fill~" in p.key for p in points} == {0: False, 50: True, 90: True}
    assert filling.level(SimpleNamespace(axes={"workers": 1})) == 0


@pytest.mark.parametrize(
    ("change", "sweep", "told"),
    [
        ({}, {"fill": 96}, "sweeps.s.axes.fill: 96 % leave no room to write; give 95 or less"),
        ({"taken": False}, {"fill": 50}, r"store a \(kind directory\) does not tell its capacity, or shares its disk"),
        ({"read_only": True}, {"fill": 50}, "store a is read-only, and cannot be filled"),
        ({"stored": "1 MB"}, {"fill": 50}, "limits.stored_bytes: 50 % of store a are 2 MB, the limit is 1 MB"),
    ],
)
def test_what_cannot_be_filled(tmp_path, monkeypatch, change, sweep, told):
    taken = change.pop("taken", True)
    monkeypatch.setattr(Directory, "capacity_bytes", lambda self: CAPACITY if taken else None)
    config = configured(tmp_path, sweep, **change)
    with pytest.raises(UserError, match=told):
        filling.check(config, plan.make(config, WORKLOADS), all_stores(config))
