"""Several workloads at the same time on a real store: one gang, one record, each role in its window."""

import json
import subprocess
import time

import ports
import psutil
import pytest
from common import BIN, environ, laboratory, storelab
from laboratory import gone
from managed import until

pytestmark = pytest.mark.real
S = 10**9
UPLOADS = {"engine": "loadgen", "object_size": "10 kB", "clients": 2, "workers": 2}
READS = {"engine": "obstore", "object_size": "100 kB", "workers": 2}
BESIDE = {
    "duration": "3 s",
    "axes": {"buckets": 2},
    "roles": {
        "uploads": {"workload": "put", "axes": UPLOADS},
        "deletions": {"workload": "delete", "axes": {"workers": 4}, "begin": "30 %", "end": "60 %", "objects": 2000},
        "readers": {"workload": "get", "axes": READS, "objects": 8},
    },
}


def test_roles_share_one_record(lab, external, keys):
    ((_, run, rows),) = lab(external, beside=BESIDE)
    roles = [(r["name"], r["workload"], r["clients"]) for r in run["roles"]]
    assert roles == [("uploads", "put", [0, 1]), ("deletions", "delete", [2]), ("readers", "get", [3])]
    start = run["start_ns"]
    assert run["deadline_ns"] == start + 3 * S
    windows = [((r["begin_ns"] - start) / S, (r["end_ns"] - start) / S) for r in run["roles"]]
    assert windows == [(0, 3), (0.9, 1.8), (0, 3)]
    assert [c["role"] for c in run["clients"]] == ["uploads", "uploads", "deletions", "readers"]
    assert [r["engine"]["name"] for r in run["roles"]] == ["loadgen", "obstore", "obstore"]
    assert run["valid"] and all(c["ok"] for c in run["checks"])
    names = {c["name"] for c in run["checks"]}
    assert {"uploads: all listed", "uploads: read back", "deletions: gone", "readers: content"} <= names
    ops = {0: {"PUT"}, 1: {"PUT"}, 2: {"DELETE"}, 3: {"GET"}}
    assert {rank: {r["op"] for r in rows if r["client"] == rank} for rank in ops} == ops
    for role in run["roles"]:
        own = [r for r in rows if r["client"] in role["clients"]]
        assert own and not [r for r in own if r["error"]]
        assert min(r["start_ns"] for r in own) >= role["begin_ns"]
        assert max(r["start_ns"] for r in own) <= role["end_ns"]
    moved = {c["client"]: c["operations"] for c in run["clients"]}
    assert moved == {rank: sum(r["client"] == rank for r in rows) for rank in ops}


@pytest.mark.heavy
def test_open_loop_role_counts_from_its_begin(lab):
    """Sweep the workers of the aggressor, which has another account. The victim's schedule starts with its window."""
    steady = {"engine": "obstore", "arrival_rate": 50, "clients": 2, "workers": 2}
    swept = {"engine": "loadgen", "object_size": "20 kB", "clients": 2, "workers": [1, 4]}
    victim = {"workload": "get", "axes": steady, "begin": "500 ms", "objects": 6}
    roles = {"victim": victim, "aggressor": {"workload": "put", "axes": swept}}
    sweep = {"duration": "2500 ms", "axes": {"accounts": 2, "buckets": 2}, "roles": roles}
    measured = lab({"kind": "seaweedfs", "port": ports.block()}, beside=sweep)
    assert sorted(p.axes["aggressor.workers"] for p, _, _ in measured) == [1, 4]
    for point, run, rows in measured:
        victim, aggressor = run["roles"]
        assert victim["begin_ns"] - run["start_ns"] == S // 2 and aggressor["begin_ns"] == run["start_ns"]
        for number, rank in enumerate(victim["clients"]):  # two clients take turns, each from when it began
            due = sorted(r["intended_ns"] for r in rows if r["client"] == rank)
            begun = run["clients"][rank]["start_ns"]
            assert due == [begun + (2 * k + number) * S // 50 for k in range(len(due))] and 0 < len(due) <= 50
            assert 0 <= begun - victim["begin_ns"] == run["clients"][rank]["lateness_ns"]
        others = [r for r in rows if r["client"] in aggressor["clients"]]
        assert {r["intended_ns"] for r in others} == {None} and {r["op"] for r in others} == {"PUT"}
        assert {r["worker"] for r in others} <= {*range(point.axes["aggressor.workers"])}
        assert run["valid"] and {r["client"] for r in rows} == {0, 1, 2, 3}, "each reaches its account's buckets"


def children(pid):
    return [p.pid for p in psutil.Process(pid).children(recursive=True) if "gang.client" in " ".join(p.cmdline())]


@pytest.mark.heavy
def test_killed_roles_resume_and_leave_nothing():
    """Kill the measuring process while all roles run.

    Clients end, the next run measures the point, and cleaning finds what the roles of the killed attempt left.
    """
    with laboratory({"beside": BESIDE | {"duration": "5 s"}}) as folder:
        command = [str(BIN / "storelab"), "--set", "scale=2"]
        key = storelab(folder, "--set", "scale=2", "plan").stdout.split()[-1]
        process = subprocess.Popen([*command, "measure", key], cwd=folder, env=environ(), stderr=subprocess.DEVNULL)
        work = folder / "results/bench/work"
        until(lambda: [*work.rglob("go")])
        pids = children(process.pid)
        time.sleep(4)  # uploads and deletions go on: from 3 s to 6 s
        process.kill()
        process.wait()
        assert len(pids) >= 4, "clients and the processes that they forked"
        until(lambda: gone(pids), 10)
        (attempt,) = (p.parent.name for p in work.rglob("job.json"))
        assert storelab(folder, "--set", "scale=2", "measure", key).returncode == 0
        run = json.loads((folder / "results/bench/raw" / key / "run.json").read_text())
        assert run["attempt"] != attempt and all(c["ok"] for c in run["checks"])
        assert not [*work.rglob("job.json")], "the killed attempt's folder is gone"
        output = storelab(folder, "clean", "bench", "--yes").stdout
        done = sum(c["operations"] for c in run["clients"] if c["role"] == "uploads")
        assert "2 buckets" in output and "kept" not in output, output
        assert int(output.split(" objects")[0].split()[-1]) > done + 2 * 8, "objects of both attempts, and staged ones"
