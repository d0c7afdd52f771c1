"""Single numbers and facts for the paper's text: `numbers.csv` and `environment.csv`.

Every number quoted in the text is a row with its source. The templates of the paper refer to it by its name.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import published, windows
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics import knees, medians, steadiness
from storelab.analysis.tables import NUMBERS, latency, throughput
from storelab.core import units

DEFINITIONS = "the definitions"  # the source of constants
COUNTED = ("throughput", "latency", "sparse", "events", "roles", "releases", "launches")  # have numbers of runs (`n`)


def _definitions() -> list[tuple[str, Any, str]]:
    """Return the constants of definitions, so that the paper's method section always agrees with the code."""
    return [
        ("rate_few", groups.FEW, ""),
        ("rate_shares_from", windows.SHARES_FROM, ""),
        ("steadiness_slices", windows.SLICES, ""),
        ("steadiness_shortest", windows.SHORTEST_S, "s"),
        ("steadiness_fewest", windows.MIN_OPERATIONS, ""),
        ("steadiness_fewest_each", windows.MIN_OPERATIONS_EACH, ""),
        ("steadiness_change", 100 * steadiness.MIN_CHANGE, "%"),
        ("steadiness_confidence", 100 * (1 - steadiness.FALSE), "%"),
        ("steadiness_correlation", steadiness.CORRELATION, ""),
        ("steadiness_still", 100 * steadiness.STILL, "%"),
        ("interval_least", medians.MIN_RUNS, ""),
        ("interval_confidence", "95 %", ""),
        ("noise_percentile", 100 * throughput.PERCENTILE, "%"),
        ("curve_least", knees.MIN_VALUES, ""),
        ("large_object", units.format_size(groups.LARGE), ""),
        *latency.definitions(),
    ]


def numbers(campaign: Campaign, tables: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per number or word that the text can quote: name (letters and '_'), value, unit, source.

    A number that cannot be computed has no row.
    """
    plan = campaign.plan["campaign"]
    facts = {
        "campaign": plan["name"],
        "title": plan["title"] or f"Storage measurements: {plan['name']}",
        "authors": ", ".join(plan["authors"]),
        **{k: plan[k] for k in ("seed", "repetitions")},
    }
    rows = [(name, value, "", "plan.json") for name, value in facts.items()]
    for name, maker in NUMBERS.items():
        rows += [(*row, f"{name}.csv") for row in maker.make(tables)]
    rows += _runs(campaign, tables)
    rows += [(*row, DEFINITIONS) for row in _definitions()]
    rows += [(r["name"], r["value"], r["unit"], r["source"]) for r in published.numbers()]
    return pd.DataFrame(rows, columns=["name", "value", "unit", "source"])


def _runs(campaign: Campaign, tables: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, str]]:
    """Yield the kinds of intervals, the number of runs with known steadiness, and the second stores."""
    counts = {name: {int(n) for n in tables[name]["n"].dropna()} for name in COUNTED if len(tables[name])}
    if text := labels.interval_text(set().union(*counts.values())):
        yield "interval_text", text, "", ", ".join(f"{name}.csv" for name in counts)
    points = tables["points"]
    judged = points.loc[points["state"] == "ok", "steadiness"].isin(
        [*steadiness.UNSTEADY, steadiness.STEADY, steadiness.TOO_SHORT]
    )
    yield "steadiness_judged", int(judged.sum()), "", "points.csv"
    observed = (run.get("observed") or {} for run in campaign.runs.values())
    second = {store["name"] for seen in observed if (store := seen.get("stratum0")) and store.get("name")}
    if only := sorted(second - set(points["store"])):
        yield "second_stores", labels.listed(only), "", "records"


def _flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return the values in nested mappings as pairs (dotted name, value).

    A key that contains dots is separated by a colon. A mapping `packages` becomes one text.
    """
    if name == "packages":
        return [(name, ", ".join(f"{k} {v}" for k, v in sorted(value.items())))]
    if isinstance(value, Mapping):
        names = {k: f"{name}{': ' if '.' in str(k) else '.'}{k}" if name else str(k) for k in value}
        return [pair for k, v in value.items() for pair in _flat(v, names[k])]
    if isinstance(value, list):
        return [(name, ", ".join(map(str, value)))]
    return [(name, value)]


def environment(campaign: Campaign) -> pd.DataFrame:
    """Return the recorded environment: columns group, item, value, and points (number of points with this value)."""
    counts: dict[tuple[str, str, str], int] = {}
    for run in campaign.runs.values():
        store, engine = run.get("store") or {}, run.get("engine") or {}
        parts = {
            f"store {store.get('name', '')}": {k: v for k, v in store.items() if k != "name"},
            f"engine {engine.get('name', '')}": {
                k: engine.get(k) for k in ("version", "settings", "requests_per_operation")
            },
            "environment": run.get("environment") or {},
            "clients": {"hosts": len({c.get("host") for c in run["clients"]})},
            "checks": {c["name"]: "passed" if c["ok"] else "failed" for c in run.get("checks") or []},
        }
        for group, values in parts.items():
            for item, value in _flat(values):
                triple = (group, item, "" if value is None else str(value))
                counts[triple] = counts.get(triple, 0) + 1
    rows = [(*triple, n) for triple, n in sorted(counts.items())]
    return pd.DataFrame(rows, columns=["group", "item", "value", "points"])
