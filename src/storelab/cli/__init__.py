"""The command line and what the Snakefile needs: one sub-command per act, each side of the cut in its own module.

May import: every room; what a command needs is imported when it runs.
"""

import importlib
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from storelab import __version__
from storelab.core.errors import MeasurementFailed, UserError, require_known

COMMANDS = {
    "stores": ("doctor", "install", "up", "down", "status"),
    "measuring": ("check", "plan", "stage", "measure", "collect", "clean"),
    "analysis": ("seal", "verify", "tables", "figures", "latex", "paper", "verdict", "capabilities", "docs"),
    "compare": ("compare",),
    "cluster": ("testbed", "size"),
}


class LazyGroup(click.Group):
    """Import only the side that a command needs: a client process must start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [c for side in COMMANDS.values() for c in side]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        side = next((side for side, names in COMMANDS.items() if name in names), None)
        return getattr(importlib.import_module(f"storelab.cli.{side}"), name) if side else None


def known(command: str, names: Iterable[str], there: Sequence[str], noun: str) -> None:
    """Raises UserError at the first name that is not `there`."""
    for name in names:
        require_known(command, name, there, f"there is no {noun} {name!r}", "one of")


class Settings:
    """Global options; the configuration is read only when a command asks for it."""

    def __init__(self, config: str, configfile: tuple[str, ...], set_: tuple[str, ...]):
        self.main, self.extra, self.set_ = Path(config), [Path(p) for p in configfile], set_

    def load(self):
        from storelab.core import config

        return config.load(self.main, self.extra, config.parse_set(self.set_))

    def overruled(self) -> str | None:
        from storelab.core import config

        return config.overruled(self.main, self.extra, config.parse_set(self.set_))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__)
@click.option("--config", default="config.yaml", show_default=True, help="The main configuration file.")
@click.option(
    "--configfile",
    multiple=True,
    help="Further YAML files, merged over it and the campaign file; the last one wins.",
)
@click.option(
    "--set",
    "set_",
    multiple=True,
    metavar="KEY=VALUE",
    help="One value, e.g. --set limits.clients=8; wins over all files.",
)
@click.pass_context
def cli(ctx: click.Context, config: str, configfile: tuple[str, ...], set_: tuple[str, ...]) -> None:
    """storelab measures storage the way High Energy Physics uses it, and rebuilds a paper from what it measured."""
    ctx.obj = Settings(config, configfile, set_)


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 a measurement failed, 2 a person's mistake: one line with the mend."""
    for told in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: what was begun is ended in order
        if signal.getsignal(told) == signal.SIG_DFL:  # not under nohup
            signal.signal(told, lambda number, _: sys.exit(128 + number))
    try:
        code = cli.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)
    except (UserError, MeasurementFailed, click.ClickException) as error:
        line = error.format_message() if isinstance(error, click.ClickException) else error
        click.echo(f"storelab: {line}", err=True)
        sys.exit(1 if isinstance(error, MeasurementFailed) else 2)
