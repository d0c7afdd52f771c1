"""What installs wheels: pip, or uv in an environment that has none."""

import importlib.util
import sys
from pathlib import Path

import pytest

from storelab.core.errors import UserError
from storelab.install import running


@pytest.fixture
def no_pip(monkeypatch, tmp_path):
    """A Python without pip, in a folder of its own, and a PATH with nothing; the folder."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "pip" else find(name, *more))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text('#!/bin/sh\necho "$@" > "${0%/*}/asked"\n')
    path.chmod(0o755)


@pytest.mark.parametrize("where", ["nothing", "bin"])
def test_uv_does_it_where_there_is_no_pip(no_pip, where):
    program(no_pip / where / "uv")
    running.pip("--target", "there", "-r", "pins.txt")
    asked = (no_pip / where / "asked").read_text().split()
    begin = ["pip", "install", "--python", str(no_pip / "bin" / "python")]
    assert asked[:4] == begin and asked[-4:] == ["--target", "there", "-r", "pins.txt"]
    assert "--require-hashes" in asked, "what is not pinned by hash is not installed"


def test_pip_does_it_where_it_is(no_pip, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    program(no_pip / "bin" / "python")
    program(no_pip / "nothing" / "uv")
    running.pip("-r", "pins.txt")
    asked = (no_pip / "bin" / "asked").read_text().split()
    assert asked[:3] == ["-m", "pip", "install"] and "--require-hashes" in asked and asked[-2:] == ["-r", "pins.txt"]


def test_neither_is_told_in_one_line(no_pip):
    with pytest.raises(UserError, match=r"bin/python has no pip, and uv is not in PATH; python -m ensurepip"):
        running.pip("-r", "pins.txt")
