"""What `storelab compare` prints: one row per comparable point, then the whole. May import: what `sides` may."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Column, Table

from storelab.analysis.compare import sides
from storelab.analysis.parts import groups, speed, words
from storelab.analysis.statistics import ratios

COLOURS = {ratios.FASTER: "green", ratios.SLOWER: "red", ratios.CANNOT_TELL: "dim"}
RIGHT = ("A", "B", "runs", "B / A [95 % interval]")  # columns of numbers


def show(table: pd.DataFrame, a: sides.Side, b: sides.Side, alone: tuple[int, int], days: Sequence[sides.Side]) -> None:
    """The table on the terminal, with what it was read from, what the correction for many rows took back, and what is
    known of days."""
    # Into a file or pipe: one line per row.
    console = Console(highlight=False, width=None if Console().is_terminal else 160)
    points = table[table["workload"] != sides.ALL]
    console.print(
        f"A: {groups.joined(points['store_a'])} of {a.name}, read from {a.source}", markup=False, soft_wrap=True
    )
    console.print(
        f"B: {groups.joined(points['store_b'])} of {b.name}, read from {b.source}", markup=False, soft_wrap=True
    )
    shown = Table("point", "measure", *(Column(name, justify="right") for name in RIGHT), "B is")
    for said, row in zip(sides.described(points), points.to_dict("records"), strict=True):
        shown.add_row(said, *_cells(row))
    shown.add_section()
    for row in table[table["workload"] == sides.ALL].to_dict("records"):
        shown.add_row(f"all {row['points']} points", *_cells(row))
    console.print(shown)
    for note in notes(table, a, b, alone, days):
        console.print(note, markup=False, soft_wrap=True)


def notes(
    table: pd.DataFrame, a: sides.Side, b: sides.Side, alone: tuple[int, int], days: Sequence[sides.Side]
) -> Iterator[str]:
    """What stands below the table, a line each: what is held fixed, what cannot be told, what the correction for many
    rows does, and what is known of days."""
    points = table[table["workload"] != sides.ALL]
    yield from (f"Held fixed: {said}" for said in sides.in_common(points))
    yield from (f"Cannot tell: {reason}" for reason in dict.fromkeys(table["reason"].dropna()))
    if sum(alone):
        yield f"Without a counterpart: {words.plural(alone[0], 'point')} of A, {words.plural(alone[1], 'point')} of B"
    if (tested := int(points["p"].notna().sum())) > 1:
        yield (
            f"Corrected for {tested} rows (Benjamini and Hochberg): of those called different, at most 5 % are so by "
            "chance; in brackets what a row alone would say."
        )
    if days:
        yield f"Intervals hold what a day may do, from {words.plural(len(days), 'campaign')}."
    elif sides.other_days(a, b):
        on = (" to ".join(dict.fromkeys((d[0], d[-1]))) for d in map(sides.dates, (a, b)))
        yield (
            "Warning: A was measured on {}, B on {}, and nothing here tells what a day may do: a difference may be the "
            "day's. Repeat a campaign on several days and name these with --days.".format(*on)
        )


def _cells(row: dict[str, Any]) -> list[str]:
    ratio = words.spread([row["ratio"], row["low"], row["high"]])
    bound = f" (bound by the {row['bound_by']})" if isinstance(row["bound_by"], str) else ""
    medians = [words.number(row[c]) if pd.notna(row[c]) else "" for c in ("median_a", "median_b")]
    said, alone = row["verdict_corrected"], row["verdict"]
    verdict = f"[{COLOURS[said]}]{said}[/]{bound}" + (f" ({alone})" if alone != said else "")
    return [
        speed.said(row["metric"]).replace("[", r"\["),
        *medians,
        f"{row['n_a']}, {row['n_b']}",
        ratio.replace("[", r"\["),
        verdict,
    ]
