"""What goes away with a testbed is never somebody else's."""

import subprocess
import sys

import pytest

from storelab.core.errors import UserError
from storelab.gang.testbed.folder import claim, started_with
from storelab.gang.testbed.pool import Pool
from storelab.gang.testbed.slurm import Cluster


@pytest.fixture
def mine(tmp_path):
    """A folder with work in it that bears a testbed's names, and a program that was started there."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/results").touch()
    (tmp_path / "node1").mkdir()
    program = subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path / "mine")], stdin=subprocess.PIPE)
    for name in ("mine.pid", "node1/first.pid", "node1/outer.pid"):
        (tmp_path / name).write_text(str(program.pid))
    yield tmp_path
    program.communicate(b"\n")
    assert program.returncode == 0


def test_down_in_a_folder_that_is_no_testbeds_touches_nothing(mine):
    before = sorted(mine.rglob("*"))
    assert Cluster(mine).down() == [] and Pool(mine).down() == [] and sorted(mine.rglob("*")) == before


def test_a_folder_with_something_else_is_refused(mine):
    with pytest.raises(UserError, match=r"holds files that are no testbed's; name a folder that is empty"):
        claim(mine)


def test_its_own_folder_is_taken_again(tmp_path):
    for _ in range(2):
        claim(tmp_path / "new" / "tb")
        (tmp_path / "new/tb/state").mkdir()
        Cluster(tmp_path / "new/tb").down()
        assert not (tmp_path / "new/tb/state").exists()


def test_a_process_that_is_just_starting_a_program_is_still_known(tmp_path):
    """It starts itself again and again; at each start the kernel shows an empty command line for a moment."""
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\n[ "$1" -eq 0 ] || exec "$0" $(( $1 - 1 ))\nread -r _\n')
    again.chmod(0o755)
    program = subprocess.Popen([again, "800"], stdin=subprocess.PIPE)
    try:
        looks = [started_with(program.pid, tmp_path) for _ in range(8000)]
    finally:
        program.communicate(b"\n")
    assert all(looks)
    assert not started_with(program.pid, tmp_path), "it has ended"


def test_a_process_of_somebody_else_is_not_ours(tmp_path):
    program = subprocess.Popen([sys.executable, "-c", "input()", f"{tmp_path}-other/file"], stdin=subprocess.PIPE)
    try:
        assert not started_with(program.pid, tmp_path)
    finally:
        program.communicate(b"\n")
