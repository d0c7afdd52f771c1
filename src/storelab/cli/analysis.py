"""Commands of the analysis side (room `cli`): they read `results/<campaign>/raw/` and never measure.

May import: `analysis`, `core`, the other modules of this room.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from storelab.analysis.figures import KINDS
from storelab.analysis.records.campaign import load, read_plan
from storelab.analysis.records.campaign import seal as seal_campaign
from storelab.cli import Settings, known, pass_settings
from storelab.cli.machine import json_option, rows, say
from storelab.core import evidence, records, sealed
from storelab.core.errors import UserError, require_known


def campaign_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--campaign-dir DIR`; without it, the campaign of the configuration. The command gets `campaign_dir`, a Path."""

    def folder(ctx: click.Context, _: click.Parameter, value: str | None) -> Path:
        return Path(value) if value else ctx.obj.load().campaign_dir

    return click.option(
        "--campaign-dir",
        metavar="DIR",
        callback=folder,
        help="The folder of the campaign; default: the one that the configuration names.",
    )(command)


def said(paths: list[Path]) -> None:
    names = ", ".join(p.name for p in paths if p.suffix != ".json" or p.stem == "index")
    click.echo(f"{len(paths)} files in {paths[0].parent}: {names}" if paths else "nothing to write")


@click.command()
@campaign_option
@json_option
def verify(campaign_dir: Path, as_json: bool) -> None:
    """Check that every planned point has its record, and that no raw file was altered."""
    campaign = load(campaign_dir)
    seal_found = evidence.seal_of(campaign.raw)
    measured, failed, files = len(campaign.runs), len(campaign.failures), len(evidence.raw_files(campaign.raw))
    if as_json:
        sealed = seal_found["time"] if seal_found else None
        say("verify", folder=str(campaign_dir), measured=measured, failed=failed, files=files, sealed=sealed)
        return
    state = f"sealed {seal_found['time']}" if seal_found else "not sealed"
    click.echo(f"{campaign_dir}: {measured} points measured, {failed} failed, {files} files intact, {state}")


@click.command()
@campaign_option
@click.option("--with-failures", is_flag=True, help="Seal it although points failed.")
@json_option
def seal(campaign_dir: Path, with_failures: bool, as_json: bool) -> None:
    """Close a complete campaign: it is not measured again, and its records stay as they are."""
    was, few = evidence.seal_of(campaign_dir / "raw"), sealed.is_sealed_form(campaign_dir / "raw")
    now = seal_campaign(campaign_dir, with_failures)
    if as_json:
        told = {"points": now["points"], "failed": now["failed"], "sealed": now["time"], "already": was is not None}
        say("seal", folder=str(campaign_dir), **told)
        return
    state = f"{'already ' if was else ''}sealed {now['time']}" + (", now in few files" if was and not few else "")
    click.echo(f"{campaign_dir}: {state}, {now['points']} points, {now['failed']} failed")


@click.command()
@campaign_option
def tables(campaign_dir: Path) -> None:
    """Make tables/*.csv of a campaign from its raw records, whose checksums are verified first."""
    from storelab.analysis.tables import build as module

    said(module.build(campaign_dir))


@click.command()
@campaign_option
@click.option("--stale", is_flag=True, help="Draw only figures that are older than the tables or than their own code.")
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many processes draw side by side."
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    default=KINDS,
    help="Write only files of this kind; of a figure that is drawn, those of other kinds go. May be given again.",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def figures(campaign_dir: Path, stale: bool, jobs: int, kinds: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Draw figures/*.pdf and *.png from the tables, and write an index of those that have data.

    With NAME, only these figures are drawn.
    """
    plan = read_plan(campaign_dir)
    from storelab.analysis.figures import catalogue, write

    every = catalogue.names(plan)
    known("figures", names, every, "figure")
    if names:
        said(write.build(campaign_dir, names, jobs, kinds))
        return
    from storelab.cli.workflow import stale_figures

    drawn = write.build(campaign_dir, stale_figures(campaign_dir, plan, kinds) if stale else every, jobs, kinds)
    said([*drawn, write.index(campaign_dir)])  # last: it stands for all of them


def paper_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--paper-dir DIR`; the command gets `paper_dir`, a Path."""
    return click.option(
        "--paper-dir",
        default="paper",
        show_default=True,
        type=click.Path(path_type=Path),
        help="The folder of the templates: paper.tex and its sections.",
    )(command)


@click.command()
@campaign_option
@paper_dir_option
@click.argument("names", nargs=-1, metavar="[NAME]...")
def latex(campaign_dir: Path, paper_dir: Path, names: tuple[str, ...]) -> None:
    """Write tex/*.tex: LaTeX tables, and the paper from its templates. With NAME, only these files are written."""
    from storelab.analysis import latex as module

    known("latex", names, module.TEX, "file")
    said(module.build(campaign_dir, names or None, paper_dir))
    from storelab.analysis.latex import parts

    if lost := parts.lost_names():
        click.echo(
            f"Warning: the fonts of the paper lack these characters, which are printed as ?: {', '.join(lost)}",
            err=True,
        )


@click.command()
@campaign_option
@click.option(
    "--layout",
    type=click.Choice(["article", "conference"]),
    default="article",
    show_default=True,
    help="Of several campaigns that were joined: one column, or two (conference.pdf).",
)
def paper(campaign_dir: Path, layout: str) -> None:
    """Typeset the paper of a campaign, or of several that were joined, as paper.pdf. This needs LaTeX."""
    from storelab.analysis.latex import typeset

    click.echo(typeset.build(campaign_dir, layout))


@click.command()
@campaign_option
def report(campaign_dir: Path) -> None:
    """Write report.html: summary, verdicts, figures, tables and every point, in one file that needs no network."""
    from storelab.analysis.report import build as module

    path = module.build(campaign_dir)
    click.echo(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


@click.command()
@campaign_option
@json_option
def verdict(campaign_dir: Path, as_json: bool) -> None:
    """Say what limited each store, by workload and object size, with the evidence (from tables/verdicts.csv)."""
    from storelab.analysis.tables import build as tables
    from storelab.analysis.tables import verdicts

    found = tables.read(campaign_dir, "verdicts")
    if found.empty:
        raise UserError(str(campaign_dir), "has no measured point with a rate", "see `storelab verify` for what failed")
    if as_json:
        say("verdict", folder=str(campaign_dir), verdicts=rows(found))
        return
    click.echo("\n".join(verdicts.lines(found)))


@click.command()
@campaign_option
@click.option(
    "--output",
    default="docs/capabilities.md",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the page is written.",
)
def capabilities(campaign_dir: Path, output: Path) -> None:
    """Write a page of what each store can do, from the probe points of a campaign."""
    from storelab.analysis import pages
    from storelab.analysis.tables import build as tables

    table = tables.read(campaign_dir, "capabilities")
    if table.empty:
        mend = "measure one that has, e.g. --set campaign=systems"
        raise UserError(str(campaign_dir), "has no point of the workload probe", mend)
    name = records.read_json(campaign_dir / "raw" / "plan.json")["campaign"]["name"]
    records.write_atomic(output, pages.capabilities_page(table, name, str(campaign_dir)).encode())
    click.echo(output)


@click.command()
@click.argument("campaigns", metavar="CAMPAIGN...", nargs=-1, required=True)
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where it is written; default: papers/<their names> beside the campaigns.",
)
@paper_dir_option
@pass_settings
def join(settings: Settings, campaigns: tuple[str, ...], output: Path | None, paper_dir: Path) -> None:
    """Join campaigns to one paper: tables over all of them, and the LaTeX that `storelab paper` typesets.

    CAMPAIGN is a folder (results/x) or a name. Their tables, figures and LaTeX must be there: `make paper
    CAMPAIGN="x y"` makes all.
    """
    from storelab.analysis import papers
    from storelab.analysis.papers import write

    results = settings.results()
    paths = [Path(text) for text in campaigns]
    folders = [path if path.exists() or len(path.parts) > 1 else results / path for path in paths]
    out = output or papers.place(folders[0].parent, [folder.name for folder in folders])
    made = write.build(folders, out, paper_dir)
    click.echo(f"{len(made)} files in {out}: {', '.join(p.name for p in made)}")


@click.command()
@click.argument("what", metavar="WHAT...", nargs=-1, required=True)
@click.option(
    "--campaign-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look in this campaign alone; default: in all that have tables.",
)
@click.option("--all", "every", is_flag=True, help="Name all points, not only the first few.")
@pass_settings
def explain(settings: Settings, what: tuple[str, ...], campaign_dir: Path | None, every: bool) -> None:
    """Say where something comes from: from which rows of which table, which points and records, which commit.

    WHAT is a code of a paper, a file (results/x/figures/y.pdf, results/x/tables/y.csv), a number of numbers.csv, or
    a claim.
    """
    from storelab.analysis import explain as module
    from storelab.analysis.papers import members

    results = settings.results()
    folders = [campaign_dir] if campaign_dir else members.everything(results)
    for text in what:
        found = module.found(text, folders, results, settings.own())
        if isinstance(found, Path):
            lines = list(module.of_paper(found, text))
        else:
            lines = [line for thing in found for line in module.text(thing, every)]
        click.echo("\n".join(lines))


@click.command()
@click.argument("campaign", required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8087, show_default=True, help="The port; 0 takes any that is free."
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Where it listens. Other machines reach any other than loopback; the page's address then has a token.",
)
@click.pass_obj
def live(settings: Settings, campaign: str | None, port: int, address: str) -> None:
    """Serve the page of CAMPAIGN while it is measured: points done and to come, time left, rates, errors, CPU.

    CAMPAIGN is the name of a campaign; default: the one that is configured. It may begin later. Below the page's
    address lies /metrics for Prometheus. Ctrl-C ends it; whoever measures does not notice.
    """
    folder = _live_folder(settings, campaign)
    os.nice(10)  # measuring goes first
    from storelab.analysis.report.live import serve

    def say(url: str) -> None:
        click.echo(f"storelab: {folder.name}: {url} (Ctrl-C ends it)", err=True)

    serve.run(folder, address, port, say)


def _live_folder(settings: Settings, name: str | None) -> Path:
    """The campaign's folder. Raises UserError: nobody measured a campaign of this name, and none is configured."""
    if name is None:
        return settings.own()
    results = settings.results()
    if (folder := results / name).is_dir() and name not in ("", ".", ".."):
        return folder
    from storelab.core import config

    there = sorted(p.name for p in results.iterdir() if (p / "raw").is_dir()) if results.is_dir() else []
    names = sorted({*config.names_of_campaigns(settings.main.parent), *there})
    if not names:
        raise UserError("live", f"there is no campaign {name!r}", "name one that is in campaigns/ or results/")
    require_known("live", name, names, f"there is no campaign {name!r}", "one of")
    return folder
