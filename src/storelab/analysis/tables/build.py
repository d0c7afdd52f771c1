"""The tables: every metric of the paper, once (level 2, analysis). Raw records in, `tables/*.csv` out.

* `points.csv`: see `point_table`.
* `throughput.csv`: one row per group of points (all of the identity but `rep`): medians over the runs with interval or range.
* `sparse.csv`: the same for the read workloads: bytes, requests and time per read, amplification, events/s.
* `table2.csv`: see `table2`.
* `events.csv`: see `events_processed`.
* `latency.csv`: see `latency`; `errors.csv`, `errors_over_time.csv`: see `error_rates`.
* `consistency.csv`: see `anomalies`; `capabilities.csv`: see `capabilities`.
* `noise.csv`: see `noise`; `scaling.csv`: see `scaling`.
* `calibration.csv`, and the ceilings in the tables above: see `calibrated`.
* `resources.csv`: see `resources`; `numbers.csv`, `environment.csv`: see `facts`.
MB = 10^6 bytes; the unit ends a column's name. `median`, `low`, `high` as `stats.summarise` has them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.records import loading, windows
from storelab.analysis.statistics import medians
from storelab.analysis.tables import calibration as calibrated
from storelab.analysis.tables import (
    capabilities,
    consistency,
    errors,
    events,
    latency,
    noise,
    numbers,
    resources,
    scaling,
    space,
    table2,
    verdicts,
)
from storelab.analysis.tables.points import axis_columns, identity, points
from storelab.core import calibration, records
from storelab.core.errors import UserError

NAMES = (
    "points",
    "throughput",
    "sparse",
    "table2",
    "events",
    "consistency",
    "capabilities",
    "space",
    "latency",
    "errors",
    "errors_over_time",
    "resources",
    "noise",
    "scaling",
    "calibration",
    "verdicts",
    "numbers",
    "environment",
)
NO_RATES = (consistency.WORKLOAD, capabilities.WORKLOAD, calibration.WORKLOAD, "space")  # workloads whose rates tell nothing of a store
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


def _groups(table: pd.DataFrame, by: list[str]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """(identity, rows) per group, sorted by identity; null axes (of other workloads) group together."""
    return [(dict(zip(by, key, strict=True)), rows) for key, rows in table.groupby(by, dropna=False, sort=True)]


def _summary(values: pd.Series, name: str, unit: str) -> dict[str, float]:
    s = medians.summarise(values.astype("Float64").to_numpy(float, na_value=np.nan))
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
        s = medians.summarise(ok["overlap_rate_per_s"].astype(float))
        if not len(ok):
            continue
        row = key | {
            "n": s.n,
            "reps_planned": len(g),
            "reps_failed": int((g["state"] == "failed").sum()),
            "reps_invalid": int((g["state"] == "invalid").sum()),
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
            "nodes": ok["nodes"].max(),
        }
        row |= {f"{who}_cpu_percent": ok[f"{who}_cpu_percent"].median() for who in ("client", "server", "host")}
        row |= calibrated.of_group(ok, row["rate_median_per_s"], bool(ok["shared_host"].any()))
        row |= {"shared_host": bool(ok["shared_host"].any()), "duration_s": g["duration_s"].iloc[0], "warm_up_s": g["warm_up_s"].iloc[0]}
        row |= {
            "engine_version": numbers.joined(ok["engine_version"]),
            "requests_per_operation": numbers.joined(ok["requests_per_operation"]),
        }
        rows.append(row)
    columns = [
        *by,
        "n",
        "reps_planned",
        "reps_failed",
        "reps_invalid",
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
        "nodes",
        "client_cpu_percent",
        "server_cpu_percent",
        "host_cpu_percent",
        "shared_host",
        "ceiling_rate_per_s",
        "ceiling_percent",
        "client_bound",
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
    both = table[table["state"] != "invalid"].merge(found, left_on="key", right_index=True, how="inner", suffixes=("", "_of_reads"))
    both["share_amplification_ratio"] = np.nan
    if both.empty or "entry_fraction_percent" not in both:
        return both
    both.loc[both["workload"] == "read_volume", "entry_fraction_percent"] = 100.0  # all entries, so it has no such axis
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
        s = medians.summarise(g["reads_per_s"].astype(float))
        row = key | {
            "n": s.n,
            "interval": s.kind,
            "coverage_percent": 100 * s.coverage,
            "reads": g["reads"].sum(),
            "shared_host": bool(g["shared_host"].any()),
            **{name: g[name].astype(float).median() for name in latency.CPU},
        }
        row |= {k: g[f"{k}_per_read"].median() for k in ("entries", "branches", "baskets")}
        for name, unit in metrics:
            row |= _summary(g[f"{name}_{unit}"], name, unit)
        rows.append(row)
    spread = [f"{name}_{part}_{unit}" for name, unit in metrics for part in ("median", "low", "high")]
    return _typed(
        rows,
        [*by, "n", "interval", "coverage_percent", "reads", "shared_host", *latency.CPU, "entries", "branches", "baskets", *spread],
        axis_columns(campaign.plan),
    )


def build(campaign_dir: Path) -> list[Path]:
    """Verify the raw records, then write all tables atomically. Raises UserError: altered, missing or unmeasured points."""
    campaign = loading.load(campaign_dir)
    all_points, latencies, by = points(campaign), latency.runs(campaign), identity(campaign.plan)
    all_points = all_points.join(latency.of_points(latencies), on="key")
    ceilings = calibrated.table(campaign, all_points)
    all_points = calibrated.with_ceilings(campaign, all_points, ceilings)
    tables = {"points": all_points, "throughput": throughput(all_points, campaign.plan), "sparse": sparse(campaign, all_points)}
    tables["table2"] = table2.table(campaign, all_points)
    tables["events"] = events.table(campaign, all_points, by)
    tables["consistency"] = consistency.consistency(campaign, axis_columns(campaign.plan))
    tables["capabilities"] = capabilities.capabilities(campaign, axis_columns(campaign.plan))
    tables["space"] = space.table(campaign, all_points, identity(campaign.plan))
    rated = all_points[~all_points["workload"].isin(NO_RATES)]
    tables["resources"] = resources.table(campaign, rated, identity(campaign.plan))
    tables["latency"] = latency.table(latencies, all_points, by, NO_RATES)
    tables["errors"] = errors.errors(campaign, all_points, by)
    tables["errors_over_time"] = errors.over_time(campaign, all_points)
    tables["noise"], tables["scaling"] = (module.table(rated, axis_columns(campaign.plan)) for module in (noise, scaling))
    tables["calibration"] = ceilings
    tables["verdicts"] = verdicts.table(tables, by)
    tables["numbers"] = numbers.numbers(campaign, tables)
    tables["environment"] = numbers.environment(campaign)
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
