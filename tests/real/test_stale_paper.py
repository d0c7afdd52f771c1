"""The reference paper is rebuilt in a copy of the repository without a network, and edits make it stale."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from common import BIN, ROOT, environ
from rebuild import bare_environ, copy_tree, without_network

from storelab.analysis.tables import build

needs_latex = pytest.mark.skipif(not shutil.which("latexmk"), reason="LaTeX is not installed")
pytestmark = [pytest.mark.real, pytest.mark.heavy, needs_latex]  # unit/test_dag.py has the same in `make test`

FROM_TABLES = {"make_tables", "draw_figures", "write_latex", "typeset_paper"}
FROM_FIGURES, FROM_LATEX = FROM_TABLES - {"make_tables"}, {"write_latex", "typeset_paper"}
QUIET = {"capture_output": True, "text": True}
EDITS = {  # one of each kind: test_dag.py holds what each command depends on against what it loads
    "src/storelab/core/units.py": FROM_TABLES,
    "src/storelab/analysis/records/printed/systems_2015.csv": FROM_TABLES,
    "src/storelab/analysis/figures/plots.py": FROM_FIGURES,
    "src/storelab/analysis/latex/parts.py": FROM_LATEX,
    "paper/sections/method.tex": FROM_LATEX,
    "src/storelab/measure/point.py": set(),
}


def snakemake(clone: Path, *arguments: str) -> subprocess.CompletedProcess:
    env = environ() | {"PYTHONPATH": str(clone / "src")}  # the copy's storelab, not the installed one
    return subprocess.run([str(BIN / "snakemake"), *arguments], cwd=clone, env=env, timeout=300, **QUIET)


def made(done: subprocess.CompletedProcess) -> set[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^(\w+) +\d+$", done.stdout, re.MULTILINE)) - {"total", "paper"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """Return a copy of the repository in which `make paper` ran without network (as root), s5cmd and credentials."""
    folder = tmp_path_factory.mktemp("copies") / "clone"
    copy_tree(folder)
    # Compiled once, by what it says and not by its time: a test edits it.
    compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src/storelab"]
    subprocess.run(compiled, cwd=folder, check=True)
    env = bare_environ() | {"PYTHONPATH": str(folder / "src")}
    done = subprocess.run([*without_network(), "make", "paper"], cwd=folder, env=env, timeout=400, **QUIET)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@contextmanager
def edited(path: Path) -> Iterator[None]:
    """With one more line, and as it was again: the time too, for Snakemake looks at that first."""
    was, times = path.read_text(), path.stat()
    path.write_text(was + "\n")
    try:
        yield
    finally:
        path.write_text(was)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.skipif(os.geteuid() != 0, reason="privilege: needs root to take the network away")
def test_the_reference_paper_is_rebuilt_without_network_s5cmd_and_credentials(clone):
    assert (clone / "results/reference/paper.pdf").read_bytes().startswith(b"%PDF")
    assert not (clone / ".venv/bin/s5cmd").exists()
    made_here = subprocess.run(["git", "status", "--porcelain", "results"], cwd=ROOT, **QUIET)
    assert made_here.stdout == ""


def test_nothing_extends_into_the_margin(clone):
    """A word of a heading may fill the gap behind its column (8 pt), no more; a figure has its caption on its page."""
    log = (clone / "results/reference/tex/build/paper.log").read_text(errors="replace")
    assert "Float too large" not in log
    wide = [float(w) for w in re.findall(r"Overfull \\hbox \((\d+\.\d+)pt", log)]
    assert max(wide, default=0) < 8, wide


def test_a_bare_snakemake_has_nothing_to_do_behind_it(clone):
    """It makes the same paper: that of the reference campaign."""
    assert (clone / "results/reference/paper.pdf").stat().st_size > 50_000
    assert (clone / "results/reference/logs/tables.log").read_text().startswith(f"{len(build.NAMES)} files in")
    done = snakemake(clone, "-n")
    assert "Nothing to be done" in done.stdout + done.stderr
    done = snakemake(clone, "-n", "--profile", "profiles/local", "--quiet", "host")
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.parametrize("name", EDITS)
def test_edit_remakes_dependent_files(clone, name):
    with edited(clone / name):
        assert made(snakemake(clone, "-n", "--profile", "profiles/local", "--quiet", "host")) == EDITS[name]


def test_removed_files_are_made_again(clone):
    """So is a table: Snakemake does not miss an intermediate file by itself."""
    gone = [clone / "results/reference" / name for name in ("figures/phases.pdf", "tables/verdicts.csv")]
    for path in gone:
        path.rename(path.with_suffix(".away"))
    try:
        assert made(snakemake(clone, "-n", "--profile", "profiles/local", "--quiet", "host")) >= FROM_TABLES
    finally:
        for path in gone:
            path.with_suffix(".away").rename(path)


def test_one_file_of_the_paper_is_made_by_name(clone):
    wanted = clone / "results/reference/tex/table_best.tex"
    text = wanted.read_text()
    wanted.unlink()
    assert snakemake(clone, "--quiet", "all", "--", str(wanted.relative_to(clone))).returncode == 0
    assert wanted.read_text() == text


def test_missing_parts_are_named(clone):
    done = snakemake(clone, "--", "results/reference/figures/entires.pdf")
    assert done.returncode and "there is no figure 'entires'" in done.stdout + done.stderr
