"""Views of scaling curves: the number of clients, workers or front-ends at which the speed stops rising, or falls."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from storelab.analysis.explore import overview
from storelab.analysis.explore.opened import Displayable, Opened
from storelab.analysis.figures import panels, plots
from storelab.analysis.parts import groups, labels
from storelab.analysis.records import selection
from storelab.analysis.statistics import knees
from storelab.analysis.tables import throughput
from storelab.analysis.tables.points import axis_columns, plain, rated

MAX_CURVES = 12  # maximum number of panels
NONE = f"This campaign has no scaling curve: no axis has {knees.MIN_VALUES} values at which all other axes are equal."
PARTS = ("knee_value", "knee_low", "knee_high", "plateau_value", "linearity_value", "linearity_low", "linearity_high")
FIRST = (knees.PEAK, knees.KNEE)  # shapes that are shown first


def _rows(o: Opened) -> pd.DataFrame:
    """Return the rows of scaling.csv. Rows with a knee or a peak are first."""
    rows = o.table("scaling")
    return rows.assign(_first=~rows["curve"].isin(FIRST)).sort_values("_first", kind="stable").drop(columns="_first")


def _runs(o: Opened) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """Return the curves with their runs, from which scaling.csv is made (`throughput.curves`)."""
    points = rated(plain(o.plan, o.full_table("points")))
    return throughput.curves(points, axis_columns(o.plan), selection.couplings_of(o.plan))


def _same(row: Mapping[str, Any], head: Mapping[str, Any]) -> bool:
    """Return True if a row of scaling.csv belongs to a curve.

    head: the first columns of the curve; columns that it does not have must be null in the row.
    """
    varying = list(row)[: list(row).index("metric") + 1]
    return all(row[c] == head[c] if pd.notna(head.get(c)) else pd.isna(row[c]) for c in varying)


def titles(rows: pd.DataFrame) -> list[str]:
    """Return the title of each curve: store, workload, and the settings that differ between curves."""
    varying = overview.varying(rows, "axis")
    return [
        ", ".join(
            filter(
                None,
                [str(row["store"]), row["workload"].replace("_", " ")]
                + [
                    labels.value_text(c, row[c]) for c in varying if c not in ("store", "workload") and pd.notna(row[c])
                ],
            )
        )
        for row in rows.to_dict("records")
    ]


def curves(o: Opened) -> Iterator[Displayable]:
    """Show a picture with a panel for each curve, and a table with a row for each curve.

    A row has the shape, knee or peak, plateau and linearity, with their 95 % intervals.
    """
    rows = _rows(o)
    if rows.empty:
        yield NONE
        return
    names = titles(rows)
    found = list(_runs(o))
    shown = []
    for title, row in zip(names, rows.to_dict("records"), strict=True):
        points = [(x, y) for head, x, y in found if _same(row, head)]
        if points and len(shown) < MAX_CURVES:
            shown.append((title, row, *points[0], f"{row['metric'].capitalize()} [{groups.UNITS[row['metric']]}]"))
    yield scaling_picture(shown)
    if len(rows) > len(shown):
        yield f"The picture shows {len(shown)} of {len(rows)} curves; the table has all of them."
    table = rows[["axis", "metric", "least", "most", "n", "curve", *PARTS, "reason"]]
    table.insert(0, "curve of", names)
    yield table.rename(columns={"curve": "shape"}).dropna(axis="columns", how="all")


def scaling_picture(curves: Sequence[tuple[str, Mapping[str, Any], np.ndarray, np.ndarray, str]]) -> Figure:
    """Return a picture with a panel for each curve.

    Dots are runs, the line connects their means, and the band is the interval of the knee or peak. curves: for each
    curve its title, its row of scaling.csv, the axis values and the speeds of its runs, and the label of the speed.
    """
    with plots.style():
        small = "dots: runs; line: their mean; dashed: knee or peak; band: its 95 % interval"
        fig, cells = plots.grid(len(curves), 2.1, small)
        colour = plots.tones(1)[0]
        for ax, (title, row, x, y, label) in zip(cells, curves, strict=True):
            values = np.unique(x)
            ax.plot(values, [y[x == v].mean() for v in values], color=colour)
            ax.plot(x, y, color=colour, marker="o", markersize=3, linestyle="none", alpha=0.5)
            if pd.notna(row["knee_value"]):
                ax.axvspan(row["knee_low"], row["knee_high"], color="#f8ddd2", linewidth=0, zorder=0)
                ax.axvline(row["knee_value"], color="#d55e00", linewidth=1, linestyle="--")
            plots.count_axis(ax, values, labels.heading(str(row["axis"]).partition(",")[0]), 6)
            ax.set_ylim(0, 1.1 * y.max())
            ax.set_ylabel(label)
            plots.plain_numbers(ax.yaxis)
            plots.title(ax, f"{title}: {row['curve']}", panels.side_by_side(len(curves)))
    return fig
