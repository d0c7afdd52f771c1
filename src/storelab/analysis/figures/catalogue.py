"""Catalogue of the built-in figures by name, in the order of the paper, and their captions.

A figure has the same name in the code, in the rules of the workflow, in file names and in labels of the paper. A
campaign can declare more figures (`figures:`, docs/figures.md); its plan contains them.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.figures import events, latency, panels, planned, sparse, systems, throughput, timeline
from storelab.analysis.figures.specification import Declared, Specification, select
from storelab.analysis.parts import labels
from storelab.analysis.records import roles, selection

FIGURES: dict[str, Declared] = {
    "throughput_download": throughput.THROUGHPUT_DOWNLOAD,
    "throughput_upload": throughput.THROUGHPUT_UPLOAD,
    "metadata_download": throughput.METADATA_DOWNLOAD,
    "metadata_upload": throughput.METADATA_UPLOAD,
    "metadata_stat": throughput.METADATA_STAT,
    "metadata_list": throughput.METADATA_LIST,
    "systems": systems.SYSTEMS,
    "front_ends": systems.FRONT_ENDS,
    "buckets": systems.BUCKETS,
    "space": systems.SPACE,
    "volume": sparse.READS_BY_VOLUME,
    "entries": sparse.READS_BY_ENTRIES,
    "replay": sparse.REPLAYS,
    "phases": sparse.READ_PHASES,
    "gaps": sparse.GAPS,
    "front": sparse.FRONT,
    "events_throughput": events.EVENTS_THROUGHPUT,
    "latency_closed": latency.LATENCY_CLOSED,
    "latency_open": latency.LATENCY_OPEN,
    "latency_spectrum": latency.LATENCY_SPECTRUM,
    "threads": throughput.THREADS,
    "client_resources": throughput.CLIENT_RESOURCES,
    "errors_over_time": latency.ERRORS_OVER_TIME,
    "distributions": latency.DISTRIBUTIONS,
    "earlier": systems.EARLIER,
    "launches": systems.LAUNCHES,
    "role_phases": timeline.ROLE_PHASES,
    "releases": systems.RELEASES,
    "soak": timeline.SOAK,
    "events_bars": events.EVENTS_BARS,
}


def figures_of_plan(plan: Mapping[str, Any]) -> dict[str, Declared]:
    """Return the figures that a campaign with this plan can have.

    These are built-in figures, figures along coupled axes, figures over time, and figures that the campaign declares.
    """
    points, couplings = _planned_points(plan), selection.couplings_of(plan)
    found = {}
    for name, known in FIGURES.items():
        figure = planned.others(known, couplings)
        rows = select(points, figure.where)
        if len(rows) and isinstance(figure, Specification):
            rows = planned.without(rows, couplings, figure.x)
        if len(rows) and all(c in rows and rows[c].nunique() > 1 for c in figure.several):
            found[name] = figure
    return found | planned.figures_of_plan(plan) | timeline.figures_of_plan(plan) | planned.declared(plan)


def is_built_in(name: str) -> bool:
    """Return True if storelab defines the figure of this name, so that the text of the paper can refer to it."""
    return name in FIGURES or name.split("_")[0] in (timeline.STEM, planned.STEM)


def names(plan: Mapping[str, Any]) -> list[str]:
    """Return the names of the figures that a campaign with this plan can have. Some of them may have no data."""
    return list(figures_of_plan(plan))


def _planned_points(plan: Mapping[str, Any]) -> pd.DataFrame:
    """Return the planned points, with the columns that decide which figures a campaign can have."""
    columns = {w: {a["name"]: a["column"] for a in d["axes"]} for w, d in plan["workloads"].items()}
    rows = []
    for point in plan["points"]:
        row = {columns[point["workload"]][k]: v for k, v in point["axes"].items()}
        row |= {"store": point["store"], "workload": point["workload"]}
        if having := plan["workloads"][point["workload"]].get("roles"):
            row["phase"] = roles.DURING if timeline.is_disturbed(point, having) else roles.THROUGHOUT
        loop = "open" if row.get("arrival_rate") else "closed"
        rows.append(row | {"deployment": labels.deployment(row), "loop": loop})
    return pd.DataFrame(rows)


BLIND = "Front-ends and clients share the cores of one host: this figure cannot show the effect of more front-ends."
LINKS = " Dashed: capacity of the links, over the points that used half of it or more."
CEILINGS = " Dotted: the ceiling of an engine, measured with the same clients against a near-null server."


def caption(figure: Declared, table: pd.DataFrame, shown: panels.Layout | None = None) -> str:
    """Return the caption of a figure, filled with facts from its table.

    The facts are sizes, engine, duration, number of runs and kind of the bars. The caption also states if client and
    server share a host, and which data the figure does not show.

    shown: the panels of the figure, if they are known; the caption then describes only these panels.
    """
    rows = shown.rows if shown else panels.rated(figure, figure.captioned_rows(table))
    seconds = sorted(rows["duration_s"].unique()) if "duration_s" in rows else []
    host, symbols = panels.on_one_host(rows), panels.symbols(rows)
    fields = panels.fields(rows) | {
        "seconds": " and ".join(f"{s:g}" for s in seconds),
        "bars": labels.bars_text(rows) if "interval" in rows else "",
        "scaling": BLIND if host and len(rows) and not panels.limits(rows).any() else "",
        "shared": _sentence(host) + (f" {_sentence(symbols)}" if symbols else ""),
        "limit": (LINKS if panels.links(rows).any() else "") + (CEILINGS if panels.ceilings(rows).any() else ""),
        "published": f" {figure.published(rows)}".rstrip() if figure.published else "",
    }
    left = panels.left(figure, table, shown)
    text = (shown.figure if shown else figure).caption.format(**fields).strip()
    return f"{text} Shown: {left}." if left else text


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""
