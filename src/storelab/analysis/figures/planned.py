"""Figures that follow from the plan: those that a campaign declares, and those along the rows of coupled axes.

Rows of axes that go together (`together` of a sweep) have a figure for each coupling and table: x is the row, and shows
all its values. Where the first axis counts something, and no two rows have the same number of it, rows are placed at
that number; otherwise one after the other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from storelab.analysis.figures.specification import Curve, Declared, Measure, Reference, Specification, same, spelt
from storelab.analysis.figures.systems import heading_of, measures_of_classes
from storelab.analysis.figures.throughput import limits
from storelab.analysis.parts import words
from storelab.analysis.parts.groups import labelled
from storelab.analysis.records import selection
from storelab.analysis.records.selection import Coupling
from storelab.analysis.tables.throughput import CLASSES
from storelab.core.figures import METRICS
from storelab.core.model import PREFIX

# --- along the rows of axes that go together ---

STEM = "along"  # names of these figures begin so, and no campaign's own
ROW, TOLD = "row", "coupled"  # columns that they draw by
SIZE = "object_size_bytes"
SHOWN = {  # what is drawn from each table
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
    """Where each row stands on the axis."""
    first = [row[0] for row in coupling.rows]
    counted = all(isinstance(v, int) and not isinstance(v, bool) for v in first) and len(set(first)) == len(first)
    sized = coupling.axes[0].endswith("_bytes")
    at = first if counted and not sized else range(1, len(first) + 1)
    return dict(zip(at, coupling.rows, strict=True))


def names(coupling: Coupling) -> dict[int, str]:
    """The label of each row: the value of each axis in a line of its own."""
    return {
        at: "\n".join(words.cell(c, v) for c, v in zip(coupling.axes, row, strict=True))
        for at, row in places(coupling).items()
    }


def label(coupling: Coupling) -> str:
    """All axes, in the order of their values below each other."""
    heads = [words.heading(c) for c in coupling.axes]
    said = [heads[0], *(f"{h[0].lower()}{h[1:]}" for h in heads[1:])]
    return f"{', '.join(said[:-1])} and {said[-1]} together"


def of_plan(plan: Mapping[str, Any]) -> dict[str, Specification]:
    """The figures along the rows that a campaign with this plan can have."""
    found: dict[str, Specification] = {}
    for coupling in selection.couplings_of(plan):
        for table, figure in _figures(coupling).items():
            name = spelt(STEM, "_".join([*coupling.axes, *([] if table == "throughput" else [table])]))
            while name in found:  # other rows of the same axes
                name += "_again"
            found[name] = figure
    return found


def _figures(coupling: Coupling) -> dict[str, Specification]:
    """Table -> figure."""
    own = coupling.workloads
    plain = [w for w in own if w not in (*SPARSE, "events") and not w.startswith(PREFIX)]
    out = {}
    if plain:
        others = tuple(
            Measure((Curve("rate", "per_s"),), "Operations/s", words.value_text("workload", w), {"workload": w})
            for w in plain
            if w not in CLASSED
        )
        measures = tuple(m for m in measures_of_classes("{unit}") if m.where["workload"] in plain)
        out["throughput"] = _of("throughput", coupling, plain, (*measures, *others), within=True, classes=True)
        marks = tuple(Curve(f"latency_{p}", "ms", p, dash) for p, dash in (("p50", "-"), ("p99", ":")))
        out["latency"] = _of("latency", coupling, plain, (Measure(marks, "Latency [ms]", scale="log"),), more=("op",))
    if read := [w for w in own if w in SPARSE]:
        measures = (WIRE, Measure((Curve("entries", "per_s"),), "Useful work [entries/s]", log_from=10))
        out["sparse"] = _of("sparse", coupling, read, measures, columns=True)
    if "events" in own:
        measures = (Measure((Curve("events", "per_s"),), "Events/s"), WIRE)
        out["events"] = _of("events", coupling, ["events"], measures, columns=True)
    if roles := [w for w in own if w.startswith(PREFIX)]:
        measures = (
            Measure((Curve("rate", "per_s"),), "Operations/s"),
            Measure((Curve("latency_p99", "ms"),), "Latency, p99 [ms]", scale="log"),
        )
        out["roles"] = _of("roles", coupling, roles, measures, columns=True, hue=("role",), more=("phase",))
    return out


def _of(
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
        return labelled(sized.assign(**{ROW: [at[tuple(value)] for value in values], TOLD: "one row after the other"}))

    hue = TOLD if "engine" in coupling.axes else "engine"  # no axis of the row tells curves apart
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
        caption=f"{SHOWN[table]}. {what}: each place on the axis is one row of values, from above{engines}. Medians; "
        "{bars}. {shared}",
    )


def others(figure: Declared, couplings: list[Coupling]) -> Declared:
    """A figure without the rows that stand along a coupling alone, where they would be lone points: those have a figure
    of their own."""
    if not couplings or not isinstance(figure, Specification):
        return figure
    rows, x = figure.rows, figure.x

    def left(table: pd.DataFrame) -> pd.DataFrame:
        return rows(without(table, couplings, x))

    return replace(figure, rows=left)


def without(table: pd.DataFrame, couplings: list[Coupling], x: str) -> pd.DataFrame:
    """The rows that do not stand along one of the couplings alone, if x is one of its axes, or has one value there."""
    for coupling in couplings if len(table) else ():
        own = coupling.only(table)
        if x in coupling.axes or (x in table and table.loc[own, x].nunique() <= 1):
            table = table[~own]
    return table


def along_x(couplings: list[Coupling], x: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows for a figure against one axis of a coupling: its other axes tell no curves apart, in one column they say
    what they are. Not where two rows have one value of it."""
    rows, masked = rows.assign(**{TOLD: ""}), dict[str, None]()
    for coupling in couplings if len(rows) else ():
        own = coupling.only(rows)
        if x not in coupling.axes or not own.any():
            continue
        place = coupling.axes.index(x)
        if len({row[place] for row in coupling.rows}) < len(coupling.rows):
            continue
        beside = [c for c in coupling.axes if c != x]
        rows.loc[own, TOLD] = "with " + ", ".join(_ends(coupling, c) for c in beside)
        rows = rows.assign(**{c: rows[c].astype(object).where(~own) for c in beside})
        masked |= dict.fromkeys(beside)
    plain = rows[TOLD] == ""
    one = [c for c in masked if rows.loc[plain, c].nunique() == 1]  # it tells no curves apart by itself
    rows.loc[plain, TOLD] = ", ".join(filter(None, (words.value_text(c, rows.loc[plain, c].iloc[0]) for c in one)))
    return rows


def _ends(coupling: Coupling, column: str) -> str:
    """Of an axis, its values in the first row and the last: `3 to 21 clients`."""
    place = coupling.axes.index(column)
    first, last = (words.cell(column, row[place]) for row in (coupling.rows[0], coupling.rows[-1]))
    return f"{first} to {last} {words.heading(column).lower()}"


# --- declared by the campaign ---


def declared(plan: Mapping[str, Any]) -> dict[str, Specification]:
    """Those that the plan carries (plans of older versions: none)."""
    couplings = selection.couplings_of(plan)
    return {name: _specification(said, couplings) for name, said in plan.get("figures", {}).items()}


def _specification(said: Mapping[str, Any], couplings: list[Coupling]) -> Specification:
    """said: a figure as `core.figures.resolved` gives it."""
    found = [METRICS[said["table"]][name] for name in said["y"]]
    labels = [said["y_label"] or label for _, _, label in found]
    measures = tuple(
        Measure((Curve(stem, unit),), _plain(label), scale=said["y_scale"])
        for (stem, unit, _), label in zip(found, labels, strict=True)
    )
    has_roles = said["table"] == "roles"  # each with an engine of its own
    against = said["x_label"] or words.heading(said["x"])
    drawn = f"{' and '.join(label.partition(' [')[0] for label in labels)} against {against[0].lower()}{against[1:]}"
    caption = said["caption"].strip().rstrip(".") or drawn

    def lines(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
        yield from (Reference(limit["at"], "--", limit["label"]) for limit in said["limits"])
        if said["table"] == "throughput" and said["x"] == "clients":
            yield from limits(rows, measure)

    return Specification(
        table=said["table"],
        where=said["where"],
        prepare=partial(along_x, couplings, said["x"]) if couplings else same,
        measures=measures,
        x=said["x"],
        x_label=_plain(against),
        x_scale=said["x_scale"],
        hue=tuple(said["hue"] or ["role" if has_roles else "engine"]),
        more=("store", "workload", "op", "loop", "role", "phase", TOLD),
        panels=tuple(said["panels"]),
        columns=len(measures) > 1,
        least=1,
        references=lines,
        title=_plain(said["title"] or drawn),
        caption=f"{_plain(caption)}{'' if has_roles else ' ({engine})'}. Medians; {{bars}}. {{shared}}{{limit}}",
    )


def _plain(text: str) -> str:
    """As it stands, in a template."""
    return text.replace("{", "{{").replace("}", "}}")
