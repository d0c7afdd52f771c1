"""`earlier.csv`: what the evaluations of 2012-2015 printed, beside ours, by a measure that both have: per client or
per front-end. May import: what `tables` may.

A printed number is divided by the clients that its setting names, or stands for one front-end as printed; ours is the
highest median over the clients (or front-ends) of its points. The table says both, and what was printed. Numbers
without a setting to divide by are left out: claims have them.
"""

import re
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import published
from storelab.analysis.tables import TABLE
from storelab.analysis.tables.throughput import CLASSES, measured

MEASURED = "measured"
SMALL = 8192  # bytes: theirs had 4 kB, which may be binary
QUANTITIES = {  # how a printed quantity begins, and its unit -> ours
    ("upload 4 kB", "files/s"): "metadata_upload",
    ("download 4 kB", "files/s"): "metadata_download",
    ("upload", "MB/s"): "throughput_upload",
    ("download", "MB/s"): "throughput_download",
    ("upload throughput", "Gb/s"): "throughput_upload",
    ("download throughput", "Gb/s"): "throughput_download",
}
MB_PER_GBIT = 125.0
MEASURES = {"clients": "per client", "front_ends": "per front-end"}
SETTINGS = ("object_size_bytes", "engine", "clients", "workers", "front_ends")  # that tell where ours was reached
COLUMNS = (
    "what",
    "measure",
    "unit",
    "source",
    "system",
    "median",
    "low",
    "high",
    "n",
    "setting",
    "printed",
    "printed_unit",
)


def _divided(setting: str) -> tuple[str, int] | None:
    """(what a printed number is divided by, how many of them its setting names); None where it names none."""
    if setting.startswith("per front-end"):
        return "front_ends", 1
    if setting == "one client":
        return "clients", 1
    found = re.match(r"(\d+) clients\b", setting)
    return ("clients", int(found[1])) if found else None


def _ours_is(quantity: str, unit: str) -> str | None:
    fits = [name for (begin, of), name in QUANTITIES.items() if of == unit and quantity.startswith(begin)]
    return None if "linear until" in quantity or not fits else fits[0]


def printed() -> pd.DataFrame:
    """The single statements that have such a measure: `class`, `over`, and the columns of earlier.csv."""
    rows: list[dict[str, Any]] = []
    for r in published.load("uds_headlines").itertuples(index=False):
        over, name = _divided(r.setting), _ours_is(r.quantity, r.unit)
        if over is None or name is None:
            continue
        value = r.value * (MB_PER_GBIT if r.unit == "Gb/s" else 1.0) / over[1]
        told = {"source": r.source, "system": r.system, "setting": f"{r.setting}, {r.quantity}"}
        rows.append(
            {"class": name, "over": over[0], "median": value, "printed": r.value, "printed_unit": r.unit} | told
        )
    return pd.DataFrame(rows)


def _ours(throughput: pd.DataFrame, name: str, over: str) -> list[dict[str, Any]]:
    """The best of each deployment by this measure."""
    of = CLASSES[name]
    rows = measured(throughput, name)
    if len(rows) and not of.large:
        rows = rows[rows["object_size_bytes"] <= SMALL]
    if "arrival_rate" in rows:
        rows = rows[rows["arrival_rate"].fillna(0) == 0]
    if rows.empty or over not in rows:
        return []
    rows = groups.labelled(rows).reset_index(drop=True)
    count = rows[over].astype(float)
    parts = {
        part: rows[column].astype(float) / count
        for part, column in zip(groups.PARTS, groups.spread([of.metric]), strict=True)
    }
    out = []
    for system, own in rows.groupby("deployment"):
        best = parts["median"][own.index].idxmax()
        told = (words.value_text(c, rows.loc[best, c]) for c in SETTINGS if c in rows)
        out.append(
            {"source": MEASURED, "system": system, "n": rows.loc[best, "n"], "setting": ", ".join(filter(None, told))}
            | {part: values[best] for part, values in parts.items()}
        )
    return out


@TABLE("earlier", "throughput")
def table(throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per printed statement, and per system of ours, by what was done and by measure; only what was measured
    here too. median: in `unit`, by `measure`; printed: as it stands in its source, `printed_unit`."""
    then, out = printed(), []
    for name in dict.fromkeys(QUANTITIES.values()):
        for over, measure in MEASURES.items():
            theirs = then[(then["class"] == name) & (then["over"] == over)]
            ours = _ours(throughput, name, over)
            if not ours or theirs.empty:
                continue
            head = {"what": CLASSES[name].what, "measure": measure, "unit": CLASSES[name].shown}
            out += [head | row for row in [*theirs.sort_values("source", kind="stable").to_dict("records"), *ours]]
    return pd.DataFrame(out, columns=list(COLUMNS)).astype({"n": "Int64"})
