"""Views from a figure down to the records: a symbol, its points, and one point with its clients, workers and errors.

DuckDB reads all raw operations of a point. Seconds count from the agreed start. Latencies count from the time when an
operation was due, or from its start if it had no such time. Menus list first the points of engines that record workers
and the start of each operation.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from storelab.analysis.explore import opened, operations, overview
from storelab.analysis.explore.opened import Displayable, Menu, Opened, escaped
from storelab.analysis.figures import catalogue, plots
from storelab.analysis.figures.specification import Specification, select
from storelab.analysis.parts import labels
from storelab.analysis.records import scan, windows
from storelab.analysis.report.build import behind
from storelab.analysis.statistics.medians import WIDTH, enough, histogram_quantiles

MAX_CLIENTS = 10  # maximum number of clients in a legend
MAX_OPS, CELLS = 4, 40  # maximum number of panels of latency; number of cells from the shortest to the longest latency
LEVELS = {"p50": 0.5, "p99": 0.99}
EVERY = -1  # number that means all clients
SLOWEST = 10  # number of slowest operations that are listed
STEPS, MIN_POSITIONS = 50, 10  # maximum and minimum number of steps over the time of a point
FOR_P99 = 100  # number of operations that a step needs for its p99
ANY = "any point"  # entry of the menu of figures that means no figure
WINDOW_COLUMNS = ("begin_s", "end_s", "length_s", "operations", "errors", "throughput_mb_per_s", "rate_per_s")
POINT_COLUMNS = (
    "key",
    "state",
    "overlap_rate_per_s",
    "overlap_throughput_mb_per_s",
    "operations",
    "errors",
    "steadiness",
)
NO_WORKERS = "The engine does not report which worker did an operation."
NO_STARTS = "The engine does not report when single operations began."
_MS = "(end_ns - coalesce(intended_ns, start_ns)) / 1e6"
_TIMED = "FILTER (error IS NULL AND start_ns IS NOT NULL)"
_WORK = f"""
  coalesce(sum(count) FILTER (error IS NULL), 0)::BIGINT AS operations,
  coalesce(sum(count) FILTER (error IS NOT NULL), 0)::BIGINT AS errors,
  coalesce(sum(bytes) FILTER (error IS NULL), 0) / 1e6 AS mb,
  min(end_ns - agreed_ns) / 1e9 AS first_end_s, max(end_ns - agreed_ns) / 1e9 AS last_end_s,
  quantile_cont({_MS}, 0.5) {_TIMED} AS p50_ms, quantile_cont({_MS}, 0.99) {_TIMED} AS p99_ms,
  max({_MS}) {_TIMED} AS max_ms
FROM rows"""
CLIENTS = f"SELECT client, nullif(count(DISTINCT worker), 0) AS workers,{_WORK} GROUP BY client ORDER BY client"
_ONE = "($client < 0 OR client = $client)"
WORKERS = f"SELECT client, worker,{_WORK} WHERE worker IS NOT NULL AND {_ONE} GROUP BY ALL ORDER BY ALL"
ERRORS = f"""
SELECT error, status, op, client, worker, sum(count)::BIGINT AS operations, min(end_ns - agreed_ns) / 1e9 AS first_s,
  max(end_ns - agreed_ns) / 1e9 AS last_s, min(object) AS object
FROM rows WHERE error IS NOT NULL AND {_ONE} GROUP BY error, status, op, client, worker
ORDER BY operations DESC, error, status, op, client, worker"""
LONGEST = f"""
SELECT client, worker, op, object, (end_ns - agreed_ns) / 1e9 AS end_s, {_MS} AS ms
FROM rows WHERE error IS NULL AND start_ns IS NOT NULL AND {_ONE}
ORDER BY ms DESC, end_s LIMIT {SLOWEST}"""


def figures(o: Opened) -> Menu:
    """Return the menu of figures whose symbols are points, followed by ANY.

    Figures with the most detailed records are first.
    """
    found = [name for name, spec in catalogue.figures_of_plan(o.plan).items() if isinstance(spec, Specification)]
    known = {name: _keys(o, name).explode() for name in found}
    best = {name: keys.map(_details(o)).max() for name, keys in known.items() if len(keys)}
    ordered = sorted(best, key=lambda name: -best[name])
    return [*((name, name) for name in ordered), *([(ANY, ANY)] if measured(o) else [])]


def _details(o: Opened) -> dict[str, int]:
    """Return how detailed the records of operations are: key -> number.

    The number is 0, plus 1 if the workers are recorded, plus 1 if the starts of operations are recorded.
    """
    if "details" not in o.known:
        con = scan.connect(o.campaign, "ops")
        counted = "SELECT key, (count(worker) > 0)::INT + (count(start_ns) > 0)::INT FROM rows GROUP BY key"
        o.known["details"] = dict(con.execute(counted).fetchall()) if con else {}
    return o.known["details"]


def symbols(o: Opened, figure: str | None) -> Menu:
    """Return the menu of symbols of a figure. A symbol is a row of the figure's table; its value is the row's index."""
    if figure in (None, ANY):
        return [("all points", ANY)] if figure else []
    rows = _rows(o, figure)
    named = [c for c in overview.varying(rows) if c in rows] if len(rows) else []
    details = _keys(o, figure).map(lambda keys: max(_details(o).get(key, 0) for key in keys))
    return [
        (", ".join(filter(None, (labels.value_text(c, row[c]) for c in named))) or "the only one", place)
        for place, row in rows.loc[details.sort_values(ascending=False, kind="stable").index].iterrows()
    ]


def _rows(o: Opened, figure: str) -> pd.DataFrame:
    """Return the rows that a figure draws and that belong to points, with their index in the whole table."""
    return o.full_table(catalogue.figures_of_plan(o.plan)[figure].table).loc[_keys(o, figure).index]


def _keys(o: Opened, figure: str) -> pd.Series:
    """Return the keys of the points that belong to each row of a figure, with the row's index in the whole table."""
    spec = catalogue.figures_of_plan(o.plan)[figure]
    whole = o.full_table(spec.table)
    if "n" not in whole:
        return pd.Series(dtype=object)
    if ("behind", spec.table) not in o.known:
        o.known["behind", spec.table] = behind(whole, o.full_table("points"))
    every = o.full_table("points")["key"]
    rows = select(o.table(spec.table), spec.where)
    places = pd.Series(o.known["behind", spec.table], index=whole.index, dtype=str)[rows.index]
    return places[places != ""].map(lambda named: [every.iloc[int(place)] for place in named.split()])


def measured(o: Opened) -> Menu:
    """Return the menu of valid points, ordered by the detail of their records, then by their number of clients."""
    rows = opened.systems(o.table("points"))
    rows = rows[rows["state"] == "ok"]
    rows = rows.assign(details=rows["key"].map(_details(o)).fillna(0))
    rows = rows.sort_values(["details", "clients_joined", "order"], ascending=[False, False, True])
    return [(", ".join(labels.key_text(key)), key) for key in rows["key"]]


def points(o: Opened, figure: str | None, symbol: Any) -> Menu:
    """Return the menu of points that belong to a symbol."""
    if figure is None or symbol is None:
        return []
    if figure == ANY:
        return measured(o)
    return [(", ".join(labels.key_text(key)), key) for key in _keys(o, figure)[symbol]]


def clients(o: Opened, figure: str | None, symbol: Any, point: str | None) -> Menu:
    """Return the menu of clients of a point. The first entry means all clients."""
    run = o.campaign.runs.get(point or "")
    named = run["clients"] if run else []
    return [("all", EVERY), *((f"client {i}", i) for i in range(len(named)))]


def down(
    o: Opened, figure: str | None = None, symbol: Any = None, point: str | None = None, client: int | None = EVERY
) -> Iterator[Displayable]:
    """Show the table row of a symbol, its points, and one point in detail (`show_point`)."""
    if figure is None or symbol is None or point is None:
        yield "This campaign has no valid point."
        return
    if figure == ANY:
        yield from show_point(o, point, EVERY if client is None else client)
        return
    rows = _rows(o, figure)
    spec = catalogue.figures_of_plan(o.plan)[figure]
    assert isinstance(spec, Specification)
    drawn = [curve.column(part) for m in spec.measures for curve in m.curves for part in ("median", "low", "high")]
    shown = [*overview.varying(rows), "n", *(c for c in dict.fromkeys(drawn) if c in rows)]
    yield f"#### The symbol, a row of `{spec.table}.csv`"
    yield rows.loc[[symbol], shown].dropna(axis="columns")
    yield "#### Its points"
    every, keys = o.full_table("points"), [key for _, key in points(o, figure, symbol)]
    yield every.loc[every["key"].isin(keys), list(POINT_COLUMNS)].dropna(axis="columns", how="all")
    yield from show_point(o, point, EVERY if client is None else client)


def show_point(o: Opened, point: str, client: int = EVERY) -> Iterator[Displayable]:
    """Show a point over time, its clients, and workers, errors and slowest operations of one client or of all."""
    yield f"#### {escaped(', '.join(labels.key_text(point)))}"
    if (failed := o.campaign.failures.get(point)) is not None:
        yield f"This point has no record: {escaped(str(failed['reason']))}"
        return
    con = scan.connect(o.campaign, "ops", [point])
    if con is None:
        yield "This point has no record of operations."
        return
    yield from over_time(o, point)
    yield "#### Its clients"
    yield con.execute(CLIENTS).df().dropna(axis="columns", how="all")
    which = "all clients" if client == EVERY else f"client {client}"
    workers = con.execute(WORKERS, {"client": client}).df()
    yield f"#### Workers of {which}"
    yield (workers.dropna(axis="columns", how="all") if len(workers) else NO_WORKERS)
    errors = con.execute(ERRORS, {"client": client}).df()
    yield f"#### Errors of {which}"
    yield errors if len(errors) else "No operation failed."
    longest = con.execute(LONGEST, {"client": client}).df()
    yield f"#### Slowest operations of {which}"
    yield longest if len(longest) else NO_STARTS


def over_time(o: Opened, point: str) -> Iterator[Displayable]:
    """Show the completions of each client of a point, the distribution of latencies, and the windows.

    Rates are computed in the window `overlap` (grey).
    """
    rows = o.full_table("points")
    row = rows[rows["key"] == point].iloc[0]
    overlap = (row["overlap_begin_s"], row["overlap_end_s"])
    yield completions_picture(windows.completions(o.campaign, point, slices=STEPS), overlap)
    # the number of operations of a probe is unknown
    enough = 0 if pd.isna(row["operations"]) else int(row["operations"]) // FOR_P99
    found = operations.latencies(o.campaign, point, min(STEPS, max(MIN_POSITIONS, enough)))
    yield latency_picture(found, overlap) if len(found) else NO_STARTS
    if pd.isna(row["overlap_begin_s"]):
        yield "A point with roles has a window for each role, in `roles.csv`."
    else:
        yield pd.DataFrame([{"window": w} | {n: row[f"{w}_{n}"] for n in WINDOW_COLUMNS} for w in windows.WINDOWS])


def completions_picture(series: pd.DataFrame, overlap: tuple[float, float]) -> Figure:
    """Return a picture of the completions of each client over the time of a point.

    series: the result of `windows.completions`; overlap: begin and end of the window in seconds (NaN: no window).
    """
    with plots.style():
        fig = plots.sheet(2.8)
        ax = fig.subplots()
        if pd.notna(overlap[0]):
            ax.axvspan(*overlap, color="0.92", zorder=0)
        clients = list(dict.fromkeys(series["client"]))
        looks = plots.looks([str(c) for c in clients], ordered=len(clients) > MAX_CLIENTS)
        for client in clients:
            of_client = series[series["client"] == client]
            colour = looks[str(client)][0]
            ax.plot(
                of_client["second"], of_client["operations_per_s"], color=colour, drawstyle="steps-mid", linewidth=1
            )
        ax.set(xlabel="Seconds from the agreed start", ylabel="Operations/s of one client", ylim=(0, None))
        if 1 < len(clients) <= MAX_CLIENTS:
            handles = [Line2D([], [], color=looks[str(c)][0], label=f"client {c}") for c in clients]
            plots.key(fig, handles, "")
    return fig


def latency_picture(buckets: pd.DataFrame, overlap: tuple[float, float]) -> Figure:
    """Return a picture of the latency over the time of a point, with a panel for each kind of operation.

    The darker a cell, the larger is its share of the operations of its step. Lines are the quantiles of each step.
    buckets: the result of `operations.latencies`; overlap: as in `completions_picture`.
    """
    ops = buckets.groupby("op")["operations"].sum().sort_values(ascending=False).index[:MAX_OPS]
    edges = np.geomspace(buckets["upper_ns"].min() / WIDTH, buckets["upper_ns"].max(), CELLS + 1) / 1e6
    step = (buckets["second"] / (buckets["step"] + 0.5)).iloc[0]
    sides = step * np.arange(buckets["step"].max() + 2)
    with plots.style():
        fig = plots.sheet(2.4 * len(ops) + 0.2)
        for ax, op in zip(fig.subplots(len(ops), squeeze=False).ravel(), ops, strict=True):
            of_operation = buckets[buckets["op"] == op]
            middle = of_operation["upper_ns"] / np.sqrt(WIDTH) / 1e6
            count, *_ = np.histogram2d(
                of_operation["second"], middle, [sides, edges], weights=of_operation["operations"].astype(float)
            )
            share = np.divide(count, count.sum(1, keepdims=True), where=count > 0, out=np.full(count.shape, np.nan))
            ax.pcolormesh(sides, edges, share.T, cmap="Blues", norm=PowerNorm(0.4, vmin=0), rasterized=True)
            values = np.full((len(LEVELS), len(sides) - 1), np.nan)  # a step without operations interrupts the line
            for at, part in of_operation.groupby("step"):
                upper, counts = part["upper_ns"].to_numpy(float), part["operations"].to_numpy()
                known = [enough(counts.sum(), level) for level in LEVELS.values()]
                values[known, at] = histogram_quantiles(upper, counts, [*LEVELS.values()])[known] / 1e6
            for name, line, colour in zip(LEVELS, values, ("#d55e00", "0.15"), strict=True):
                if np.isfinite(line).any():
                    ax.plot((sides[1:] + sides[:-1]) / 2, line, color=colour, linewidth=1, marker=".", ms=2, label=name)
            for edge in overlap if pd.notna(overlap[0]) else ():
                ax.axvline(edge, color="0.5", linewidth=0.8, linestyle=":")
            ax.set(yscale="log", xlabel="Seconds from the agreed start", ylabel=f"Latency of {op} [ms]")
            plots.plain_numbers(ax.yaxis, edges[-1] / edges[0], 6)
            ax.legend(loc="upper right", fontsize=6.5)
    return fig
