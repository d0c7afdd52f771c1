"""Commands about papers of several campaigns, and about where their numbers come from (room `cli`). They never measure.

May import: `analysis`, `core`.
"""

from pathlib import Path

import click

from storelab.cli.analysis import paper_dir_option


@click.command()
@click.argument("campaigns", metavar="CAMPAIGN...", nargs=-1, required=True)
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where it is written; default: papers/<their names> beside the campaigns.",
)
@paper_dir_option
@click.pass_context
def join(ctx: click.Context, campaigns: tuple[str, ...], output: Path | None, paper_dir: Path) -> None:
    """Join campaigns to one paper: tables over all of them, and the LaTeX that `storelab paper` typesets.

    CAMPAIGN is a folder (results/x) or a name. Their tables, figures and LaTeX must be there: `make paper
    CAMPAIGN="x y"` makes all.
    """
    from storelab.analysis.papers import names, write

    folders = [_folder(ctx, text) for text in campaigns]
    out = output or names.place(folders[0].parent, [folder.name for folder in folders])
    paths = write.build(folders, out, paper_dir)
    click.echo(f"{len(paths)} files in {out}: {', '.join(p.name for p in paths)}")


@click.command()
@click.argument("what", metavar="WHAT...", nargs=-1, required=True)
@click.option(
    "--campaign-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look in this campaign alone; default: in all that have tables.",
)
@click.option("--all", "every", is_flag=True, help="Name all points, not only the first few.")
@click.pass_context
def explain(ctx: click.Context, what: tuple[str, ...], campaign_dir: Path | None, every: bool) -> None:
    """Say where something comes from: from which rows of which table, which points and records, which commit.

    WHAT is a code of a paper, a file (results/x/figures/y.pdf, results/x/tables/y.csv), a number of numbers.csv, its
    macro (NumBestThroughputDownload), or a claim.
    """
    from storelab.analysis import explain as module
    from storelab.analysis.papers import members

    results = _results(ctx)
    folders = [campaign_dir] if campaign_dir else members.everything(results)
    for text in what:
        found = module.found(text, folders, results, ctx.obj.own() if ctx.obj else None)
        if isinstance(found, Path):
            lines = list(module.of_paper(found, text))
        else:
            lines = [line for thing in found for line in module.text(thing, every)]
        click.echo("\n".join(lines))


def _folder(ctx: click.Context, text: str) -> Path:
    """The folder of a campaign that is named by it, or by its name."""
    path = Path(text)
    return path if path.exists() or len(path.parts) > 1 else _results(ctx) / text


def _results(ctx: click.Context) -> Path:
    return ctx.obj.results() if ctx.obj else Path("results")
