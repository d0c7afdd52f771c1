"""`storelab live`: the page of a campaign while it is measured (room `cli`).

May import: `analysis`, `core`; it never measures.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from storelab.core.errors import UserError, require_known

if TYPE_CHECKING:
    from storelab.cli import Settings

PORT = 8087
NICE = 10  # who measures goes first


@click.command()
@click.argument("campaign", required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="The port; 0 takes any that is free."
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Where it listens. Other machines reach any other than loopback; the page's address then has a token.",
)
@click.pass_obj
def live(settings: "Settings", campaign: str | None, port: int, address: str) -> None:
    """Serve the page of CAMPAIGN while it is measured: points done and to come, time left, rates, errors, CPU.

    CAMPAIGN is the name of a campaign; default: the one that is configured. It may begin later. Below the page's
    address lies /metrics for Prometheus. Ctrl-C ends it; whoever measures does not notice.
    """
    folder = _folder(settings, campaign)
    os.nice(NICE)
    from storelab.analysis.report.live import serve

    def say(url: str) -> None:
        click.echo(f"storelab: {folder.name}: {url} (Ctrl-C ends it)", err=True)

    serve.run(folder, address, port, say)


def _folder(settings: "Settings", name: str | None) -> Path:
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
