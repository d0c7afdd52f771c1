"""The record of a point from what its clients left: which part of it lands where; and what makes a run count."""

from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from storelab.core import records
from storelab.core.errors import MeasurementFailed
from storelab.core.model import Point
from storelab.measure import record

S = 10**9
POINT = Point("a", "get", {"clients": 2}, 1, "a/get/rep~001", "s", 7, 3, {"duration_ns": 4 * S})
DEPLOYMENT = {"daemons": 3, "backing": "disk"}


def client(number, **changes):
    """What a client left: its own engine's facts beside those that hold for the whole point."""
    shared = {"name": "obstore", "version": "0.8", "settings": {"workers": 2}, "requests_per_operation": {"GET": 1}}
    engine = shared | {"hung": 0, "hung_s": 0.0, "errors": {}, "pauses": {"longest": []}, "mine": number}
    told = {"client": number, "errors": 0, "operations": 100, "bytes": 1000, "cpu_user_s": 1.5, "cpu_system_s": 0.25}
    told |= {
        "t0_ns": 5 * S,
        "begin_ns": 5 * S,
        "deadline_ns": 9 * S,
        "start_ns": 5 * S + number,
        "checks": [1],
        "engine": engine,
    }
    return told | changes


def run_json(*results, budget=0.01):
    config = SimpleNamespace(name="c", failure_budget=budget, launcher=SimpleNamespace(kind="srun"), lead=77)
    store = SimpleNamespace(
        settings=SimpleNamespace(kind="s3"),
        version=lambda: "9.1",
        on_this_host=lambda: False,
        deployment=lambda: DEPLOYMENT,
    )
    return record.run_json(config, POINT, store, "2-x", list(results), [{"name": "n", "ok": True}], {"cores": 4})


def test_each_part_of_the_record():
    run = run_json(client(0), client(1))
    head = {k: run[k] for k in ("campaign", "attempt", "launcher", "lead_ns", "start_ns", "deadline_ns", "valid")}
    assert head == {
        **{"campaign": "c", "attempt": "2-x", "launcher": "srun", "lead_ns": 77},
        **{"start_ns": 5 * S, "deadline_ns": 9 * S, "valid": True},
    }
    assert run["point"]["key"] == POINT.key and run["point"]["axes"] == {"clients": 2} and run["point"]["order"] == 3
    assert run["store"] == {
        "name": "a",
        "kind": "s3",
        "version": "9.1",
        "on_this_host": False,
        "deployment": DEPLOYMENT,
    }
    assert run["engine"] == {
        **{"name": "obstore", "version": "0.8", "settings": {"workers": 2}},
        **{"requests_per_operation": {"GET": 1}},
    }
    assert run["host"] == {"cores": 4, "client_cpu_s": 3.5}, "user and system of both clients"
    assert run["checks"] == [{"name": "n", "ok": True}] and run["events"] == []
    assert run["budget"]["operations"] == 200 and run["environment"]
    for number, one in enumerate(run["clients"]):
        assert set(one) == set(client(0)) - {"checks", "t0_ns", "begin_ns", "deadline_ns"}
        assert one["start_ns"] == 5 * S + number and one["client"] == number
        assert one["engine"] == {"hung": 0, "hung_s": 0.0, "errors": {}, "pauses": {"longest": []}, "mine": number}


def test_a_run_over_the_budget_is_not_valid():
    """3 of 103 failed."""
    bad = client(0, errors=3, operations=100)
    run = run_json(bad, budget=0.03)
    assert run["valid"] and run["budget"]["fraction"] == pytest.approx(3 / 103)
    run = run_json(bad, budget=0.029)
    assert not run["valid"] and run["budget"]["reason"].startswith("2.91 % of the operations failed")


def test_no_run_moves_more_than_the_limit():
    """2 clients moved 1000 B each in 4 s: 500 B/s."""
    results = [client(0), client(1)]
    for limit in (None, 501, 500):
        record.accept({"throughput": limit}, results, [])
    with pytest.raises(MeasurementFailed, match=r"more than limits\.throughput"):
        record.accept({"throughput": 499}, results, [])


def test_a_failed_check_fails_the_point():
    checks = [{"name": f"c{i}", "ok": i in (1, 5), "detail": f"why {i}"} for i in range(6)]
    with pytest.raises(MeasurementFailed) as failed:
        record.accept({"throughput": None}, [client(0)], checks)
    said = [f"check 'c{i}' failed: why {i}" for i in (0, 2, 3)]
    assert str(failed.value) == "; ".join(said), "the first three"
    record.accept({"throughput": None}, [client(0)], [checks[1], checks[5]])


def test_tables_come_before_the_head_and_old_ones_go(tmp_path, monkeypatch):
    work, folder = tmp_path / "work", tmp_path / "raw" / POINT.key
    run = run_json(client(0)) | {"files": {}}
    for where, name, client_of in ((work, "ops.0", 5), (folder, "ops.0", 1), (folder, "ops.7", 1)):
        records.write_table(where / f"{name}.parquet", {"client": "int16"}, {"client": [client_of]})
    (folder / "run.json").write_text("old")
    seen = []
    real = records.finish
    monkeypatch.setattr(records, "finish", lambda *a: seen.append((folder / "run.json").exists()) or real(*a))
    monkeypatch.setattr(records, "earlier", lambda place, point, why: [place.name, point["key"]])
    record.put_in_place(run, work, folder)
    assert seen == [True], "the old record stays until the new head takes its place"
    told = records.read_json(folder / "run.json")
    assert told["campaign"] == "c" and told["earlier"] == [folder.name, POINT.key]
    assert sorted(p.name for p in folder.glob("*.parquet")) == ["ops.0.work.parquet"] == list(told["files"])
    assert not list(work.glob("*.parquet"))
    assert pq.read_table(folder / "ops.0.work.parquet")["client"].to_pylist() == [5]
