"""The table of `consistency`: exact bounds, and anomalies by scenario, from records written here."""

import math

import pandas as pd
import pytest
from make_examples import T0, S, run_json
from scipy.stats import binom

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import build, guarantees
from storelab.core import integrity, plan, records
from storelab.stores import config
from storelab.workloads import WORKLOADS
from storelab.workloads.consistency import seen


def test_bound_of_no_anomaly():
    for tried, bound in ((1, 0.95), (10, 0.2589), (100, 0.029513), (3000, 0.00099807)):
        found = guarantees.upper_bound(0, tried)
        assert found == pytest.approx(bound, rel=1e-3) == pytest.approx(1 - 0.05 ** (1 / tried), rel=1e-3)
        assert found <= 3 / tried, "the rule of three is on the safe side"


def test_bound_is_exact():
    """At the bound, at most this number of anomalies has a probability of 5 %."""
    for k, n in ((1, 10), (3, 1000), (999, 1000), (1, 2)):
        assert binom.cdf(k, n, guarantees.upper_bound(k, n)) == pytest.approx(0.05, rel=1e-6), (k, n)


def test_edges_of_the_bound():
    assert guarantees.upper_bound(7, 7) == 1.0 and math.isnan(guarantees.upper_bound(0, 0))
    for k, n in ((1, 0), (-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="anomalies of"):
            guarantees.upper_bound(k, n)


def test_table_and_workload_have_the_same_scenarios():
    assert tuple(guarantees.SCENARIOS) == seen.OBJECTS + seen.ONCE


SETTINGS = {
    **{"campaign": "x", "name": "x", "stores": {"alpha": {"kind": "seaweedfs"}}, "use_stores": ["alpha"]},
    **{"repetitions": 2, "calibrate": False},
    "sweeps": {
        "c": {"workload": "consistency", "duration": "4 s", "axes": {"clients": 2, "front_ends": 2}},
        "p": {"workload": "put", "duration": "4 s"},
    },
}
OPS = {"op": "PUT", "count": 1, "bytes": 4000, "end_ns": T0 + 2 * S, "status": 200}


def scenarios_of(client, wrong):
    """Return the columns of scenarios and of anomalies of a client with `wrong` anomalies."""
    names = ("scenario", "same_front_end", "tried", "anomalies", "errors")
    rows = [("overwrite", True, 0, 0, 3), ("read_after_write", True, 1000, 0, 0)]
    columns = zip(*rows, ("read_after_write", False, 500, wrong, 0), strict=True)
    scenarios = {"client": [client] * 3} | {name: [*cells] for name, cells in zip(names, columns, strict=True)}
    same = {"client": client, "scenario": "read_after_write", "key": "k", "same_front_end": False, "start_ns": T0}
    anomalies = {name: [value] * wrong for name, value in same.items()}
    anomalies["lasted_ns"] = [250_000_000, None][:wrong]
    anomalies["watched_ns"] = [250_000_000, 5 * S][:wrong]
    anomalies["evidence"] = ["put: is not there", "again"][:wrong]
    return scenarios, anomalies


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Two runs of two clients on two front-ends, with 1000 + 500 tries each.

    There are two anomalies in the first run; the store was never right about one of them.
    """
    folder = tmp_path_factory.mktemp("consistency")
    settings = config.Config.model_validate(SETTINGS | {"results": str(folder)})
    points, raw = plan.make(settings, WORKLOADS), folder / "raw"
    for point in points:
        at = raw / point.key
        for client in range(point.axes["clients"]):
            ops = {name: [value] for name, value in {"client": client, **OPS}.items()}
            records.write_table(at / f"ops.{client}.parquet", records.OPS, ops)
            if point.workload == "consistency":
                scenarios, anomalies = scenarios_of(client, 2 if client == 0 and point.rep == 1 else 0)
                records.write_table(at / f"scenarios.{client}.parquet", records.SCENARIOS, scenarios)
                records.write_table(at / f"anomalies.{client}.parquet", records.ANOMALIES, anomalies)
        records.finish(at, run_json(point, T0, "http://127.0.0.1:1"))
    records.write_json(raw / "plan.json", plan.to_json(settings, points, WORKLOADS))
    integrity.write_sums(raw)
    build.build(folder, ["consistency"])
    return folder


def test_anomalies_are_counted_by_scenario_and_front_end(campaign):
    t = build.read(campaign, "consistency")
    assert list(t["scenario"]) == ["read_after_write", "read_after_write", "overwrite"], "in the order of SCENARIOS"
    same, other, untried = (row.to_dict() for _, row in t.iterrows())
    facts = {"store": "alpha", "clients": 2, "front_ends": 2, "redundancy": "default", "front_end": "same", "runs": 2}
    assert (facts | {"tried": 4000, "anomalies": 0, "fraction": 0, "never_right": 0}).items() <= same.items()
    assert same["fraction_upper95"] == pytest.approx(1 - 0.05 ** (1 / 4000))
    assert pd.isna(same["lasted_max_s"]) and pd.isna(same["example"])
    counts = {"front_end": "other", "tried": 2000, "anomalies": 2, "never_right": 1, "fraction": 0.001}
    times = {"lasted_max_s": 0.25, "lasted_median_s": 0.25, "watched_max_s": 5, "example": "put: is not there"}
    assert (counts | times).items() <= other.items()
    assert other["fraction_upper95"] == pytest.approx(guarantees.upper_bound(2, 2000))
    assert (untried["tried"], untried["errors"]) == (0, 12)
    assert pd.isna(untried["fraction"]) and pd.isna(untried["fraction_upper95"])


def test_table_without_points_has_a_header(tmp_path):
    empty = Campaign(tmp_path, {"workloads": {}, "points": []}, {}, {})
    t = guarantees.consistency(empty, {})
    assert len(t) == 0 and list(t.columns) == ["store", "scenario", "front_end", *guarantees.MEASURES]
