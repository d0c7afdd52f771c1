"""Users of stores: `down` of one campaign leaves a store on which another measures; the last user stops it."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from programs import python
from refusals import refusal

from storelab.cli import cli
from storelab.stores.managed import base, users

CODE = """
from pathlib import Path
import sys
from storelab.stores.managed import users
users.use(Path(sys.argv[1]), ["sw", "other"])
print("there", flush=True)
sys.stdin.read()
"""


@contextmanager
def another(state: Path) -> Iterator[int]:
    """Run a process that uses two stores; yield its pid."""
    with python(CODE, state) as process:
        assert process.stdout and process.stdout.readline() == "there\n"
        yield process.pid  # it is killed at the end: the kernel releases what it used


def test_users_come_and_go(tmp_path):
    users.use(tmp_path, ["sw"])
    users.use(tmp_path, ["sw"])  # twice is once
    assert users.others(tmp_path, "sw") == [] and users.others(tmp_path, "none") == []
    with another(tmp_path) as one:
        with another(tmp_path) as two:
            assert users.others(tmp_path, "sw") == sorted([one, two]) == users.others(tmp_path, "sw+ec-2-1")
        assert users.others(tmp_path, "sw") == [one] and users.others(tmp_path, "other") == [one]
    assert users.others(tmp_path, "sw") == []
    assert [p.name for p in (tmp_path / "sw.users").iterdir()] == [str(os.getpid())], "what was left is forgotten"


def test_user_is_seen_although_its_file_was_just_removed(tmp_path, monkeypatch):
    """`others` removes files that nobody has locked yet, or locks them while `use` does."""
    path, opened = tmp_path / "raced.users" / str(os.getpid()), []

    def lock_file(path):
        opened.append(os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT), "r+"))
        if len(opened) == 1:
            path.unlink()
        if len(opened) == 2:
            fcntl.flock(other := os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
            threading.Timer(0.1, os.close, [other]).start()
        return opened[-1]

    monkeypatch.setattr(users.folders, "lock_file", lock_file)
    users.use(tmp_path, ["raced"])
    assert len(opened) > 2
    with open(path) as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    monkeypatch.undo()
    monkeypatch.setattr(users, "LOCKED_S", 0.1)
    (tmp_path / "far.users").mkdir()
    with open(tmp_path / "far.users" / str(os.getpid()), "w") as file:  # of a process in another container
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "is locked by a process of another host or container" in refusal(users.use, tmp_path, ["far"])


def test_users_are_in_order_of_their_numbers(tmp_path):
    (tmp_path / "sw.users").mkdir()
    pids = [10**8, 90_000_000, 10**7, 9_000_000, 10**9]  # larger than any pid of Linux
    with ExitStack() as stack:
        for pid in pids:
            fcntl.flock(stack.enter_context(open(tmp_path / "sw.users" / str(pid), "w")), fcntl.LOCK_EX)
        assert users.others(tmp_path, "sw") == sorted(pids)


def test_down_leaves_a_store_in_use(tmp_path, monkeypatch):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "mine.yaml").write_text(
        "name: mine\nstores_to_measure: [sw]\n"
        "sweeps: {s: {workload: put, duration: 1 s, axes: {object_size: [1 kB]}}}\n"
    )
    (tmp_path / "config.yaml").write_text(
        f"campaign: mine\nstores: {{sw: {{kind: seaweedfs}}}}\nstate: {tmp_path}/state\nscratch: {tmp_path}\n"
    )
    stopped = []
    monkeypatch.setattr(base.Managed, "down", lambda self: stopped.append(self.name) or [1, 2])
    monkeypatch.chdir(tmp_path)
    with another(tmp_path / "state") as pid:
        output = CliRunner().invoke(cli, ["down", "--all"], catch_exceptions=False).output
        assert f"sw: not stopped, because it is in use by process {pid}" in output and "sw" not in stopped
    output = CliRunner().invoke(cli, ["down", "--all"], catch_exceptions=False).output
    assert "sw: stopped 2 processes" in output and "sw" in stopped
