"""Commands of the analysis side (level 4): they read `results/<campaign>/raw/` and never measure."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from storelab.analysis.records.campaign import load, seal_of
from storelab.analysis.records.campaign import seal as seal_campaign
from storelab.core import records
from storelab.core.errors import UserError


def campaign_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--campaign-dir DIR`; without it, the campaign of the configuration. The command gets `campaign_dir`, a Path."""

    def folder(ctx: click.Context, _: click.Parameter, value: str | None) -> Path:
        return Path(value) if value else ctx.obj.load().campaign_dir

    return click.option(
        "--campaign-dir", metavar="DIR", callback=folder, help="Folder of the campaign; default: that of the configuration."
    )(command)


def said(paths: list[Path]) -> None:
    click.echo(f"{len(paths)} files in {paths[0].parent}: {', '.join(p.name for p in paths)}" if paths else "nothing to write")


@click.command()
@campaign_option
def verify(campaign_dir: Path) -> None:
    """Check that every planned point has its record and that no raw file was altered."""
    campaign = load(campaign_dir)
    seal_found = seal_of(campaign_dir)
    state = f"sealed {seal_found['time']}" if seal_found else "not sealed"
    click.echo(
        f"{campaign_dir}: {len(campaign.runs)} points measured, {len(campaign.failures)} failed, "
        f"{len(records.raw_files(campaign.raw))} files intact, {state}"
    )


@click.command()
@campaign_option
@click.option("--with-failures", is_flag=True, help="Seal although points failed.")
def seal(campaign_dir: Path, with_failures: bool) -> None:
    """Close a complete campaign: it is not measured again, and its records are not altered."""
    was = seal_of(campaign_dir)
    now = seal_campaign(campaign_dir, with_failures)
    click.echo(f"{campaign_dir}: {'already ' if was else ''}sealed {now['time']}, {now['points']} points, {now['failed']} failed")


@click.command()
@campaign_option
def tables(campaign_dir: Path) -> None:
    """Raw records to tables/*.csv."""
    from storelab.analysis.tables import build as module

    said(module.build(campaign_dir))


@click.command()
@campaign_option
def figures(campaign_dir: Path) -> None:
    """Tables to figures/*.pdf and *.png, with an index of what has data."""
    from storelab.analysis.figures import write

    said(write.build(campaign_dir))


@click.command()
@campaign_option
def latex(campaign_dir: Path) -> None:
    """Tables and figures to tex/*.tex: macros, tables, captions."""
    from storelab.analysis.latex import write as module

    said(module.build(campaign_dir))


@click.command()
@campaign_option
@click.option(
    "--paper-dir", default="paper", show_default=True, type=click.Path(path_type=Path), help="Folder of paper.tex and its sections."
)
def paper(campaign_dir: Path, paper_dir: Path) -> None:
    """Typeset the paper of a campaign to paper.pdf (needs LaTeX)."""
    from storelab.analysis.latex import typeset

    click.echo(typeset.build(campaign_dir, paper_dir))


@click.command()
@campaign_option
def verdict(campaign_dir: Path) -> None:
    """What limited each store, by workload and object size, and the evidence (from tables/verdicts.csv)."""
    from storelab.analysis.tables import build as tables
    from storelab.analysis.tables import verdicts

    found = tables.read(campaign_dir, "verdicts")
    if found.empty:
        raise UserError(str(campaign_dir), "has no measured point with a rate", "see `storelab verify` for what failed")
    click.echo("\n".join(verdicts.lines(found)))


@click.command()
@campaign_option
@click.option("--output", default="docs/capabilities.md", show_default=True, type=click.Path(path_type=Path), help="The page.")
def capabilities(campaign_dir: Path, output: Path) -> None:
    """Generate docs/capabilities.md from the probe points of a campaign."""
    from storelab.analysis import capabilities_page
    from storelab.analysis.tables import build as tables

    table = tables.read(campaign_dir, "capabilities")
    if table.empty:
        raise UserError(str(campaign_dir), "has no point of the workload probe", "measure one that has, e.g. --set campaign=systems")
    records.write_atomic(output, capabilities_page.page(table, campaign_dir.name, str(campaign_dir)).encode())
    click.echo(output)


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where the page is out of step.")
@click.option("--output", default="docs/configuration.md", show_default=True, type=click.Path(path_type=Path), help="The page.")
def docs(check: bool, output: Path) -> None:
    """Generate docs/configuration.md from the configuration's models and the workloads' axes."""
    from storelab.cli import reference

    text = reference.configuration()
    if not check:
        records.write_atomic(output, text.encode())
        click.echo(output)
    elif not output.exists() or output.read_text() != text:
        click.echo(f"storelab: {output} is out of step with the configuration's models; run `storelab docs`", err=True)
        sys.exit(1)
