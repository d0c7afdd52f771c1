"""Write `report.html`, which consists of the page, the libraries that draw, and the packed data.

The same tables and records give the same bytes. The tables of the page have all cells of the CSV files, and the points
that belong to each row. The first view shows what was measured, when and where, the number of points, and notes about
them.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.parts import derived, labels
from storelab.analysis.records.campaign import Campaign, load, read_plan
from storelab.analysis.report import charts, details, page
from storelab.analysis.report.charts import FILTERS
from storelab.analysis.statistics import steadiness
from storelab.analysis.tables import build as tables
from storelab.analysis.tables.points import DISTURBED_PERCENT
from storelab.core import integrity, records, units
from storelab.core.redaction import redacted

NAME = "report.html"
SCHEMA = 1


def build(campaign_dir: Path) -> Path:
    """Write the page of a campaign, and return its path. The tables must exist.

    Raises UserError if tables are missing, or if records are missing or altered.
    """
    target = campaign_dir / NAME
    records.write_atomic(
        target, page.filled(title(campaign_dir), blocks(campaign_dir), page.packed_libraries()).encode()
    )
    return target


def title(campaign_dir: Path) -> str:
    """Return the title of the page, which browsers show in the tab."""
    return page_title(read_plan(campaign_dir))


def blocks(campaign_dir: Path) -> dict[str, Any]:
    """Return the blocks of data of the page by name: `head`, `tables`, `figures`, and details of points.

    The page draws the current content of these blocks, so that they can be replaced while the page is open.
    """
    campaign = load(campaign_dir)
    texts = {}
    for name in tables.NAMES:
        with derived.require_table(campaign_dir, name).open(newline="") as f:
            texts[name] = list(csv.reader(f))
    every = {name: tables.read(campaign_dir, name) for name in tables.NAMES}
    places = {name: behind(table, every["points"]) for name, table in every.items()}
    detail_blocks = details.parts(campaign)
    first = {"schema": SCHEMA} | head(campaign, every) | {"details": list(detail_blocks), "part": details.PART}
    found = {
        "head": first,
        "tables": {name: table_block(texts[name], places[name]) for name in tables.NAMES},
        "figures": charts.charts_of_plan(campaign.plan, every, places),
        **detail_blocks,
    }
    return redacted(found)


# --- tables ---

MAX_CELLS = 1_500_000  # maximum number of cells of a table; of longer tables, the page shows only the first rows


def table_block(texts: Sequence[Sequence[str]], behind: Sequence[str]) -> dict[str, Any]:
    """Return a table in the form that the page uses.

    The cells are listed column by column, because this compresses best. texts: the lines of the file as lists of cells,
    with the header first; behind: the result of `behind`.
    """
    head, body = texts[0], texts[1:]
    most = max(1, MAX_CELLS // max(1, len(head)))
    shown = body[:most]
    return {
        "columns": list(head),
        "cells": [[row[i] for row in shown] for i in range(len(head))],
        "rows": len(body),
        "behind": list(behind[:most]) if any(behind) else [],
    }


def behind(table: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Return the points that belong to each row of a table, as their positions in points.csv, such as `0 3 6`.

    A row with a key belongs to one point. Other rows belong to all points with the same store, workload and axes. If
    the rows are not about points, the texts are empty.
    """
    places = {key: str(place) for place, key in enumerate(points["key"])}
    if "key" in table:
        return [places.get(key, "") for key in table["key"]]
    if "points" in table and "claim" in table:
        named = (keys.split() if isinstance(keys, str) else [] for keys in table["points"])
        return [" ".join(places[key] for key in keys if key in places) for keys in named]
    if "n" not in table or list(table.columns[:2]) != ["store", "workload"]:
        return [""] * len(table)  # the rows of this table are not groups of points
    shared = [c for c in table.columns[: table.columns.get_loc("n")] if c in points.columns]
    known = {name: part.columns[part.notna().any()] for name, part in points[shared].groupby("workload")}
    has_axis = {name: [c in columns for c in shared] for name, columns in known.items()}

    def axes(values: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the workload and the values of its axes, as text.

        Columns that the workload does not have as axes are ignored. For example, sparse.csv has 100 % of the entries
        for reads by volume.
        """
        columns_used = has_axis.get(values[1], [])
        return values[1], *(_same(value) for value, has in zip(values, columns_used, strict=False) if has)

    groups: dict[tuple[str, ...], list[str]] = {}
    for place, values in enumerate(points[shared].itertuples(index=False, name=None)):
        groups.setdefault(axes(values), []).append(str(place))
    return [" ".join(groups.get(axes(values), ())) for values in table[shared].itertuples(index=False, name=None)]


def _same(value: Any) -> str:
    """Return a text that is the same for equal values, such as 2 and 2.0. For a null value, it is empty."""
    if value is None or value is pd.NA or value != value:
        return ""
    return repr(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


# --- the first view ---

MACHINE = ("cpu_model", "cores", "memory_bytes", "platform", "kernel")


def page_title(plan: Mapping[str, Any]) -> str:
    """Return the title of the campaign, or its name if it has no title."""
    about = plan["campaign"]
    return str(about.get("title") or about["name"])


def head(campaign: Campaign, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the data of the first view.

    name, title, authors: of the campaign; facts: lists of name and value; notes: lists of number of points, text, and
    positions of these points in points.csv; keys: the words of each point's key; filters: name -> lists of value and
    text.
    """
    about, points = campaign.plan["campaign"], tables["points"]
    return {
        "name": about["name"],
        "title": page_title(campaign.plan),
        "authors": [str(a) for a in about.get("authors") or []],
        "facts": _facts(campaign, tables),
        "notes": _notes(points),
        "keys": [labels.key_text(key) for key in points["key"]],
        "filters": _filters(points),
    }


def _facts(campaign: Campaign, tables: Mapping[str, pd.DataFrame]) -> list[list[str]]:
    points, numbers = tables["points"], tables["numbers"]
    known = dict(zip(numbers["name"], numbers["value"], strict=True))
    states = points["state"].value_counts()
    points_text = [f"{len(points)} planned", f"{states.get('ok', 0)} valid"]
    points_text += [f"{states[s]} {s}" for s in ("invalid", "failed") if states.get(s)]
    seal = integrity.seal_of(campaign.raw)
    started = sorted(points["started"].dropna())  # empty if every point failed
    when = dict.fromkeys(s.replace("T", " ").replace("Z", " UTC") for s in (*started[:1], *started[-1:]))
    facts = {
        "Stores": ", ".join(_system(campaign, name) for name in dict.fromkeys(points["store"])),
        "Workloads": ", ".join(dict.fromkeys(labels.value_text("workload", w) for w in points["workload"])),
        "Engines": "; ".join(dict.fromkeys(_engines(campaign))),
        "Measured": " to ".join(when),
        "Points": ", ".join(points_text),
        "Repetitions": str(campaign.plan["campaign"].get("repetitions", "")),
        "Length of a point": labels.span(points["duration_s"], "s"),
        "Moved": _counted(str(known.get("bytes_moved", "")), points),
        "Operations": _counted(labels.number(float(known["operations"])) if known.get("operations") else "", points),
        "Failed operations": _failures(points),
        "Machines": "; ".join(dict.fromkeys(_machines(campaign))),
        "storelab": ", ".join(dict.fromkeys(_versions(campaign))),
        "Records": f"sealed {seal['time']}" if seal else "not sealed",
    }
    return [[name, value] for name, value in facts.items() if value]


def _counted(sum_text: str, points: pd.DataFrame) -> str:
    """Return the text of a sum over the valid points. If there are also invalid points, the text states this."""
    return f"{sum_text} in valid points" if sum_text and (points["state"] == "invalid").any() else sum_text


def _failures(points: pd.DataFrame) -> str:
    """Return the number of failed operations as text. Those of invalid points are counted separately."""
    ok, invalid = (int(points.loc[points["state"] == state, "errors"].sum()) for state in ("ok", "invalid"))
    return f"{labels.number(ok)}, and {labels.number(invalid)} in invalid points" if invalid else labels.number(ok)


def _system(campaign: Campaign, store: str) -> str:
    """Return the name of a store with its recorded kind and version."""
    found = [run["store"] for run in campaign.runs.values() if run["point"]["store"] == store and run.get("store")]
    kinds = dict.fromkeys(
        " ".join(filter(None, [str(s.get("kind") or ""), str(s.get("version") or "")])) for s in found
    )
    kinds_text = " and ".join(filter(None, kinds))
    return f"{store} ({kinds_text})" if kinds_text and kinds_text != store else store


def _engines(campaign: Campaign) -> list[str]:
    """Return the name of the engine of each run with its version. Versions of several libraries are in brackets."""
    engines = [run.get("engine") or {} for run in campaign.runs.values()]
    versions = [str(e.get("version") or "") for e in engines]
    version_texts = [f"({v})" if ", " in v else v for v in versions]
    return [f"{e['name']} {v}".strip() for e, v in zip(engines, version_texts, strict=True) if e.get("name")]


def _machines(campaign: Campaign) -> list[str]:
    """Return a description of the machine of each run, from the recorded environment."""
    out = []
    for run in campaign.runs.values():
        environment = run.get("environment") or {}
        cpu, cores, memory, *system = (environment.get(name) for name in MACHINE)
        parts = [
            cpu,
            labels.plural(cores, "core") if cores else "",
            units.human_size(memory) if memory else "",
            *system,
        ]
        out.append(", ".join(str(p) for p in parts if p))
    return [m for m in out if m]


def _versions(campaign: Campaign) -> list[str]:
    environments = [run.get("environment") or {} for run in campaign.runs.values()]
    return [
        f"{e.get('storelab')} ({e['git_commit']})" if e.get("git_commit") else str(e["storelab"])
        for e in environments
        if e.get("storelab")
    ]


def _notes(points: pd.DataFrame) -> list[list[Any]]:
    """Return the notes that apply to at least one point: number of points, text, and positions of the points."""
    ok = points["state"] == "ok"

    def is_true(column: str) -> pd.Series:
        return points[column].astype("boolean").fillna(False).astype(bool) & ok

    kinds = {
        "failed: there is no record": points["state"] == "failed",
        "invalid: more operations failed than the budget allows": points["state"] == "invalid",
        "tried more than once": points["tries"] > 1,
        "limited by the client": ok & (points["bound_by"] == "client"),
        "limited by the link": ok & (points["bound_by"] == "link"),
        "with the store on the clients' host": is_true("shared_host"),
        "disturbed by other programs": ok & (points["other_cpu_percent"] > DISTURBED_PERCENT),
        "with operations that hung": ok & (points["hung"] > 0),
        "too short to judge whether they are steady": ok & (points["steadiness"] == steadiness.TOO_SHORT),
    }
    for kind in steadiness.UNSTEADY:
        kinds[f"not steady: {kind}"] = ok & (points["steadiness"] == kind)
    out = []
    for note, which in kinds.items():
        places = [int(i) for i in range(len(points)) if bool(which.fillna(False).iloc[i])]
        if places:
            out.append([len(places), note, places])
    return out


def _filters(points: pd.DataFrame) -> dict[str, list[list[str]]]:
    """Return the filters that have several values: name -> lists of value and text."""
    out = {}
    for name, column in FILTERS.items():
        if column not in points:
            continue
        values = sorted(points[column].dropna().unique())
        options = [[f"{v:.0f}" if name == "size" else str(v), labels.cell(column, v)] for v in values]
        if len(options) > 1:
            out[name] = options
    return out
