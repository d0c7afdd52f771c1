"""The noise floor: odd against even repetitions of the same point."""

import math

import numpy as np
import pandas as pd
import pytest

from campaigns import built
from storelab.analysis.tables import build, throughput

AXES = {"clients": "Int64"}


def points(runs: int, spread: float, groups: int = 30, factor: float = 1.0) -> pd.DataFrame:
    """Return `groups` points with drawn runs; even repetitions are `factor` times as fast."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame([(c, r) for c in range(1, groups + 1) for r in range(1, runs + 1)], columns=["clients", "rep"])
    scatter = np.exp(rng.normal(0, spread, len(table)))
    table = table.assign(store="s", workload="get", state="ok", value=100 * table["clients"] * scatter)
    even = table["rep"] % 2 == 0
    table["overlap_rate_per_s"] = table["value"].where(~even, table["value"] * factor)
    return table.assign(overlap_throughput_mb_per_s=0.0)


def floor(runs: pd.DataFrame) -> float:
    """Return the noise floor in percent.

    It takes, for each group, the median of all quotients of even by odd repetitions, and then the smallest distance
    from 1 that at least 95 % of the groups do not exceed.
    """
    ratios = []
    for _, group in runs.groupby("clients"):
        odd, even = (group[group["rep"] % 2 == half]["overlap_rate_per_s"] for half in (1, 0))
        ratios.append(np.exp(np.median([np.log(b / a) for a in odd for b in even])))
    return 100 * (sorted(max(r, 1 / r) for r in ratios)[math.ceil(0.95 * len(ratios)) - 1] - 1)


def numbers(table: pd.DataFrame) -> dict:
    return {name: value for name, value, _ in throughput.noise_numbers(table)}


def test_floor_of_identical_points_is_their_scatter():
    table = throughput.noise_table(points(16, 0.03), AXES)
    found = numbers(table)
    assert (found["noise_groups"], found["aa_compared"], found["aa_too_few"]) == ("30 groups", 30, 0)
    assert found["aa_undecided"] >= 27 and found["aa_whole_verdict"] == "undecided"
    assert found["run_spread"] == pytest.approx(3, abs=0.5)
    # the ratio of two halves of 8 runs scatters by 0.03 * sqrt(2 / 8) = 1.5 %, 95 % of them by less than twice that
    assert 1.5 <= found["noise_floor"] <= 5


def test_change_between_repetitions_is_found():
    found = numbers(throughput.noise_table(points(16, 0.01, factor=1.1), AXES))
    assert found["aa_undecided"] == 0 and found["aa_whole_verdict"] == "faster" and found["noise_floor"] >= 9


def test_few_runs_have_a_reason():
    table = throughput.noise_table(points(6, 0.03), AXES)
    groups = table[table["workload"] == "get"]
    assert groups["low"].isna().all() and groups["reason"].str.contains("3 against 3 runs are too few").all()
    found = numbers(table)
    assert (found["aa_compared"], found["aa_too_few"]) == (0, 30)
    assert found["noise_floor"] == pytest.approx(floor(points(6, 0.03)))
    one = throughput.noise_table(points(1, 0.03), AXES)
    assert set(one["reason"].dropna()) >= {"no run on one side"} and throughput.noise_numbers(one) == []


def test_table_without_points_has_columns():
    assert list(throughput.noise_table(points(2, 0.1).iloc[:0], AXES).columns[:4]) == [
        "store",
        "workload",
        "clients",
        "metric",
    ]


def test_campaign_has_noise_of_each_group():
    table, rated = (build.read(built("example"), name) for name in ("noise", "throughput"))
    of_groups = table[(table["workload"] != "all") & ~table["metric"].str.startswith("latency")]
    assert len(of_groups) == len(rated) == 30 and set(table["metric"][table["workload"] == "all"]) >= {"speed"}
    found = build.read(built("example"), "numbers").set_index("name")["value"]
    assert (found["noise_groups"], found["aa_compared"], found["aa_too_few"]) == ("29 groups", "0", "29")
    assert 0 < float(found["noise_floor"]) < 20, "even repetitions are faster than odd ones by up to 2 operations/s"
