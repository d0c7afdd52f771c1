"""Where a figure, a table, a number or a verdict of a campaign comes from: rows of tables, points, records; its code.

A code stands for one thing of one campaign and the records that it was made from: other records, another code. May
import: what `papers` may.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from storelab.analysis.figures.specification import Specification
from storelab.analysis.latex import HEADLINES, TABLES
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import groups
from storelab.analysis.tables import build

SIGNS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # none that is mistaken for another one
LENGTH = 7
FIGURE, TABLE, TEX, NUMBER, CLAIM, VERDICT = "figure", "table", "table of the paper", "number", "claim", "verdict"
NEAR = 1e-8  # tables are written with nine digits


def code(*named: str) -> str:
    """Seven signs for what is named."""
    number, signs = int.from_bytes(hashlib.sha256("\0".join(named).encode()).digest()), []
    for _ in range(LENGTH):
        number, place = divmod(number, len(SIGNS))
        signs.append(SIGNS[place])
    return "".join(signs)


def is_code(text: str) -> bool:
    """Whether a text has the form of a code, in letters of either case."""
    return len(text) == LENGTH and all(sign in SIGNS for sign in text.upper())


@dataclass(frozen=True)
class Rows:
    """Rows of a CSV file: its name, their places (0: the first below the head), how many it has."""

    table: str
    places: tuple[int, ...]
    total: int

    @property
    def lines(self) -> str:
        """As an editor counts the lines of the file: `all 8 rows`, or `lines 2 to 4 and 9`."""
        if len(self.places) == self.total:
            return f"all {self.total} rows" if self.total != 1 else "its one row"
        runs: list[list[int]] = []
        for line in (place + 2 for place in self.places):
            if runs and line == runs[-1][1] + 1:
                runs[-1][1] = line
            else:
                runs.append([line, line])
        said = [str(a) if a == b else f"{a} to {b}" for a, b in runs]
        text = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}" if said else "none"
        return f"line{'' if len(self.places) == 1 else 's'} {text} of {self.total + 1}"


@dataclass(frozen=True)
class Thing:
    """A figure, a table, a number, a claim or a verdict of a campaign; `row`: its place in the table that has it."""

    member: Member = field(repr=False)
    kind: str
    name: str
    row: int | None = None

    @cached_property
    def code(self) -> str:
        return code(self.member.name, self.kind, self.name, self.member.sums)

    @property
    def file(self) -> str:
        """Where it lies, below the campaign's folder."""
        places = {FIGURE: f"figures/{self.name}.pdf", TEX: f"tex/{self.name}.tex", NUMBER: "tables/numbers.csv"}
        places |= {CLAIM: "tables/claims.csv", VERDICT: "tables/verdicts.csv"}
        return places.get(self.kind, f"tables/{self.name}.csv")

    @cached_property
    def rows(self) -> list[Rows]:
        """The rows of tables that it shows or rests on."""
        if self.kind == FIGURE:
            return [_of_figure(self.member, self.name)]
        if self.kind == TEX:
            return [rows for name in tables_of(self.name) if (rows := _whole(self.member, name)).total]
        if self.kind == NUMBER:
            return _of_number(self.member, self.name)
        if self.row is None:
            return [_whole(self.member, self.name)]
        name = self.file.partition("/")[2].removesuffix(".csv")
        return [Rows(name, (self.row,), len(self.member.table(name)))]

    @cached_property
    def keys(self) -> list[str]:
        """The points behind these rows, in the order of the plan; a number of the plan or of print rests on none."""
        found: set[str] = set()
        for rows in self.rows:
            table = self.member.table(rows.table)
            found |= points_of(self.member, table.iloc[list(rows.places)], rows.table)
        if self.kind == CLAIM and not found:  # an answer names no points: those of the table that was asked
            asked = str(self.member.table("claims").iloc[self.row or 0]["query"]).partition(".csv")[0]
            found = points_of(self.member, self.member.table(asked), asked) if asked in build.NAMES else found
        return [key for key in self.member.table("points")["key"] if key in found]


def things(member: Member) -> Iterator[Thing]:
    """Everything of a campaign that has a code."""
    yield from (Thing(member, FIGURE, name) for name in (member.figures if member.is_drawn else ()))
    yield from (Thing(member, TABLE, name) for name in build.NAMES)
    yield from (Thing(member, TEX, name) for name in TABLES)
    yield from (Thing(member, NUMBER, str(name), row) for row, name in enumerate(member.table("numbers")["name"]))
    yield from claims(member)
    yield from verdicts(member)


def claims(member: Member) -> list[Thing]:
    """Of each row of `claims.csv`."""
    table = member.table("claims")
    named = zip(table["claim"], table["system"].fillna(""), strict=True)
    return [
        Thing(member, CLAIM, f"{claim}, {system}" if system else claim, i) for i, (claim, system) in enumerate(named)
    ]


def verdicts(member: Member) -> list[Thing]:
    """Of each row of `verdicts.csv`."""
    table = member.table("verdicts")
    columns = ["deployment", "workload", "engine", "what"]
    named = table[columns].fillna("").astype(str).itertuples(index=False)
    return [Thing(member, VERDICT, ", ".join(filter(None, row)), i) for i, row in enumerate(named)]


def tables_of(tex: str) -> list[str]:
    """The CSV files that a table of the paper is made from."""
    needs = TABLES[tex][1:]
    if needs == ("headlines",):
        needs = tuple(name for _, *names in HEADLINES for name in names)
    return list(dict.fromkeys(needs))


def shown(member: Member, name: str) -> pd.DataFrame:
    """The rows of its table that a figure draws, with the places in the table as index."""
    figure = member.declared[name]
    table = member.table(figure.table)
    if isinstance(figure, Specification):
        layout = member.layout(name)
        rows = layout.rows if layout else table.iloc[:0]
    else:
        rows = figure.told(table)
    return rows if _same(rows, table) else table


def _same(rows: pd.DataFrame, table: pd.DataFrame) -> bool:
    """Whether the index of these rows tells their places in the table: a figure may have made rows of its own."""
    if not set(rows.index) <= set(table.index):
        return False
    kept = [c for c in ("key", "store", "workload") if c in rows and c in table]
    return all((rows[c] == table.loc[rows.index, c]).all() for c in kept)


def _of_figure(member: Member, name: str) -> Rows:
    rows, table = shown(member, name), member.declared[name].table
    return Rows(table, tuple(sorted({int(i) for i in rows.index})), len(member.table(table)))


def _whole(member: Member, name: str) -> Rows:
    return Rows(name, tuple(range(len(member.table(name)))), len(member.table(name)))


def _of_number(member: Member, name: str) -> list[Rows]:
    """Where the number stands in its table; the whole table where it is made of many. None of what is no table."""
    row = member.table("numbers").set_index("name").loc[name]
    source = str(row["source"]).removesuffix(".csv")
    if source not in build.NAMES:
        return []
    try:
        value = float(row["value"])
    except ValueError:
        return [_whole(member, source)]
    table = member.table(source)
    numbers = table.select_dtypes("number").astype(float)
    near = (numbers - value).abs() <= NEAR * max(abs(value), 1e-300)
    places = tuple(int(i) for i in near.index[near.any(axis=1)])
    exact = 0 < len(places) < len(table) and not (value.is_integer() and math.fabs(value) < 1000)
    return [Rows(source, places, len(table))] if exact else [_whole(member, source)]


def points_of(member: Member, rows: pd.DataFrame, name: str) -> set[str]:
    """Keys of the points behind rows of a table: those that it names, or those of the same store, workload and axes."""
    points = member.table("points")
    if name in ("numbers", "environment"):
        return set(points["key"]) if name == "environment" else set()
    if name == "claims":
        named = {key for told in rows["points"].dropna() for key in str(told).split()}
        return {key for key in points["key"] if key in named or key.rpartition("_rep~")[0] in named}
    if "key" in rows:
        return set(rows["key"].dropna())
    columns = [c for c in points.columns[1 : points.columns.get_loc("rep")] if c in rows]
    if rows.empty:
        return set()
    return {key for key, found in zip(points["key"], _alike(rows, member, columns), strict=True) if found}


def _alike(rows: pd.DataFrame, member: Member, columns: Sequence[str]) -> list[bool]:
    """Which points agree with one of the rows in all that the row says: an axis that it leaves open is none of its
    workload, or the one that it is about."""
    number = len(member.table("points"))
    told = _tuples([groups.alike(rows[c]) for c in columns], len(rows))
    found = [False] * number
    for known in dict.fromkeys(tuple(v is not None for v in row) for row in told):
        own = [member.identities(c) for c, there in zip(columns, known, strict=True) if there]
        wanted = {tuple(v for v in row if v is not None) for row in told if tuple(v is not None for v in row) == known}
        found = [a or p in wanted for a, p in zip(found, _tuples(own, number), strict=True)]
    return found


def _tuples(columns: Sequence[Sequence[Any]], number: int) -> list[tuple[Any, ...]]:
    """Columns to so many rows."""
    return list(zip(*columns, strict=True)) if columns else [()] * number


def named(members: Iterable[Member]) -> Mapping[str, list[Thing]]:
    """Code -> what it stands for."""
    found: dict[str, list[Thing]] = {}
    for member in members:
        for thing in things(member):
            found.setdefault(thing.code, []).append(thing)
    return found
