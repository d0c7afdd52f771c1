"""Commands that compare: two campaigns, two stores, or a campaign that is measured repeatedly.

This module may import `analysis`, `core` and the other modules of this package. A command imports what it needs when
it runs.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings, campaigns, example, output_file, pass_settings
from storelab.cli.campaigns import complete, folder_argument
from storelab.cli.machine import json_option, print_json, rows
from storelab.core import records
from storelab.core.errors import Exit, UserError

if TYPE_CHECKING:
    from storelab.analysis.compare import Side
    from storelab.analysis.history.series import History, Series

SUBCOMMAND = "history_subcommand"  # key in the context of click: True if a command of the group is called
FAIL_ON = ("slower", "slower-overall")
KINDS = (".html", ".txt", ".pdf", ".png", ".csv")  # suffixes of the files that `history` writes
RULES = ("newest", "newest-overall", "change", "change-overall")  # values of `history --fail-on`


@click.command()
@click.argument("a", metavar="A", shell_complete=complete)
@click.argument("b", metavar="[B]", required=False, shell_complete=complete)
@click.option(
    "--stores",
    metavar="A,B",
    help="Compare two stores: the first is in A and the second in B. Without B, both are in A.",
)
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the table into FILE.",
)
@click.option(
    "--latex",
    "latex_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the table into FILE as a LaTeX longtable.",
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 1 if a point or the summary is slower (slower-overall: only the summary).",
)
@click.option(
    "--margin",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="The slowdown in percent that --fail-on tolerates.",
)
@click.option(
    "--days",
    "day_names",
    metavar="CAMPAIGN",
    multiple=True,
    help="A campaign with the same plan as A, measured on another day. Give this option at least twice, so that "
    "intervals include the variation between days.",
)
@json_option
@pass_settings
def compare(
    settings: Settings,
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
    """Show whether B is faster or slower than A, for every comparable point and for all points together.

    Ratios have 95 % intervals. Verdicts are corrected for multiple comparisons.

    A and B are names of campaigns or folders (results/x, or what `storelab quick --keep` kept), or one store of a
    campaign: x:store. The exit code is 1 if --fail-on applies, 2 if A and B cannot be compared, otherwise 0.
    """
    from storelab.analysis import compare

    names = stores.split(",") if stores else [None, None]
    if len(names) != 2:
        raise UserError("--stores", f"{stores!r} does not name two stores", "write --stores first,second")
    if b is None and not stores:
        raise UserError("compare", f"only {a} is given", "add B, or compare two stores of A: --stores first,second")
    first, second = (_side(settings, text, store) for text, store in zip((a, b or a), names, strict=True))
    if len(day_names) == 1:
        raise UserError(
            "--days", f"only one campaign is given: {day_names[0]}", "give at least two campaigns, each with --days"
        )
    days = [_side(settings, name) for name in day_names]
    table, unmatched = compare.compare(first, second, days)
    worse = compare.slower(table, margin, fail_on == "slower-overall") if fail_on else table.iloc[:0]
    if as_json:
        rule = {"fail_on": fail_on, "margin_percent": margin, "slower": len(worse) if fail_on else None}
        _print_comparison(table, first, second, unmatched, list(day_names), rule)
    else:
        compare.show(table, first, second, unmatched, days)
    if csv_file:
        records.write_atomic(csv_file, table.to_csv(index=False, float_format="%.9g").encode())
    if latex_file:
        from storelab.analysis.latex import verdicts

        records.write_atomic(latex_file, verdicts.comparison(table).encode())
    if len(worse):
        beyond = f" by more than {margin:g} %" if margin else ""
        click.echo(f"storelab: rows above that are slower{beyond}: {len(worse)} (--fail-on {fail_on})", err=True)
        sys.exit(Exit.FAILED)


def _side(settings: Settings, text: str, store: str | None = None) -> "Side":
    from storelab.analysis import compare

    name, sign, named = text.partition(":")
    if "/" not in text and not (Path(name) / "raw").is_dir():
        folder = campaigns.find(settings, name).folder
        text = text if folder.name == name else f"{folder}{sign}{named}"
    return compare.read(text, settings.results, store)


def _print_comparison(
    table: Any, a: Any, b: Any, unmatched: tuple[int, int], days: list[str], rule: dict[str, Any]
) -> None:
    """Print the comparison as JSON."""
    from storelab.analysis import compare

    axes = [str(c) for c in table.columns[3 : table.columns.get_loc("metric")]]
    compared = {
        side: {
            "name": found.name,
            "folder": str(found.folder),
            "stores": [str(s) for s in table[f"store_{side}"].dropna().unique()],
            "source": found.source,
            "days": list(compare.dates(found)),
        }
        for side, found in (("a", a), ("b", b))
    }
    print_json(
        "compare",
        **compared,
        days=days,
        other_days=compare.other_days(a, b),
        rows=rows(table, {"axes": axes}),
        unmatched_a=unmatched[0],
        unmatched_b=unmatched[1],
        **rule,
    )


class _History(click.Group):
    """A group that takes options and the argument CAMPAIGN, if the first word is not a command of the group."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [p for p in params if isinstance(p, click.Option)] if ctx.meta.get(SUBCOMMAND) else params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[SUBCOMMAND] = bool(args) and args[0] in self.commands
        if ctx.meta[SUBCOMMAND]:
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        return click.Command.parse_args(self, ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*click.Command.collect_usage_pieces(self, ctx), "| add [CAMPAIGN]"]


@click.group(cls=_History, invoke_without_command=True)
@folder_argument
@click.option("--store", help="Show this store only.")
@click.option("--since", metavar="DAY", help="Leave out entries measured before this day, like 2026-11-23.")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=output_file(*KINDS),
    help="Also write the history into FILE: a page (.html, .txt), its figure (.pdf, .png) or its table (.csv).",
)
@click.option(
    "--fail-on",
    type=click.Choice(RULES),
    help=(
        "Exit with 1 if the campaign became slower. newest: the newest entry is slower than the entries since the last "
        "change; change: the last change was a slowdown; …-overall: the summary of all points is slower."
    ),
)
@click.option(
    "--margin",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="The slowdown in percent that --fail-on tolerates.",
)
@json_option
@click.pass_context
def history(
    ctx: click.Context,
    campaign_dir: Path | None = None,
    *,
    store: str | None,
    since: str | None,
    output: Path | None,
    fail_on: str | None,
    margin: float,
    as_json: bool,
) -> None:
    """Show how a repeated campaign changed over time: medians, changes of level, and changes of the environment.

    The entries of the history are the folders results/CAMPAIGN@DATE, which `storelab history add` makes. The exit code
    is 1 if --fail-on applies, 2 if an entry cannot be read, otherwise 0.
    """
    if ctx.invoked_subcommand or campaign_dir is None:
        return
    from storelab.analysis.history import entries, series, views

    campaign = campaign_dir
    found = series.history(entries.read(campaign, store, since))
    worse = series.worse(found, fail_on, margin) if fail_on else []
    if as_json:
        rule = {"fail_on": fail_on, "margin_percent": margin, "worse": len(worse) if fail_on else None}
        print_json("history", folder=str(campaign), **_history_values(found), **rule)
    else:
        click.echo(views.page(campaign, found).text(), nl=False)
    if output:
        _write_history(output, campaign, found)
    if worse:
        beyond = f" by more than {margin:g} %" if margin else ""
        click.echo(f"storelab: series above that are slower{beyond}: {len(worse)} (--fail-on {fail_on})", err=True)
        sys.exit(Exit.FAILED)


def _write_history(path: Path, campaign: Path, found: "History") -> None:
    from storelab.analysis.history import views

    if path.suffix == ".csv":
        data = views.table(found).to_csv(index=False, float_format="%.9g").encode()
    elif path.suffix in (".html", ".txt"):
        page = views.page(campaign, found, path.suffix == ".html")
        data = (page.html() if path.suffix == ".html" else page.text()).encode()
    else:
        from storelab.analysis.figures.write import render

        data = render(views.figure(found), path.suffix[1:])
    records.write_atomic(path, data)
    click.echo(path, err=True)


def _history_values(found: "History") -> dict[str, Any]:
    """Return the history with the keys of `answers.History`."""
    from storelab.analysis.history import entries, views

    before = [found.entries[0], *found.entries]
    described = [
        {
            "name": e.name,
            "folder": str(e.folder),
            "measured": e.measured,
            "sealed": e.sealed,
            "source": e.side.source,
            "environment": entries.differences(b.facts, e.facts),
        }
        for b, e in zip(before, found.entries, strict=False)
    ]
    heads = rows(found.frame(), {"axes": found.columns})
    in_words = views.names(found)
    return {
        "entries": described,
        "series": [
            head | {"label": name} | _series_values(s, found)
            for head, name, s in zip(heads, in_words, found.series, strict=True)
        ],
    }


def _series_values(s: "Series", found: "History") -> dict[str, Any]:
    ratio, low, high = s.ratio
    names = [e.name for e in found.entries]
    return {
        "points": s.points,
        "values": [{**vars(v), "entry": names[v.entry]} for v in s.values],
        "p": s.found.p,
        "p_corrected": s.p_corrected,
        "changes": [{**vars(c), "at": names[c.at]} for c in s.steps],
        "newest": {
            "there": s.lasts,
            "before": s.newest.before,
            "ratio": ratio,
            "low": low,
            "high": high,
            "p": s.newest.p,
            "p_corrected": s.newest_p_corrected,
            "verdict": s.verdict,
        },
        "reason": s.reason or None,
    }


@history.command(epilog=example("storelab history add site"))
@folder_argument
@click.option("--with-failures", is_flag=True, help="Add the campaign even if points failed.")
@click.option("--dirty", is_flag=True, help="Add the campaign even if the code had uncommitted changes.")
@json_option
def add(campaign_dir: Path, with_failures: bool, dirty: bool, as_json: bool) -> None:
    """Seal a complete campaign, and rename results/CAMPAIGN to results/CAMPAIGN@DATE, a new entry of its history.

    The next measurement of the campaign starts from the beginning. Entries are never replaced or removed.
    """
    from storelab.analysis.history import entries

    folder = campaign_dir
    entry = entries.add(folder, with_failures, dirty)
    count = len(entries.folders(entry.with_name(entry.name.partition(entries.SIGN)[0])))
    if as_json:
        print_json("history add", folder=str(entry), entry=entry.name.partition(entries.SIGN)[2], entries=count)
        return
    click.echo(f"{folder}: is now {entry}, entry {count} of its history")
