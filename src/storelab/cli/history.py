"""`storelab history`: a campaign that was measured again and again (room `cli`).

May import: `analysis`, `core`, the other modules of this room; what a command needs is imported when it runs.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings, example
from storelab.cli.machine import json_option, rows, say
from storelab.core import records
from storelab.core.errors import Exit, UserError

if TYPE_CHECKING:
    from storelab.analysis.history.series import History, Series

KINDS = (".html", ".txt", ".pdf", ".png", ".csv")
RULES = ("newest", "newest-overall", "change", "change-overall")


def _output(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """Raises UserError: a kind of file that is none, or no folder for it."""
    if value and value.suffix not in KINDS:
        raise UserError("--output", f"{str(value)!r} is no kind that it writes", f"end it in {', '.join(KINDS)}")
    if value and not value.parent.is_dir():
        raise UserError("--output", f"{str(value.parent)!r} is no folder", "name a file in one that is there")
    return value


def _folder(settings: Settings, given: Path | None) -> Path:
    return given or settings.load().campaign_dir


FOLDER = click.option(
    "--campaign-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder of the campaign, without a date; default: the one that the configuration names.",
)


@click.group(invoke_without_command=True)
@FOLDER
@click.option("--store", help="Show this store only.")
@click.option("--since", metavar="DAY", help="Leave out entries measured before this day, like 2026-11-23.")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_output,
    help="Write it into FILE, too: a page (.html, .txt), its figure (.pdf, .png) or its table (.csv).",
)
@click.option(
    "--fail-on",
    type=click.Choice(RULES),
    help=(
        "Exit with 1 if the newest entry is slower than those since the last change (newest), or if the last change "
        "was for the worse (change); …-overall: only over all points."
    ),
)
@click.option(
    "--margin", type=click.FloatRange(0), default=0.0, show_default=True, help="How many percent --fail-on forgives."
)
@json_option
@click.pass_context
def history(
    ctx: click.Context,
    campaign_dir: Path | None,
    store: str | None,
    since: str | None,
    output: Path | None,
    fail_on: str | None,
    margin: float,
    as_json: bool,
) -> None:
    """Show a campaign that was measured again and again: medians over time, where they changed, and what else did.

    Its entries are the folders results/CAMPAIGN@DATE, which `storelab history add` makes. Exit codes: 0; 1 as --fail-on
    says; 2 where something is wrong with an entry.
    """
    if ctx.invoked_subcommand:
        return
    from storelab.analysis.history import entries, said, series

    campaign = _folder(ctx.obj, campaign_dir)
    found = series.history(entries.read(campaign, store, since))
    worse = series.worse(found, fail_on, margin) if fail_on else []
    if as_json:
        own = {"fail_on": fail_on, "margin_percent": margin, "worse": len(worse) if fail_on else None}
        say("history", folder=str(campaign), **_told(found), **own)
    else:
        click.echo(said.page(campaign, found).text(), nl=False)
    if output:
        _write(output, campaign, found)
    if worse:
        beyond = f" by more than {margin:g} %" if margin else ""
        click.echo(f"storelab: slower{beyond}: {len(worse)} of the series above (--fail-on {fail_on})", err=True)
        sys.exit(Exit.FAILED)


def _write(path: Path, campaign: Path, found: "History") -> None:
    from storelab.analysis.history import said

    if path.suffix == ".csv":
        data = said.table(found).to_csv(index=False, float_format="%.9g").encode()
    elif path.suffix in (".html", ".txt"):
        page = said.page(campaign, found, path.suffix == ".html")
        data = (page.html() if path.suffix == ".html" else page.text()).encode()
    else:
        from storelab.analysis.figures.write import render

        data = render(said.figure(found), path.suffix[1:])
    records.write_atomic(path, data)
    click.echo(path, err=True)


def _told(found: "History") -> dict[str, Any]:
    """The history, as `answers.History` declares it."""
    from storelab.analysis.history import entries, said

    before = [found.entries[0], *found.entries]
    each = [
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
    in_words = said.names(found)
    return {
        "entries": each,
        "series": [
            head | {"said": name} | _of_series(s, found)
            for head, name, s in zip(heads, in_words, found.series, strict=True)
        ],
    }


def _of_series(s: "Series", found: "History") -> dict[str, Any]:
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


@history.command(epilog=example("storelab history add --campaign-dir results/site"))
@FOLDER
@click.option("--with-failures", is_flag=True, help="Add it although points failed.")
@json_option
@click.pass_obj
def add(settings: Settings, campaign_dir: Path | None, with_failures: bool, as_json: bool) -> None:
    """Seal a complete campaign, and keep it as the entry of its day: results/CAMPAIGN becomes results/CAMPAIGN@DATE.

    The next measuring of the campaign begins anew. No entry is ever replaced or removed.
    """
    from storelab.analysis.history import entries

    folder = _folder(settings, campaign_dir)
    entry = entries.add(folder, with_failures)
    count = len(entries.folders(entry.with_name(entry.name.partition(entries.SIGN)[0])))
    if as_json:
        say("history add", folder=str(entry), entry=entry.name.partition(entries.SIGN)[2], entries=count)
        return
    click.echo(f"{folder}: is now {entry}, entry {count} of its history")
