"""Records that were edited and whose checksums were made again: impossible values are refused."""

import copy
import json

import pytest

from storelab.core import record_values, records

RUN = {
    "schema": 4,
    "point": {"store": "s", "workload": "get", "axes": {}, "rep": 1, "seed": 2**63 - 1, "fixed": {"warm_up_ns": 5}},
    "start_ns": 10,
    "deadline_ns": 20,
    "clients": [
        {"client": 0, "clock_offset_ns": -3, "lateness_ns": -1, "bytes": 7, "cpu_user_s": None, "engine": {"hung": 0}}
    ],
    "host": {"cpu_busy_s": -0.01, "network": {"lo": {"rx_bytes": 1, "tx_bytes": 1}}},
    "store": {"name": "s", "deployment": {"link_bits_per_s": [10**9, None]}},
    "environment": {"packages": {"made_s": "1.0"}},
    "checks": [{"name": "content", "ok": True}],
    "files": {"ops.0.parquet": {"sha256": "", "bytes": 9}},
}
HUGE = 10**30


def test_possible_values_are_accepted():
    assert record_values.problem(RUN) is None
    assert record_values.problem({"point": {}, "files": {}}) is None  # of an older version


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(
            (place, value)
            for place in ("start_ns", "point.fixed.warm_up_ns")
            for value in (-5, HUGE, "x", None, [1], 1.5)
        ),
        *((place, HUGE) for place in ("point.seed", "clients.0.client", "files.ops,0,parquet.bytes")),
        *((place, value) for place in ("host.cpu_busy_s", "host.network.lo.rx_bytes") for value in ("x", True)),
        *(("clients.0", value) for value in (5, [], None)),
        *((place, 5) for place in ("clients", "host", "files", "store", "observed", "checks", "events")),
        *((place, "x") for place in ("environment.cores", "host.ports", "valid", "clients.0.engine.hung")),
        *((place, -1) for place in ("environment.cores", "clients.0.operations", "clients.0.cpu_user_s")),
        *(
            (place, None)
            for place in ("store", "clients", "clients.0.client", "checks.0.ok", "host.network.lo.rx_bytes")
        ),
        ("host.network.lo.rx_packets", "x"),
        ("clients.0.engine.pauses", {"sum_ns": 5}),
        *((place, 7) for place in ("store.kind", "checks.0.name", "environment.packages.made_s", "campaign")),
    ],
)
def test_impossible_value_is_named(place, value):
    run = copy.deepcopy(RUN)
    *above, name = [int(part) if part.isdigit() else part.replace(",", ".") for part in place.split(".")]
    data = run
    for part in above:
        data = data[part]
    data[name] = value
    place += ".longest_ns" if name == "pauses" else ""
    problem = record_values.problem(run)
    assert problem and (f"`{place.replace(',', '.')}` cannot be " in problem or "is later than" in problem)


def test_start_after_deadline_is_refused():
    assert "is later than" in record_values.problem(RUN | {"start_ns": 21})


def test_clients_must_agree_with_point_and_files():
    for change, words in (
        ({"clients": RUN["clients"] * 2}, "contains client 0 twice"),
        ({"clients": [{"client": 1}]}, "client 0 is in only one of"),
        ({"files": RUN["files"] | {"ops.1.parquet": {}}}, "client 1 is in only one of"),
        ({"point": RUN["point"] | {"axes": {"clients": 2}}}, "has 1 clients, but the point has 2"),
        ({"valid": False}, "`budget.reason` cannot be None"),
        ({"point": {"fixed": {"warm_up_ns": 2, "duration_ns": 1}}}, "`point.fixed.warm_up_ns` is longer than"),
        ({"valid": False, "budget": {"reason": ""}}, "`budget.reason` cannot be ''"),
    ):
        assert words in record_values.problem(RUN | change), words
    roles = {"roles": [{"name": "a"}], "point": RUN["point"] | {"axes": {"clients": 2}}}
    assert record_values.problem(RUN | roles) is None


POINT = {"key": "s/get/rep~001", "store": "s", "workload": "get", "axes": {}, "rep": 1, "order": 1}
AXIS = {"name": "engine", "column": "engine", "kind": "text", "label": "Engine"}
WORKLOADS = {"get": {"axes": [AXIS]}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"points": [POINT, POINT]}, "contains the point s/get/rep~001 twice"),
        ({"points": [POINT | {"key": "s/../../x"}]}, "`points.0.key` cannot be 's/../../x'"),
        ({"points": [POINT | {"key": None}]}, "`points.0.key` cannot be None"),
        ({"points": [POINT | {"rep": "1"}]}, "`points.0.rep` cannot be '1'"),
        ({"points": [POINT | {"workload": "put"}]}, "`points.0.workload` cannot be 'put'"),
        ({"points": None}, "`points` cannot be None"),
        ({"workloads": {"get": {}}}, "`workloads.get.axes` cannot be None"),
        ({"workloads": {"get": {"axes": [5]}}}, "`workloads.get.axes.0` cannot be 5"),
        ({"workloads": {"get": {"axes": [AXIS | {"kind": None}]}}}, "`workloads.get.axes.0.kind` cannot be None"),
        ({"points": [POINT | {"axes": {"engine": 1, "new\n": 2}}]}, "contains the axis 'new\\n', which its workload"),
        ({"points": [POINT | {"axes": {"engine": 1}}]}, None),
        ({"workloads": {"get": {"axes": [AXIS | {"kind": "words"}]}}}, "`workloads.get.axes.0.kind` cannot be 'words'"),
        ({"workloads": None}, "`workloads` cannot be None"),
        ({"campaign": []}, "`campaign` cannot be []"),
        ({"stores": None}, "`stores` cannot be None"),
        ({"points": [POINT | {"fixed": {"warm_up_ns": None}}]}, "`points.0.fixed.warm_up_ns` cannot be None"),
    ],
)
def test_impossible_plan_is_named(change, words):
    problem = record_values.problem_of_plan({"points": [POINT], "workloads": WORKLOADS} | change)
    assert problem == words if words is None else words in problem


def test_impossible_failure_is_named():
    failure = {"point": POINT, "time_ns": 5, "reason": "x", "detail": {}}
    assert record_values.problem_of_failure(failure) is None
    for name, value in (
        ("point", 1),
        ("time_ns", "x"),
        ("time_ns", None),
        ("reason", None),
        ("detail", []),
        ("reason", 1),
    ):
        assert f"`{name}` cannot be {value!r}" in record_values.problem_of_failure(failure | {name: value})


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_json_without_a_number_is_damaged(word):
    text = json.dumps(RUN).replace("-0.01", word)
    assert records.damage_of(text.encode()) == "is not JSON: the file is damaged"
