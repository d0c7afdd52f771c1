"""Check that the values of a `run.json` are possible.

Checksums do not show impossible values if a record was edited and its checksums were made again.
"""

from collections.abc import Mapping
from typing import Any

from storelab.core.errors import shown

LARGEST = 2**63 - 1  # maximum of the integers of a record, which tables store as int64
UNITS = ("_ns", "_s", "bytes")  # endings of the names of quantities
SIGNED = ("clock_offset_ns", "lateness_ns")  # times that can be negative
DESCRIPTIONS = ("environment", "store")  # parts with names from outside storelab
CHILDREN = {"clients": list, "host": dict, "engine": dict, "files": dict}
TIMES = ("start_ns", "deadline_ns")


def problem(run: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the values of a run, or None."""
    for name, kind in CHILDREN.items():
        if not isinstance(run.get(name, kind()), kind):
            return _wrong(name, run[name])
    for number, client in enumerate(run.get("clients", ())):
        if not isinstance(client, dict):
            return _wrong(f"clients.{number}", client)
    times = {name: run[name] for name in TIMES if name in run}
    fixed = run["point"].get("fixed") or {}
    times |= {f"point.fixed.{name}": value for name, value in fixed.items() if name.endswith("_ns")}
    for name, value in times.items():
        if type(value) is not int:
            return _wrong(name, value)
    if run.get("start_ns", 0) > run.get("deadline_ns", LARGEST):
        return "`start_ns` is later than `deadline_ns`: the file is damaged"
    return _problem("", {name: value for name, value in run.items() if name not in DESCRIPTIONS})


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
