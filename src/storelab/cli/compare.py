"""`storelab compare A B`: which of two campaigns or stores is faster, point by point and over all."""

import sys
from pathlib import Path
from typing import Any

import click

from storelab.cli.machine import json_option, rows, say
from storelab.core import records
from storelab.core.errors import Exit, UserError

FAIL_ON = ("slower", "slower-overall")


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", required=False)
@click.option(
    "--stores",
    metavar="A,B",
    help="Compare these two stores: one of A and one of B, or, without B, two of one campaign.",
)
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the table into FILE, too.",
)
@click.option(
    "--latex",
    "latex_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it into FILE as a LaTeX longtable, too.",
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 1 if a point or the whole is slower (slower-overall: only the whole).",
)
@click.option(
    "--margin", type=click.FloatRange(0), default=0.0, show_default=True, help="How many percent --fail-on forgives."
)
@click.option(
    "--days",
    "day_names",
    metavar="CAMPAIGN",
    multiple=True,
    help="A campaign like A, of another day. Name several, so that intervals hold what a day may do.",
)
@json_option
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
    day_names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say how fast B is beside A: faster, slower or cannot tell, for every comparable point and over all.

    Ratios have 95 % intervals; verdicts are corrected for their number.

    A and B are folders of campaigns (results/x) or their names, or one store of a campaign: results/x:store. Exit
    codes: 0; 1 as --fail-on says; 2 where something is wrong with A or B.
    """
    from storelab.analysis.compare import sides, terminal

    names = stores.split(",") if stores else [None, None]
    if len(names) != 2:
        raise UserError("--stores", f"{stores!r} does not name two stores", "write --stores first,second")
    if b is None and not stores:
        raise UserError(
            "compare", f"has only {a} to compare", "name B as well, or two stores of it: --stores first,second"
        )
    first, second = (
        sides.read(text, lambda: _results(ctx), store) for text, store in zip((a, b or a), names, strict=True)
    )
    if len(day_names) == 1:
        raise UserError("--days", f"{day_names[0]} is one day alone", "name two campaigns or more, each by --days")
    days = [sides.read(name, lambda: _results(ctx)) for name in day_names]
    table, alone = sides.compare(first, second, days)
    worse = sides.slower(table, margin, fail_on == "slower-overall") if fail_on else table.iloc[:0]
    if as_json:
        own = {"fail_on": fail_on, "margin_percent": margin, "slower": len(worse) if fail_on else None}
        _say(table, first, second, alone, list(day_names), own)
    else:
        terminal.show(table, first, second, alone, days)
    if csv_file:
        records.write_atomic(csv_file, table.to_csv(index=False, float_format="%.9g").encode())
    if latex_file:
        from storelab.analysis.latex import verdicts

        records.write_atomic(latex_file, verdicts.comparison(table).encode())
    if len(worse):
        beyond = f" by more than {margin:g} %" if margin else ""
        click.echo(f"storelab: slower{beyond}: {len(worse)} of the rows above (--fail-on {fail_on})", err=True)
        sys.exit(Exit.FAILED)


def _say(table: Any, a: Any, b: Any, alone: tuple[int, int], days: list[str], own: dict[str, Any]) -> None:
    """The comparison as JSON."""
    from storelab.analysis.compare import sides

    axes = [str(c) for c in table.columns[3 : table.columns.get_loc("metric")]]
    compared = {
        side: {
            "name": of.name,
            "folder": str(of.folder),
            "stores": [str(s) for s in table[f"store_{side}"].dropna().unique()],
            "source": of.source,
            "days": list(sides.dates(of)),
        }
        for side, of in (("a", a), ("b", b))
    }
    say(
        "compare",
        **compared,
        days=days,
        other_days=sides.other_days(a, b),
        rows=rows(table, {"axes": axes}),
        alone_a=alone[0],
        alone_b=alone[1],
        **own,
    )


def _results(ctx: click.Context) -> Path:
    return ctx.obj.results() if ctx.obj else Path("results")
