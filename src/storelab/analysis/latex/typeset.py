"""Typeset a paper: `tex/paper.tex` and `figures/` of a campaign, or of what was joined of several, to `paper.pdf`."""

import calendar
import os
import shutil
import subprocess
import time
from pathlib import Path

from storelab.analysis.latex.values import drawn
from storelab.analysis.parts import derived
from storelab.analysis.tables.build import read
from storelab.core import records
from storelab.core.errors import UserError

PDF = {"article": "paper", "conference": "conference"}  # layout -> name of the file in `tex/`, and of the PDF


def is_joined(folder: Path) -> bool:
    """Whether the folder holds what was joined of several campaigns."""
    return (folder / "tables" / "campaigns.csv").exists()


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


def build(campaign_dir: Path, layout: str = "article") -> Path:
    """Run latexmk in `tex/build`; returns `paper.pdf`, of several campaigns in the layout of a conference
    `conference.pdf`. Raises UserError: LaTeX or the generated files missing or altered, or LaTeX fails."""
    joined = is_joined(campaign_dir)
    if not joined and layout != "article":
        mend = "join it first: `storelab join` takes one campaign, too"
        raise UserError(str(campaign_dir), f"a campaign's own paper has no layout {layout!r}", mend)
    if not shutil.which("latexmk") or not shutil.which("pdflatex"):
        raise UserError(
            "latexmk", "LaTeX is not installed", "run `make tex`, which installs it; tables and figures need none"
        )
    again = "join the campaigns again: `storelab join`" if joined else derived.mend(campaign_dir, "latex")
    text = campaign_dir / "tex" / f"{PDF[layout]}.tex"
    if not text.exists():
        raise UserError(str(text), "is not there", f"{again} first")
    derived.read_tex(text, again)
    if not joined:
        for entry in drawn(campaign_dir).values():
            derived.require_picture(campaign_dir / "figures", entry, "pdf")
    out = campaign_dir / "tex" / "build"
    shutil.rmtree(out, ignore_errors=True)  # an aborted run leaves .aux files that break the next one
    out.mkdir(parents=True)
    environ = os.environ | {
        # the separator at the end appends the folders of the system
        "TEXINPUTS": f"{(campaign_dir / 'figures').resolve()}{os.pathsep}",
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
        str(text.resolve()),
    ]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", cwd=out)
    made, log = out / f"{PDF[layout]}.pdf", out / f"{PDF[layout]}.log"
    if done.returncode or not made.exists():
        if shutil.disk_usage(out).free < LEAST_ROOM:
            raise UserError(str(out), "LaTeX failed: this disk is full", "make room on this disk")
        told = log.read_text(errors="replace") if log.exists() else ""
        why = first_error(told if told.strip() else done.stdout + done.stderr)
        raise UserError(str(log if told else made), f"LaTeX failed: {why}", "see the log")
    target = campaign_dir / made.name
    records.write_atomic(target, made.read_bytes())
    return target
