"""What plans rest on: axes as sealed campaigns have them, what each axis is to others, and the bounds of a campaign file."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import ROOT
from pydantic import ValidationError

from storelab.core import axes, calibration, campaign, model, plan
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.plan import series, sweeps
from storelab.workloads import WORKLOADS

PROPERTY = settings(max_examples=40, deadline=None, database=None, derandomize=True)
SEALED = sorted([*ROOT.glob("results/*/raw/plan.json"), *ROOT.glob("tests/data/golden/*/raw/plan.json")])
MEBI = 2**20


@pytest.mark.parametrize("path", SEALED, ids=lambda p: p.parents[1].name)
def test_axes_of_sealed_plans_are_still_what_they_were(path):
    """Another default, kind or column would give old points another key and other tables; choices may only be added."""
    old = json.loads(path.read_text())
    plain = {name: w for name, w in old["workloads"].items() if "roles" not in w}  # whose axes no campaign makes
    for name, workload in plain.items():
        now = {a.name: a.declared() for a in (*WORKLOADS[name].axes, axes.PART)}
        for axis in workload["axes"]:
            mine = now[axis["name"]]
            assert {k: mine[k] for k in ("kind", "default", "column", "minimum")} == {
                k: axis[k] for k in ("kind", "default", "column", "minimum")
            }
            assert not mine["choices"] or set(axis["choices"]) <= set(mine["choices"])
    for p in (p for p in old["points"] if p["workload"] in plain):
        spec = WORKLOADS[p["workload"]]
        spec = series.with_part(spec) if "part" in p["axes"] else spec
        values = {a.name: p["axes"].get(a.name, a.default) for a in spec.axes}
        assert model.point_key(p["store"], spec, values, p["rep"]) == p["key"]


# name -> default, least value (None: any text)
DEFAULTS = {
    **{
        "clients": (1, 1),
        "workers": (8, 1),
        "buckets": (1, 1),
        "accounts": (1, 1),
        "front_ends": (1, 1),
        "part_size": (0, 0),
    },
    **{
        "parallel_parts": (0, 0),
        "batch": (1, 1),
        "keys": (1000, 1),
        "keys_per_worker": (256, 1),
        "page_size": (1000, 1),
        "working_set": (0, 0),
        "prefix_depth": (0, 0),
        "range_size": (4000, 1),
        "object_size": (4000, 1),
        "arrival_rate": (0, 0),
    },
    **{
        "connections": (64, 1),
        "split": (0, 0),
        "most_buckets": (120, 0),
        "fill": (0, 0),
        "clients_per_node": (0, 0),
        "servers": (0, 0),
        "part": (0, 0),
    },
    **{
        "max_range_gap": (32 * 1024, 0),
        "thrift": (0, 0),
        "max_amplification": (0, 0),
        "read_ahead": (0, 0),
        "step": (50, 1),
        "files": (1, 1),
        "days": (5, 1),
        "start_files": (200, 1),
        "applications": (1, 1),
        "keep": (3, 1),
    },
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_and_least_values(name):
    axis, (default, least) = axes.ALL[name], DEFAULTS[name]
    assert axis.default == default
    written = (lambda n: f"{n} B") if axis.kind == "size" else (lambda n: n)
    assert axis.parse(written(least), "here") == least
    if least or axis.kind == "int":
        with pytest.raises(UserError):
            axis.parse(written(least - 1) if axis.kind == "int" else "0 B", "here")


def test_numbers_have_no_other_axis():
    assert set(DEFAULTS) == {a.name for a in axes.ALL.values() if a.kind in ("int", "size")}
    assert axes.ALL["entry_fraction"].default == axes.ALL["volume_fraction"].default == 100.0


ROLES = {
    "ceiling": "engine payload clients_per_node scheme clients workers part_size parallel_parts batch range_size object_size keys page_size prefix_depth",
    "load": "clients workers buckets accounts front_ends part_size parallel_parts batch page_size keys_per_worker offset merge max_range_gap thrift max_amplification",
    "curve": "clients workers buckets front_ends",
    "told": "scale entry_fraction volume_fraction max_range_gap navigation cache read_ahead step range_size object_size keys mix sizes pattern stratum0",
    "setting": "redundancy servers backing scheme",
}


@pytest.mark.parametrize("role", ROLES)
def test_what_an_axis_is_to_others(role):
    assert {a.name for a in axes.ALL.values() if getattr(a, role)} == set(ROLES[role].split())


def test_places_and_settings():
    assert [a.name for a in axes.PLACES] == ["clients", "workers", "buckets", "front_ends", "accounts"]
    assert axes.SCHEME.setting_values == {"http": False, "https": True} and axes.SCHEME.setting == "tls"
    assert (
        axes.BY_COLUMN["max_range_gap_bytes"] is axes.GAP and axes.BY_COLUMN["entry_fraction_percent"] is axes.ENTRIES
    )


@pytest.mark.parametrize(
    ("axis", "value", "typed"),
    [("entry_fraction", 100, 100.0), ("entry_fraction", 0.1, 0.1), ("offset", "random", "random"), ("offset", "1 MiB", "1MiB"), ("offset", "4000 B", "4kB"), ("backing", "tmpfs", "tmpfs"), ("scale", 7, "7")],
)  # fmt: skip
def test_values_are_typed(axis, value, typed):
    found = axes.ALL[axis].parse(value, "here")
    assert found == typed and type(found) is type(typed)


@pytest.mark.parametrize(
    ("axis", "value"),
    [("entry_fraction", 0), ("entry_fraction", 100.1), ("entry_fraction", True), ("entry_fraction", "1"), ("clients", True), ("clients", 1.0), ("clients", "2"), ("offset", "nowhere"), ("backing", "paper")],
)  # fmt: skip
def test_values_that_are_refused(axis, value):
    with pytest.raises(UserError):
        axes.ALL[axis].parse(value, "here")


# Bounds of a campaign file: model, field, what must be given besides, least and most that are taken, the next ones that are not.
SWEEPS = {"sweeps": {"one": {"workload": "get"}}, "name": "x", "use_stores": ["a"]}
BOUNDS = [
    *(
        (campaign.Limits, name, {}, 1, None, 0, None)
        for name in ("objects", "buckets", "clients", "connections", "requests_per_s")
    ),
    (campaign.Limits, "error_fraction", {}, 0, 1, -0.01, 1.01),
    (campaign.Launcher, "nodes", {}, 1, None, 0, None),
    (campaign.Launcher, "port", {}, 0, 65535, -1, 65536),
    (campaign.Sweep, "objects", {"workload": "get"}, 1, None, 0, None),
    (campaign.Sweep, "repetitions", {"workload": "get"}, 1, None, 0, None),
    (campaign.Sweep, "stores", {"workload": "get"}, ["a"], None, [], None),
    (campaign.RootFile, "path", {}, "x", None, "", None),
    (campaign.Campaign, "repetitions", SWEEPS, 1, None, 0, None),
    (campaign.Campaign, "seed", SWEEPS, 0, None, -1, None),
    (campaign.Campaign, "scale", SWEEPS, 0.001, None, 0, None),
    (campaign.Campaign, "failure_budget", SWEEPS, 0, 1, -0.01, 1.01),
    (campaign.Campaign, "use_stores", SWEEPS, ["a"], None, [], None),
    (campaign.Campaign, "sweeps", SWEEPS, SWEEPS["sweeps"], None, {}, None),
]


@pytest.mark.parametrize(
    ("of", "field", "more", "least", "most", "below", "above"),
    BOUNDS,
    ids=lambda v: getattr(v, "__name__", str(v))[:20],
)
def test_bounds(of, field, more, least, most, below, above):
    for value in (least, most):
        if value is not None:
            assert getattr(of.model_validate(more | {field: value}), field) is not None
    for value in (below, above):
        if value is not None:
            with pytest.raises(ValidationError):
                of.model_validate(more | {field: value})


def test_defaults_of_a_campaign():
    limits, launcher, sweep = campaign.Limits(), campaign.Launcher(), campaign.Sweep(workload="get")
    assert (limits.stored_bytes, limits.objects, limits.buckets, limits.clients, limits.connections) == (
        20 * 10**9,
        10**6,
        100,
        64,
        4096,
    )
    assert (limits.throughput, limits.requests_per_s, limits.error_fraction) == (None, None, None)
    assert (launcher.kind, launcher.universe, launcher.nodes, launcher.port, launcher.shared_folder) == (
        "local",
        "vanilla",
        None,
        0,
        True,
    )
    assert (launcher.clock_bound, launcher.clock_error, launcher.silence) == (10**9, 10**7, 30 * 10**9)
    assert (sweep.duration, sweep.warm_up, sweep.objects, sweep.repetitions, sweep.stores) == (
        10 * 10**9,
        10**9,
        64,
        None,
        None,
    )
    c = campaign.Campaign.model_validate(SWEEPS)
    assert (c.repetitions, c.seed, c.scale, c.failure_budget, c.calibrate) == (8, 20150413, 1.0, 0.01, True)
    own = campaign.Campaign.model_validate(SWEEPS | {"files": {"mine": {"path": "x"}}})
    assert own.files["mine"].path == "x" and own.files["mine"].tree is None
    with pytest.raises(ValidationError, match="scale of the generated ROOT file"):
        campaign.Campaign.model_validate(SWEEPS | {"files": {"M": {"path": "x"}}})


# Keys and order of a plan

GET = WORKLOADS["get"]


@PROPERTY
@given(st.data())
def test_two_points_have_one_key_only_if_they_are_the_same(data):
    def point():
        values = {a.name: a.default for a in GET.axes}
        values |= {
            "clients": data.draw(st.integers(1, 12)),
            "object_size": data.draw(st.sampled_from([1, 4000, 4096, 10**6, MEBI, 123_456])),
        }
        values |= {"buckets": data.draw(st.integers(1, 3)), "part_size": data.draw(st.sampled_from([0, 5 * MEBI]))}
        return values, data.draw(st.integers(1, 3))

    one, other = point(), point()
    keys = [model.point_key("s", GET, values, rep) for values, rep in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)
    # and it can be read back: only axes off their default stand in it
    told = dict(
        part.split("~")
        for part in keys[0]
        .split("/")[2]
        .split("_rep~")[0]
        .replace("object_size", "objectsize")
        .replace("part_size", "partsize")
        .split("_")
        if "rep~" not in part
    )
    off = {a.name.replace("_", "") for a in GET.axes if one[0][a.name] != a.default}
    assert {k.replace("_", "") for k in told} == off


def config(**changes):
    base = {
        "campaign": "x",
        "name": "x",
        "use_stores": ["a", "b"],
        "repetitions": 3,
        "calibrate": False,
        "stores": {n: {"kind": "seaweedfs"} for n in "ab"},
    }
    base["sweeps"] = {
        "one": {"workload": "get", "axes": {"clients": [1, 2, 4], "redundancy": ["default", "replica-2"]}},
        "two": {"workload": "put", "axes": {"clients": [1, 2]}},
    }
    return Config.model_validate(base | changes)


@PROPERTY
@given(st.integers(0, 2**40))
def test_the_order_is_a_permutation_in_blocks(seed):
    """Repetition by repetition; in each, deployment by deployment; the same seed gives the same order."""
    points = plan.make(config(seed=seed), WORKLOADS)
    assert [p.order for p in points] == list(range(1, len(points) + 1)) and len({p.key for p in points}) == len(
        points
    ) == 2 * 3 * (3 * 2 + 2)
    assert [p.rep for p in points] == sorted(p.rep for p in points)
    blocks = [(p.rep, p.store, p.axes.get("redundancy", "default")) for p in points]
    changes = sum(a != b for a, b in pairwise(blocks))
    assert changes == len(set(blocks)) - 1 == 11, "no block comes twice"
    assert [p.key for p in plan.make(config(seed=seed), WORKLOADS)] == [p.key for p in points]


def test_orders_differ_by_seed_and_repetition():
    """Neither the blocks of a repetition nor the points of a block stand in the same order everywhere."""
    orders = [
        [(p.store, p.key.rpartition("rep~")[0]) for p in plan.make(config(seed=s), WORKLOADS) if p.rep == r]
        for s in range(4)
        for r in (1, 2, 3)
    ]
    assert len({tuple(o) for o in orders}) == 12
    assert {o[0][0] for o in orders} == {"a", "b"}


def test_calibrations_come_first_and_last():
    points = plan.make(
        config(
            calibrate=True, stores={n: {"kind": "seaweedfs"} for n in "ab"} | {"nullserver": {"kind": "nullserver"}}
        ),
        WORKLOADS,
    )
    phases = [p.axes.get("phase", "") if p.workload == "calibrate" else "-" for p in points]
    first, last = phases.count("before"), phases.count("after")
    assert first and last and phases == ["before"] * first + ["-"] * (len(points) - first - last) + ["after"] * last
    keys = [p.key for p in points if p.workload == "calibrate"]
    assert keys != sorted(keys), "they are shuffled"
    network = {
        (p.axes["operation"], p.axes["clients"], p.axes["phase"])
        for p in points
        if p.workload == "calibrate" and p.axes["target"] == "network"
    }
    assert network == {
        (op, n, phase)
        for op, counts in (("get", (1, 2, 4)), ("put", (1, 2)))
        for n in counts
        for phase in ("before", "after")
    }


@pytest.mark.parametrize(
    ("values", "between", "seconds"),
    [
        ({"range_size": 0, "object_size": 4000, "clients": 1, "workers": 1}, False, 2),
        ({"range_size": 0, "object_size": 4000, "clients": 1, "workers": 1}, True, 10),
        ({"range_size": 0, "object_size": 10**8, "clients": 4, "workers": 8}, False, 4 * 4 * 8 * 10**8 / 5e8),
        ({"range_size": 10**7, "object_size": 10**9, "clients": 4, "workers": 25}, False, 4 * 100 * 10**7 / 5e8),
        ({"range_size": 0, "object_size": 10**9, "clients": 8, "workers": 8}, False, 60),
    ],
)
def test_how_long_a_calibration_lasts(values, between, seconds):
    """Four rounds of an object per worker at 500 MB/s of all; 2 s (10 s between hosts) at least, a minute at most."""
    assert calibration.duration_ns(values, between) == round(seconds * 1e9)


@pytest.mark.parametrize(
    ("scale", "factor", "nearest"),
    [
        ("S", 1.0, "S"),
        ("S", 10.0, "M"),
        ("S", 3.0, "S"),
        ("S", 4.0, "M"),
        ("L", 0.1, "M"),
        ("L", 0.01, "S"),
        ("M", 100.0, "L"),
    ],
)
def test_files_scale_to_the_nearest_by_ratio(scale, factor, nearest):
    """6, 80 and 757 MB: between S and M the middle lies at sqrt(6 * 80) = 21.9 MB."""
    found = sweeps._scaled_values(axes.SCALE, scale, factor, "x")
    sizes = {"S": 6, "M": 80, "L": 757}
    assert found == [nearest] == [min(sizes, key=lambda s: abs(math.log(sizes[s] / (sizes[scale] * factor))))]


@PROPERTY
@given(st.integers(1, 100), st.floats(0.01, 10), st.integers(0, 10**11))
def test_scaled_sweeps(objects, factor, ns):
    ms = ns // 10**6 * 10**6
    sweep = campaign.Sweep(workload="get", axes={"clients": [1, 4, 10]}, scaled_axes=["clients"], objects=objects)
    sweep = sweep.model_copy(update={"duration": ms, "warm_up": 0})
    found = sweeps.scaled(sweep, factor, "x", GET)
    if factor == 1:
        assert found == sweep
        return
    assert found.objects == max(1, round(objects * factor)) and found.warm_up == 0
    assert (
        found.duration % 10**6 == 0
        and abs(found.duration - ms * factor) <= max(5e5, 1e6 if ms * factor < 5e5 else 5e5) + 1
        if ms
        else found.duration == 0
    )
    assert found.axes["clients"] == list(dict.fromkeys(max(1, round(n * factor)) for n in (1, 4, 10)))


def test_every_engine_of_an_operation_with_a_ceiling_can_be_calibrated():
    named = {e for operation in calibration.OPERATIONS for e in WORKLOADS[operation].axis("engine").choices}
    assert {*WORKLOADS["calibrate"].axis("engine").choices} == {*named, "none"} and "davix" in named
