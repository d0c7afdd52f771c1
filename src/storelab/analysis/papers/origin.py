"""Origin of the figures, tables, numbers and verdicts of a campaign: rows of tables, points, records, and a code.

A code identifies one of these items, and the records from which it was made. If the records change, the code changes
too. May import: the same packages as `papers`.
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

CHARACTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # characters of codes, without those that are easily confused
LENGTH = 7
FIGURE, TABLE, TEX, NUMBER, CLAIM, VERDICT = "figure", "table", "table of the paper", "number", "claim", "verdict"
NEAR = 1e-8  # relative difference of numbers that count as equal; tables are written with nine digits


def code(*named: str) -> str:
    """Return the code of seven characters for the item with these names."""
    number, characters = int.from_bytes(hashlib.sha256("\0".join(named).encode()).digest()), []
    for _ in range(LENGTH):
        number, place = divmod(number, len(CHARACTERS))
        characters.append(CHARACTERS[place])
    return "".join(characters)


def is_code(text: str) -> bool:
    """Return True if a text has the form of a code, in upper or lower case."""
    return len(text) == LENGTH and all(character in CHARACTERS for character in text.upper())


@dataclass(frozen=True)
class Rows:
    """Rows of a CSV file that an item uses.

    table: name of the file; places: positions of the rows (0 is the first row below the header); total: number of all
    rows of the file.
    """

    table: str
    places: tuple[int, ...]
    total: int

    @property
    def lines(self) -> str:
        """The rows in words: `all 8 rows`, or the numbers of the lines in an editor, `lines 2 to 4 and 9 of 12`."""
        if len(self.places) == self.total:
            return f"all {self.total} rows" if self.total != 1 else "the only row"
        runs: list[list[int]] = []
        for line in (place + 2 for place in self.places):
            if runs and line == runs[-1][1] + 1:
                runs[-1][1] = line
            else:
                runs.append([line, line])
        ranges = [str(a) if a == b else f"{a} to {b}" for a, b in runs]
        text = ranges[0] if len(ranges) == 1 else f"{', '.join(ranges[:-1])} and {ranges[-1]}" if ranges else "none"
        return f"line{'' if len(self.places) == 1 else 's'} {text} of {self.total + 1}"


@dataclass(frozen=True)
class PaperItem:
    """A figure, table, number, claim or verdict of a campaign.

    row: position of a number, claim or verdict in its table.
    """

    member: Member = field(repr=False)
    kind: str
    name: str
    row: int | None = None

    @cached_property
    def code(self) -> str:
        return code(self.member.name, self.kind, self.name, self.member.sums)

    @property
    def file(self) -> str:
        """The path of the file, relative to the folder of the campaign."""
        places = {FIGURE: f"figures/{self.name}.pdf", TEX: f"tex/{self.name}.tex", NUMBER: "tables/numbers.csv"}
        places |= {CLAIM: "tables/claims.csv", VERDICT: "tables/verdicts.csv"}
        return places.get(self.kind, f"tables/{self.name}.csv")

    @cached_property
    def rows(self) -> list[Rows]:
        """The rows of tables that the item shows or depends on."""
        if self.kind == FIGURE:
            return [_figure_rows(self.member, self.name)]
        if self.kind == TEX:
            return [rows for name in tables_of(self.name) if (rows := _all_rows(self.member, name)).total]
        if self.kind == NUMBER:
            return _number_rows(self.member, self.name)
        if self.row is None:
            return [_all_rows(self.member, self.name)]
        name = self.file.partition("/")[2].removesuffix(".csv")
        return [Rows(name, (self.row,), len(self.member.table(name)))]

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the points that the item depends on, in the order of the plan.

        A number from the plan, or a printed number, does not depend on points.
        """
        found: set[str] = set()
        for rows in self.rows:
            table = self.member.table(rows.table)
            found |= points_of(self.member, table.iloc[list(rows.places)], rows.table)
        if self.kind == CLAIM and not found:  # answers have no points; the points of the queried table are used
            requested = str(self.member.table("claims").iloc[self.row or 0]["query"]).partition(".csv")[0]
            found = (
                points_of(self.member, self.member.table(requested), requested) if requested in build.NAMES else found
            )
        return [key for key in self.member.table("points")["key"] if key in found]


def items(member: Member) -> Iterator[PaperItem]:
    """Yield all items of a campaign that have codes: figures, tables, numbers, claims and verdicts."""
    yield from (PaperItem(member, FIGURE, name) for name in (member.figures if member.is_drawn else ()))
    yield from (PaperItem(member, TABLE, name) for name in build.NAMES)
    yield from (PaperItem(member, TEX, name) for name in TABLES)
    yield from (PaperItem(member, NUMBER, str(name), row) for row, name in enumerate(member.table("numbers")["name"]))
    yield from claims(member)
    yield from verdicts(member)


def claims(member: Member) -> list[PaperItem]:
    """Return the items of all rows of `claims.csv`."""
    table = member.table("claims")
    named = zip(table["claim"], table["system"].fillna(""), strict=True)
    return [
        PaperItem(member, CLAIM, f"{claim}, {system}" if system else claim, i)
        for i, (claim, system) in enumerate(named)
    ]


def verdicts(member: Member) -> list[PaperItem]:
    """Return the items of all rows of `verdicts.csv`."""
    table = member.table("verdicts")
    columns = ["deployment", "workload", "engine", "what"]
    named = table[columns].fillna("").astype(str).itertuples(index=False)
    return [PaperItem(member, VERDICT, ", ".join(filter(None, row)), i) for i, row in enumerate(named)]


def tables_of(tex: str) -> list[str]:
    """Return the names of the CSV files from which a table of the paper is made."""
    needs = TABLES[tex][1:]
    if needs == ("headlines",):
        needs = tuple(name for _, *names in HEADLINES for name in names)
    return list(dict.fromkeys(needs))


def shown(member: Member, name: str) -> pd.DataFrame:
    """Return the rows that a figure draws. The index is their position in the figure's table."""
    figure = member.declared[name]
    table = member.table(figure.table)
    if isinstance(figure, Specification):
        layout = member.layout(name)
        rows = layout.rows if layout else table.iloc[:0]
    else:
        rows = figure.captioned_rows(table)
    return rows if _same(rows, table) else table


def _same(rows: pd.DataFrame, table: pd.DataFrame) -> bool:
    """Return True if the index of these rows is their position in the table.

    This is not the case if the figure draws rows that it computed.
    """
    if not set(rows.index) <= set(table.index):
        return False
    kept = [c for c in ("key", "store", "workload") if c in rows and c in table]
    return all((rows[c] == table.loc[rows.index, c]).all() for c in kept)


def _figure_rows(member: Member, name: str) -> Rows:
    rows, table = shown(member, name), member.declared[name].table
    return Rows(table, tuple(sorted({int(i) for i in rows.index})), len(member.table(table)))


def _all_rows(member: Member, name: str) -> Rows:
    return Rows(name, tuple(range(len(member.table(name)))), len(member.table(name)))


def _number_rows(member: Member, name: str) -> list[Rows]:
    """Return the rows of the table that contain a number.

    If the number is not clearly a value of some rows, all rows of the table are returned. If it does not come from a
    table, the list is empty.
    """
    row = member.table("numbers").set_index("name").loc[name]
    source = str(row["source"]).removesuffix(".csv")
    if source not in build.NAMES:
        return []
    try:
        value = float(row["value"])
    except ValueError:
        return [_all_rows(member, source)]
    table = member.table(source)
    numbers = table.select_dtypes("number").astype(float)
    near = (numbers - value).abs() <= NEAR * max(abs(value), 1e-300)
    places = tuple(int(i) for i in near.index[near.any(axis=1)])
    exact = 0 < len(places) < len(table) and not (value.is_integer() and math.fabs(value) < 1000)
    return [Rows(source, places, len(table))] if exact else [_all_rows(member, source)]


def points_of(member: Member, rows: pd.DataFrame, name: str) -> set[str]:
    """Return the keys of the points that rows of a table depend on.

    They are named in the rows, or have the same store and axes. name: name of the table.
    """
    points = member.table("points")
    if name in ("numbers", "environment"):
        return set(points["key"]) if name == "environment" else set()
    if name == "claims":
        named = {key for listed in rows["points"].dropna() for key in str(listed).split()}
        return {key for key in points["key"] if key in named or key.rpartition("_rep~")[0] in named}
    if "key" in rows:
        return set(rows["key"].dropna())
    columns = [c for c in points.columns[1 : points.columns.get_loc("rep")] if c in rows]
    if rows.empty:
        return set()
    return {key for key, found in zip(points["key"], _matching(rows, member, columns), strict=True) if found}


def _matching(rows: pd.DataFrame, member: Member, columns: Sequence[str]) -> list[bool]:
    """Return for each point whether it has the same values as one of the rows.

    Null values of a row are ignored: the workload does not have this axis, or the row is about all its values.
    """
    number = len(member.table("points"))
    values = _tuples([groups.comparable(rows[c]) for c in columns], len(rows))
    found = [False] * number
    for known in dict.fromkeys(tuple(v is not None for v in row) for row in values):
        identities = [member.identities(c) for c, there in zip(columns, known, strict=True) if there]
        wanted = {
            tuple(v for v in row if v is not None) for row in values if tuple(v is not None for v in row) == known
        }
        found = [a or p in wanted for a, p in zip(found, _tuples(identities, number), strict=True)]
    return found


def _tuples(columns: Sequence[Sequence[Any]], number: int) -> list[tuple[Any, ...]]:
    """Return the rows of these columns as tuples. Without columns, return `number` empty tuples."""
    return list(zip(*columns, strict=True)) if columns else [()] * number


def named(members: Iterable[Member]) -> Mapping[str, list[PaperItem]]:
    """Return the items of all campaigns by their code: code -> items."""
    found: dict[str, list[PaperItem]] = {}
    for member in members:
        for item in items(member):
            found.setdefault(item.code, []).append(item)
    return found
