"""Requests of an operation: a tiny point of each engine needs the promised number, or the number known from earlier."""

import pytest

pytestmark = [pytest.mark.real, pytest.mark.heavy]
SHORT = {"duration": "600 ms", "warm_up": "100 ms", "objects": 4}
COUNTED = ("obstore", "loadgen")
VARIES = "varies, counted"
# Workload, engine, other axes, duration: promised requests of an operation, and those that records count.
POINTS = [
    *(("get", engine, {"workers": 2}, SHORT, {"GET": 1}, {1.0}) for engine in ("fsspec", *COUNTED)),
    *(("put", engine, {"workers": 2}, SHORT, {"PUT": 1}, {1.0}) for engine in ("fsspec", "s5cmd", *COUNTED)),
    ("get", "s5cmd", {"workers": 2}, SHORT, {"GET": 2}, {2.0}),
    ("delete", "obstore", {"batch": 20, "workers": 1}, SHORT | {"objects": 200}, {"DELETE_MULTI": 1}, {0.05}),
    ("read_volume", "uproot-s3fs", {"volume_fraction": 1}, {"duration": "2 s"}, {"READ": VARIES}, {45.0, 48.0}),
    ("read_volume", "planned", {"volume_fraction": 1}, {"duration": "2 s"}, {"READ": VARIES}, None),  # by the link
    ("replay", "obstore", {"volume_fraction": 1, "merge": "gap"}, {"duration": "1 s"}, {"READ": VARIES}, {45.0}),
]


def test_operations_need_the_known_number_of_requests(lab, port_block):
    sweeps, known = {}, {}
    for workload, engine, axes, settings, promised, counted in POINTS:
        name = f"{workload}-{engine}"
        sweeps[name] = {"workload": workload, "warm_up": "100 ms", **settings, "axes": axes | {"engine": engine}}
        known[name] = promised, counted
    wrong = []
    for point, record, rows in lab({"kind": "seaweedfs", "port": port_block}, **sweeps):
        promised, counted = known[point.sweep]
        good = [row for row in rows if row["error"] is None and row["requests"] is not None and row["count"]]
        found = {round(row["requests"] / row["count"], 3) for row in good}
        if record["engine"].get("requests_per_operation", {}) != promised or (counted and not found <= counted):
            wrong.append((point.sweep, record["engine"].get("requests_per_operation"), found))
    assert not wrong
