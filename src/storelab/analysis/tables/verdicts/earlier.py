"""`earlier.csv`: what the evaluations of 2012-2015 printed, beside ours, by a measure that both have. May import: what
`tables` may.

A printed number is divided by the clients that its setting names, or stands for one front-end as printed, or for the
whole system where nothing can be divided; throughput that filled a network also by the Gbit/s of the links that carried
it. Ours is the highest median by the same measure: over the clients, the front-ends that they used, or as it is; by
link, what the busiest interface carried of its known capacity. The table says which, and what was printed. Measures by
which ours are all the same (one client at one front-end) are one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.parts import cold, groups, words
from storelab.analysis.records import links, published
from storelab.analysis.tables.throughput import CLASSES, of_class

MEASURED = "measured"
SYSTEMS = {"uds1": "UDS 1", "uds2": "UDS 2", "uds_ihep": "UDS at IHEP"}  # of printed numbers, without year
SMALL = 8192  # bytes: theirs had 4 kB, which may be binary
COLD, NETWORK = "cold", "network"  # downloads that no cache holds; throughput whose direction is not printed
QUANTITIES = {  # how a printed quantity begins, and its unit -> ours
    ("upload 4 kB", "files/s"): "metadata_upload",
    ("download 4 kB, linear until", "files/s"): COLD,
    ("download 4 kB", "files/s"): "metadata_download",
    ("upload", "MB/s"): "throughput_upload",
    ("download", "MB/s"): "throughput_download",
    ("upload throughput", "Gb/s"): "throughput_upload",
    ("download throughput", "Gb/s"): "throughput_download",
    ("network limit", "Gb/s"): NETWORK,
}
OF = {COLD: ("metadata_download",), NETWORK: ("throughput_download", "throughput_upload")}  # classes; else its own
WHAT = {COLD: "Downloads that no cache holds", NETWORK: "Throughput, up or down"}
MB_PER_GBIT = 125.0
WHOLE, LINK = "system", "link"
MEASURES = {
    "clients": "per client",
    "front_ends": "per front-end",
    WHOLE: "of the whole system",
    LINK: "per Gbit/s of link",
}
LINKS = {  # setting -> Gbit/s that its network could carry: 1 each client, 20 into the store (printed/README.md)
    "5 clients": 5,
    "20 clients": 20,
    "21 clients, 21 accounts, 2100 buckets": 20,
    "per front-end, 3 clients x 10 threads": 3,
    "2 x 10 Gb": 20,
}
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
    "few",
    "setting",
    "printed",
    "printed_unit",
)


def printed_name(system: str) -> str:
    """Return how people call a system of the printed numbers: `uds1_2012` is UDS 1."""
    return SYSTEMS.get(re.sub(r"_\d{4}$", "", system), system)


def _divided(setting: str) -> tuple[str, int] | None:
    """(what a printed number is divided by, how many of them its setting names); None where it names none."""
    if setting.startswith("per front-end"):
        return "front_ends", 1
    if setting == "one client":
        return "clients", 1
    found = re.match(r"(\d+) clients\b", setting)
    return ("clients", int(found[1])) if found else None


def _ours_is(quantity: str, unit: str) -> str | None:
    return next((name for (begin, of), name in QUANTITIES.items() if of == unit and quantity.startswith(begin)), None)


def _measures(setting: str, name: str) -> Iterator[tuple[str, float]]:
    """The measures of a statement: what it is divided by, and how many of them."""
    if divided := _divided(setting):
        yield divided
    elif name in OF:
        yield WHOLE, 1
    if setting in LINKS and name in (NETWORK, "throughput_upload", "throughput_download"):
        yield LINK, LINKS[setting]


def printed() -> pd.DataFrame:
    """The single statements that have such a measure: `class`, `over`, and the columns of earlier.csv."""
    rows: list[dict[str, Any]] = []
    for r in published.load("uds_headlines").itertuples(index=False):
        name = _ours_is(r.quantity, r.unit)
        for over, number in _measures(r.setting, name) if name else ():
            value = r.value * (MB_PER_GBIT if r.unit == "Gb/s" else 1.0) / number
            told = {"source": r.source, "system": r.system, "setting": f"{r.setting}, {r.quantity}"}
            rows.append(
                {"class": name, "over": over, "median": value, "printed": r.value, "printed_unit": r.unit} | told
            )
    return pd.DataFrame(rows)


def _of_classes(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of closed loops that a kind of statement is about."""
    rows = pd.concat([of_class(table, of) for of in OF.get(name, (name,))])
    if len(rows) and not name.startswith(("throughput", NETWORK)):
        rows = rows[rows["object_size_bytes"] <= SMALL]
    if name == COLD:
        rows = rows[rows["access"].notna() & (rows["access"] != cold.WARM)] if "access" in rows else rows.iloc[:0]
    if "arrival_rate" in rows:
        rows = rows[rows["arrival_rate"].fillna(0) == 0]
    return rows


def _ours(throughput: pd.DataFrame, resources: pd.DataFrame | None, name: str, over: str) -> list[dict[str, Any]]:
    """The best of each deployment by this measure."""
    of = CLASSES[OF.get(name, (name,))[0]]
    metric, source = (("link", "percent"), resources) if over == LINK else (of.metric, throughput)
    columns = groups.spread([metric])
    if source is None or source.empty or not {*columns, *({over} - {WHOLE, LINK})} <= set(source):
        return []
    rows = _of_classes(source, name)
    rows = rows[rows[columns[0]].notna()]
    if rows.empty:
        return []
    rows = groups.labelled(rows).reset_index(drop=True)
    count = {WHOLE: 1.0, LINK: 100 / MB_PER_GBIT}.get(over) or _used(rows, over)
    parts = {part: rows[column].astype(float) / count for part, column in zip(groups.PARTS, columns, strict=True)}
    settings = (*(("workload",) if name in OF else ()), *SETTINGS, *(("access",) if name == COLD else ()))
    out = []
    for system, own in rows.groupby("deployment"):
        best = parts["median"][own.index].idxmax()
        told = (words.value_text(c, rows.loc[best, c]) for c in settings if c in rows)
        out.append(
            {"source": MEASURED, "system": system, "n": rows.loc[best, "n"], "setting": ", ".join(filter(None, told))}
            | {"few": over != LINK and bool(rows.loc[best].get("few", False))}
            | {part: values[best] for part, values in parts.items()}
        )
    return out


def _used(rows: pd.DataFrame, over: str) -> pd.Series:
    """How many clients there were, or how many front-ends they used: a client that is given one uses no other."""
    count = rows[over].astype(float)
    if over != "front_ends":
        return count
    alone = rows["balance"].fillna(links.ALONE) == links.ALONE if "balance" in rows else True
    return count.mask(alone & (rows["clients"].astype(float) < count), rows["clients"].astype(float))


@dataclass(frozen=True)
class _Block:
    """Printed statements and ours by the same measure."""

    name: str
    over: str
    measures: list[str]
    theirs: list[dict[str, Any]]
    ours: list[dict[str, Any]]

    @property
    def values(self) -> list[Any]:
        """The numbers that ours are."""
        return [(r["system"], *(r[part] for part in groups.PARTS)) for r in self.ours]

    def repeats(self, other: "_Block") -> bool:
        """Return True if ours are the same by the other's measure."""
        return self.name == other.name and self.over != other.over and self.values == other.values


def table(throughput: pd.DataFrame, resources: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per printed statement, and per system of ours, by what was done and by measure; only what was measured
    here too. median: in `unit`, by `measure`; few: ours depends on few operations; printed: as it stands in its source,
    `printed_unit`."""
    then, blocks = printed(), list[_Block]()
    for name in dict.fromkeys(QUANTITIES.values()):
        for over, measure in MEASURES.items():
            theirs = then[(then["class"] == name) & (then["over"] == over)]
            ours = _ours(throughput, resources, name, over)
            if not ours or theirs.empty:
                continue
            block = _Block(name, over, [measure], theirs.sort_values("source", kind="stable").to_dict("records"), ours)
            same = next((b for b in blocks if block.repeats(b)), None)
            if same is None:
                blocks.append(block)
            else:
                same.measures.append(measure)
                same.theirs.extend(block.theirs)
    out = []
    for b in blocks:
        of = CLASSES[OF.get(b.name, (b.name,))[0]]
        head = {"what": WHAT.get(b.name, of.what), "measure": " and ".join(b.measures), "unit": of.shown}
        out += [head | {"few": False} | row for row in [*b.theirs, *b.ours]]
    return pd.DataFrame(out, columns=list(COLUMNS)).astype({"n": "Int64", "few": "boolean"})
