"""Sweeps in parts: the axis `part`, the order of the plan, what is said of a part, what is kept for the next one; pure."""

import dataclasses
import itertools
import json
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from storelab.core import axes, plan, records
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.plan import series
from storelab.measure import jobs
from storelab.measure import point as measuring
from storelab.measure.progress import lines
from storelab.workloads import WORKLOADS

SWEEP = {"workload": "put", "axes": {"clients": [1, 2, 3]}, "parts": 12}
UP = {"workload": "put", "axes": {"clients": 2}}


def configured(**more):
    told = {
        "campaign": "c",
        "name": "c",
        "stores": {"a": {"kind": "seaweedfs"}, "b": {"kind": "seaweedfs"}},
        "use_stores": ["a"],
        "repetitions": 1,
        "calibrate": False,
        "sweeps": {"soak": SWEEP},
    }
    return Config.model_validate(told | more)


def made(known=WORKLOADS, **more):
    return plan.make(configured(**more), known)


def whole(point):
    return (point.store, point.rep, tuple(v for name, v in point.axes.items() if name != "part"))


def test_each_part_is_a_point_with_a_folder_and_a_seed_of_its_own():
    points = made(sweeps={"soak": SWEEP | {"parts": 3, "axes": {}}})
    assert [p.key for p in points] == [f"a/put/part~{n:04d}_rep~001" for n in (1, 2, 3)]
    assert [p.axes["part"] for p in points] == [1, 2, 3] and len({p.seed for p in points}) == 3
    assert points[0].clients == 1 and all(p.parts()[0].point is p for p in points), "parts are no roles"


def test_parts_stay_together_and_ascend_whatever_the_seed():
    firsts = set()
    for seed in range(20):
        points = made(use_stores=["a", "b"], repetitions=2, seed=seed)
        assert [p.order for p in points] == [*range(1, 1 + 2 * 2 * 3 * 12)]
        runs = [[*run] for _, run in itertools.groupby(points, whole)]
        assert len(runs) == 12 and all([p.axes["part"] for p in run] == [*range(1, 13)] for run in runs)
        firsts.add(points[0].axes["clients"])
    assert firsts == {1, 2, 3}, "the series themselves are shuffled"


def test_a_series_among_other_points_and_more_than_nine_parts():
    points = made(sweeps={"soak": SWEEP, "other": {"workload": "get", "axes": {"clients": [1, 2, 3, 4, 5]}}})
    runs = [[*run] for _, run in itertools.groupby(points, whole)]
    assert sorted(map(len, runs)) == [1] * 5 + [12] * 3
    assert all(series.of(points, p) == run for run in runs for p in run)


def test_points_without_parts_keep_their_names_seeds_and_order():
    sweeps = {"up": {"workload": "put", "axes": {"clients": [1, 2, 3], "workers": [1, 2]}}}
    plain, beside = made(sweeps=sweeps), made(sweeps=sweeps | {"soak": SWEEP | {"axes": {"clients": 7}}})
    alone = [p for p in beside if p.sweep == "up"]
    assert {(p.key, p.seed) for p in plain} == {(p.key, p.seed) for p in alone}
    assert {p.axes["part"] for p in alone} == {0} and "part" not in plain[0].axes
    assert [series.part(p) for p in plain] == [0] * 6 and series.of(plain, plain[3]) == [plain[3]]


def test_further_parts_leave_those_that_are_there():
    few, more = made(sweeps={"soak": UP | {"parts": 3}}), made(sweeps={"soak": UP | {"parts": 5}})
    assert [(p.key, p.fixed) for p in more[:3]] == [(p.key, p.fixed) for p in few]


def test_scale_changes_no_number_of_parts():
    points = made(scale=0.1)
    assert len(points) == 36 and {p.fixed["duration_ns"] for p in points} == {10**9}


def test_parts_of_a_sweep_with_roles_are_those_of_the_whole_point():
    roles = {"writers": UP, "readers": {"workload": "get", "axes": {"clients": [1, 2]}}}
    points = made(sweeps={"soak": {"roles": roles, "parts": 2}, "up": UP, "beside": {"roles": roles}})
    names = [p.key.partition("/")[2] for p in points if p.sweep == "soak"]
    assert sorted(names) == sorted(
        f"roles-soak/part~000{n}_writers.clients~0002{readers}_rep~001"
        for n in (1, 2)
        for readers in ("", "_readers.clients~0002")
    )
    assert names[0].replace("part~0001", "part~0002") == names[1]
    assert all("part" not in part.point.axes for p in points for part in p.parts()), "no role has it"
    assert all("part" not in p.axes for p in points if p.sweep != "soak")


def asking():
    """The workloads, of which `put` has the axis among its own."""
    own = dataclasses.replace(WORKLOADS["put"], axes=(*WORKLOADS["put"].axes, axes.PART))
    return {**WORKLOADS, "put": own}


def test_a_workload_that_asks_for_its_part_is_told_it_in_a_role_too():
    known = asking()
    roles = {"writers": UP, "readers": {"workload": "get"}}
    points = made(known, sweeps={"soak": {"roles": roles, "parts": 2}, "once": {"roles": roles}, "up": UP})
    told = {(p.sweep, p.axes["part"]): [part.point.axes.get("part") for part in p.parts()] for p in points}
    assert told == {("soak", 1): [1, None], ("soak", 2): [2, None], ("once", 0): [0, None], ("up", 0): [0]}


def test_the_plan_file_tells_the_axis_where_there_are_parts_alone():
    def told(**sweeps):
        config = configured(sweeps=sweeps)
        workloads = plan.to_json(config, plan.make(config, WORKLOADS), WORKLOADS)["workloads"]
        return {name: [a["name"] for a in w["axes"]].count("part") for name, w in workloads.items()}

    assert told(soak=SWEEP, get={"workload": "get"}) == {"put": 1, "get": 0}
    assert told(up=UP) == {"put": 0}
    roles = {"writers": UP}
    assert told(soak={"roles": roles, "parts": 2}, beside={"roles": roles}) == {"roles-soak": 1, "roles-beside": 0}


@pytest.mark.parametrize(
    ("sweep", "line"),
    [
        ({"axes": {"part": [1, 2]}}, r"sweeps\.soak\.axes\.part: parts are numbered by themselves; write sweeps\.soak\.parts"),
        ({"axes": {"part": 1}, "parts": None}, r"sweeps\.soak\.axes\.part: parts are numbered by themselves"),
        ({"workload": "", "roles": {"r": {"workload": "put", "axes": {"part": 1}}}, "axes": {}}, r"sweeps\.soak\.roles\.r\.axes\.part: part is of the whole point"),
        ({"repetitions": 3000, "parts": 40}, "the plan has .* points or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(sweep, line):
    with pytest.raises(UserError, match=line):
        made(sweeps={"soak": SWEEP | sweep})


@pytest.mark.parametrize("parts", [0, -1, 1001, True, "all"])
def test_a_wrong_number_of_parts_is_refused(parts):
    with pytest.raises(ValidationError, match="parts"):
        configured(sweeps={"soak": SWEEP | {"parts": parts}})


def test_progress_says_which_part_of_how_many(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(lines.stage, "report", said.append)
    config = configured(results=str(tmp_path), sweeps={"soak": UP | {"parts": 24}, "get": {"workload": "get"}})
    points = plan.make(config, WORKLOADS)
    chosen = [next(p for p in points if p.axes.get("part") == number) for number in (1, 7)]
    for one in (*chosen, next(p for p in points if p.workload == "get")):
        lines.announce(lines.place(config, points, one), one)
    assert "rep=001, part 1 of 24: 10 s" in said[0] and "rep=001, part 7 of 24: 10 s" in said[1]
    assert "part" not in said[2]


def in_parts(tmp_path, monkeypatch, known, **sweep):
    monkeypatch.setattr(jobs.workloads, "WORKLOADS", known)
    config = configured(results=str(tmp_path), sweeps={"soak": UP | {"parts": 3} | sweep})
    return config, plan.make(config, known)


def test_only_who_asks_finds_what_earlier_parts_left(tmp_path, monkeypatch):
    _, points = in_parts(tmp_path, monkeypatch, WORKLOADS)
    assert not any(map(jobs.keeps, points))
    config, points = in_parts(tmp_path, monkeypatch, asking())
    assert all(map(jobs.keeps, points)) and not jobs.keeps(plan.make(configured(sweeps={"up": UP}), asking())[0])
    assert [jobs.is_last(points, p) for p in points] == [False, False, True]
    _record(config, points[0], "0000aaaa")
    _record(config, points[2], "0000cccc")
    told = []
    for point in points:
        job = {}
        jobs.tell_earlier(config, points, point, job)
        told.append(job["earlier"])
    first = {"part": 1, "attempt": "0000aaaa"}
    assert told == [[], [first], [first]], "part 2 failed; a part that comes later is no earlier one"


def _record(config, point, attempt):
    folder = config.raw / point.key
    folder.mkdir(parents=True)
    records.finish(folder, {"point": dataclasses.asdict(point), "attempt": attempt})


def test_a_role_is_told_its_own_attempts(tmp_path, monkeypatch):
    roles = {"readers": {"workload": "get"}, "writers": UP}
    config, points = in_parts(tmp_path, monkeypatch, asking(), workload="", axes={}, roles=roles)
    _record(config, points[0], "0000aaaa")
    job = {"roles": [{}, {}]}
    jobs.tell_earlier(config, points, points[1], job)
    assert json.loads(json.dumps(job["roles"][1])) == {"earlier": [{"part": 1, "attempt": "0000aaaa-1"}]}


@pytest.mark.parametrize(("known", "removed"), [(WORKLOADS, [1, 2, 3]), (asking(), [3])])
def test_what_is_left_stays_until_the_last_part_for_who_asks(tmp_path, monkeypatch, known, removed):
    config, points = in_parts(tmp_path, monkeypatch, known)
    gone = []
    monkeypatch.setattr(measuring.left_over, "add", lambda *told: None)
    monkeypatch.setattr(measuring.left_over, "remove", lambda *told: gone.append(now))
    outcome = SimpleNamespace(watch=SimpleNamespace(columns=dict), results=[{"bytes": 1, "operations": 1}] * 2)
    for point in points:
        now = point.axes["part"]
        parts = [(part, {}) for part in point.parts()]
        attempt = SimpleNamespace(
            config=config, store=SimpleNamespace(name="a"), point=point, writing=parts, filled=None
        )
        measuring._gather(attempt, outcome, points)
    assert gone == removed
