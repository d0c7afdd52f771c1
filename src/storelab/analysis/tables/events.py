"""`events.csv`: events that jobs processed, and what moved for each of them.

After the storage laboratory of the HEPiX Storage Working Group (progress notes, September 2010): useful work stands
before MB/s. An event counts once for each step that decoded it, if the step was completed. Rates and what moved per
event are estimates of `rates.closed_loop` in the `overlap` window of `windows`, of all jobs together, and of reading
only (`windows.apart` separates it from opening). The totals are of all steps from the agreed start until the first job
stopped, opening of the files included.
"""

from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import rates, windows
from storelab.analysis.records.campaign import Campaign
from storelab.core.engines import merges

WORKLOAD = "events"
NAVIGATIONS = ("scan", "random")
CLIENT = ("engine", "cache", "read_ahead_bytes", "thrift", "max_amplification")  # axes that are settings of the client
METRICS = (
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
COLUMNS = tuple(groups.spread(METRICS))
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


def runs(campaign: Campaign) -> pd.DataFrame:
    """Per key (the index) of the workload: the columns `<name>_<unit>` of METRICS, nodes (hosts that the jobs ran on),
    and rate_operations (steps that the rates rest on).

    wire: null where the transport does not tell it (a local file), or lost a connection; asked: what the ranges asked
    for, told by all. What moved per event is the ratio of the two rates.
    """
    con = windows.apart(campaign, [p["key"] for p in campaign.measured(WORKLOAD)])
    if con is None:
        return pd.DataFrame(index=pd.Index([], name="key"))
    totals = con.execute(_STEPS).df().set_index("key").astype(float)
    out = totals.join(rates.closed_loop(con, windows.READ_LANES, _RATES))
    events, needed, wire = (out[c].where(out[c] > 0) for c in ("events_per_s", "needed_mb_per_s", "wire_mb_per_s"))
    out["wire_bytes_per_event"] = windows.MB * wire / events
    out["needed_bytes_per_event"] = windows.MB * needed / events
    out["requests_per_event"], out["amplification_ratio"] = out.pop("requests_per_s") / events, wire / needed
    out["nodes"] = pd.Series({key: len({c.get("host") for c in campaign.runs[key]["clients"]}) for key in out.index})
    return out


def with_points(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """One row per valid run: its columns of points.csv, and those of `runs`."""
    both = points[(points["workload"] == WORKLOAD) & (points["state"] == "ok")]
    return both.merge(runs(campaign), left_on="key", right_index=True, suffixes=("", "_of_steps"))


def table(both: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of `events` points (columns `by`; `clients` are the jobs): medians over the runs with range or
    interval."""
    columns = [*by, *groups.COUNTS, "few", "nodes", "shared_host", *groups.CPU, "duration_s", *COLUMNS]
    return groups.summarised(both, by, METRICS, columns, _more, counted="events_per_s")


def _more(group: pd.DataFrame) -> dict[str, Any]:
    return {
        "nodes": int(group["nodes"].max()),
        "shared_host": bool(group["shared_host"].any()),
        "duration_s": group["duration_s"].iloc[0],
        **{name: group[name].astype(float).median() for name in groups.CPU},
    }


def setting(row: Any) -> str:
    """How a job read, in words: `readahead of 1 MiB`, `no cache`, `planned`. row: mapping with the axes of CLIENT."""
    if merges(row["engine"]) == "planned":
        more = [
            f"{words.heading(c).lower()} {row[c]:g}"
            for c in ("thrift", "max_amplification")
            if row.get(c) and not pd.isna(row[c])
        ]
        return ", ".join(["planned", *more])
    if not row["read_ahead_bytes"]:
        return {"none": "no cache", "all": "whole file kept"}[row["cache"]]
    return f"{row['cache']} of {words.cell('read_ahead_bytes', row['read_ahead_bytes'])}"


def comparable(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the rows of `events.csv` the group that differs in nothing but settings of the client: that with the most
    settings, then the most jobs."""
    by = ["store", *(c for c in words.axes_of(rows) if c not in CLIENT)]
    groups = [group for _, group in rows.groupby(by, dropna=False)]
    return max(groups, key=lambda g: (len(g), g["clients"].iloc[0])) if groups else rows


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """(name, value, unit): by navigation, the settings of the client with the most and the fewest events on the same
    store with the same jobs, and the span of their factors over all stores; what planned reads bring instead of reading
    ahead."""
    out: list[tuple[str, Any, str]] = []
    for navigation in NAVIGATIONS:
        rows = found[found["navigation"] == navigation] if len(found) else found
        rows = rows[rows["events_median_per_s"] > 0] if len(rows) else rows
        stores = [comparable(own) for _, own in rows.groupby("store")] if len(rows) else []
        out += _planned(navigation, stores)
        factors = [g["events_median_per_s"].max() / g["events_median_per_s"].min() for g in stores if len(g) > 1]
        rows = comparable(rows) if len(rows) else rows
        if len(rows) < 2:
            continue
        ranked = rows.sort_values("events_median_per_s")
        name, least, most = f"events_{navigation}", ranked.iloc[0], ranked.iloc[-1]
        out += [
            (f"{name}_jobs", words.plural(least["clients"], "job"), ""),
            (f"{name}_store", least["store"], ""),
            (f"{name}_factor", most["events_median_per_s"] / least["events_median_per_s"], ""),
            *([(f"{name}_factor_span", _span(factors), "")] if len(factors) > 1 else []),
        ]
        for which, row in (("least", least), ("most", most)):
            wire, asked = row["wire_median_mb_per_s"], row["asked_median_mb_per_s"]
            out += [
                (f"{name}_{which}", row["events_median_per_s"], "events/s"),
                (f"{name}_{which}_moved", asked if pd.isna(wire) else wire, "MB/s"),
                (f"{name}_{which}_setting", setting(row), ""),
            ]
    return out


def _planned(navigation: str, stores: list[pd.DataFrame]) -> list[tuple[str, Any, str]]:
    """Return the factors of events and of bytes per event from reading ahead, with the largest window, to planned reads
    without limits, over the stores that have both, and on how many of them the bytes fell."""
    events, moved = [], []
    for rows in stores:
        ahead = rows[rows["cache"] == "readahead"].sort_values("read_ahead_bytes").tail(1)
        planned = rows[rows.apply(setting, axis=1) == "planned"].head(1)
        if len(ahead) and len(planned):
            known = "wire" if ahead["wire_median_mb_per_s"].notna().all() else "asked"
            speeds = [own["events_median_per_s"].iloc[0] for own in (ahead, planned)]
            each = [own[f"{known}_median_mb_per_s"].iloc[0] for own in (ahead, planned)]
            events.append(speeds[1] / speeds[0])
            moved.append(each[1] / speeds[1] / (each[0] / speeds[0]))
    if not moved:
        return []
    name, fewer = f"events_{navigation}_planned", sum(factor < 1 for factor in moved)
    which = f"{fewer} of {words.plural(len(moved), 'system')}"
    out = [(name, _span(events), ""), (f"{name}_moved", _span(moved), "")]
    return [*out, *([(f"{name}_fewer", which, "")] if fewer else [])]


def _span(factors: list[float]) -> str:
    return " to ".join(dict.fromkeys(words.number(v) for v in (min(factors), max(factors))))
