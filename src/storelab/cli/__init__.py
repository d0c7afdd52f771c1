"""The command line, and the functions that the Snakefile calls. Each group of commands has its own module.

This package may import every other package. A command imports what it needs when it runs.
"""

import gc
import importlib
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from storelab import __version__, quiet
from storelab.core.errors import (
    Exit,
    MeasurementFailed,
    UserError,
    lacks_processes,
    memory_error,
    missing_package,
    process_error,
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
    """The entry of one command: the module that defines it, a sentence for the help, and an example."""

    module: str
    does: str
    example: str


# Heading of the help -> its commands. This list lets `--help` print all commands without importing their modules.
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
            "storelab check site",
        ),
        "plan": Known("measuring", "List the points in the order of their measurement.", "storelab plan site"),
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
            "storelab clean site",
        ),
    },
    "Measure (run calls the others)": {
        "run": Known(
            "run",
            "Measure a campaign, and make its paper and its page.",
            "storelab run demo scale=0.1",
        ),
        "stage": Known("measuring", "Upload the data sets of the campaign.", "storelab stage site --store seaweedfs"),
        "measure": Known("measuring", "Measure one point.", "storelab measure demo seaweedfs/put/clients~0004_rep~001"),
        "live": Known("analysis", "Serve the page of a campaign while it is measured.", "storelab live demo"),
        "collect": Known(
            "measuring",
            "Check that all points are measured, and write checksums.",
            "storelab collect site",
        ),
        "seal": Known("analysis", "Seal a campaign, so that it is never measured again.", "storelab seal site"),
    },
    "Make the paper (make paper calls these)": {
        "verify": Known(
            "analysis",
            "Check that no record is missing or altered.",
            "storelab verify reference",
        ),
        "tables": Known("analysis", "Make the tables from the records.", "storelab tables reference"),
        "figures": Known(
            "analysis",
            "Draw the figures from the tables.",
            "storelab figures reference entries",
        ),
        "latex": Known("analysis", "Write the paper's LaTeX from the tables.", "storelab latex reference"),
        "join": Known("analysis", "Join several campaigns in one paper.", "storelab join reference compared"),
        "paper": Known("analysis", "Typeset the paper.", "storelab paper reference"),
        "report": Known(
            "analysis",
            "Write the report of a campaign: one HTML file.",
            "storelab report reference",
        ),
    },
    "Interpret results": {
        "verdict": Known("analysis", "Show what limited each store.", "storelab verdict reference"),
        "compare": Known(
            "compare",
            "Compare two campaigns or two stores.",
            "storelab compare reference mine --fail-on slower",
        ),
        "history": Known(
            "compare",
            "Show how the results of a repeated campaign changed over time.",
            "storelab history site --fail-on newest",
        ),
        "explain": Known(
            "analysis",
            "Show where a figure, a table or a number comes from.",
            "storelab explain reference entries",
        ),
        "capabilities": Known(
            "analysis",
            "Write a page with the capabilities of stores.",
            "storelab capabilities probes --output capabilities.md",
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
    """Return the example lines as the last paragraph of a command's help."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


OPTION_NAMES = {  # words that users write as commands, and the hint
    "help": "write `storelab --help`, or `storelab COMMAND --help`",
    "version": "write `storelab --version`",
}


class LazyGroup(click.Group):
    """A group that imports the module of a command only when the command is called.

    Client processes of a measurement also start through this command line, and must start fast.
    """

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
        """Return the command. An unknown name raises a UserError that suggests the most similar name."""
        if args and not args[0].startswith("-"):
            if args[0] in OPTION_NAMES:
                raise UserError(args[0], "is not a command", OPTION_NAMES[args[0]])
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
    """Return an option callback that raises a UserError unless the output file has one of these suffixes (`.html`).

    The folder of the file must exist.
    """

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

    def __init__(
        self,
        config: str = "config.yaml",
        configfile: tuple[str, ...] = (),
        set_: tuple[str, ...] = (),
        chosen: Mapping[str, Any] | None = None,
    ):
        self.main, self.extra, self.set_ = Path(config), [Path(p) for p in configfile], set_
        self.chosen = chosen or {}

    def choosing(self, values: Mapping[str, Any]) -> "Settings":
        """Return these settings with values that override all others: those that choose a campaign."""
        other = Settings(set_=self.set_, chosen={**self.chosen, **values})
        other.main, other.extra = self.main, self.extra
        return other

    def adding(self, configfile: Iterable[str], set_: Iterable[str]) -> "Settings":
        """Return these settings with additional files and values."""
        other = Settings(set_=(*self.set_, *set_), chosen=self.chosen)
        other.main, other.extra = self.main, [*self.extra, *map(Path, configfile)]
        return other

    def options(self) -> list[str]:
        """Return the options of the command line that give these settings."""
        files = [word for path in self.extra for word in ("--configfile", str(path))]
        values = self.overrides().items()
        return [*files, *(word for key, value in values for word in ("--set", f"{key}={json.dumps(value)}"))]

    def overrides(self) -> dict[str, Any]:
        """Return the values of the command line."""
        from storelab.core.config import merge, parse_set

        return merge(parse_set(self.set_), self.chosen)

    def set_campaign(self) -> Any:
        """Return the campaign that `--set` names; None without one."""
        return self.overrides().get("campaign")

    def sets(self, key: str) -> bool:
        """Return whether the command line or an additional file sets this key."""
        from storelab.core.config import read_yaml

        return key in self.overrides() or any(key in read_yaml(path) for path in self.extra)

    def load(self):
        """Return the configuration."""
        from storelab.stores import config

        return config.load(self.main, self.extra, self.overrides())

    def load_with(self, more: dict[str, Any]):
        """Return the configuration with the values of `more`.

        They override the configuration files; the command line overrides them.
        """
        from storelab.core.config import merge
        from storelab.stores import config

        return config.load(self.main, self.extra, merge(more, self.overrides()))

    def results(self) -> Path:
        """Return the folder that contains all campaigns: `results`, unless the configuration names another folder."""
        return self._rebuilt()[0]

    def configured_folder(self) -> Path:
        """Return the folder of the configured campaign. It may not exist."""
        return Path(*self._rebuilt())

    def _rebuilt(self) -> tuple[Path, str]:
        from storelab.stores import config

        if not self.main.exists():
            return Path("results"), ""
        light = config.load_rebuild(self.main, self.extra, self.overrides())
        return Path(light.results), light.name

    def overruled(self) -> str | None:
        """Return a warning if the campaign file replaces `stores_to_measure` of the main file; otherwise None."""
        from storelab.core import config

        return config.overruled(self.main, self.extra, self.overrides())


pass_settings = click.make_pass_decorator(Settings, ensure=True)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=example("storelab check site", "storelab check --help"),
)
@click.version_option(__version__)
@click.option("--config", metavar="FILE", default="config.yaml", show_default=True, help="The main configuration file.")
@click.option(
    "--configfile",
    multiple=True,
    metavar="FILE",
    help="An additional YAML file that overrides the main file and the campaign file. If given several times, the "
    "last file wins.",
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
    """Run the command line, and exit with a code of `core.errors.Exit`.

    A user error is printed on one line with a hint.
    """
    # These signals end the command like Ctrl-C: `finally` blocks run. Under nohup, SIGHUP stays ignored.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda received, _: sys.exit(Exit(128 + received)))
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
    except click.exceptions.NoArgsIsHelpError as error:  # `storelab` without a command: its message is the help
        click.echo(error.format_message())
        sys.exit(Exit.DONE)
    except (click.Abort, KeyboardInterrupt, BrokenPipeError):
        sys.exit(Exit.INTERRUPTED)
    except RuntimeError as error:
        if not lacks_processes(error):
            raise
        click.echo(f"storelab: {process_error()}", err=True)
        sys.exit(Exit.MISTAKE)
    except (UserError, MeasurementFailed, click.ClickException, OSError, MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and not (isinstance(error, ModuleNotFoundError) or _lacks_memory(error)):
            raise
        click.echo(f"storelab: {one_line(error)}", err=True)
        sys.exit(Exit.FAILED if isinstance(error, MeasurementFailed) else Exit.MISTAKE)


def open_closed_streams() -> None:
    """Open the null device for standard streams that the caller closed.

    Otherwise the next opened file would get the number of that stream, and libraries would print into this file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - the stream of this process


def escape_unprintable() -> None:
    """Escape characters that standard output cannot encode, as Python does for standard error.

    Otherwise a locale without UTF-8, or a file name that is not UTF-8, would end a command with a traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _global_option(error: click.ClickException) -> str | None:
    """Return the global option that the user wrote after the command, or needs for a value; None for other errors."""
    if isinstance(error, click.NoSuchOption):
        names = {name: option for option in cli.params for name in option.opts if isinstance(option, click.Option)}
        return f"{error.option_name} {names[error.option_name].metavar}" if error.option_name in names else None
    value = re.search(r"unexpected extra argument \((\w[\w.-]*=\S*)\)", error.message)
    return f"--set {value[1]}" if value else None


def _lacks_memory(error: ImportError) -> bool:
    """Return whether a library could not be loaded because the memory is limited (ulimit -v)."""
    return any(words in str(error) for words in ("failed to map segment", "annot allocate memory"))


def one_line(error: Exception) -> str:
    """Return the line to print for an error that ends a command."""
    if isinstance(error, OSError):  # for example a full disk, or a folder that is missing or not accessible
        return str(system_error(error))
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _lacks_memory(error)):
        return str(memory_error())
    if isinstance(error, ModuleNotFoundError):
        return str(missing_package(error))
    if not isinstance(error, click.ClickException):
        return str(error)
    context = getattr(error, "ctx", None)
    path = context.command_path.removeprefix("storelab").strip() if context else ""
    message = without_tokens(" ".join(error.format_message().split()).rstrip("."))
    if path and (early := _global_option(error)):
        return f"{path}: {message}; write it before the command: `storelab {early} {path} …`"
    if isinstance(error, click.UsageError) and "did you mean" not in message.lower():
        message += f"; see `storelab {path}{' ' if path else ''}--help`"
    return f"{path}: {message}" if path else message
