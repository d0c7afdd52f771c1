"""The plan: identity, paths, order; pure."""

import dataclasses
import itertools

import pytest

from storelab.core import plan
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.model import Axis, Point
from storelab.workloads import WORKLOADS


def make(**campaign) -> list:
    base = {
        "campaign": "x",
        "name": "x",
        "stores": {"a": {"kind": "seaweedfs"}, "b": {"kind": "seaweedfs"}},
        "use_stores": ["a"],
        "calibrate": False,
        "sweeps": {"up": {"workload": "put", "axes": {"clients": [1, 2], "object_size": ["4 kB", "1 MB"]}}},
    }
    return plan.make(Config.model_validate(base | campaign), WORKLOADS)


def test_defaults_are_left_out_of_the_path_and_numbers_are_padded():
    keys = {p.key for p in make(repetitions=1)}
    assert keys == {
        "a/put/rep~001",
        "a/put/clients~0002_rep~001",
        "a/put/object_size~1MB_rep~001",
        "a/put/object_size~1MB_clients~0002_rep~001",
    }


def test_a_new_axis_renames_no_old_point():
    more = dict(WORKLOADS)
    new = Axis("checksums", "text", "off", "Checksums", "", choices=("off", "on"))
    more["put"] = dataclasses.replace(more["put"], axes=(*more["put"].axes[:2], new, *more["put"].axes[2:]))
    config = Config.model_validate(
        {
            "campaign": "x",
            "name": "x",
            "stores": {"a": {"kind": "seaweedfs"}},
            "use_stores": ["a"],
            "sweeps": {"up": {"workload": "put", "axes": {"clients": [1, 2]}}},
        }
    )
    old, now = plan.make(config, WORKLOADS), plan.make(config, more)
    assert [(p.key, p.seed, p.order) for p in old] == [(p.key, p.seed, p.order) for p in now]


def test_the_order_is_seeded_and_interleaves_stores_in_blocks_of_one_repetition():
    points = make(use_stores=["a", "b"], repetitions=3)
    assert [p.order for p in points] == list(range(1, 25))
    blocks = [(p.rep, p.store) for p in points]
    assert len(set(blocks)) == 6
    assert sum(x != y for x, y in itertools.pairwise(blocks)) == 5
    assert [p.rep for p in points] == sorted(p.rep for p in points)
    assert [p.key for p in points] == [p.key for p in make(use_stores=["a", "b"], repetitions=3)]
    assert [p.key for p in points] != [p.key for p in make(use_stores=["a", "b"], repetitions=3, seed=1)]


def test_the_same_point_in_two_sweeps_is_one_point():
    sweep = {"workload": "put", "axes": {"clients": [1, 2]}}
    assert len(make(sweeps={"one": sweep, "two": sweep}, repetitions=1)) == 2


def test_one_point_with_two_meanings_is_refused():
    with pytest.raises(UserError, match="stands in sweep 'one' too"):
        make(sweeps={"one": {"workload": "put", "duration": "5 s"}, "two": {"workload": "put", "duration": "6 s"}})


def test_json_round_trip():
    config = Config.model_validate(
        {
            "campaign": "x",
            "name": "x",
            "stores": {"a": {"kind": "seaweedfs"}},
            "use_stores": ["a"],
            "calibrate": False,
            "sweeps": {"down": {"workload": "get"}},
        }
    )
    points = plan.make(config, WORKLOADS)
    data = plan.to_json(config, points, WORKLOADS)
    assert [Point(**p) for p in data["points"]] == points
    assert data["points"][0]["dataset"]["kind"] == "payload"


def test_named_axes_go_with_the_factor():
    axes = {"scale": "L", "clients": [1, 8, 64], "buckets": 64, "volume_fraction": [100, 1]}
    sweep = {
        "workload": "read_volume",
        "duration": "100 s",
        "scaled_axes": ["scale", "clients", "buckets"],
        "axes": axes,
    }

    def swept(factor: float) -> set[tuple]:
        return {tuple(p.axes[a] for a in axes) for p in make(sweeps={"v": sweep}, scale=factor, repetitions=1)}

    assert swept(1) == {("L", c, 64, v) for c in (1, 8, 64) for v in (100, 1)}
    assert swept(0.1) == {("M", c, 6, v) for c in (1, 6) for v in (100, 1)}
    assert swept(0.01) == {("S", 1, 1, v) for v in (100, 1)}


@pytest.mark.parametrize(
    ("sweep", "line"),
    [
        (
            {"axes": {"scale": "L"}, "scaled_axes": ["clients"]},
            "sweeps.v.scaled_axes: the sweep gives no 'clients'; its axes: scale",
        ),
        (
            {"axes": {"codec": "lz4"}, "scaled_axes": ["codec"]},
            "sweeps.v.axes.codec: 'lz4' cannot be scaled; scale whole numbers, or the file S, M, L",
        ),
    ],
)
def test_what_cannot_be_scaled_is_named(sweep, line):
    with pytest.raises(UserError) as caught:
        make(sweeps={"v": {"workload": "read_volume", **sweep}}, scale=0.5)
    assert str(caught.value) == line


def test_one_factor_scales_durations_and_objects_but_no_axis():
    sweep = {
        "workload": "get",
        "duration": "10 s",
        "warm_up": "1 s",
        "objects": 100,
        "axes": {"workers": [1, 200], "buckets": [1, 30]},
    }
    whole, tenth = (make(sweeps={"s": sweep}, scale=factor, calibrate=False) for factor in (1, 0.1))
    assert {p.key for p in whole} == {p.key for p in tenth}, "the same points, not other ones"
    assert {p.fixed["duration_ns"] for p in tenth} == {10**9} and {p.fixed["warm_up_ns"] for p in tenth} == {10**8}
    assert {(p.axes["buckets"], p.fixed["objects"]) for p in tenth} == {(1, 10), (30, 30)}, "no bucket stays empty"


def test_a_file_of_one_s_own_is_a_data_set_by_its_name():
    sweeps = {"e": {"workload": "read_entries", "axes": {"scale": ["mine", "S"], "buckets": [1, 2]}}}
    points = make(sweeps=sweeps, files={"mine": {"path": "/data/a.root", "tree": "events"}}, repetitions=1)
    found = {p.key: p.dataset for p in points}
    assert found["a/read_entries/scale~mine_rep~001"] == {
        "name": "root-mine",
        "kind": "root",
        "scale": "mine",
        "buckets": 1,
        "seed": 20150413,
        "file": "/data/a.root",
        "tree": "events",
    }
    assert found["a/read_entries/scale~mine_buckets~0002_rep~001"]["name"] == "root-mine-2"
    assert found["a/read_entries/rep~001"]["name"] == "root-S" and "file" not in found["a/read_entries/rep~001"]
