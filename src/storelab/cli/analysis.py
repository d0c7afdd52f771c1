"""Commands that analyse a campaign. They read `results/<campaign>/raw/` and never measure.

This module may import `analysis`, `core` and the other modules of this package.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from storelab.analysis.figures import KINDS
from storelab.analysis.records.campaign import load, read_plan
from storelab.analysis.records.campaign import seal as seal_campaign
from storelab.cli import Settings, campaigns, known, pass_settings
from storelab.cli.campaigns import folder_argument, names_argument
from storelab.cli.machine import json_option, print_json, rows
from storelab.core import integrity, records, sealed
from storelab.core.errors import UserError
from storelab.core.model import PAPERS
from storelab.host import console

MAX_LISTED = 6  # maximum number of printed file names


def _report_files(paths: list[Path]) -> None:
    if not paths:
        click.echo("nothing to write")
        return
    names = [p.name for p in paths if p.suffix != ".json" or p.stem == "index"]
    if not names:
        click.echo(f"{paths[0].parent}: the campaign has no data for {', '.join(p.stem for p in paths)}")
        return
    listed = f": {', '.join(names)}" if len(names) <= MAX_LISTED else ""
    click.echo(f"{len(paths)} file{'s' if len(paths) > 1 else ''} in {paths[0].parent}{listed}")


@click.command()
@folder_argument
@json_option
def verify(campaign_dir: Path, as_json: bool) -> None:
    """Check that every planned point has its record, and that no raw file was altered."""
    from storelab.host import environment

    campaign = load(campaign_dir)
    found_seal = integrity.seal_of(campaign.raw)
    commits = [str((run.get("environment") or {}).get("git_commit") or "") for run in campaign.runs.values()]
    unknown = environment.unknown_commits(commits)
    measured, failed, files = len(campaign.runs), len(campaign.failures), len(integrity.raw_files(campaign.raw))
    if as_json:
        values = {"measured": measured, "failed": failed, "files": files, "unknown_commits": unknown}
        sealed = found_seal["time"] if found_seal else None
        print_json("verify", folder=str(campaign_dir), sealed=sealed, **values)
        return
    state = f"sealed {found_seal['time']}" if found_seal else "not sealed"
    click.echo(f"{campaign_dir}: {measured} points measured, {failed} failed, {files} files intact, {state}")
    if unknown:
        points = sum(commit.removesuffix("-dirty") in unknown for commit in commits)
        click.echo(f"note: not in this repository: {', '.join(unknown)}, the recorded commits of {points} points")


@click.command()
@folder_argument
@click.option("--with-failures", is_flag=True, help="Seal the campaign even if points failed.")
@click.option("--dirty", is_flag=True, help="Seal the campaign even if the code had uncommitted changes.")
@json_option
def seal(campaign_dir: Path, with_failures: bool, dirty: bool, as_json: bool) -> None:
    """Seal a complete campaign. After that, it is not measured again and its records do not change."""
    earlier, merged = integrity.seal_of(campaign_dir / "raw"), sealed.is_sealed_form(campaign_dir / "raw")
    found = seal_campaign(campaign_dir, with_failures, dirty)
    points, failed, time = found["points"], found["failed"], found["time"]
    if as_json:
        values = {"points": points, "failed": failed, "sealed": time, "already": earlier is not None}
        print_json("seal", folder=str(campaign_dir), **values)
        return
    state = f"already sealed {time}" if earlier else f"sealed {time}"
    if earlier and not merged:
        state += ", records now merged into few files"
    click.echo(f"{campaign_dir}: {state}, {points} points, {failed} failed")


@click.command()
@folder_argument
def tables(campaign_dir: Path) -> None:
    """Check the checksums of a campaign's raw records, and make tables/*.csv from them."""
    from storelab.analysis.tables import build as module

    console.announce(f"{campaign_dir.name}: making the tables")
    _report_files(module.build(campaign_dir))


def make_missing_tables(folder: Path) -> None:
    """Make the tables of a measured campaign if it has none, as after a clone."""
    if (folder / "raw" / integrity.PLAN).exists() and not any((folder / "tables").glob("*.csv")):
        from storelab.analysis.tables import build as module

        console.announce(f"{folder.name}: making the tables")
        made = module.build(folder)
        click.echo(f"storelab: {folder}: had no tables; {len(made)} tables were made from its records", err=True)


@click.command()
@folder_argument
@names_argument
@click.option("--stale", is_flag=True, help="Draw only figures that are older than the tables or the code.")
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Number of processes that draw in parallel."
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    default=KINDS,
    help="Write only files of this kind, and remove files of other kinds. Can be repeated.",
)
def figures(campaign_dir: Path, stale: bool, jobs: int, kinds: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Draw figures/*.pdf and *.png from the tables, and write an index of the figures that have data.

    With NAME, draw only these figures.
    """
    plan = read_plan(campaign_dir)
    from storelab.analysis.figures import catalogue, write

    every = catalogue.names(plan)
    try:
        known("figures", names, every, "figure")
    except UserError as error:
        if records.sealed(campaign_dir / "raw"):
            raise
        added = f"for a new figure of the campaign file, run `storelab run {plan.get('file', campaign_dir.name)}` first"
        raise UserError(error.place, error.problem, f"{error.hint}; {added}") from None
    make_missing_tables(campaign_dir)
    console.announce(f"{campaign_dir.name}: drawing {len(names or every)} figures")
    if names:
        _report_files(write.build(campaign_dir, names, jobs, kinds))
        return
    from storelab.cli.workflow import stale_figures

    drawn = write.build(campaign_dir, stale_figures(campaign_dir, plan, kinds) if stale else every, jobs, kinds)
    # The index is written last, because Snakemake takes its time stamp for the time of all figures.
    _report_files([*drawn, write.index(campaign_dir)])


def paper_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--paper-dir DIR` to a command, which gets the Path `paper_dir`."""
    return click.option(
        "--paper-dir",
        default="paper",
        show_default=True,
        type=click.Path(path_type=Path),
        help="The folder of the templates: paper.tex and its sections.",
    )(command)


@click.command()
@folder_argument
@names_argument
@paper_dir_option
def latex(campaign_dir: Path, paper_dir: Path, names: tuple[str, ...]) -> None:
    """Write tex/*.tex: LaTeX tables, and the paper from its templates. With NAME, write only these files."""
    from storelab.analysis import latex as module

    known("latex", names, module.TEX, "file")
    console.announce(f"{campaign_dir.name}: writing the LaTeX files")
    _report_files(module.build(campaign_dir, names or None, paper_dir))
    from storelab.analysis.latex import parts

    if lost := parts.lost_names():
        click.echo(
            f"Warning: the fonts of the paper lack these characters, which are printed as ?: {', '.join(lost)}",
            err=True,
        )


@click.command()
@folder_argument
@click.option(
    "--layout",
    type=click.Choice(list(PAPERS)),
    default="article",
    show_default=True,
    help="For joined campaigns: article has one column; conference and evaluations have two, and a PDF of this name.",
)
def paper(campaign_dir: Path, layout: str) -> None:
    """Typeset the paper of a campaign or of joined campaigns as paper.pdf. This needs LaTeX."""
    from storelab.analysis.latex import typeset

    console.announce(f"{campaign_dir.name}: typesetting the paper")
    click.echo(typeset.build(campaign_dir, layout))


@click.command()
@folder_argument
def report(campaign_dir: Path) -> None:
    """Write report.html: summary, verdicts, figures, tables and all points, in one file that works without network."""
    from storelab.analysis.report import build as module

    console.announce(f"{campaign_dir.name}: making the page")
    path = module.build(campaign_dir)
    click.echo(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


@click.command()
@folder_argument
@json_option
def verdict(campaign_dir: Path, as_json: bool) -> None:
    """Show what limited each store, for each workload and object size, with the evidence in tables/verdicts.csv."""
    from storelab.analysis.tables import build as tables
    from storelab.analysis.tables import verdicts

    make_missing_tables(campaign_dir)
    found = tables.read(campaign_dir, "verdicts")
    if found.empty:
        raise UserError(
            str(campaign_dir), "has no measured point with a rate", "run `storelab verify` to see failed points"
        )
    if as_json:
        print_json("verdict", folder=str(campaign_dir), verdicts=rows(found))
        return
    click.echo("\n".join(verdicts.lines(found)))


@click.command()
@folder_argument
@click.option(
    "--output",
    default="docs/capabilities.md",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The file of the page.",
)
def capabilities(campaign_dir: Path, output: Path) -> None:
    """Write a page with the capabilities of each store, from the probe points of a campaign."""
    from storelab.analysis import pages
    from storelab.analysis.tables import build as tables

    table = tables.read(campaign_dir, "capabilities")
    if table.empty:
        hint = "measure a campaign with probe points, for example campaigns/probes.yaml"
        raise UserError(str(campaign_dir), "has no measured point of the workload probe", hint)
    name = records.read_json(campaign_dir / "raw" / "plan.json")["campaign"]["name"]
    records.write_atomic(output, pages.capabilities_page(table, name, str(campaign_dir)).encode())
    click.echo(output)


@click.command()
@click.argument("names", metavar="CAMPAIGN...", nargs=-1, required=True, shell_complete=campaigns.complete)
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The output folder; default: papers/<names of the campaigns>, next to the campaigns.",
)
@paper_dir_option
@pass_settings
def join(settings: Settings, names: tuple[str, ...], output: Path | None, paper_dir: Path) -> None:
    """Join campaigns in one paper: tables over all of them, and the LaTeX that `storelab paper` typesets.

    CAMPAIGN is a name or a folder (results/x). Its tables, figures and LaTeX files must exist. `make paper
    CAMPAIGN="x y"` makes them, and then the paper.
    """
    from storelab.analysis import papers
    from storelab.analysis.papers import write

    folders = [campaigns.find(settings, name).folder for name in names]
    out = output or papers.place(folders[0].parent, [folder.name for folder in folders])
    made = write.build(folders, out, paper_dir)
    click.echo(f"{len(made)} files in {out}")


@click.command()
@click.argument("what", metavar="[CAMPAIGN] WHAT...", nargs=-1, required=True, shell_complete=campaigns.complete)
@click.option(
    "--campaign-dir",
    type=click.Path(path_type=Path, file_okay=False),
    hidden=True,
    help="The older way to give the folder of the campaign.",
)
@click.option("--all", "every", is_flag=True, help="List all points instead of only the first ones.")
@pass_settings
def explain(settings: Settings, what: tuple[str, ...], campaign_dir: Path | None, every: bool) -> None:
    """Show the table rows, points, records and commit from which a result was made.

    WHAT is a code that is printed in a paper, a file (results/x/figures/y.pdf, results/x/tables/y.csv), the name of a
    number in numbers.csv, or a claim. Without CAMPAIGN, all campaigns that have tables are searched. If the named or
    the configured campaign has no tables, they are made first.
    """
    from storelab.analysis import explain as module
    from storelab.analysis.papers import members

    if len(what) > 1 and not campaign_dir and campaigns.exists(settings, what[0]):
        campaign_dir, what = campaigns.find(settings, what[0]).folder, what[1:]
    results = settings.results()
    folders = [campaign_dir] if campaign_dir else members.everything(results)
    of_files = [Path(text).parent.parent for text in what]
    named = [] if all(map(members.is_campaign, of_files)) else [campaign_dir or settings.configured_folder()]
    for folder in dict.fromkeys([*named, *of_files]):
        make_missing_tables(folder)
    for text in what:
        found = module.found(text, folders, results, settings.configured_folder())
        if isinstance(found, Path):
            lines = list(module.paper_lines(found, text))
        else:
            lines = [line for thing in found for line in module.text(thing, every)]
        click.echo("\n".join(lines))


@click.command()
@folder_argument
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8087, show_default=True, help="The port; 0 takes any free port."
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. If it is not loopback, other machines can open the page, and its URL has a token.",
)
def live(campaign_dir: Path, port: int, address: str) -> None:
    """Serve a page that shows CAMPAIGN while it is measured: points done and to do, time left, rates, errors, CPU.

    The measurement can start later. Prometheus can read the metrics at the address of the page plus /metrics. Ctrl-C
    ends the server but not the measurement.
    """
    from storelab.analysis.report.live import address as addresses

    listening, token = addresses.listen(address, port), addresses.token_for(address)
    click.echo(f"storelab: {campaign_dir.name}: {addresses.url(address, listening, token)} (Ctrl-C ends it)", err=True)
    os.nice(10)  # low priority, because the server must not disturb the measurement
    from storelab.analysis.report.live import serve  # imported here, because it takes seconds on a busy machine

    serve.run(campaign_dir, listening, token)
