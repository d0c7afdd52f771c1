"""Reads of selections (`sparse.csv`) and events processed by jobs (`events.csv`), and the bytes moved for them.

`sparse.csv` has bytes, requests and time of a read, amplification and entries per second for each group of points.

`events.csv` follows the storage laboratory of the HEPiX Storage Working Group (progress notes, September 2010), which
counted useful work instead of MB/s. An event counts once for each completed step that decoded it. Rates and bytes per
event are estimates for all jobs in the `overlap` window (`windows.closed_loop`). They do not include the opening of
files (`windows.separate_reads`). The totals do include it. They cover all steps from the agreed start until the first
job stopped.
"""

from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import windows
from storelab.analysis.records.campaign import Campaign
from storelab.core.engines import merges

SPARSE_METRICS = (
    *((name, "mb_per_read") for name in ("needed", "asked", "wire")),
    ("requests", "per_read"),
    ("amplification", "ratio"),
    ("share_amplification", "ratio"),
    ("reads", "per_s"),
    ("entries", "per_s"),
    ("needed", "mb_per_s"),
    ("wire", "mb_per_s"),
    *((phase, "s_per_read") for phase in windows.PHASES),
    *windows.OPENED,
)
PER_READ = ("entries", "branches", "baskets")
SPARSE_COLUMNS = (*groups.COUNTS, "few", "reads", "shared_host", *groups.CPU, *PER_READ, *groups.spread(SPARSE_METRICS))


def read_points(campaign: Campaign, points: pd.DataFrame, axes: dict[str, str]) -> pd.DataFrame:
    """Return the points with reads, joined with `windows.reads`, and `share_amplification_ratio`.

    This ratio is wire bytes per read divided by the entries' share of the volume. The share is the number of needed
    bytes of the same selection at 100 % of the entries, times the fraction of the entries. This measure is used because
    it is the only one that can be computed from the published numbers. It is null if no point with 100 % was measured.
    Reads by volume read all entries, and are used if reads by entries have no such point.
    """
    found = windows.reads(campaign)
    both = points[points["state"] != "invalid"]
    both = both.merge(found, left_on="key", right_index=True, how="inner", suffixes=("", "_of_reads"))
    both["share_amplification_ratio"] = np.nan
    if both.empty or "entry_fraction_percent" not in both:
        return both
    # The workload read_volume reads all entries and does not have this axis.
    both.loc[both["workload"] == "read_volume", "entry_fraction_percent"] = 100.0
    by = [c for c in ("store", *axes) if c not in ("entry_fraction_percent", "clients")]
    for _, same in groups.grouped(both, by):
        of_all = same[same["entry_fraction_percent"] == 100]
        for workload, g in same.groupby("workload"):
            whole = of_all[of_all["workload"] == workload]
            whole = whole if len(whole) else of_all
            if len(whole):
                volume, entries = whole["needed_mb_per_read"].median(), whole["entries_per_read"].median()
                share = g["wire_mb_per_read"] / (volume * g["entries_per_read"] / entries)
                both.loc[g.index, "share_amplification_ratio"] = share
    return both


def sparse_table(both: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per group of `read_points`, with medians over the runs of the columns of `windows.reads`.

    The column `reads` is the sum over the runs.
    """
    how = {"reads": "sum"} | dict.fromkeys(PER_READ, "median")
    both = both.rename(columns={f"{name}_per_read": name for name in PER_READ})
    return groups.summarised(both, by, SPARSE_METRICS, [*by, *SPARSE_COLUMNS], how, counted="reads_per_s")


def _extreme(table: pd.DataFrame, column: str, largest: bool = True) -> pd.Series | None:
    """Return the row with the largest (or smallest) value of a column, or None if no row has a value."""
    values = table[column].dropna().astype(float)
    return table.loc[values.idxmax() if largest else values.idxmin()] if len(values) else None


def all_branch_reads(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the reads of all branches.

    Reads of a few branches are excluded, because a planner can read a whole file for a few of their entries.
    """
    if "volume_fraction_percent" not in rows:
        return rows
    return rows[rows["volume_fraction_percent"].fillna(100) == 100]


def entries_read(row: pd.Series, table: pd.DataFrame) -> tuple[float, float] | None:
    """Return the number of entries of a read and of the whole file, or None if either is not known.

    The number for the whole file is that of a read of 100 %. A read has at least one entry, so that the fraction of a
    small file can differ from the requested fraction.
    """
    if "entries" not in table or pd.isna(row["entries"]):
        return None
    whole = table.loc[table["entry_fraction_percent"] == 100, "entries"].dropna()
    return (float(row["entries"]), float(whole.max())) if len(whole) else None


def sparse_numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about reads of entries of all branches.

    Other reads have separate figures and tables. If all amplifications are equal after rounding, they are omitted.
    """
    out: list[tuple[str, Any, str]] = []
    table = all_branch_reads(table[table["workload"] == "read_entries"])
    amplifications = table["amplification_median_ratio"].dropna().map(labels.number)
    for name, column, largest in (
        ("amplification_most", "amplification_median_ratio", True),
        ("amplification_least", "amplification_median_ratio", False),
        ("share_amplification_most", "share_amplification_median_ratio", True),
    ):
        row = _extreme(table, column, largest)
        if row is not None and (name.startswith("share") or amplifications.nunique() > 1):
            known = entries_read(row, table)
            percent = 100 * known[0] / known[1] if known else row["entry_fraction_percent"]
            out += [(name, row[column], ""), (f"{name}_entry_fraction", f"{percent:.3g} %", "")]
    for name, column, unit in (
        ("best_read_wire", "wire_median_mb_per_s", "MB/s"),
        ("best_read_entries", "entries_median_per_s", "entries/s"),
    ):
        row = _extreme(table, column)
        if row is not None:
            out += [(name, row[column], unit), (f"{name}_clients", labels.plural(row["clients"], "client"), "")]
            if name == "best_read_wire":
                out += [("best_read_wire_entries", row["entries_median_per_s"], "entries/s")]
    return out


WORKLOAD = "events"
NAVIGATIONS = ("scan", "random")
CLIENT = ("engine", "cache", "read_ahead_bytes", "thrift", "max_amplification")  # axes that are settings of the client
EVENT_METRICS = (
    ("events", "per_s"),
    ("wire", "mb_per_s"),
    ("asked", "mb_per_s"),
    ("needed", "mb_per_s"),
    ("wire", "bytes_per_event"),
    ("needed", "bytes_per_event"),
    ("requests", "per_event"),
    ("amplification", "ratio"),
    ("processed", "events"),
    ("moved", "mb"),
    *windows.OPENED,
)
_STEPS = f"""
SELECT key, coalesce(sum(entries) FILTER (done), 0) AS processed_events,
  CASE WHEN count(*) = count(wire_bytes)
    THEN coalesce(sum(wire_bytes + opening_wire_bytes) FILTER (done), 0) / 1e6 END AS moved_mb,
  {windows.OPENING}
FROM (SELECT *, end_ns <= first_end_ns AS done FROM apart)
GROUP BY key"""
_RATES = {
    "events_per_s": "entries",
    "wire_mb_per_s": f"wire_bytes / {windows.MB}",
    "asked_mb_per_s": f"asked_bytes / {windows.MB}",
    "needed_mb_per_s": f"needed_bytes / {windows.MB}",
    "requests_per_s": "requests",
}


def event_runs(campaign: Campaign) -> pd.DataFrame:
    """Return one row per key (the index) of the workload `events`.

    Columns: `<name>_<unit>` of EVENT_METRICS; nodes: number of hosts of the jobs; rate_operations: number of steps used
    for the rates. wire: null if the transport does not record it (a local file), or lost a connection; asked: bytes of
    the requested ranges, which are always known. Bytes per event are the rate of bytes divided by the rate of events.
    """
    con = windows.separate_reads(campaign, [p["key"] for p in campaign.measured(WORKLOAD)])
    if con is None:
        return pd.DataFrame(index=pd.Index([], name="key"))
    totals = con.execute(_STEPS).df().set_index("key").astype(float)
    out = totals.join(windows.closed_loop(con, windows.READ_LANES, _RATES))
    events, needed, wire = (out[c].where(out[c] > 0) for c in ("events_per_s", "needed_mb_per_s", "wire_mb_per_s"))
    out["wire_bytes_per_event"] = windows.MB * wire / events
    out["needed_bytes_per_event"] = windows.MB * needed / events
    out["requests_per_event"], out["amplification_ratio"] = out.pop("requests_per_s") / events, wire / needed
    out["nodes"] = pd.Series({key: len({c.get("host") for c in campaign.runs[key]["clients"]}) for key in out.index})
    return out


def with_event_points(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return one row per valid run of the workload `events`, with the columns of points.csv and of `event_runs`."""
    both = points[(points["workload"] == WORKLOAD) & (points["state"] == "ok")]
    return both.merge(event_runs(campaign), left_on="key", right_index=True, suffixes=("", "_of_steps"))


def events_table(both: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per group of points of the workload `events`, with medians over the runs and their intervals.

    by: the columns that make a group; `clients` is the number of jobs.
    """
    columns = [*by, *groups.COUNTS, "few", "nodes", *groups.SHARED, *groups.spread(EVENT_METRICS)]
    return groups.summarised(both, by, EVENT_METRICS, columns, {"nodes": "max"}, counted="events_per_s")


def setting(row: Any) -> str:
    """Return in words how a job read, such as `readahead of 1 MiB`, `no cache` or `planned`.

    row: mapping with the axes of CLIENT.
    """
    if merges(row["engine"]) == "planned":
        more = [
            f"{labels.heading(c).lower()} {row[c]:g}"
            for c in ("thrift", "max_amplification")
            if row.get(c) and not pd.isna(row[c])
        ]
        return ", ".join(["planned", *more])
    if not row["read_ahead_bytes"]:
        return {"none": "no cache", "all": "whole file kept"}[row["cache"]]
    return f"{row['cache']} of {labels.cell('read_ahead_bytes', row['read_ahead_bytes'])}"


def comparable(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `events.csv` that differ only in settings of the client.

    If there are several groups of these rows, the one with the most settings is returned, then with the most jobs.
    """
    by = ["store", *(c for c in labels.axes_of(rows) if c not in CLIENT)]
    groups = [group for _, group in rows.groupby(by, dropna=False)]
    return max(groups, key=lambda g: (len(g), g["clients"].iloc[0])) if groups else rows


def events_numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about events, by navigation.

    The numbers compare the settings of the client with the most and the fewest events, on the same store and with the
    same number of jobs. They also give the range of this factor over all stores, and the gain of planned reads over
    reading ahead.
    """
    out: list[tuple[str, Any, str]] = []
    for navigation in NAVIGATIONS:
        rows = found[found["navigation"] == navigation] if len(found) else found
        rows = rows[rows["events_median_per_s"] > 0] if len(rows) else rows
        stores = [comparable(store_rows) for _, store_rows in rows.groupby("store")] if len(rows) else []
        out += _planned(navigation, stores)
        factors = [g["events_median_per_s"].max() / g["events_median_per_s"].min() for g in stores if len(g) > 1]
        rows = comparable(rows) if len(rows) else rows
        if len(rows) < 2:
            continue
        ranked = rows.sort_values("events_median_per_s")
        name, least, most = f"events_{navigation}", ranked.iloc[0], ranked.iloc[-1]
        out += [
            (f"{name}_jobs", labels.plural(least["clients"], "job"), ""),
            (f"{name}_store", least["store"], ""),
            (f"{name}_factor", most["events_median_per_s"] / least["events_median_per_s"], ""),
            *([(f"{name}_factor_span", _span(factors), "")] if len(factors) > 1 else []),
        ]
        for which, row in (("least", least), ("most", most)):
            wire, requested = row["wire_median_mb_per_s"], row["asked_median_mb_per_s"]
            out += [
                (f"{name}_{which}", row["events_median_per_s"], "events/s"),
                (f"{name}_{which}_moved", requested if pd.isna(wire) else wire, "MB/s"),
                (f"{name}_{which}_setting", setting(row), ""),
            ]
    return out


def _planned(navigation: str, stores: list[pd.DataFrame]) -> list[tuple[str, Any, str]]:
    """Return the factors of events and of bytes per event between reading ahead and planned reads.

    For reading ahead, the largest window is used; for planned reads, the setting without limits. The factors are ranges
    over the stores that have both. The number of stores for which the bytes decreased is also returned.
    """
    events, moved = [], []
    for rows in stores:
        ahead = rows[rows["cache"] == "readahead"].sort_values("read_ahead_bytes").tail(1)
        planned = rows[rows.apply(setting, axis=1) == "planned"].head(1)
        if len(ahead) and len(planned):
            known = "wire" if ahead["wire_median_mb_per_s"].notna().all() else "asked"
            speeds = [reads["events_median_per_s"].iloc[0] for reads in (ahead, planned)]
            each = [reads[f"{known}_median_mb_per_s"].iloc[0] for reads in (ahead, planned)]
            events.append(speeds[1] / speeds[0])
            moved.append(each[1] / speeds[1] / (each[0] / speeds[0]))
    if not moved:
        return []
    name, fewer = f"events_{navigation}_planned", sum(factor < 1 for factor in moved)
    which = f"{fewer} of {labels.plural(len(moved), 'system')}"
    out = [(name, _span(events), ""), (f"{name}_moved", _span(moved), "")]
    return [*out, *([(f"{name}_fewer", which, "")] if fewer else [])]


def _span(factors: list[float]) -> str:
    return " to ".join(dict.fromkeys(labels.number(v) for v in (min(factors), max(factors))))
