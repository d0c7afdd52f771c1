"""Single facts for the paper's text: `numbers.csv` and `environment.csv` (level 2, analysis).

Every number that the prose quotes is a row here with its source, and becomes a LaTeX macro; the paper types none.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import speed, words
from storelab.analysis.records import loading, published, windows
from storelab.analysis.statistics import medians
from storelab.analysis.tables import calibration as calibrated
from storelab.analysis.tables import errors, events, latency, noise, resources, scaling
from storelab.core import calibration, units

LARGE = speed.LARGE  # bytes: objects from 1 MB on show throughput, smaller ones the rate of operations ("metadata")
DISTURBED_PERCENT = 10  # of the host's cores, taken by neither clients nor store; the kernel's network work alone stays below
CLASSES = {
    "throughput_download": ("get", True),
    "throughput_upload": ("put", True),
    "metadata_download": ("get", False),
    "metadata_upload": ("put", False),
}


def joined(values: Iterable[Any]) -> str | None:
    """Distinct non-null values as text, in order of appearance."""
    return ", ".join(dict.fromkeys(str(v) for v in values if not pd.isna(v))) or None


def of_class(throughput: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of `throughput.csv` that belong to a class of CLASSES (empty where the campaign has none)."""
    workload, large = CLASSES[name]
    if "object_size_bytes" not in throughput:
        return throughput.iloc[:0]
    size = throughput["object_size_bytes"].astype("Float64")
    return throughput[(throughput["workload"] == workload) & ((size >= LARGE) if large else (size < LARGE)).fillna(False).astype(bool)]


def _best(throughput: pd.DataFrame, name: str) -> list[tuple[str, Any, str]]:
    rows = of_class(throughput, name)
    metric, unit, shown = ("throughput", "mb_per_s", "MB/s") if name.startswith("throughput") else ("rate", "per_s", "objects/s")
    rows = rows[rows[f"{metric}_median_{unit}"].notna()]
    if rows.empty:
        return []
    best = rows.loc[rows[f"{metric}_median_{unit}"].astype(float).idxmax()]
    out = [(f"best_{name}", best[f"{metric}_median_{unit}"], shown)]
    out += [(f"best_{name}_spread", words.spread([best[f"{metric}_{part}_{unit}"] for part in ("median", "low", "high")]), shown)]
    out += [(f"best_{name}_object_size", units.format_size(int(best["object_size_bytes"])), "")]
    out += [(f"best_{name}_{c}", best[c], "") for c in ("store", "n", "interval")]
    said = [c for c in ("engine", "clients", "workers", "front_ends") if c in best and not pd.isna(best[c])]
    out += [(f"best_{name}_{c}", words.value_text(c, best[c]), "") for c in said]
    return out


def _of_points(every: pd.DataFrame) -> list[tuple[str, Any, str]]:
    own = every[every["workload"] != calibration.WORKLOAD]
    points = own if len(own) else every  # a calibration is no result of a store; unless there is nothing else
    ok = points[points["state"] == "ok"]
    shared = int(ok["shared_host"].fillna(False).sum())
    out = [
        ("points", len(points), ""),
        ("points_measured", len(ok), ""),
        ("points_failed", int((every["state"] == "failed").sum()), ""),
        ("operations", ok["operations"].sum(), ""),
        ("errors", ok["errors"].sum(), ""),
        ("bytes_moved", units.human_size(float(ok["last_done_bytes"].sum())), ""),
        ("stores", words.counted(points["store"].nunique(), "storage system"), ""),
        ("drifting", (ok["steadiness"] == "drifting").sum(), ""),
        ("too_short", (ok["steadiness"] == "too short").sum(), ""),
        ("steady", (ok["steadiness"] == "steady").sum(), ""),
        ("shared_host", shared, ""),
        ("shared_host_of", f"all {len(ok)}" if shared == len(ok) else f"{shared} of the {len(ok)}", ""),
        ("over_nodes", int((ok["nodes"].fillna(1) > 1).sum()), ""),
        ("clients_most", words.plural(points["clients"].max(), "client"), ""),
        ("durations", words.span(points["duration_s"], "s"), ""),
        ("warm_ups", words.span(points["warm_up_s"], "s"), ""),
    ]
    other = ok["other_cpu_percent"].dropna()
    if len(other):
        out += [("other_cpu_median", other.median(), "%"), ("other_cpu_most", other.max(), "%")]
        out += [("disturbed", int((other > DISTURBED_PERCENT).sum()), ""), ("disturbed_from", DISTURBED_PERCENT, "%")]
    if len(ok):
        out += [("nodes_most", ok["nodes"].max(), "")]
        days = dict.fromkeys((ok["started"].min()[:10], ok["started"].max()[:10]))
        out += [("measured_on", " to ".join(days), "")]
        out += [("lateness_most", ok["lateness_max_ms"].max(), "ms")]
        out += [("tail_most", ok["tail_s"].max(), "s")] if ok["tail_s"].notna().any() else []  # probes have none
    return out


def _extreme(sparse: pd.DataFrame, column: str, largest: bool = True) -> pd.Series | None:
    """The row with the largest (or smallest) value of a column; None where no row has one."""
    values = sparse[column].dropna().astype(float)
    return sparse.loc[values.idxmax() if largest else values.idxmin()] if len(values) else None


def _of_reads(sparse: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Of reads by entries; the other reads stand in their own figures and tables."""
    out: list[tuple[str, Any, str]] = []
    sparse = sparse[sparse["workload"] == "read_entries"]
    for name, column, largest in (
        ("amplification_most", "amplification_median_ratio", True),
        ("amplification_least", "amplification_median_ratio", False),
        ("share_amplification_most", "share_amplification_median_ratio", True),
    ):
        row = _extreme(sparse, column, largest)
        if row is not None:
            out += [(name, row[column], ""), (f"{name}_entry_fraction", f"{row['entry_fraction_percent']:g} %", "")]
    for name, column, unit in (
        ("best_read_wire", "wire_median_mb_per_s", "MB/s"),
        ("best_read_entries", "entries_median_per_s", "entries/s"),
    ):
        row = _extreme(sparse, column)
        if row is not None:
            out += [(name, row[column], unit), (f"{name}_clients", words.plural(row["clients"], "client"), "")]
            out += [("best_read_wire_entries", row["entries_median_per_s"], "entries/s")] if name == "best_read_wire" else []
    return out


def _definitions() -> list[tuple[str, Any, str]]:
    """Constants of the definitions, so that the method's section cannot drift from the code."""
    return [
        ("steadiness_slices", windows.SLICES, ""),
        ("steadiness_shortest", windows.SHORTEST_S, "s"),
        ("steadiness_fewest", windows.FEWEST, ""),
        ("steadiness_drift", 100 * windows.DRIFT, "%"),
        ("steadiness_significance", 100 * windows.DRIFT_P, "%"),
        ("interval_least", medians.LEAST, ""),
        ("interval_confidence", "95 %", ""),
        ("noise_percentile", 100 * noise.PERCENTILE, "%"),
        ("curve_least", scaling.LEAST_VALUES, ""),
        ("large_object", units.format_size(LARGE), ""),
        *latency.definitions(),
    ]


def numbers(campaign: loading.Campaign, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """name (letters and '_'), value, unit, source: one row per number or word that the text may quote. Absent data, no row."""
    plan = campaign.plan["campaign"]
    said = {
        "campaign": plan["name"],
        "title": plan["title"] or f"Storage measurements: {plan['name']}",
        "authors": ", ".join(plan["authors"]),
    }
    rows = [(name, value, "", "plan.json") for name, value in (said | {k: plan[k] for k in ("seed", "repetitions")}).items()]
    rows += [(*r, "points.csv") for r in _of_points(tables["points"])]
    for name in CLASSES:
        rows += [(*r, "throughput.csv") for r in _best(tables["throughput"], name)]
    rows += [(*r, "sparse.csv") for r in _of_reads(tables["sparse"])]
    rows += [(*r, "events.csv") for r in events.numbers(tables["events"])]
    rows += [(*r, "calibration.csv") for r in calibrated.numbers(tables["points"], tables["throughput"], tables["calibration"])]
    rows += [(*r, "latency.csv") for r in latency.numbers(tables["latency"])]
    rows += [(*r, "errors.csv") for r in errors.numbers(campaign, tables["points"], tables["errors"])]
    rows += [(*r, "resources.csv") for r in resources.numbers(tables["resources"])]
    rows += [(*r, "noise.csv") for r in noise.numbers(tables["noise"])]
    rows += [(*r, "scaling.csv") for r in scaling.numbers(tables["scaling"])]
    rows.append(("interval_text", words.interval_text(tables["throughput"]["n"]), "", "throughput.csv"))
    rows += [(*r, "the definitions") for r in _definitions()]
    rows += [(r["name"], r["value"], r["unit"], r["source"]) for r in published.numbers()]
    return pd.DataFrame(rows, columns=["name", "value", "unit", "source"])


def _flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Nested mappings as (dotted name, value); a mapping `packages` becomes one text."""
    if name == "packages":
        return [(name, ", ".join(f"{k} {v}" for k, v in sorted(value.items())))]
    if isinstance(value, Mapping):
        return [pair for k, v in value.items() for pair in _flat(v, f"{name}.{k}" if name else str(k))]
    if isinstance(value, list):
        return [(name, ", ".join(map(str, value)))]
    return [(name, value)]


def environment(campaign: loading.Campaign) -> pd.DataFrame:
    """group, item, value, points: what the machine captured, and for how many measured points it holds."""
    counts: dict[tuple[str, str, str], int] = {}
    for run in campaign.runs.values():
        store, engine = run.get("store") or {}, run.get("engine") or {}
        parts = {
            f"store {store.get('name', '')}": {k: v for k, v in store.items() if k != "name"},
            f"engine {engine.get('name', '')}": {k: engine.get(k) for k in ("version", "settings", "requests_per_operation")},
            "environment": run.get("environment") or {},
            "clients": {"hosts": len({c.get("host") for c in run["clients"]})},
            "checks": {c["name"]: "passed" if c["ok"] else "failed" for c in run.get("checks") or []},
        }
        for group, values in parts.items():
            for item, value in _flat(values):
                triple = (group, item, "" if value is None else str(value))
                counts[triple] = counts.get(triple, 0) + 1
    rows = [(*triple, n) for triple, n in sorted(counts.items())]
    return pd.DataFrame(rows, columns=["group", "item", "value", "points"])
