"""What the Snakefile needs, computed when it is read: the plan, the gate between measuring and rebuilding (room `cli`).

The gate: without `measure: true` the measuring rules are not even included, and the raw records must be there already.
May import: every room; what only measuring needs is imported when it measures.
"""

import json
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
from storelab.core import config, evidence, records, sealed
from storelab.core.errors import Exit, UserError, of_system
from storelab.core.model import Point
from storelab.stores.config import load, load_rebuild

# A shell function for the rules: to the terminal and into a log. Braces are doubled for Snakemake.
LOGGED = "logged() {{ (trap '' INT TERM HUP; exec tee \"$1\" >&2); }}; "
START_S = 120  # from the begin of a job until its point begins: two starts of Snakemake, on a slow file system too


@dataclass(frozen=True)
class Workflow:
    """What the rules ask for.

    measuring: whether the measuring rules are included. raw_inputs: files that the tables depend on. datasets: point
    key -> markers of what must be staged. nodes, minutes: point key -> nodes of its gang and the walltime it asks for,
    where points are jobs. members: of a paper of several campaigns what the rules ask for of each; campaign_dir is the
    paper's folder then, and pdf its file there.
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
        """Files of each figure, as options of `storelab figures`: a joined paper needs no PNG, which take a fifth of
        the time."""
        return " ".join(f"--kind {kind}" for kind in (KINDS[:1] if self.members else KINDS))

    @property
    def campaigns(self) -> dict[str, "Workflow"]:
        """Folder -> what the rules ask for, of every campaign."""
        return {each.campaign_dir: each for each in self.members or (self,)}

    @property
    def pattern(self) -> str:
        """A regular expression of their folders, for the wildcard of the rules."""
        return "|".join(map(re.escape, self.campaigns))

    @property
    def places(self) -> str:
        return ", ".join(self.campaigns)

    @property
    def indexes(self) -> list[str]:
        """What stands for all figures, and for all of `tex/`, of every campaign."""
        return self.each(["figures/index.json", "tex/paper.tex"])

    def each(self, names: Iterable[str]) -> list[str]:
        """These files of every campaign."""
        wanted = list(names)
        return [f"{folder}/{name}" for folder in self.campaigns for name in wanted]

    @property
    def tables(self) -> list[str]:
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
    """Snakemake's merged `--configfile` and `--config` as options of the CLI."""
    return "".join(f" --set {shlex.quote(f'{key}={json.dumps(value)}')}" for key, value in overrides.items())


def start(overrides: Mapping[str, Any], main_process: bool = True) -> Workflow:
    """As `prepare`; a person's mistake is one line, and the end of Snakemake with exit code 2."""
    try:
        flow = prepare(overrides, verifying=main_process)
        if flow.measuring:
            from storelab.host import console
            from storelab.measure import attempts

            os.environ.setdefault(attempts.RUN, f"{os.getpid()}:{time.time_ns()}")
            os.environ.setdefault(console.NAMED, console.name_here(sys.stderr))
        return flow
    except (UserError, OSError) as error:
        print(f"storelab: {of_system(error) if isinstance(error, OSError) else error}", file=sys.stderr)
        sys.exit(Exit.MISTAKE)


def prepare(
    overrides: Mapping[str, Any],
    main: Path = Path("config.yaml"),
    verifying: bool = True,
    kinds: Sequence[str] = KINDS,
) -> Workflow:
    """`verifying`: hold all raw files against their checksums, whatever Snakemake thinks is up to date; not in the jobs
    of a batch system, which read the Snakefile too. kinds: files that each figure shall have.

    Raises UserError: wrong configuration, sealed campaign to be measured; records missing or altered for a rebuild."""
    named = overrides.get("campaign")
    if isinstance(named, str) and len(several := named.split()) > 1:
        return prepare_joined([named_so(overrides, name, main) for name in several], main, verifying)
    if isinstance(named, str) and "name" not in overrides:
        own = named_so(overrides, named, main)
        if "name" in own and not load_rebuild(main, (), own).measure:
            overrides = own
    light = load_rebuild(main, (), overrides)
    if light.layout != "article" and not light.measure:
        return prepare_joined([overrides], main, verifying)
    campaign_dir = Path(light.results) / light.name
    raw = campaign_dir / "raw"
    command = f"storelab{set_options(overrides)}"
    forget_empty_marks(campaign_dir, kinds)
    if not light.measure:
        again = derived.damaged_tables(campaign_dir, table_names()) if verifying else []
        for path in again:
            path.unlink()
        if again:
            more = f" (and {len(again) - 1} more tables)" if len(again) > 1 else ""
            print(
                f"storelab: {again[0]}: is not as it was made from these records{more}; it is made again",
                file=sys.stderr,
            )
        there = existing(raw, light.name, verifying)
        return Workflow(False, str(campaign_dir), command, there)
    if records.sealed(raw):
        raise UserError(
            str(raw),
            "the campaign is sealed: it is not measured any more",
            "set measure=false to rebuild its paper; choose another campaign, or give name=… to measure it anew",
        )
    from storelab.core import plan
    from storelab.measure import collect, plan_file
    from storelab.stores.managed import users
    from storelab.workloads import WORKLOADS

    full = load(main, (), overrides)
    if line := config.overruled(main, (), overrides):
        print(f"storelab: {line}", file=sys.stderr)
    planned = plan.make(full, WORKLOADS)
    plan_file.refuse_differences(full, planned)  # here too: with all markers there, no rule would run and say so
    points = {p.key: p for p in planned}
    users.use(Path(full.state), {p.store for p in planned})  # until Snakemake ends
    status = campaign_dir / "status"
    damaged = collect.damaged(full, planned) if verifying else {}
    stale = [key for key in points if key in damaged or not (raw / key / "run.json").exists()]
    changed = not plan_file.up_to_date(full, planned, WORKLOADS)
    again = bool(stale) or changed or (verifying and not evidence.is_collected(raw))
    # A marker without its record marks nothing.
    gone = [f"{key}.done" for key in stale] + ["plan"] * changed + ["collected"] * again
    for marker in gone:
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


def named_so(overrides: Mapping[str, Any], name: str, main: Path) -> dict[str, Any]:
    """The overrides for the campaign of this name: that of its file, or of records that were measured under a name of
    their own (`name=…`) and have none."""
    rest = {key: value for key, value in overrides.items() if key != "campaign"}
    alone = {**rest, "name": name}
    if name not in config.names_of_campaigns(main.parent) and not name.endswith((".yaml", ".yml")):
        try:
            light = load_rebuild(main, (), alone)
        except UserError:  # no name of records
            return {**rest, "campaign": name}
        if (Path(light.results) / name / "raw" / evidence.PLAN).exists():
            return alone
    return {**rest, "campaign": name}


def prepare_joined(given: Sequence[Mapping[str, Any]], main: Path, verifying: bool) -> Workflow:
    """As `prepare`, of one paper of several campaigns, each with its overrides.

    Raises UserError, too: campaigns that shall be measured together, two of one name.
    """
    lights = [load_rebuild(main, (), each) for each in given]
    if any(light.measure for light in lights):
        mend = "measure each by itself, then make their paper with measure=false"
        raise UserError("measure", "several campaigns are not measured at once", mend)
    folders = [Path(light.results) / light.name for light in lights]
    papers.distinct(zip((light.name for light in lights), folders, strict=True))
    members = [prepare({**each, "layout": "article"}, main, verifying, KINDS[:1]) for each in given]
    folder = papers.place(folders[0].parent, [light.name for light in lights])
    if not _whole_tex(folder / "tex", ("paper", "conference")):
        (folder / "tex" / "paper.tex").unlink(missing_ok=True)  # it stands for all that is joined
    options = {key: value for key, value in given[0].items() if key not in ("campaign", "layout")}
    return Workflow(
        False,
        str(folder),
        f"storelab{set_options(options)}",
        [path for each in members for path in each.raw_inputs],
        members=tuple(members),
        pdf="paper.pdf" if lights[0].layout == "article" else f"{lights[0].layout}.pdf",
        layout=lights[0].layout,
    )


def say_made(campaign_dir: str) -> None:
    """What a run left, and how to look at it: only what is there, and not older than the tables."""
    folder = Path(campaign_dir)
    tables = folder / "tables" / "points.csv"
    since = tables.stat().st_mtime_ns if tables.exists() else 0
    listed = [
        ("paper.pdf", "the paper", f"xdg-open {folder}/paper.pdf"),
        ("conference.pdf", "the paper in two columns", f"xdg-open {folder}/conference.pdf"),
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
        elif name == "paper.pdf" and not (folder / "conference.pdf").exists() and not shutil.which("latexmk"):
            lines.append("  (no paper.pdf: LaTeX is missing; run again after installing it)")
    print("\n".join(["", f"made in {folder}:", *lines]), file=sys.stderr)


def pictures(campaign_dir: str) -> list[str]:
    """The figures that were drawn, as PNG."""
    index = Path(campaign_dir) / "figures" / "index.json"
    entries = derived.figure(index)["figures"] if index.exists() else {}
    return [f"{campaign_dir}/figures/{name}.png" for name in entries]


def forget_empty_marks(campaign_dir: Path, kinds: Iterable[str] = KINDS) -> None:
    """The index stands for all figures (in files of these kinds), `paper.tex` for all of `tex/`: neither does where
    one of them is gone or damaged."""
    index, tex = campaign_dir / "figures" / "index.json", campaign_dir / "tex"
    try:
        entries = derived.figure(index)["figures"] if index.exists() else {}
        whole = all(derived.is_whole(index.parent / f"{figure}.json", kinds) for figure in entries)
    except UserError:
        whole = False
    if not whole:
        index.unlink()
    if not _whole_tex(tex, tex_names()):
        (tex / "paper.tex").unlink(missing_ok=True)


def _whole_tex(tex: Path, names: Iterable[str]) -> bool:
    """Whether all these files of `tex/` are there, as they were written."""
    try:
        for name in names:
            derived.read_tex(tex / f"{name}.tex", "")
    except (UserError, FileNotFoundError):
        return False
    return True


def jobs(full: config.Config, points: Mapping[str, Point]) -> tuple[dict[str, int], dict[str, int]]:
    """Nodes and minutes by point, for batch systems that run each point as a job.

    Raises UserError: more nodes are needed than may be had.
    """
    from storelab.gang.launchers import choose, srun

    if full.launcher.kind == "local":
        nodes = dict.fromkeys(points, 1)
    else:
        srun.keep(os.environ)
        nodes = {key: choose.nodes_of(full, p) for key, p in points.items()}
    beside_s = srun.BESIDE_S + START_S
    return nodes, {key: math.ceil((p.fixed["duration_ns"] / 1e9 + beside_s) / 60) for key, p in points.items()}


def existing(raw: Path, name: str, verifying: bool = True) -> list[str]:
    """The plan of a measured campaign, its declared links, and the sums of its raw files, every one of them verified:
    the sums change with any record, and Snakemake would read thousands of records once for each table. Raises
    UserError: points are missing (half of them make no paper), files were altered."""
    sealed.refuse_half_sealed(raw)
    if not (raw / evidence.PLAN).exists():
        raise UserError(
            f"campaign {name}",
            f"has no records in {raw}",
            "measure it first: `make measure CAMPAIGN=" + name + "` or `--config measure=true`",
        )
    plan = evidence.plan_of(raw)
    if verifying:
        evidence.complete(raw, plan)
    return [str(p) for p in (raw / evidence.PLAN, raw / evidence.SUMS, links.path(raw.parent)) if p.exists()]


# Source files that a target depends on. A stage of the paper depends on all files of its folders: after an edit, more
# is made again than strictly needed, but nothing is ever stale.

PACKAGE = Path(__file__).parents[1]
NO_CODE = (".pyc", ".md")
_TABLES = ("core", *(f"analysis/{name}" for name in ("statistics", "records", "parts", "tables")))
_FIGURES = (*_TABLES, "analysis/figures")
_LATEX = (*_FIGURES, "analysis/compare.py", "analysis/latex")
# Stage -> folders and files of the package with the code and data that it depends on.
STAGES = {
    "tables": _TABLES,
    "figures": _FIGURES,
    "latex": _LATEX,
    "report": (*_FIGURES, "analysis/report"),
    "papers": (*_LATEX, "analysis/papers"),
    "notebooks": ("core", "readplan", "analysis"),
}


def source_files(stage: str) -> list[str]:
    """Return the files that a stage depends on, sorted, relative to the working folder where they are below it."""
    found = {PACKAGE / "__init__.py", PACKAGE / "analysis" / "__init__.py"}
    for name in STAGES[stage]:
        place = PACKAGE / name
        paths = [place] if place.is_file() else place.rglob("*.*")
        found |= {path for path in paths if path.suffix not in NO_CODE}
    here = Path.cwd()
    return sorted(str(path.relative_to(here) if path.is_relative_to(here) else path) for path in found)


def stale_figures(campaign_dir: Path, plan: Mapping[str, Any], kinds: Iterable[str] = KINDS) -> list[str]:
    """Return the figures of a campaign that are missing, damaged, or older than the tables or the code.

    kinds: of the files that each figure has.
    """
    from storelab.analysis.figures import catalogue

    since = _newest([*(campaign_dir / "tables").glob("*.csv"), *map(Path, source_files("figures"))])
    return [name for name in catalogue.names(plan) if _drawn(campaign_dir / "figures", name, kinds) < since]


def _drawn(folder: Path, name: str, kinds: Iterable[str]) -> float:
    """Return when a figure was drawn, in Unix seconds; 0 where a file of it is missing or damaged."""
    mark = folder / f"{name}.json"
    if not derived.is_whole(mark, kinds):
        return 0.0
    pictures = () if derived.figure(mark)["empty"] else kinds
    return min(p.stat().st_mtime for p in (mark, *(folder / f"{name}.{kind}" for kind in pictures)))


def _newest(paths: Iterable[Path]) -> float:
    return max(path.stat().st_mtime for path in paths)
