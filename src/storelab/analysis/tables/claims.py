"""`claims.csv`: the findings of 2010-2015, and a campaign's own claims, judged on what was measured.

docs/claims.md explains it; `records/claims.yaml` holds the findings, `statistics/judging.py` the rules.

A claim is judged on `Runs`: one row per run of a table that has medians over runs, else its counts. A case is a store
with all its axes fixed, but for `along`, the columns `apart`, and those of which the claim takes the least or the most
(at each value of `along`, so that clients that rise with the front-ends go with them): its runs differ in nothing but
what the claim compares. A claim about the file compares runs of all stores. Runs of open loops are left out: their rate
is that of the arrivals. Many claims are judged at once: p values are corrected for all cases of a campaign that have
one (`statistics/ratios.py`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import published
from storelab.analysis.records.selection import matching, taken
from storelab.analysis.statistics import judging, ratios
from storelab.analysis.statistics.judging import CANNOT_TELL, CONFIRMED, NOT_MEASURED, REFUTED, Bound, Found
from storelab.analysis.tables import guarantees, releases, resources, roles
from storelab.analysis.tables.calibration import LINK_FULL
from storelab.analysis.tables.verdicts import BUSY
from storelab.core.axes import BY_COLUMN, DEPLOYMENT_NAMES
from storelab.core.axes.root_files import SCALE
from storelab.core.campaign.claims import (
    BY_SPEED,
    COUNTED,
    EACH,
    EXTREMES,
    LINK_USED,
    MEASURED,
    PART,
    ROOT_FILE,
    TOLD,
    is_named,
)
from storelab.core.figures import EVERYWHERE

# Metrics that a busy client, host or link keeps down.
SPEEDS = ("throughput", "rate", "wire", "reads", "entries", "events", "link_used", "rate_over_before")
PORTS = "ports"
ALL_SYSTEMS = "all systems"
# What would decide a claim, for reasons that no rule has.
OWN_HOSTS = "clients on hosts that the store does not use"
MORE_CLIENTS = "clients that are not at their limit"
FASTER_LINKS = "links with more capacity"
KNOWN_LINKS = "the capacity of the links"


# What was found, in words what was compared, and the value of `along` whose speed decides; None: not measured.
Judged = tuple[Found, str, Any] | None


@dataclass(frozen=True)
class Case:
    """What a rule found of one case. system: the deployment in words; where: what else sets this case apart; evidence:
    what was compared, in words; keys: its points. held_back: what kept a speed down, other than the store, and
    then_decides: what would decide it."""

    system: str
    where: str
    found: Found
    n: int
    evidence: str
    keys: tuple[str, ...]
    held_back: str = ""
    then_decides: str = ""


def bound_of(claim: Mapping[str, Any]) -> Bound:
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
        if not _reached(claim, group):
            continue
        group, found = _below_link(claim, _compared(claim, group))
        found = found or CLAIM_RULES[claim["rule"]](claim, group, column)
        if found is not None:
            held_back, then_decides = _held_back(claim, group, found[2])
            yield Case(
                system=_system(claim, group),
                where=words.settings((c, v) for c, v in at.items()),
                found=found[0],
                n=_runs(group),
                evidence=found[1],
                keys=tuple(dict.fromkeys(group["key"])) if "key" in group else (),
                held_back=held_back,
                then_decides=then_decides,
            )


def _reached(claim: Mapping[str, Any], group: pd.DataFrame) -> bool:
    """Return True if the values of `along` go as far as the claim asks for."""
    least = claim.get("reach", {}).get(claim["along"])
    return least is None or bool(group[claim["along"]].astype(float).max() >= least)


def _compared(claim: Mapping[str, Any], group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at the values of `along` that a ratio or an order compares."""
    if claim["rule"] not in ("ratio", "order") or set(claim["values"]) & {*BY_SPEED}:
        return group
    picked = _picked(claim, dict.fromkeys(group[claim["along"]].unique(), ()))
    return group if None in picked else group[group[claim["along"]].isin(picked)]


def _below_link(claim: Mapping[str, Any], group: pd.DataFrame) -> tuple[pd.DataFrame, Judged]:
    """Return the rows at values of `along` that do not use more of their links than the claim allows; and, where these
    are too few to judge by, a finding that says so."""
    limit, along = claim.get("below_link"), claim["along"]
    if limit is None or LINK_USED not in group or group[LINK_USED].isna().all():
        return group, None
    used = group.groupby(along)[LINK_USED].median()
    full = used.index[used.fillna(0) > limit]
    if len(used) - len(full) > 1 or len(used) < 2:
        return group[~group[along].isin(full)], None
    said = f"{len(full)} of {len(used)} numbers of {words.heading(along).lower()}"
    said += f" used more than {limit:g} % of the links' capacity"
    return group, (Found(reason=said, lacks=FASTER_LINKS), _used(group), None)


def _used(group: pd.DataFrame) -> str:
    """Return in words how much of its links a group of runs used: `97 % of 2 × 300 Mbit/s`."""
    used = words.number(float(group[LINK_USED].astype(float).median()))
    links = group["link_each"].dropna() if "link_each" in group else ()
    return f"{used} % of {links.iloc[0] if len(links) else 'the links'}"


def _runs(group: pd.DataFrame) -> int:
    """How many runs the rows are, or were counted in."""
    if "key" in group:  # roles, front-ends: several rows of one run
        return int(group["key"].nunique())
    counted = [c for c in ("runs", "n") if c in group]
    return int(group[counted[0]].max()) if counted else len(group)


def column_of(claim: Mapping[str, Any]) -> str:
    """The column of a run that is compared."""
    if claim["rule"] == "answer":
        return "answer"
    return claim["metric"] if claim["rule"] == "count" else MEASURED[claim["table"]][claim["metric"]]


def _chosen(claim: Mapping[str, Any], rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows that count: what `where` says, only known values; the least and the most last, at each value of
    `along`."""
    where, along = claim["where"], claim["along"]
    if column == LINK_USED and column not in rows:
        rows = rows.assign(**{column: np.nan})  # it was measured, and the link is not known
    if column not in rows or (along and along not in rows):
        return rows.iloc[:0]
    kept = matching(rows, {c: v for c, v in where.items() if v not in EXTREMES})
    kept &= matching(rows, {c: f">= {v}" for c, v in claim.get("reach", {}).items() if c != along})
    for known in filter(None, (column if column != LINK_USED else "", along)):
        kept &= rows[known].notna().to_numpy(bool)
    if claim["rule"] == "ratio" and not any(v in EXTREMES or is_named(v) for v in claim["values"]):
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
    """The rows, and the columns that set cases apart: store, workload, axes and further columns of the table.
    Counts of a system add up. An axis that only one of the compared sides has (uploads have no `access`) sets none
    apart, and has its default."""
    along = claim["along"]
    if claim["rule"] == "count":
        return rows, [c for c in ("store", *DEPLOYMENT_NAMES) if c in rows]
    free = {along, *claim["apart"], *(c for c, v in claim["where"].items() if v in EXTREMES)}
    if claim.get("about") == ROOT_FILE:
        free |= {"store", *DEPLOYMENT_NAMES}
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
    """Columns of the identity that vary and are not part of a deployment's name."""
    apart = ("store", *DEPLOYMENT_NAMES)
    return [c for c in by if c not in apart and rows[c].nunique(dropna=False) > 1]


def _system(claim: Mapping[str, Any], group: pd.DataFrame) -> str:
    if claim["along"] == "store":
        return ALL_SYSTEMS
    first = group.iloc[0]
    if claim.get("about") == ROOT_FILE:
        return words.value_text(SCALE.column, first.get(SCALE.column)) or "the file"
    return words.deployment({c: v for c, v in first.items() if c not in (claim["along"], *claim["apart"])})


def _held_back(claim: Mapping[str, Any], group: pd.DataFrame, top: Any) -> tuple[str, str]:
    """Return what kept the speed down at this value of `along`, other than the store (the client, the links, or the
    host that clients and store share), and what would decide the claim; empty where nothing did. Of a shape, which may
    be the client's own, only the host and unknown links count."""
    side = group[group[claim["along"]] == top] if top is not None else group
    if claim["metric"] == PORTS and _shared(side).any():
        return "over loopback a port is free again after a second", OWN_HOSTS
    if claim["metric"] not in SPEEDS:
        return "", ""
    if claim["rule"] != "shape":
        if "bound_by" in side and (by := side["bound_by"].dropna().unique()).size:
            return f"the {by[0]} was near its limit", MORE_CLIENTS if by[0] != "link" else FASTER_LINKS
        if LINK_USED in side and side[LINK_USED].astype(float).median() >= LINK_FULL:
            return f"the links were full ({_used(side)})", FASTER_LINKS
    if "host_cpu_percent" in side:
        busy = side.loc[_shared(side), "host_cpu_percent"].astype("Float64").median()
        if not pd.isna(busy) and busy >= BUSY:
            return f"the host that clients and store share was {busy:.0f} % busy", OWN_HOSTS
    if claim.get("below_link") is not None and (LINK_USED not in side or side[LINK_USED].isna().all()):
        return _unknown_link(side)
    return "", ""


def _shared(rows: pd.DataFrame) -> pd.Series:
    """Return which runs had clients and store on one host."""
    return rows.get("shared_host", pd.Series(False, rows.index)).fillna(False).astype(bool)


def _unknown_link(rows: pd.DataFrame) -> tuple[str, str]:
    """Return why runs have no known link, and what would decide a claim about it."""
    if _shared(rows).all():
        return "clients and store share a host, and no link between them is known", OWN_HOSTS
    return "the capacity of the links is not known", KNOWN_LINKS


def _sides(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> dict[Any, list[float]]:
    """Value of `along` -> values of its runs, in order of the values."""
    sorted_ = group.sort_values(claim["along"], kind="stable")
    return {v: list(own[column].astype(float)) for v, own in sorted_.groupby(claim["along"], sort=False)}


def _medians(claim: Mapping[str, Any], sides: Mapping[Any, list[float]], unit: str) -> str:
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
    return judging.slope(x, y, bound_of(claim)), _medians(claim, sides, unit_of(claim)), max(sides)


def _picked(claim: Mapping[str, Any], sides: Mapping[Any, list[float]]) -> list[Any]:
    """The values of `along` that the claim names, None where one was not measured."""
    by_speed = sorted(sides, key=lambda v: float(pd.Series(sides[v]).median()))
    named = {"least": min(sides), "most": max(sides)} | dict(zip(BY_SPEED, (by_speed[0], by_speed[-1]), strict=True))
    if claim["values"] == [EACH]:
        return list(sides)
    for part in filter(None, (PART.fullmatch(v) for v in claim["values"] if isinstance(v, str))):
        whole = max((v for v in sides if v / int(part[1]) in sides), default=None)
        named |= {"most": whole, part[0]: None if whole is None else whole / int(part[1])}
    picked = [named.get(v, v) if isinstance(v, str) and v not in sides else v for v in claim["values"]]
    return [v if v in sides else None for v in picked]


def _ratio(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    base, over = _picked(claim, sides)
    if base is None or over is None or base == over:
        return None
    chosen = len(list(combinations(sides, 2))) if set(claim["values"]) & set(BY_SPEED) else 1
    said = _medians(claim, {v: sides[v] for v in (base, over)}, unit_of(claim))
    return judging.ratio(sides[base], sides[over], bound_of(claim), chosen), said, over


def _level(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    values = group[column].astype(float)
    if column == LINK_USED and values.isna().all():
        reason, lacks = _unknown_link(group)
        return Found(reason=reason, lacks=lacks), "", None
    if not claim["along"]:
        said = f"median of {words.plural(len(group), 'run')}{_clusters(claim, group)}"
        return judging.level(values, bound_of(claim)), said, None
    per = group[claim["along"]].astype(float)
    said = f"median of {words.plural(len(group), 'run')}, per one of {_value(claim['along'], per.max())}"
    return judging.level(values / per, bound_of(claim)), said, per.max()


def _clusters(claim: Mapping[str, Any], group: pd.DataFrame) -> str:
    """Return in words which part of the file a read takes: `; 12 of 11 918 entries in 10 of 23 clusters`."""
    pairs = (("entries_per_read", "file_entries"), ("clusters_per_read", "file_clusters"))
    if claim.get("about") != ROOT_FILE or not {c for pair in pairs for c in pair} <= set(group):
        return ""
    said = (" of ".join(words.number(float(group[c].median())) for c in pair) for pair in pairs)
    return "; {} entries in {} clusters".format(*said)


def _count(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    tries = [c for c in COUNTED[claim["table"]][claim["metric"]] if c in group]
    runs = group["key"].nunique() if "key" in group else len(group)
    tried = int(group[tries].astype(float).sum().sum()) if tries else runs
    happened = round(group[column].astype(float).sum())
    noun = ("try", "tries") if tries else ("run", "runs")
    said = f"{words.grouped(str(tried))} {noun[tried != 1]}"
    found = judging.count(happened, max(tried, happened), bound_of(claim), claim["enough"])
    found = found if tries else replace(found, low=math.nan, high=math.nan)  # one run may hold several
    return found, f"{words.grouped(str(happened))} in {said}", None


def _order(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    picked = _picked(claim, sides)
    if None in picked or len(picked) < 2:
        return None
    said = _medians(claim, {v: sides[v] for v in picked}, unit_of(claim))
    return judging.order([sides[v] for v in picked]), said, picked[-1]


def _shape(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    if len(sides) < 3:
        return None
    x, y = group[claim["along"]].astype(float), group[column].astype(float)
    if not (y > 0).all():
        return None
    return judging.shape(x, y, claim["shapes"]), _medians(claim, sides, unit_of(claim)), max(sides)


def _answer(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    several = claim["along"] == "store"
    if several:
        group = groups.labelled(group)
        given = {r.deployment: r.answer for r in group.itertuples()}
    else:
        given = {str(r.check): r.answer for r in group.itertuples()}
    if all(said in guarantees.WEAK for said in given.values()):
        return None
    return judging.answers(given, claim["answers"], several), "", None


CLAIM_RULES: dict[str, Callable[[Mapping[str, Any], pd.DataFrame, str], Judged]] = {
    "slope": _slope,
    "ratio": _ratio,
    "level": _level,
    "count": _count,
    "order": _order,
    "shape": _shape,
    "answer": _answer,
}


def asked(claim: Mapping[str, Any]) -> str:
    """The query in one line, for users: `throughput.csv: workload put, clients most; rate along buckets`."""
    said = [f"{c} {_plain(v)}" for c, v in claim["where"].items()]
    said += [f"{c} at least {_plain(v)}" for c, v in claim.get("reach", {}).items()]
    if (limit := claim.get("below_link")) is not None:
        said.append(f"at most {limit:g} % of the links' capacity used")
    what = claim["metric"] or "answer"
    along = f" {'per' if claim['rule'] == 'level' else 'along'} {claim['along']}" if claim["along"] else ""
    return f"{claim['table']}.csv: {', '.join(said) or 'all rows'}; {what}{along}"


def expected(claim: Mapping[str, Any]) -> str:
    """The rule in one line, for users: `ratio of 5 over 1 at least 1.54`."""
    of = bound_of(claim)
    limit = f"at {'most' if of.most else 'least'} {of.at:g}"
    steps = [str(v) if v in EXTREMES or is_named(v) else _value(claim["along"], v) for v in claim["values"]]
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


BESIDE = (  # that verdicts look at
    *("key", "answer", "runs", "n", "bound_by", "shared_host", "host_cpu_percent", LINK_USED, "link_each"),
    *("entries_per_read", "clusters_per_read", "file_entries", "file_clusters"),
)


class Runs(dict[str, pd.DataFrame]):
    """Table -> its rows for claims: one per valid run with the columns of `MEASURED`, or the counted groups. Each is
    made when it is first asked for."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self._make: dict[str, Callable[[], pd.DataFrame]] = {
            "throughput": lambda: tables["rated"][tables["rated"]["state"] == "ok"].assign(
                throughput_mb_per_s=lambda runs: runs["overlap_throughput_mb_per_s"],
                rate_per_s=lambda runs: runs["overlap_rate_per_s"],
            ),
            "sparse": lambda: _with_clusters(tables["read_runs"]),
            "events": lambda: tables["step_runs"],
            "latency": lambda: tables["latency_runs"],
            "traffic": lambda: _even(tables["traffic_runs"]),
            "resources": lambda: tables["used"],
            "space": lambda: resources.space_runs(tables["campaign"], tables["plain"]),
            "roles": lambda: roles.with_points(tables["role_phases"], tables["points"], tables["roles_by"]),
            "releases": lambda: releases.with_published(tables["release_days"], tables["plain"]),
            "recovery": lambda: roles.with_points(tables["recoveries"], tables["points"], tables["roles_by"]),
        }
        self._tables = tables

    def __missing__(self, name: str) -> pd.DataFrame:
        made = self._make[name]() if name in self._make else self._tables[name]
        known = _known(name)  # the rows of a run have some hundred other columns
        rows = made[[c for c in made if c in known or words.of_role(c)[1] in BY_COLUMN]]
        rows = rows if name == "latency" else groups.closed_loops(rows)  # latencies name the loop
        # An axis that no row has sets none apart.
        self[name] = rows[[c for c in rows if c in known or rows[c].notna().any()]]
        return self[name]


@cache
def _known(table: str) -> frozenset[str]:
    """Columns that a claim may ask for, axes aside."""
    counted = COUNTED.get(table, {})
    own = {*MEASURED.get(table, {}).values(), *counted, *(c for tries in counted.values() for c in tries)}
    return frozenset({*EVERYWHERE, *TOLD.get(table, ()), *own, *BESIDE})


def _with_clusters(reads: pd.DataFrame) -> pd.DataFrame:
    """Return the reads with the clusters that each takes (baskets per branch, see `earlier.table2`), and the entries
    and clusters of the file: those of a read of all of it."""
    if reads.empty:
        return reads
    branches = reads["branches_per_read"].where(reads["branches_per_read"] > 0)
    made = reads.assign(clusters_per_read=reads["baskets_per_read"] / branches)
    of_file = made.groupby(made.get(SCALE.column, pd.Series("", index=made.index)), dropna=False)
    most = of_file[["entries_per_read", "clusters_per_read"]].transform("max")
    return made.assign(file_entries=most["entries_per_read"], file_clusters=most["clusters_per_read"])


def _even(carried: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run whose front-ends were given to as many clients each, if what they carried is known from
    counters, or from enough operations."""
    return resources.evenly_given(resources.enough(carried), ["key"]).drop_duplicates("key")


COLUMNS = (
    "claim",
    "says",
    "source",
    "published",
    "published_unit",
    "system",
    "verdict",
    "value",
    "low",
    "high",
    "unit",
    "expected",
    "p",
    "verdict_alone",
    "evidence",
    "reason",
    "would_decide",
    "n",
    "cases",
    "confirmed",
    "refuted",
    "query",
    "points",
    "campaigns",
)
NARROWER_CLAIM = "a claim about one of them"  # would decide a claim whose cases contradict each other


def table(plan: Mapping[str, Any], tables: Mapping[str, Any]) -> pd.DataFrame:
    """`judged` of the campaign's own claims and the findings, on what the campaign measured."""
    return judged(published.claims_of(plan), Runs(tables))


def judged(claims: Mapping[str, Mapping[str, Any]], runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per claim and system that measured it, one per claim that was not measured, in the order of the claims.

    claims: as of `core.campaign.claims.resolved`; runs: table -> its rows. Of the cases of a row (`cases`), `confirmed`
    and `refuted` count; the row is what all of them say that say anything, `cannot tell` where they contradict each
    other. value, low, high, evidence, n, points: of the case that is least in favour of this verdict. p: of that case,
    two-sided, corrected for all cases; verdict_alone: what it would say by itself.
    """
    found = [(name, case) for name, claim in claims.items() for case in cases(claim, runs)]
    corrected = ratios.corrected([case.found.p for _, case in found])
    rows = []
    for name, claim in claims.items():
        own = [(case, p) for (of, case), p in zip(found, corrected, strict=True) if of == name]
        systems = list(dict.fromkeys(case.system for case, _ in own))
        rows += [_row(name, claim, [pair for pair in own if pair[0].system == s]) for s in systems]
        rows += [] if own else [_head(name, claim) | {"verdict": NOT_MEASURED}]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(dict.fromkeys(("n", "cases", "confirmed", "refuted"), "Int64"))


def _head(name: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    value, unit = published.printed_number(claim["published"])
    return {
        "claim": name,
        "says": claim["says"],
        "source": claim["source"],
        "published": value,
        "published_unit": unit or None,
        "expected": expected(claim),
        "query": asked(claim),
        "campaigns": ", ".join(claim["campaigns"]) or None,
    }


def _row(name: str, claim: Mapping[str, Any], own: Sequence[tuple[Case, float]]) -> dict[str, Any]:
    bound = bound_of(claim)
    said = [_said(claim, case, p) for case, p in own]
    confirmed, refuted = said.count(CONFIRMED), said.count(REFUTED)
    verdict = CONFIRMED if confirmed and not refuted else REFUTED if refuted and not confirmed else CANNOT_TELL
    # The one least in favour of the verdict: nearest to the bound, or on its other side.
    sign = (-1 if bound.most else 1) * (-1 if verdict == REFUTED else 1)
    shown = [i for i, word in enumerate(said) if word == verdict] or [*range(len(own))]
    least = min(shown, key=lambda i: sign * own[i][0].found.value if math.isfinite(own[i][0].found.value) else math.inf)
    case, p = own[least]
    reason, decides = case.found.reason, ""
    if confirmed and refuted:
        reason, decides = f"{confirmed} of {len(own)} cases confirm it, {refuted} refute it", NARROWER_CLAIM
    elif said[least] == CANNOT_TELL:
        chance = "the interval holds the bound" if case.found.p >= 0.05 else "not beyond chance among so many claims"
        reason, decides = reason or chance, case.found.lacks or judging.NARROWER
        if case.held_back and _low(claim) in (judging.verdict(case.found, bound, p), _side(case, bound)):
            reason, decides = case.held_back, case.then_decides
    return _head(name, claim) | {
        "system": case.system,
        "verdict": verdict,
        "value": case.found.value,
        "low": case.found.low,
        "high": case.found.high,
        "unit": _unit(claim, case.found.value),
        "p": p,
        "verdict_alone": judging.verdict(case.found, bound, case.found.p),
        "evidence": ": ".join(filter(None, (case.where, case.evidence))) or None,
        "reason": reason or None,
        "would_decide": decides or None,
        "n": case.n,
        "cases": len(own),
        "confirmed": confirmed,
        "refuted": refuted,
        "points": " ".join(case.keys) or None,
    }


def _said(claim: Mapping[str, Any], case: Case, p: float) -> str:
    """The verdict on one case. A speed that something else than the store kept down is not held against the claim, nor
    for it where the claim says that it is low."""
    verdict = judging.verdict(case.found, bound_of(claim), p)
    return CANNOT_TELL if case.held_back and verdict == _low(claim) else verdict


def _low(claim: Mapping[str, Any]) -> str:
    """The verdict that a speed gives which something kept down."""
    return CONFIRMED if bound_of(claim).most or claim["rule"] == "shape" else REFUTED


def _side(case: Case, bound: Bound) -> str | None:
    """The verdict on whose side the number is, sure or not; None where there is none."""
    if not math.isfinite(case.found.value):
        return None
    return CONFIRMED if bound.met(case.found.value) else REFUTED


def _unit(claim: Mapping[str, Any], value: float) -> str | None:
    if claim["rule"] == "level":
        return unit_of(claim) or None
    answers = ("system" if claim["along"] else "answer") + ("" if value == 1 else "s")
    said = {"shape": claim["along"], "count": claim["metric"], "answer": answers}
    return said[claim["rule"]].replace("_", " ") if claim["rule"] in said else None


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """How many claims there are, and how often (claims times systems) each verdict was given."""
    counts = found["verdict"].value_counts()
    return [("claims", found["claim"].nunique(), "")] + [
        (f"claims_{name}", int(counts.get(verdict, 0)), "")
        for name, verdict in (
            ("confirmed", CONFIRMED),
            ("refuted", REFUTED),
            ("cannot_tell", CANNOT_TELL),
            ("not_measured", NOT_MEASURED),
        )
    ]
