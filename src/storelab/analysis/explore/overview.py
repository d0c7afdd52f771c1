"""What was measured: a campaign in short, its points, medians, figures, and one point over its time."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from storelab.analysis.explore import pictures
from storelab.analysis.explore.opened import Menu, Opened
from storelab.analysis.explore.things import Thing, escaped
from storelab.analysis.figures import catalogue
from storelab.analysis.figures.draw import draw
from storelab.analysis.parts import words
from storelab.analysis.records import windows
from storelab.analysis.report import summary

ALL = ""  # of the menu of figures
OF_POINT = ("order", "key", "state", "reason", "overlap_throughput_mb_per_s", "overlap_rate_per_s", "tail_s")
OF_GROUP = ("n", "throughput_median_mb_per_s", "rate_median_per_s", "rate_low_per_s", "rate_high_per_s", "errors")
MORE = ("interval", "coverage_percent")
CPU = ("client_cpu_percent", "server_cpu_percent")
OF_WINDOW = ("begin_s", "end_s", "length_s", "operations", "errors", "throughput_mb_per_s", "rate_per_s")


def campaign(o: Opened) -> Iterator[Thing]:
    """What was measured, where and when, and what is noted of points; as on the page of the campaign."""
    head = summary.head(o.campaign, {name: o.whole(name) for name in ("points", "numbers")})
    yield f"**{escaped(head['title'])}**"
    yield pd.DataFrame(head["facts"], columns=["what", "value"])
    if head["notes"]:
        yield pd.DataFrame([note[:2] for note in head["notes"]], columns=["points", "noted"])


def points(o: Opened) -> Iterator[Thing]:
    """How many points ended how, and one row for each."""
    rows = o.table("points")
    yield rows.groupby(["store", "workload", "state"], as_index=False).agg(
        points=("key", "size"), operations=("operations", "sum"), errors=("errors", "sum")
    )
    yield rows[[*OF_POINT, "steadiness", "errors"]]


def varying(rows: pd.DataFrame, until: str = "n") -> list[str]:
    """The columns before `until` that have several values in these rows."""
    columns = rows.columns[: rows.columns.get_loc(until)]
    return [c for c in columns if rows[c].nunique() > 1]


def medians(o: Opened) -> Iterator[Thing]:
    """One row per group of points: what differs between them, and the medians over the runs."""
    rows = o.table("throughput")
    if rows.empty:
        yield "No rates in this campaign."
        return
    yield rows[[c for c in (*varying(rows), *OF_GROUP, *CPU, *MORE) if c in rows]]


def names(o: Opened) -> Menu:
    """The figures that the campaign can have, after all of them."""
    return [("all", ALL), *((name, name) for name in catalogue.of(o.plan))]


def figures(o: Opened, figure: str = ALL) -> Iterator[Thing]:
    """The declared figures, as the paper has them, of what the filters leave; one without data is left out."""
    shown = 0
    for name, declared in catalogue.of(o.plan).items():
        if figure in (ALL, name):
            table, *beside = (o.table(t) for t in (declared.table, *declared.beside))
            if (drawn := draw(declared, table, *beside)) is not None:
                shown += 1
                yield drawn
                yield f"{name}: {catalogue.caption(declared, table)}"
    if not shown:
        yield "No figure has data here."


def measured(o: Opened) -> Menu:
    """The points that count, those with the most clients first."""
    rows = o.table("points")
    rows = rows[rows["state"] == "ok"].sort_values(["clients_joined", "order"], ascending=[False, True])
    return [(", ".join(words.key_text(key)), key) for key in rows["key"]]


def over_time(o: Opened, point: Any = None) -> Iterator[Thing]:
    """Completions of each client of a point, and its windows; `overlap` (grey) is where the rates are taken."""
    rows = o.whole("points")
    if point is None:
        yield "No point here has a run that counts."
        return
    row = rows[rows["key"] == point].iloc[0]
    yield pictures.over_time(
        windows.completions(o.campaign, point, slices=50),
        ", ".join(words.key_text(point)),
        (row["overlap_begin_s"], row["overlap_end_s"]),
    )
    if pd.isna(row["overlap_begin_s"]):
        yield "A point with roles has no window of its own: each role has one, in `roles.csv`."
    else:
        yield pd.DataFrame([{"window": w} | {n: row[f"{w}_{n}"] for n in OF_WINDOW} for w in windows.WINDOWS])
