"""From a figure down to what was recorded: a symbol, its points, the clients and workers of one, each error.

Operations are read from the raw records by DuckDB, all of a point. Seconds are those after the agreed start; a latency
begins when the operation was due, or began.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from storelab.analysis.explore import overview
from storelab.analysis.explore.opened import Menu, Opened
from storelab.analysis.explore.things import Thing, escaped
from storelab.analysis.figures import catalogue
from storelab.analysis.figures.specification import Specification, select
from storelab.analysis.parts import words
from storelab.analysis.records import scan
from storelab.analysis.report.rows import behind

EVERY = -1  # client: all of them
SLOWEST = 10
OF_POINT = ("key", "state", "overlap_rate_per_s", "overlap_throughput_mb_per_s", "operations", "errors", "steadiness")
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
    """The figures whose symbols stand for points."""
    found = catalogue.of(o.plan).items()
    return [(name, name) for name, spec in found if isinstance(spec, Specification) and symbols(o, name)]


def symbols(o: Opened, figure: str | None) -> Menu:
    """What the symbols of a figure stand for: rows of its table, by their places there."""
    if figure is None:
        return []
    rows = _rows(o, figure)
    told = [c for c in overview.varying(rows) if c in rows] if len(rows) else []
    return [
        (", ".join(filter(None, (words.value_text(c, row[c]) for c in told))) or "the only one", place)
        for place, row in rows.iterrows()
    ]


def _rows(o: Opened, figure: str) -> pd.DataFrame:
    """The rows that a figure draws and that are of points; the index tells their places in the whole table."""
    spec = catalogue.of(o.plan)[figure]
    whole = o.whole(spec.table)
    if "n" not in whole:
        return whole.iloc[:0]
    rows = select(o.table(spec.table), spec.where)
    places = pd.Series(behind(whole, o.whole("points")), index=whole.index, dtype=str)
    return rows[places[rows.index].str.len() > 0] if len(rows) else rows


def points(o: Opened, figure: str | None, symbol: Any) -> Menu:
    """The points behind a symbol."""
    if figure is None or symbol is None:
        return []
    whole, every = o.whole(catalogue.of(o.plan)[figure].table), o.whole("points")
    keys = [every["key"].iloc[int(place)] for place in behind(whole, every)[symbol].split()]
    return [(", ".join(words.key_text(key)), key) for key in keys]


def clients(o: Opened, figure: str | None, symbol: Any, point: str | None) -> Menu:
    """The clients of a point, after all of them."""
    run = o.campaign.runs.get(point or "")
    told = run["clients"] if run else []
    return [("all", EVERY), *((f"client {i}", i) for i in range(len(told)))]


def down(
    o: Opened, figure: str | None = None, symbol: Any = None, point: str | None = None, client: int | None = EVERY
) -> Iterator[Thing]:
    """The row behind a symbol, its points, and of one point its clients, workers, errors and slowest operations."""
    if figure is None or symbol is None or point is None:
        yield "No figure of this campaign has symbols that stand for points."
        return
    rows = _rows(o, figure)
    spec = catalogue.of(o.plan)[figure]
    assert isinstance(spec, Specification)
    drawn = [curve.column(part) for m in spec.measures for curve in m.curves for part in ("median", "low", "high")]
    shown = [*overview.varying(rows), "n", *(c for c in dict.fromkeys(drawn) if c in rows)]
    yield f"#### The symbol, a row of `{spec.table}.csv`"
    yield rows.loc[[symbol], shown].dropna(axis="columns")
    yield "#### Its points"
    every, keys = o.whole("points"), [key for _, key in points(o, figure, symbol)]
    yield every.loc[every["key"].isin(keys), list(OF_POINT)].dropna(axis="columns", how="all")
    yield f"#### {escaped(', '.join(words.key_text(point)))}"
    yield from of_point(o, point, EVERY if client is None else client)


def of_point(o: Opened, point: str, client: int = EVERY) -> Iterator[Thing]:
    """The clients of a point, then workers, errors and slowest operations of one client or of all."""
    if (failed := o.campaign.failures.get(point)) is not None:
        yield f"This point has no record: {escaped(str(failed['reason']))}"
        return
    con = scan.connect(o.campaign, "ops", [point])
    if con is None:
        yield "This point has no record of operations."
        return
    yield from overview.over_time(o, point)
    yield "#### Its clients"
    yield con.execute(CLIENTS).df().dropna(axis="columns", how="all")
    which = "all clients" if client == EVERY else f"client {client}"
    workers = con.execute(WORKERS, {"client": client}).df()
    yield f"#### Workers of {which}"
    yield (
        workers.dropna(axis="columns", how="all") if len(workers) else "The engine does not tell who did an operation."
    )
    errors = con.execute(ERRORS, {"client": client}).df()
    yield f"#### Errors of {which}"
    yield errors if len(errors) else "No operation failed."
    longest = con.execute(LONGEST, {"client": client}).df()
    yield f"#### Slowest operations of {which}"
    yield longest if len(longest) else "The engine does not tell when single operations began."
