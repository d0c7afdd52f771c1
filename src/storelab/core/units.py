"""Convert between integers and values with units: `100 MB`, `4 kB`, `1 MiB`, `10 s`, `1 Gbit/s`.

MB is 10^6 bytes, and MiB is 2^20 bytes (IEC 80000-13). Sizes are in bytes, durations in ns, and rates in bytes/s.
"""

import re
from decimal import Context, Decimal
from typing import Any

from storelab.core.errors import UserError, shown

SIZE = (
    {"B": 1}
    | {f"{p}B": 1000**i for i, p in enumerate("kMGTP", 1)}
    | {f"{p}iB": 1024**i for i, p in enumerate("KMGTP", 1)}
)
DURATION = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
RATE = {f"{u}/s": f for u, f in SIZE.items()} | {
    f"{p}bit/s": Decimal(1000**i) / 8 for i, p in enumerate(["", "k", "M", "G", "T"])
}
KINDS = {
    "size": (SIZE, "100 MB, 4 kB or 1 MiB"),
    "duration": (DURATION, "10 s, 500 ms or 2 min"),
    "rate": (RATE, "1 Gbit/s or 100 MB/s"),
}
_NUMBER = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z/]+)\s*\Z")
_EXACT = Context(prec=100)
MAX_VALUE = 10**24  # larger than any realistic value; axes and keys have lower limits


def parse(value: Any, kind: str, place: str) -> int:
    """Return `value`, a text with a unit, as an integer: `size` in bytes, `duration` in ns, or `rate` in bytes/s.

    Raises UserError if the unit is missing or unknown. Units are never guessed.
    """
    table, example = KINDS[kind]
    match = _NUMBER.match(value) if isinstance(value, str) else None
    if not match:
        raise UserError(place, f"{shown(value)} is not a {kind} with a unit", f"write it like {example}")
    number, unit = match.groups()
    if unit not in table:
        near = next((u for u in table if u.lower() == unit.lower()), None)
        raise UserError(
            place,
            f"the unit {shown(unit)} of {shown(value)} is unknown",
            f"did you mean {near!r}?" if near else f"write it like {example}",
        )
    exact = _EXACT.multiply(Decimal(number), table[unit])
    if exact >= MAX_VALUE:
        raise UserError(place, f"{shown(value)} is too large", f"write it like {example}")
    if exact != int(exact):
        raise UserError(
            place,
            f"{shown(value)} is not a whole number of {'ns' if kind == 'duration' else 'bytes'}",
            f"write it like {example}",
        )
    return int(exact)


def pattern(kind: str) -> str:
    """Return a regular expression for the texts that `parse` accepts for this kind, in the dialect of JSON Schema."""
    number = r"[0-9]{1,30}(\.[0-9]{1,30})?"
    return rf"^\s*{number}\s*({'|'.join(map(re.escape, KINDS[kind][0]))})\s*$"


def format_size(n: int) -> str:
    """Return the exact size in the largest unit that divides it. Decimal units are tried first.

    For example, 4000 gives `4 kB` and 4096 gives `4 KiB`.
    """
    for table in (("PB", "TB", "GB", "MB", "kB"), ("TiB", "GiB", "MiB", "KiB")):
        for unit in table:
            if n and n % SIZE[unit] == 0:
                return f"{n // SIZE[unit]} {unit}"
    return f"{n} B"


def human_size(n: float) -> str:
    """Return a rounded size for display, such as `1.2 GB`."""
    for unit in ("PB", "TB", "GB", "MB", "kB"):
        if abs(n) >= SIZE[unit]:
            return f"{n / SIZE[unit]:.3g} {unit}"
    return f"{n:.0f} B"


def human_duration(ns: float) -> str:
    """Return a rounded duration for display, such as `3 min 20 s` or `1 h 05 min`."""
    s = ns / 1e9
    if s < 59.5:
        return f"{s:.1f} s" if s < 10 else f"{s:.0f} s"
    minutes, seconds = divmod(round(s), 60)
    return f"{minutes} min {seconds:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
