"""Members of a pack: which files of a campaign's folder are packed."""

import shutil

from campaigns import built
from storelab.analysis.artefact import members
from storelab.analysis.records.campaign import load
from storelab.cli import workflow


def test_declared_links_are_packed_and_make_tables_again(tmp_path):
    folder = tmp_path / "a"
    shutil.copytree(built("one_each"), folder)
    assert "links.yaml" not in members.results_of(load(folder))[0]
    assert len(workflow.existing(folder / "raw", "a")) == 2
    (folder / "links.yaml").write_text("clients: 1 Gbit/s\n")
    assert members.results_of(load(folder))[0]["links.yaml"] == folder / "links.yaml"
    assert workflow.existing(folder / "raw", "a")[2:] == [str(folder / "links.yaml")]
