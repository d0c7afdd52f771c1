"""Series: points of a sweep in parts, which differ in their part alone (docs/soak.md). Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_PART = re.compile(r"(?<=[/_])part~(\d+)_")


def split(key: str) -> tuple[str, int]:
    """The key of a point without its part, which names its series, and the part; 0 where it is none."""
    name, _, axes = key.rpartition("/")
    found = _PART.search(f"/{axes}")
    return (f"{name}{_PART.sub('', f'/{axes}')}", int(found[1])) if found else (key, 0)


def of(keys: Iterable[str]) -> dict[str, list[str]]:
    """Name of a series -> the keys of its parts, ascending."""
    found: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        name, part = split(key)
        if part:
            found.setdefault(name, []).append((part, key))
    return {name: [key for _, key in sorted(parts)] for name, parts in found.items()}


def lengths_ns(plan: Mapping[str, Any]) -> dict[str, int]:
    """Key of each part -> how long its series is measured in all, as planned."""
    lasts = {p["key"]: p["fixed"]["duration_ns"] for p in plan["points"] if split(p["key"])[1]}
    return {key: sum(lasts[k] for k in keys) for keys in of(lasts).values() for key in keys}
