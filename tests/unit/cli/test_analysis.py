"""Commands of the analysis: one line for a mistake, and generated pages that are up to date."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command_line import in_process
from paths import ROOT

import campaigns
from storelab.analysis.latex import typeset
from storelab.cli import analysis, reference
from storelab.core.errors import UserError


def test_missing_campaign_is_one_line(tmp_path):
    result = CliRunner().invoke(analysis.tables, ["--campaign-dir", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, UserError) and "nowhere" in str(result.exception)


def test_unmeasured_campaign_is_measured_first(tmp_path, monkeypatch):
    monkeypatch.setattr(typeset.shutil, "which", lambda program: program)
    for name in ("config.yaml", "campaigns"):
        (tmp_path / name).symlink_to(ROOT / name)
    for command in ("tables", "figures", "latex", "paper", "report", "verdict", "capabilities", "verify", "seal"):
        code, out, err = in_process(tmp_path, command, "site")
        assert code == 2 and not out and "results/site/raw/plan.json: does not exist: this is not" in err, err
        assert "; measure it first: `storelab run site`; " in err and len(err.splitlines()) == 1, err


def test_missing_latex_names_the_fix(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="make tex"):
        typeset.build(tmp_path)


@pytest.fixture
def cloned(tmp_path, monkeypatch):
    """Work in a folder with the records of a campaign, and without its tables, as after a clone."""
    shutil.copytree(ROOT / "results" / "threads2012-small" / "raw", tmp_path / "results" / "mine" / "raw")
    for name in ("config.yaml", "campaigns"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_missing_tables_are_made(cloned):
    code, _, err = in_process(cloned, "explain", "best_throughput_download")
    assert code == 2 and "make them first: `storelab tables CAMPAIGN`" in err and len(err.splitlines()) == 1
    code, _, err = in_process(cloned, "explain", "results/mine/figures/threads.pdf")
    made, problem = err.splitlines()
    assert code == 2 and "make them first: `storelab figures results/mine`" in problem
    assert made == "storelab: results/mine: had no tables; 35 tables were made from its records"
    code, out, err = in_process(cloned, "figures", "results/mine", "threads", "--kind", "pdf")
    assert code == 0 and "threads.pdf" in out and not err
    shutil.copytree(cloned / "results/mine/raw", cloned / "results/reference/raw")  # the configured campaign
    code, out, err = in_process(cloned, "explain", "results/mine/figures/threads.pdf")
    assert code == 0 and "rows      results/mine/tables/" in out and not err, "the other figures are not needed"
    assert not (cloned / "results/reference/tables").exists(), "the path names the campaign"


def test_long_lists_of_files_are_not_printed(capsys):
    analysis._report_files([Path("t", f"{name}.csv") for name in "abcdefgh"])
    analysis._report_files([Path("t/a.csv")])
    analysis._report_files([Path("t/a.json")])
    assert capsys.readouterr().out == "8 files in t\n1 file in t: a.csv\nt: the campaign has no data for a\n"


def test_generated_pages_are_up_to_date():
    old = [name for name, page in reference.pages().items() if (ROOT / name).read_text() != page]
    assert not old, "run `storelab docs`"


def test_docs_check_names_old_pages(tmp_path, monkeypatch):
    def run_docs(*options: str) -> Result:
        return CliRunner().invoke(reference.docs, options)

    monkeypatch.chdir(tmp_path)
    assert run_docs("--check").exit_code == 1
    assert run_docs().exit_code == 0
    assert run_docs("--check").exit_code == 0
    page = tmp_path / "docs" / "machine.md"
    page.write_text(page.read_text() + "x")
    found = run_docs("--check")
    assert found.exit_code == 1 and "machine.md" in found.stderr and "configuration.md" not in found.stderr


def test_long_commands_announce_their_work(tmp_path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr("storelab.host.console.announce", lines.append)
    folder = campaigns.copied("one_each", tmp_path / "one")
    for name in ("throughput.csv", "points.csv"):
        (folder / "tables" / name).unlink(missing_ok=True)
    for words in (("tables",), ("report",), ("latex",)):
        in_process(tmp_path, *words, str(folder))
    assert [line.partition(": ")[2] for line in lines] == [
        "making the tables",
        "making the page",
        "writing the LaTeX files",
    ]
