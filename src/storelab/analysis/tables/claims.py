"""`claims.csv`: the findings of 2010-2015, and the claims in a campaign's plan, judged by the measured data.

See docs/claims.md. `records/claims.yaml` contains the findings, `statistics/judging.py` the rules.

A claim is judged by `Runs`: one row per run for a table that has medians over runs, else the counts of the table. A
case consists of runs of one store that differ only in what the claim compares. All other axes have one value, with
three exceptions: the axis `along`, the columns `may_differ`, and axes of which the claim uses the smallest or largest
value. This value is selected at each value of `along`, so that, for example, the number of clients can increase with
the front-ends. A claim about the file compares runs of all stores. Runs of open loops are excluded, because their rate
is the rate of the arrivals. Many claims are judged at the same time. Therefore, p values are corrected for the number
of all cases of a campaign that have a p value (`statistics/ratios.py`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import published
from storelab.analysis.records.links import FRONT_ENDS
from storelab.analysis.records.selection import filter_rows, matching
from storelab.analysis.statistics import judging, ratios
from storelab.analysis.statistics.judging import CONFIRMED, NOT_MEASURED, REFUTED, UNDECIDED, Bound, Found
from storelab.analysis.tables import guarantees, releases, resources, roles
from storelab.analysis.tables.calibration import LINK_FULL
from storelab.analysis.tables.verdicts import BUSY
from storelab.core.axes import BY_COLUMN, DEPLOYMENT_NAMES, transfers
from storelab.core.axes.root_files import FILE_SIZE
from storelab.core.campaign.claims import (
    BY_SPEED,
    COUNTED,
    EACH,
    EXTREMES,
    LINK_DEMAND,
    LINK_USED,
    MEASURED,
    PART,
    ROOT_FILE,
    TABLE_COLUMNS,
    is_named,
)
from storelab.core.figures import EVERYWHERE

# Metrics that a busy client, host or link limits.
SPEEDS = ("throughput", "rate", "wire", "reads", "entries", "events", "link_used", "rate_over_before")
PORTS = "ports"
ALL_SYSTEMS = "all systems"
# Data that would decide a claim if another limit than the store prevents a decision.
SEPARATE_HOSTS = "clients on hosts that the store does not use"
MORE_CLIENTS = "clients that are not at their limit"
FASTER_LINKS = "links with more capacity"
KNOWN_LINKS = "the capacity of the links"


# The result of a rule, the comparison in words, and the value of `along` whose speed is decisive; None: not measured.
Judged = tuple[Found, str, Any] | None


@dataclass(frozen=True)
class Case:
    """The result of a rule for one case.

    system: the deployment in words; where: the other settings of this case; n: number of runs; evidence: the comparison
    in words; keys: the points of the case; held_back: the limit of the speed, if it is not the store; then_decides: the
    data that would decide the claim if there is such a limit.
    """

    system: str
    where: str
    found: Found
    n: int
    evidence: str
    keys: tuple[str, ...]
    held_back: str = ""
    then_decides: str = ""


def bound_of(claim: Mapping[str, Any]) -> Bound:
    """Return the bound of a claim. It is 1 for rules without a bound."""
    if claim["at_most"] is not None:
        return Bound(claim["at_most"], most=True)
    return Bound(1.0 if claim["at_least"] is None else claim["at_least"])


def cases(claim: Mapping[str, Any], runs: Mapping[str, pd.DataFrame]) -> Iterator[Case]:
    """Yield the measured cases of a claim, each judged by the claim's rule. runs: table -> its rows."""
    column = column_of(claim)
    rows = _chosen(claim, runs[claim["table"]], column)
    if rows.empty:
        return
    rows, by = _identified(claim, rows)
    varying = _varying(rows, by)
    for place, group in groups.grouped(rows, by) if by else [({}, rows)]:
        if not len(group):
            continue
        at = {c: v for c, v in place.items() if c in varying}
        if not _reached(claim, group):
            continue
        group, found = _below_link(claim, _compared(claim, group))
        found = found or CLAIM_RULES[claim["rule"]](claim, group, column)
        if found is not None:
            held_back, then_decides = _other_limit(claim, group, found[2])
            yield Case(
                system=_system(claim, group),
                where=labels.settings((c, v) for c, v in at.items()),
                found=found[0],
                n=_runs(group),
                evidence=found[1],
                keys=tuple(dict.fromkeys(group["key"])) if "key" in group else (),
                held_back=held_back,
                then_decides=then_decides,
            )


def _reached(claim: Mapping[str, Any], group: pd.DataFrame) -> bool:
    """Return True if the largest value of `along`, or the demand on the links, is at least what the claim requires."""
    least = claim.get("reach", {}).get(claim["along"])
    enough = least is None or bool(group[claim["along"]].astype(float).max() >= least)
    return enough or bool(_demanded(claim, group).any())


def _demanded(claim: Mapping[str, Any], rows: pd.DataFrame) -> np.ndarray:
    """Return in which rows the links of clients and front-ends have the ratio at which the claim is judged."""
    least = claim.get("or_link_demand")
    if least is None or LINK_DEMAND not in rows:
        return np.zeros(len(rows), dtype=bool)
    return (rows[LINK_DEMAND] >= least).fillna(False).to_numpy(bool)


def _compared(claim: Mapping[str, Any], group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a claim of rule `ratio` or `order` compares: those at its values of `along`."""
    if claim["rule"] not in ("ratio", "order") or set(claim["values"]) & {*BY_SPEED}:
        return group
    picked = _picked(claim, dict.fromkeys(group[claim["along"]].unique(), ()))
    return group if None in picked else group[group[claim["along"]].isin(picked)]


def _below_link(claim: Mapping[str, Any], group: pd.DataFrame) -> tuple[pd.DataFrame, Judged]:
    """Return the rows at those values of `along` at which the links were not used by more than the claim allows.

    Along the front-ends, their own links are not counted: each front-end brings its link with it.
    If too few values remain to judge the claim, all rows are returned, with a result that has this reason.
    """
    limit, along = claim.get("below_link"), claim["along"]
    if limit is None or LINK_USED not in group or group[LINK_USED].isna().all():
        return group, None
    counted = group[LINK_USED]
    if along == transfers.FRONT_ENDS.column and "link_of" in group:
        counted = counted.mask((group["link_of"] == FRONT_ENDS).fillna(False), 0)
    used = counted.groupby(group[along]).median()
    full = used.index[used.fillna(0) > limit]
    if len(used) - len(full) > 1 or len(used) < 2:
        return group[~group[along].isin(full)], None
    reason = f"{len(full)} of {len(used)} numbers of {labels.heading(along).lower()}"
    reason += f" used more than {limit:g} % of the links' capacity"
    return group, (Found(reason=reason, lacks=FASTER_LINKS), _used(group), None)


def _used(group: pd.DataFrame) -> str:
    """Return the used capacity of the links in words, such as `97 % of 2 × 300 Mbit/s`."""
    used = labels.number(float(group[LINK_USED].astype(float).median()))
    links = group["link_each"].dropna() if "link_each" in group else ()
    return f"{used} % of {links.iloc[0] if len(links) else 'the links'}"


def _runs(group: pd.DataFrame) -> int:
    """Return the number of runs of these rows, from their keys or from a column with the number."""
    if "key" in group:  # tables of roles and front-ends have several rows per run
        return int(group["key"].nunique())
    counted = [c for c in ("runs", "n") if c in group]
    return int(group[counted[0]].max()) if counted else len(group)


def column_of(claim: Mapping[str, Any]) -> str:
    """Return the column whose values a claim compares."""
    if claim["rule"] == "answer":
        return "answer"
    return claim["metric"] if claim["rule"] == "count" else MEASURED[claim["table"]][claim["metric"]]


def _chosen(claim: Mapping[str, Any], rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows that fulfil the conditions of `where` and have known values.

    Conditions that select the smallest or largest value of a column are applied last, at each value of `along`.
    """
    where, along = claim["where"], claim["along"]
    if column == LINK_USED and column not in rows:
        rows = rows.assign(**{column: np.nan})  # the points were measured, but the link is not known
    if column not in rows or (along and along not in rows):
        return rows.iloc[:0]
    kept = matching(rows, {c: v for c, v in where.items() if v not in EXTREMES})
    reach = {c: f">= {v}" for c, v in claim.get("reach", {}).items() if c != along}
    kept &= matching(rows, reach) | _demanded(claim, rows)
    for known in filter(None, (column if column != LINK_USED else "", along)):
        kept &= rows[known].notna().to_numpy(bool)
    if claim["rule"] == "ratio" and not any(v in EXTREMES or is_named(v) for v in claim["values"]):
        kept &= rows[along].isin(claim["values"]).fillna(False).to_numpy(bool)
    rows = filter_rows(rows, kept)  # only once, because a table of runs has many columns
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
    """Return the rows, and the columns that distinguish cases: store, workload, axes and further columns of the table.

    For counts, only the store and its deployment distinguish cases, so that all counts of a system are added up. An
    axis that only some of the compared sides have (uploads have no `access`) does not distinguish cases. In this case,
    only rows with the default of the axis are returned.
    """
    along = claim["along"]
    if claim["rule"] == "count":
        return rows, [c for c in ("store", *DEPLOYMENT_NAMES) if c in rows]
    free = {along, *claim["may_differ"], *(c for c, v in claim["where"].items() if v in EXTREMES)}
    if claim.get("about") == ROOT_FILE:
        free |= {"store", *DEPLOYMENT_NAMES}
    if along == "does":
        free |= {"role", "workload"}
    axes = [c for c in rows if labels.split_role(c)[1] in BY_COLUMN]
    columns = [
        c for c in ("store", "workload", *axes, *TABLE_COLUMNS.get(claim["table"], ())) if c in rows and c not in free
    ]
    if not along:
        return rows, columns
    not_null, side = rows[columns].notna().to_numpy(), pd.factorize(rows[along], use_na_sentinel=False)[0]
    by_side = [not_null[side == i].any(axis=0) for i in range(side.max() + 1)]
    known = dict(zip(columns, np.all(by_side, axis=0), strict=True))
    usual = np.ones(len(rows), dtype=bool)
    for c in (c for c in columns if not known[c] and c in BY_COLUMN):
        usual &= (rows[c].isna() | (rows[c] == BY_COLUMN[c].default).fillna(False)).to_numpy(bool)
    return rows[usual], [c for c in columns if known[c]]


def _varying(rows: pd.DataFrame, by: list[str]) -> list[str]:
    """Return the columns of `by` that have several values and are not part of a deployment's name."""
    apart = ("store", *DEPLOYMENT_NAMES)
    return [c for c in by if c not in apart and rows[c].nunique(dropna=False) > 1]


def _system(claim: Mapping[str, Any], group: pd.DataFrame) -> str:
    if claim["along"] == "store":
        return ALL_SYSTEMS
    first = group.iloc[0]
    if claim.get("about") == ROOT_FILE:
        return labels.value_text(FILE_SIZE.column, first.get(FILE_SIZE.column)) or "the file"
    return labels.deployment({c: v for c, v in first.items() if c not in (claim["along"], *claim["may_differ"])})


def _other_limit(claim: Mapping[str, Any], group: pd.DataFrame, top: Any) -> tuple[str, str]:
    """Return the limit of the speed at this value of `along`, if it is not the store, and the data that would decide.

    The limit is the client, the links, or the host that clients and store share. Both texts are empty if there is no
    such limit. For the rule `shape`, only the host and unknown links count, because the claim can be about the client.
    top: the value of `along`; None: use all rows.
    """
    side = group[group[claim["along"]] == top] if top is not None else group
    if claim["metric"] == PORTS and _shared(side).any():
        return "over loopback the kernel reuses a port after a second", SEPARATE_HOSTS
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
            return f"the host that clients and store share was {busy:.0f} % busy", SEPARATE_HOSTS
    if claim.get("below_link") is not None and (LINK_USED not in side or side[LINK_USED].isna().all()):
        return _unknown_link(side)
    return "", ""


def _shared(rows: pd.DataFrame) -> pd.Series:
    """Return for each run whether clients and store were on one host."""
    return rows.get("shared_host", pd.Series(False, rows.index)).fillna(False).astype(bool)


def _unknown_link(rows: pd.DataFrame) -> tuple[str, str]:
    """Return why the links of runs are not known, and the data that would decide a claim about them."""
    if _shared(rows).all():
        return "clients and store share a host, and no link between them is known", SEPARATE_HOSTS
    return "the capacity of the links is not known", KNOWN_LINKS


def _sides(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> dict[Any, list[float]]:
    """Return the values of the runs at each value of `along`: value of `along`, ascending -> values of `column`."""
    sorted_ = group.sort_values(claim["along"], kind="stable")
    return {v: list(runs[column].astype(float)) for v, runs in sorted_.groupby(claim["along"], sort=False)}


def _medians(claim: Mapping[str, Any], sides: Mapping[Any, list[float]], unit: str) -> str:
    """Return the median of each side in words, such as `1 front-end 23.9, 2 front-ends 47.8 MB/s`."""
    parts = [f"{_value(claim['along'], v)} {labels.number(pd.Series(runs).median())}" for v, runs in sides.items()]
    return f"{', '.join(parts)} {unit}".strip()


def _value(along: str, value: Any) -> str:
    plain = labels.split_role(along)[1]
    return labels.value_text(plain, value) or labels.cell(plain, value)


def unit_of(claim: Mapping[str, Any]) -> str:
    """Return the unit of the claim's metric as text, or an empty string."""
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
    """Return the values of `along` that the claim compares. A value that was not measured is None."""
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
    compared = _medians(claim, {v: sides[v] for v in (base, over)}, unit_of(claim))
    return judging.ratio(sides[base], sides[over], bound_of(claim), chosen), compared, over


def _level(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    values = group[column].astype(float)
    if column == LINK_USED and values.isna().all():
        reason, lacks = _unknown_link(group)
        return Found(reason=reason, lacks=lacks), "", None
    if not claim["along"]:
        compared = f"median of {labels.plural(len(group), 'run')}{_clusters(claim, group)}"
        return judging.level(values, bound_of(claim)), compared, None
    per = group[claim["along"]].astype(float)
    compared = f"median of {labels.plural(len(group), 'run')}, divided by {_value(claim['along'], per.max())}"
    return judging.level(values / per, bound_of(claim)), compared, per.max()


def _clusters(claim: Mapping[str, Any], group: pd.DataFrame) -> str:
    """Return in words which part of the file a read needs: `; 12 of 11 918 entries in 10 of 23 clusters`."""
    pairs = (("entries_per_read", "file_entries"), ("clusters_per_read", "file_clusters"))
    if claim.get("about") != ROOT_FILE or not {c for pair in pairs for c in pair} <= set(group):
        return ""
    parts = (" of ".join(labels.number(float(group[c].median())) for c in pair) for pair in pairs)
    return "; {} entries in {} clusters".format(*parts)


def _count(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    tries = [c for c in COUNTED[claim["table"]][claim["metric"]] if c in group]
    runs = group["key"].nunique() if "key" in group else len(group)
    tried = int(group[tries].astype(float).sum().sum()) if tries else runs
    happened = round(group[column].astype(float).sum())
    noun = ("try", "tries") if tries else ("run", "runs")
    total = f"{labels.grouped(str(tried))} {noun[tried != 1]}"
    found = judging.count(happened, max(tried, happened), bound_of(claim), claim["min_attempts"])
    # Without tries, runs are counted. An event can occur several times in a run, so that the interval is not valid.
    found = found if tries else replace(found, low=math.nan, high=math.nan)
    return found, f"{labels.grouped(str(happened))} in {total}", None


def _order(claim: Mapping[str, Any], group: pd.DataFrame, column: str) -> Judged:
    sides = _sides(claim, group, column)
    picked = _picked(claim, sides)
    if None in picked or len(picked) < 2:
        return None
    compared = _medians(claim, {v: sides[v] for v in picked}, unit_of(claim))
    return judging.order([sides[v] for v in picked]), compared, picked[-1]


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
    if all(answer in guarantees.WEAK for answer in given.values()):
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


def query_text(claim: Mapping[str, Any]) -> str:
    """Return the query of a claim as text: `throughput.csv: workload put, clients most; rate along buckets`."""
    conditions = [f"{c} {_plain(v)}" for c, v in claim["where"].items()]
    reach = [f"{c} at least {_plain(v)}" for c, v in claim.get("reach", {}).items()]
    if demand := claim.get("or_link_demand"):
        reach[-1:] = [f"{reach[-1]} or clients' links at least {demand:g} times the front-ends'"]
    conditions += reach
    if (limit := claim.get("below_link")) is not None:
        conditions.append(f"at most {limit:g} % of the links' capacity used")
    metric = claim["metric"] or "answer"
    along = f" {'per' if claim['rule'] == 'level' else 'along'} {claim['along']}" if claim["along"] else ""
    return f"{claim['table']}.csv: {', '.join(conditions) or 'all rows'}; {metric}{along}"


def expected(claim: Mapping[str, Any]) -> str:
    """Return the rule of a claim as text, such as `ratio of 5 over 1 at least 1.54`."""
    bound = bound_of(claim)
    limit = f"at {'most' if bound.most else 'least'} {bound.at:g}"
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


EXTRA_COLUMNS = (  # columns that `_other_limit` and the evidence use, in addition to the columns of a claim
    *("key", "answer", "runs", "n", "bound_by", "shared_host", "host_cpu_percent", LINK_USED, LINK_DEMAND),
    *("link_each", "link_of"),
    *("entries_per_read", "clusters_per_read", "file_entries", "file_clusters"),
)


class Runs(dict[str, pd.DataFrame]):
    """The rows of each table by which claims are judged: name of the table -> rows.

    There is one row per valid run with the columns of `MEASURED`, or one row per counted group. The rows of a table are
    made when they are first requested.
    """

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
        known = _known(name)  # tables of runs have about a hundred other columns
        rows = made[[c for c in made if c in known or labels.split_role(c)[1] in BY_COLUMN]]
        rows = rows if name == "latency" else groups.closed_loops(rows)  # latency.csv distinguishes loops by a column
        # An axis that is null in all rows does not distinguish cases.
        self[name] = rows[[c for c in rows if c in known or rows[c].notna().any()]]
        return self[name]


@cache
def _known(table: str) -> frozenset[str]:
    """Return the columns of a table, other than axes, that a claim can use."""
    counted = COUNTED.get(table, {})
    metrics = {*MEASURED.get(table, {}).values(), *counted, *(c for tries in counted.values() for c in tries)}
    return frozenset({*EVERYWHERE, *TABLE_COLUMNS.get(table, ()), *metrics, *EXTRA_COLUMNS})


def _with_clusters(reads: pd.DataFrame) -> pd.DataFrame:
    """Return the reads with columns for clusters (baskets per branch, see `earlier.table2`).

    The entries and clusters of the file are also added. They are taken from a read of the whole file.
    """
    if reads.empty:
        return reads
    branches = reads["branches_per_read"].where(reads["branches_per_read"] > 0)
    made = reads.assign(clusters_per_read=reads["baskets_per_read"] / branches)
    of_file = made.groupby(made.get(FILE_SIZE.column, pd.Series("", index=made.index)), dropna=False)
    most = of_file[["entries_per_read", "clusters_per_read"]].transform("max")
    return made.assign(file_entries=most["entries_per_read"], file_clusters=most["clusters_per_read"])


def _even(carried: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run in which each front-end has the same number of clients.

    Only runs whose traffic is known from counters, or from enough operations, are returned.
    """
    return resources.evenly_distributed(resources.enough(carried), ["key"]).drop_duplicates("key")


COLUMNS = (
    "claim",
    "statement",
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
    "verdict_uncorrected",
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
NARROWER_CLAIM = "a claim about one of the cases"  # needed to decide a claim whose cases contradict each other


def table(plan: Mapping[str, Any], tables: Mapping[str, Any]) -> pd.DataFrame:
    """Return `claims.csv`: the claims in the plan and the published findings, judged by the data of the campaign."""
    return judged(published.claims_of(plan), Runs(tables))


def judged(claims: Mapping[str, Mapping[str, Any]], runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row for each claim and system for which it was measured, and one for each claim that was not measured.

    The rows are in the order of the claims. cases: number of cases of a row; confirmed, refuted: number of cases with
    this verdict. The verdict of the row is that of all decided cases, or UNDECIDED if they contradict each other. The
    columns value, low, high, evidence, n, points and p belong to the case with the least evidence for this verdict. p
    is two-sided and corrected for the number of all cases; verdict_uncorrected is the verdict without this correction.

    claims: as returned by `core.campaign.claims.resolved`; runs: table -> its rows.
    """
    found = [(name, case) for name, claim in claims.items() for case in cases(claim, runs)]
    corrected = ratios.corrected([case.found.p for _, case in found])
    rows = []
    for name, claim in claims.items():
        pairs = [(case, p) for (claim_name, case), p in zip(found, corrected, strict=True) if claim_name == name]
        systems = list(dict.fromkeys(case.system for case, _ in pairs))
        rows += [_row(name, claim, [pair for pair in pairs if pair[0].system == s]) for s in systems]
        rows += [] if pairs else [_head(name, claim) | {"verdict": NOT_MEASURED}]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(dict.fromkeys(("n", "cases", "confirmed", "refuted"), "Int64"))


def _head(name: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    value, unit = published.printed_number(claim["published"])
    return {
        "claim": name,
        "statement": claim["statement"],
        "source": claim["source"],
        "published": value,
        "published_unit": unit or None,
        "expected": expected(claim),
        "query": query_text(claim),
        "campaigns": ", ".join(claim["campaigns"]) or None,
    }


def _row(name: str, claim: Mapping[str, Any], pairs: Sequence[tuple[Case, float]]) -> dict[str, Any]:
    """Return the row of a claim and a system from its cases with their corrected p values."""
    bound = bound_of(claim)
    verdicts = [_verdict(claim, case, p) for case, p in pairs]
    confirmed, refuted = verdicts.count(CONFIRMED), verdicts.count(REFUTED)
    verdict = CONFIRMED if confirmed and not refuted else REFUTED if refuted and not confirmed else UNDECIDED
    # The row shows the case with the least evidence for the verdict: nearest to the bound, or on its other side.
    sign = (-1 if bound.most else 1) * (-1 if verdict == REFUTED else 1)
    values = [sign * case.found.value if math.isfinite(case.found.value) else math.inf for case, _ in pairs]
    least = min([i for i, word in enumerate(verdicts) if word == verdict] or range(len(pairs)), key=values.__getitem__)
    case, p = pairs[least]
    reason, decides = case.found.reason, ""
    if confirmed and refuted:
        reason = f"{confirmed} of {len(pairs)} cases confirm the claim, {refuted} refute it"
        decides = NARROWER_CLAIM
    elif verdicts[least] == UNDECIDED:
        chance = "the interval contains the bound"
        if not case.found.p >= 0.05:
            chance = "not significant after the correction for the number of claims"
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
        "verdict_uncorrected": judging.verdict(case.found, bound, case.found.p),
        "evidence": ": ".join(filter(None, (case.where, case.evidence))) or None,
        "reason": reason or None,
        "would_decide": decides or None,
        "n": case.n,
        "cases": len(pairs),
        "confirmed": confirmed,
        "refuted": refuted,
        "points": " ".join(case.keys) or None,
    }


def _verdict(claim: Mapping[str, Any], case: Case, p: float) -> str:
    """Return the verdict on one case.

    If something other than the store limited the speed, a low speed does not refute a claim. It also does not confirm a
    claim about a low speed.
    """
    verdict = judging.verdict(case.found, bound_of(claim), p)
    return UNDECIDED if case.held_back and verdict == _low(claim) else verdict


def _low(claim: Mapping[str, Any]) -> str:
    """Return the verdict that a low speed would give."""
    return CONFIRMED if bound_of(claim).most or claim["rule"] == "shape" else REFUTED


def _side(case: Case, bound: Bound) -> str | None:
    """Return the verdict that corresponds to the side of the bound on which the value is; None without a value.

    The value need not be significantly different from the bound.
    """
    if not math.isfinite(case.found.value):
        return None
    return CONFIRMED if bound.met(case.found.value) else REFUTED


def _unit(claim: Mapping[str, Any], value: float) -> str | None:
    if claim["rule"] == "level":
        return unit_of(claim) or None
    answers = ("system" if claim["along"] else "answer") + ("" if value == 1 else "s")
    units = {"shape": claim["along"], "count": claim["metric"], "answer": answers}
    return units[claim["rule"]].replace("_", " ") if claim["rule"] in units else None


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the number of claims, and of the number of rows with each verdict."""
    counts = found["verdict"].value_counts()
    return [("claims", found["claim"].nunique(), "")] + [
        (f"claims_{name}", int(counts.get(verdict, 0)), "")
        for name, verdict in (
            ("confirmed", CONFIRMED),
            ("refuted", REFUTED),
            ("undecided", UNDECIDED),
            ("not_measured", NOT_MEASURED),
        )
    ]
