"""Ceilings: what the clients could do at most, and which points came near it. See docs/calibration.md.

* `calibration.csv`: one row per target and operation, engine, sizes, clients, workers and scheme: the rate before the
  campaign, after it, the ceiling (the larger of the two), and what an operation costs the clients in CPU.
* `ceiling_rate_per_s`, `ceiling_percent`, `client_bound` of points.csv and throughput.csv: the ceiling of the same
  engine, operation, sizes, clients (and how many a node has), workers and scheme; the rate in percent of it; whether
  that is more than CLIENT_BOUND percent. Null without a ceiling. Where client and server share a host, a ceiling means
  little: such points are never `client_bound`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import NUMBERS, TABLE
from storelab.core import calibration, units
from storelab.core.axes import SCHEME
from storelab.core.calibration import AFTER, BEFORE, NETWORK, WORKLOAD

CLIENT_BOUND = 80  # percent of the ceiling
# What must agree between a point and its ceiling -> the value where a workload, or an older plan, has no such axis.
AGREE: dict[str, Any] = {a.column: a.default for a in calibration.AGREE} | {SCHEME.column: "http"}
COLUMNS = [
    "target",
    *AGREE,
    "before_rate_per_s",
    "after_rate_per_s",
    "rate_per_s",
    "throughput_mb_per_s",
    "drift_percent",
    "runs",
    "client_cpu_ms_per_operation",
    "client_cpu_percent",
    "server_cpu_percent",
    "duration_s",
]


def _agreeing(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """The columns AGREE of rows of points.csv, without nulls; the scheme is that of the endpoints that the clients
    used."""
    out = pd.DataFrame(index=points.index)
    for name, default in AGREE.items():
        column = points[name] if name in points else pd.Series(default, index=points.index)
        out[name] = column.astype(object).where(column.notna(), default)
    calibrates = points["workload"] == WORKLOAD
    out["operation"] = out["operation"].where(calibrates, points["workload"])
    clients = {key: run["clients"] for key, run in campaign.runs.items()}
    ends = [(clients[k][0].get("endpoint") or "") if clients.get(k) else "" for k in points["key"]]
    out["scheme"] = ["https" if end.startswith("https:") else "http" for end in ends]
    return out


@TABLE("calibration", "campaign", "measured")
def table(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """`calibration.csv`, from rows of points.csv; rates are medians over the valid runs of a phase, in the `overlap`
    window."""
    rows = points[(points["workload"] == WORKLOAD) & (points["state"] == "ok") & points["overlap_rate_per_s"].notna()]
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = rows.assign(**_agreeing(campaign, rows))
    out = []
    for key, group in rows.groupby(["target", *AGREE], sort=True):
        rate = {
            phase: group.loc[group["phase"] == phase, "overlap_rate_per_s"].astype(float).median()
            for phase in (BEFORE, AFTER)
        }
        drift = 100 * (rate[AFTER] / rate[BEFORE] - 1) if rate[BEFORE] and rate[BEFORE] > 0 else np.nan
        best = group[group["phase"] == max(rate, key=lambda phase: -1 if np.isnan(rate[phase]) else rate[phase])]
        cost = 1000 * best["client_cpu_s"].astype(float) / best["operations"].astype(float).replace(0, np.nan)
        out.append(
            dict(zip(["target", *AGREE], key, strict=True))
            | {f"{phase}_rate_per_s": value for phase, value in rate.items()}
            | {
                "rate_per_s": np.nanmax(list(rate.values())),
                "throughput_mb_per_s": best["overlap_throughput_mb_per_s"].astype(float).median(),
                "drift_percent": drift,
                "runs": len(group),
                "client_cpu_ms_per_operation": cost.median(),
                "client_cpu_percent": best["client_cpu_percent"].astype(float).median(),
                "server_cpu_percent": best["server_cpu_percent"].astype(float).median(),
                "duration_s": best["duration_s"].max(),
            }
        )
    return pd.DataFrame(out, columns=COLUMNS)


def with_ceilings(campaign: Campaign, points: pd.DataFrame, ceilings: pd.DataFrame) -> pd.DataFrame:
    """points.csv with `ceiling_rate_per_s`, `ceiling_percent`, `client_bound`. ceilings: `table`'s."""
    known = ceilings[ceilings["target"] == NETWORK]
    rate = known.set_index(list(AGREE))["rate_per_s"].to_dict()
    own = points["workload"].isin(calibration.OPERATIONS).tolist()
    wanted = _agreeing(campaign, points).itertuples(index=False, name=None)
    found = [rate.get(row) if measured else None for row, measured in zip(wanted, own, strict=True)]
    out = points.assign(ceiling_rate_per_s=pd.array(found, dtype="Float64"))
    out["ceiling_percent"] = 100 * out["overlap_rate_per_s"].astype("Float64") / out["ceiling_rate_per_s"]
    out["client_bound"] = (out["ceiling_percent"] > CLIENT_BOUND) & ~out["shared_host"]
    out["client_bound"] = out["client_bound"].mask(out["ceiling_percent"].isna())
    return out


def of_group(runs: pd.DataFrame, rate_per_s: float, shared_host: bool) -> dict[str, Any]:
    """The same three columns for the median rate of some runs (rows of points.csv)."""
    known = runs["ceiling_rate_per_s"].dropna()
    if known.empty or not np.isfinite(rate_per_s):
        return dict.fromkeys(("ceiling_rate_per_s", "ceiling_percent", "client_bound"))
    ceiling, percent = float(known.max()), 100 * rate_per_s / float(known.max())
    bound = percent > CLIENT_BOUND and not shared_host
    return {"ceiling_rate_per_s": ceiling, "ceiling_percent": percent, "client_bound": bound}


@NUMBERS("calibration", "points", "throughput", "calibration")
def numbers(points: pd.DataFrame, throughput: pd.DataFrame, ceilings: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """(name, value, unit) for the paper's text; none where the campaign left the calibration out."""
    known = ceilings[ceilings["target"] == NETWORK]
    out: list[tuple[str, Any, str]] = [("client_bound_from", CLIENT_BOUND, "%")]
    if known.empty:
        return out
    runs = (points["state"] == "ok") & (points["workload"] == WORKLOAD)
    out += [("calibration_ceilings", len(known), ""), ("calibration_runs", int(runs.sum()), "")]
    drift = known["drift_percent"].abs().dropna()
    if len(drift):
        out += [("calibration_drift_median", drift.median(), "%"), ("calibration_drift_most", drift.max(), "%")]
    groups = throughput[throughput["ceiling_percent"].notna()]
    bound = groups["client_bound"].fillna(False).astype(bool)
    out += [("ceiling_groups", len(groups), ""), ("client_bound", int(bound.sum()), "")]
    if len(groups):
        top = groups.loc[groups["ceiling_percent"].astype(float).idxmax()]
        out += [
            ("ceiling_percent_most", top["ceiling_percent"], "%"),
            ("ceiling_percent_most_workload", top["workload"], ""),
            ("ceiling_percent_most_object_size", units.format_size(int(top["object_size_bytes"])), ""),
        ]
    return out


def shown(row: Mapping[str, Any]) -> str:
    """What a row of `calibration.csv` measured, in words: `get`, `memory copy`, `write to tmpfs`."""
    if row["target"] == NETWORK:
        return str(row["operation"]).replace("_", " ")
    said = {"copy": "memory copy", "write": f"write to {row['target']}", "read": f"read from {row['target']}"}
    return said[row["operation"]]
