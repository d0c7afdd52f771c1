"""`collections.csv`: each run in which the garbage of a release was collected: how fast, what was left, and what
uploads beside it felt. May import: what `tables` may.

Deletions per second are those of all tries of a run over the time from when all that is alive was known to the end.
What uploads felt are ratios of one run (`roles.csv`): their rate in a phase over that before the collection began.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import roles, scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics import medians
from storelab.core import records

COLLECTS, UPLOADS = "collect_garbage", ("put", "publish")  # workloads
AXES = ("engine", "pattern", "days", "keep", "batch", "workers")  # of the collection
OF_RUN = ("key", "store", "workload", "rep", "state", "shared_host")
SUMS = ("deletes", "gets", "requests", "retries", "failures")  # over the tries
LAST = ("kept", "dropped")  # of the last try
SEEN = ("alive", "dead", "lost", "lingering", "left", "others")  # by the proof
FELT = {"uploads_during_ratio": roles.DURING, "uploads_after_ratio": roles.AFTER}
COLUMNS = (
    *OF_RUN,
    "system",
    "role",
    *AXES,
    "factor",
    "tries",
    "mark_s",
    "sweep_s",
    "deletes_per_s",
    *SUMS,
    *LAST,
    *SEEN,
    "dead_mb",
    *FELT,
)
METRICS = ("deletes_per_s", "sweep_s", *FELT)  # of a group


def _collecting(run: Mapping[str, Any]) -> Iterator[tuple[str | None, Mapping[str, Any], list[int], Mapping[str, Any]]]:
    """(role, axes, clients, what the proof saw) of all of a run that collects."""
    if run["point"]["workload"] == COLLECTS:
        ranks = [c["client"] for c in run["clients"]]
        yield None, run["point"]["axes"], ranks, run["observed"]["collection"]
    for told in run.get("roles") or []:
        if told["workload"] == COLLECTS:
            yield told["name"], told["axes"], told["clients"], run["observed"][told["name"]]["collection"]


def _store(run: Mapping[str, Any]) -> dict[str, str]:
    return {"store": run["point"]["store"]}


def _release(run: Mapping[str, Any], role: str | None) -> Mapping[str, Any]:
    fixed = run["point"]["fixed"]
    own = fixed if role is None else next(r["fixed"] for r in fixed["roles"] if r["name"] == role)
    return own["release"]


def table(campaign: Campaign, points: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """One row per measured run and role that collects garbage (no role where it is the only thing): OF_RUN, AXES, and
    what docs/tables.md says of the others. Points in their order."""
    con = scan.connect(campaign, "collections")
    if con is None:
        return pd.DataFrame(columns=COLUMNS)
    tries = con.execute(f"SELECT key, {', '.join(records.COLLECTIONS)} FROM rows").df()
    felt, rows = _felt(phases), []
    for key in dict.fromkeys(key for key, _ in campaign.files("collections")):
        run = campaign.runs[key]
        for role, axes, ranks, seen in _collecting(run):
            own = tries[(tries["key"] == key) & tries["client"].isin(ranks)].sort_values(["client", "number"])
            row = {"key": key, "role": role, "system": words.deployment(run["point"]["axes"] | _store(run))}
            row |= {name: axes[name] for name in AXES}
            row |= {"factor": _release(run, role)["factor"], "tries": len(own)} | _times(own)
            row |= {name: int(own[name].sum()) for name in SUMS} | {name: int(own[name].iloc[-1]) for name in LAST}
            row |= {name: seen[name] for name in SEEN} | {"dead_mb": seen["dead_bytes"] / 1e6}
            rows.append(row | {name: felt.get((key, phase)) for name, phase in FELT.items()})
    found = pd.DataFrame(rows)
    return points[["order", *OF_RUN]].merge(found, on="key").sort_values("order").reindex(columns=COLUMNS)


def _times(own: pd.DataFrame) -> dict[str, Any]:
    """Of all tries: seconds of marking, seconds and deletions per second of sweeping."""
    begun = own[own["marked_ns"].notna()]
    sweep = float((begun["end_ns"] - begun["marked_ns"]).sum()) / 1e9
    mark = float((begun["marked_ns"] - begun["begin_ns"]).sum()) / 1e9
    return {"mark_s": mark, "sweep_s": sweep, "deletes_per_s": own["deletes"].sum() / sweep if sweep else None}


def _felt(phases: pd.DataFrame) -> dict[tuple[str, str], float]:
    """(key, phase) -> rate of all uploads over that before; nothing where there were none before."""
    rates = phases[phases["does"].isin(UPLOADS)].groupby(["key", "phase"])["rate_per_s"].sum()
    out = {}
    for (key, phase), rate in rates.items():
        before = rates.get((key, roles.BEFORE), 0.0)
        if phase != roles.BEFORE and before:
            out[key, phase] = float(rate / before)
    return out


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per point of valid runs, whatever its repetitions: its columns of the first one, n, and the median, low
    and high of METRICS (`deletes_per_s_median` …); alive, dead: medians; the sums of what should not be."""
    ok = table[table["state"] == "ok"]
    out = []
    series = ok["key"].map(lambda key: key.rpartition("rep~")[0])
    for _, group in ok.groupby([series, ok["role"].astype(object).fillna("")], sort=False):
        row: dict[str, Any] = group.iloc[0].to_dict() | {"n": len(group)}
        for name in METRICS:
            of = medians.summarise(group[name].astype(float))
            row |= {f"{name}_{part}": getattr(of, part) for part in groups.PARTS}
        row |= {name: float(group[name].astype(float).median()) for name in ("alive", "dead", "dead_mb")}
        out.append(
            row | {name: int(group[name].sum()) for name in ("lingering", "left", "lost", "retries", "failures")}
        )
    return pd.DataFrame(out)


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """collected_dead (most objects), collected_rate (the highest median of deletions per second), collected_lingering
    (dead ones that were there right afterwards, in all runs); collected_uploads: the rate of uploads meanwhile over
    that before, of the group that was slowed down most. Absent data, no row."""
    found = summary(table)
    if found.empty:
        return []
    out: list[tuple[str, Any, str]] = [
        ("collected_dead", found["dead"].max(), ""),
        ("collected_alive", found["alive"].max(), ""),
        ("collected_rate", found["deletes_per_s_median"].max(), "per second"),
        ("collected_lingering", int(found["lingering"].sum()), ""),
    ]
    slowed = found[found["uploads_during_ratio_median"].notna()]
    if len(slowed):
        worst = slowed.loc[slowed["uploads_during_ratio_median"].idxmin()]
        parts = [100 * worst[f"uploads_during_ratio_{p}"] for p in groups.PARTS]
        out += [("collected_uploads", words.spread(parts), "%"), ("collected_uploads_where", worst["system"], "")]
    return out
