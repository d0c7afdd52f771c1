"""Requests of an operation, counted anew: one tiny point for each engine gives the counts that the golden records hold."""

import golden
import pytest

pytestmark = [pytest.mark.real, pytest.mark.heavy]
SHORT = {"duration": "600 ms", "warm_up": "100 ms", "objects": 4}
TRANSFERS = ("s5cmd", "fsspec", "obstore", "loadgen")
READS = ("uproot-s3fs", "planned")


def test_each_engine_asks_as_often_as_it_did(lab, port_block):
    sweeps = {
        f"get-{engine}": {"workload": "get", **SHORT, "axes": {"engine": engine, "workers": 2}} for engine in TRANSFERS
    }
    sweeps |= {
        f"put-{engine}": {"workload": "put", **SHORT, "axes": {"engine": engine, "workers": 2}} for engine in TRANSFERS
    }
    sweeps["delete"] = {"workload": "delete", **SHORT, "objects": 200, "axes": {"batch": 20, "workers": 1}}
    sweeps |= {
        engine: {
            "workload": "read_volume",
            "duration": "2 s",
            "warm_up": "100 ms",
            "axes": {"engine": engine, "volume_fraction": 1},
        }
        for engine in READS
    }
    sweeps["replay"] = {
        "workload": "replay",
        "duration": "1 s",
        "warm_up": "100 ms",
        "axes": {"volume_fraction": 1, "merge": "gap"},
    }
    known = golden.read_json("requests")
    for point, record, rows in lab({"kind": "seaweedfs", "port": port_block}, **sweeps):
        name = golden.cost_name(record["store"]["kind"], point.workload, point.axes)
        assert record["engine"].get("requests_per_operation", {}) == known[name]["promised"], name
        if point.axes["engine"] == "planned":  # the planner looks at the link of the moment
            continue
        for op, values in golden.counted(rows).items():
            assert set(values) <= set(known[name]["counted"][op]), f"{name}: {op}"
