"""What was measured: a campaign in short, its points, medians and figures."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.explore import opened
from storelab.analysis.explore.opened import Displayable, Menu, Opened, charted, compact, escaped
from storelab.analysis.figures import catalogue
from storelab.analysis.parts import labels
from storelab.analysis.report import build
from storelab.core import calibration

ALL = ""  # of the menu of figures
MAX_LISTED = 60  # points that are listed one by one
POINT_COLUMNS = ("key", "state", "reason", "overlap_throughput_mb_per_s", "overlap_rate_per_s", "steadiness", "errors")
GROUP_COLUMNS = ("n", "throughput_median_mb_per_s", "rate_median_per_s", "rate_low_per_s", "rate_high_per_s", "errors")
MORE = ("interval", "coverage_percent")


def campaign(o: Opened) -> Iterator[Displayable]:
    """What was measured, where and when, and what is noted of points; as on the page of the campaign."""
    head = build.head(o.campaign, {name: o.full_table(name) for name in ("points", "numbers")})
    yield f"**{escaped(head['title'])}**"
    yield pd.DataFrame(head["facts"], columns=["what", "value"])
    if head["notes"]:
        yield pd.DataFrame([note[:2] for note in head["notes"]], columns=["points", "noted"])


def points(o: Opened) -> Iterator[Displayable]:
    """How many points ended how; then each of them, of many those that do not count. The calibration comes last."""
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
            f"{labels.plural(len(rows) - len(listed), 'point')} that count are not listed: filter by store or workload "
            f"to see at most {MAX_LISTED}, or take `pick.opened.table('points')`."
        )


def varying(rows: pd.DataFrame, until: str = "n") -> list[str]:
    """The columns before `until` that have several values in these rows."""
    columns = rows.columns[: rows.columns.get_loc(until)]
    return [c for c in columns if rows[c].nunique() > 1]


def medians(o: Opened) -> Iterator[Displayable]:
    """One row per group of points: what differs between them, and the medians over the runs."""
    rows = o.table("throughput")
    if rows.empty:
        yield "No rates in this campaign."
        return
    yield from compact(rows, (*varying(rows), *GROUP_COLUMNS, *MORE), ("n", "errors", *MORE))


def names(o: Opened) -> Menu:
    """The figures that the campaign can have, after all of them."""
    return [("all", ALL), *((name, name) for name in catalogue.figures_of_plan(o.plan))]


def figures(o: Opened, figure: str = ALL) -> Iterator[Displayable]:
    """The declared figures of what the filters leave, interactive as on the page; one without data is left out."""
    chosen = {name: declared for name, declared in catalogue.figures_of_plan(o.plan).items() if figure in (ALL, name)}
    found = charted({name: (d, [o.table(t) for t in (d.table, *d.further_tables)]) for name, d in chosen.items()})
    yield found or "No figure has data here."
