"""The plan: identity of points, their order, scaling, data sets and calibrations; no input or output."""

import dataclasses
import math
from functools import partial
from itertools import pairwise

import small_plan
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

from storelab.core import axes, calibration, plan
from storelab.core.campaign import Sweep
from storelab.core.model import Axis, Point, point_key
from storelab.core.plan import sweeps
from storelab.workloads import WORKLOADS

PROPERTY = settings(max_examples=40, deadline=None, database=None, derandomize=True)
MEBI = 2**20
GET = WORKLOADS["get"]
STORES = {name: {"kind": "seaweedfs"} for name in "ab"}
BLOCKS = {  # two deployments of each of two stores
    "one": {"workload": "get", "axes": {"clients": [1, 2, 4], "redundancy": ["default", "replica-2"]}},
    "two": {"workload": "put", "axes": {"clients": [1, 2]}},
}
configured, make = (partial(call, stores=STORES, repetitions=8) for call in (small_plan.configured, small_plan.planned))


def keys_of(points: list[Point]) -> list[str]:
    return [p.key for p in points]


def test_keys_leave_out_defaults_and_pad_numbers():
    up = {"workload": "put", "axes": {"clients": [1, 2], "object_size": ["4 kB", "1 MB"]}}
    assert set(keys_of(make(sweeps={"up": up}, repetitions=1))) == {
        "a/put/rep~001",
        "a/put/clients~0002_rep~001",
        "a/put/object_size~1MB_rep~001",
        "a/put/object_size~1MB_clients~0002_rep~001",
    }


@PROPERTY
@given(st.data())
def test_only_equal_points_share_a_key(data):
    def point():
        values = {a.name: a.default for a in GET.axes} | {
            "clients": data.draw(st.integers(1, 12)),
            "object_size": data.draw(st.sampled_from([1, 4000, 4096, 10**6, MEBI, 123_456])),
            "buckets": data.draw(st.integers(1, 3)),
            "part_size": data.draw(st.sampled_from([0, 5 * MEBI])),
        }
        return values, data.draw(st.integers(1, 3))

    one, other = point(), point()
    keys = [point_key("s", GET, values, rep) for values, rep in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)
    for axis in GET.axes:
        assert (f"{axis.name}~" in keys[0]) == (one[0][axis.name] != axis.default), axis.name


def test_new_axis_renames_no_old_point():
    more = dict(WORKLOADS)
    new = Axis("checksums", "text", "off", "Checksums", "", choices=("off", "on"))
    more["put"] = dataclasses.replace(more["put"], axes=(*more["put"].axes[:2], new, *more["put"].axes[2:]))
    config = configured(calibrate=True, sweeps={"up": {"workload": "put", "axes": {"clients": [1, 2]}}})
    old, now = plan.make(config, WORKLOADS), plan.make(config, more)
    assert [(p.key, p.seed, p.order) for p in old] == [(p.key, p.seed, p.order) for p in now]


def test_point_in_two_sweeps_is_one_point():
    sweep = {"workload": "put", "axes": {"clients": [1, 2]}}
    assert len(make(sweeps={"one": sweep, "two": sweep}, repetitions=1)) == 2
    other = {"one": sweep | {"duration": "5 s"}, "two": sweep | {"duration": "6 s"}}
    assert "sweep 'one'" in refusal(make, sweeps=other)


def test_json_gives_the_points_back():
    config = configured(sweeps={"down": {"workload": "get"}})
    points = plan.make(config, WORKLOADS)
    data = plan.to_json(config, points, WORKLOADS)
    assert [Point(**p) for p in data["points"]] == points
    assert data["points"][0]["dataset"]["kind"] == "payload"


def test_missing_axes_count_as_their_default():
    """A deployment is the same whether a workload has the axis or not, and shares its block."""
    every = {a.name: a.default for a in axes.DEPLOYMENT}

    def deployment(store="s", **values):
        return plan.deployment(Point(store, "get", values, 1, "k", "x", 1, 1))

    assert deployment(**every, clients=1) == deployment(clients=1) != deployment("t", **every)
    for axis in axes.DEPLOYMENT:
        assert deployment(**every | {axis.name: "other"}) != deployment(**every), axis.name


@PROPERTY
@given(st.integers(0, 2**40))
def test_order_is_seeded_and_in_blocks(seed):
    """Points come by repetition, then by deployment; the same seed gives the same order."""
    campaign = {"stores_to_measure": ["a", "b"], "repetitions": 3, "sweeps": BLOCKS, "seed": seed}
    points = make(**campaign)
    assert [p.order for p in points] == list(range(1, len(points) + 1))
    assert len(set(keys_of(points))) == len(points) == 2 * 3 * (3 * 2 + 2)
    assert [p.rep for p in points] == sorted(p.rep for p in points)
    blocks = [(p.rep, p.store, p.axes.get("redundancy", "default")) for p in points]
    assert sum(a != b for a, b in pairwise(blocks)) == len(set(blocks)) - 1 == 11, "no block comes twice"
    assert keys_of(make(**campaign)) == keys_of(points)


def test_orders_differ_by_seed_and_repetition():
    """Neither the blocks of a repetition nor the points of a block have one order everywhere."""
    orders = []
    for seed in range(4):
        points = make(stores_to_measure=["a", "b"], repetitions=3, sweeps=BLOCKS, seed=seed)
        orders += [[(p.store, p.key.rpartition("rep~")[0]) for p in points if p.rep == rep] for rep in (1, 2, 3)]
    assert len({tuple(order) for order in orders}) == 12
    assert {order[0][0] for order in orders} == {"a", "b"}


def test_order_ignores_the_sequence_of_sweeps():
    given = {f"s{n}": {"workload": "get", "axes": {"object_size": f"{n} kB", "clients": [1, 2]}} for n in range(1, 6)}
    one, other = (keys_of(make(sweeps=dict(items), repetitions=4)) for items in (given.items(), [*given.items()][::-1]))
    assert one == other and len(one) == 40


def test_scale_axes_follow_the_factor():
    grid = {"file_size": "L", "clients": [1, 8, 64], "buckets": 64, "volume_fraction": [100, 1]}
    sweep = {"workload": "read_volume", "duration": "100 s", "scale_axes": ["file_size", "clients", "buckets"]}

    def swept(factor: float) -> set[tuple]:
        points = make(sweeps={"v": sweep | {"axes": grid}}, scale=factor, repetitions=1)
        return {tuple(p.axes[a] for a in grid) for p in points}

    assert swept(1) == {("L", c, 64, v) for c in (1, 8, 64) for v in (100, 1)}
    assert swept(0.1) == {("M", c, 6, v) for c in (1, 6) for v in (100, 1)}
    assert swept(0.01) == {("S", 1, 1, v) for v in (100, 1)}


def test_unscalable_axes_are_named():
    for grid, axis, place in (
        ({"file_size": "L"}, "clients", "sweeps.v.scale_axes"),
        ({"codec": "lz4"}, "codec", "sweeps.v.axes.codec"),
        ({"volume_fraction": [50, 100]}, "volume_fraction", "scale_axes"),
    ):
        sweep = {"workload": "read_volume", "axes": grid, "scale_axes": [axis]}
        message = refusal(make, sweeps={"v": sweep}, scale=0.5)
        assert place in message.partition(": ")[0] and axis in message


def test_factor_scales_durations_and_objects():
    sweep = {"workload": "get", "duration": "10 s", "warm_up": "1 s", "objects": 100}
    sweep |= {"axes": {"workers": [1, 200], "buckets": [1, 30]}}
    whole, tenth = (make(sweeps={"s": sweep}, scale=factor) for factor in (1, 0.1))
    assert set(keys_of(whole)) == set(keys_of(tenth))
    assert {(p.fixed["duration_ns"], p.fixed["warm_up_ns"]) for p in tenth} == {(10**9, 10**8)}
    assert {(p.axes["buckets"], p.fixed["objects"]) for p in tenth} == {(1, 10), (30, 30)}, "no bucket stays empty"


@PROPERTY
@given(st.integers(1, 100), st.floats(0.01, 10), st.integers(0, 10**11))
def test_scaled_sweep_is_rounded_to_milliseconds(objects, factor, ns):
    ms = ns // 10**6 * 10**6
    sweep = Sweep(workload="get", axes={"clients": [1, 4, 10]}, scale_axes=["clients"], objects=objects)
    sweep = sweep.model_copy(update={"duration": ms, "warm_up": 0})
    found = sweeps.scaled(sweep, factor, "x", GET)
    if factor == 1:
        assert found == sweep
        return
    assert found.objects == max(1, round(objects * factor)) and found.warm_up == 0
    assert found.duration % 10**6 == 0 and (found.duration > 0) == (ms > 0)
    assert abs(found.duration - ms * factor) <= 1 + (5e5 if ms * factor >= 5e5 else 1e6)
    assert found.axes["clients"] == list(dict.fromkeys(max(1, round(n * factor)) for n in (1, 4, 10)))


def test_files_scale_to_the_nearest_by_ratio():
    """The files have 6, 80 and 757 MB: the middle between S and M is at sqrt(6 * 80) = 21.9 MB."""
    sizes = {"S": 6, "M": 80, "L": 757}
    for scale, factor, nearest in (
        *(("S", 1.0, "S"), ("S", 10.0, "M"), ("S", 3.0, "S"), ("S", 4.0, "M")),
        *(("L", 0.1, "M"), ("L", 0.01, "S"), ("M", 100.0, "L")),
    ):
        found = sweeps.scaled_value(axes.FILE_SIZE, scale, factor, "x")
        by_ratio = min(sizes, key=lambda s: abs(math.log(sizes[s] / (sizes[scale] * factor))))
        assert found == nearest == by_ratio, (scale, factor)


def test_own_file_is_a_data_set_by_its_name():
    entries = {"e": {"workload": "read_entries", "axes": {"file_size": ["mine", "S"], "buckets": [1, 2]}}}
    points = make(sweeps=entries, files={"mine": {"path": "/data/a.root", "tree": "events"}}, repetitions=1)
    found = {p.key.removeprefix("a/read_entries/"): p.dataset for p in points}
    mine = {"name": "root-mine", "kind": "root", "scale": "mine", "buckets": 1, "seed": 20150413}
    assert found["file_size~mine_rep~001"] == mine | {"file": "/data/a.root", "tree": "events"}
    assert found["file_size~mine_buckets~0002_rep~001"]["name"] == "root-mine-2"
    assert found["rep~001"]["name"] == "root-S" and "file" not in found["rep~001"]


def test_one_account_has_no_name_in_a_data_set():
    keys = {"object_size": 4000, "keys": 10, "prefix_depth": 0, "buckets": 2}
    one, two = (sweeps.folders_of_keys(7, keys | {"accounts": n}) for n in (1, 2))
    assert "accounts" not in one and one["name"] == "keys-4kB-10x2" and one["objects"] == 20
    assert two["accounts"] == 2 and two["name"] == "keys-4kB-10x2-a2"
    grid = {"object_size": "4 kB", "buckets": 3, "accounts": [1, 3]}
    points = make(sweeps={"s": {"workload": "get", "objects": 6, "axes": grid}}, repetitions=1)
    found = {p.axes["accounts"]: p.dataset for p in points}
    assert "accounts" not in found[1] and found[1]["name"] == "payload-4kB-6x3"
    assert found[3]["accounts"] == 3 and found[3]["name"] == "payload-4kB-6x3a3"


def calibrations(**campaign) -> list[Point]:
    return [p for p in make(calibrate=True, **campaign) if p.workload == calibration.WORKLOAD]


def test_calibration_lasts_four_rounds_of_objects():
    """They move at 500 MB/s together; 2 s (10 s between hosts) is the least and a minute the most."""
    for range_size, object_size, clients, workers, between, seconds in (
        (0, 4000, 1, 1, False, 2),
        (0, 4000, 1, 1, True, 10),
        (0, 10**8, 4, 8, False, 4 * 4 * 8 * 10**8 / 5e8),
        (10**7, 10**9, 4, 25, False, 4 * 100 * 10**7 / 5e8),
        (0, 10**9, 8, 8, False, 60),
    ):
        values = {"range_size": range_size, "object_size": object_size, "clients": clients, "workers": workers}
        assert calibration.duration_ns(values, between) == round(seconds * 1e9), values


def test_quarter_of_a_calibration_is_warm_up():
    up = {"workload": "put", "axes": {"object_size": ["4 kB", "333333333 B"], "clients": [1, 3]}}
    for p in calibrations(sweeps={"up": up}):
        times = [p.fixed[name] for name in ("duration_ns", "warm_up_ns")]
        assert {type(t) for t in times} == {int} and abs(4 * times[1] - times[0]) <= 2


def test_hashed_payload_has_its_own_ceiling():
    up = {"workload": "put", "axes": {"engine": "loadgen", "payload": ["default", "sha256"]}}
    found = [p.axes for p in calibrations(sweeps={"up": up}) if p.axes["target"] == "network"]
    expected = [(payload, phase) for payload in ("default", "sha256") for phase in ("after", "before")]
    assert sorted((a["payload"], a["phase"]) for a in found) == expected
    assert {a.column for a in calibration.AGREE} >= {"payload", "clients", "object_size_bytes", "scheme", "operation"}


def test_engines_with_a_ceiling_can_be_calibrated():
    named = {e for operation in calibration.OPERATIONS for e in WORKLOADS[operation].axis("engine").choices}
    assert {*WORKLOADS["calibrate"].axis("engine").choices} == {*named, "none"} and "davix" in named
