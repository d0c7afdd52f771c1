"""`durability.csv`: what became of acknowledged writes, with upper bounds. May import: what `tables` may.

Each write that the store acknowledged was written into a ledger, and read back (docs/durability.md): while an actor was
down, and after the recovery or, without a fault, at the end. The last of these readings is what remains. The bounds
are those of Clopper and Pearson, one-sided, 95 %: 0 of n gives about 3/n. An operation that was not acknowledged may
have been done or not, and is no anomaly.
"""

from typing import Any

import pandas as pd

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables.systems.consistency import upper_bound
from storelab.core.model import OF_ROLE

KINDS = ("put", "overwrite", "delete")
WRONG = ("lost", "corrupted", "stale", "resurrected")
WHEN = ("down", "recovered", "end")
LAST = WHEN[1:]  # readings of what remains
COLUMNS = (
    "n",
    "when",
    *(f"acknowledged_{kind}" for kind in KINDS),
    "unacknowledged",
    "states",
    "read",
    *WRONG,
    "unreadable",
    *(f"{wrong}_upper95_percent" for wrong in WRONG),
    "wrong",
    "wrong_upper95_percent",
    "example",
)
COUNTS = ("n", *(c for c in COLUMNS[2:-1] if not c.endswith("_percent")))


def table(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """One row per group of points whose runs kept a ledger, with roles or without, and reading (`when`): store,
    workload, the axes of these workloads, counts over the valid runs (n), those of WRONG with their upper bounds in
    percent of what was read (of several readings of a run at one stage the largest counts); wrong: all four of them;
    unreadable: reads that failed, which are neither right nor wrong; example: one of them."""
    rows = []
    order = {name: i for i, name in enumerate(WHEN)}
    told = {key: run["durability"] for key, run in campaign.runs.items() if run.get("durability")}
    having = {p["workload"] for p in campaign.points if p["key"] in told}
    axes = [a["column"] for name, w in campaign.plan["workloads"].items() if name in having for a in w["axes"]]
    by = ["store", "workload", *dict.fromkeys(sorted(axes, key=lambda column: OF_ROLE in column))]
    for key, durability in told.items():
        for reading in durability["readings"]:
            counts = {name: reading.get(name, 0) for name in ("states", "read", *WRONG, "unreadable")}
            known = {f"acknowledged_{kind}": durability["acknowledged"].get(kind, 0) for kind in KINDS}
            known |= {"unacknowledged": durability["unacknowledged"], "when": reading["when"]}
            examples = reading.get("examples") or [None]
            rows.append(
                {"key": key, "place": order.get(reading["when"], len(order)), "example": examples[0]} | known | counts
            )
    read = pd.DataFrame(rows, columns=["key", "place", "example", "when", *COUNTS[1:-1]])
    # A run may have been read several times at one stage, a sample first: these are the same states.
    once = dict.fromkeys(COUNTS[1:-1], "max") | {"example": "first"}
    found = read.groupby(["key", "place", "when"], as_index=False).agg(once)
    ok = points[points["state"] == "ok"].reindex(columns=[*by, "key"]).merge(found, on="key")
    out = []
    for of, group in ok.groupby([*by, "place", "when"], dropna=False) if len(ok) else []:
        row = dict(zip([*by, "place", "when"], of, strict=True)) | {"n": group["key"].nunique()}
        row |= {name: int(group[name].sum()) for name in COUNTS[1:-1]}
        row["wrong"] = sum(row[name] for name in WRONG)
        row |= {f"{name}_upper95_percent": 100 * upper_bound(row[name], row["read"]) for name in (*WRONG, "wrong")}
        row["example"] = next(iter(group["example"].dropna()), None)
        out.append(row)
    made = pd.DataFrame(out, columns=[*by, *COLUMNS])
    types = {c: points.dtypes[c] for c in by if c in points}
    return made.astype(types | dict.fromkeys(COUNTS, "Int64"))


def summed(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of durability.csv with the parts of a series as one; without the axis."""
    if "part" not in table or table["part"].nunique() < 2:
        return table
    same = [c for c in table.columns[: table.columns.get_loc("n")] if c != "part"] + ["when"]
    sums = dict.fromkeys(COUNTS, "sum")
    made = table.groupby(same, dropna=False, sort=False, as_index=False).agg(sums)
    bounds = [100 * upper_bound(w, n) for w, n in zip(made["wrong"], made["read"], strict=True)]
    made = made.assign(wrong_upper95_percent=bounds)
    return made[[*same[:-1], "n", *(c for c in made if c not in (*same[:-1], "n"))]]


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Of what remains in the end: acknowledged writes, read back, wrong ones with the upper bound; wrong ones of all
    readings. Absent data, no row."""
    last = table[table["when"].isin(LAST)]
    if last.empty:
        return []
    read, wrong = int(last["read"].sum()), int(last["wrong"].sum())
    acknowledged = int(sum(last[f"acknowledged_{kind}"].sum() for kind in KINDS))
    return [
        ("durability_acknowledged", acknowledged, ""),
        ("durability_read", read, ""),
        ("durability_wrong", wrong, ""),
        ("durability_bound", 100 * upper_bound(wrong, read), "%"),
        ("durability_wrong_anywhere", int(table["wrong"].sum()), ""),
    ]
