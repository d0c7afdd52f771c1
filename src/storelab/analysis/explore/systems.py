"""Views that compare two systems point by point, as `storelab compare` does, and several campaigns in one picture.

The stores belong to this campaign, or to other campaigns below `results/`. The server of the calibration is not a
system.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from storelab.analysis import compare
from storelab.analysis.explore import opened, overview
from storelab.analysis.explore.opened import Displayable, Menu, Opened, charted, escaped, kept, named
from storelab.analysis.figures import plots
from storelab.analysis.figures.specification import Measure, Specification
from storelab.analysis.figures.throughput import MB_PER_S, PER_S
from storelab.analysis.parts import groups, labels
from storelab.analysis.records.campaign import read_plan
from storelab.analysis.statistics import ratios as statistics
from storelab.analysis.tables.points import NO_RATES
from storelab.core.model import PREFIX

VERDICTS = {
    statistics.FASTER: ("#029e73", "^"),
    statistics.SLOWER: ("#d55e00", "v"),
    statistics.UNDECIDED: ("0.45", "o"),
}
MAX_RATIOS = 40  # maximum number of ratios in the picture
SIDE = tuple[Path, str]  # folder of a campaign, and name of a store
NONE = (
    "No comparison is possible: no other store, in this campaign or in another one below `results/`, has a "
    "point with the same workload and axes."
)
ALONE = "No other campaign below `results/` has a point with the same workload and axes as one of this campaign."
EVERY = "all"  # value of the menu of campaigns that means all of them
STORES = "system"  # column that is used instead of an axis if no axis varies; each store is then a line
SPEEDS = (
    Measure((MB_PER_S,), "Throughput [MB/s]", where={"moves": groups.THROUGHPUT}),
    Measure((PER_S,), "Operations/s", where={"moves": groups.RATE}),
)
Points = frozenset[tuple[str, frozenset[tuple[str, Any]]]]


def first(o: Opened) -> Menu:
    """Return the menu of the systems of this campaign. Systems with most points to compare are first."""
    stores = dict.fromkeys(opened.systems(o.table("points"))["store"])
    found = {store: _common(o, (o.folder, store)) for store in stores}
    return [
        (f"{o.name}: {store}", (o.folder, store))
        for store in sorted(stores, key=lambda store: -max(found[store].values(), default=0))
    ]


def second(o: Opened, a: SIDE | None) -> Menu:
    """Return the menu of other stores that have planned points in common with A.

    Stores of this campaign are first, followed by those with most points in common.
    """
    if a is None:
        return []
    found = _common(o, a)
    ordered = sorted(found, key=lambda side: (side[0] != o.folder, -found[side]))
    return [(f"{folder.resolve().name}: {store}", (folder, store)) for folder, store in ordered]


def _common(o: Opened, a: SIDE) -> Counter[SIDE]:
    """Return the number of points in common with A: (folder, store) -> number, for all other stores in `results/`."""
    wanted = _plans(o)[a]
    return +Counter({side: len(wanted & planned) for side, planned in _plans(o).items() if side != a})


def _plans(o: Opened) -> dict[SIDE, Points]:
    """Return the planned points of all stores of all campaigns below `results/`: (folder, store) -> points."""
    if "plans" not in o.known:
        folders = [o.folder, *(p for p in named() if p.resolve() != o.folder.resolve())]
        plans = {folder: o.plan if folder == o.folder else read_plan(folder) for folder in folders}
        o.known["plans"] = {
            (folder, store): _planned(plan, store)
            for folder, plan in plans.items()
            for store in dict.fromkeys(p["store"] for p in plan["points"])
        }
    return o.known["plans"]


def _planned(plan: Mapping[str, Any], store: str) -> Points:
    """Return workload and non-default axes of the planned points of a store whose rate can be compared."""
    usual = {(w, a["name"]): a["default"] for w, declared in plan["workloads"].items() for a in declared["axes"]}
    return frozenset(
        (p["workload"], frozenset((k, v) for k, v in p["axes"].items() if usual[p["workload"], k] != v))
        for p in plan["points"]
        if p["store"] == store and p["workload"] not in NO_RATES and not p["workload"].startswith(PREFIX)
    )


@cache
def _side(folder: Path, store: str) -> compare.Side:
    return compare.read(f"{folder.resolve().name}:{store}", lambda: folder.resolve().parent)


def ratios(o: Opened, a: SIDE | None = None, b: SIDE | None = None) -> Iterator[Displayable]:
    """Show the ratios B / A: one line for all points, a picture, and one row for each comparable point and measure."""
    if a is None or b is None:
        yield NONE
        return
    table, alone = compare.compare(one := _side(*a), other := _side(*b))
    each = kept(table[table["workload"] != compare.ALL], {c: v for c, v in o.filters.items() if c != "store"})
    label = compare.described(each)
    shown = pd.DataFrame(
        {
            "point": label,
            "measure": [groups.metric_text(m) for m in each["metric"]],
            "A": each["median_a"].to_numpy(float),
            "B": each["median_b"].to_numpy(float),
            "runs": [f"{x}, {y}" for x, y in zip(each["n_a"], each["n_b"], strict=True)],
            "B / A": each["ratio"].to_numpy(float),
            "low": each["low"].to_numpy(float),
            "high": each["high"].to_numpy(float),
            "B is": each["verdict_corrected"].to_numpy(),
        }
    )
    yield escaped(f"A is {one.name}, B is {other.name}")
    for row in table[table["workload"] == compare.ALL].to_dict("records"):
        ratio = labels.spread([row["ratio"], row["low"], row["high"]])
        points = f"All {row['points']} points" if row["points"] > 1 else "The only point"
        what = row["metric"].replace("_", " ")
        yield escaped(f"{points}, {what}: B / A is {ratio}, {row['verdict_corrected']}")
    if len(each):
        far = (
            np.abs(np.log(shown["B / A"].clip(lower=1e-9)))
            .sort_values(ascending=False)
            .index[:MAX_RATIOS]
            .sort_values()
        )
        names = [f"{p}: {m.partition(' [')[0]}" for p, m in zip(shown["point"], shown["measure"], strict=True)]
        drawn = shown.loc[far, ["B / A", "low", "high", "B is"]].set_axis(["ratio", "low", "high", "verdict"], axis=1)
        left = f", the {MAX_RATIOS} farthest from 1 of {len(shown)}" if len(shown) > MAX_RATIOS else ""
        yield ratio_picture([names[i] for i in far], drawn, f"B, {other.name}, over A, {one.name}{left}: B is")
        yield shown
    for note in compare.notes(table, one, other, alone, ()):
        yield escaped(note)


def campaigns(o: Opened) -> Menu:
    """Return the menu of other campaigns. Campaigns with most points in common with this one are first.

    If there are several, the last entry means all of them.
    """
    here = frozenset[Any]().union(*(planned for (folder, _), planned in _plans(o).items() if folder == o.folder))
    common: Counter[Path] = Counter()
    for (folder, _), planned in _plans(o).items():
        common[folder] += len(here & planned) if folder != o.folder else 0
    found = [(folder.resolve().name, folder) for folder, points in common.most_common() if points]
    return [*found, *([("all of them", EVERY)] if len(found) > 1 else [])]


def along(o: Opened, other: Path | str | None) -> Menu:
    """Return the menu of axes for curves of several campaigns. `clients` is first, then axes with most values."""
    if other is None:
        return []
    rows, axes = _overlaid(o, other)
    numbers = [c for c in axes if pd.api.types.is_numeric_dtype(rows[c])]
    ordered = sorted(numbers, key=lambda c: (c != "clients", -rows[c].nunique()))
    return [(labels.heading(c), c) for c in ordered] or [("stores", STORES)]


def _overlaid(o: Opened, other: Path | str) -> tuple[pd.DataFrame, list[str]]:
    """Return the medians of this campaign and of other campaigns, and the axes that differ.

    Only points that at least two campaigns have are included. The name of a store includes its campaign. If a campaign
    does not have an axis, the default is used.
    """
    folders = [folder for _, folder in campaigns(o) if folder != EVERY] if other == EVERY else [Path(other)]
    filters = {**o.filters, "store": ()}  # other campaigns can have other stores, so that this filter does not apply
    known = [(o.name, o.plan, kept(o.full_table("throughput"), o.filters))]
    known += [(f.resolve().name, read_plan(f), kept(_medians(f), filters)) for f in folders]
    parts, usual = list[pd.DataFrame](), dict[tuple[str, str], Any]()
    for name, plan, rows in known:
        usual |= compare.defaults(plan)
        stores = [f"{name}: {store}" for store in rows["store"]]
        parts.append(rows.assign(campaign=name, system=rows["store"], store=stores))
    columns = list(dict.fromkeys(c for rows in parts for c in labels.axes_of(rows)))
    every = pd.concat([p.reindex(columns=[*p.columns, *(c for c in columns if c not in p)]) for p in parts])
    for column in columns:
        default = every["workload"].map(lambda w, column=column: usual.get((w, column)))
        every[column] = every[column].astype(object).where(every[column].notna(), default).infer_objects()
    every = every.assign(moves=np.where(groups.large(every), groups.THROUGHPUT, groups.RATE))
    sides_of = every.groupby(["workload", *columns], dropna=False)["campaign"].transform("nunique")
    head = ["store", "workload", *columns]
    every = every[sides_of > 1][[*head, *(c for c in every if c not in head)]].reset_index(drop=True)
    return every, [c for c in columns if every[c].nunique() > 1]


@cache
def _medians(folder: Path) -> pd.DataFrame:
    """Return throughput.csv of another campaign, without writing files into its folder."""
    return compare.newest_tables(folder)[0]("throughput")


def overlay(o: Opened, other: Path | str | None = None, x: str | None = None) -> Iterator[Displayable]:
    """Show the medians of this campaign and of other campaigns in one picture, and as a table.

    There is a panel for each workload and setting that at least two campaigns have, with a curve for each store of a
    campaign.
    """
    if other is None or x is None:
        yield ALONE
        return
    rows, axes = _overlaid(o, other)
    if rows.empty:
        yield ALONE
        return
    apart = ["workload", *(c for c in axes if c != x)]
    rows = rows.assign(series=rows["campaign" if x == STORES else "store"])
    figure = Specification(
        table="throughput",
        measures=SPEEDS,
        x=x,
        line=0.2 if x == STORES else 0.0,
        height=1.2 if x == STORES else 2.3,
        panels=tuple(apart),
        heading=lambda first, _: ", ".join(
            filter(None, (labels.value_text(c, first[c]) for c in apart if not labels.is_default(c, first[c])))
        ),
        title="Comparison of campaigns",
        caption="Medians of the same points in several campaigns; {bars}. Networks and hosts can differ: see the "
        "environment of each campaign.",
    )
    yield charted({"overlay": (figure, [rows])}) or ALONE
    shown = [c for c in dict.fromkeys([*apart, x, "store", *overview.GROUP_COLUMNS]) if c in rows]
    yield rows[shown].sort_values([*apart, x, "store"])


def ratio_picture(names: Sequence[str], rows: pd.DataFrame, title: str) -> Figure:
    """Return a picture of ratios with their intervals, one per line. rows: columns ratio, low, high, verdict."""
    with plots.style():
        fig = plots.sheet(1.1 + 0.2 * len(rows))
        ax = fig.subplots()
        places = np.arange(len(rows))[::-1]
        for at, row in zip(places, rows.to_dict("records"), strict=True):
            colour, marker = VERDICTS[row["verdict"]]
            if pd.notna(row["low"]):
                ax.plot([row["low"], row["high"]], [at, at], color=colour, linewidth=1)
            ax.plot(row["ratio"], at, color=colour, marker=marker, markersize=4, linestyle="none")
        ax.axvline(1, color="0.3", linewidth=0.8, linestyle="--", zorder=1.5)
        values = rows[["ratio", "low", "high"]].astype(float).to_numpy()
        if np.nanmin(values) > 0:
            ax.set_xscale("log")
            plots.plain_numbers(ax.xaxis, np.nanmax(values) / np.nanmin(values), 6)
        ax.set_yticks(places, [textwrap.shorten(n, 100) for n in names], fontsize=6.5)
        ax.set_ylim(-0.7, len(rows) - 0.3)
        ax.set_xlabel("B / A, with its 95 % interval")
        handles = [Line2D([], [], color=c, marker=m, label=label) for label, (c, m) in VERDICTS.items()]
        plots.key(fig, handles, title)
    return fig
