"""Jobs of a sweep in parts: the earlier parts that a client receives, and how long objects stay in the store."""

import dataclasses
from types import SimpleNamespace

import pytest
from made_jobs import client_result, gang_job
from small_plan import WITH_PARTS, configured

from storelab.core import plan, records
from storelab.measure import deployment, jobs, progress
from storelab.workloads import WORKLOADS

NO_LIMITS = {"throughput": None, "requests_per_s": None}
UP = {"workload": "put", "axes": {"clients": 2}}


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Return a function that returns (config, points) of a sweep in three parts, with these workloads."""

    def made(known, **sweeps):
        monkeypatch.setattr(jobs.workloads, "WORKLOADS", known)
        config = configured(results=str(tmp_path), sweeps=sweeps or {"soak": UP | {"parts": 3}})
        return config, plan.make(config, known)

    return made


def recorded(config, point, attempt):
    folder = config.raw / point.key
    folder.mkdir(parents=True)
    records.finish(folder, {"point": dataclasses.asdict(point), "attempt": attempt})


def test_progress_names_the_part_of_how_many(planned, monkeypatch):
    printed = []
    monkeypatch.setattr(progress, "report", printed.append)
    config, points = planned(WORKLOADS, soak=UP | {"parts": 24}, get={"workload": "get"})
    chosen = [next(p for p in points if p.axes.get("part") == number) for number in (1, 7)]
    for one in (*chosen, next(p for p in points if p.workload == "get")):
        progress.announce(progress.place(config, points, one), one)
    assert "rep=001, part 1 of 24: 10 s" in printed[0] and "rep=001, part 7 of 24: 10 s" in printed[1]
    assert "part" not in printed[2]


def test_workload_with_the_axis_gets_earlier_parts(planned, monkeypatch):
    _, points = planned(WORKLOADS)
    assert not any(map(deployment.retains_data, points))
    assert not deployment.retains_data(planned(WITH_PARTS, up=UP)[1][0])
    config, points = planned(WITH_PARTS)
    assert all(map(deployment.retains_data, points))
    assert [deployment.is_last(points, p) for p in points] == [False, False, True]
    monkeypatch.setattr(jobs, "_job_of_clients", lambda config, point, *_: gang_job(point))
    recorded(config, points[0], "0000aaaa")
    recorded(config, points[2], "0000cccc")
    found = [jobs.job_of_point(config, points, point, None, {}, "0000bbbb").to_json()["earlier"] for point in points]
    first = {"part": 1, "attempt": "0000aaaa"}
    assert found == [[], [first], [first]], "part 2 failed; a part that comes later is not an earlier one"


def test_role_gets_its_own_attempts(planned, monkeypatch):
    roles = {"readers": {"workload": "get"}, "writers": UP}
    config, points = planned(WITH_PARTS, soak={"roles": roles, "parts": 3})
    recorded(config, points[0], "0000aaaa")
    monkeypatch.setattr(jobs, "_job_of_clients", lambda config, point, *_: gang_job(point, limits=NO_LIMITS))
    job = jobs.job_of_point(config, points, points[1], None, {}, "0000bbbb").to_json()
    assert job["roles"][1]["earlier"] == [{"part": 1, "attempt": "0000aaaa-1"}]


def test_objects_stay_until_last_part_needs_them(planned, monkeypatch):
    monkeypatch.setattr(deployment.left_over, "add", lambda *given: None)
    monkeypatch.setattr(deployment.left_over, "remove", lambda *given: removed.append(now))
    results = [client_result()] * 2
    store = SimpleNamespace(name="a")
    for known, expected in ((WORKLOADS, [1, 2, 3]), (WITH_PARTS, [3])):
        config, points = planned(known)
        removed = []
        for point in points:
            now = point.axes["part"]
            deployment.clear_uploads(config, points, point, store, gang_job(point), results)
        assert removed == expected
