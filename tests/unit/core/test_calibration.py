"""The points with which a campaign measures the ceilings of its clients, and their axes."""

import itertools
from functools import partial
from types import SimpleNamespace

import pytest
import small_plan

from storelab.core import calibration, plan
from storelab.workloads import WORKLOADS

SWEEPS = {
    "up": {"workload": "put", "axes": {"object_size": ["4 kB", "10 MB"], "clients": [1, 2], "front_ends": [1, 2]}},
    "down": {"workload": "get", "axes": {"clients": 2, "workers": 4, "buckets": [1, 3]}},
}
STORES = {
    **{"a": {"kind": "seaweedfs"}, "web": {"kind": "nginx"}},
    "far": {"kind": "s3", "endpoint": ["https://a", "https://b"]},
}
configured = partial(small_plan.configured, stores=STORES, sweeps=SWEEPS, repetitions=2, calibrate=True)
planned = partial(small_plan.planned, stores=STORES, sweeps=SWEEPS, repetitions=2, calibrate=True)


def uploads(**axes) -> dict:
    return {"up": {"workload": "put", "axes": axes}}


def ceilings(points, **wanted) -> list:
    return [p for p in points if p.workload == "calibrate" and all(p.axes[k] == v for k, v in wanted.items())]


def test_each_distinct_client_has_ceiling_before_and_after():
    points = planned()
    for phase in ("before", "after"):
        axes = [p.axes for p in ceilings(points, target="network", phase=phase)]
        found = [(a["operation"], a["object_size"], a["clients"], a["workers"]) for a in axes]
        puts = [("put", size, clients, 8) for size, clients in itertools.product((4000, 10_000_000), (1, 2))]
        assert sorted(found) == sorted([*puts, ("get", 4000, 2, 4)])
    assert {p.rep for p in ceilings(points)} == {1} and {p.store for p in ceilings(points)} == {"nullserver"}


def test_stat_and_list_have_ceilings():
    """Each with its own keys and pages; a listing lasts for four rounds at 200 000 keys/s; no memory is copied."""
    pages = {"keys": [1000, 400_000], "page_size": 100, "prefix_depth": 1, "workers": 4}
    sweeps = {"asked": {"workload": "stat", "axes": {"clients": 2, "buckets": [1, 2]}}}
    points = ceilings(planned(sweeps=sweeps | {"listed": {"workload": "list", "axes": pages}}))
    names = ("operation", "engine", "keys", "page_size", "prefix_depth")
    assert {tuple(p.axes[name] for name in names) for p in points} == {
        ("stat", "obstore", 0, 1000, 0),
        ("list", "loadgen", 1000, 100, 1),
        ("list", "loadgen", 400_000, 100, 1),
    }
    assert len(points) == 6 and {p.axes["target"] for p in points} == {"network"}
    lasts = {p.axes["keys"]: p.fixed["duration_ns"] / 1e9 for p in points}
    assert lasts == {0: 2, 1000: 2, 400_000: 4 * 4 * 400_000 / 200_000}


def test_memory_and_tmpfs_are_measured_once():
    local = [p.axes for p in ceilings(planned()) if p.axes["target"] != "network"]
    found = {(a["target"], a["operation"], a["object_size"], a["clients"], a["workers"]) for a in local}
    assert len(found) == len(local) == 5 and {(a["phase"], a["engine"]) for a in local} == {("before", "none")}
    assert {("memory", "copy", 10_000_000, 2, 1), ("tmpfs", "write", 4000, 2, 4), ("tmpfs", "read", 4000, 2, 8)} < found
    assert not ceilings(planned(sweeps={"r": {"workload": "get_range"}}), target="tmpfs")


def test_ceilings_surround_points_that_stay_the_same():
    points, without = planned(stores_to_measure=["a", "far"]), planned(stores_to_measure=["a", "far"], calibrate=False)
    phases = [p.axes.get("phase", "between") for p in points]
    assert [k for k, _ in itertools.groupby(phases)] == ["before", "between", "after"]
    assert [p.key for p in points if p.workload != "calibrate"] == [p.key for p in without]
    keys = [p.key for p in ceilings(points)]
    assert keys != sorted(keys), "they are shuffled"
    assert [p.order for p in points] == list(range(1, len(points) + 1))
    assert [p.key for p in points] == [p.key for p in planned(stores_to_measure=["a", "far"])]


def test_https_has_its_own_ceiling():
    assert {p.axes["scheme"] for p in ceilings(planned(stores_to_measure=["far"]), target="network")} == {"https"}
    after = ceilings(planned(sweeps=uploads(scheme=["default", "https"])), target="network", phase="after")
    assert sorted(p.axes["scheme"] for p in after) == ["default", "https"]


def test_reads_of_root_files_and_other_protocols_have_no_ceiling():
    reads = {"sweeps": {"r": {"workload": "read_entries"}}}
    for more in (reads, {"stores_to_measure": ["web"], "sweeps": uploads(engine="fsspec")}):
        points = planned(**more)
        assert points and not ceilings(points), more


def test_large_objects_get_more_time_at_any_scale():
    for scale in (1, 0.1):
        points = planned(sweeps=uploads(object_size=["4 kB", "1 GB"], workers=4), scale=scale)
        found = ceilings(points, target="network")
        assert {p.axes["object_size"]: p.fixed["duration_ns"] / 1e9 for p in found} == {4000: 2, 10**9: 32}
    huge = ceilings(planned(sweeps=uploads(object_size="10 GB", workers=64)), target="network")
    assert {p.fixed["duration_ns"] for p in huge} == {calibration.LONGEST_NS}


def test_links_between_hosts_get_more_time():
    """At 100 Mbit/s a client of objects of 1 MB ends 25 in 2 s: the last one is 5 % of what is left of the window."""
    found = ceilings(planned(launcher={"kind": "srun"}))
    assert {(p.axes["target"] == "network", p.fixed["duration_ns"] // 10**9) for p in found} == {(True, 10), (False, 2)}


def test_sweep_does_not_change_ceilings_of_others():
    before = {p.key: p.fixed for p in ceilings(planned())}
    sweeps = SWEEPS | {"long": {"workload": "get", "duration": "60 s", "axes": {"clients": 1}}}
    more = {p.key: p.fixed for p in ceilings(planned(sweeps=sweeps))}
    assert len(more) == len(before) + 2 and all(more[k] == fixed for k, fixed in before.items())


def test_null_server_is_added_with_its_settings():
    settings = configured()
    assert settings.stores["nullserver"].port == 25000 and "nullserver" not in configured(calibrate=False).stores
    own = configured(stores={"a": {"kind": "seaweedfs"}, "mine": {"kind": "nullserver", "port": 26000}})
    assert set(own.stores) == {"a", "mine"} and {p.store for p in ceilings(plan.make(own, WORKLOADS))} == {"mine"}
    with pytest.raises(ValueError, match="'nullserver'"):
        configured(stores={"nullserver": {"kind": "seaweedfs"}}, stores_to_measure=["nullserver"])
    for more, names in ({}, {"a", "nullserver"}), ({"calibrate": False}, {"a"}):
        data = plan.to_json(configured(**more), planned(**more), WORKLOADS)
        assert set(data["stores"]) == names


def test_clients_that_use_https():
    cases = [
        ({"endpoint": "https://x"}, {}, True),
        ({"endpoint": "http://x"}, {}, False),
        ({"endpoint": ["https://x", "http://y"]}, {}, True),
        ({"endpoint": []}, {}, False),
        ({}, {}, False),
        ({"tls": True}, {}, True),
        ({"tls": True}, {"scheme": "http"}, False),
        ({}, {"scheme": "https"}, True),
        ({"tls": True}, {"scheme": "default"}, True),
    ]
    for settings, axes, https in cases:
        assert calibration.encrypted(SimpleNamespace(**settings), axes) is https, (settings, axes)
