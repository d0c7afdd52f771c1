"""The figures by name, in the order of the paper; which of them a campaign can have; their captions.

A figure has one name in code, rule, file and label. A campaign adds its own (`figures:`, docs/figures.md), which
its plan carries.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.figures import (
    errors,
    latency,
    own,
    panels,
    resources,
    sparse,
    systems,
    throughput,
)
from storelab.analysis.figures.reading import events, gaps
from storelab.analysis.figures.roles import timeline
from storelab.analysis.figures.specification import Declared, Specification, select
from storelab.analysis.figures.systems import together as along
from storelab.analysis.parts import words
from storelab.analysis.records import roles, selection

_ORDER = (throughput, systems, sparse, gaps, events, latency, resources, errors)  # the paper's; others stand behind
_HERE = Path(__file__).parent
_FOUND = (
    import_module(".".join([__package__, *path.relative_to(_HERE).with_suffix("").parts]).removesuffix(".__init__"))
    for path in sorted((*_HERE.glob("*.py"), *_HERE.glob("*/*.py")), key=lambda path: path.stem)
    if "\nFIGURES = {" in path.read_text()
)
MODULES = (*_ORDER, *(module for module in _FOUND if module not in _ORDER))
FIGURES: dict[str, Declared] = {name: figure for module in MODULES for name, figure in module.FIGURES.items()}
_HOME = {name: module.__name__ for module in MODULES for name in module.FIGURES}


def of(plan: Mapping[str, Any]) -> dict[str, Declared]:
    """The built-in figures that a campaign with this plan can have, those over time, those along rows of axes that go
    together, and its own."""
    points, couplings = _points(plan), selection.couplings_of(plan)
    found = {}
    for name, known in FIGURES.items():
        figure = along.others(known, couplings)
        rows = select(points, figure.where)
        if len(rows) and isinstance(figure, Specification):
            rows = along.without(rows, couplings, figure.x)
        if len(rows) and all(c in rows and rows[c].nunique() > 1 for c in figure.several):
            found[name] = figure
    return found | along.of_plan(plan) | timeline.of_plan(plan) | own.figures(plan)


def is_built_in(name: str) -> bool:
    """Whether the paper's text may speak of a figure of this name."""
    return name in FIGURES or name.split("_")[0] in (timeline.STEM, along.STEM)


def names(plan: Mapping[str, Any]) -> list[str]:
    """Names of the figures that a campaign with this plan can have; one without data is drawn as none."""
    return list(of(plan))


def modules(name: str) -> tuple[str, ...]:
    """Dotted names of the modules that define and draw a figure: with what these import, all that it rests on."""
    home = {timeline.STEM: timeline, along.STEM: along}.get(name.split("_")[0], own)
    return _HOME.get(name, home.__name__), f"{__package__}.draw"


def _points(plan: Mapping[str, Any]) -> pd.DataFrame:
    """The planned points with the columns of the tables that the choice of figures asks for."""
    columns = {w: {a["name"]: a["column"] for a in d["axes"]} for w, d in plan["workloads"].items()}
    rows = []
    for point in plan["points"]:
        row = {columns[point["workload"]][k]: v for k, v in point["axes"].items()} | {
            k: point[k] for k in ("store", "workload")
        }
        if having := plan["workloads"][point["workload"]].get("roles"):
            row["phase"] = roles.DURING if timeline.is_disturbed(point, having) else roles.THROUGHOUT
        rows.append(
            row | {"deployment": words.deployment(row), "loop": "open" if row.get("arrival_rate") else "closed"}
        )
    return pd.DataFrame(rows)


def caption(figure: Declared, table: pd.DataFrame, shown: panels.Layout | None = None) -> str:
    """The caption with what the table says: sizes, engine, seconds of a run, n and kind of the bars, shared host;
    what is not shown. shown: its panels, where they are known; the caption is then about what they show."""
    rows = shown.rows if shown else panels.rated(figure, figure.told(table))
    seconds = sorted(rows["duration_s"].unique()) if "duration_s" in rows else []
    shared = rows["shared_host"].astype(bool) if "shared_host" in rows else pd.Series([False])
    alone = shared.any() and not panels.limits(rows).any()
    said = panels.fields(rows) | {
        "seconds": " and ".join(f"{s:g}" for s in seconds),
        "bars": words.bars_text(rows) if "interval" in rows else "",
        "scaling": "Front-ends and clients share the cores of one host: what more front-ends would bring, this "
        "figure cannot tell."
        if alone
        else "",
        "shared": (
            "Client and server share one host."
            if shared.all()
            else "Some clients share the server's host."
            if shared.any()
            else ""
        )
        + (f" {symbols[0].upper()}{symbols[1:]}." if (symbols := panels.symbols(rows)) else ""),
        "limit": (
            " Dashed: what links can carry, over the points that used half of it or more."
            if panels.links(rows).any()
            else ""
        )
        + (
            " Dotted: the ceiling of an engine, what the same clients reach at a near-null server on the store's side."
            if panels.ceilings(rows).any()
            else ""
        ),
    }
    printed = getattr(figure, "published", None)
    said["published"] = f" {printed(rows)}".rstrip() if printed else ""
    left = panels.left(figure, table, shown)
    return (shown.figure if shown else figure).caption.format(**said).strip() + (f" Shown: {left}." if left else "")
