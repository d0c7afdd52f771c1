"""Sweeps in parts: the axis `part`, and the order of the parts in the plan."""

import itertools
from functools import partial

from refusals import all_refused
from small_plan import WITH_PARTS, configured, planned

from storelab.core import plan
from storelab.core.plan import sweeps as series
from storelab.workloads import WORKLOADS

SWEEP = {"workload": "put", "axes": {"clients": [1, 2, 3]}, "parts": 12}
UP = {"workload": "put", "axes": {"clients": 2}}
ROLES = {"writers": UP, "readers": {"workload": "get"}}
made = partial(planned, stores={name: {"kind": "seaweedfs"} for name in "ab"}, sweeps={"soak": SWEEP})


def without_part(point):
    return (point.store, point.rep, tuple(v for name, v in point.axes.items() if name != "part"))


def runs_of(points):
    """Return the points in their order, grouped by all but their part."""
    return [[*run] for _, run in itertools.groupby(points, without_part)]


def test_each_part_has_its_own_folder_and_seed():
    points = made(sweeps={"soak": SWEEP | {"parts": 3, "axes": {}}})
    assert [p.key for p in points] == [f"a/put/part~{n:04d}_rep~001" for n in (1, 2, 3)]
    assert [p.axes["part"] for p in points] == [1, 2, 3] and len({p.seed for p in points}) == 3
    assert points[0].clients == 1 and all(p.parts()[0].point is p for p in points), "parts are not roles"


def test_parts_stay_together_and_ascend():
    firsts = set()
    for seed in range(20):
        points = made(stores_to_measure=["a", "b"], repetitions=2, seed=seed)
        assert [p.order for p in points] == [*range(1, 1 + 2 * 2 * 3 * 12)]
        runs = runs_of(points)
        assert len(runs) == 12 and all([p.axes["part"] for p in run] == [*range(1, 13)] for run in runs)
        firsts.add(points[0].axes["clients"])
    assert firsts == {1, 2, 3}, "the series themselves are shuffled"


def test_series_among_other_points_stays_whole():
    points = made(sweeps={"soak": SWEEP, "other": {"workload": "get", "axes": {"clients": [1, 2, 3, 4, 5]}}})
    runs = runs_of(points)
    assert sorted(map(len, runs)) == [1] * 5 + [12] * 3
    assert all(series.series_of(points, p) == run for run in runs for p in run)


def test_points_without_parts_stay_as_they_are():
    sweeps = {"up": {"workload": "put", "axes": {"clients": [1, 2, 3], "workers": [1, 2]}}}
    plain, with_soak = made(sweeps=sweeps), made(sweeps=sweeps | {"soak": SWEEP | {"axes": {"clients": 7}}})
    alone = [p for p in with_soak if p.sweep == "up"]
    assert {(p.key, p.seed) for p in plain} == {(p.key, p.seed) for p in alone}
    assert {p.axes["part"] for p in alone} == {0} and "part" not in plain[0].axes
    assert [series.part(p) for p in plain] == [0] * 6 and series.series_of(plain, plain[3]) == [plain[3]]


def test_further_parts_keep_earlier_ones():
    few, more = made(sweeps={"soak": UP | {"parts": 3}}), made(sweeps={"soak": UP | {"parts": 5}})
    assert [(p.key, p.fixed) for p in more[:3]] == [(p.key, p.fixed) for p in few]


def test_scale_changes_no_number_of_parts():
    points = made(scale=0.1)
    assert len(points) == 36 and {p.fixed["duration_ns"] for p in points} == {10**9}


def test_parts_belong_to_whole_point_of_roles():
    roles = {"writers": UP, "readers": {"workload": "get", "axes": {"clients": [1, 2]}}}
    points = made(sweeps={"soak": {"roles": roles, "parts": 2}, "up": UP, "beside": {"roles": roles}})
    names = [p.key.partition("/")[2] for p in points if p.sweep == "soak"]
    assert sorted(names) == sorted(
        f"roles-soak/part~000{n}_writers.clients~0002{readers}_rep~001"
        for n in (1, 2)
        for readers in ("", "_readers.clients~0002")
    )
    assert names[0].replace("part~0001", "part~0002") == names[1]
    assert all("part" not in part.point.axes for p in points for part in p.parts()), "no role has the axis"
    assert all("part" not in p.axes for p in points if p.sweep != "soak")


def test_workload_with_the_axis_gets_its_part():
    sweeps = {"soak": {"roles": ROLES, "parts": 2}, "once": {"roles": ROLES}, "up": UP}
    points = made(WITH_PARTS, sweeps=sweeps)
    found = {(p.sweep, p.axes["part"]): [part.point.axes.get("part") for part in p.parts()] for p in points}
    assert found == {("soak", 1): [1, None], ("soak", 2): [2, None], ("once", 0): [0, None], ("up", 0): [0]}


def test_plan_file_has_the_axis_only_with_parts():
    def counted(**sweeps):
        config = configured(sweeps=sweeps)
        workloads = plan.to_json(config, plan.make(config, WORKLOADS), WORKLOADS)["workloads"]
        return {name: [a["name"] for a in w["axes"]].count("part") for name, w in workloads.items()}

    assert counted(soak=SWEEP, get={"workload": "get"}) == {"put": 1, "get": 0}
    assert counted(up=UP) == {"put": 0}
    roles = {"writers": UP}
    assert counted(soak={"roles": roles, "parts": 2}, other={"roles": roles}) == {"roles-soak": 1, "roles-other": 0}


def test_mistakes_in_parts_are_refused():
    role = {"workload": "put", "axes": {"part": 1}}
    mistakes = [
        ({"axes": {"part": [1, 2]}}, "sweeps.soak.axes.part: "),
        ({"axes": {"part": 1}, "parts": None}, "sweeps.soak.axes.part: "),
        ({"workload": "", "roles": {"r": role}, "axes": {}}, "sweeps.soak.roles.r.axes.part: "),
        ({"repetitions": 3000, "parts": 40}, "the plan has at least"),
        *(({"parts": parts}, "parts") for parts in (0, -1, 1001, True, "all")),
    ]
    all_refused(("", text, partial(made, sweeps={"soak": SWEEP | sweep})) for sweep, text in mistakes)
