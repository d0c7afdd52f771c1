"""`soak.csv`: the parts of a series in order of time, and `soak_trends.csv`: the trends over them.

Memory and open files are recorded by the monitor. Their values are medians of the second and of the last quarter of a
part. The daemons of a store run during all parts, so that their trend is computed over the parts. Clients are started
again for each part. Their growth is the difference between the last and the second quarter of a part (`..._within`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import labels
from storelab.analysis.records import scan, selection
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics import medians, steadiness

RUN_KEYS = ("key", "store", "workload", "rep", "state", "shared_host", "duration_s")
ROLE_COLUMNS = ("rate_per_s", "throughput_mb_per_s", "latency_p50_ms", "latency_p99_ms", "operations", "errors")
SEEN = ("rss_mb", "files")
USED = tuple(f"{who}_{what}{more}" for who in ("client", "server") for what in SEEN for more in ("", "_more"))
COLUMNS = ("series", "part", *RUN_KEYS, "hour", "role", "does", *ROLE_COLUMNS, "errors_percent", *USED)
# Trends over the parts: column -> metric. The metrics of STORE_COLUMNS have no role.
TRENDS = {
    "rate_per_s": "rate",
    "latency_p99_ms": "latency_p99",
    "errors_percent": "errors",
    "client_rss_mb": "client_rss",
    "client_files": "client_files",
}
STORE_COLUMNS = {"server_rss_mb": "server_rss", "server_files": "server_files"}
WITHIN = {"client_rss_mb": "client_rss_within", "client_files": "client_files_within"}
ONE_FILE = 1.0  # the smallest reported change of open files
UNITS = {"per_s": "1/s", "ms": "ms", "percent": "%", "mb": "MB", "files": "files"}
OVER = (
    "n",
    "level",
    "slope_per_hour",
    "slope_low_per_hour",
    "slope_high_per_hour",
    "change_percent",
    "change_low_percent",
    "change_high_percent",
    "tau",
    "p",
    "trend",
)
HEAD = ("series", "store", "workload", "rep", "role", "metric", "unit")
_QUARTERS = """
WITH moments AS (
  SELECT key, host, role, what, time_ns, any_value(agreed_ns) AS agreed_ns, any_value(lasts_ns) AS lasts_ns,
    sum(rss_bytes) / 1e6 AS rss_mb, CASE WHEN count(files) > 0 THEN sum(files) END AS files
  FROM (SELECT * EXCLUDE (role), CASE WHEN what = 'client' THEN role END AS role
        FROM rows JOIN lasting USING (key) LEFT JOIN clients USING (key, name))
  WHERE what IN ('client', 'server') GROUP BY key, host, role, what, time_ns),
hosts AS (
  SELECT key, host, role, what, least(3, 4 * (time_ns - agreed_ns) // lasts_ns) AS quarter,
    median(rss_mb) AS rss_mb, median(files) AS files
  FROM moments GROUP BY ALL)
SELECT key, role, what, quarter, sum(rss_mb) AS rss_mb, sum(files) AS files FROM hosts WHERE quarter IN (1, 3)
GROUP BY ALL"""


def _used(campaign: Campaign, keys: list[str]) -> pd.DataFrame:
    """Return memory and open files, one row per run and role: key, role (empty without roles), USED."""
    columns = ["key", "role", *USED]
    clients = [(key, str(client), role) for key in keys for role, client in _clients(campaign.runs[key])]
    known = pd.DataFrame([*dict.fromkeys((key, role) for key, _, role in clients)], columns=["key", "role"])
    if not keys or (con := scan.connect(campaign, "monitor", keys)) is None:
        return known.reindex(columns=columns)
    lasts = [(key, campaign.runs[key]["deadline_ns"] - campaign.runs[key]["start_ns"]) for key in keys]
    con.register("lasting", pd.DataFrame(lasts, columns=["key", "lasts_ns"]))
    con.register("clients", pd.DataFrame(clients, columns=["key", "name", "role"]))
    found = con.execute(_QUARTERS).df()
    for who in ("client", "server"):
        by = ["key", "role"] if who == "client" else ["key"]
        wide = found[found["what"] == who].pivot_table(index=by, columns="quarter", values=list(SEEN))
        for what in SEEN:
            first, last = (wide.get((what, q), pd.Series(np.nan, wide.index)) for q in (1, 3))
            both = pd.DataFrame({f"{who}_{what}": last, f"{who}_{what}_more": last - first}).reset_index()
            known = known.merge(both, on=by, how="left")
    return known.reindex(columns=columns)


def _clients(run: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return (role, rank) of each client of a run."""
    if "roles" not in run:
        return [("", c["client"]) for c in run["clients"]]
    return [(role["name"], rank) for role in run["roles"] for rank in role["clients"]]


def _rates(points: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Return rates and latencies, one row per run and role: key, role, does, ROLE_COLUMNS.

    For a run with phases, the values are sums over all phases. The quantiles are the highest of a phase.
    """
    sums = dict.fromkeys(("length_s", "operations", "work", "work_bytes", "errors"), "sum")
    most = dict.fromkeys(("latency_p50_ms", "latency_p99_ms"), "max")
    having = phases.groupby(["key", "role", "does"], sort=False, as_index=False).agg(sums | most)
    having["rate_per_s"] = having["work"] / having["length_s"]
    having["throughput_mb_per_s"] = having["work_bytes"] / 1e6 / having["length_s"]
    plain = points[~points["key"].isin(having["key"])]
    window = {f"overlap_{name}": name for name in ("rate_per_s", "throughput_mb_per_s", "operations", "errors")}
    plain = plain.drop(columns=["operations", "errors"]).rename(columns=window | {"workload": "does"}).assign(role="")
    columns = ["key", "role", "does", *ROLE_COLUMNS]
    return pd.concat([frame[columns].astype(dict.fromkeys(ROLE_COLUMNS, float)) for frame in (having, plain)])


def table(campaign: Campaign, points: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Return one row per measured part and role, by series and in order of time. Without roles, `role` is empty.

    Columns: series (the key without its part), part, RUN_KEYS, hour (the middle of the part, from the start of the
    first part), role, does, ROLE_COLUMNS, errors_percent (percentage of all operations), USED (megabytes and open files
    in the last quarter; `_more`: difference from the second quarter).
    """
    parts = selection.parts_of(key for key in points["key"] if key in campaign.runs)
    keys = [key for series in parts.values() for key in series]
    mine = points[points["key"].isin(keys)]
    if mine.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    places = []
    for name, series in parts.items():
        begin = min(campaign.runs[key]["start_ns"] for key in series)
        for key in series:
            middle = (campaign.runs[key]["start_ns"] + campaign.runs[key]["deadline_ns"]) / 2
            places.append((key, name, selection.split_part(key)[1], (middle - begin) / 3600e9))
    placed = pd.DataFrame(places, columns=["key", "series", "part", "hour"])
    rates = _rates(mine, phases[phases["key"].isin(keys)])
    both = placed.merge(mine[list(RUN_KEYS)], on="key").merge(rates, on="key")
    both = both.merge(_used(campaign, keys), on=["key", "role"], how="left")
    total = both["operations"] + both["errors"]
    both["errors_percent"] = 100 * both["errors"] / total.where(total > 0)
    order = {name: i for i, name in enumerate(parts)}
    both["place"] = both["series"].map(order)
    both["number"] = both.groupby(["series", "role"], sort=False).ngroup()
    both[["operations", "errors"]] = both[["operations", "errors"]].round()  # the warm-up can end within a bin
    both = both.sort_values(["place", "number", "part"], kind="stable")
    return both[list(COLUMNS)].reset_index(drop=True).astype({"operations": "Int64", "errors": "Int64"})


def over(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the trends over the valid parts, one row per series, role and metric: HEAD, OVER.

    For the metrics `..._within`, the slope is the growth within a part, per hour. It is the median over the parts with
    its interval.
    """
    rows = []
    for name, series in parts[parts["state"] == "ok"].groupby("series", sort=False):
        head = {"series": name} | {c: series[c].iloc[0] for c in ("store", "workload", "rep")}
        for role, group in series.groupby("role", sort=False):
            for column, metric in TRENDS.items():
                rows.append(head | {"role": role, "metric": metric} | _trend(group, column))
            for column, metric in WITHIN.items():
                rows.append(head | {"role": role, "metric": metric} | _within(group, column))
        once = series.drop_duplicates("key").sort_values("hour")
        for column, metric in STORE_COLUMNS.items():
            rows.append(head | {"role": "", "metric": metric} | _trend(once, column))
    found = [row for row in rows if row["n"]]
    return pd.DataFrame(found, columns=[*HEAD, *OVER])


def _unit(column: str) -> str:
    return next(unit for ending, unit in UNITS.items() if column.endswith(ending))


def _trend(rows: pd.DataFrame, column: str) -> dict[str, Any]:
    rows = rows.sort_values("hour")
    least = ONE_FILE if column.endswith("files") else None
    hours, values = rows["hour"].to_numpy(float), rows[column].astype(float).to_numpy()
    found = steadiness.trend(hours, values, least)
    after = hours - hours[np.isfinite(values)].min() if np.isfinite(values).any() else hours
    start = float(np.nanmedian(values - found.slope * after)) if np.isfinite(found.slope) else np.nan
    lasts = after[np.isfinite(values)].max(initial=0.0)
    slopes = (found.slope, found.low, found.high)
    changes = [_percent(slope * lasts, start) for slope in slopes]
    values_of_trend = (found.n, found.level, *slopes, *changes, found.tau, found.p, found.verdict)
    return {"unit": _unit(column)} | dict(zip(OVER, values_of_trend, strict=True))


def _percent(change: float, start: float) -> float:
    return 100 * change / abs(start) if start else np.nan


def _within(rows: pd.DataFrame, column: str) -> dict[str, Any]:
    """Return the columns OVER for the growth within a part.

    The growth is measured between the middles of the second and the last quarter, which is half the length of a part.
    """
    more, halves = rows[f"{column}_more"].astype(float), rows["duration_s"].astype(float) / 3600 / 2
    slope, growth = medians.summarise(more / halves), medians.summarise(more)
    level = float(rows[column].astype(float).median())
    changes = [_percent(part, level - growth.median) for part in (growth.median, growth.low, growth.high)]
    verdict = steadiness.FLAT if slope.n >= medians.MIN_RUNS else steadiness.TOO_FEW
    least = ONE_FILE if column.endswith("files") else steadiness.MIN_TREND * level
    if verdict == steadiness.FLAT and slope.low * slope.high > 0 and abs(growth.median) >= least:
        verdict = steadiness.RISES if growth.median > 0 else steadiness.FALLS
    values = (slope.n, level, slope.median, slope.low, slope.high, *changes, np.nan, np.nan, verdict)
    return {"unit": _unit(column)} | dict(zip(OVER, values, strict=True))


TREND_WORDS = {steadiness.RISES: "rose", steadiness.FALLS: "fell"}
NAMES = {
    "rate": "rate",
    "latency_p99": "p99 of the latency",
    "errors": "failed operations",
    "client_rss": "memory of the clients",
    "client_files": "open files of the clients",
    "client_rss_within": "memory of the clients within a part",
    "client_files_within": "open files of the clients within a part",
    "server_rss": "memory of the store",
    "server_files": "open files of the store",
}


def in_words(row: Mapping[str, Any]) -> str:
    """Return the metric and the role of a row in words, such as `p99 of the latency (uploads)`."""
    return NAMES[row["metric"]] + (f" ({row['role']})" if isinstance(row["role"], str) and row["role"] else "")


def change_text(row: Mapping[str, Any], factor: int = 1, gap: str = " ") -> str:
    """Return the change in percent with its interval, to two digits. factor: -1 for a decrease."""
    change, *ends = (round(factor * float(row[f"change_{part}percent"]), 3) for part in ("", "low_", "high_"))
    text, *interval = (labels.number(v, significant=2, gap=gap) for v in (change, *sorted(ends)))
    return f"{text} [{', '.join(interval)}]" if np.isfinite(ends).all() and len({*interval}) > 1 else text


def moved(row: Mapping[str, Any]) -> str:
    """Return the trend in words, such as `p99 of the latency (uploads) rose by 140 [79, 270] %`."""
    change = change_text(row, -1 if row["trend"] == steadiness.FALLS else 1)
    return f"{in_words(row)} {TREND_WORDS[row['trend']]} by {change} %"


def titles(names: Sequence[str]) -> dict[str, str]:
    """Return the title of each series: store, workload, and the settings that differ between series of the workload."""
    texts = {name: labels.key_text(name) for name in dict.fromkeys(names)}
    out = {}
    for name, (store, workload, *rest) in texts.items():
        others = [other for other in texts.values() if other[1] == workload]
        differing = [part for part in rest if not all(part in other for other in others)]
        out[name] = ", ".join([store, labels.value_text("workload", workload), *differing])
    return out


def hours(parts: pd.DataFrame) -> "pd.Series[float]":
    """Return the duration of each series in hours, from the start of its first part to the end of its last part."""
    return (parts["hour"] + parts["duration_s"].astype(float) / 7200).groupby(parts["series"]).max()


def numbers(parts: pd.DataFrame, found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about series. Without data, the list is empty.

    soak_parts: largest number of parts; soak_hours: duration of the longest series; soak_least: smallest reported
    change; soak_moving: metrics that rise or fall, in words; soak_own_memory, soak_own_files: growth of the clients
    within a part, the largest median over the parts.
    """
    ok = parts[parts["state"] == "ok"]
    if ok.empty:
        return []
    out: list[tuple[str, Any, str]] = [
        ("soak_parts", int(ok.groupby("series")["part"].nunique().max()), ""),
        ("soak_hours", float(f"{hours(ok).max():.3g}"), "h"),
        ("soak_least", 100 * steadiness.MIN_TREND, "%"),
    ]
    moving = found[found["trend"].isin([steadiness.RISES, steadiness.FALLS])]
    trends = [moved(row) for _, row in moving.iterrows()]
    if trends:
        out.append(("soak_moving", "; ".join(dict.fromkeys(trends)), ""))
    more = ok.assign(memory=100 * ok["client_rss_mb_more"] / (ok["client_rss_mb"] - ok["client_rss_mb_more"]))
    for name, column, unit in (("memory", "memory", "%"), ("files", "client_files_more", "")):
        medians_by_series = more.groupby(["series", "role"])[column].median().dropna()
        if len(medians_by_series):
            out.append(
                (f"soak_own_{name}", medians_by_series.iloc[int(medians_by_series.abs().to_numpy().argmax())], unit)
            )
    return out
