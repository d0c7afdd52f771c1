"""Records of points with roles: roles, phases, acts, and states of the store.

Points with roles belong to workloads with `roles` in the plan. Their clients run several workloads at the same time.
The phases of a run (`phases`) follow one another from the end of the warm-up to the deadline:

* `before`: until the first disturbance begins.
* `during`: until the last disturbance is undone. For example, a daemon runs again, a link has its full speed again, a
  role that began later has ended, or the last daemon of an upgrade is healthy. A client that has no more work ends with
  its last operation, not when its process stops.
* `rebuilding`: until the store reports that it is clean and does not report a fault again; only for stores that report
  their state.
* `after`: the rest of the run.
* `throughout`: the only phase of a run without a disturbance.

Disturbances are the acts of a fault. Without a fault, they are the roles that begin after the start or end before the
deadline.

Operations of roles are counted in cells. A cell is a phase of a run, or a step of fixed length from its agreed start.
Operations are counted as in `windows`: an operation and its bytes belong to the cell in which it ends, with (begin,
end] as the bounds. The operations of a bin are assumed to be evenly spaced. A bin that is only partly in a cell
therefore counts by this part, in operations, bytes and latencies. For phases, the work done in them is also computed:
if its start is known, an operation counts by the part of its duration in the phase.

Latencies are defined as in `tables/latency.py`. They are the durations of successful operations, from the time when an
operation was due, or from its start if it had no such time. They are null if there are too few operations for a
quantile.

Some operations never ended: they hung, or they were due and never began. They are not counted in steps. In phases, they
lasted at least until the client gave them up, or until the end of their role. They are ranked above all operations that
ended in the phase, so that a quantile that falls on one of them is a lower bound. They count in every phase in which
they waited, with one exception: they do not count in `before` if their role also worked in later phases, because the
disturbance that caused them came later.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics.medians import WIDTH, enough, histogram_quantiles, with_bounds
from storelab.core.axes.roles import HARMS, UNDOES, UPGRADE
from storelab.core.records import HUNG

LastOperations = Mapping[int, int]  # client -> UTC ns
BEFORE, DURING, REBUILDING, AFTER, THROUGHOUT = "before", "during", "rebuilding", "after", "throughout"
PHASES = (THROUGHOUT, BEFORE, DURING, REBUILDING, AFTER)
ACT, UNDONE, STATE = "act", "undone", "state"  # kinds of events in a record
CLEAN, UNKNOWN = "clean", "unknown"


@dataclass(frozen=True)
class Role:
    """A role of a run: its workload and clients, and the time in which all its clients worked (UTC ns).

    last_ns: the time when the last client stopped.
    """

    name: str
    workload: str
    clients: tuple[int, ...]
    begin_ns: int
    end_ns: int
    last_ns: int


@dataclass(frozen=True)
class Phase:
    """A phase of a run. Times are UTC ns."""

    name: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Healing:
    """The states that a store reported after a fault. Times are UTC ns.

    reports_state: the store reports its state; noticed_ns: when it first reported that it is not clean (None: never, or
    it was not clean before the fault); whole_ns: from when on it was always clean (None: never, or it did not report
    the fault).
    """

    reports_state: bool
    noticed_ns: int | None = None
    whole_ns: int | None = None


def workloads(plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the workloads of a plan that have roles: name of the workload -> name of the role -> entry in the plan."""
    return {name: w["roles"] for name, w in plan["workloads"].items() if w.get("roles")}


def keys(campaign: Campaign) -> list[str]:
    """Return the keys of the measured points that have roles, in the plan's order."""
    having = workloads(campaign.plan)
    return [p["key"] for p in campaign.points if p["workload"] in having and p["key"] in campaign.runs]


def roles(run: Mapping[str, Any], last: LastOperations) -> Iterator[Role]:
    """Yield the roles of a run. last: the `last_operations` of this run."""
    clients = {c["client"]: c for c in run["clients"]}
    for role in run["roles"]:
        ends = [_end_ns(clients[rank], role["end_ns"], last) for rank in role["clients"] if rank in clients]
        ends = ends or [role["end_ns"]]
        yield Role(role["name"], role["workload"], tuple(role["clients"]), role["begin_ns"], min(ends), max(ends))


def _end_ns(client: Mapping[str, Any], end_ns: int, last: LastOperations) -> int:
    """Return when a client stopped working (UTC ns). A client that has no more work stops before the role ends.

    end_ns: the planned end of the role.
    """
    stopped = client.get("end_ns") or end_ns
    return end_ns if stopped >= end_ns else min(last.get(client["client"], stopped), stopped)


def last_operations(campaign: Campaign) -> dict[str, dict[int, int]]:
    """Return the end of the last operation of each client (UTC ns), for each run with roles: key -> client -> end."""
    out: dict[str, dict[int, int]] = {key: {} for key in keys(campaign)}
    if out and (con := scan.connect(campaign, "ops", out)) is not None:
        for key, client, end_ns in con.execute("SELECT key, client, max(end_ns) FROM rows GROUP BY ALL").fetchall():
            out[key][client] = end_ns
    return out


def events(run: Mapping[str, Any], *kinds: str) -> list[dict[str, Any]]:
    """Return the events of these kinds, in order of time."""
    return sorted((e for e in run.get("events") or [] if e["kind"] in kinds), key=lambda e: e["time_ns"])


def faulted_ns(run: Mapping[str, Any]) -> int | None:
    """Return when the first act of a fault began (UTC ns), or None without a fault."""
    acts = events(run, ACT)
    return acts[0]["time_ns"] if acts else None


def was_undone(run: Mapping[str, Any]) -> bool:
    """Check whether every harmful act of a run was undone."""
    return not _undoing(run)[0]


def undone_ns(run: Mapping[str, Any]) -> int:
    """Return when the last harmful act of a run was undone, or the deadline if one was never undone (UTC ns).

    An act that is not harmful counts as undone when it is done. The run must have acts.
    """
    remaining, last = _undoing(run)
    return run["deadline_ns"] if remaining else last


def _undoing(run: Mapping[str, Any]) -> tuple[set[tuple[str, str]], int]:
    """Return the injected faults (actor, act) that were never reverted, and the time of the last other act (UTC ns)."""
    remaining: set[tuple[str, str]] = set()
    last = 0
    for event in events(run, ACT, UNDONE):
        actor, act = event.get("actor") or "", event["act"]
        if event["kind"] == UNDONE and act == UPGRADE:
            continue  # an upgrade is reverted after the run
        if event["kind"] == ACT and act in HARMS:
            remaining.add((actor, act))
            continue
        undone = UNDOES.get(act, ()) if event["kind"] == ACT else (act,)
        remaining -= {(actor, harm) for harm in undone}
        last = max(last, event.get("done_ns") or event["time_ns"])
    return remaining, last


def disturbance(run: Mapping[str, Any], last: LastOperations) -> tuple[int, int] | None:
    """Return (begin, end) of the disturbances of a run in UTC ns, or None without disturbances.

    last: the `last_operations` of this run.
    """
    faulted = faulted_ns(run)
    if faulted is not None:
        return faulted, undone_ns(run)
    passing = [r for r in run["roles"] if r["begin_ns"] > run["start_ns"] or r["end_ns"] < run["deadline_ns"]]
    ends = {r.name: r.last_ns for r in roles(run, last)}
    return (min(r["begin_ns"] for r in passing), max(ends[r["name"]] for r in passing)) if passing else None


def healing(run: Mapping[str, Any]) -> Healing:
    """Return when the store reported the first act of a fault, and when it was clean again.

    States after the run, when storelab undoes upgrades, are ignored.
    """
    over = min((e["time_ns"] for e in events(run, UNDONE) if e["act"] == UPGRADE), default=None)
    states = [e for e in events(run, STATE) if e["state"] != UNKNOWN and (over is None or e["time_ns"] < over)]
    faulted = faulted_ns(run)
    if not states or faulted is None:
        return Healing(bool(states))
    earlier = [e["state"] for e in states if e["time_ns"] <= faulted]
    later = [e for e in states if e["time_ns"] > faulted]
    ill = [e["time_ns"] for e in later if e["state"] != CLEAN]
    was_clean = not earlier or earlier[-1] == CLEAN
    if not ill and was_clean:
        return Healing(True)
    well = [e["time_ns"] for e in later if e["state"] == CLEAN and not any(t > e["time_ns"] for t in ill)]
    return Healing(True, ill[0] if ill and was_clean else None, min(well, default=None))


def phases(run: Mapping[str, Any], last_of: LastOperations) -> list[Phase]:
    """Return the phases of a run that are not empty, in order of time. last_of: the `last_operations` of this run."""
    first, last = run["start_ns"] + run["point"]["fixed"]["warm_up_ns"], run["deadline_ns"]
    found = disturbance(run, last_of)
    if found is None:
        return [Phase(THROUGHOUT, first, last)]
    begin, end = found
    whole, how = end, healing(run)
    if how.reports_state and faulted_ns(run) is not None:
        still_ill = how.noticed_ns is not None and how.whole_ns is None
        whole = last if still_ill else max(end, how.whole_ns or end)
    cuts = [min(max(at, first), last) for at in (first, begin, end, whole, last)]
    spans = zip(PHASES[1:], cuts[:-1], cuts[1:], strict=True)
    return [Phase(name, low, high) for name, low, high in spans if high > low]


def phase_table(campaign: Campaign) -> pd.DataFrame:
    """Return one row for each phase in which a role worked: key, role, cell (the phase), begin_ns, end_ns.

    In a run with a fault, the warm-up of a role that begins late is excluded. Without a fault it is not, because the
    begin of the role is itself the disturbance.
    """
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
    """Return one row per client of the runs with roles: key, client, role, role_begin_ns, role_end_ns, disturbed_ns.

    disturbed_ns: when the first disturbance began, or the deadline without a disturbance.
    """
    rows = []
    for key, last in last_operations(campaign).items():
        run = campaign.runs[key]
        found = disturbance(run, last)
        for role in roles(run, last):
            for client in role.clients:
                disturbed = found[0] if found else run["deadline_ns"]
                rows.append((key, client, role.name, role.begin_ns, role.end_ns, disturbed))
    return pd.DataFrame(rows, columns=["key", "client", "role", "role_begin_ns", "role_end_ns", "disturbed_ns"])


LEVELS = {"latency_p50_ms": 0.5, "latency_p90_ms": 0.9, "latency_p99_ms": 0.99}
LATENCIES = (*LEVELS, "latency_max_ms")
PLACE = ["key", "role", "cell"]
BOUNDS = "lower_bounds"  # column with the names of the latencies that are lower bounds, separated by ", "
_HUNG = f"""
SELECT key, role, coalesce(intended_ns, start_ns) AS begun_ns, end_ns - begun_ns AS least_ns, 1.0 AS n
FROM rows JOIN clients USING (key, client) WHERE error = '{HUNG}' AND latency_hist IS NULL
UNION ALL
SELECT key, role, end_ns - bucket.upper_ns AS begun_ns, bucket.upper_ns / {WIDTH} AS least_ns, bucket.count AS n
FROM (SELECT key, role, end_ns, unnest(latency_hist) AS bucket
      FROM rows JOIN clients USING (key, client) WHERE error = '{HUNG}' AND latency_hist IS NOT NULL)"""
_ENDED = f"""
WITH mine AS (SELECT * FROM cells WHERE key = ? AND role = ? AND cell = ? AND error IS NULL)
SELECT ns, sum(n) AS n FROM (
  SELECT {scan.LATENCY} AS ns, 1.0 AS n FROM mine WHERE latency_hist IS NULL
  UNION ALL
  SELECT bucket.upper_ns AS ns, share * bucket.count AS n FROM (SELECT share, unnest(latency_hist) AS bucket FROM mine))
WHERE ns IS NOT NULL GROUP BY ns ORDER BY ns"""


def _unended(con: duckdb.DuckDBPyConnection, campaign: Campaign) -> pd.DataFrame:
    """Return one row for each key, role and phase in which an operation waited that never ended.

    Columns: PLACE, hung, not_begun, LATENCIES (null if there are too few operations for a quantile), BOUNDS. con: the
    connection of `in_phases`, with the tables `rows`, `clients`, `spans` and `cells`.
    """
    waiting = pd.concat([con.execute(_HUNG).df().assign(hung=True), _never_began(campaign).assign(hung=False)])
    spans = con.execute("SELECT key, role, cell, high_ns FROM spans").df()
    spans["last"] = spans["high_ns"] == spans.groupby(["key", "role"])["high_ns"].transform("max")
    met = waiting.merge(spans, on=["key", "role"])
    met = met[(met["begun_ns"] < met["high_ns"]) & ((met["cell"] != BEFORE) | met["last"])]
    made = [_unended_row(con, place, group) for place, group in met.groupby(PLACE, sort=False)]
    return pd.DataFrame(made, columns=[*PLACE, "hung", "not_begun", *LATENCIES, BOUNDS])


def _never_began(campaign: Campaign) -> pd.DataFrame:
    """Return the operations that were due and never began.

    Columns: key, role, begun_ns (when the operation was due), least_ns (how long it waited at least), n (their number).
    """
    rows = []
    for key in keys(campaign):
        run = campaign.runs[key]
        engines = {c["client"]: c.get("engine") or {} for c in run["clients"]}
        for role in run["roles"]:
            rate = role.get("axes", {}).get("arrival_rate")
            for waited in scan.never_began([engines.get(rank, {}) for rank in role["clients"]], rate):
                rows += [(key, role["name"], role["end_ns"] - w, w, 1.0) for w in waited]
    return pd.DataFrame(rows, columns=["key", "role", "begun_ns", "least_ns", "n"])


def _unended_row(con: duckdb.DuckDBPyConnection, place: tuple[str, ...], group: pd.DataFrame) -> list[object]:
    found = con.execute(_ENDED, list(place)).df()
    ended = pd.Series(found["n"].to_numpy(float), index=found["ns"].to_numpy(float))
    bounds = pd.Series(group["n"].to_numpy(float), index=group["least_ns"].to_numpy(float))
    total = ended.sum() + bounds.sum()
    values, beyond = with_bounds(ended, bounds, list(LEVELS.values()))
    names = [name for (name, p), b in zip(LEVELS.items(), beyond, strict=True) if b and enough(total, p)]
    hung = group.loc[group["hung"], "n"].sum()
    bound_names = ", ".join(name.removesuffix("_ms") for name in [*names, "latency_max_ms"])
    latencies = _latency_row(total, max([*ended.index, *bounds.index]), list(values))
    return [*place, hung, group["n"].sum() - hung, *latencies, bound_names]


_BIN = "greatest(0, least(end_ns, high_ns) - greatest(end_ns - bin_ns, low_ns)) / bin_ns"
_ROWS = "rows JOIN clients USING (key, client)"
_STEPS = f"""
WITH placed AS (SELECT rows.*, role, step_ns, (end_ns - agreed_ns - 1) // step_ns AS last
                FROM {_ROWS} JOIN steps USING (key) WHERE end_ns > agreed_ns)
SELECT * EXCLUDE (last), last AS cell, CASE WHEN latency_hist IS NULL THEN 1.0
    ELSE least(1.0, (end_ns - agreed_ns - last * step_ns) / bin_ns) END AS share FROM placed
UNION ALL BY NAME
SELECT * EXCLUDE (last), last - 1 AS cell, 1.0 - (end_ns - agreed_ns - last * step_ns) / bin_ns AS share
FROM placed WHERE latency_hist IS NOT NULL AND last > 0 AND end_ns - agreed_ns - last * step_ns < bin_ns"""
_SPANS = f"""
SELECT * FROM (
  SELECT rows.*, role, cell,
    CASE WHEN latency_hist IS NULL THEN (end_ns > low_ns AND end_ns <= high_ns)::INT::DOUBLE ELSE {_BIN} END AS share
  FROM {_ROWS} JOIN spans USING (key, role))
WHERE share > 0"""
_WORK = f"""
SELECT key, role, cell, sum(part * count) AS work, sum(part * bytes) AS work_bytes FROM (
  SELECT key, role, cell, count, bytes,
    CASE WHEN latency_hist IS NOT NULL THEN {_BIN} ELSE {scan.share("low_ns", "high_ns")} END AS part
  FROM {_ROWS} JOIN spans USING (key, role) WHERE error IS NULL)
WHERE part > 0 GROUP BY ALL"""
_COUNTS = """
SELECT key, role, cell,
  coalesce(sum(share * count) FILTER (error IS NULL), 0) AS operations,
  coalesce(sum(share * bytes) FILTER (error IS NULL), 0) AS bytes,
  coalesce(sum(share * count) FILTER (error IS NOT NULL), 0) AS errors
FROM cells GROUP BY ALL"""
_STATUSES = """
SELECT key, role, cell, coalesce(status, 0) AS status, sum(share * count) AS errors
FROM cells WHERE error IS NOT NULL GROUP BY ALL"""
_SINGLE = f"""
SELECT key, role, cell, count({scan.LATENCY}) AS timed, max({scan.LATENCY}) AS longest,
  quantile_disc({scan.LATENCY}, {list(LEVELS.values())}) AS quantiles
FROM cells WHERE error IS NULL AND latency_hist IS NULL AND (key, role) NOT IN (SELECT key, role FROM binned)
GROUP BY ALL"""
_BUCKETS = f"""
SELECT key, role, cell, upper_ns, sum(operations) AS operations FROM (
  SELECT key, role, cell, bucket.upper_ns AS upper_ns, share * bucket.count AS operations
  FROM (SELECT key, role, cell, share, unnest(latency_hist) AS bucket FROM cells
        WHERE error IS NULL AND latency_hist IS NOT NULL)
  UNION ALL
  SELECT key, role, cell, {scan.bucket(scan.LATENCY)} AS upper_ns, 1.0
  FROM cells WHERE error IS NULL AND latency_hist IS NULL AND {scan.LATENCY} IS NOT NULL
    AND (key, role) IN (SELECT key, role FROM binned))
GROUP BY ALL ORDER BY key, role, cell, upper_ns"""


@dataclass(frozen=True)
class Counted:
    """The operations of roles, counted in cells.

    cells: columns key, role, cell, operations, bytes, errors and LATENCIES; for phases also work, work_bytes, hung,
    not_begun and BOUNDS. statuses: columns key, role, cell, status (of HTTP; 0: none) and errors.
    """

    cells: pd.DataFrame
    statuses: pd.DataFrame


def in_steps(campaign: Campaign, steps: pd.DataFrame) -> Counted | None:
    """Count operations in steps from the agreed start, numbered from 0. Returns None if no operation was recorded.

    steps: table with the columns key and step_ns (length of a step, at least that of a bin).
    """
    return _counted(campaign, _STEPS, steps=steps)


def in_phases(campaign: Campaign) -> Counted | None:
    """Count operations in the phases in which their role worked. Returns None if no operation was recorded."""
    spans = phase_table(campaign).rename(columns={"begin_ns": "low_ns", "end_ns": "high_ns"})
    return _counted(campaign, _SPANS, True, spans=spans)


def connect_clients(campaign: Campaign) -> duckdb.DuckDBPyConnection | None:
    """Return a connection to the operations of points with roles (`scan.connect`), or None without operations.

    It also has the table `clients` (`client_table`).
    """
    if not (mine := keys(campaign)) or (con := scan.connect(campaign, "ops", mine)) is None:
        return None
    con.register("clients", client_table(campaign))
    return con


def _counted(campaign: Campaign, query: str, waiting: bool = False, **given: pd.DataFrame) -> Counted | None:
    if (con := connect_clients(campaign)) is None:
        return None
    for name, table in given.items():
        con.register(name, table)
    con.execute(f"CREATE TEMP TABLE cells AS {query}")
    con.execute("CREATE TEMP TABLE binned AS SELECT DISTINCT key, role FROM cells WHERE latency_hist IS NOT NULL")
    counts = con.execute(_COUNTS).df()
    latencies = pd.concat(
        [_single_operations(con.execute(_SINGLE).df()), _bucket_operations(con.execute(_BUCKETS).df())]
    )
    cells = counts.merge(latencies, on=PLACE, how="left")
    if waiting:
        cells = _with_unended(cells, _unended(con, campaign))
        cells = cells.merge(con.execute(_WORK).df(), on=PLACE, how="outer")
    return Counted(cells, con.execute(_STATUSES).df())


def _with_unended(cells: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with the operations that never ended included. A cell can consist of only these operations."""
    both = cells.merge(found, on=PLACE, how="outer", suffixes=("", "_least"))
    waited = both[BOUNDS].notna()
    for name in LATENCIES:
        both[name] = both[name].astype(float).where(~waited, both[f"{name}_least"].astype(float))
    return both.drop(columns=[f"{name}_least" for name in LATENCIES])


def _latency_row(operations: float, longest: float, quantiles: list[float]) -> list[float | None]:
    """Return LATENCIES in ms from quantiles and the longest latency in ns.

    A quantile is None if there are too few operations for it.
    """
    known = [q / 1e6 if enough(operations, p) else None for q, p in zip(quantiles, LEVELS.values(), strict=True)]
    return [*known, longest / 1e6]


def _single_operations(found: pd.DataFrame) -> pd.DataFrame:
    found = found[found["timed"] > 0]
    rows = zip(found["timed"], found["longest"], found["quantiles"], strict=True)
    return _table(found, [_latency_row(*values) for values in rows])


def _bucket_operations(found: pd.DataFrame) -> pd.DataFrame:
    rows, values = [], []
    for key, group in found.groupby(PLACE, sort=False):
        upper, count = group["upper_ns"].to_numpy(float), group["operations"].to_numpy(float)
        rows.append(key)
        values.append(
            _latency_row(count.sum(), upper[-1], list(histogram_quantiles(upper, count, list(LEVELS.values()))))
        )
    return _table(pd.DataFrame(rows, columns=PLACE), values)


def _table(found: pd.DataFrame, values: list[list[float | None]]) -> pd.DataFrame:
    latencies = pd.DataFrame(values, columns=list(LATENCIES), index=found.index, dtype=float)
    return pd.concat([found[PLACE], latencies], axis=1)
