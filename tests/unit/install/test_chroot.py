"""Folders with Debian 13: built by root only, whole or not at all, never over other files."""

import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import chroot
from storelab.stores import recipes


@pytest.fixture
def root(monkeypatch):
    monkeypatch.setattr(chroot.os, "geteuid", lambda: 0)


def test_only_root_builds_a_chroot(tmp_path, monkeypatch):
    monkeypatch.setattr(chroot.os, "geteuid", lambda: 1000)
    (part,) = recipes.parts("condor", tmp_path)
    assert not part.present()
    with pytest.raises(UserError, match="`storelab install condor` as root"):
        part.run(print)


def test_other_files_stay_in_place(tmp_path, root):
    (chroot.CONDOR.folder(tmp_path) / "mine").mkdir(parents=True)
    with pytest.raises(UserError, match="condor-trixie"):
        chroot.CONDOR.install(tmp_path, print)
    assert (chroot.CONDOR.folder(tmp_path) / "mine").is_dir()


def test_failed_build_leaves_nothing(tmp_path, monkeypatch, root):
    monkeypatch.setattr(chroot.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(chroot, "mirror", lambda: "http://archive.example/debian")

    def run(command, what, *rest):
        if "debootstrap" in command:
            (tmp_path / command[-2] / "usr/sbin").mkdir(parents=True)
            (tmp_path / command[-2] / "etc/apt/apt.conf.d").mkdir(parents=True)
        if "update" in command:
            raise MeasurementFailed(f"install: {what} failed: no route")
        return 'Acquire::http::Proxy "http://proxy.example:3142";\nDir "/";\n'

    monkeypatch.setattr(chroot, "command_output", run)
    with pytest.raises(MeasurementFailed, match="no route"):
        chroot.CONDOR.install(tmp_path, lambda line: None)
    assert not list(tmp_path.iterdir()) and not chroot.CONDOR.present(tmp_path)


def test_mirror_is_that_of_the_host(monkeypatch):
    sources = "http://x/sec/ Debian Debian-Security main\nhttp://x/debian/ Debian Debian main\n"
    monkeypatch.setattr(chroot, "command_output", lambda *arguments: sources)
    assert chroot.mirror() == "http://x/debian/"
    monkeypatch.setattr(chroot, "command_output", lambda *arguments: "http://x/ubuntu/ Ubuntu Ubuntu main\n")
    with pytest.raises(UserError, match="Debian archive"):
        chroot.mirror()


def test_programs_are_only_used_from_a_complete_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    with pytest.raises(UserError, match=r"run `storelab install ceph-18\.2` as root"):
        chroot.CEPH_18.path("radosgw", "stores.c")
    program = chroot.CEPH_18.folder(tmp_path) / "usr/bin/radosgw"
    program.parent.mkdir(parents=True)
    program.touch()
    assert chroot.CEPH_18.path("radosgw", "stores.c") == program


def test_ordinary_users_enter_by_a_user_namespace(monkeypatch):
    for user, option in ((0, False), (1000, True)):
        monkeypatch.setattr(chroot.os, "geteuid", lambda user=user: user)
        assert ("--map-root-user" in chroot.XROOTD_5_8.enter()) is option
