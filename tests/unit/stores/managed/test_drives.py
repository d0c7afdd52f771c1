"""Drives with separate file systems: which are made, mounted and refused. Nothing is mounted here."""

import os
import shutil
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusals import check_refused, refusal

from storelab.core.errors import MeasurementFailed
from storelab.stores import load, make
from storelab.stores.managed import base, drives

MB = 10**6
SIZE = {"drive_size": "100 MB"}
Usage = namedtuple("Usage", "total used free")


def store(tmp_path, kind="seaweedfs", **more):
    return make("s", load(kind).Settings.model_validate({"kind": kind, **more}), tmp_path)


@pytest.fixture
def kernel(monkeypatch):
    """Return the programs that were called; mounts are only recorded."""
    it = SimpleNamespace(called=[], mounted=set(), busy=0)

    def ask(command, *more):
        it.called.append(command[0])
        if command[0] == "mount":
            it.mounted.add(Path(command[-1]))
        if command[0] == "umount":
            it.busy -= 1
            if it.busy >= 0:
                return SimpleNamespace(returncode=1, stdout="", stderr="target is busy")
            it.mounted.remove(Path(command[-1]))
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(drives.processes, "run_command", ask)
    monkeypatch.setattr(drives.os.path, "ismount", lambda p: Path(p) in it.mounted)
    monkeypatch.setattr(drives.time, "sleep", lambda seconds: None)
    return it


def test_folders_of_data_are_drives(tmp_path):
    data = tmp_path / "s" / "data"
    assert store(tmp_path, servers=2).drives.folders() == {} and store(tmp_path, "ceph").drives.folders() == {}
    assert store(tmp_path, servers=2, **SIZE).drives.folders() == {
        "volume-1": data / "volume-1",
        "volume-2": data / "volume-2",
    }
    assert store(tmp_path, "minio", **SIZE).drives.folders() == {f"drive-{i}": data / f"drive-{i}" for i in range(1, 5)}
    assert (
        store(tmp_path, "versitygw", **SIZE).drives.folders()
        == store(tmp_path, "nginx", **SIZE).drives.folders()
        == {"drive-1": data}
    )
    plain = store(tmp_path, "versitygw")
    assert plain.data_actors() == [] and plain.drive_folder("drive-1") is None


def test_space_counts_objects_and_not_copies(tmp_path, kernel, monkeypatch):
    wrong = []
    for kind, redundancy, servers, stored in (  # stored: MB of objects on drives of 100 MB
        ("seaweedfs", "none", 3, 300),
        ("seaweedfs", "replica-2", 3, 150),
        ("seaweedfs", "replica-3", 3, 100),
        ("minio", "ec-2-2", 4, 200),
        ("minio", "ec-9-3", 12, 900),
        ("minio", "none", 1, 100),
    ):
        s = store(tmp_path / f"{kind}-{redundancy}", kind, redundancy=redundancy, servers=servers, **SIZE)
        found = [s.capacity_bytes(), s.free_bytes()]  # before they are mounted
        s.drives.mount()
        left = iter([70] + [80] * 40)

        def usage(path, left=left):
            free = next(left)
            return Usage(99 * MB, (90 - free) * MB, free * MB)

        with monkeypatch.context() as patch:
            patch.setattr(drives.shutil, "disk_usage", usage)
            found += [s.free_bytes(), s.capacity_bytes()]  # as the fullest drive has it
        if found != [stored * MB, stored * MB, stored * MB * 70 // 100, stored * MB * 90 // 100]:
            wrong.append((kind, redundancy, found))
    assert not wrong, wrong


def test_drives_are_mounted_once_and_images_stay(tmp_path, kernel):
    s = store(tmp_path, servers=2, **SIZE)
    s.drives.mount()
    assert kernel.called == ["mkfs.ext4", "mount"] * 2
    images = sorted(s.drives.images.iterdir())
    assert [p.name for p in images] == ["volume-1.img", "volume-2.img"] and images[0].stat().st_size == 100 * MB
    assert not str(s.drives.images).startswith(f"{s.data}/"), "else they would count as data"
    s.drives.mount()
    assert len(kernel.called) == 4, "once"
    kernel.busy = 3
    s.drives.unmount()
    assert not kernel.mounted and kernel.called[4:] == ["umount"] * 5 and len(list(s.drives.images.iterdir())) == 2
    s.drives.unmount()
    s.drives.mount()
    assert kernel.called[9:] == ["mount"] * 2, "the data are still there"
    kernel.mounted.clear()
    check_refused("stores.s.drive_size: ", "100 MB", store(tmp_path, servers=2, drive_size="200 MB").drives.mount)


def test_busy_drive_is_reported(tmp_path, kernel, monkeypatch):
    s = store(tmp_path, "versitygw", **SIZE)
    s.drives.mount()
    kernel.busy = 10**6
    monkeypatch.setattr(drives, "BUSY_S", 0.01)
    with pytest.raises(MeasurementFailed, match="target is busy"):
        s.drives.unmount()


def test_images_in_memory_are_removed(tmp_path, kernel, monkeypatch):
    s = store(tmp_path, "versitygw", backing="tmpfs", **SIZE)
    s.data = tmp_path / "memory" / "d"
    monkeypatch.setattr(drives, "filesystem", lambda path: "tmpfs" if Path(path) == s.drives.images else "ext4")
    s.drives.mount()
    assert s.memory_only(), "whatever its own file system is called"
    s.drives.unmount()
    assert not s.drives.images.exists()
    kept = store(tmp_path / "b", "versitygw", backing="tmpfs", directory=str(tmp_path / "mine"), **SIZE)
    kept.drives.mount()
    kept.drives.unmount()
    assert kept.drives.images.exists(), "in a folder of the user"


def test_containers_with_the_same_paths_have_separate_data_in_memory(tmp_path, monkeypatch):
    def data(number):
        monkeypatch.setattr(base.processes, "pid_namespace", lambda: number)
        return store(tmp_path, "versitygw", backing="tmpfs").data

    host, one, other = map(data, (base.HOST_PIDS, base.HOST_PIDS + 7, base.HOST_PIDS + 8))
    assert len({host, one, other}) == 3 and host.name.endswith("-s") and data(base.HOST_PIDS) == host


def test_impossible_drives_are_refused(tmp_path, kernel, monkeypatch):
    s = store(tmp_path, **SIZE)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    check_refused("stores.s.drive_size: ", "root", s.drives.require)
    store(tmp_path).drives.require()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "64 MB or more" in refusal(store(tmp_path, drive_size="63 MB").drives.require)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mkfs.ext4" else name)
    assert "mkfs.ext4" in refusal(s.drives.require)
    assert "100 PB" in refusal(store(tmp_path, drive_size="100000 TB").drives.mount)
    (s.data / "volume-1").mkdir(parents=True)
    (s.data / "volume-1" / "1.dat").write_text("old")
    assert "volume-1 contains data" in refusal(s.drives.mount)
    assert not kernel.mounted


def test_faults_may_fill_separate_drives_only(tmp_path):
    s = store(tmp_path, "versitygw", **SIZE)
    s.require_full("drive-1", "faults.f")  # mounted or not yet
    assert "a disk that others use" in refusal(store(tmp_path).require_full, "volume-1", "faults.f")
    assert "cannot be renamed" in refusal(drives.require_removable, s.data, "gone", "faults.f", separate_disk=True)
