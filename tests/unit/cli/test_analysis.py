"""Commands of the analysis: one line for a mistake, and generated pages that are up to date."""

import pytest
from click.testing import CliRunner, Result
from paths import ROOT

from storelab.analysis.latex import typeset
from storelab.cli import analysis, reference
from storelab.core.errors import UserError


def test_missing_campaign_is_one_line(tmp_path):
    result = CliRunner().invoke(analysis.tables, ["--campaign-dir", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, UserError) and "nowhere" in str(result.exception)


def test_missing_latex_names_the_fix(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="make tex"):
        typeset.build(tmp_path)


def test_generated_pages_are_up_to_date():
    old = [name for name, page in reference.pages().items() if (ROOT / "docs" / name).read_text() != page]
    assert not old, "run `storelab docs`"


def test_docs_check_names_old_pages(tmp_path, monkeypatch):
    def asked(*options: str) -> Result:
        return CliRunner().invoke(reference.docs, options)

    monkeypatch.chdir(tmp_path)
    assert asked("--check").exit_code == 1
    assert asked().exit_code == 0
    assert asked("--check").exit_code == 0
    page = tmp_path / "docs" / "machine.md"
    page.write_text(page.read_text() + "x")
    found = asked("--check")
    assert found.exit_code == 1 and "machine.md" in found.stderr and "configuration.md" not in found.stderr
