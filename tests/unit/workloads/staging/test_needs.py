"""Space that a plan needs in a store and on its clients' tmpfs, and limits on it."""

from types import SimpleNamespace

from refusals import NONE, check_refused

from storelab.core.model import Point
from storelab.measure import check
from storelab.workloads.staging import stage

DATA = {"name": "d", "kind": "payload", "objects": 64, "object_size": 1000}


def point(workload, seconds=10, dataset=None, store="s", **axes):
    fixed = {"duration_ns": seconds * 10**9, "objects": 7}
    axes = {"engine": "s5cmd", "clients": 2, "workers": 3, "object_size": 1000} | axes
    return Point(store, workload, axes, 1, "k", "one", 7, 1, fixed, dataset)


def test_needs_of_plan_are_summed():
    assert stage.summarise([], "s") == stage.Summary()
    empty = vars(stage.Summary())
    names = ("staged_bytes", "staged_objects", "buckets", "scratch_bytes", "points", "seconds")
    assert [empty[k] for k in names] == [0, 0, 0, 0, {}, {}]
    points = [
        point("get", 10, DATA, buckets=3),
        point("get", 5, DATA),
        point("get", 5, DATA | {"name": "e", "objects": 10}),
        point("put", 2, accounts=2),
        point("get", 1, DATA, store="t"),
        point("delete", 1, object_size=50),
        point("delete", 1, object_size=40),
    ]
    found = stage.summarise(points, "s")
    assert found.points == {"get": 3, "put": 1, "delete": 2} and found.seconds == {"get": 20, "put": 2, "delete": 2}
    assert found.staged_bytes == 64_000 + 10_000 + 7 * 50 and found.staged_objects == 64 + 10 + 7 and found.buckets == 3


def test_tmpfs_of_clients_is_counted():
    bodies = stage.BODIES
    reader = bodies + 2 * (max(3, bodies) + bodies + 3)
    for one, objects in (
        (point("put"), bodies),
        (point("get"), reader),
        (point("get", workers=99), bodies + 2 * (99 + bodies + 99)),
        (point("get", engine="loadgen"), bodies),
        (point("read_entries"), 0),
        (point("calibrate", operation="read", engine="none"), reader),
        (point("calibrate", operation="copy", engine="none"), 0),
    ):
        assert stage.scratch_bytes(one) == 1000 * objects, one


def test_each_limit_is_checked():
    limits = {"stored_bytes": 64_000, "objects": 64, "buckets": 3, "clients": 2, "connections": 6}
    one = point("get", 10, DATA, buckets=3)
    for changed in (None, *limits):
        bounds = SimpleNamespace(**limits | ({changed: limits[changed] - 1} if changed else {}))
        config = SimpleNamespace(limits=bounds, name="c", stores_to_measure=["s"])
        check_refused(f"limits.{changed}: ", changed or NONE, check.limits, config, [one])
