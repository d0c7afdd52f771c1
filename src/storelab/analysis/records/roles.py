"""Points that do several things at once, as their records tell them: roles, phases, acts, states of the store. Pure.

A workload of the plan that names `roles` has such points. Phases of a run, of which each begins where the last one ends
(`phases`), from the end of the warm-up to the deadline:

* `before`: until the first disturbance begins.
* `during`: until the last one is undone: a daemon runs again, a link is quick again, a role that came later has ended,
  the last daemon of an upgrade is healthy. A client without work left ends with its last operation, not when its
  process stops.
* `rebuilding`: until the store says for good that it is clean; only where it says in which state it is.
* `after`: the rest.
* `throughout`: the only phase of a run that nothing disturbs.

Disturbances are the acts of a fault; without a fault, the roles that begin after the start or end before the deadline.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.core.axes.faults import HARMS, UNDOES, UPGRADE

LastOperations = Mapping[int, int]  # client -> UTC ns
BEFORE, DURING, REBUILDING, AFTER, THROUGHOUT = "before", "during", "rebuilding", "after", "throughout"
PHASES = (THROUGHOUT, BEFORE, DURING, REBUILDING, AFTER)
ACT, UNDONE, STATE = "act", "undone", "state"  # kinds of events in a record
CLEAN, UNKNOWN = "clean", "unknown"


@dataclass(frozen=True)
class Role:
    """One role of a run: what it did, its clients, and from when to when all of them worked (UTC ns). `last_ns`: when
    the last of them stopped."""

    name: str
    workload: str
    clients: tuple[int, ...]
    begin_ns: int
    end_ns: int
    last_ns: int


@dataclass(frozen=True)
class Phase:
    """A phase of a run, UTC ns."""

    name: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Healing:
    """What a store said of itself after a fault, UTC ns. tells: whether it says in which state it is; noticed_ns: first
    said that it is not clean (None: never, or it was not clean before); whole_ns: from then on it was clean for good
    (None: never, or it noticed nothing)."""

    tells: bool
    noticed_ns: int | None = None
    whole_ns: int | None = None


def workloads(plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The workloads of a plan that have roles: name -> role -> what the plan says of it."""
    return {name: w["roles"] for name, w in plan["workloads"].items() if w.get("roles")}


def keys(campaign: Campaign) -> list[str]:
    """Keys of the measured points that have roles, in the plan's order."""
    having = workloads(campaign.plan)
    return [p["key"] for p in campaign.points if p["workload"] in having and p["key"] in campaign.runs]


def roles(run: Mapping[str, Any], last: LastOperations) -> Iterator[Role]:
    """The roles of a run. last: `last_operations` of it."""
    clients = {c["client"]: c for c in run["clients"]}
    for told in run["roles"]:
        ends = [_end_ns(clients[rank], told["end_ns"], last) for rank in told["clients"] if rank in clients]
        ends = ends or [told["end_ns"]]
        yield Role(told["name"], told["workload"], tuple(told["clients"]), told["begin_ns"], min(ends), max(ends))


def _end_ns(client: Mapping[str, Any], end_ns: int, last: LastOperations) -> int:
    """When a client of a role with this end stopped; early where it had no work left."""
    stopped = client.get("end_ns") or end_ns
    return end_ns if stopped >= end_ns else min(last.get(client["client"], stopped), stopped)


def last_operations(campaign: Campaign) -> dict[str, dict[int, int]]:
    """Return for each run with roles when the last operation of each client ended."""
    out: dict[str, dict[int, int]] = {key: {} for key in keys(campaign)}
    if out and (con := scan.connect(campaign, "ops", out)) is not None:
        for key, client, end_ns in con.execute("SELECT key, client, max(end_ns) FROM rows GROUP BY ALL").fetchall():
            out[key][client] = end_ns
    return out


def events(run: Mapping[str, Any], *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds, in order of time."""
    return sorted((e for e in run.get("events") or [] if e["kind"] in kinds), key=lambda e: e["time_ns"])


def faulted_ns(run: Mapping[str, Any]) -> int | None:
    """When the first act of a fault began; None without one."""
    acts = events(run, ACT)
    return acts[0]["time_ns"] if acts else None


def was_undone(run: Mapping[str, Any]) -> bool:
    """Whether every harm was undone."""
    return not _undoing(run)[0]


def undone_ns(run: Mapping[str, Any]) -> int:
    """When the last harm was undone; the deadline, where one never was. Of a run with acts; those that are no harm are
    over when they are done."""
    standing, last = _undoing(run)
    return run["deadline_ns"] if standing else last


def _undoing(run: Mapping[str, Any]) -> tuple[set[tuple[str, str]], int]:
    """(actor, harm) that nothing undid, and when the last other act was done."""
    standing: set[tuple[str, str]] = set()
    last = 0
    for event in events(run, ACT, UNDONE):
        actor, act = event.get("actor") or "", event["act"]
        if event["kind"] == UNDONE and act == UPGRADE:
            continue  # behind the run
        if event["kind"] == ACT and act in HARMS:
            standing.add((actor, act))
            continue
        undone = UNDOES.get(act, ()) if event["kind"] == ACT else (act,)
        standing -= {(actor, harm) for harm in undone}
        last = max(last, event.get("done_ns") or event["time_ns"])
    return standing, last


def disturbance(run: Mapping[str, Any], last: LastOperations) -> tuple[int, int] | None:
    """(begin, end) of what disturbs a run; None where nothing does. last: `last_operations` of it."""
    faulted = faulted_ns(run)
    if faulted is not None:
        return faulted, undone_ns(run)
    passing = [r for r in run["roles"] if r["begin_ns"] > run["start_ns"] or r["end_ns"] < run["deadline_ns"]]
    ends = {r.name: r.last_ns for r in roles(run, last)}
    return (min(r["begin_ns"] for r in passing), max(ends[r["name"]] for r in passing)) if passing else None


def healing(run: Mapping[str, Any]) -> Healing:
    """How the store noticed the first act, and became clean again: before upgrades are taken back behind the run."""
    over = min((e["time_ns"] for e in events(run, UNDONE) if e["act"] == UPGRADE), default=None)
    told = [e for e in events(run, STATE) if e["state"] != UNKNOWN and (over is None or e["time_ns"] < over)]
    faulted = faulted_ns(run)
    if not told or faulted is None:
        return Healing(bool(told))
    earlier = [e["state"] for e in told if e["time_ns"] <= faulted]
    later = [e for e in told if e["time_ns"] > faulted]
    ill = [e["time_ns"] for e in later if e["state"] != CLEAN]
    was_clean = not earlier or earlier[-1] == CLEAN
    if not ill and was_clean:
        return Healing(True)
    well = [e["time_ns"] for e in later if e["state"] == CLEAN and not any(t > e["time_ns"] for t in ill)]
    return Healing(True, ill[0] if ill and was_clean else None, min(well, default=None))


def phases(run: Mapping[str, Any], last_of: LastOperations) -> list[Phase]:
    """The phases of a run that have a length, in order of time. last_of: `last_operations` of it."""
    first, last = run["start_ns"] + run["point"]["fixed"]["warm_up_ns"], run["deadline_ns"]
    found = disturbance(run, last_of)
    if found is None:
        return [Phase(THROUGHOUT, first, last)]
    begin, end = found
    whole, how = end, healing(run)
    if how.tells and faulted_ns(run) is not None:
        still_ill = how.noticed_ns is not None and how.whole_ns is None
        whole = last if still_ill else max(end, how.whole_ns or end)
    cuts = [min(max(at, first), last) for at in (first, begin, end, whole, last)]
    spans = zip(PHASES[1:], cuts[:-1], cuts[1:], strict=True)
    return [Phase(name, low, high) for name, low, high in spans if high > low]


def phase_table(campaign: Campaign) -> pd.DataFrame:
    """One row per run with roles, role and phase of it in which the role worked: key, role, cell (the phase), begin_ns,
    end_ns. The warm-up of a role that begins late is cut, except where its begin is the disturbance."""
    rows = []
    for key, last in last_operations(campaign).items():
        run = campaign.runs[key]
        warm_up = 0 if faulted_ns(run) is None else run["point"]["fixed"]["warm_up_ns"]
        for role in roles(run, last):
            for phase in phases(run, last):
                low, high = max(phase.begin_ns, role.begin_ns + warm_up), min(phase.end_ns, role.end_ns)
                if high > low:
                    rows.append((key, role.name, phase.name, low, high))
    return pd.DataFrame(rows, columns=["key", "role", "cell", "begin_ns", "end_ns"])


def client_table(campaign: Campaign) -> pd.DataFrame:
    """One row per client of the runs with roles: key, client, role, role_begin_ns, role_end_ns, disturbed_ns (when the
    first disturbance began; the deadline where there is none)."""
    rows = []
    for key, last in last_operations(campaign).items():
        run = campaign.runs[key]
        found = disturbance(run, last)
        for role in roles(run, last):
            for client in role.clients:
                disturbed = found[0] if found else run["deadline_ns"]
                rows.append((key, client, role.name, role.begin_ns, role.end_ns, disturbed))
    return pd.DataFrame(rows, columns=["key", "client", "role", "role_begin_ns", "role_end_ns", "disturbed_ns"])
