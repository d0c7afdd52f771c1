"""`noise.csv`: the noise floor, from each group of points compared with itself. docs/statistics.md
explains it.

An A/A test: within each group of identical points, the even repetitions over the odd ones, which were measured in turn,
by the same ratio, interval and verdict as two campaigns are (`comparing`). Nothing differs between them, so every
difference is noise.

* noise floor of the campaign: 95 % of the groups differ from themselves by less (the 95th percentile of the larger of
  ratio and 1 / ratio, less 1, in percent; with fewer than 20 groups the largest). The halves have half of the runs:
  differences between two whole groups scatter less, by the square root of 2.
* spread: standard deviation of the logarithm over the runs of a group, in percent: the run-to-run scatter.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, speed, words
from storelab.analysis.statistics import ratios

PERCENTILE = 0.95
ALL = "all"  # `workload` of the rows of the whole


def halves(rows: pd.DataFrame) -> tuple[dict[int, float], dict[int, float]]:
    """Runs of the odd and of the even repetitions: rep -> value."""
    of = {int(rep): float(value) for rep, value in zip(rows["rep"], rows["value"], strict=True)}
    return {r: v for r, v in of.items() if r % 2}, {r: v for r, v in of.items() if not r % 2}


def table(points: pd.DataFrame, axes: Mapping[str, str]) -> pd.DataFrame:
    """One row per group of points and metric with a run, latencies too where known; then the whole, once for speed and
    each latency.

    n, n_odd, n_even, spread_percent (null below 2 runs), ratio even over odd with low, high, coverage_percent, verdict,
    reason. The row of the whole bears `workload` all; its n_odd and n_even count repetitions, `groups` the groups in
    it. `points`: points.csv of workloads that have a rate. `axes`: column -> dtype of the plan's axes.
    """
    by = ["store", "workload", *axes]
    rows: list[dict[str, Any]] = []
    found: dict[str, list[tuple[dict[int, float], dict[int, float]]]] = {}
    for key, group in groups.grouped(speed.with_latencies(points), [*by, "metric"]):
        odd, even = halves(group)
        values = np.array([*odd.values(), *even.values()])
        spread = 100 * float(np.std(np.log(values), ddof=1)) if len(values) > 1 and values.min() > 0 else math.nan
        counts = {"groups": 1, "n": len(values), "n_odd": len(odd), "n_even": len(even), "spread_percent": spread}
        rows.append(
            key | ratios.ratio(odd.values(), even.values(), speed.lower_is_better(key["metric"])).row() | counts
        )
        found.setdefault(speed.kind(key["metric"]), []).append((odd, even))
    for metric, pairs in found.items():
        r = ratios.whole([p[0] for p in pairs], [p[1] for p in pairs], speed.lower_is_better(metric))
        counts = {"groups": len(pairs), "n": r.n_a + r.n_b, "n_odd": r.n_a, "n_even": r.n_b, "spread_percent": math.nan}
        rows.append({"workload": ALL, "metric": metric} | r.row() | counts)
    columns = [*by, "metric", "groups", "n", "n_odd", "n_even", "spread_percent", *ratios.COLUMNS]
    return pd.DataFrame(rows, columns=columns).astype(dict(axes))


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Of the speeds: noise_floor, noise_groups, run_spread (median of the groups), aa_compared and aa_cannot_tell
    (groups that have enough runs for an interval; of these those that, rightly, cannot tell), aa_too_few, the whole.
    Absent data, no row."""
    rows = found[(found["workload"] != ALL) & found["metric"].isin(speed.SPEEDS) & found["ratio"].notna()]
    if rows.empty:
        return []
    with_interval = rows[rows["low"].notna()]
    ratio = rows["ratio"].astype(float)
    apart = 100 * (np.maximum(ratio, 1 / ratio) - 1)
    out = [
        ("noise_floor", float(np.quantile(apart, PERCENTILE, method="inverted_cdf")), "%"),
        ("noise_groups", words.plural(len(rows), "group"), ""),
        ("run_spread", rows["spread_percent"].astype(float).median(), "%"),
        ("aa_compared", len(with_interval), ""),
        ("aa_cannot_tell", int((with_interval["verdict"] == ratios.CANNOT_TELL).sum()), ""),
        ("aa_too_few", len(rows) - len(with_interval), ""),
    ]
    return out + _of_whole(found[(found["workload"] == ALL) & (found["metric"] == speed.SPEED)])


def _of_whole(rows: pd.DataFrame) -> list[tuple[str, Any, str]]:
    if rows.empty or rows["low"].isna().any():
        return []
    whole: Mapping[str, Any] = rows.iloc[0]
    return [
        ("aa_whole", words.spread([whole[p] for p in ("ratio", "low", "high")]), ""),
        ("aa_whole_verdict", whole["verdict"], ""),
    ]
