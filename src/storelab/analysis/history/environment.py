"""What an entry was measured with, and what differs from the entry before: store, engine, packages, kernel, hosts.

From `environment.csv`, which has all that the records tell; and the lengths of the windows, which are no axis.
"""

from collections.abc import Mapping

import pandas as pd

Fact = tuple[str, str]  # group and item: ("store alpha", "version")
LEFT_OUT = ("checks",)  # groups that tell how a run went, not what it ran on
MOST_SAID = 100  # characters of a value
WINDOWS = {"duration_s": "window [s]", "warm_up_s": "warm-up [s]"}


def facts(environment: pd.DataFrame, points: pd.DataFrame) -> dict[Fact, frozenset[str]]:
    """(group, item) -> all values that points had. environment: `environment.csv`; points: `points.csv`."""
    out: dict[Fact, set[str]] = {}
    for row in environment.itertuples(index=False):
        if row.group not in LEFT_OUT:
            for item, value in _parts(str(row.item), "" if pd.isna(row.value) else str(row.value)):
                out.setdefault((str(row.group), item), set()).add(value)
    for column, said in WINDOWS.items():
        out["measuring", said] = {f"{v:g}" for v in points[column].dropna().astype(float)}
    return {fact: frozenset(values) for fact, values in out.items()}


def _parts(item: str, value: str) -> list[tuple[str, str]]:
    """Packages one by one: `boto3 1.43, s3fs 2026.9` is one text in the table."""
    if item != "packages":
        return [(item, value)]
    return [(name, version) for name, _, version in (p.partition(" ") for p in value.split(", ") if p)]


def of_store(known: Mapping[Fact, frozenset[str]], store: str) -> dict[Fact, frozenset[str]]:
    """Without what is told of other stores."""
    return {f: v for f, v in known.items() if not f[0].startswith("store ") or f[0] == f"store {store}"}


def differences(before: Mapping[Fact, frozenset[str]], after: Mapping[Fact, frozenset[str]]) -> list[str]:
    """What changed, one line each: `store alpha: version 4.47 -> 4.48`."""
    groups = [{g for g, _ in known} for known in (before, after)]
    out = [f"{group}: is new" for group in sorted(groups[1] - groups[0])]
    out += [f"{group}: is gone" for group in sorted(groups[0] - groups[1])]
    for group, item in sorted({*before, *after}):
        if all(group in known for known in groups):
            was, now = before.get((group, item)), after.get((group, item))
            if was != now:
                out.append(f"{group}: {item} {_said(was)} -> {_said(now)}")
    return out


def _said(values: frozenset[str] | None) -> str:
    if values is None:
        return "(not recorded)"
    text = ", ".join(sorted(v or "(none)" for v in values))
    return text if len(text) <= MOST_SAID else f"{text[: MOST_SAID - 1]}…"
