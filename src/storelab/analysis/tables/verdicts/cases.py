"""Cases of a claim: the runs that it compares, which differ in nothing but what it compares. May import: what `tables`
may.

A case is a store with all its axes fixed, but for `along`, the columns `apart`, and those of which the claim takes the
least or the most (at each value of `along`, so that clients that rise with the front-ends go with them). Runs of open
loops are left out: their rate is that of the arrivals.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records.rows import matching, taken
from storelab.analysis.statistics import judging
from storelab.analysis.statistics.judging import Bound, Found
from storelab.analysis.tables.systems import capabilities
from storelab.core.axes import BY_COLUMN, DEPLOYMENT_NAMES
from storelab.core.campaign.claims import BY_SPEED, COUNTED, EXTREMES, MEASURED, TOLD

SPEEDS = ("throughput", "rate", "wire", "reads", "entries", "events")  # metrics that a busy client or host keeps down
BUSY = 90.0  # percent of a host that clients and store share: beyond it, more of anything brings nothing
ALL_SYSTEMS = "all systems"


@dataclass(frozen=True)
class Case:
    """What a rule found of one case. system: the deployment in words; where: what else tells this case from others;
    evidence: what was compared, in words; keys: the points that it rests on."""

    system: str
    where: str
    found: Found
    n: int
    evidence: str
    keys: tuple[str, ...]
    held_back: str = ""


def bound(claim: Mapping[str, Any]) -> Bound:
    """The claim's bound; 1 for rules without one."""
    if claim["at_most"] is not None:
        return Bound(claim["at_most"], most=True)
    return Bound(1.0 if claim["at_least"] is None else claim["at_least"])


def cases(claim: Mapping[str, Any], runs: Mapping[str, pd.DataFrame]) -> Iterator[Case]:
    """The cases that were measured, each judged by the claim's rule."""
    column = column_of(claim)
    rows = _chosen(claim, runs[claim["table"]], column)
    if rows.empty:
        return
    rows, by = _identified(claim, rows)
    told = _words(rows, by)
    for place, group in groups.grouped(rows, by) if by else [({}, rows)]:
        if not len(group):
            continue
        at = {c: v for c, v in place.items() if c in told}
        found = RULES[claim["rule"]](claim, group, column)
        if found is not None:
            yield Case(
                system=_system(claim, group),
                where=words.settings((c, v) for c, v in at.items()),
                found=found[0],
                n=_runs(group),
                evidence=found[1],
                keys=tuple(dict.fromkeys(group["key"])) if "key" in group else (),
                held_back=_held_back(claim, group, found[2]),
            )


def _runs(group: pd.DataFrame) -> int:
    """How many runs the rows are, or were counted in."""
    counted = [c for c in ("runs", "n") if c in group and "key" not in group]
    return int(group[counted[0]].max()) if counted else len(group)


def column_of(claim: Mapping[str, Any]) -> str:
    """The column of a run that is compared."""
    if claim["rule"] == "answer":
        return "answer"
    return claim["metric"] if claim["rule"] == "count" else MEASURED[claim["table"]][claim["metric"]]


def _chosen(claim: Mapping[str, Any], rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows that count: what `where` says, known values alone; the least and the most last, at each value of
    `along`."""
    where, along = claim["where"], claim["along"]
    if column not in rows or (along and along not in rows):
        return rows.iloc[:0]
    kept = matching(rows, {c: v for c, v in where.items() if v not in EXTREMES})
    for known in filter(None, (column, along)):
        kept &= rows[known].notna().to_numpy(bool)
    if claim["rule"] == "ratio" and not any(v in (*EXTREMES, *BY_SPEED) for v in claim["values"]):
        kept &= rows[along].isin(claim["values"]).fillna(False).to_numpy(bool)
    rows = taken(rows, kept)  # once: a table of runs is wide
    for name, which in ((c, v) for c, v in where.items() if v in EXTREMES):
        if name not in rows or rows.empty:
            return rows.iloc[:0]
        place = [c for c in ("store", *DEPLOYMENT_NAMES, "workload", "engine", along) if c in rows and c != name]
        values = rows[name].astype(float)
        rows = rows[
            values
            == values.groupby([rows[c] for c in place], dropna=False).transform("min" if which == "least" else "max")
        ]
    return rows


def _identified(claim: Mapping[str, Any], rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows, and the columns that tell cases apart: store, workload, axes and what the table tells beside them.
    Counts of a system add up. An axis that only one of the compared sides has (uploads have no `access`) tells none
    apart, and stands at its default."""
    along = claim["along"]
    if claim["rule"] == "count":
        return rows, [c for c in ("store", *DEPLOYMENT_NAMES) if c in rows]
    free = {along, *claim["apart"], *(c for c, v in claim["where"].items() if v in EXTREMES)}
    if along == "does":
        free |= {"role", "workload"}
    axes = [c for c in rows if words.of_role(c)[1] in BY_COLUMN]
    columns = [c for c in ("store", "workload", *axes, *TOLD.get(claim["table"], ())) if c in rows and c not in free]
    if not along:
        return rows, columns
    told, side = rows[columns].notna().to_numpy(), pd.factorize(rows[along], use_na_sentinel=False)[0]
    by_side = [told[side == i].any(axis=0) for i in range(side.max() + 1)]
    known = dict(zip(columns, np.all(by_side, axis=0), strict=True))
    usual = np.ones(len(rows), dtype=bool)
    for c in (c for c in columns if not known[c] and c in BY_COLUMN):
        usual &= (rows[c].isna() | (rows[c] == BY_COLUMN[c].default).fillna(False)).to_numpy(bool)
    return rows[usual], [c for c in columns if known[c]]


def _words(rows: pd.DataFrame, by: list[str]) -> list[str]:
    """Columns of the identity that vary and are no part of a deployment's name."""
    apart = ("store", *DEPLOYMENT_NAMES)
    return [c for c in by if c not in apart and rows[c].nunique(dropna=False) > 1]


def _system(claim: Mapping[str, Any], group: pd.DataFrame) -> str:
    if claim["along"] == "store":
        return ALL_SYSTEMS
    first = group.iloc[0]
    return words.deployment({c: v for c, v in first.items() if c not in (claim["along"], *claim["apart"])})


def _held_back(claim: Mapping[str, Any], group: pd.DataFrame, top: Any) -> str:
    """What kept the speed down at this value of `along`, other than the store: the client, its link, or the host that
    clients and store share; empty where nothing did. Of a shape, which may be the client's own, the host alone."""
    if claim["metric"] not in SPEEDS or top is None:
        return ""
    side = group[group[claim["along"]] == top]
    if claim["rule"] != "shape" and "bound_by" in side and (by := side["bound_by"].dropna().unique()).size:
        return f"the {by[0]} was near its limit"
    if {"shared_host", "host_cpu_percent"} <= set(side):
        shared = side["shared_host"].fillna(False).astype(bool)
        busy = side.loc[shared, "host_cpu_percent"].astype("Float64").median()
        if not pd.isna(busy) and busy >= BUSY:
            return f"the host that clients and store share was {busy:.0f} % busy"
    return ""


# What was found, in words what was compared, and the value of `along` whose speed decides; None: not measured.
Judged = tuple[Found, str, Any] | None


def _sides(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> dict[Any, list[float]]:
    """Value of `along` -> values of its runs, in order of the values."""
    sorted_ = group.sort_values(claim["along"], kind="stable")
    return {v: list(own[column].astype(float)) for v, own in sorted_.groupby(claim["along"], sort=False)}


def _said(claim: Mapping[str, Any], sides: Mapping[Any, list[float]], unit: str) -> str:
    """`1 front-end 23.9, 2 front-ends 47.8 MB/s`: medians."""
    parts = [f"{_value(claim['along'], v)} {words.number(pd.Series(own).median())}" for v, own in sides.items()]
    return f"{', '.join(parts)} {unit}".strip()


def _value(along: str, value: Any) -> str:
    plain = words.of_role(along)[1]
    return words.value_text(plain, value) or words.cell(plain, value)


def unit_of(claim: Mapping[str, Any]) -> str:
    """Of the metric, as it reads."""
    column = column_of(claim)
    units = {"mb_per_s": "MB/s", "per_s": "/s", "mb_per_read": "MB", "percent": "%", "bytes_per_event": "bytes"}
    known = {**units, "s_per_read": "s", "ms": "ms", "s": "s", "mb": "MB", "cores": "cores"}
    return next((text for ending, text in known.items() if column.endswith(f"_{ending}")), "")


def _slope(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    if len(sides) < 2:
        return None
    x, y = group[claim["along"]].astype(float), group[column].astype(float)
    return judging.slope(x, y, bound(claim)), _said(claim, sides, unit_of(claim)), max(sides)


def _picked(claim: Mapping[str, Any], sides: Mapping[Any, list[float]]) -> list[Any]:
    """The values of `along` that the claim names, None where one was not measured."""
    by_speed = sorted(sides, key=lambda v: float(pd.Series(sides[v]).median()))
    named = {"least": min(sides), "most": max(sides)} | dict(zip(BY_SPEED, (by_speed[0], by_speed[-1]), strict=True))
    picked = [named.get(v, v) if isinstance(v, str) and v not in sides else v for v in claim["values"]]
    return [v if v in sides else None for v in picked]


def _ratio(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    base, over = _picked(claim, sides)
    if base is None or over is None or base == over:
        return None
    chosen = len(list(combinations(sides, 2))) if set(claim["values"]) & set(BY_SPEED) else 1
    said = _said(claim, {v: sides[v] for v in (base, over)}, unit_of(claim))
    return judging.ratio(sides[base], sides[over], bound(claim), chosen), said, over


def _level(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    values = group[column].astype(float)
    if not claim["along"]:
        return judging.level(values, bound(claim)), f"median of {words.plural(len(group), 'run')}", None
    per = group[claim["along"]].astype(float)
    said = f"median of {words.plural(len(group), 'run')}, per one of {_value(claim['along'], per.max())}"
    return judging.level(values / per, bound(claim)), said, per.max()


def _count(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    tries = [c for c in COUNTED[claim["table"]][claim["metric"]] if c in group]
    tried = int(group[tries].astype(float).sum().sum()) if tries else len(group)
    happened = round(group[column].astype(float).sum())
    said = words.plural(tried, "try" if tries else "run").replace("trys", "tries")
    found = judging.count(happened, max(tried, happened), bound(claim), claim["enough"])
    found = found if tries else replace(found, low=math.nan, high=math.nan)  # one run may hold several
    return found, f"{happened} in {said}", None


def _order(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    picked = _picked(claim, sides)
    if None in picked:
        return None
    said = _said(claim, {v: sides[v] for v in picked}, unit_of(claim))
    return judging.order([sides[v] for v in picked]), said, picked[-1]


def _shape(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    if len(sides) < 3:
        return None
    x, y = group[claim["along"]].astype(float), group[column].astype(float)
    if not (y > 0).all():
        return None
    return judging.shape(x, y, claim["shapes"]), _said(claim, sides, unit_of(claim)), max(sides)


def _answer(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    several = claim["along"] == "store"
    if several:
        group = groups.labelled(group)
        given = {r.deployment: r.answer for r in group.itertuples()}
    else:
        given = {str(r.check): r.answer for r in group.itertuples()}
    if all(said in capabilities.WEAK for said in given.values()):
        return None
    return judging.answers(given, claim["answers"], several), "", None


RULES: dict[str, Callable[[Mapping[str, Any], pd.DataFrame, str], Judged]] = {
    "slope": _slope,
    "ratio": _ratio,
    "level": _level,
    "count": _count,
    "order": _order,
    "shape": _shape,
    "answer": _answer,
}


def asked(claim: Mapping[str, Any]) -> str:
    """The query in one line, for people: `throughput.csv: workload put, clients most; rate along buckets`."""
    said = [f"{c} {_plain(v)}" for c, v in claim["where"].items()]
    what = claim["metric"] or "answer"
    along = f" {'per' if claim['rule'] == 'level' else 'along'} {claim['along']}" if claim["along"] else ""
    return f"{claim['table']}.csv: {', '.join(said) or 'all rows'}; {what}{along}"


def expected(claim: Mapping[str, Any]) -> str:
    """The rule in one line, for people: `ratio of 5 over 1 at least 1.54`."""
    of = bound(claim)
    limit = f"at {'most' if of.most else 'least'} {of.at:g}"
    steps = [str(v) if v in (*EXTREMES, *BY_SPEED) else _value(claim["along"], v) for v in claim["values"]]
    return {
        "slope": f"exponent {limit}",
        "ratio": f"ratio of {steps[-1]} over {steps[0]} {limit}" if steps else "",
        "level": limit,
        "count": limit,
        "order": f"rising: {', '.join(steps)}",
        "shape": " or ".join(claim["shapes"]),
        "answer": " and ".join(claim["answers"]),
    }[claim["rule"]]


def _plain(value: Any) -> str:
    return " or ".join(
        f"{v:g}" if isinstance(v, float) else str(v) for v in (value if isinstance(value, list) else [value])
    )
