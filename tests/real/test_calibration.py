"""A small campaign with its calibration, from configuration to figures."""

import json

import pandas as pd
import ports
import pytest
from common import laboratory, storelab
from laboratory import needs_loadgen
from snakemake_run import snakemake

pytestmark = [pytest.mark.heavy, pytest.mark.real, needs_loadgen]
SWEEPS = {
    "up": {"workload": "put", "duration": "1 s", "warm_up": "100 ms", "axes": {"object_size": "10 kB", "workers": 2}}
}


@pytest.fixture(scope="module")
def measured():
    stores = {kind: {"kind": kind, "port": ports.block()} for kind in ("seaweedfs", "nullserver")}
    with laboratory(SWEEPS, stores, calibrate=True) as folder:
        checked = storelab(folder, "check").stdout
        assert "store nullserver" in checked and "calibrate" in checked and "points: 5" in checked
        done = snakemake(folder, "--config", "measure=true", "--", "figures")
        assert done.returncode == 0, done.stdout + done.stderr
        yield folder


def test_it_is_measured_before_the_campaign_and_after_it(measured):
    runs = [json.loads(p.read_text()) for p in (measured / "results/bench/raw").rglob("run.json")]
    runs.sort(key=lambda run: run["start_ns"])
    phases = [r["point"]["axes"].get("phase", "between") for r in runs]
    assert phases == ["before"] * 3 + ["between", "after"]
    assert all(c["ok"] for r in runs for c in r["checks"])


def test_points_have_their_ceiling(measured):
    tables = measured / "results/bench/tables"
    ceilings = pd.read_csv(tables / "calibration.csv").set_index("target")
    assert sorted(ceilings.index) == ["memory", "network", "tmpfs"]
    assert ceilings["drift_percent"].notna().to_dict()["network"]
    for name in ("points", "throughput"):
        t = pd.read_csv(tables / f"{name}.csv")
        (row,) = t[t["workload"] == "put"].to_dict("records")
        assert row["ceiling_rate_per_s"] == pytest.approx(ceilings.loc["network", "rate_per_s"])
        assert 1 < row["ceiling_percent"] < 150 and row["ceiling_of"] == "shared cores"
        assert pd.isna(row["bound_by"]) and row["shared_host"]
    assert set(pd.read_csv(tables / "throughput.csv")["store"]) == {"seaweedfs"}


def test_nothing_remains(measured):
    assert "nullserver (nullserver): down" in storelab(measured, "status").stdout
    assert "removed" in storelab(measured, "clean", "--yes", "bench").stdout
    storelab(measured, "down", "--all")
    assert not list((measured / ".storelab/nullserver/data/bodies").glob("*"))
    assert storelab(measured, "check").returncode == 0
