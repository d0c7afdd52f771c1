"""Typeset the paper of one campaign, or a joined paper: compile `tex/paper.tex` with `figures/` to `paper.pdf`."""

import calendar
import os
import shutil
import subprocess
import time
from pathlib import Path

from storelab.analysis.latex.values import drawn
from storelab.analysis.parts import derived
from storelab.analysis.tables.build import read
from storelab.core import integrity, records
from storelab.core.errors import UserError
from storelab.core.model import PAPERS


def is_joined(folder: Path) -> bool:
    """Return True if the folder contains a joined paper of several campaigns."""
    return (folder / "tables" / "campaigns.csv").exists()


def source_date_epoch(folder: Path) -> int:
    """Return the latest start of a point, in seconds since 1970-01-01 UTC.

    It is used as the date of the PDF, so that the same records give the same file.
    """
    joined = is_joined(folder)
    started = read(folder, "campaigns" if joined else "points")["last_start" if joined else "started"].dropna()
    return calendar.timegm(time.strptime(started.max(), "%Y-%m-%dT%H:%M:%SZ")) if len(started) else 0


def first_error(log: str) -> str:
    """Return the first error in a log of LaTeX, with its line number."""
    lines = log.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("!")), None)
    if at is None:
        return next((line for line in reversed(lines) if line.strip()), "no output")
    where = next((line for line in lines[at:] if line.startswith("l.")), "")
    return f"{lines[at][2:]} {where}".strip()


MIN_FREE_BYTES = 2**20  # bytes of free disk space that LaTeX needs


def build(campaign_dir: Path, layout: str = "article") -> Path:
    """Typeset a paper with latexmk, and return the path of the PDF.

    layout: a key of `PAPERS`; only `article` is available for the paper of one campaign.

    Raises UserError if LaTeX or generated files are missing, if a generated file was altered, or if LaTeX fails.
    """
    joined = is_joined(campaign_dir)
    if not joined and layout != "article":
        hint = "run `storelab join` first, which also accepts a single campaign"
        raise UserError(str(campaign_dir), f"the paper of a single campaign has no layout {layout!r}", hint)
    if not shutil.which("latexmk") or not shutil.which("pdflatex"):
        raise UserError(
            "latexmk", "LaTeX is not installed", "run `make tex` to install it; tables and figures do not need it"
        )
    hint = "join the campaigns again: `storelab join`" if joined else derived.rebuild_hint(campaign_dir, "latex")
    text = campaign_dir / "tex" / f"{PAPERS[layout]}.tex"
    if not text.exists():
        if not joined:
            integrity.require_measured(campaign_dir)
        raise UserError(str(text), "does not exist", f"{hint} first")
    derived.read_tex(text, hint)
    if not joined:
        for entry in drawn(campaign_dir).values():
            derived.require_picture(campaign_dir / "figures", entry, "pdf")
    out = campaign_dir / "tex" / "build"
    shutil.rmtree(out, ignore_errors=True)  # .aux files of an aborted run can make the next run fail
    out.mkdir(parents=True)
    environ = os.environ | {
        # the separator at the end adds the default folders
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
    process = subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", cwd=out)
    made, log = out / f"{PAPERS[layout]}.pdf", out / f"{PAPERS[layout]}.log"
    if process.returncode or not made.exists():
        if shutil.disk_usage(out).free < MIN_FREE_BYTES:
            raise UserError(str(out), "LaTeX failed because the disk is full", "free space on this disk")
        output = log.read_text(errors="replace") if log.exists() else ""
        reason = first_error(output if output.strip() else process.stdout + process.stderr)
        raise UserError(str(log if output else made), f"LaTeX failed: {reason}", "read the log for details")
    target = campaign_dir / made.name
    records.write_atomic(target, made.read_bytes())
    return target
