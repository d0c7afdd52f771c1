"""The command `storelab run CAMPAIGN`: check, measure, collect, and make paper and page, all by Snakemake.

This module may import every package. It imports what it needs when it runs.
"""

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings, campaigns, workflow
from storelab.core.errors import NO_PROJECT, UserError, require_known, shown

if TYPE_CHECKING:
    from storelab.core.config import Config
    from storelab.core.model import Point

FORWARD = "envs/forward.sh"  # script that forwards signals to Snakemake and all its child processes
WORD = re.compile(r"[A-Za-z][\w./-]*")  # values that Snakemake does not change
PROFILES = Path("profiles")


def _complete_profile(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return campaigns.beginning(incomplete, _profiles())


@click.command()
@click.argument("words", nargs=-1, metavar="[CAMPAIGN] [KEY=VALUE]...", shell_complete=campaigns.complete)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="With a batch system, the number of jobs that are submitted at a time; otherwise the number of cores to use. "
    "Measurements always run one at a time.",
)
@click.option(
    "--profile",
    default="local",
    show_default=True,
    shell_complete=_complete_profile,
    help="The profile of Snakemake: a folder in profiles/, or a path.",
)
@click.option("--no-paper", is_flag=True, help="Only measure and collect; make no tables, no figures, paper and page.")
@click.option("--configfile", multiple=True, metavar="FILE", help="An additional YAML file, as before the command.")
@click.pass_obj
def run(
    settings: Settings,
    words: tuple[str, ...],
    jobs: int | None,
    profile: str,
    no_paper: bool,
    configfile: tuple[str, ...],
) -> None:
    """Measure the missing points of CAMPAIGN, and make its paper and its page.

    It checks the configuration, the space and the programs, measures, collects, makes tables, figures, paper.pdf and
    report.html, and stops the stores that it started. Values of the configuration are given as KEY=VALUE, for example
    `scale=0.1`. If points fail, the paper is made from the others. Run the command again to measure the missing points.
    Exit codes: 0; 1 if a point failed; 2 if something is wrong with the arguments or the configuration; 130 after
    Ctrl-C.
    """
    if not Path("Snakefile").is_file():
        raise UserError("run", "there is no Snakefile in this folder", NO_PROJECT)
    if settings.main != Path("config.yaml"):
        problem = f"--config {settings.main} is not possible, because the Snakefile reads config.yaml"
        raise UserError("run", problem, "rename the file, or add it with --configfile")
    if importlib.util.find_spec("snakemake") is None:
        # `main` prints this error with the extra to install
        raise ModuleNotFoundError("No module named 'snakemake'", name="snakemake")
    from storelab.cli import measuring
    from storelab.core import records
    from storelab.measure import attempts, check

    folder = _profile_folder(profile)
    named, values = _split(words)
    chosen = campaigns.configured(settings.adding(configfile, values), named)
    values = chosen.overrides()
    snakemake = [sys.executable, "-m", "storelab.cli.snakemake", "--profile", str(folder), *_jobs(folder, jobs)]
    if chosen.extra:
        snakemake += ["--configfile", *map(str, chosen.extra)]
    paper = "paper" if shutil.which("latexmk") else "figures"  # without LaTeX, make everything except the PDF
    targets = ["measured"] if no_paper else [paper, "write_report"]
    storelab = shlex.join([sys.executable, "-m", "storelab", *chosen.options()])
    without_failed = [*snakemake, "--config", *config_words({**values, "measure": False}), "--", *targets]
    config, points = measuring.load_for_plan(chosen)
    if records.sealed(config.raw):
        hint = f"measure it with another name (name=mine), or rebuild its paper: make paper CAMPAIGN={config.campaign}"
        raise UserError(str(config.raw), "the campaign is sealed and cannot be measured again", hint)
    check.writable(config)
    with attempts.run_lock(config):
        _check(config, points)
        _forward(
            [*snakemake, "--config", *config_words({**values, "measure": True}), "--", *targets],
            "" if no_paper else f"{storelab} verify >/dev/null 2>&1 && {shlex.join(without_failed)}",
            f"{storelab} down --planned >/dev/null",
        )


def _split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the campaign, if the first word is one, and the settings. Raises UserError for other words."""
    named = words[0] if words and "=" not in words[0] else None
    values = list(words if named is None else words[1:])
    for word in values:
        if "=" not in word:
            raise UserError("run", f"{shown(word)} is not a setting", "write key=value, for example scale=0.1")
    return named, values


def _profile_folder(name: str) -> Path:
    """Return the folder of a profile of Snakemake. Raises UserError if it does not exist."""
    for folder in (PROFILES / name, Path(name)):
        if name and (folder / "config.yaml").is_file():
            return folder
    require_known("--profile", name, _profiles(), f"there is no profile {shown(name)}", "one of")
    raise UserError("--profile", f"there is no profile {shown(name)}", "give a folder with a config.yaml")


def _profiles() -> list[str]:
    return sorted(p.parent.name for p in PROFILES.glob("*/config.yaml") if p.parent.name != "default")


def _jobs(folder: Path, jobs: int | None) -> list[str]:
    """Return the options of Snakemake for the number of jobs or cores."""
    from storelab.core.config import read_yaml

    if jobs is None:
        return []
    return ["--jobs" if "executor" in read_yaml(folder / "config.yaml") else "--cores", str(jobs)]


def _check(config: "Config", points: "list[Point]") -> None:
    """Raise UserError if the campaign cannot be measured, before Snakemake starts."""
    from storelab.cli.measuring import load_stores
    from storelab.core import integrity
    from storelab.measure import check, plan_file
    from storelab.workloads import WORKLOADS

    plan_file.refuse_differences(config, points)
    todo = integrity.missing(config.raw, [p.key for p in points])
    if todo:
        stores = load_stores(config)
        check.everything(config, points, WORKLOADS, stores)
        missing = [p for p in points if p.key in {*todo}]
        check.free_ports(missing, stores)
        for name in dict.fromkeys(p.store for p in missing):
            if not stores[name].managed:
                stores[name].up()  # only checks that it answers: otherwise every point would fail with this error
    click.echo(f"{config.name}: {len(todo)} of {len(points)} points are to be measured; starting Snakemake", err=True)


def config_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words of Snakemake's `--config` for these values.

    Snakemake reads values inside of lists and mappings as text. Therefore values other than words are given as JSON,
    which `workflow.typed` reads. The JSON has no blanks, because Snakemake reads it as YAML, where `: ` begins a
    mapping and ` #` a comment.
    """

    def text(value: Any) -> str:
        if isinstance(value, str) and WORD.fullmatch(value):
            return value
        listed = json.dumps([value], separators=(",", ":"))  # as a list, because Snakemake strips quotation marks
        return workflow.JSON + listed.replace(" ", "\\u0020")

    return [f"{key}={text(value)}" for key, value in values.items()]


def _forward(command: Sequence[str], otherwise: str, after: str) -> None:
    """Replace this process by a shell that runs `command`, then `otherwise` if points failed, and `after` at the end.

    No Python process stays in memory during the measurement.
    """
    from storelab.install import project

    environ = os.environ | {"OTHERWISE": otherwise, "AFTER": after}
    environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the shell would inherit this
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe("bash", ["bash", str(project.shipped(FORWARD)), *command], environ)
