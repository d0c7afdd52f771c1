"""Functions of the Snakefile: dependencies of targets, and existing files."""

import os
from types import SimpleNamespace

import collected
import pytest
from collected import flip
from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake.logging import logger

from storelab.cli import workflow
from storelab.core import integrity


def test_tables_depend_on_plan_and_checksums(tmp_path):
    """These two files change with every record, so that Snakemake does not need to check thousands of files."""
    collected.write(tmp_path)
    raw = tmp_path / "raw"
    assert workflow.existing(raw, "example") == [str(raw / "plan.json"), str(raw / "SHA256SUMS")]
    for path in (p for p in sorted(raw.rglob("*")) if p.is_file() and p.name not in ("plan.json", "SHA256SUMS")):
        was, sums = path.read_bytes(), (raw / "SHA256SUMS").read_bytes()
        flip(path, 0, 1)
        integrity.write_sums(raw)
        assert (raw / "SHA256SUMS").read_bytes() != sums, path
        path.write_bytes(was)
        integrity.write_sums(raw)


def test_only_existing_and_fresh_files_are_listed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(workflow.shutil, "which", lambda name: None)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/plan.json").touch()

    def listed() -> list[str]:
        workflow.report_made(str(tmp_path))
        return [line.split()[0] for line in capsys.readouterr().err.splitlines()[2:]]

    assert listed() == ["(no", "raw/"]
    for name in ("tables/points.csv", "tables/throughput.csv", "figures/index.json", "paper.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (100, 100))
    assert listed() == ["paper.pdf", "figures/", "tables/", "raw/"]
    os.utime(tmp_path / "paper.pdf", (50, 50))
    monkeypatch.setattr(workflow.shutil, "which", lambda name: name)
    assert listed() == ["figures/", "tables/", "raw/"], "a paper of older tables"


@pytest.mark.parametrize(
    ("message", "dryrun", "listed"),
    [(NOTHING_TO_BE_DONE_MSG, False, True), (NOTHING_TO_BE_DONE_MSG, True, False), ("Building DAG", False, False)],
)
def test_files_are_listed_if_nothing_is_to_do(tmp_path, capsys, monkeypatch, message, dryrun, listed):
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)
    workflow.report_if_up_to_date(SimpleNamespace(dryrun=dryrun), str(tmp_path))
    logger.handle(logger.makeRecord("snakemake", 20, "", 0, message, (), None))
    assert (f"made in {tmp_path}:" in capsys.readouterr().err) == listed
