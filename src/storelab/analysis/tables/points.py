"""`points.csv`: one row per planned point, and the columns that identify a point.

Rates, windows and steadiness are defined in `windows`. 1 MB is 10^6 bytes. The name of a column ends with its unit.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import roles, windows
from storelab.analysis.records.campaign import Campaign, client_cpu_s, watched_s
from storelab.analysis.statistics import steadiness
from storelab.analysis.tables import calibration, guarantees, latency
from storelab.core import units

NO_RATES = (
    guarantees.CONSISTENCY,
    guarantees.PROBE,
    calibration.WORKLOAD,
    "space",
    "publish",
    "replicate",
    "launch",
    "collect_garbage",
)  # workloads whose rates are not a property of a store
# Percent of the host's cores that neither clients nor store use. The kernel's work for the network is less than this.
DISTURBED_PERCENT = 10
DRAINED = ("loadgen", "obstore")  # in older records of these engines, which lack `hung`, `cut_off` has hung operations
COMMON_COLUMNS = (
    "operations",
    "errors",
    "last_done_bytes",
)  # columns of windows that are valid for all roles of a point
PAUSED_MS = 100  # shortest pause of a client that the paper's text mentions
DTYPES = {"int": "Int64", "size": "Int64", "percent": "Float64", "text": "string", "place": "string"}


def axis_columns(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the axes of all workloads, in their order: column -> pandas dtype.

    Workloads with roles and the calibration are excluded.
    """
    apart = {calibration.WORKLOAD, *roles.workloads(plan)}
    return _columns({name: w for name, w in plan["workloads"].items() if name not in apart})


def _columns(workloads: Mapping[str, Any]) -> dict[str, str]:
    return {a["column"]: DTYPES[a["kind"]] for w in workloads.values() for a in w["axes"]}


def identity(plan: Mapping[str, Any]) -> list[str]:
    """Return the columns that identify a group of points: store, workload and all axes."""
    return ["store", "workload", *axis_columns(plan)]


def loopback(endpoint: str) -> bool:
    """Check whether a URL names the client's own host, so that client and server share its cores."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def table(campaign: Campaign, measured: pd.DataFrame, ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return `points.csv`: one row per planned point, in the order of measuring.

    Failed points have the `state` failed, and a reason. Runs with more failed operations than the campaign's budget are
    `invalid`: they were measured, but are not used in medians. tries: number of all tries of the point; other_tries:
    outcomes of the tries that are not used.

    * nodes: number of hosts of the clients. lateness_max_ms: largest lateness of a client after the agreed start.
    * *_cpu_percent: CPU time of all clients, of the store's processes, and of the whole host, in percent of the host's
      cores from the agreed start to the deadline. other_cpu_percent: the host minus clients and server, including the
      kernel's work (null if the CPU time of the server is not known).
    * shared_host: true if the store runs on the clients' host (or on the machine of all their nodes) according to its
      record, or if the clients reach it over loopback.
    * requests_per_operation: number of requests of an operation in the engine's mode.
    * hung: number of operations in flight at the deadline that did not end in the time granted to them, included in
      errors. It is null if the engine cannot distinguish them; cut_off then has the number of operations in flight at
      the deadline.
    * not_begun: number of operations that were due in an open loop while no worker was free.
    * pauses_ms: total time in which a client did not run (the largest value of a client); pause_longest_ms: the longest
      pause of a client. Both are null if the engine does not record pauses.
    * latency_lower_bounds: the quantiles that are lower bounds (`latency`).
    * Ceilings: see `calibration`.
    """
    return calibration.with_ceilings(campaign, measured, ceilings)


def points(campaign: Campaign, latencies: pd.DataFrame) -> pd.DataFrame:
    """Return points.csv without the columns of ceilings. latencies: the result of `latency.runs`."""
    columns = {w: {a["name"]: a["column"] for a in d["axes"]} for w, d in campaign.plan["workloads"].items()}
    rows = []
    for p in sorted(campaign.points, key=lambda p: p["order"]):
        row = {k: p[k] for k in ("order", "store", "workload")}
        row |= {columns[p["workload"]][name]: value for name, value in p["axes"].items()}
        row |= {k: p[k] for k in ("rep", "sweep", "key")}
        run = campaign.runs.get(p["key"])
        fixed = (run or {"point": p})["point"]["fixed"]  # windows that were too short were lengthened
        row |= {"duration_s": fixed["duration_ns"] / 1e9, "warm_up_s": fixed["warm_up_ns"] / 1e9}
        if run is None:
            state, reason = "failed", campaign.failures[p["key"]]["reason"]
        else:
            state, reason = ("ok", None) if run.get("valid", True) else ("invalid", run["budget"]["reason"])
            row |= _run_columns(run)
        others = campaign.tries(p["key"])
        tried = {
            "tries": 1 + len(others),
            "other_tries": "; ".join(f"{t['outcome']}: {t['reason']}" for t in others) or None,
        }
        rows.append(row | {"state": state, "reason": reason} | tried)
    axes = _columns(campaign.plan["workloads"])
    head = ["order", "store", "workload", *axes, "rep", "sweep", "key", "state", "reason"]
    head += ["tries", "other_tries", "duration_s", "warm_up_s"]
    table = pd.DataFrame(rows).reindex(columns=[*head, *_RUN_DTYPES]).astype(axes | _RUN_DTYPES)
    probes = [p["key"] for p in campaign.measured(guarantees.PROBE)]
    rates = windows.operations(campaign).drop(index=probes)  # a probe has no rate
    several = rates.index.isin(roles.keys(campaign))  # these have rates only for roles and phases
    rates = rates.mask(np.logical_and.outer(several, [c not in COMMON_COLUMNS for c in rates]))
    table = table.merge(rates, left_on="key", right_index=True, how="left")
    whole = {c: "Int64" for c in table if c.endswith(("operations", "bytes", "errors")) and c not in axes}
    return table.astype(whole).join(latency.point_columns(latencies), on="key")


def plain(plan: Mapping[str, Any], points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of points without roles. points: points.csv."""
    return points[~points["workload"].isin(list(roles.workloads(plan)))]


def rated(plain: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of workloads with a rate, which are all except NO_RATES. plain: rows without roles (`plain`)."""
    return plain[~plain["workload"].isin(NO_RATES)]


_RUN_DTYPES = {
    "started": "string",
    "clients_joined": "Int64",
    "nodes": "Int64",
    "lateness_max_ms": "Float64",
    "shared_host": "boolean",
    "engine_version": "string",
    "requests_per_operation": "string",
    "client_cpu_s": "Float64",
    "client_cpu_percent": "Float64",
    "server_cpu_percent": "Float64",
    "host_cpu_percent": "Float64",
    "other_cpu_percent": "Float64",
    "connections_max": "Int64",
    "hung": "Int64",
    "cut_off": "Int64",
    "not_begun": "Int64",
    "pauses_ms": "Float64",
    "pause_longest_ms": "Float64",
    **groups.COLD_DTYPES,
}


def _run_columns(run: Mapping[str, Any]) -> dict[str, Any]:
    clients, host, engine = run["clients"], run.get("host") or {}, run.get("engine") or {}
    cpu, capacity = client_cpu_s(run), (host.get("cores") or 0) * watched_s(run, host)
    percent = {
        f"{who}_cpu_percent": 100 * value / capacity if value is not None and capacity > 0 else None
        for who, value in (
            ("client", host.get("client_cpu_s", cpu)),
            ("server", host.get("server_cpu_s")),
            ("host", host.get("cpu_busy_s")),
        )
    }
    # The CPU time of clients includes work after the deadline (decoding of the last reads), which must not count.
    if None not in (percent["client_cpu_percent"], percent["host_cpu_percent"]):
        percent["client_cpu_percent"] = min(percent["client_cpu_percent"], percent["host_cpu_percent"])
    # If the nodes are on one machine, the kernel uses CPU time to limit the rate of their links. It cannot be
    # distinguished from other programs.
    known = None not in percent.values() and not run.get("shared_machine")
    percent["other_cpu_percent"] = (
        max(0.0, percent["host_cpu_percent"] - percent["client_cpu_percent"] - percent["server_cpu_percent"])
        if known
        else None
    )
    store = run.get("store") or {}
    here = store.get(
        "on_this_host", bool((store.get("deployment") or {}).get("daemons"))
    )  # for older records: the store has daemons that storelab started
    if "nodes" in run:  # clients on other hosts do not share the store's host, unless all nodes are on one machine
        here = here and run["shared_machine"]
    engines = [c.get("engine") or {} for c in clients]
    hung, in_flight = _sum(engines, "hung"), _sum(engines, "cut_off")
    if hung is None and engine.get("name") in DRAINED:
        hung = in_flight
    paused = [facts["pauses"] for facts in engines if "pauses" in facts]
    connections = [c["connections_max"] for c in clients if c.get("connections_max") is not None]
    return {
        "started": pd.Timestamp(run["start_ns"], unit="ns").strftime("%Y-%m-%dT%H:%M:%SZ"),
        "clients_joined": len(clients),
        "nodes": len({c.get("host") for c in clients}),
        "lateness_max_ms": max((c.get("lateness_ns") or 0 for c in clients), default=0) / 1e6,
        "shared_host": here or (bool(clients) and all(loopback(c.get("endpoint") or "") for c in clients)),
        "engine_version": engine.get("version"),
        "requests_per_operation": ", ".join(
            f"{op} {n}" for op, n in (engine.get("requests_per_operation") or {}).items()
        )
        or None,
        "client_cpu_s": cpu,
        **percent,
        "connections_max": sum(connections) if connections else None,
        "hung": hung,
        "cut_off": in_flight if hung is None else None,
        "not_begun": _sum(engines, "not_begun"),
        "pauses_ms": max(p["sum_ns"] for p in paused) / 1e6 if paused else None,
        "pause_longest_ms": max(p["longest_ns"] for p in paused) / 1e6 if paused else None,
        **groups.cold_of_run(run),
    }


def _sum(engines: list[dict[str, Any]], name: str) -> int | None:
    """Return the sum of a value over all clients, or None if one of them did not record it."""
    known = [facts[name] for facts in engines if facts.get(name) is not None]
    return sum(known) if known and len(known) == len(engines) else None


def _steadiness(judged: pd.Series) -> str:
    """Return the numbers of steady and unsteady runs in words. Kinds without runs are omitted."""
    kinds = judged.map({steadiness.STEADY: "steady", steadiness.TOO_SHORT: "too short to judge"}).fillna("not steady")
    counts = kinds.value_counts().reindex(["steady", "not steady", "too short to judge"]).dropna().astype(int)
    parts = [f"{'all' if n == len(kinds) else n} were {kind}" for kind, n in counts.items()]
    return labels.listed([parts[0], *(part.replace(" were", "") for part in parts[1:])] if parts else [])


def numbers(every: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about the points: measured, valid and disturbed ones."""
    measured = every[every["workload"] != calibration.WORKLOAD]
    # A calibration is not a result of a store, but it can be the only workload.
    points = measured if len(measured) else every
    ok = points[points["state"] == "ok"]
    shared = int(ok["shared_host"].fillna(False).sum())
    # for points with roles: the sum over all roles
    most = points.reindex(columns=["clients", "clients_joined"]).max().max()
    out = [
        ("points", len(points), ""),
        ("points_measured", len(ok), ""),
        ("points_failed", int((every["state"] == "failed").sum()), ""),
        ("points_tried_again", int((every["tries"] > 1).sum()), ""),
        ("operations", ok["operations"].sum(), ""),
        ("errors", ok["errors"].sum(), ""),
        ("hung", measured["hung"].sum(min_count=1), ""),
        ("hung_runs", (measured["hung"].dropna() > 0).sum(min_count=1), ""),
        ("hung_unknown", int((measured["cut_off"] > 0).sum()), ""),
        ("paused", (ok["pause_longest_ms"].dropna() >= PAUSED_MS).sum(min_count=1), ""),
        ("paused_from", PAUSED_MS, "ms"),
        ("bytes_moved", units.human_size(float(ok["last_done_bytes"].sum())), ""),
        ("stores", labels.counted(points["store"].nunique(), "storage system"), ""),
        ("unsteady", ok["steadiness"].isin(steadiness.UNSTEADY).sum(), ""),
        ("too_short", (ok["steadiness"] == steadiness.TOO_SHORT).sum(), ""),
        ("steadiness_of", int(ok["steadiness"].notna().sum()), ""),
        ("steadiness_told", _steadiness(ok["steadiness"].dropna()), ""),
        ("shared_host", shared, ""),
        ("shared_host_of", f"all {len(ok)}" if shared == len(ok) else f"{shared} of the {len(ok)}", ""),
        ("over_nodes", int((ok["nodes"].fillna(1) > 1).sum()), ""),
        ("clients_most", labels.plural(most, "client"), ""),
        ("durations", labels.span(points["duration_s"], "s"), ""),
        ("warm_ups", labels.span(points["warm_up_s"], "s"), ""),
    ]
    other = ok["other_cpu_percent"].dropna()
    if len(other):
        out += [
            ("other_cpu_median", other.median(), "%"),
            ("other_cpu_most", other.max(), "%"),
            ("disturbed", int((other > DISTURBED_PERCENT).sum()), ""),
            ("disturbed_from", DISTURBED_PERCENT, "%"),
        ]
    if len(ok):
        days = dict.fromkeys((ok["started"].min()[:10], ok["started"].max()[:10]))
        out += [
            ("nodes_most", ok["nodes"].max(), ""),
            ("measured_on", " to ".join(days), ""),
            ("lateness_most", ok["lateness_max_ms"].max(), "ms"),
            ("tail_most", ok["tail_s"].max(), "s"),
            ("pause_longest", ok["pause_longest_ms"].max(), "ms"),
        ]
    return [row for row in out if not pd.isna(row[1])]  # probes have no tail
