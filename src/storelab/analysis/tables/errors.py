"""`errors.csv` and `errors_over_time.csv`: failed operations by HTTP status and error class.

Failed operations are counted by class and by second. If a larger fraction of the operations failed than the campaign's
`failure_budget`, a run is `invalid`: it is listed here, but not used in medians. The class is the S3 error code of the
answer, else the name of the exception or of the engine's message. An operation of the class `Hung` never ended. Its
recorded end is the time when the client gave it up, so that its latency is a lower bound. Seconds count from the agreed
start.
"""

from typing import Any

import pandas as pd

from storelab.analysis.parts import labels
from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign

BUDGET = 0.01  # default of campaigns
GOOD = "good"  # class of the operations that succeeded
_ERRORS = f"""
SELECT key, op, coalesce(status, 0) AS status, error, sum(count)::BIGINT AS operations,
  min(end_ns - agreed_ns) / 1e9 AS first_s, max(end_ns - agreed_ns) / 1e9 AS last_s,
  quantile_disc({scan.LATENCY}, 0.5) / 1e6 AS latency_p50_ms
FROM rows WHERE error IS NOT NULL GROUP BY ALL"""
_SECONDS = """
SELECT key, CASE WHEN error IS NOT NULL THEN coalesce(status, 0) END AS status, error,
  ((end_ns - agreed_ns - 1) // 1000000000)::INT AS second, sum(count)::BIGINT AS operations
FROM rows WHERE end_ns > agreed_ns GROUP BY ALL"""


def budget(campaign: Campaign) -> float:
    """Return the fraction (0..1) of failed operations above which a run is invalid."""
    return float(campaign.plan["campaign"].get("failure_budget", BUDGET))


def label(status: Any, error: Any) -> str:
    """Return an HTTP status and an error class as text, such as `503 SlowDown`. Without status, it is the class."""
    if pd.isna(error):
        return GOOD
    return f"{int(status)} {error}" if status and str(int(status)) not in str(error) else str(error)


def error_labels(rows: pd.DataFrame) -> list[str]:
    """Return the `label` of each row from its columns status and error."""
    return [label(s, e) for s, e in zip(rows["status"], rows["error"], strict=True)]


def _runs(points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of points.csv that have failed operations, with their `run_fraction`."""
    rows = points[points["errors"].fillna(0) > 0]
    return rows.assign(run_fraction=(rows["errors"] / (rows["errors"] + rows["operations"])).astype(float))


def errors(campaign: Campaign, points: pd.DataFrame, by: list[str], roles_by: list[str]) -> pd.DataFrame:
    """Return one row for each run with errors, op, status and class. The worst run and the largest class are first.

    Columns: `by`, `roles_by`, rep, key, state, op, status, error (the class); operations: number of these failures;
    fraction: operations divided by all operations of the run; run_fraction: all failed operations divided by all
    operations of the run; first_s, last_s: when the first and the last of these failures ended; latency_p50_ms: null
    for bins, and for engines that do not record it. points: points.csv, with and without roles.
    """
    wanted, by = _runs(points), list(dict.fromkeys([*by, *roles_by]))
    con = scan.connect(campaign, "ops", wanted["key"])
    found = con.execute(_ERRORS).df() if con else pd.DataFrame(columns=["key", "op"])
    both = wanted[[*by, "rep", "key", "state", "errors", "run_fraction"]].merge(found, on="key")
    measures = ["op", "status", "error", "operations", "fraction", "run_fraction", "first_s", "last_s"]
    measures += ["latency_p50_ms"]
    if both.empty:
        return pd.DataFrame(columns=[*by, "rep", "key", "state", *measures])
    both["fraction"] = both["run_fraction"] * both["operations"] / both["errors"]
    both = both.sort_values(
        ["run_fraction", "key", "operations", "op", "status", "error"], ascending=[False, True, False, True, True, True]
    )
    return both[[*by, "rep", "key", "state", *measures]].astype({"status": "Int64"}).reset_index(drop=True)


def over_time(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return the number of operations that ended in each second of the runs with errors. The worst run is first.

    Columns: key, store, workload, state, run_fraction, failure_budget, shared_host, second (start of the second),
    class (`good` or a `label`), operations.
    """
    wanted = _runs(points)
    con = scan.connect(campaign, "ops", wanted["key"])
    of_run = ["key", "store", "workload", "state", "run_fraction", "shared_host"]
    head = [*of_run[:5], "failure_budget", "shared_host", "second", "class", "operations"]
    if con is None:
        return pd.DataFrame(columns=head)
    found = con.execute(_SECONDS).df()
    found = found.assign(**{"class": error_labels(found)}, failure_budget=budget(campaign))
    both = wanted[of_run].merge(found, on="key")
    both = both.sort_values(["run_fraction", "key", "second", "class"], ascending=[False, True, True, True])
    return both[head].reset_index(drop=True)


def numbers(campaign: Campaign, points: pd.DataFrame, found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about errors.

    The numbers are the failure budget, the numbers of invalid runs and runs with errors, and the worst run. found:
    errors.csv.
    """
    wanted = _runs(points)
    out: list[tuple[str, Any, str]] = [
        ("failure_budget", 100 * budget(campaign), "%"),
        ("points_invalid", int((points["state"] == "invalid").sum()), ""),
        ("errors_all", int(points["errors"].sum()), ""),
        ("errors_runs", len(wanted), ""),
    ]
    if found.empty:
        return out
    classes = found["operations"].groupby(error_labels(found)).sum().sort_values(ascending=False, kind="stable")
    kinds, worst = labels.counted(len(classes), "kind"), found.iloc[0]
    return [
        *out,
        ("errors_worst", 100 * worst["run_fraction"], "%"),
        ("errors_worst_store", worst["store"], ""),
        ("errors_worst_workload", worst["workload"], ""),
        ("errors_told", classes.index[0] if len(classes) == 1 else f"{kinds}, most often {classes.index[0]}", ""),
    ]
