"""The chroot of HTCondor: built by root only, whole or not at all, never over other files."""

import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import debian
from storelab.stores import recipes


@pytest.fixture
def root(monkeypatch):
    monkeypatch.setattr(debian.os, "geteuid", lambda: 0)


def test_only_root_builds_a_chroot(tmp_path, monkeypatch):
    monkeypatch.setattr(debian.os, "geteuid", lambda: 1000)
    (part,) = recipes.parts("condor", tmp_path)
    assert not part.present()
    with pytest.raises(UserError, match="`storelab install condor` as root"):
        part.run(print)


def test_other_files_stay_in_place(tmp_path, root):
    (debian.condor_folder(tmp_path) / "mine").mkdir(parents=True)
    with pytest.raises(UserError, match="condor-trixie"):
        debian.install_condor(tmp_path, print)
    assert (debian.condor_folder(tmp_path) / "mine").is_dir()


def test_failed_build_leaves_nothing(tmp_path, monkeypatch, root):
    monkeypatch.setattr(debian.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(debian, "mirror", lambda: "http://archive.example/debian")

    def run(command, what, *rest):
        if "debootstrap" in command:
            (tmp_path / command[-2] / "usr/sbin").mkdir(parents=True)
            (tmp_path / command[-2] / "etc/apt/apt.conf.d").mkdir(parents=True)
        if "update" in command:
            raise MeasurementFailed(f"install: {what} failed: no route")
        return 'Acquire::http::Proxy "http://proxy.example:3142";\nDir "/";\n'

    monkeypatch.setattr(debian, "command_output", run)
    with pytest.raises(MeasurementFailed, match="no route"):
        debian.install_condor(tmp_path, lambda line: None)
    assert not list(tmp_path.iterdir()) and not debian.condor_present(tmp_path)


def test_mirror_is_that_of_the_host(monkeypatch):
    sources = "http://x/sec/ Debian Debian-Security main\nhttp://x/debian/ Debian Debian main\n"
    monkeypatch.setattr(debian, "command_output", lambda *arguments: sources)
    assert debian.mirror() == "http://x/debian/"
    monkeypatch.setattr(debian, "command_output", lambda *arguments: "http://x/ubuntu/ Ubuntu Ubuntu main\n")
    with pytest.raises(UserError, match="Debian archive"):
        debian.mirror()
