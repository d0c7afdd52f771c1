"""Steps of an installation: pip, or uv in an environment without pip; a failed step prints its own message."""

import importlib.util
import sys
from pathlib import Path

import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import running


@pytest.fixture
def no_pip(monkeypatch, tmp_path):
    """Provide a Python without pip and a PATH with nothing, and return the folder of both."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "pip" else find(name, *more))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(path: Path) -> None:
    """Write a program that notes its arguments next to it."""
    path.parent.mkdir(exist_ok=True)
    path.write_text('#!/bin/sh\necho "$@" > "${0%/*}/asked"\n')
    path.chmod(0o755)


def test_uv_replaces_a_missing_pip(no_pip):
    for where in ("bin", "nothing"):
        program(no_pip / where / "uv")
        running.pip("--target", "there", "-r", "pins.txt")
        asked = (no_pip / where / "asked").read_text().split()
        assert asked[:4] == ["pip", "install", "--python", str(no_pip / "bin" / "python")]
        assert asked[-4:] == ["--target", "there", "-r", "pins.txt"]
        assert "--require-hashes" in asked, "only packages that are pinned by hash are installed"
        (no_pip / where / "uv").unlink()
    with pytest.raises(UserError, match=r"bin/python has no pip.*ensurepip"):
        running.pip("-r", "pins.txt")


def test_pip_is_used_where_it_is_installed(no_pip, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    program(no_pip / "bin" / "python")
    program(no_pip / "nothing" / "uv")
    running.pip("-r", "pins.txt")
    asked = (no_pip / "bin" / "asked").read_text().split()
    assert asked[:3] == ["-m", "pip", "install"] and "--require-hashes" in asked and asked[-2:] == ["-r", "pins.txt"]


def test_failed_step_is_reported_with_its_message():
    with pytest.raises(MeasurementFailed, match=r"install: sh failed: E: cannot"):
        running.command_output(["sh", "-c", "echo noise; echo E: cannot >&2; exit 1"], "sh", 10)
    with pytest.raises(UserError, match="no-such-program"):
        running.command_output(["no-such-program"], "it", 10)
