"""Ceilings: what the clients could do at most, and which points came near it. See docs/calibration.md.

* `calibration.csv`: one row per target and operation, engine, sizes, clients, workers and scheme: the rate before the
  campaign, after it, the ceiling (the larger of the two), what an operation costs the clients in CPU, whether the bytes
  went over a link, and how busy the processors were.
* `ceiling_rate_per_s`, `ceiling_percent`, `ceiling_of`, `bound_by` of points.csv and throughput.csv: the ceiling of the
  same engine, operation, sizes, clients (and how many a node has), workers and scheme; the rate in percent of it; whose
  limit it is (LINK, CLIENT, or SHARED cores, where it means little); what binds the point: LINK at `links.LINK_FULL`
  percent of a known link, LINK or CLIENT above BOUND percent of the ceiling (and up to EXCEEDED), else null. Cores and
  memory of one host are shared by client and server; a link is not: so a LINK binds on a shared host too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.records.links import over_link
from storelab.analysis.tables import links
from storelab.core import calibration, engines, units
from storelab.core.axes import SCHEME
from storelab.core.calibration import AFTER, BEFORE, NETWORK, WORKLOAD

BOUND = 80  # percent of the ceiling
EXCEEDED = 105  # percent of the ceiling: a rate above it contradicts the ceiling
LINK, CLIENT, SHARED = "link", "client", "shared cores"
IDLE = 50  # percent: a ceiling at which the processors were less busy is that of the link
# What must agree between a point and its ceiling -> the value where a workload, or an older plan, has no such axis.
AGREE: dict[str, Any] = {a.column: a.default for a in calibration.AGREE} | {SCHEME.column: "http"}
_OWN = ("ceiling_rate_per_s", "ceiling_percent", "ceiling_of", "bound_by")
CEILING = (*_OWN, *links.COLUMNS)  # columns of points and groups
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
    "over_link",
    "busy_percent",
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
                "over_link": all(over_link(campaign.runs[key]) for key in best["key"]),
                "busy_percent": best["key"].map(lambda key: busy_percent(campaign.runs[key])).astype(float).median(),
                "duration_s": best["duration_s"].max(),
            }
        )
    return pd.DataFrame(out, columns=COLUMNS)


def with_ceilings(campaign: Campaign, points: pd.DataFrame, ceilings: pd.DataFrame) -> pd.DataFrame:
    """points.csv with the columns CEILING. ceilings: `table`'s."""
    known = ceilings[ceilings["target"] == NETWORK].set_index(list(AGREE))
    rate = known["rate_per_s"].to_dict()
    linked = (known["over_link"].eq(True) & (known["busy_percent"] < IDLE)).to_dict()
    found: list[tuple[float | None, str | None]] = []
    wanted = _agreeing(campaign, points).itertuples(index=False, name=None)
    for row, p in zip(wanted, points.itertuples(index=False), strict=True):
        if p.workload not in calibration.OPERATIONS or row not in rate:
            found.append((None, None))
        elif p.key not in campaign.runs:
            found.append((rate[row], None))
        elif linked[row] and over_link(campaign.runs[p.key]):
            found.append((rate[row], LINK))
        else:
            found.append((rate[row], SHARED if p.shared_host else CLIENT))
    out = points.assign(ceiling_rate_per_s=pd.array([r for r, _ in found], dtype="Float64"))
    out["ceiling_percent"] = 100 * out["overlap_rate_per_s"].astype("Float64") / out["ceiling_rate_per_s"]
    out["ceiling_of"] = pd.array([of for _, of in found], dtype="string")
    out = links.with_links(campaign, out)
    told = zip(out["ceiling_of"], out["ceiling_percent"], out["link_used_percent"], strict=True)
    return out.assign(bound_by=pd.array([_bound(*each) for each in told], dtype="string"))


def _bound(ceiling_of: Any, ceiling_percent: Any, link_used_percent: Any) -> str | None:
    if pd.notna(link_used_percent) and link_used_percent >= links.LINK_FULL:
        return LINK
    near = pd.notna(ceiling_percent) and BOUND < ceiling_percent <= EXCEEDED
    return str(ceiling_of) if near and pd.notna(ceiling_of) and ceiling_of != SHARED else None


def of_group(runs: pd.DataFrame, rate_per_s: float) -> dict[str, Any]:
    """The columns CEILING for the median rate of some runs (rows of points.csv); of several words for the ceiling, the
    one that claims least."""
    link, known = links.of_group(runs), runs["ceiling_rate_per_s"].dropna()
    ceiling, percent, of = None, None, None
    if len(known) and np.isfinite(rate_per_s):
        ceiling, percent = float(known.max()), 100 * rate_per_s / float(known.max())
        of = next(word for word in (SHARED, CLIENT, LINK) if (runs["ceiling_of"] == word).any())
    bound = _bound(of, percent, link["link_used_percent"])
    return dict(zip(_OWN, (ceiling, percent, of, bound), strict=True)) | link


def busy_percent(run: Mapping[str, Any]) -> float | None:
    """CPU time of clients and server in percent of the workers' time, or the part of its cores that a host used, what
    is more; None where a side is not known."""
    host = run.get("host") or {}
    server = host if run.get("shared_machine", True) else run.get("coordinator") or {}
    axes, clients = run["point"]["axes"], run["clients"]
    one = engines.CATALOGUE[axes["engine"]].one_thread if axes["engine"] in engines.CATALOGUE else False
    threads = axes["clients"] * (1 if one else axes["workers"])
    cpu = host.get("client_cpu_s", sum((c.get("cpu_user_s") or 0) + (c.get("cpu_system_s") or 0) for c in clients))
    if None in (server.get("server_cpu_s"), host.get("cpu_busy_s")) or not all(
        h.get("seconds") for h in (host, server)
    ):
        return None
    both = (cpu / host["seconds"] + server["server_cpu_s"] / server["seconds"]) / threads
    return 100 * max(both, *(h["cpu_busy_s"] / h["seconds"] / h["cores"] for h in (host, server)))


def numbers(points: pd.DataFrame, throughput: pd.DataFrame, ceilings: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """(name, value, unit) for the paper's text; none where the campaign left the calibration out."""
    known = ceilings[ceilings["target"] == NETWORK]
    out: list[tuple[str, Any, str]] = [("bound_from", BOUND, "%"), ("idle_below", IDLE, "%")]
    out.append(("link_full", links.LINK_FULL, "%"))
    if known.empty:
        return out
    runs = (points["state"] == "ok") & (points["workload"] == WORKLOAD)
    out += [("calibration_ceilings", len(known), ""), ("calibration_runs", int(runs.sum()), "")]
    drift = known["drift_percent"].abs().dropna()
    if len(drift):
        out += [("calibration_drift_median", drift.median(), "%"), ("calibration_drift_most", drift.max(), "%")]
    groups = throughput[throughput["ceiling_percent"].notna()]
    out.append(("ceiling_groups", len(groups), ""))
    out.append(("exceeded_from", EXCEEDED - 100, "%"))
    out.append(("ceiling_exceeded", int((groups["ceiling_percent"] > EXCEEDED).sum()), ""))
    out += [(f"{by}_bound", int((throughput["bound_by"] == by).sum()), "") for by in (CLIENT, LINK)]
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
