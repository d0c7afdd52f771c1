"""Folders of testbeds: only their own files and processes are removed."""

import subprocess

import pytest
from programs import python, script
from refusals import NONE, refusal

from storelab.gang.testbed.pool import Pool
from storelab.gang.testbed.slurm import Cluster, claim, started_with


@pytest.fixture
def mine(tmp_path):
    """Yield a folder of other work that has the names of a testbed's files, and a program that was started there."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/results").touch()
    (tmp_path / "node1").mkdir()
    with python("input()", tmp_path / "mine") as program:
        for name in ("mine.pid", "node1/first.pid", "node1/outer.pid"):
            (tmp_path / name).write_text(str(program.pid))
        yield tmp_path
        assert program.poll() is None


def test_folder_of_other_work_is_not_changed(mine):
    before = sorted(mine.rglob("*"))
    assert Cluster(mine).down() == [] and Pool(mine).down() == [] and sorted(mine.rglob("*")) == before
    assert refusal(claim, mine) != NONE and sorted(mine.rglob("*")) == before


def test_folder_of_a_testbed_is_used_again(tmp_path):
    for _ in range(2):
        claim(tmp_path / "new" / "tb")
        (tmp_path / "new/tb/state").mkdir()
        Cluster(tmp_path / "new/tb").down()
        assert not (tmp_path / "new/tb/state").exists()


def test_process_that_starts_a_program_is_known(tmp_path):
    """At each start of a program the kernel shows an empty command line for a moment."""
    again = script(tmp_path / "again", '#!/bin/sh\n[ "$1" -eq 0 ] || exec "$0" $(( $1 - 1 ))\nread -r _\n')
    program = subprocess.Popen([again, "300"], stdin=subprocess.PIPE)
    try:
        looks = [started_with(program.pid, tmp_path) for _ in range(3000)]
    finally:
        program.communicate(b"\n")
    assert all(looks)
    assert not started_with(program.pid, tmp_path), "it has ended"


def test_process_with_a_similar_folder_is_not_ours(tmp_path):
    with python("input()", f"{tmp_path}-other/file") as program:
        assert not started_with(program.pid, tmp_path)
