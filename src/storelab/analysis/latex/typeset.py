"""Typeset the paper: `paper/*.tex` and a campaign's `tex/` and `figures/` to `paper.pdf`."""

import calendar
import os
import shutil
import subprocess
import time
from pathlib import Path

from storelab.analysis.tables.build import read
from storelab.core import records
from storelab.core.errors import UserError


def source_date_epoch(campaign_dir: Path) -> int:
    """Seconds UTC of the latest start of a point: the PDF's date, so that the same records give the same file."""
    started = read(campaign_dir, "points")["started"].dropna()
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


def build(campaign_dir: Path, paper_dir: Path) -> Path:
    """Run latexmk in `tex/build`; returns `paper.pdf`. Raises UserError: LaTeX or the generated files missing, or LaTeX
    fails."""
    if not shutil.which("latexmk") or not shutil.which("pdflatex"):
        raise UserError(
            "latexmk", "LaTeX is not installed", "run `make tex`, which installs it; tables and figures need none"
        )
    for path in (paper_dir / "paper.tex", campaign_dir / "tex" / "numbers.tex"):
        if not path.exists():
            raise UserError(
                str(path),
                "is not there",
                f"run `storelab latex --campaign-dir {campaign_dir}` first"
                if path.name == "numbers.tex"
                else "name the folder with --paper-dir",
            )
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
        str((paper_dir / "paper.tex").resolve()),
    ]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", cwd=out)
    made, log = out / "paper.pdf", out / "paper.log"
    if done.returncode or not made.exists():
        if shutil.disk_usage(out).free < LEAST_ROOM:
            raise UserError(str(out), "LaTeX failed: this disk is full", "make room on this disk")
        told = log.read_text(errors="replace") if log.exists() else ""
        why = first_error(told if told.strip() else done.stdout + done.stderr)
        raise UserError(str(log if told else made), f"LaTeX failed: {why}", "see the log")
    target = campaign_dir / "paper.pdf"
    records.write_atomic(target, made.read_bytes())
    return target
