"""`storage_lab.csv`: throughput into the nodes and events by system and number of jobs: the two tables of the storage
laboratory of HEPiX (September 2010) as printed, and ours.

Their events were counted over an undisclosed period, ours over `period_s`; so the two are not scaled to each other. A
cell that was lost or never printed is empty. Ours are rates of events.csv by setting of the client, and these rates
times `period_s`: the few steps that ended in a short run would say less.
"""

from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import published
from storelab.analysis.tables import events

NAVIGATION = {"CMS": "scan", "ATLAS": "random"}  # use case of 2010 -> ours
PUBLISHED, MEASURED = "published", "measured"
RANGE = ("low", "high")
COLUMNS = (
    "source",
    "store",
    "workload",
    "navigation",
    "system",
    "setting",
    "jobs",
    "n",
    "interval",
    "few",
    "shared_host",
    "nodes",
    "period_s",
    "mb_per_s",
    *(f"mb_{part}_per_s" for part in RANGE),
    "events",
    *(f"events_{part}" for part in RANGE),
    "events_per_s",
    *(f"events_{part}_per_s" for part in RANGE),
)
NODES = 10  # worker nodes of 2010


def printed() -> pd.DataFrame:
    """Every cell of 2010, also the empty ones."""
    t = published.load("hepix_2010_storage_lab")
    rows = t.rename(columns={"solution": "system", "threads": "jobs"}).assign(source=PUBLISHED, nodes=NODES)
    return rows.assign(navigation=t["use_case"].map(NAVIGATION)).reindex(columns=list(COLUMNS))


def _ours(found: pd.DataFrame) -> list[dict[str, Any]]:
    fixed = ("clients", "files", "navigation", *events.CLIENT, *words.DEPLOYMENT_NAMES)
    axes = [c for c in words.axes_of(found) if c not in fixed and found[c].nunique() > 1]
    axes += ["files"] if (found.groupby("clients")["files"].nunique() > 1).any() else []  # else they go with the jobs
    out = []
    for r in groups.labelled(found).to_dict("records"):
        told = (words.value_text(c, r[c]) for c in axes)
        wire = "wire" if not pd.isna(r["wire_median_mb_per_s"]) else "asked"  # of a local file nobody tells the wire's
        row = {c: r[c] for c in ("store", "workload", "navigation", "n", "interval", "shared_host", "nodes")}
        row |= {"source": MEASURED, "system": r["deployment"], "jobs": r["clients"], "period_s": r["duration_s"]}
        row |= {"setting": ", ".join(filter(None, [events.setting(r), *told]))}
        row |= {"mb_per_s": r[f"{wire}_median_mb_per_s"]}
        row |= {"events_per_s": r["events_median_per_s"], "events": r["duration_s"] * r["events_median_per_s"]}
        row["few"] = bool(r.get("few", False))
        for part in RANGE:
            row |= {f"mb_{part}_per_s": r[f"{wire}_{part}_mb_per_s"], f"events_{part}_per_s": r[f"events_{part}_per_s"]}
            row[f"events_{part}"] = r["duration_s"] * r[f"events_{part}_per_s"]
        out.append(row)
    return out


def table(found: pd.DataFrame) -> pd.DataFrame:
    """The printed rows of the use cases that were measured here, then ours; nothing where none was."""
    ours = pd.DataFrame(_ours(found) if len(found) else [], columns=list(COLUMNS))
    theirs = printed()
    theirs = theirs[theirs["navigation"].isin(ours["navigation"])]
    both = pd.concat([theirs, ours], ignore_index=True) if len(ours) else ours
    return both.astype({"jobs": "Int64", "n": "Int64", "nodes": "Int64"})


def best_settings(found: pd.DataFrame) -> pd.DataFrame:
    """Of ours, by system and navigation the rows of the setting with the most events/s at the most jobs that it was
    measured with: each system tuned for the most events, as in 2010."""
    kept = []
    for _, own in found[found["source"] == MEASURED].groupby(["navigation", "system"], sort=False):
        widest = own[own["jobs"] == own["jobs"].max()].dropna(subset=["events_per_s"])
        if len(widest):
            best = widest.loc[widest["events_per_s"].astype(float).idxmax(), "setting"]
            kept.append(own[own["setting"] == best])
    return pd.concat(kept) if kept else found.iloc[:0]
