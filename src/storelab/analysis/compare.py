"""Compare two campaigns or stores point by point, and print the ratios.

The points of a side are read from `tables/points.csv` if it matches the raw records. Otherwise they are read from the
raw records, which are verified; no file is written. Points are comparable if they have the same workload and axes. If
one campaign does not have an axis, its default is used. The store must be the same, unless the user names the stores,
or each side has only one store. May import: `tables`, `records`, `parts`, `statistics`, `core`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Column, Table

from storelab.analysis.parts import derived, groups, labels
from storelab.analysis.records.campaign import load, read_plan
from storelab.analysis.statistics import ratios
from storelab.analysis.tables import build
from storelab.analysis.tables.points import axis_columns, plain, rated
from storelab.core.errors import UserError

ALL = "all"  # `workload` of the rows over all points
CORRECTED = ("p_corrected", "verdict_corrected")
RUN_COLUMNS = ("rep", "value", "bound_by")  # columns of runs, in addition to the columns that identify a point
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    name: as given by the user; folder, plan, points: of its campaign (points.csv of workloads with a rate); store: the
    compared store (None: all); source: where the points were read from.
    """

    name: str
    folder: Path
    plan: Mapping[str, Any]
    points: pd.DataFrame
    store: str | None
    source: str

    @property
    def stores(self) -> list[str]:
        return sorted(self.points.loc[self.points["state"] == "ok", "store"].unique())


def split(text: str, results: Callable[[], Path]) -> tuple[Path, str | None]:
    """Return the folder and the store (None: all) that a text names: `results/x`, `x`, `results/x:store` or `x:store`.

    results: function that returns the folder of campaigns, for campaigns without a path. Raises UserError if the
    campaign does not exist.
    """
    names = [(text, None), (text.rpartition(":")[0], text.rpartition(":")[2])]
    for parent in (Path, results):
        for name, store in names:
            folder = parent() / name
            if name and (folder / "raw" / "plan.json").exists():
                return folder, store
    raise UserError(
        text, "is not a measured campaign (no raw/plan.json)", "name a folder like results/reference, or FOLDER:STORE"
    )


def read(text: str, results: Callable[[], Path], store: str | None = None) -> Side:
    """Return the side of a comparison that a text names (`split`). store: the store, if the text does not name it.

    Raises UserError if the campaign does not exist, its records are damaged, it has no valid run, or the store has no
    run.
    """
    folder, named = split(text, results)
    store = store or named
    table, source = newest_tables(folder)
    side = side_from_tables(text, folder, table, source, store)
    if store is not None and store not in side.stores:
        raise UserError(
            f"{folder}:{store}", "is not a store with a run in this campaign", f"use one of: {', '.join(side.stores)}"
        )
    return side


def newest_tables(folder: Path) -> tuple[Callable[[str], pd.DataFrame], str]:
    """Return a function that returns a table by its name, and a text about the source of the tables.

    The tables are the CSV files if points.csv matches the raw records. Otherwise they are made from the raw records,
    which are verified. Raises UserError if the records are damaged.
    """
    path = folder / "tables" / "points.csv"
    if path.exists() and not derived.damaged_tables(folder, ["points"]):
        return (lambda name: build.read(folder, name)), str(path)
    return build.Tables(build.complete(load(folder))).__getitem__, f"{folder / 'raw'} (no newer tables)"


def side_from_tables(
    name: str, folder: Path, table: Callable[[str], pd.DataFrame], source: str, store: str | None = None
) -> Side:
    """Return a side from the tables of its campaign. table, source: the result of `newest_tables`.

    Raises UserError if the campaign has no valid run.
    """
    plan = read_plan(folder)
    side = Side(name, folder, plan, rated(plain(plan, table("points"))), store, source)
    if not side.stores:
        raise UserError(str(folder), "has no run with a rate", "measure a campaign that moves objects")
    return side


def matched(a: Side, b: Side) -> tuple[Side, Side]:
    """Return both sides with one store each, or both without a store, which are compared store by store.

    Raises UserError if the stores to compare are not clear.
    """
    if a.store is None and b.store is None and not set(a.stores) & set(b.stores):
        if len(a.stores) == len(b.stores) == 1:
            return replace(a, store=a.stores[0]), replace(b, store=b.stores[0])
        raise UserError(
            f"{a.name} and {b.name}",
            f"have no store in common ({', '.join(a.stores)}; {', '.join(b.stores)})",
            "name one store on each side: FOLDER:STORE",
        )
    if (a.store is None) == (b.store is None):
        return a, b
    known, open_ = (a, b) if b.store is None else (b, a)
    if len(open_.stores) > 1 and known.store not in open_.stores:
        raise UserError(
            open_.name,
            f"has several stores, but not {known.store}",
            f"name one of them as FOLDER:STORE: {', '.join(open_.stores)}",
        )
    store = known.store if known.store in open_.stores else open_.stores[0]
    return (a, replace(b, store=store)) if open_ is b else (replace(a, store=store), b)


def defaults(plan: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Return the defaults of all axes of a plan: (workload, column of the axis) -> default."""
    return {(w, axis["column"]): axis["default"] for w, d in plan["workloads"].items() for axis in d["axes"]}


def runs(side: Side, columns: list[str], known_defaults: Mapping[tuple[str, str], Any]) -> dict[Key, pd.DataFrame]:
    """Return the runs of a side: (store or None, workload, axes …, metric) -> table with RUN_COLUMNS.

    columns: columns of the axes; known_defaults: defaults for axes that this side does not have.
    """
    rows = groups.with_latencies(side.points if side.store is None else side.points[side.points["store"] == side.store])
    usual, workloads, axes = defaults(side.plan), list(rows["workload"]), []
    for column in columns:
        known = {w for w, c in usual if c == column}
        values = rows[column] if column in rows else [None] * len(rows)
        missing = {w: d for (w, c), d in known_defaults.items() if c == column and w not in known}
        measured_or_default = (missing.get(w, v) if pd.isna(v) else v for w, v in zip(workloads, values, strict=True))
        axes.append(groups.comparable(measured_or_default))
    stores = list(rows["store"]) if side.store is None else [None] * len(rows)
    places: dict[Key, list[int]] = {}
    for i, key in enumerate(zip(stores, workloads, *axes, rows["metric"], strict=True)):
        places.setdefault(key, []).append(i)
    shown = rows[[c for c in RUN_COLUMNS if c in rows]]
    return {key: shown.iloc[indices] for key, indices in places.items()}


def values_of(rows: pd.DataFrame) -> dict[int, float]:
    """Return the values of these runs: repetition -> value."""
    return {int(rep): float(value) for rep, value in zip(rows["rep"], rows["value"], strict=True)}


def compare(a: Side, b: Side, days: Sequence[Side] = ()) -> tuple[pd.DataFrame, tuple[int, int]]:
    """Return the table of ratios B / A, and how many points of A and of B have no counterpart.

    The table has one row per comparable point and metric, followed by rows over all points (workload `all`). Columns:
    store_a, store_b, workload, all axes, metric, points (their number), n_a, n_b, median_a, median_b (in MB/s, 1/s or
    ms, by metric), ratio, low, high, coverage_percent, p, verdict, reason, p_corrected and verdict_corrected (corrected
    for the number of rows), and bound_by (client or link, if it limited a run on one side).

    days: campaigns like A that differ only in the day. If they are given, intervals include the variation between days
    (`statistics.ratios`).

    Raises UserError if no point is comparable.
    """
    a, b = matched(a, b)
    da, db = defaults(a.plan), defaults(b.plan)
    columns = list(dict.fromkeys([*axis_columns(a.plan), *axis_columns(b.plan)]))
    of_a, of_b = (runs(side, columns, da | db) for side in (a, b))
    of_days = [runs(matched(a, day)[1], columns, da | db) for day in days]
    both = [key for key in of_a if key in of_b]
    if not both:
        raise UserError(
            f"{a.name} and {b.name}", "have no comparable point: no workload with the same axes has runs on both sides"
        )
    rows, pairs = [], {}
    kinds = {groups.kind(key[-1]) for key in both}
    between = {kind: _days([k for k in both if groups.kind(k[-1]) == kind], of_days) for kind in kinds}
    for key in sorted(both, key=order_of):
        metric, x, y = key[-1], values_of(of_a[key]), values_of(of_b[key])
        pairs.setdefault(groups.kind(metric), []).append((x, y))
        worse = groups.lower_is_better(metric)
        found = ratios.with_days(
            ratios.ratio(x.values(), y.values(), worse), *between[groups.kind(metric)].point, worse
        )
        stores = {"store_a": a.store or key[0], "store_b": b.store or key[0]}
        row = stores | dict(zip(["workload", *columns, "metric"], key[1:], strict=True)) | {"points": 1}
        row |= {"median_a": pd.Series(x).median(), "median_b": pd.Series(y).median(), **found.row()}
        rows.append(row | {"bound_by": _bound(of_a[key]) or _bound(of_b[key])})
    wholes = [_overall(kind, found, rows, between[kind].whole) for kind, found in pairs.items()]
    rows = [row for family in (rows, wholes) for row in _corrected(family)]
    head = ["store_a", "store_b", "workload", *columns, "metric", "points", "n_a", "n_b", "median_a", "median_b"]
    types = axis_columns(b.plan) | axis_columns(a.plan)
    alone = tuple(len({k[:-1] for k in x} - {k[:-1] for k in y}) for x, y in ((of_a, of_b), (of_b, of_a)))
    table = pd.DataFrame(rows, columns=[*head, *ratios.COLUMNS, *CORRECTED, "bound_by"]).astype(types)
    return table, (alone[0], alone[1])


def order_of(key: Key) -> tuple[Any, ...]:
    """Return the sort key of a row: store, workload and axes (null values first), then the speed before latencies."""
    return [(v is not None, str(type(v)), v) for v in key[:-1]], list(groups.COLUMNS).index(key[-1])


@dataclass(frozen=True)
class Between:
    """The variances of the logarithm between days, with their degrees of freedom.

    point: for single points; whole: for the mean over all points.
    """

    point: tuple[float, int]
    whole: tuple[float, int]


def _days(keys: list[Key], days: Sequence[Mapping[Key, pd.DataFrame]]) -> Between:
    """Return the variation between days, from the points that all days have. Without such points, it is NaN."""
    common = [key for key in keys if all(key in of_day for of_day in days)]
    if not days or not common:
        return Between((math.nan, 0), (math.nan, 0))
    values = [[np.array(list(values_of(of_day[key]).values())) for of_day in days] for key in common]
    logs = np.array([[np.log(v).mean() if len(v) and v.min() > 0 else math.nan for v in row] for row in values])
    return Between(ratios.day_variance(logs), ratios.day_variance(np.nanmean(logs, axis=0, keepdims=True)))


def _corrected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with p values and verdicts corrected for the number of rows."""
    found = zip(rows, ratios.corrected([r["p"] for r in rows]), strict=True)
    return [r | dict(zip(CORRECTED, (p, ratios.verdict_corrected(r["verdict"], p)), strict=True)) for r, p in found]


def _overall(
    metric: str,
    pairs: list[tuple[dict[int, float], dict[int, float]]],
    rows: list[dict[str, Any]],
    between: tuple[float, int],
) -> dict[str, Any]:
    """Return the row of a metric over all points. For a single point, it has the values of this point."""
    head = {"workload": ALL, "metric": metric, "points": len(pairs)}
    if len(pairs) == 1:
        one = next(r for r in rows if groups.kind(r["metric"]) == metric)
        return head | {k: one[k] for k in ("store_a", "store_b", "n_a", "n_b", *ratios.COLUMNS)}
    worse = groups.lower_is_better(metric)
    found = ratios.with_days(ratios.overall_ratio([p[0] for p in pairs], [p[1] for p in pairs], worse), *between, worse)
    return head | found.row()


def _bound(rows: pd.DataFrame) -> str | None:
    known = rows["bound_by"].dropna() if "bound_by" in rows else ()
    return str(known.iloc[0]) if len(known) else None


def dates(side: Side) -> tuple[str, ...]:
    """Return the days (UTC) on which the runs started, in ascending order."""
    return tuple(sorted({str(started)[:10] for started in side.points["started"].dropna()}))


def other_days(a: Side, b: Side) -> bool:
    """Return True if A and B are two campaigns that were measured on different days."""
    return a.folder.resolve() != b.folder.resolve() and not set(dates(a)) & set(dates(b))


def slower(table: pd.DataFrame, margin_percent: float = 0.0, overall: bool = False) -> pd.DataFrame:
    """Return the rows whose corrected verdict is `slower`, and whose whole interval is beyond `margin_percent`.

    overall: return only rows over all points; by default, these are included.
    """
    rows = table[((table["workload"] == ALL) | (not overall)) & (table["verdict_corrected"] == ratios.SLOWER)]
    worse = [
        r.low > 1 + margin_percent / 100 if groups.lower_is_better(r.metric) else r.high < 1 - margin_percent / 100
        for r in rows.itertuples(index=False)
    ]
    return rows[worse]


def _varying(points: pd.DataFrame, workload: str) -> tuple[list[str], list[str]]:
    """Return the axes of a workload that differ between its rows, and the axes that are equal in all rows."""
    rows = points[points["workload"] == workload]
    first = points.columns.get_loc("workload") + 1
    axes = [c for c in points.columns[first : points.columns.get_loc("metric")] if rows[c].notna().any()]
    varying = [c for c in axes if rows[c].nunique(dropna=False) > 1]
    return varying, [c for c in axes if c not in varying]


def _row_texts(row: Mapping[str, Any], columns: list[str]) -> list[str]:
    return [text for c in columns if not pd.isna(row[c]) and (text := labels.value_text(c, row[c]))]


def described(points: pd.DataFrame) -> list[str]:
    """Return each row in words: store, workload, and the axes that differ between rows.

    The store (the first column) is only named if there are several. Axes are the columns up to `metric`.
    """
    varying = {w: _varying(points, w)[0] for w in points["workload"].unique()}
    store = points.columns[0]
    several = points[store].nunique() > 1
    return [
        ", ".join(
            [
                *([row[store]] if several else []),
                row["workload"].replace("_", " "),
                *_row_texts(row, varying[row["workload"]]),
            ]
        )
        for row in points.to_dict("records")
    ]


def in_common(points: pd.DataFrame) -> list[str]:
    """Return for each workload the axes that are equal in all its rows, such as `get: s5cmd, 1 bucket`."""
    shared = {
        w: _row_texts(points[points["workload"] == w].iloc[0], _varying(points, w)[1])
        for w in points["workload"].unique()
    }
    return [f"{w.replace('_', ' ')}: {', '.join(parts)}" for w, parts in shared.items() if parts]


# Output of `storelab compare`: one row per comparable point, followed by rows over all points.

COLOURS = {ratios.FASTER: "green", ratios.SLOWER: "red", ratios.UNDECIDED: "dim"}
RIGHT = ("A", "B", "runs", "B / A [95 % interval]")  # columns of numbers


def show(table: pd.DataFrame, a: Side, b: Side, alone: tuple[int, int], days: Sequence[Side]) -> None:
    """Print the sources of both sides, the table of `compare`, and notes."""
    # In a file or pipe, the table is wide enough to print each row on one line.
    console = Console(highlight=False, width=None if Console().is_terminal else 160)
    points = table[table["workload"] != ALL]
    console.print(
        f"A: {groups.joined(points['store_a'])} of {a.name}, read from {a.source}", markup=False, soft_wrap=True
    )
    console.print(
        f"B: {groups.joined(points['store_b'])} of {b.name}, read from {b.source}", markup=False, soft_wrap=True
    )
    shown = Table("point", "measure", *(Column(name, justify="right") for name in RIGHT), "B is")
    for point, row in zip(described(points), points.to_dict("records"), strict=True):
        shown.add_row(point, *_cells(row))
    shown.add_section()
    for row in table[table["workload"] == ALL].to_dict("records"):
        shown.add_row(f"all {row['points']} points", *_cells(row))
    console.print(shown)
    for note in notes(table, a, b, alone, days):
        console.print(note, markup=False, soft_wrap=True)


def notes(table: pd.DataFrame, a: Side, b: Side, alone: tuple[int, int], days: Sequence[Side]) -> Iterator[str]:
    """Yield the notes below the table.

    The notes are about axes that are equal in all rows, reasons of undecided rows, points without a counterpart, the
    correction, and the variation between days. alone: numbers of points of A and B without a counterpart.
    """
    points = table[table["workload"] != ALL]
    yield from (f"Held fixed: {axes_text}" for axes_text in in_common(points))
    yield from (f"Undecided: {reason}" for reason in dict.fromkeys(table["reason"].dropna()))
    if sum(alone):
        yield f"Without a counterpart: {labels.plural(alone[0], 'point')} of A, {labels.plural(alone[1], 'point')} of B"
    if (tested := int(points["p"].notna().sum())) > 1:
        yield (
            f"Corrected for {tested} rows (Benjamini and Hochberg): of the rows reported as different, at most "
            "5 % differ only by chance; in brackets the uncorrected verdict."
        )
    if days:
        yield f"Intervals include the variation between days, from {labels.plural(len(days), 'campaign')}."
    elif other_days(a, b):
        on = (" to ".join(dict.fromkeys((d[0], d[-1]))) for d in map(dates, (a, b)))
        yield (
            "Warning: A was measured on {}, B on {}, and the variation between days is not known: a difference can be "
            "due to the day. Repeat a campaign on several days and name these campaigns with --days.".format(*on)
        )


def _cells(row: dict[str, Any]) -> list[str]:
    ratio = labels.spread([row["ratio"], row["low"], row["high"]])
    bound = f" (bound by the {row['bound_by']})" if isinstance(row["bound_by"], str) else ""
    medians = [labels.number(row[c]) if pd.notna(row[c]) else "" for c in ("median_a", "median_b")]
    verdict_word, uncorrected = row["verdict_corrected"], row["verdict"]
    verdict = f"[{COLOURS[verdict_word]}]{verdict_word}[/]{bound}" + (
        f" ({uncorrected})" if uncorrected != verdict_word else ""
    )
    return [
        groups.metric_text(row["metric"]).replace("[", r"\["),
        *medians,
        f"{row['n_a']}, {row['n_b']}",
        ratio.replace("[", r"\["),
        verdict,
    ]
