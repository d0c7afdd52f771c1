"""`timeline.csv`: each run with roles over time, and `disturbances.csv`: what happened meanwhile. May import: what
`tables` may.

Steps are counted as `records/cells.py` has it, from the agreed start: 100 ms in runs of up to two minutes, 1 s in those
of up to two hours, else 60 s; a part counts as the whole of its series. Never less than a bin of the record.
"""

from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.records import cells, roles, scan, series
from storelab.analysis.records.campaign import Campaign

STEPS_NS = {120 * 10**9: 10**8, 7200 * 10**9: 10**9}  # a run of up to so long has steps of
LONG_NS = 60 * 10**9  # of longer ones
OF_RUN = ("key", "store", "workload", "rep", "state", "shared_host", "duration_s")
MEASURES = ("operations", "rate_per_s", "throughput_mb_per_s", *cells.LATENCIES, "errors")
HAPPENED = ("kind", "name", "fault", "actor", "due_s", "begin_s", "end_s", "error", "detail")
PHASE = "phase"  # kind, beside those of the record's events


def step_ns(run: dict[str, Any], lasts_ns: int | None = None) -> int:
    """Length of a step of this run. lasts_ns: of the whole series that it is a part of."""
    lasts = lasts_ns or run["deadline_ns"] - run["start_ns"]
    step = next((step for most, step in STEPS_NS.items() if lasts <= most), LONG_NS)
    return max(step, scan.bin_ns(run))


def _every_step(campaign: Campaign, lengths: pd.DataFrame) -> pd.DataFrame:
    """All steps in which a role worked, from its begin to its end, also those without an operation: key, role, cell."""
    rows = []
    for key, length in lengths.itertuples(index=False):
        run = campaign.runs[key]
        for told in run["roles"]:
            first, last = (told[at] - run["start_ns"] for at in ("begin_ns", "end_ns"))
            steps = np.arange(first // length, -(-last // length))
            rows.append(pd.DataFrame({"key": key, "role": told["name"], "cell": steps}))
    return pd.concat(rows)


def table(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """One row per run with roles, role and step: OF_RUN of the run, role, step_s, second (its begin after the agreed
    start), MEASURES, errors_<status> for each HTTP status (0: none) of the campaign. Steps in which the role worked,
    and those beyond its end in which an operation ended. Fractions of operations: parts of bins."""
    head = [*OF_RUN, "role", "step_s", "second", *MEASURES]
    lasts = series.lengths_ns(campaign.plan)
    steps = [(k, step_ns(campaign.runs[k], lasts.get(k))) for k in roles.keys(campaign)]
    lengths = pd.DataFrame(steps, columns=["key", "step_ns"])
    if lengths.empty:
        return pd.DataFrame(columns=head)
    place = ["key", "role", "cell"]
    every, statuses = _every_step(campaign, lengths), pd.DataFrame(columns=[*place, "status", "errors"])
    found = pd.DataFrame(columns=[*place, "operations", "bytes", "errors", *cells.LATENCIES])
    if counted := cells.in_steps(campaign, lengths):
        found, statuses = counted.cells, counted.statuses
    both = every.merge(found, on=place, how="outer").merge(lengths, on="key")
    by_status = statuses.pivot_table(index=place, columns="status", values="errors", aggfunc="sum").sort_index(axis=1)
    by_status.columns = [f"errors_{status}" for status in by_status.columns]
    both = both.merge(by_status.reset_index(), on=place, how="left") if len(by_status) else both
    counts = ["operations", "bytes", "errors", *by_status.columns]
    both[counts] = both[counts].astype(float).fillna(0.0)
    both["step_s"] = both["step_ns"] / 1e9
    both["second"] = both["cell"].astype("int64") * both["step_ns"] / 1e9
    both["rate_per_s"] = both["operations"] / both["step_s"]
    both["throughput_mb_per_s"] = both["bytes"] / 1e6 / both["step_s"]
    order = {(key, r["name"]): i for key in lengths["key"] for i, r in enumerate(campaign.runs[key]["roles"])}
    both["place"] = [order[pair] for pair in zip(both["key"], both["role"], strict=True)]
    out = points[["order", *OF_RUN]].merge(both, on="key").sort_values(["order", "place", "cell"])
    return out[[*head, *by_status.columns]].reset_index(drop=True)


def disturbances(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """What happened in each run with roles, in order of time: key, rep, state, HAPPENED. kind: `phase` (name: which),
    `act` of a fault and what was `undone` at the end (name: of the act), `state` (name: what the store said). Seconds
    after the agreed start; due_s: when the act was due; of a state, end_s is when the store said something else."""
    last = roles.last_operations(campaign)
    rows = [{"key": key} | row for key in last for row in _happened(campaign.runs[key], last[key])]
    found = pd.DataFrame(rows, columns=["key", *HAPPENED])
    out = points[["order", "key", "rep", "state"]].merge(found, on="key")
    return out.sort_values(["order", "begin_s"], kind="stable")[["key", "rep", "state", *HAPPENED]].reset_index(
        drop=True
    )


def _happened(run: dict[str, Any], last: roles.LastOperations) -> list[dict[str, Any]]:
    def after(ns: int | None) -> float | None:
        return None if ns is None else (ns - run["start_ns"]) / 1e9

    out: list[dict[str, Any]] = [
        {"kind": PHASE, "name": p.name, "begin_s": after(p.begin_ns), "end_s": after(p.end_ns)}
        for p in roles.phases(run, last)
    ]
    for event in roles.events(run, roles.ACT, roles.UNDONE):
        out.append(
            {k: event.get(k) or None for k in ("kind", "fault", "actor", "error", "detail")}
            | {"name": event["act"], "due_s": after(event.get("due_ns"))}
            | {"begin_s": after(event["time_ns"]), "end_s": after(event.get("done_ns"))}
        )
    told = roles.events(run, roles.STATE)
    ends = [e["time_ns"] for e in told[1:]] + [max(run["deadline_ns"], *(e["time_ns"] for e in told))] if told else []
    for event, end in zip(told, ends, strict=True):
        said = {"kind": roles.STATE, "name": event["state"], "detail": event.get("detail") or None}
        out.append(said | {"begin_s": after(event["time_ns"]), "end_s": after(end)})
    return out
