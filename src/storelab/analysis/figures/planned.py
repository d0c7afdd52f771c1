"""Figures that depend on the plan: figures that a campaign declares, and figures along coupled axes.

Coupled axes (`together` of a sweep) have a figure for each coupling and table. Each row of the coupling is a position
on the x axis, and its label shows all values of the row. If the first axis is a count without repeated values, rows are
placed at this count, otherwise at 1, 2, 3 …
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from storelab.analysis.figures.specification import (
    Curve,
    Declared,
    Measure,
    Reference,
    Specification,
    figure_name,
    same,
)
from storelab.analysis.figures.systems import heading_of, measures_of_classes
from storelab.analysis.figures.throughput import limits
from storelab.analysis.parts import labels
from storelab.analysis.parts.groups import labelled
from storelab.analysis.records import selection
from storelab.analysis.records.selection import Coupling
from storelab.analysis.tables.throughput import CLASSES
from storelab.core.figures import METRICS
from storelab.core.model import PREFIX

# --- along the rows of coupled axes ---

STEM = "along"  # prefix of the names of these figures; a campaign cannot use it
ROW, COUPLED = "row", "coupled"  # columns that are added for these figures
SIZE = "object_size_bytes"
SHOWN = {  # what the figure of each table shows
    "throughput": "Throughput, or operations per second",
    "latency": "Latency",
    "sparse": "Throughput on the wire and entries per second",
    "events": "Events per second and throughput on the wire",
    "roles": "Operations per second and latency of each role",
}
CLASSED = tuple({of.workload for of in CLASSES.values()})
SPARSE = ("read_volume", "read_entries", "replay")
WIRE = Measure((Curve("wire", "mb_per_s"),), "Throughput on the wire [MB/s]")


def places(coupling: Coupling) -> dict[int, tuple[Any, ...]]:
    """Return the rows of a coupling by their position on the x axis: position -> values of the row."""
    first = [row[0] for row in coupling.rows]
    counted = all(isinstance(v, int) and not isinstance(v, bool) for v in first) and len(set(first)) == len(first)
    sized = coupling.axes[0].endswith("_bytes")
    at = first if counted and not sized else range(1, len(first) + 1)
    return dict(zip(at, coupling.rows, strict=True))


def names(coupling: Coupling) -> dict[int, str]:
    """Return the tick labels of the rows: position -> label, with one line for the value of each axis."""
    return {
        at: "\n".join(labels.cell(c, v) for c, v in zip(coupling.axes, row, strict=True))
        for at, row in places(coupling).items()
    }


def label(coupling: Coupling) -> str:
    """Return the label of the x axis: the names of the coupled axes, in the order of the values in tick labels."""
    heads = [labels.heading(c) for c in coupling.axes]
    heads = [heads[0], *(f"{h[0].lower()}{h[1:]}" for h in heads[1:])]
    return f"{', '.join(heads[:-1])} and {heads[-1]} together"


def figures_of_plan(plan: Mapping[str, Any]) -> dict[str, Specification]:
    """Return the figures along coupled axes that a campaign with this plan can have."""
    found: dict[str, Specification] = {}
    for coupling in selection.couplings_of(plan):
        for table, figure in _figures(coupling).items():
            name = figure_name(STEM, "_".join([*coupling.axes, *([] if table == "throughput" else [table])]))
            while name in found:  # other rows of the same axes
                name += "_again"
            found[name] = figure
    return found


def _figures(coupling: Coupling) -> dict[str, Specification]:
    """Return the figures along a coupling: name of the table -> figure."""
    coupled = coupling.workloads
    plain = [w for w in coupled if w not in (*SPARSE, "events") and not w.startswith(PREFIX)]
    out = {}
    if plain:
        others = tuple(
            Measure((Curve("rate", "per_s"),), "Operations/s", labels.value_text("workload", w), {"workload": w})
            for w in plain
            if w not in CLASSED
        )
        measures = tuple(m for m in measures_of_classes("{unit}") if m.where["workload"] in plain)
        out["throughput"] = _along("throughput", coupling, plain, (*measures, *others), within=True, classes=True)
        marks = tuple(Curve(f"latency_{p}", "ms", p, dash) for p, dash in (("p50", "-"), ("p99", ":")))
        times = (Measure(marks, "Latency [ms]", scale="log"),)
        out["latency"] = _along("latency", coupling, plain, times, more=("op",))
    if read := [w for w in coupled if w in SPARSE]:
        measures = (WIRE, Measure((Curve("entries", "per_s"),), "Useful work [entries/s]", log_from=10))
        out["sparse"] = _along("sparse", coupling, read, measures, columns=True)
    if "events" in coupled:
        measures = (Measure((Curve("events", "per_s"),), "Events/s"), WIRE)
        out["events"] = _along("events", coupling, ["events"], measures, columns=True)
    if roles := [w for w in coupled if w.startswith(PREFIX)]:
        measures = (
            Measure((Curve("rate", "per_s"),), "Operations/s"),
            Measure((Curve("latency_p99", "ms"),), "Latency, p99 [ms]", scale="log"),
        )
        out["roles"] = _along("roles", coupling, roles, measures, columns=True, hue=("role",), more=("phase",))
    return out


def _along(
    table: str,
    coupling: Coupling,
    workloads: list[str],
    measures: tuple[Measure, ...],
    classes: bool = False,
    **more: Any,
) -> Specification:
    at = {row: place for place, row in places(coupling).items()}
    engines = "" if table == "roles" else " ({engine})"
    what = label(coupling)

    def placed(rows: pd.DataFrame) -> pd.DataFrame:
        values = rows[list(coupling.axes)].itertuples(index=False, name=None)
        sized = rows if SIZE in rows else rows.assign(**{SIZE: pd.NA})
        return labelled(
            sized.assign(**{ROW: [at[tuple(value)] for value in values], COUPLED: "one row after the other"})
        )

    hue = COUPLED if "engine" in coupling.axes else "engine"  # coupled axes do not distinguish curves
    look: dict[str, Any] = {"hue": (hue,), "panels": ("store", "workload")}
    look |= {"panels": ("deployment", SIZE), "heading": heading_of} if classes else {}
    return Specification(
        **look | more,
        table=table,
        where={"workload": tuple(workloads)},
        rows=lambda rows: rows[coupling.along(rows)] if len(rows) else rows,
        prepare=placed,
        measures=measures,
        x=ROW,
        x_label=what,
        x_names=names(coupling),
        apart=coupling.axes,
        swept=True,
        height=2.4,
        title=f"{what}{engines}",
        caption=f"{SHOWN[table]}. {what}: each position on the axis is one row of values, from top to bottom{engines}. "
        "Medians; {bars}. {shared}",
    )


def others(figure: Declared, couplings: list[Coupling]) -> Declared:
    """Return a figure without the rows that belong only to a coupling, if they would be isolated points in it.

    A separate figure shows these rows.
    """
    if not couplings or not isinstance(figure, Specification):
        return figure
    rows, x = figure.rows, figure.x

    def remaining(table: pd.DataFrame) -> pd.DataFrame:
        return rows(without(table, couplings, x))

    return replace(figure, rows=remaining)


def without(table: pd.DataFrame, couplings: list[Coupling], x: str) -> pd.DataFrame:
    """Return the rows of a table without those that belong only to a coupling.

    They are removed only if x is an axis of the coupling, or has only one value in these rows.
    """
    for coupling in couplings if len(table) else ():
        only_coupled = coupling.only(table)
        if x in coupling.axes or (x in table and table.loc[only_coupled, x].nunique() <= 1):
            table = table[~only_coupled]
    return table


def along_x(couplings: list[Coupling], x: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows prepared for a figure against one axis of a coupling.

    The other axes of the coupling do not distinguish curves. The column `coupled` describes them in words. Rows of a
    coupling in which two rows have the same value of x are not changed.
    """
    rows, masked = rows.assign(**{COUPLED: ""}), dict[str, None]()
    for coupling in couplings if len(rows) else ():
        only_coupled = coupling.only(rows)
        if x not in coupling.axes or not only_coupled.any():
            continue
        place = coupling.axes.index(x)
        if len({row[place] for row in coupling.rows}) < len(coupling.rows):
            continue
        others_of_row = [c for c in coupling.axes if c != x]
        rows.loc[only_coupled, COUPLED] = "with " + ", ".join(_first_to_last(coupling, c) for c in others_of_row)
        rows = rows.assign(**{c: rows[c].astype(object).where(~only_coupled) for c in others_of_row})
        masked |= dict.fromkeys(others_of_row)
    plain = rows[COUPLED] == ""
    one = [c for c in masked if rows.loc[plain, c].nunique() == 1]  # axes that do not distinguish curves
    rows.loc[plain, COUPLED] = ", ".join(filter(None, (labels.value_text(c, rows.loc[plain, c].iloc[0]) for c in one)))
    return rows


def _first_to_last(coupling: Coupling, column: str) -> str:
    """Return the values of an axis in the first and the last row, such as `3 to 21 clients`."""
    place = coupling.axes.index(column)
    first, last = (labels.cell(column, row[place]) for row in (coupling.rows[0], coupling.rows[-1]))
    return f"{first} to {last} {labels.heading(column).lower()}"


# --- declared by the campaign ---


def declared(plan: Mapping[str, Any]) -> dict[str, Specification]:
    """Return the figures that the campaign declares in its plan. Plans of older versions have none."""
    couplings = selection.couplings_of(plan)
    return {name: _specification(entry, couplings) for name, entry in plan.get("figures", {}).items()}


def _specification(figure: Mapping[str, Any], couplings: list[Coupling]) -> Specification:
    """Return the specification of a declared figure. figure: the result of `core.figures.resolved`."""
    found = [METRICS[figure["table"]][name] for name in figure["y"]]
    y_labels = [figure["y_label"] or label for _, _, label in found]
    measures = tuple(
        Measure((Curve(stem, unit),), _escape(label), scale=figure["y_scale"])
        for (stem, unit, _), label in zip(found, y_labels, strict=True)
    )
    has_roles = figure["table"] == "roles"  # each role has its own engine
    against = figure["x_label"] or labels.heading(figure["x"])
    drawn = f"{' and '.join(label.partition(' [')[0] for label in y_labels)} against {against[0].lower()}{against[1:]}"
    caption = figure["caption"].strip().rstrip(".") or drawn

    def lines(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
        yield from (Reference(limit["at"], "--", limit["label"]) for limit in figure["limits"])
        if figure["table"] == "throughput" and figure["x"] == "clients":
            yield from limits(rows, measure)

    return Specification(
        table=figure["table"],
        where=figure["where"],
        prepare=partial(along_x, couplings, figure["x"]) if couplings else same,
        measures=measures,
        x=figure["x"],
        x_label=_escape(against),
        x_scale=figure["x_scale"],
        hue=tuple(figure["hue"] or ["role" if has_roles else "engine"]),
        more=("store", "workload", "op", "loop", "role", "phase", COUPLED),
        panels=tuple(figure["panels"]),
        columns=len(measures) > 1,
        least=1,
        references=lines,
        title=_escape(figure["title"] or drawn),
        caption=f"{_escape(caption)}{'' if has_roles else ' ({engine})'}. Medians; {{bars}}. {{shared}}{{limit}}",
    )


def _escape(text: str) -> str:
    """Return the text with escaped braces, so that `str.format` does not change it."""
    return text.replace("{", "{{").replace("}", "}}")
