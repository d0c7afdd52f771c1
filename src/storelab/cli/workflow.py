"""Functions that the Snakefile calls when Snakemake reads it: they return the plan, and decide whether to measure.

Without `measure: true`, the Snakefile does not include the measuring rules, and the raw records must exist. This module
may import every package. Modules that only a measurement needs are imported when a campaign is measured.
"""

import json
import logging
import math
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storelab.analysis import papers
from storelab.analysis.figures import KINDS
from storelab.analysis.parts import derived
from storelab.analysis.records import links
from storelab.cli import Settings, campaigns
from storelab.core import config, integrity, records, sealed
from storelab.core.errors import Exit, UserError, system_error
from storelab.core.model import PAPERS, Point
from storelab.stores.config import load, load_rebuild

# A shell function for the rules, which copies its input to the terminal and into a log. Braces are doubled for
# Snakemake.
LOGGED = "logged() {{ (trap '' INT TERM HUP; exec tee \"$1\" >&2); }}; "
JSON = "json:"  # begin of a value that is a JSON list with one value
START_S = 120  # upper limit from the start of a job to the start of its point: Snakemake starts twice, maybe slowly


@dataclass(frozen=True)
class Workflow:
    """The values that the rules need.

    Attributes
    ----------
    measuring
        Whether the measuring rules are included.
    campaign_dir
        Folder of the campaign; for a paper of several campaigns, the folder of the paper.
    raw_inputs
        Files that the tables depend on.
    datasets
        Markers of the data sets that a point needs, by point key. Snakemake stages them first.
    nodes, minutes
        Number of nodes and walltime of each point's job, by point key. Only batch systems use them.
    members
        For a paper of several campaigns, the values of each campaign.
    pdf
        File name of the paper.
    """

    measuring: bool
    campaign_dir: str
    command: str
    raw_inputs: list[str]
    points: dict[str, Point] = field(default_factory=dict)
    datasets: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    minutes: dict[str, int] = field(default_factory=dict)
    members: tuple["Workflow", ...] = ()
    pdf: str = "paper.pdf"
    layout: str = "article"

    @property
    def kinds(self) -> str:
        """Return the options of `storelab figures` that select the kinds of files.

        A joined paper does not need PNG files, which take a fifth of the drawing time.
        """
        return " ".join(f"--kind {kind}" for kind in (KINDS[:1] if self.members else KINDS))

    @property
    def campaigns(self) -> dict[str, "Workflow"]:
        """Return the values of every campaign, by folder."""
        return {flow.campaign_dir: flow for flow in self.members or (self,)}

    @property
    def pattern(self) -> str:
        """Return a regular expression that matches the folders of the campaigns. It constrains the rules' wildcard."""
        return "|".join(map(re.escape, self.campaigns))

    @property
    def places(self) -> str:
        """Return the folders of the campaigns, for messages."""
        return ", ".join(self.campaigns)

    @property
    def indexes(self) -> list[str]:
        """Return the two files of every campaign that represent all figures and all files of `tex/`."""
        return self.in_each_campaign(["figures/index.json", "tex/paper.tex"])

    def in_each_campaign(self, names: Iterable[str]) -> list[str]:
        """Return the paths of these files in every campaign."""
        wanted = list(names)
        return [f"{folder}/{name}" for folder in self.campaigns for name in wanted]

    @property
    def tables(self) -> list[str]:
        """Return the paths of all tables of all campaigns."""
        return [path for folder in self.campaigns for path in tables(folder)]


def table_names() -> tuple[str, ...]:
    """Return the names of all tables."""
    from storelab.analysis.tables import build

    return tuple(build.NAMES)


def tex_names() -> tuple[str, ...]:
    """Return the names of all files of `tex/`."""
    from storelab.analysis import latex

    return tuple(latex.TEX)


def tables(folder: str) -> list[str]:
    """Return the paths of all tables of a campaign."""
    return [f"{folder}/tables/{name}.csv" for name in table_names()]


def set_options(overrides: Mapping[str, Any]) -> str:
    """Return Snakemake's merged `--configfile` and `--config` values as `--set` options of storelab."""
    return "".join(f" --set {shlex.quote(f'{key}={json.dumps(value)}')}" for key, value in overrides.items())


def typed(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overrides with the values that `storelab run` gave to Snakemake as JSON."""
    return {
        key: json.loads(value.removeprefix(JSON))[0] if isinstance(value, str) and value.startswith(JSON) else value
        for key, value in overrides.items()
    }


def start(overrides: Mapping[str, Any], main_process: bool = True) -> Workflow:
    """Return the result of `prepare`. After a user error, print one line and end Snakemake with exit code 2."""
    try:
        flow = prepare(typed(overrides), verifying=main_process)
        if flow.measuring:
            from storelab.host import console
            from storelab.measure import attempts

            os.environ.setdefault(attempts.RUN, f"{os.getpid()}:{time.time_ns()}")
            os.environ.setdefault(console.NAMED, console.name_here(sys.stderr))
        return flow
    except (UserError, OSError) as error:
        print(f"storelab: {system_error(error) if isinstance(error, OSError) else error}", file=sys.stderr)
        sys.exit(Exit.MISTAKE)


def prepare(
    overrides: Mapping[str, Any],
    main: Path = Path("config.yaml"),
    verifying: bool = True,
    kinds: Sequence[str] = KINDS,
) -> Workflow:
    """Return the values that the rules need.

    Parameters
    ----------
    overrides
        The merged values of Snakemake's `--configfile` and `--config`.
    main
        The main configuration file.
    verifying
        Whether to compare all raw files with their checksums, even if Snakemake considers everything up to date. It is
        False in jobs of a batch system, which also read the Snakefile.
    kinds
        The kinds of files that each figure must have.

    Raises
    ------
    UserError
        The configuration is wrong, a sealed campaign would be measured, or records for a rebuild are missing or
        altered.
    """
    named = overrides.get("campaign")
    if isinstance(named, str) and len(several := named.split()) > 1:
        return prepare_joined([campaign_overrides(overrides, name, main) for name in several], main, verifying)
    if isinstance(named, str):
        overrides = campaign_overrides(overrides, named, main)
    light = load_rebuild(main, (), overrides)
    if light.layout != "article" and not light.measure:
        return prepare_joined([overrides], main, verifying)
    campaign_dir = Path(light.results) / light.name
    raw = campaign_dir / "raw"
    command = f"storelab{set_options(overrides)}"
    if verifying:
        correct_times(campaign_dir)
    forget_empty_marks(campaign_dir, kinds)
    if not light.measure:
        damaged_tables = derived.damaged_tables(campaign_dir, table_names()) if verifying else []
        for path in damaged_tables:
            path.unlink()
        if damaged_tables:
            more = f" (and {len(damaged_tables) - 1} more tables)" if len(damaged_tables) > 1 else ""
            print(
                f"storelab: {damaged_tables[0]}{more}: differs from what the records give; made again",
                file=sys.stderr,
            )
        return Workflow(False, str(campaign_dir), command, existing(raw, light.name, verifying))
    if records.sealed(raw):
        raise UserError(
            str(raw),
            "the campaign is sealed and cannot be measured again",
            "set measure=false to rebuild its paper, or set another name=… to measure it again",
        )
    from storelab.core import plan
    from storelab.measure import collect, deployment, plan_file
    from storelab.workloads import WORKLOADS

    full = load(main, (), overrides)
    if line := config.overruled(main, (), overrides):
        print(f"storelab: {line}", file=sys.stderr)
    planned = plan.make(full, WORKLOADS)
    plan_file.refuse_differences(full, planned)  # if all markers exist, no rule runs that would report differences
    points = {p.key: p for p in planned}
    deployment.use(full, planned)  # the stores are in use until Snakemake ends
    status = campaign_dir / "status"
    damaged = collect.damaged(full, planned) if verifying else {}
    stale = [key for key in points if key in damaged or not (raw / key / "run.json").exists()]
    changed = not plan_file.up_to_date(full, planned, WORKLOADS)
    collect_again = bool(stale) or changed or (verifying and not integrity.is_collected(raw))
    # If a record is missing, remove its marker, so that Snakemake runs its rule.
    invalid = [f"{key}.done" for key in stale] + ["plan"] * changed + ["collected"] * collect_again
    for marker in invalid:
        (status / marker).unlink(missing_ok=True)
    marks = f"{status}/staged"
    read = {k: [part.point.dataset for part in p.parts() if part.point.dataset] for k, p in points.items()}
    staged = {k: [f"{marks}/{points[k].store}/{d['name']}.done" for d in sets] for k, sets in read.items()}
    return Workflow(
        True,
        str(campaign_dir),
        command,
        [f"{status}/collected"],
        points,
        staged,
        *jobs(full, points),
    )


def campaign_overrides(overrides: Mapping[str, Any], name: str, main: Path) -> dict[str, Any]:
    """Return the overrides for the campaign that a user named (`campaigns.find`).

    Records without a campaign file, which were measured with `name=…`, can only be rebuilt.
    """
    rest = {key: value for key, value in overrides.items() if key != "campaign"}
    settings = Settings(str(main), chosen=rest)
    found = campaigns.find(settings, name)
    if found.overrides is None and not load_rebuild(main, (), rest).measure:
        return {**rest, "name": found.folder.name, "results": str(found.folder.parent)}
    return {**rest, **found.required_overrides()}


def prepare_joined(given: Sequence[Mapping[str, Any]], main: Path, verifying: bool) -> Workflow:
    """Return the values for a paper of several campaigns. `given` contains the overrides of each campaign.

    Raises UserError if `prepare` does so for a campaign, if campaigns would be measured, or if two have the same name.
    """
    lights = [load_rebuild(main, (), overrides) for overrides in given]
    if any(light.measure for light in lights):
        hint = "measure each campaign separately, then make the joint paper with measure=false"
        raise UserError("measure", "several campaigns cannot be measured at the same time", hint)
    folders = [Path(light.results) / light.name for light in lights]
    papers.distinct(zip((light.name for light in lights), folders, strict=True))
    members = [prepare({**overrides, "layout": "article"}, main, verifying, KINDS[:1]) for overrides in given]
    folder = papers.place(folders[0].parent, [light.name for light in lights])
    derived.outdate_future(folder)
    if not _is_tex_complete(folder / "tex", PAPERS.values()):
        (folder / "tex" / "paper.tex").unlink(missing_ok=True)  # removed, so that Snakemake joins the campaigns again
    options = {key: value for key, value in given[0].items() if key not in ("campaign", "layout")}
    return Workflow(
        False,
        str(folder),
        f"storelab{set_options(options)}",
        [path for member in members for path in member.raw_inputs],
        members=tuple(members),
        pdf=f"{PAPERS[lights[0].layout]}.pdf",
        layout=lights[0].layout,
    )


def report_made(campaign_dir: str) -> None:
    """Print the files that a run made, and commands to view them. Files older than the tables are not listed."""
    folder = Path(campaign_dir)
    tables = folder / "tables" / "points.csv"
    since = tables.stat().st_mtime_ns if tables.exists() else 0
    listed = [
        *((f"{name}.pdf", "the paper", f"xdg-open {folder}/{name}.pdf") for name in PAPERS.values()),
        ("report.html", "figures, tables, points", f"xdg-open {folder}/report.html"),
        ("figures/index.json", "PDF and PNG", f"ls {folder}/figures"),
        (
            "tables/throughput.csv",
            "CSV, columns with their units",
            f"column -s, -t {folder}/tables/throughput.csv | less -S",
        ),
        ("raw/plan.json", "the records", "see docs/records.md"),
    ]
    lines = []
    for name, what, look in listed:
        path, shown = folder / name, name if "/" not in name else f"{name.partition('/')[0]}/"
        if path.exists() and (name.startswith("raw") or path.stat().st_mtime_ns >= since):
            lines.append(f"  {shown:14s} {what:29s} {look}")
        elif name == "paper.pdf" and not any(folder.glob("*.pdf")) and not shutil.which("latexmk"):
            lines.append("  (no paper.pdf: LaTeX is not installed; install it and run again)")
    print("\n".join(["", f"made in {folder}:", *lines]), file=sys.stderr)


def report_if_up_to_date(snakemake: Any, campaign_dir: str) -> None:
    """Print the files of the campaign when Snakemake (its workflow object) finds that there is nothing to do."""
    from snakemake.common import NOTHING_TO_BE_DONE_MSG
    from snakemake.logging import logger

    def listed(record: logging.LogRecord) -> bool:
        if record.msg == NOTHING_TO_BE_DONE_MSG and not snakemake.dryrun:
            report_made(campaign_dir)
        return True

    logger.addFilter(listed)


def pictures(campaign_dir: str) -> list[str]:
    """Return the PNG files of the figures that were drawn."""
    index = Path(campaign_dir) / "figures" / "index.json"
    entries = derived.figure(index)["figures"] if index.exists() else {}
    return [f"{campaign_dir}/figures/{name}.png" for name in entries]


def forget_empty_marks(campaign_dir: Path, kinds: Iterable[str] = KINDS) -> None:
    """Remove the index of the figures if a figure is missing or damaged. Do the same for `paper.tex` and `tex/`.

    For Snakemake, these two files represent all figures (with these kinds of files) and all files of `tex/`.
    """
    index, tex = campaign_dir / "figures" / "index.json", campaign_dir / "tex"
    try:
        entries = derived.figure(index)["figures"] if index.exists() else {}
        complete = all(derived.is_whole(index.parent / f"{figure}.json", kinds) for figure in entries)
    except UserError:
        complete = False
    if not complete:
        index.unlink()
    if not _is_tex_complete(tex, tex_names()):
        (tex / "paper.tex").unlink(missing_ok=True)


def correct_times(campaign_dir: Path) -> None:
    """Correct the times of files that are in the future, because the clock was ahead when they were written.

    Snakemake compares times: it would use files that are out of date, or refuse files that it makes now, because they
    are older than their inputs. Inputs get the present time. Derived files get an old time, and are made again.
    """
    names = [f"raw/{integrity.PLAN}", f"raw/{integrity.SUMS}", derived.LINKS, "status/**/*", "tables/*.csv"]
    inputs = [path for name in names for path in campaign_dir.glob(name) if path.is_file()]
    inputs += [Path(path) for stage in STAGES for path in source_files(stage)]
    inputs += [path for name in ("paper/**/*.*", "notebooks/*.ipynb") for path in Path().glob(name)]
    if found := derived.set_future_times(inputs, time.time()):
        more = f" (and {len(found) - 1} more files)" if len(found) > 1 else ""
        print(
            f"storelab: {found[0]}{more}: has a time in the future, because the clock was ahead; "
            "it gets the present time, so that Snakemake can compare it",
            file=sys.stderr,
        )
    derived.outdate_future(campaign_dir)


def _is_tex_complete(tex: Path, names: Iterable[str]) -> bool:
    """Return whether all these files of `tex/` exist and are unaltered."""
    try:
        for name in names:
            derived.read_tex(tex / f"{name}.tex", "")
    except (UserError, FileNotFoundError):
        return False
    return True


def jobs(full: config.Config, points: Mapping[str, Point]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of nodes and the walltime in minutes of each point's job in a batch system, by point key.

    Raises UserError if a point needs more nodes than the configuration allows.
    """
    from storelab.gang.launchers import choose, srun

    if full.launcher.kind in ("local", "ssh"):  # `storelab measure` runs on this host
        nodes = dict.fromkeys(points, 1)
    else:
        srun.keep(os.environ)
        nodes = {key: choose.nodes_of(full, p) for key, p in points.items()}
    overhead_s = srun.OVERHEAD_S + START_S
    return nodes, {key: math.ceil((p.fixed["duration_ns"] / 1e9 + overhead_s) / 60) for key, p in points.items()}


def existing(raw: Path, name: str, verifying: bool = True) -> list[str]:
    """Return the files on which the tables of a measured campaign depend: its plan, checksums and declared links.

    The records are not listed, because Snakemake would read thousands of files for each table. The file of the
    checksums changes with any record. With `verifying`, check all raw files. Raises UserError if points are missing or
    files were altered.
    """
    sealed.refuse_half_sealed(raw)
    if not (raw / integrity.PLAN).exists():
        raise UserError(
            f"campaign {name}",
            f"has no records in {raw}",
            f"measure it first: `storelab run {name}`",
        )
    plan = integrity.plan_of(raw)
    if verifying:
        integrity.complete(raw, plan)
    return [str(p) for p in (raw / integrity.PLAN, raw / integrity.SUMS, links.path(raw.parent)) if p.exists()]


# Source files that a target depends on. A stage of the paper depends on all files in several folders. After an edit,
# Snakemake makes more files again than strictly needed, but no file is out of date.

PACKAGE = Path(__file__).parents[1]
NO_CODE = (".pyc", ".md")
_TABLES = ("core", *(f"analysis/{name}" for name in ("statistics", "records", "parts", "tables")))
_FIGURES = (*_TABLES, "analysis/figures")
_LATEX = (*_FIGURES, "analysis/compare.py", "analysis/latex")
# Stage -> folders and files of the package that it depends on.
STAGES = {
    "tables": _TABLES,
    "figures": _FIGURES,
    "latex": _LATEX,
    "report": (*_FIGURES, "analysis/report"),
    "papers": (*_LATEX, "analysis/papers"),
    "notebooks": ("core", "readplan", "analysis"),
}


def source_files(stage: str) -> list[str]:
    """Return the sorted paths of the files that a stage depends on, relative if they are below the working folder."""
    found = {PACKAGE / "__init__.py", PACKAGE / "analysis" / "__init__.py"}
    for name in STAGES[stage]:
        place = (PACKAGE.parent if name == "readplan" else PACKAGE) / name  # a separate package next to this one
        paths = [place] if place.is_file() else place.rglob("*.*")
        found |= {path for path in paths if path.suffix not in NO_CODE}
    here = Path.cwd()
    return sorted(str(path.relative_to(here) if path.is_relative_to(here) else path) for path in found)


def stale_figures(campaign_dir: Path, plan: Mapping[str, Any], kinds: Iterable[str] = KINDS) -> list[str]:
    """Return the figures of a campaign that are missing, damaged, or older than the tables or the code.

    `kinds` are the kinds of files that each figure must have.
    """
    from storelab.analysis.figures import catalogue

    since = _newest([*(campaign_dir / "tables").glob("*.csv"), *map(Path, source_files("figures"))])
    return [name for name in catalogue.names(plan) if _drawn(campaign_dir / "figures", name, kinds) < since]


def _drawn(folder: Path, name: str, kinds: Iterable[str]) -> float:
    """Return the time when a figure was drawn, in Unix seconds; 0 if one of its files is missing or damaged."""
    mark = folder / f"{name}.json"
    if not derived.is_whole(mark, kinds):
        return 0.0
    pictures = () if derived.figure(mark)["empty"] else kinds
    return min(p.stat().st_mtime for p in (mark, *(folder / f"{name}.{kind}" for kind in pictures)))


def _newest(paths: Iterable[Path]) -> float:
    return max(path.stat().st_mtime for path in paths)
