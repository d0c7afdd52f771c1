"""Commands of the analysis side: one line for a mistake, generated documentation in step."""

import pytest
from click.testing import CliRunner, Result
from make_examples import ONE_EACH, make
from paths import ROOT

from storelab.analysis.latex import typeset
from storelab.cli import analysis, words
from storelab.core.errors import UserError


def test_verify_tables_seal(tmp_path):
    make(tmp_path, repetitions=1, failed=(), sweeps=ONE_EACH)
    run = CliRunner().invoke
    where = ["--campaign-dir", str(tmp_path)]
    assert "3 points measured, 0 failed" in run(analysis.verify, where).output
    assert "points.csv" in run(analysis.tables, where).output
    assert "sealed" in run(analysis.seal, where).output
    assert "already sealed" in run(analysis.seal, where).output
    assert "sealed 2" in run(analysis.verify, where).output


def test_no_campaign_is_one_line(tmp_path):
    result = CliRunner().invoke(analysis.tables, ["--campaign-dir", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, UserError) and "no measured campaign" in str(result.exception)


def test_without_latex_one_line_names_the_mend(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="make tex"):
        typeset.build(tmp_path, ROOT / "paper")


@pytest.mark.parametrize("name", words.pages())
def test_generated_pages_are_in_step(name):
    assert (ROOT / "docs" / name).read_text() == words.pages()[name], "run `storelab docs`"


def test_docs_check(tmp_path):
    def asked(*options: str) -> Result:
        return CliRunner().invoke(words.docs, [*options, "--folder", str(tmp_path)])

    assert asked("--check").exit_code == 1
    assert asked().exit_code == 0
    assert asked("--check").exit_code == 0
    page = tmp_path / "machine.md"
    page.write_text(page.read_text() + "x")
    found = asked("--check")
    assert found.exit_code == 1 and "machine.md; run" in found.stderr and "configuration.md" not in found.stderr
