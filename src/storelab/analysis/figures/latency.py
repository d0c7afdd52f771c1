"""Figures of latency: against concurrency (closed loop), against the arrival rate (open loop), and its spectrum.

What the quantiles are: `tables.latency`. Both axes of time are logarithmic.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.panels import room, side_by_side
from storelab.analysis.figures.specification import Curve, Function, Measure, Specification
from storelab.analysis.parts import words
from storelab.analysis.tables import latency
from storelab.core import units
from storelab.core.axes import DEPLOYMENT_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = (
    Curve("latency_p50", "ms", "p50"),
    Curve("latency_p99", "ms", "p99"),
    Curve("latency_p999", "ms", "p99.9"),
    Curve("ttfb_p50", "ms", "time to first byte, p50", ":"),
)
LOOPS = {
    "closed": "closed loop: a worker begins when its last operation has ended, and asks nothing while the system "
    "stalls",
    "open": "open loop: operations fall due at a constant rate, and latency counts from then",
}
DASHES = {"closed": "--", "open": ":"}
SPECTRUM = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9"}
LOADS = ("clients", "workers", "arrival_rate")  # what tells no panels apart
HEIGHT = 2.4  # inches of a panel of the spectrum


def _size(row: pd.Series) -> str:
    """Of the range, else of the object."""
    return next((units.format_size(int(row[c])) for c in latency.SIZES if c in row and not pd.isna(row[c])), "")


def _against(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """With `place`: which panel, one for each deployment, op, size, and value of every axis but the column's own. Of
    several rows with one value of the column in a panel, the one with the fewest clients."""
    rows = latency.shown(rows)
    rows = rows[rows[column].fillna(0) > 0]
    apart = ("clients", "workers") if column == "concurrency" else (column,)
    first = ["store", "op", "workload", *(c for c in latency.SIZES if c in rows)]
    by = [*first, *(c for c in words.axes_of(rows) if c not in (*apart, *first))]
    rows = rows.assign(place=rows.groupby(by, dropna=False).ngroup()) if len(rows) else rows.assign(place=0)
    return rows.sort_values(["place", column, "clients"], kind="stable").drop_duplicates(["place", column])


def _heading(first: pd.Series, rows: pd.DataFrame) -> str:
    """Deployment, op, size, and what else tells the panels of these rows apart."""
    known = (*LOADS, *DEPLOYMENT_NAMES, *latency.SIZES)
    same = rows.loc[rows["op"] == first["op"], "workload"].nunique() > 1
    more = [words.value_text("workload", first["workload"])] if same else []
    more += [words.value_text(c, first[c]) for c in words.axes_of(rows) if c not in known and rows[c].nunique() > 1]
    return ", ".join(filter(None, [f"{words.deployment(first)}: {first['op']} {_size(first)}".strip(), *more]))


def _behind(rows: pd.DataFrame) -> pd.Series:
    """Where the system did not keep up with what was due."""
    return rows["completed_percent"].astype(float) < latency.KEPT_UP


def _note(rows: pd.DataFrame) -> str:
    binned = f"; from histograms, to {100 * (latency.WIDTH - 1):g} %" if rows["binned"].astype(bool).any() else ""
    loop = LOOPS[rows["loop"].iloc[0]]
    behind = f"; open symbols: less than {latency.KEPT_UP:g} % of what was due was done" if _behind(rows).any() else ""
    return f"{binned}. {loop[0].upper()}{loop[1:]}{behind}"


def _curves(loop: str, column: str, x_label: str, legend: str, caption: str) -> Specification:
    """Quantiles against a column that counts something: a panel per deployment, op and size."""
    return Specification(
        table="latency",
        where={"loop": loop},
        prepare=lambda rows: _against(rows, column),
        measures=(Measure(CURVES, "Latency [ms]", scale="log"),),
        x=column,
        x_label=x_label,
        by_curve=True,
        panels=("place",),
        heading=_heading,
        swept=True,
        hollow=_behind,
        note=_note,
        height=2.2,
        title=legend,
        caption=caption,
    )


def _spectrum_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return closed loops at the least and the most operations in flight and open loops at the most due, with system,
    load and panel; no panel of one system and one load."""
    rows = latency.shown(latency.ends(table, open_least=False), "latency_p90")
    if rows.empty:
        return rows
    several = "engine" in rows and rows["engine"].nunique() > 1
    system = [", ".join([words.deployment(r), *([r["engine"]] if several else [])]) for _, r in rows.iterrows()]
    load = pd.Series([r[latency.load_column(r["loop"])] for _, r in rows.iterrows()], index=rows.index)
    panel = [f"{latency.operation(r)} {_size(r)}".strip() for _, r in rows.iterrows()]
    rows = rows.assign(system=system, load=load.astype(float), panel=panel)
    rows = rows[rows.groupby("panel")["panel"].transform("size") > 1]
    places = {name: i for i, name in enumerate(dict.fromkeys(rows["panel"]))}
    rows = rows.assign(place=rows["panel"].map(places).astype(int))
    return rows.sort_values(["place", "system", "loop", "load"])


def _spectrum_panels(table: pd.DataFrame) -> int:
    rows = _spectrum_rows(table)
    return rows["panel"].nunique() if len(rows) else 0


def latency_spectrum(table: pd.DataFrame) -> "Figure | None":
    """Latency by quantile, a panel per op and size, a curve per system and load: a colour for each deployment (and
    engine), dashes for the load."""
    from storelab.analysis.figures import plots

    rows = _spectrum_rows(table)
    if rows.empty:
        return None
    rows = rows[rows["place"] < room()]
    palette, panels = plots.looks(sorted(rows["system"].unique())), list(rows.groupby("panel", sort=False))
    handles: dict[str, Any] = {}
    ends: list[list[tuple[float, float, str, Any]]] = []
    with plots.style():
        fig, cells = plots.grid(len(panels), HEIGHT, plots.subtitle(rows))
        for ax, (name, part) in zip(cells, panels, strict=True):
            ends.append([])
            for i, (_, r) in enumerate(part.iterrows()):
                own = part[(part["system"] == r["system"]) & (part["loop"] == "closed")]
                light = r["loop"] == "closed" and r["load"] < own["load"].max()
                look = dict(zip(("color", "marker"), palette[r["system"]], strict=True))
                look["linestyle"] = "-" if light else DASHES[r["loop"]]
                ends[-1].append(_quantiles(ax, r, 1 + 0.05 * (i - (len(part) - 1) / 2), look))
                kind = "fewest in flight" if light else "most in flight" if own["load"].nunique() > 1 else ""
                kind = "most due" if r["loop"] == "open" else kind
                said = ", ".join(filter(None, [r["system"], f"{r['loop']} loop", kind]))
                handles.setdefault(said, plots.Line2D([], [], label=said, **look))
            _quantile_axis(ax)
            if part[["loop", "load"]].drop_duplicates().shape[0] == 1:  # the title has the one load
                name, ends[-1] = f"{name}, {ends[-1][0][2]}", []
            plots.title(ax, name, side_by_side(len(panels)))
        plots.time_axis(cells, [part["latency_p50_median_ms"] for _, part in panels], "Latency [ms]")
        plots.labels(cells, side_by_side(len(panels)))
        plots.key(fig, list(handles.values()), "Latency by quantile")
        plots.place_labels(fig, cells, ends)
    return fig


def _quantile_axis(ax: "Axes") -> None:
    ax.set(
        xscale="log", xlim=(1.6, 12_000), xlabel="Quantile of the operations"
    )  # room for the loads behind the curves
    ax.set_xticks([1 / (1 - p) for p in SPECTRUM], list(SPECTRUM.values()))
    ax.set_xticks([], minor=True)


def _quantiles(ax: "Axes", row: pd.Series, aside: float, look: dict[str, Any]) -> tuple[float, float, str, Any]:
    """One curve through the quantiles that are known, with bars, a little aside so that no curve hides another; its
    end (x, y), its load in words, its colour."""
    known = [
        (p, f"latency_{n}")
        for p, n in zip(latency.LEVELS, latency.NAMES, strict=True)
        if not pd.isna(row[f"latency_{n}_median_ms"])
    ]
    y, low, high = ([row[f"{m}_{part}_ms"] for _, m in known] for part in ("median", "low", "high"))
    bars = [[v - w for v, w in zip(y, low, strict=True)], [w - v for v, w in zip(y, high, strict=True)]]
    ax.errorbar([aside / (1 - p) for p, _ in known], y, bars, elinewidth=1, capsize=2.5, **look)
    load = f"{words.grouped(f'{row.load:.0f}')} {'due/s' if row['loop'] == 'open' else 'in flight'}"
    return aside / (1 - known[-1][0]), y[-1], load, look["color"]


FIGURES = {
    "latency_closed": _curves(
        "closed",
        "concurrency",
        "Operations in flight (clients times workers)",
        "Latency against concurrency, closed loop",
        "Latency against the operations in flight, closed loop ({engine}, runs of {seconds} s): quantiles of each "
        "run, and the time to the "
        "first byte. A closed loop asks nothing while the system stalls, and so sees a stall once per worker only. "
        "Medians of the runs; "
        "{bars}. {shared}",
    ),
    "latency_open": _curves(
        "open",
        "arrival_rate",
        "Operations due per second",
        "Latency against load, open loop",
        "Latency against the operations due per second, open loop ({engine}, runs of {seconds} s): quantiles of each "
        "run, counted from "
        "when an operation was due. Open symbols: the system did not keep up. Medians of the runs; {bars}. {shared}",
    ),
    "latency_spectrum": Function(
        table="latency",
        function=latency_spectrum,
        count=_spectrum_panels,
        most=room(),
        things="panels",
        caption="Latency by quantile, by system, loop and load, which is at the end of each curve or in the title. "
        "Medians of the runs; {bars}. {shared}",
    ),
}
