"""Several workloads at once on a real store: one gang, one record, each role in its own time, every check passed."""

import pytest

pytestmark = pytest.mark.real
S = 10**9
BESIDE = {
    "duration": "5 s",
    "axes": {"buckets": 2},
    "roles": {
        "uploads": {
            "workload": "put",
            "axes": {"engine": "loadgen", "object_size": "10 kB", "clients": 2, "workers": 2},
        },
        "deletions": {"workload": "delete", "axes": {"workers": 4}, "begin": "30 %", "end": "60 %", "objects": 2000},
        "readers": {
            "workload": "get",
            "axes": {"engine": "obstore", "object_size": "100 kB", "workers": 2},
            "objects": 8,
        },
    },
}


def test_uploads_deletions_and_reads_at_once(lab):
    ((_, run, rows),) = lab({"kind": "seaweedfs"}, beside=BESIDE)
    assert [(r["name"], r["workload"], r["clients"]) for r in run["roles"]] == [
        ("uploads", "put", [0, 1]),
        ("deletions", "delete", [2]),
        ("readers", "get", [3]),
    ]
    start = run["start_ns"]
    assert run["deadline_ns"] == start + 5 * S
    assert [((r["begin_ns"] - start) / S, (r["end_ns"] - start) / S) for r in run["roles"]] == [
        (0, 5),
        (1.5, 3),
        (0, 5),
    ]
    assert [c["role"] for c in run["clients"]] == ["uploads", "uploads", "deletions", "readers"]
    assert [r["engine"]["name"] for r in run["roles"]] == ["loadgen", "obstore", "obstore"]
    assert run["valid"] and all(c["ok"] for c in run["checks"])
    names = {c["name"] for c in run["checks"]}
    assert {"uploads: all listed", "uploads: read back", "deletions: gone", "readers: content"} <= names
    ops = {0: {"PUT"}, 1: {"PUT"}, 2: {"DELETE"}, 3: {"GET"}}
    assert {rank: {r["op"] for r in rows if r["client"] == rank} for rank in ops} == ops
    for role in run["roles"]:
        own = [r for r in rows if r["client"] in role["clients"]]
        assert len(own) > 20 and not [r for r in own if r["error"]]
        assert min(r["start_ns"] for r in own) >= role["begin_ns"] > min(r["start_ns"] for r in own) - S // 5
        assert max(r["start_ns"] for r in own) <= role["end_ns"]
    moved = {c["client"]: c["operations"] for c in run["clients"]}
    assert moved == {rank: sum(r["client"] == rank for r in rows) for rank in ops}
