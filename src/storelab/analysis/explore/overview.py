"""Views of a whole campaign: summary, points, medians and figures."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.explore import opened
from storelab.analysis.explore.opened import Displayable, Menu, Opened, charted, compact, escaped
from storelab.analysis.figures import catalogue
from storelab.analysis.parts import labels
from storelab.analysis.report import build
from storelab.core import calibration

ALL = ""  # entry of the menu of figures that means all figures
MAX_LISTED = 60  # maximum number of points that are listed one by one
POINT_COLUMNS = ("key", "state", "reason", "overlap_throughput_mb_per_s", "overlap_rate_per_s", "steadiness", "errors")
GROUP_COLUMNS = ("n", "throughput_median_mb_per_s", "rate_median_per_s", "rate_low_per_s", "rate_high_per_s", "errors")
MORE = ("interval", "coverage_percent")


def campaign(o: Opened) -> Iterator[Displayable]:
    """Show what was measured, where and when, and notes about points, as in `report.html`."""
    head = build.head(o.campaign, {name: o.full_table(name) for name in ("points", "numbers")})
    yield f"**{escaped(head['title'])}**"
    yield pd.DataFrame(head["facts"], columns=["what", "value"])
    if head["notes"]:
        yield pd.DataFrame([note[:2] for note in head["notes"]], columns=["points", "noted"])


def points(o: Opened) -> Iterator[Displayable]:
    """Show the number of points by state, and the points. If there are many, only points that are not valid are listed.

    The points of the calibration are last.
    """
    rows = o.table("points").sort_values(["store", "workload", "key"])
    rows = pd.concat([opened.systems(rows), rows[rows["workload"] == calibration.WORKLOAD]])
    yield rows.groupby(["store", "workload", "state"], as_index=False, sort=False).agg(
        points=("key", "size"), operations=("operations", "sum"), errors=("errors", "sum")
    )
    listed = rows if len(rows) <= MAX_LISTED else rows[rows["state"] != "ok"]
    if len(listed):
        yield listed[list(POINT_COLUMNS)].dropna(axis="columns", how="all")
    if len(listed) < len(rows):
        yield (
            f"{labels.plural(len(rows) - len(listed), 'valid point')} not listed: filter by store or workload until at "
            f"most {MAX_LISTED} remain, or use `pick.opened.table('points')`."
        )


def varying(rows: pd.DataFrame, until: str = "n") -> list[str]:
    """Return the columns before the column `until` that have several values in these rows."""
    columns = rows.columns[: rows.columns.get_loc(until)]
    return [c for c in columns if rows[c].nunique() > 1]


def medians(o: Opened) -> Iterator[Displayable]:
    """Show one row per group of points, with the axes in which the groups differ, and the medians over the runs."""
    rows = o.table("throughput")
    if rows.empty:
        yield "This campaign has no rates."
        return
    yield from compact(rows, (*varying(rows), *GROUP_COLUMNS, *MORE), ("n", "errors", *MORE))


def names(o: Opened) -> Menu:
    """Return the menu of figures that the campaign can have. The first entry means all figures."""
    return [("all", ALL), *((name, name) for name in catalogue.figures_of_plan(o.plan))]


def figures(o: Opened, figure: str = ALL) -> Iterator[Displayable]:
    """Show figures of the rows that match the filters, in the interactive form of `report.html`.

    Figures without data are omitted.
    """
    chosen = {name: declared for name, declared in catalogue.figures_of_plan(o.plan).items() if figure in (ALL, name)}
    found = charted({name: (d, [o.table(t) for t in (d.table, *d.further_tables)]) for name, d in chosen.items()})
    yield found or "No figure has data for this selection."
