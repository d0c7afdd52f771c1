"""The record of a point: where each part of the clients' results is stored, and which runs are valid."""

from dataclasses import replace
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from made_jobs import client_result, gang_job

from storelab.core import records
from storelab.core.errors import MeasurementFailed, NoOperationEnded
from storelab.core.model import Point
from storelab.core.records import Budget
from storelab.engines.contract import Check
from storelab.host import environment
from storelab.measure import record
from storelab.stores.protocols.endpoint import Endpoint

S = 10**9
POINT = Point("a", "get", {"clients": 2}, 1, "a/get/rep~001", "s", 7, 3, {"duration_ns": 4 * S})
DEPLOYMENT = {"daemons": 3, "backing": "disk"}


def client(number, **changes):
    """Return the result of one client: facts of its engine next to facts of the whole point."""
    shared = {"name": "obstore", "version": "0.8", "settings": {"workers": 2}, "requests_per_operation": {"GET": 1}}
    engine = shared | {"hung": 0, "hung_s": 0.0, "errors": {}, "pauses": {"longest": []}, "mine": number}
    counts = {"errors": 0, "operations": 100, "bytes": 1000}
    times = {"t0_ns": 5 * S, "begin_ns": 5 * S, "deadline_ns": 9 * S, "start_ns": 5 * S + number}
    used = {"cpu_user_s": 1.5, "cpu_system_s": 0.25, "checks": [Check("c", True)], "engine": engine}
    return client_result(number, **counts | times | used | changes)


def of_point(*results, budget=0.01):
    config = SimpleNamespace(name="c", failure_budget=budget, launcher=SimpleNamespace(kind="srun"), start_delay=77)
    store = SimpleNamespace(version=lambda: "9.1", on_this_host=lambda: False, deployment=lambda: DEPLOYMENT)
    store.settings = SimpleNamespace(kind="s3")
    return record.record_of_point(config, POINT, store, "2-x", list(results), [Check("n", True)], {"cores": 4})


def test_record_holds_each_part_at_its_place():
    run = of_point(client(0), client(1)).to_json()
    head = {"campaign": "c", "attempt": "2-x", "launcher": "srun", "lead_ns": 77, "valid": True}
    head |= {"start_ns": 5 * S, "deadline_ns": 9 * S}
    assert {k: run[k] for k in head} == head
    assert run["point"]["key"] == POINT.key and run["point"]["axes"] == {"clients": 2} and run["point"]["order"] == 3
    store = {"name": "a", "kind": "s3", "version": "9.1", "on_this_host": False, "deployment": DEPLOYMENT}
    assert run["store"] == store
    engine = {"name": "obstore", "version": "0.8", "settings": {"workers": 2}, "requests_per_operation": {"GET": 1}}
    assert run["engine"] == engine
    assert run["host"] == {"cores": 4, "client_cpu_s": 3.5}, "user and system of both clients"
    assert run["checks"] == [{"name": "n", "ok": True, "detail": ""}] and run["events"] == []
    assert run["budget"]["operations"] == 200 and run["environment"]
    for number, one in enumerate(run["clients"]):
        assert set(one) == set(client(0).to_json()) - {"checks", "t0_ns", "begin_ns", "deadline_ns"}
        assert one["start_ns"] == 5 * S + number and one["client"] == number
        assert one["engine"] == {"hung": 0, "hung_s": 0.0, "errors": {}, "pauses": {"longest": []}, "mine": number}


def test_record_keeps_changes_of_the_code_once(tmp_path, monkeypatch):
    changed = environment.Checkout("0a1b-dirty", "--- a/src\n", "5" * 64)
    monkeypatch.setattr(environment, "checkout", lambda: changed)
    assert of_point(client(0)).environment["git_changes"] == {"sha256": "5" * 64}
    record.keep_changes(tmp_path)
    (kept,) = (tmp_path / "changes").iterdir()
    assert kept == records.changes_file(tmp_path, "5" * 64) and kept.read_text() == "--- a/src\n"
    kept.write_text("kept")
    record.keep_changes(tmp_path)
    assert kept.read_text() == "kept"
    monkeypatch.setattr(environment, "checkout", lambda: environment.Checkout("0a1b"))
    record.keep_changes(tmp_path / "clean")
    assert not (tmp_path / "clean").exists()


def test_run_above_throughput_limit_is_refused():
    """2 clients moved 1000 B each in 4 s: 500 B/s."""
    results = [client(0), client(1)]
    for limit in (None, 501, 500):
        record.accept({"throughput": limit}, results, [])
    with pytest.raises(MeasurementFailed, match=r"limits\.throughput"):
        record.accept({"throughput": 499}, results, [])


def test_longer_window_can_help_if_one_client_ended_nothing():
    failed = [Check("reads", False, "0 completed")]
    for operations, errors, expected in (
        (0, 0, NoOperationEnded),
        (3, 0, MeasurementFailed),
        (0, 2, MeasurementFailed),
    ):
        results = [client(0), replace(client(1), operations=operations, errors=errors)]
        with pytest.raises(MeasurementFailed) as raised:
            record.accept({"throughput": None}, results, failed)
        assert raised.type is expected, (operations, errors)


def test_failed_check_fails_the_point():
    checks = [Check(f"c{i}", i in (1, 5), f"why {i}") for i in range(6)]
    with pytest.raises(MeasurementFailed) as failed:
        record.accept({"throughput": None}, [client(0)], checks)
    named = [i for i in range(6) if f"'c{i}'" in str(failed.value) and f"why {i}" in str(failed.value)]
    assert named == [0, 2, 3], "the first three"
    record.accept({"throughput": None}, [client(0)], [checks[1], checks[5]])
    with pytest.raises(MeasurementFailed) as failed:
        record.accept({"throughput": None}, [client(i) for i in range(8)], [checks[0], *[checks[2]] * 7])
    assert str(failed.value) == "check 'c0' failed: why 0; check 'c2' failed: why 2 (in 7 of 8 clients)"


def test_new_tables_replace_old_ones_before_the_head(tmp_path, monkeypatch):
    work, folder = tmp_path / "work", tmp_path / "raw" / POINT.key
    run = of_point(client(0))

    def written(*names, number):
        for name in names:
            records.write_table(work / f"{name}.parquet", {"client": "int16"}, {"client": [number]})

    written("ops.0", "ops.7", number=1)
    record.put_in_place(replace(run, start_ns=1), work, folder)
    assert sorted(p.name for p in folder.glob("*.parquet")) == ["ops.0.parquet", "ops.7.parquet"]
    seen, finish = [], records.finish
    monkeypatch.setattr(records, "finish", lambda *a: seen.append((folder / "run.json").exists()) or finish(*a))
    written("ops.0", number=5)
    record.put_in_place(replace(run, start_ns=2), work, folder)
    assert seen == [True], "the old record stays until the new head replaces it"
    found = records.read_json(folder / "run.json")
    (table,) = folder.glob("*.parquet")
    assert table.name == "ops.0.work.parquet" and list(found["files"]) == [table.name] and not list(work.iterdir())
    assert found["files"][table.name]["bytes"] == table.stat().st_size
    assert pq.read_table(table)["client"].to_pylist() == [5]
    assert found["campaign"] == "c" and [(t["time_ns"], t["outcome"]) for t in found["earlier"]] == [(1, "measured")]


def budget(results, share=0.01):
    return record.budget(SimpleNamespace(failure_budget=share), results)


def test_run_above_failure_budget_is_invalid():
    for errors, operations, valid in ((0, 0, True), (1, 99, True), (2, 98, False), (50, 50, False)):
        engine = {"errors": {"SlowDown": {"count": errors, "message": "slow\n  down"}}}
        first = client_result(errors=errors, operations=operations, engine=engine)
        found = budget([first, client_result(1)])
        assert found.errors == errors and found.operations == operations
        assert found.reason is None if valid else f"{errors} %" in found.reason, errors
    assert found.reason.endswith("slow down"), "the server's words, on one line"
    engine["errors"]["SlowDown"]["message"] = "put " + 50 * "a long way " + ": broken pipe"
    found = budget([first]).reason
    assert ": put a long way" in found and found.endswith(": broken pipe") and len(found) < 300
    bad = client(0, errors=3, operations=100)
    assert of_point(bad, budget=0.03).valid and not of_point(bad, budget=0.029).valid
    assert of_point(bad).budget.fraction == pytest.approx(3 / 103)


def hung(workers: int, seconds: list[float], operations: int = 10_000, clients: int = 1) -> Budget:
    """Return the budget of a run of 10 s in which operations of the first client hang for these times."""
    ends = {"t0_ns": 5 * S, "begin_ns": 5 * S, "deadline_ns": 15 * S}
    results = []
    for held in [seconds, *[[]] * (clients - 1)]:
        engine = {"hung": len(held), "hung_s": sum(held), "settings": {"workers": workers}, "errors": {}}
        results.append(client_result(errors=len(held), operations=operations, engine=engine, **ends))
    return budget(results)


def test_expired_objects_have_a_hint():
    """It is checked only if staged objects are read."""
    for kind, words, staged, hint in (
        ("NoSuchKey", "NoSuchKey: status code: 404", True, True),
        ("FileNotFoundError", "The specified key does not exist (404)", True, True),
        ("Http404", "HTTP status 404", True, True),
        ("NoSuchKey", "NoSuchKey: status code: 404", False, False),
        ("SlowDown", "HTTP status 503 SlowDown", True, False),
    ):
        failed = client(0, operations=1, errors=99)
        failed.engine["errors"] = {kind: words}
        reason = record.budget(SimpleNamespace(failure_budget=0.01), [failed], staged).reason
        assert words in reason and ("run `storelab stage --again`" in reason) == hint, kind
        with pytest.raises(MeasurementFailed) as refused:
            record.accept({"throughput": None}, [failed], [Check("n", False, "no")], staged)
        assert ("run `storelab stage --again`" in str(refused.value)) == hint
    assert record.reads_staged(replace(POINT, dataset={"name": "d"})) and not record.reads_staged(POINT)


def test_hung_workers_make_a_run_invalid():
    """7 of 10 007 operations are within the budget; 63 of 80 seconds of the workers are not."""
    found = hung(8, [9.0] * 7)
    assert found.fraction < 0.01 and found.hung == 7 and found.hung_fraction == pytest.approx(63 / 80)
    assert found.reason.startswith("7 operations hung") and "78.8 %" in found.reason
    assert hung(8, [0.5]).reason is None and hung(8, [0.5]).hung_fraction == pytest.approx(0.5 / 80)
    assert hung(8, [0.9]).reason and not hung(8, [0.9], clients=2).reason, "the time of all clients' workers"
    assert hung(100, [0.1] * 3, operations=97).reason.startswith("3 %"), "they are failed operations too"


def test_engine_without_hang_counter_has_no_number():
    results = [client_result(operations=5, engine={"hung": None, "cut_off": 3})] * 2
    assert budget(results).hung is None


def test_links_of_front_ends_are_declared_or_seen(monkeypatch):
    """100 MB/s each; without a declaration, both front-ends must be known to this host."""
    speeds = {"a": 10**9, "b": 2 * 10**9, "::1": 5}
    monkeypatch.setattr(record.environment, "link_speeds_of", lambda hosts: [speeds.get(h) for h in hosts])
    cases = [
        (10**8, ["http://x", "http://y"], [800_000_000] * 2),
        (None, ["http://a:80", "https://b/f"], [10**9, 2 * 10**9]),
        (None, ["http://[::1]:80"], [5]),
        (None, ["http://a", "http://x"], None),
        (None, [""], None),
    ]
    for link, urls, expected in cases:
        store = SimpleNamespace(settings=SimpleNamespace(link=link))
        one, whole = (gang_job(endpoints=[Endpoint(url) for url in some]) for some in (urls[:1], urls))
        assert record.front_end_links(store, whole) == expected, (link, urls)
        roles = replace(one, roles=[whole, one])
        assert record.front_end_links(store, roles) == expected, "the front-ends of the role that has most"
    own = gang_job(endpoints=[Endpoint("http://a")])
    assert record.front_end_links(SimpleNamespace(settings=None), own) == [10**9]
