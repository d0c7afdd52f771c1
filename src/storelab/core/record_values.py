"""Check that the values of the JSON files of a campaign are possible.

Checksums do not show impossible values if a record was edited and its checksums were made again.
"""

import re
from collections.abc import Mapping
from typing import Any

from storelab.core.errors import shown

LARGEST = 2**63 - 1  # maximum of the integers of a record, which tables store as int64
UNITS = ("_ns", "_s", "bytes")  # endings of the names of quantities
SIGNED = ("clock_offset_ns", "lateness_ns")  # times that can be negative
DESCRIPTIONS = ("environment", "store")  # parts with names from outside storelab
TIMES = ("start_ns", "deadline_ns")
# Name of the operations of a client: `ops.0.parquet`, or with the attempt if an earlier record had this name.
OPERATIONS_FILE = re.compile(r"ops\.(\d+)\.(?:[^/]+\.)?parquet")
AXIS_KINDS = ("int", "size", "percent", "text", "place")
COUNT, NUMBER, AMOUNT = int, float, "amount"  # shapes of a whole number from 0 on, of any number, and of one from 0 on
_HOST: dict[str, Any] = {
    "cores": NUMBER,
    "seconds": NUMBER,
    **dict.fromkeys(("ports", "connections_opened"), COUNT),
    "network": {
        "*": {
            "rx_bytes!": COUNT,
            "tx_bytes!": COUNT,
            "rx_packets": COUNT,
            "tx_packets": COUNT,
            "link_bits_per_s": NUMBER,
        }
    },
}
_PAUSES = {"count": COUNT, "sum_ns!": COUNT, "longest_ns!": COUNT, "longest": [list]}
_CLIENT = {
    "client!": COUNT,
    **dict.fromkeys(("host", "endpoint", "role"), str),
    **dict.fromkeys(("operations", "errors", "bytes", "connections_max", "max_rss_bytes", "pid"), COUNT),
    **dict.fromkeys(("cpu_user_s", "cpu_system_s"), AMOUNT),
    "network": dict,
    "engine": {
        **dict.fromkeys(("hung", "not_begun", "cut_off"), COUNT),
        "hung_s": NUMBER,
        "errors": dict,
        "opening": {"*": COUNT},
        "pauses": _PAUSES,
    },
}
# Shape of the parts of a run that the analysis uses. `*`: any name; `!`: the value is required, and cannot be None;
# `+`: it can be missing, but cannot be None. Other names have any value.
SHAPE: dict[str, Any] = {
    **dict.fromkeys(("campaign", "attempt", "launcher"), str),
    **dict.fromkeys(("valid", "shared_machine"), bool),
    "budget": {"reason": str, "errors": COUNT, "operations": COUNT, "fraction": NUMBER, "hung": COUNT},
    "clients": [_CLIENT],
    "host": _HOST,
    "coordinator": _HOST,
    "nodes": [{"ranks!": [COUNT], "watched": _HOST}],
    "store+": {
        **dict.fromkeys(("name", "kind"), str),
        "on_this_host": bool,
        "deployment": {"front_ends": COUNT, "link_bits_per_s": [NUMBER]},
    },
    "environment": {
        **dict.fromkeys(("storelab", "git_commit", "python", "kernel", "cpu_model", "platform"), str),
        "cores": COUNT,
        "memory_bytes": COUNT,
        "packages": {"*": str},
    },
    "engine": {"name": str, "settings": dict, "requests_per_operation": dict},
    "checks": [{"name!": str, "ok!": bool, "detail": str}],
    "events": [{"kind!": str, "time_ns!": COUNT}],
    "earlier": [{"time_ns!": COUNT, "outcome!": str, "reason": str}],
    "files": dict,
    **dict.fromkeys(("observed", "durability", "fill", "fault", "cold"), dict),
}

# Shape of the parts of `failed.json` and `later.json` that the analysis uses.
FAILURE_SHAPE: dict[str, Any] = {
    "point!": {**dict.fromkeys(("store!", "workload!"), str), "axes!": dict, "rep!": COUNT},
    "time_ns!": COUNT,
    "reason!": str,
    "detail": dict,
    "earlier": SHAPE["earlier"],
}
# Shape of the parts of `plan.json` that the analysis uses.
PLAN_SHAPE: dict[str, Any] = {
    "schema": COUNT,
    "campaign": {"name": str, "title": str, "authors": [str], "repetitions": COUNT},
    "points!": [
        {
            **dict.fromkeys(("key!", "store!", "workload!", "sweep"), str),
            "axes!": dict,
            "rep!": COUNT,
            "order": COUNT,
            "fixed": {"duration_ns+": COUNT, "warm_up_ns+": COUNT},
        }
    ],
    "workloads+": {"*": {"axes!": [{"name!": str, "column+": str, "kind!": str, "label!": str}]}},
    "stores+": dict,
    "limits+": dict,
}


def problem_of_failure(failure: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the values of a failed attempt, or None."""
    return _misshaped("", failure, FAILURE_SHAPE)


def problem_of_plan(plan: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the values of a `plan.json`, or None."""
    if found := _misshaped("", plan, PLAN_SHAPE):
        return found
    keys = [point["key"] for point in plan["points"]]
    if len(set(keys)) < len(keys):
        return f"contains the point {max(keys, key=keys.count)} twice: the file is damaged"
    for name, one in plan.get("workloads", {}).items():
        for number, axis in enumerate(one["axes"]):
            if axis["kind"] not in AXIS_KINDS:
                return _wrong(f"workloads.{name}.axes.{number}.kind", axis["kind"])
    axes = {name: {axis["name"] for axis in one["axes"]} for name, one in plan.get("workloads", {}).items()}
    for number, point in enumerate(plan["points"]):
        if point["key"].startswith("/") or {"", "..", "."} & set(point["key"].split("/")):
            return _wrong(f"points.{number}.key", point["key"])
        if point["workload"] not in plan.get("workloads", {point["workload"]: {}}):
            return _wrong(f"points.{number}.workload", point["workload"])
        if undeclared := sorted(point["axes"].keys() - axes.get(point["workload"], point["axes"].keys())):
            return f"contains the axis {shown(undeclared[0])}, which its workload does not have: the file is damaged"
    return None


def problem(run: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the values of a run, or None."""
    if found := _misshaped("", run, SHAPE):
        return found
    if "clients" in run and run["clients"] is None:
        return _wrong("clients", None)
    times = {name: run[name] for name in TIMES if name in run}
    fixed = run["point"].get("fixed") or {}
    times |= {f"point.fixed.{name}": value for name, value in fixed.items() if name.endswith("_ns")}
    for name, value in times.items():
        if type(value) is not int:
            return _wrong(name, value)
    if run.get("start_ns", 0) > run.get("deadline_ns", LARGEST):
        return "`start_ns` is later than `deadline_ns`: the file is damaged"
    if found := _problem("", {name: value for name, value in run.items() if name not in DESCRIPTIONS}):
        return found
    if fixed.get("warm_up_ns", 0) > fixed.get("duration_ns", LARGEST):
        return "`point.fixed.warm_up_ns` is longer than `point.fixed.duration_ns`: the file is damaged"
    numbers = [client["client"] for client in run.get("clients") or ()]
    if len(set(numbers)) < len(numbers):
        return f"`clients` contains client {max(numbers, key=numbers.count)} twice: the file is damaged"
    files = {int(match[1]) for match in map(OPERATIONS_FILE.fullmatch, run["files"]) if match}
    if files and (differ := files ^ set(numbers)):
        return f"client {min(differ)} is in only one of `clients` and `files`: the file is damaged"
    planned = (run["point"].get("axes") or {}).get("clients", len(numbers))
    if numbers and not run.get("roles") and planned != len(numbers):
        return f"`clients` has {len(numbers)} clients, but the point has {shown(planned)}: the file is damaged"
    if run.get("valid") is False and not (run.get("budget") or {}).get("reason"):
        return _wrong("budget.reason", (run.get("budget") or {}).get("reason"))
    return None


def _misshaped(place: str, value: Any, shape: Any) -> str | None:
    """Return a description of the first value below a place that does not have the expected shape, or None.

    None is accepted, since a part can be unknown, except for required parts.
    """
    if value is None:
        return None
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return _wrong(place, value)
        below = f"{place}." if place else ""
        required = (n[:-1] for n in shape if n[-1] == "!" or (n[-1] == "+" and n[:-1] in value))
        if name := next((name for name in required if value.get(name) is None), None):
            return _wrong(f"{below}{name}", None)
        named = {n.rstrip("!+"): part for n, part in shape.items()}
        parts = [(f"{below}{n}", v, named.get(n) or named.get("*")) for n, v in value.items()]
        return next((found for part in parts if part[2] and (found := _misshaped(*part))), None)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _wrong(place, value)
        items = [
            _wrong(f"{place}.{n}", v)
            if v is None and isinstance(shape[0], dict)
            else _misshaped(f"{place}.{n}", v, shape[0])
            for n, v in enumerate(value)
        ]
        return next(filter(None, items), None)
    kinds = (int, float) if shape in (NUMBER, AMOUNT) else shape
    wrong = not isinstance(value, kinds) or (isinstance(value, bool) and shape is not bool)
    return _wrong(place, value) if wrong or (shape in (COUNT, AMOUNT) and value < 0) else None


def _problem(place: str, data: Any) -> str | None:
    """Return a description of the first wrong value below a place, such as `clients.0.start_ns`, or None."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for name, value in items:
        if isinstance(value, dict | list):
            if found := _problem(f"{place}{name}.", value):
                return found
        elif isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
            return _wrong(f"{place}{name}", value)
        elif isinstance(name, str) and name.endswith(UNITS) and value is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or (value < 0 and name.endswith("_ns") and name not in SIGNED):
                return _wrong(f"{place}{name}", value)
    return None


def _wrong(place: str, value: Any) -> str:
    return f"`{place}` cannot be {shown(value, 40)}: the file is damaged"
