"""The tables: every metric of the paper, once (level 2, analysis). Raw records in, `tables/*.csv` out.

* `points.csv`: one row per planned point; rates, windows and steadiness as `windows` defines them.
* `throughput.csv`: one row per group of points (all of the identity but `rep`): medians over the runs with interval or range.
* `sparse.csv`: the same for the read workloads: bytes, requests and time per read, amplification, events/s.
* `consistency.csv`: see `anomalies`; `capabilities.csv`: see `capabilities`.
* `numbers.csv`, `environment.csv`: see `facts`.
MB = 10^6 bytes; the unit ends a column's name. `median`, `low`, `high` as `stats.summarise` has them.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from storelab import anomalies, capabilities, facts, loading, records, space_used, stats, windows
from storelab.model import UserError

NAMES = ("points", "throughput", "sparse", "consistency", "capabilities", "space", "numbers", "environment")
_DTYPES = {"int": "Int64", "size": "Int64", "percent": "Float64", "text": "string"}
NO_RATES = (anomalies.WORKLOAD, capabilities.WORKLOAD, "space")  # workloads whose operations per second mean nothing
RATES = {"throughput": "mb_per_s", "rate": "per_s"}
PER_READ = {
    "needed": "mb_per_read",
    "asked": "mb_per_read",
    "wire": "mb_per_read",
    "requests": "per_read",
    "amplification": "ratio",
    "share_amplification": "ratio",
}
READ_RATES = [("reads", "per_s"), ("entries", "per_s"), ("needed", "mb_per_s"), ("wire", "mb_per_s")]


def axis_columns(plan: Mapping[str, Any]) -> dict[str, str]:
    """Column -> pandas dtype of every axis of every workload of the plan, in the workloads' order."""
    return {a["column"]: _DTYPES[a["kind"]] for w in plan["workloads"].values() for a in w["axes"]}


def identity(plan: Mapping[str, Any]) -> list[str]:
    """The columns that make a group of points: store, workload and all axes."""
    return ["store", "workload", *axis_columns(plan)]


def loopback(endpoint: str) -> bool:
    """Whether the URL's host is this very machine: client and server share its cores."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def points(campaign: loading.Campaign) -> pd.DataFrame:
    """One row per planned point, in the plan's order of measuring. Failed points bear `state` failed and the reason.

    lateness_max_ms: largest start lateness of a client after the agreed start. *_cpu_percent: CPU seconds of all clients, of
    the store's processes, of the whole host, in percent of the host's cores in the time watched, agreed start to deadline;
    other: the host's less both, the kernel's own work included (null where the server's is not known).
    shared_host: the store works on the clients' host, as its record says, or they reach it over loopback. requests_per_operation: cost of an operation in the engine's mode.
    """
    columns = {w: {a["name"]: a["column"] for a in d["axes"]} for w, d in campaign.plan["workloads"].items()}
    rows = []
    for p in sorted(campaign.points, key=lambda p: p["order"]):
        row = {k: p[k] for k in ("order", "store", "workload")}
        row |= {columns[p["workload"]][name]: value for name, value in p["axes"].items()}
        row |= {k: p[k] for k in ("rep", "sweep", "key")}
        row |= {"duration_s": p["fixed"]["duration_ns"] / 1e9, "warm_up_s": p["fixed"]["warm_up_ns"] / 1e9}
        run = campaign.runs.get(p["key"])
        if run:
            row |= {"state": "ok", "reason": None, **_run_columns(run)}
        else:
            row |= {"state": "failed", "reason": campaign.failures[p["key"]]["reason"]}
        rows.append(row)
    axes = axis_columns(campaign.plan)
    head = ["order", "store", "workload", *axes, "rep", "sweep", "key", "state", "reason", "duration_s", "warm_up_s"]
    table = pd.DataFrame(rows).reindex(columns=[*head, *_RUN_DTYPES]).astype(axes | _RUN_DTYPES)
    rated = windows.operations(campaign).drop(index=capabilities.keys(campaign))  # a probe has no rate
    table = table.merge(rated, left_on="key", right_index=True, how="left")
    return table.astype({c: "Int64" for c in table if c.endswith(("operations", "bytes", "errors")) and c not in axes})


_RUN_DTYPES = {
    "started": "string",
    "clients_joined": "Int64",
    "lateness_max_ms": "Float64",
    "shared_host": "boolean",
    "engine_version": "string",
    "requests_per_operation": "string",
    "client_cpu_s": "Float64",
    "client_cpu_percent": "Float64",
    "server_cpu_percent": "Float64",
    "host_cpu_percent": "Float64",
    "other_cpu_percent": "Float64",
    "connections_max": "Int64",
}


def _run_columns(run: Mapping[str, Any]) -> dict[str, Any]:
    clients, host, engine = run["clients"], run.get("host") or {}, run.get("engine") or {}
    seconds = host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9
    cpu = sum((c.get("cpu_user_s") or 0) + (c.get("cpu_system_s") or 0) for c in clients)
    capacity = (host.get("cores") or 0) * seconds
    percent = {
        f"{who}_cpu_percent": 100 * value / capacity if value is not None and capacity > 0 else None
        for who, value in (
            ("client", host.get("client_cpu_s", cpu)),
            ("server", host.get("server_cpu_s")),
            ("host", host.get("cpu_busy_s")),
        )
    }
    known = None not in percent.values()
    percent["other_cpu_percent"] = (
        max(0.0, percent["host_cpu_percent"] - percent["client_cpu_percent"] - percent["server_cpu_percent"]) if known else None
    )
    store = run.get("store") or {}
    here = store.get("on_this_host", bool((store.get("deployment") or {}).get("daemons")))  # older records: it has daemons of storelab's
    connections = [c["connections_max"] for c in clients if c.get("connections_max") is not None]
    return {
        "started": pd.Timestamp(run["start_ns"], unit="ns").strftime("%Y-%m-%dT%H:%M:%SZ"),
        "clients_joined": len(clients),
        "lateness_max_ms": max((c.get("lateness_ns") or 0 for c in clients), default=0) / 1e6,
        "shared_host": here or (bool(clients) and all(loopback(c.get("endpoint") or "") for c in clients)),
        "engine_version": engine.get("version"),
        "requests_per_operation": ", ".join(f"{op} {n}" for op, n in (engine.get("requests_per_operation") or {}).items()) or None,
        "client_cpu_s": cpu,
        **percent,
        "connections_max": sum(connections) if connections else None,
    }


def _groups(table: pd.DataFrame, by: list[str]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """(identity, rows) per group, sorted by identity; null axes (of other workloads) group together."""
    return [(dict(zip(by, key, strict=True)), rows) for key, rows in table.groupby(by, dropna=False, sort=True)]


def _summary(values: pd.Series, name: str, unit: str) -> dict[str, float]:
    s = stats.summarise(values.astype("Float64").to_numpy(float, na_value=np.nan))
    return {f"{name}_{part}_{unit}": getattr(s, part) for part in ("median", "low", "high")}


def _typed(rows: list[dict[str, Any]], columns: list[str], axes: Mapping[str, str]) -> pd.DataFrame:
    """A frame with exactly these columns (header only where there are no rows) and typed axes."""
    table = pd.DataFrame(rows, columns=columns) if rows else pd.DataFrame({c: pd.Series(dtype=object) for c in columns})
    return table.astype({c: t for c, t in axes.items() if c in table})


def throughput(table: pd.DataFrame, plan: Mapping[str, Any]) -> pd.DataFrame:
    """One row per group of points that has a run, from the `overlap` windows; n counts runs, `reps_failed` those that failed."""
    by, rows = identity(plan), []
    spread = [f"{name}_{part}_{unit}" for name, unit in RATES.items() for part in ("median", "low", "high")]
    for key, g in _groups(table[~table["workload"].isin(NO_RATES)], by):
        ok = g[g["state"] == "ok"]
        s = stats.summarise(ok["overlap_rate_per_s"].astype(float))
        if not len(ok):
            continue
        row = key | {
            "n": s.n,
            "reps_planned": len(g),
            "reps_failed": len(g) - len(ok),
            "interval": s.kind,
            "coverage_percent": 100 * s.coverage,
        }
        for name, unit in RATES.items():
            row |= _summary(ok[f"overlap_{name}_{unit}"], name, unit)
        labels = ok["steadiness"].value_counts()
        row |= {
            "operations": ok["operations"].sum(),
            "errors": ok["errors"].sum(),
            "drifting": labels.get("drifting", 0),
            "too_short": labels.get("too short", 0),
        }
        row |= {
            "tail_max_s": ok["tail_s"].max(),
            "lateness_max_ms": ok["lateness_max_ms"].max(),
            "connections_max": ok["connections_max"].max(),
        }
        row |= {f"{who}_cpu_percent": ok[f"{who}_cpu_percent"].median() for who in ("client", "server", "host")}
        row |= {"shared_host": bool(ok["shared_host"].any()), "duration_s": g["duration_s"].iloc[0], "warm_up_s": g["warm_up_s"].iloc[0]}
        row |= {"engine_version": facts.joined(ok["engine_version"]), "requests_per_operation": facts.joined(ok["requests_per_operation"])}
        rows.append(row)
    columns = [
        *by,
        "n",
        "reps_planned",
        "reps_failed",
        "interval",
        "coverage_percent",
        *spread,
        "operations",
        "errors",
        "drifting",
        "too_short",
        "tail_max_s",
        "lateness_max_ms",
        "connections_max",
        "client_cpu_percent",
        "server_cpu_percent",
        "host_cpu_percent",
        "shared_host",
        "duration_s",
        "warm_up_s",
        "engine_version",
        "requests_per_operation",
    ]
    return _typed(rows, columns, axis_columns(plan))


def read_points(campaign: loading.Campaign, table: pd.DataFrame) -> pd.DataFrame:
    """The points with reads, joined with `windows.reads`, and `share_amplification_ratio`: wire bytes per read over the
    entries' share of the volume, which is needed bytes * entries / entries of the same selection at 100 % of the entries
    (the measure that the published calls and volumes allow; null where no such point was measured)."""
    found = windows.reads(campaign)
    both = table.merge(found, left_on="key", right_index=True, how="inner", suffixes=("", "_of_reads"))
    both["share_amplification_ratio"] = np.nan
    if both.empty or "entry_fraction_percent" not in both:
        return both
    by = [c for c in ("store", "workload", *axis_columns(campaign.plan)) if c not in ("entry_fraction_percent", "clients")]
    for _, g in both.groupby(by, dropna=False):
        whole = g[g["entry_fraction_percent"] == 100]
        if len(whole):
            volume, entries = whole["needed_mb_per_read"].median(), whole["entries_per_read"].median()
            both.loc[g.index, "share_amplification_ratio"] = g["wire_mb_per_read"] / (volume * g["entries_per_read"] / entries)
    return both


def sparse(campaign: loading.Campaign, table: pd.DataFrame) -> pd.DataFrame:
    """One row per group of read points: medians over the runs of what `windows.reads` gives per run."""
    both, by, rows = read_points(campaign, table), identity(campaign.plan), []
    metrics = [*PER_READ.items(), *READ_RATES, *((p, "s_per_read") for p in windows.PHASES)]
    for key, g in _groups(both, by) if len(both) else []:
        s = stats.summarise(g["reads_per_s"].astype(float))
        row = key | {
            "n": s.n,
            "interval": s.kind,
            "coverage_percent": 100 * s.coverage,
            "reads": g["reads"].sum(),
            "shared_host": bool(g["shared_host"].any()),
        }
        row |= {k: g[f"{k}_per_read"].median() for k in ("entries", "branches", "baskets")}
        for name, unit in metrics:
            row |= _summary(g[f"{name}_{unit}"], name, unit)
        rows.append(row)
    spread = [f"{name}_{part}_{unit}" for name, unit in metrics for part in ("median", "low", "high")]
    return _typed(
        rows,
        [*by, "n", "interval", "coverage_percent", "reads", "shared_host", "entries", "branches", "baskets", *spread],
        axis_columns(campaign.plan),
    )


def build(campaign_dir: Path) -> list[Path]:
    """Verify the raw records, then write all tables atomically. Raises UserError: altered, missing or unmeasured points."""
    campaign = loading.load(campaign_dir)
    all_points = points(campaign)
    tables = {"points": all_points, "throughput": throughput(all_points, campaign.plan), "sparse": sparse(campaign, all_points)}
    tables["consistency"] = anomalies.consistency(campaign, axis_columns(campaign.plan))
    tables["capabilities"] = capabilities.capabilities(campaign, axis_columns(campaign.plan))
    tables["space"] = space_used.table(campaign, all_points, identity(campaign.plan))
    tables["numbers"] = facts.numbers(campaign, tables)
    tables["environment"] = facts.environment(campaign)
    paths = []
    for name in NAMES:
        path = campaign_dir / "tables" / f"{name}.csv"
        records.write_atomic(path, tables[name].to_csv(index=False, float_format="%.9g").encode())
        paths.append(path)
    return paths


def read(campaign_dir: Path, name: str) -> pd.DataFrame:
    """A table as written by `build`. Raises UserError where it is not there."""
    path = campaign_dir / "tables" / f"{name}.csv"
    if not path.exists():
        raise UserError(str(path), "is not there", "run `storelab tables` first")
    text = {"value": str} if name in ("numbers", "environment") else None
    return pd.read_csv(path, dtype=text, keep_default_na=name not in ("numbers", "environment"), low_memory=False)
