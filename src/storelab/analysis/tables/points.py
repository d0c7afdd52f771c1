"""`points.csv`: one row per planned point, and the columns that make its identity (level 2, analysis).

Rates, windows and steadiness are joined as `windows` defines them. MB = 10^6 bytes; the unit ends a column's name.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from storelab.analysis.records import loading, windows
from storelab.analysis.tables import capabilities
from storelab.core import calibration

_DTYPES = {"int": "Int64", "size": "Int64", "percent": "Float64", "text": "string", "place": "string"}


def axis_columns(plan: Mapping[str, Any], but: str = calibration.WORKLOAD) -> dict[str, str]:
    """Column -> pandas dtype of every axis of every workload of the plan (without one), in the workloads' order."""
    return {a["column"]: _DTYPES[a["kind"]] for name, w in plan["workloads"].items() if name != but for a in w["axes"]}


def identity(plan: Mapping[str, Any]) -> list[str]:
    """The columns that make a group of points: store, workload and all axes."""
    return ["store", "workload", *axis_columns(plan)]


def loopback(endpoint: str) -> bool:
    """Whether the URL's host is this very machine: client and server share its cores."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def points(campaign: loading.Campaign) -> pd.DataFrame:
    """One row per planned point, in the plan's order of measuring. Failed points bear `state` failed and the reason;
    runs with more failed operations than the campaign's budget `invalid`: measured, and in no median.

    nodes: hosts that the clients were on. lateness_max_ms: largest start lateness of a client after the agreed start. *_cpu_percent: CPU seconds of all clients, of
    the store's processes, of the whole host, in percent of the host's cores in the time watched, agreed start to deadline;
    other: the host's less both, the kernel's own work included (null where the server's is not known).
    shared_host: the store works on the clients' host (or on the machine that their nodes are), as its record says, or they reach it over loopback. requests_per_operation: cost of an operation in the engine's mode.
    """
    columns = {w: {a["name"]: a["column"] for a in d["axes"]} for w, d in campaign.plan["workloads"].items()}
    rows = []
    for p in sorted(campaign.points, key=lambda p: p["order"]):
        row = {k: p[k] for k in ("order", "store", "workload")}
        row |= {columns[p["workload"]][name]: value for name, value in p["axes"].items()}
        row |= {k: p[k] for k in ("rep", "sweep", "key")}
        row |= {"duration_s": p["fixed"]["duration_ns"] / 1e9, "warm_up_s": p["fixed"]["warm_up_ns"] / 1e9}
        run = campaign.runs.get(p["key"])
        if run:
            valid = run.get("valid", True)
            row |= {"state": "ok" if valid else "invalid", "reason": None if valid else run["budget"]["reason"], **_run_columns(run)}
        else:
            row |= {"state": "failed", "reason": campaign.failures[p["key"]]["reason"]}
        rows.append(row)
    axes = axis_columns(campaign.plan, but="")
    head = ["order", "store", "workload", *axes, "rep", "sweep", "key", "state", "reason", "duration_s", "warm_up_s"]
    table = pd.DataFrame(rows).reindex(columns=[*head, *_RUN_DTYPES]).astype(axes | _RUN_DTYPES)
    rated = windows.operations(campaign).drop(index=capabilities.keys(campaign))  # a probe has no rate
    table = table.merge(rated, left_on="key", right_index=True, how="left")
    return table.astype({c: "Int64" for c in table if c.endswith(("operations", "bytes", "errors")) and c not in axes})


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
}


def _run_columns(run: Mapping[str, Any]) -> dict[str, Any]:
    clients, host, engine = run["clients"], run.get("host") or {}, run.get("engine") or {}
    seconds = host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9
    cpu = sum((c.get("cpu_user_s") or 0) + (c.get("cpu_system_s") or 0) for c in clients)
    capacity = (host.get("cores") or 0) * seconds
    percent = {
        f"{who}_cpu_percent": 100 * value / capacity if value is not None and capacity > 0 else None
        for who, value in (
            ("client", host.get("client_cpu_s", cpu)),
            ("server", host.get("server_cpu_s")),
            ("host", host.get("cpu_busy_s")),
        )
    }
    known = None not in percent.values()
    percent["other_cpu_percent"] = (
        max(0.0, percent["host_cpu_percent"] - percent["client_cpu_percent"] - percent["server_cpu_percent"]) if known else None
    )
    store = run.get("store") or {}
    here = store.get("on_this_host", bool((store.get("deployment") or {}).get("daemons")))  # older records: it has daemons of storelab's
    if "nodes" in run:  # clients of other hosts share nothing with it, unless the nodes are this very machine
        here = here and run["shared_machine"]
    connections = [c["connections_max"] for c in clients if c.get("connections_max") is not None]
    return {
        "started": pd.Timestamp(run["start_ns"], unit="ns").strftime("%Y-%m-%dT%H:%M:%SZ"),
        "clients_joined": len(clients),
        "nodes": len({c.get("host") for c in clients}),
        "lateness_max_ms": max((c.get("lateness_ns") or 0 for c in clients), default=0) / 1e6,
        "shared_host": here or (bool(clients) and all(loopback(c.get("endpoint") or "") for c in clients)),
        "engine_version": engine.get("version"),
        "requests_per_operation": ", ".join(f"{op} {n}" for op, n in (engine.get("requests_per_operation") or {}).items()) or None,
        "client_cpu_s": cpu,
        **percent,
        "connections_max": sum(connections) if connections else None,
    }
