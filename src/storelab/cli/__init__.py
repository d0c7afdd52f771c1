"""The command line, and the functions that the Snakefile calls. Each group of commands has its own module.

May import: every package. Commands import what they need when they run.
"""

import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from storelab import __version__, quiet
from storelab.core.errors import (
    Exit,
    MeasurementFailed,
    UserError,
    memory_error,
    missing_package,
    require_known,
    shown,
    system_error,
    without_tokens,
)
from storelab.host.processes import no_core_dumps

# Tables and figures consist of many small objects that live until they are written. With Python's default thresholds,
# garbage collection takes 4 to 9 % of their CPU time.
GARBAGE = 50_000, 5, 10


class Known(NamedTuple):
    """A command: its module in this package, a sentence for the help, and an example."""

    module: str
    does: str
    example: str


# Purpose -> commands for it. They are listed here so that `--help` does not import their modules.
COMMANDS = {
    "Look at a store": {
        "quick": Known(
            "quick",
            "Measure an S3 endpoint for about five minutes and print one page.",
            "storelab quick https://s3.example.org --profile lab",
        ),
        "doctor": Known("stores", "Check whether this machine and its stores are ready.", "storelab doctor"),
    },
    "Start a project": {
        "init": Known(
            "artefact", "Create a project folder: rules, configuration, campaigns.", "storelab init laboratory"
        ),
    },
    "Plan a campaign": {
        "check": Known(
            "measuring",
            "Check the configuration, and show what the campaign needs.",
            "storelab --set campaign=site check",
        ),
        "plan": Known("measuring", "List the points in the order of measuring.", "storelab --set campaign=site plan"),
        "size": Known(
            "cluster",
            "Estimate how many clients fill a link.",
            'storelab size --link "20 Gbit/s" --client-link "1 Gbit/s"',
        ),
    },
    "Manage stores": {
        "install": Known(
            "stores", "Install the software for a store, an engine or a testbed.", "storelab install minio"
        ),
        "up": Known("stores", "Start a store, or check whether it answers.", "storelab up seaweedfs --front-ends 2"),
        "down": Known("stores", "Stop stores, and keep their data.", "storelab down --all"),
        "status": Known("stores", "Show the state of all stores.", "storelab status"),
        "clean": Known(
            "measuring",
            "Remove the buckets and objects of a campaign from its stores.",
            "storelab --set campaign=site clean site",
        ),
    },
    "Measure (make measure and Snakemake call these)": {
        "stage": Known(
            "measuring", "Upload the data sets of the campaign.", "storelab --set campaign=site stage --store seaweedfs"
        ),
        "measure": Known(
            "measuring", "Measure one point.", "storelab --set campaign=demo measure seaweedfs/put/clients~0004_rep~001"
        ),
        "live": Known("analysis", "Serve the page of a campaign while it is measured.", "storelab live demo"),
        "collect": Known(
            "measuring",
            "Check that all points are measured, and write checksums.",
            "storelab --set campaign=site collect",
        ),
        "seal": Known("analysis", "Seal a campaign: it is never measured again.", "storelab --set campaign=site seal"),
    },
    "Make the paper (make paper calls these)": {
        "verify": Known(
            "analysis",
            "Check that no record is missing or altered.",
            "storelab verify --campaign-dir results/reference",
        ),
        "tables": Known(
            "analysis", "Make the tables from the records.", "storelab tables --campaign-dir results/reference"
        ),
        "figures": Known(
            "analysis",
            "Draw the figures from the tables.",
            "storelab figures --campaign-dir results/reference entries",
        ),
        "latex": Known(
            "analysis", "Write the paper's LaTeX from the tables.", "storelab latex --campaign-dir results/reference"
        ),
        "join": Known(
            "analysis", "Join several campaigns in one paper.", "storelab join results/reference results/compared"
        ),
        "paper": Known("analysis", "Typeset the paper.", "storelab paper --campaign-dir results/reference"),
        "report": Known(
            "analysis",
            "Write the report of a campaign: one HTML file.",
            "storelab report --campaign-dir results/reference",
        ),
    },
    "Interpret results": {
        "verdict": Known(
            "analysis", "Show what limited each store.", "storelab verdict --campaign-dir results/reference"
        ),
        "compare": Known(
            "compare",
            "Compare two campaigns or two stores.",
            "storelab compare results/reference results/mine --fail-on slower",
        ),
        "history": Known(
            "compare",
            "Show how the results of a repeated campaign changed over time.",
            "storelab history --campaign-dir results/site --fail-on newest",
        ),
        "explain": Known(
            "analysis",
            "Show where a figure, a table or a number comes from.",
            "storelab explain results/reference/figures/entries.pdf",
        ),
        "capabilities": Known(
            "analysis",
            "Write a page with the capabilities of stores.",
            "storelab capabilities --campaign-dir results/probes --output capabilities.md",
        ),
    },
    "Share a campaign": {
        "pack": Known("artefact", "Pack a campaign into one file that others can rebuild.", "storelab pack reference"),
        "unpack": Known(
            "artefact", "Check a pack, unpack it and rebuild it.", "storelab unpack reference.crate.zip elsewhere"
        ),
    },
    "Learn and develop": {
        "testbed": Known(
            "cluster", "Create a Slurm cluster or an HTCondor pool on this machine.", "storelab testbed up --nodes 4"
        ),
        "completion": Known("reference", "Print the completion script for a shell.", "storelab completion bash"),
        "docs": Known("reference", "Write the documentation generated from the code.", "storelab docs --check"),
    },
}


def example(*lines: str) -> str:
    """Return the last paragraph of a command's help."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


class LazyGroup(click.Group):
    """A group that imports the module of a command only when it is called, because client processes must start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        known = next((section[name] for section in COMMANDS.values() if name in section), None)
        if known is None:
            return None
        command = getattr(importlib.import_module(f"storelab.cli.{known.module}"), name)
        command.short_help, command.epilog = known.does, example(known.example)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command. Raises UserError for an unknown name, with the most similar one."""
        if args and not args[0].startswith("-"):
            require_known(shown(args[0]), args[0], self.list_commands(ctx), "is not a command", "one of:")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), known.does) for name, known in section.items()])


def known(command: str, names: Iterable[str], available: Sequence[str], noun: str) -> None:
    """Raise UserError for the first name that is not available."""
    for name in names:
        require_known(command, name, available, f"there is no {noun} {shown(name)}", "one of")


def output_file(*kinds: str) -> Callable[[click.Context, click.Parameter, Path | None], Path | None]:
    """Return the callback of an option for an output file that must have one of these suffixes (`.html`)."""

    def check(_: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
        if value and value.suffix not in kinds:
            problem = f"{str(value)!r} has a suffix that is not supported"
            raise UserError(option.opts[0], problem, f"use {' or '.join(kinds)}")
        if value and not value.parent.is_dir():
            problem = f"{str(value.parent)!r} is not a folder"
            raise UserError(option.opts[0], problem, "name a file in an existing folder")
        return value

    return check


class Settings:
    """The global options. The configuration is read only when a command needs it."""

    def __init__(self, config: str = "config.yaml", configfile: tuple[str, ...] = (), set_: tuple[str, ...] = ()):
        self.main, self.extra, self.set_ = Path(config), [Path(p) for p in configfile], set_

    def load(self):
        """Return the configuration."""
        from storelab.core.config import parse_set
        from storelab.stores import config

        return config.load(self.main, self.extra, parse_set(self.set_))

    def load_with(self, more: dict[str, Any]):
        """Return the configuration. `more` overrides the files, and the command line overrides `more`."""
        from storelab.core.config import merge, parse_set
        from storelab.stores import config

        return config.load(self.main, self.extra, merge(more, parse_set(self.set_)))

    def results(self) -> Path:
        """Return the configured folder of all campaigns; without a configuration, the default folder."""
        return self._rebuilt()[0]

    def configured_folder(self) -> Path:
        """Return the folder of the configured campaign. It may not exist."""
        return Path(*self._rebuilt())

    def _rebuilt(self) -> tuple[Path, str]:
        from storelab.core.config import parse_set
        from storelab.stores import config

        if not self.main.exists():
            return Path("results"), ""
        light = config.load_rebuild(self.main, self.extra, parse_set(self.set_))
        return Path(light.results), light.name

    def overruled(self) -> str | None:
        """Return a line with stores of `stores_to_measure` that the campaign file replaces; None if there are none."""
        from storelab.core import config

        return config.overruled(self.main, self.extra, config.parse_set(self.set_))


pass_settings = click.make_pass_decorator(Settings, ensure=True)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=example("storelab --set campaign=site check", "storelab check --help"),
)
@click.version_option(__version__)
@click.option("--config", metavar="FILE", default="config.yaml", show_default=True, help="The main configuration file.")
@click.option(
    "--configfile",
    multiple=True,
    metavar="FILE",
    help="An additional YAML file; it overrides the main file and the campaign file. The last one wins.",
)
@click.option(
    "--set",
    "set_",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one value, for example limits.clients=8; it overrides all files.",
)
@click.pass_context
def cli(ctx: click.Context, config: str, configfile: tuple[str, ...], set_: tuple[str, ...]) -> None:
    """Measure storage the way High Energy Physics uses it, and rebuild a paper from the measured records."""
    ctx.obj = Settings(config, configfile, set_)


def main() -> None:
    """Run the command line. Exit codes are in `core.errors.Exit`; user errors are printed on one line with a hint."""
    for ending in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: end in order what was begun
        if signal.getsignal(ending) == signal.SIG_DFL:  # not under nohup
            signal.signal(ending, lambda number, _: sys.exit(Exit(128 + number)))
    open_closed_streams()
    escape_unprintable()
    gc.set_threshold(*GARBAGE)
    no_core_dumps()
    try:
        if signal.getsignal(signal.SIGINT) is quiet:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = cli.main(prog_name="storelab", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else Exit.DONE)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt, BrokenPipeError):
        sys.exit(Exit.INTERRUPTED)
    except (UserError, MeasurementFailed, click.ClickException, OSError, MemoryError, ModuleNotFoundError) as error:
        click.echo(f"storelab: {one_line(error)}", err=True)
        sys.exit(Exit.FAILED if isinstance(error, MeasurementFailed) else Exit.MISTAKE)


def open_closed_streams() -> None:
    """Open the null device for standard streams that the caller closed.

    Otherwise the next opened file gets the number of that stream, and the output of libraries is written into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - the stream of this process


def escape_unprintable() -> None:
    """Escape what the encoding of standard output lacks, as Python does for standard error.

    Otherwise a locale without UTF-8, or a file name that is not UTF-8, ends a command with a traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def one_line(error: Exception) -> str:
    """Return the line that is printed for an error that ends a command."""
    if isinstance(error, OSError):  # a full or read-only disk; a folder that is missing, a file, or not accessible
        return str(system_error(error))
    if isinstance(error, MemoryError):
        return str(memory_error())
    if isinstance(error, ModuleNotFoundError):
        return str(missing_package(error))
    if not isinstance(error, click.ClickException):
        return str(error)
    context = getattr(error, "ctx", None)
    path = context.command_path.removeprefix("storelab").strip() if context else ""
    message = without_tokens(" ".join(error.format_message().split()).rstrip("."))
    if isinstance(error, click.UsageError) and "did you mean" not in message.lower():
        message += f"; see `storelab {path}{' ' if path else ''}--help`"
    return f"{path}: {message}" if path else message
