"""`verdicts.csv`: in words what limited each store, by workload and object size, and the evidence.

The rules and their order are those of `rules`; a verdict is about the best rate that was measured. It claims no more
than the records tell: where no rule fires it says `not known`, and what would tell. May import: what `tables` may.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, speed, words
from storelab.analysis.tables.verdicts import rules
from storelab.analysis.tables.verdicts.rules import NOT_KNOWN, RULES, Group, Subject
from storelab.core.axes import ALL, BY_COLUMN, DEPLOYMENT_NAMES, ENGINE

# Axes that make one subject's points differ: how hard it was pushed, over what the load was spread, of which requests
# it was made.
VARIED = tuple(a.column for a in ALL.values() if a.load)
OF_POINTS = ("state", "reason", "clients", "workers", "other_cpu_percent")  # what the rules ask of a subject's runs
COLUMNS = (
    "store",
    "deployment",
    "workload",
    "engine",
    "what",
    "best",
    "unit",
    "where",
    "n",
    "few",
    "verdict",
    "evidence",
    "also",
    "would_tell",
)


def table(tables: Mapping[str, pd.DataFrame], by: list[str]) -> pd.DataFrame:
    """One row per subject: store, deployment, workload, engine, what (size and fraction in words), best (median) and
    unit, where it was reached, n, few (the rate depends on few operations), verdict, evidence, also (other rules that
    fire, each with its evidence; invalid runs; limits that the rate contradicts), would_tell (where not known).

    tables: points, throughput, resources and, where there is one, scaling. by: the columns of a group of points.
    """
    runs = _closed(speed.of_points(tables["points"]))
    runs = runs[runs["workload"].isin(tables["throughput"]["workload"].unique())].reset_index(drop=True)
    fixed = [c for c in by if c not in VARIED]
    known = Known(tables, by, fixed)
    told = [c for c in [*fixed, "metric"] if runs[c].notna().any()]  # what is null everywhere tells nothing apart
    every = identities(runs, by)
    rows = [
        _row(key, known.subject([every[i] for i in own.index], own["value"])) for key, own in groups.grouped(runs, told)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _closed(points: pd.DataFrame) -> pd.DataFrame:
    """Without open loops: the rate of an arrival process says nothing of a limit."""
    return points[points["arrival_rate"].fillna(0) == 0] if "arrival_rate" in points else points


class Alike:
    """Rows of a table by what they have in some columns; None is null."""

    def __init__(self, rows: pd.DataFrame, columns: Sequence[str], kept: Sequence[str] | None = None) -> None:
        """kept: the columns of what `to` gives, of those that there are; without it, all."""
        self._rows = rows if kept is None else rows[[c for c in kept if c in rows]]
        self._columns = columns
        self._places: dict[tuple[Any, ...], list[int]] = {}
        for i, key in enumerate(identities(rows, columns)):
            self._places.setdefault(key, []).append(i)

    def to(self, axes: Mapping[str, Any]) -> pd.DataFrame:
        """The rows that have these values."""
        return self._rows.iloc[self._places.get(tuple(axes[c] for c in self._columns), [])]


def identities(rows: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """What each row has in these columns, at least one; None for null."""
    return list(zip(*([None if pd.isna(v) else v for v in rows[c].astype(object)] for c in columns), strict=True))


class Known:
    """What is known of the subjects of a campaign. tables, by: as of `table`; fixed: of `by`, what tells subjects
    apart."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], by: Sequence[str], fixed: Sequence[str]) -> None:
        self._by = by
        read = ((identities(tables[name], by), tables[name].to_dict("records")) for name in ("throughput", "resources"))
        self._tables = [dict(zip(reversed(keys), reversed(rows), strict=True)) for keys, rows in read]
        self._points = Alike(_closed(tables["points"]), fixed, OF_POINTS)
        curves = tables.get("scaling", pd.DataFrame())
        told = [c for c in fixed if c in curves]
        kept = [c for c in curves if c not in told]
        self._curves = Alike(curves, told, kept) if len(curves) else None

    def subject(self, keys: Iterable[tuple[Any, ...]], speeds: Iterable[float]) -> Subject:
        """The subject of these runs, of each its `identities` and its value (`speed.of_points`): its groups, the best
        one with all that is known of it, failed runs, curves."""
        values: dict[tuple[Any, ...], list[float]] = {}
        for key, value in zip(keys, speeds, strict=True):
            values.setdefault(key, []).append(float(value))
        ordered = sorted(values, key=lambda key: [(v is None, v) for v in key])
        own_groups = tuple(Group(dict(zip(self._by, key, strict=True)), tuple(values[key])) for key in ordered)
        best = max(own_groups, key=lambda g: g.median)
        row: dict[str, Any] = {}
        for table in self._tables:
            row = table.get(tuple(best.axes[c] for c in self._by), {}) | row
        first = own_groups[0].axes
        curves = self._curves.to(first) if self._curves else pd.DataFrame()
        return Subject(best, row, own_groups, self._points.to(first), curves)


def _row(key: Mapping[str, Any], s: Subject) -> dict[str, Any]:
    fired = [(rule.verdict, evidence) for rule in RULES if (evidence := rule.test(s))]
    verdict, evidence = fired[0] if fired else (NOT_KNOWN, rules.unknown(s))
    axes, notes = s.best.axes, (("invalid runs", rules.invalid(s)), *(("contradiction", c) for c in rules.wrong(s)))
    also = [*fired[1:], *(note for note in notes if note[1])]
    return {
        "store": key["store"],
        "deployment": words.deployment(axes),
        "workload": key["workload"],
        "engine": axes.get("engine"),
        "what": ", ".join(said(axes)),
        "best": s.best.median,
        "unit": units_of(key["workload"], key["metric"] == speed.THROUGHPUT),
        "where": ", ".join(filter(None, (words.value_text(c, axes.get(c)) for c in VARIED if _chosen(s, c)))),
        "n": len(s.best.values),
        "few": bool(s.number("few")),
        "verdict": rules.named(verdict, s),
        "evidence": evidence,
        "also": "; ".join(f"{name}: {why}" for name, why in also),
        "would_tell": "" if fired else rules.would_tell(s),
    }


def said(axes: Mapping[str, Any]) -> list[str]:
    """What tells this subject from another, in words: what was asked for, and all other settings off their default.

    Engine and deployment have columns of their own; an axis that this storelab does not know is always said.
    """
    apart = {"store", "workload", ENGINE.column, *VARIED, *DEPLOYMENT_NAMES} - {
        a.column for a in ALL.values() if a.told
    }
    declared = [a.column for a in ALL.values() if a.column in axes]
    out = []
    for column in [*declared, *(c for c in axes if c not in declared)]:
        axis, value = BY_COLUMN.get(column), axes[column]
        if column not in apart and value is not None and (axis is None or axis.told or value != axis.default):
            out.append(words.value_text(column, value))
    return [text for text in out if text]


def _chosen(s: Subject, column: str) -> bool:
    """Whether this axis is worth a word: clients and workers always, others where they were varied."""
    return column in ("clients", "workers") or len({g.axes.get(column) for g in s.groups}) > 1


def units_of(workload: str, large: bool) -> str:
    """Unit of the best rate."""
    small = "objects/s" if workload in speed.MOVING else "keys/s" if workload == "list" else "operations/s"
    return "MB/s" if large else small


def lines(found: pd.DataFrame) -> list[str]:
    """The verdicts for the terminal, a few lines each."""
    out = []
    for r in found.itertuples(index=False):
        subject_of = ", ".join(filter(None, (r.deployment, r.workload, _text(r.engine), _text(r.what))))
        out.append(f"{subject_of}: {words.number(r.best)} {r.unit} with {r.where} (n = {r.n})")
        out.append(
            f"    limited by: {r.verdict}"
            if r.verdict not in (NOT_KNOWN, "unsteady", rules.DISTURBED)
            else f"    {r.verdict}"
        )
        out.append(f"        {r.evidence}")
        out += [f"    also: {_text(r.also)}"] if _text(r.also) else []
        out += [f"    what would tell: {_text(r.would_tell)}"] if _text(r.would_tell) else []
    return out


def _text(value: Any) -> str:
    return "" if value is None or pd.isna(value) else str(value)
