"""Typeset a paper: `paper/*.tex`, and `tex/` and `figures/` of a campaign, or of what was joined of several, to
`paper.pdf`."""

import calendar
import os
import shutil
import subprocess
import time
from pathlib import Path

from storelab.analysis.latex.write import drawn
from storelab.analysis.parts import derived
from storelab.analysis.tables.build import read
from storelab.core import records
from storelab.core.errors import UserError

TOP = "paper"  # of one campaign
JOINED = {"article": "joined", "conference": "conference"}  # of several, by layout: the file in `paper/`
PDF = {TOP: "paper.pdf", "joined": "paper.pdf", "conference": "conference.pdf"}


def is_joined(folder: Path) -> bool:
    """Whether the folder holds what was joined of several campaigns."""
    return (folder / "tex" / "content.tex").exists()


def source_date_epoch(folder: Path) -> int:
    """Seconds UTC of the latest start of a point: the PDF's date, so that the same records give the same file."""
    joined = is_joined(folder)
    started = read(folder, "campaigns" if joined else "points")["last_start" if joined else "started"].dropna()
    return calendar.timegm(time.strptime(started.max(), "%Y-%m-%dT%H:%M:%SZ")) if len(started) else 0


def first_error(log: str) -> str:
    """LaTeX's first complaint, and the line where it stands."""
    lines = log.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("!")), None)
    if at is None:
        return next((line for line in reversed(lines) if line.strip()), "no output")
    where = next((line for line in lines[at:] if line.startswith("l.")), "")
    return f"{lines[at][2:]} {where}".strip()


LEAST_ROOM = 2**20  # bytes of disk that LaTeX needs beside what it has written


def build(campaign_dir: Path, paper_dir: Path, layout: str = "article") -> Path:
    """Run latexmk in `tex/build`; returns `paper.pdf`, of several campaigns in the layout of a conference
    `conference.pdf`. Raises UserError: LaTeX or the generated files missing or altered, or LaTeX fails."""
    top = JOINED[layout] if is_joined(campaign_dir) else TOP
    if top == TOP and layout != "article":
        mend = "join it first: `storelab join` takes one campaign, too"
        raise UserError(str(campaign_dir), f"a campaign's own paper has no layout {layout!r}", mend)
    if not shutil.which("latexmk") or not shutil.which("pdflatex"):
        raise UserError(
            "latexmk", "LaTeX is not installed", "run `make tex`, which installs it; tables and figures need none"
        )
    for path in (paper_dir / f"{top}.tex", campaign_dir / "tex" / ("numbers.tex" if top == TOP else "front.tex")):
        if not path.exists():
            raise UserError(
                str(path),
                "is not there",
                f"run `storelab latex --campaign-dir {campaign_dir}` first"
                if path.name == "numbers.tex"
                else "name the folder with --paper-dir",
            )
    again = derived.mend(campaign_dir, "latex") if top == TOP else "join the campaigns again: `storelab join`"
    for path in sorted((campaign_dir / "tex").glob("*.tex")):
        derived.read_tex(path, again)
    if top == TOP:
        for entry in drawn(campaign_dir).values():
            derived.require_picture(campaign_dir / "figures", entry, "pdf")
    out = campaign_dir / "tex" / "build"
    shutil.rmtree(out, ignore_errors=True)  # an aborted run leaves .aux files that break the next one
    out.mkdir(parents=True)
    inputs = [paper_dir, campaign_dir / "tex", campaign_dir / "figures"]
    environ = os.environ | {
        "TEXINPUTS": "".join(
            f"{p.resolve()}{os.pathsep}" for p in inputs
        ),  # the trailing separator appends the system's own
        "SOURCE_DATE_EPOCH": str(source_date_epoch(campaign_dir)),
        "FORCE_SOURCE_DATE": "1",
    }
    command = [
        "latexmk",
        "-norc",
        "-pdf",
        "-interaction=nonstopmode",
        "-halt-on-error",
        f"-outdir={out.resolve()}",
        str((paper_dir / f"{top}.tex").resolve()),
    ]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", cwd=out)
    made, log = out / f"{top}.pdf", out / f"{top}.log"
    if done.returncode or not made.exists():
        if shutil.disk_usage(out).free < LEAST_ROOM:
            raise UserError(str(out), "LaTeX failed: this disk is full", "make room on this disk")
        told = log.read_text(errors="replace") if log.exists() else ""
        why = first_error(told if told.strip() else done.stdout + done.stderr)
        raise UserError(str(log if told else made), f"LaTeX failed: {why}", "see the log")
    target = campaign_dir / PDF[top]
    records.write_atomic(target, made.read_bytes())
    return target
