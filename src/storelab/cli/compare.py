"""`storelab compare A B`: which of two campaigns or stores is faster, point by point and over all."""

import sys
from pathlib import Path
from typing import Any

import click
import pandas as pd

from storelab.analysis.compare import sides
from storelab.analysis.latex import comparison
from storelab.analysis.parts import speed, words
from storelab.analysis.parts.groups import joined
from storelab.analysis.statistics import ratios
from storelab.core import records
from storelab.core.errors import UserError

COLOURS = {ratios.FASTER: "green", ratios.SLOWER: "red", ratios.CANNOT_TELL: "dim"}
FAIL_ON = ("slower", "slower-overall")


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", required=False)
@click.option("--stores", metavar="A,B", help="Two stores: of A and of B, or, without B, two of one campaign.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the table there, too.")
@click.option(
    "--latex", "latex_file", type=click.Path(path_type=Path, dir_okay=False), help="Write it as a LaTeX longtable, too."
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 1 where a point or the whole (or only the whole) is slower.",
)
@click.option(
    "--margin", type=click.FloatRange(0), default=0.0, show_default=True, help="Percent that --fail-on forgives."
)
@click.pass_context
def compare(
    ctx: click.Context,
    a: str,
    b: str | None,
    stores: str | None,
    csv_file: Path | None,
    latex_file: Path | None,
    fail_on: str | None,
    margin: float,
) -> None:
    """How fast B is beside A: ratios with 95 % intervals and a verdict, faster, slower or cannot tell, for every
    comparable point and over all.

    A and B are folders of campaigns (results/x) or their names, or one store of a campaign: results/x:store. Exit
    codes: 0; 1 as --fail-on says; 2 where something is wrong with A or B.
    """
    names = stores.split(",") if stores else [None, None]
    if len(names) != 2:
        raise UserError("--stores", f"{stores!r} does not name two stores", "write --stores first,second")
    if b is None and not stores:
        raise UserError(
            "compare", f"has only {a} to compare", "name B as well, or two stores of it: --stores first,second"
        )
    first, second = (
        sides.read(text, lambda: _results(ctx.obj), store) for text, store in zip((a, b or a), names, strict=True)
    )
    table, alone = sides.compare(first, second)
    _show(table, first, second, alone)
    if csv_file:
        records.write_atomic(csv_file, table.to_csv(index=False, float_format="%.9g").encode())
    if latex_file:
        records.write_atomic(latex_file, comparison.comparison(table).encode())
    worse = sides.slower(table, margin, fail_on == "slower-overall") if fail_on else table.iloc[:0]
    if len(worse):
        beyond = f" by more than {margin:g} %" if margin else ""
        click.echo(f"storelab: slower{beyond}: {len(worse)} of the rows above (--fail-on {fail_on})", err=True)
        sys.exit(1)


def _results(settings: Any) -> Path:
    """Folder of all campaigns, as configured."""
    from storelab.core import config

    if settings is None or not settings.main.exists():
        return Path("results")
    return Path(config.load_rebuild(settings.main, settings.extra, config.parse_set(settings.set_)).results)


def _show(table: pd.DataFrame, a: sides.Side, b: sides.Side, alone: tuple[int, int]) -> None:
    """The table on the terminal, with what it was read from and how many verdicts chance alone may give."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # into a file or pipe: one line per row
    points = table[table["workload"] != sides.ALL]
    console.print(f"A: {joined(points['store_a'])} of {a.name}, read from {a.source}", markup=False, soft_wrap=True)
    console.print(f"B: {joined(points['store_b'])} of {b.name}, read from {b.source}", markup=False, soft_wrap=True)
    shown = Table("point", "measure", "A", "B", "runs", "B / A [95 % interval]", "B is")
    for column in (2, 3, 4, 5):
        shown.columns[column].justify = "right"
    described = sides.described(points)
    for said, row in zip(described, points.to_dict("records"), strict=True):
        shown.add_row(said, *_cells(row))
    shown.add_section()
    for row in table[table["workload"] == sides.ALL].to_dict("records"):
        shown.add_row(f"all {row['points']} points", *_cells(row))
    console.print(shown)
    for said in sides.in_common(points):
        console.print(f"Held fixed: {said}", markup=False, soft_wrap=True)
    for reason in dict.fromkeys(table["reason"].dropna()):
        console.print(f"Cannot tell: {reason}", markup=False, soft_wrap=True)
    if sum(alone):
        console.print(
            f"Without a counterpart: {words.plural(alone[0], 'point')} of A, {words.plural(alone[1], 'point')} of B"
        )
    chance = sides.by_chance(table)
    if chance:
        console.print(
            f"Were A and B the same, up to {chance:.1f} of {len(points)} rows would still differ by chance; the "
            "whole weighs more."
        )


def _cells(row: dict[str, Any]) -> list[str]:
    unit = speed.UNITS.get(row["metric"], "")
    name = row["metric"].replace("_", " ")
    interval = (
        words.spread([row["ratio"], row["low"], row["high"]])
        if row["low"] == row["low"]
        else words.number(row["ratio"])
    )
    verdict = f"[{COLOURS[row['verdict']]}]{row['verdict']}[/]" + (
        " (client-bound)" if row["client_bound"] is True else ""
    )
    medians = [words.number(row[c]) if pd.notna(row[c]) else "" for c in ("median_a", "median_b")]
    return [
        f"{name} [{unit}]".replace("[", r"\[") if unit else name,
        *medians,
        f"{row['n_a']}, {row['n_b']}",
        interval.replace("[", r"\["),
        verdict,
    ]
