"""Drives that are file systems of their own: what is made, mounted and refused. Nothing is mounted here."""

import os
import shutil
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.stores import load
from storelab.stores import make
from storelab.stores.faults import drives
from storelab.stores.managed import disks

MB = 10**6
Usage = namedtuple("Usage", "total used free")


def store(tmp_path, kind="seaweedfs", **more):
    return make("s", load(kind).Settings.model_validate({"kind": kind, **more}), tmp_path)


@pytest.fixture
def kernel(monkeypatch):
    """What the programs were told; mounts are noted instead."""
    it = SimpleNamespace(told=[], mounted=set(), busy=0)

    def ask(command, *more):
        it.told.append(command[0])
        if command[0] == "mount":
            it.mounted.add(Path(command[-1]))
        if command[0] == "umount":
            it.busy -= 1
            if it.busy >= 0:
                return SimpleNamespace(returncode=1, stdout="", stderr="target is busy")
            it.mounted.remove(Path(command[-1]))
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(disks.processes, "ask", ask)
    monkeypatch.setattr(disks.os.path, "ismount", lambda p: Path(p) in it.mounted)
    monkeypatch.setattr(disks.time, "sleep", lambda seconds: None)
    return it


def test_which_folders_are_drives(tmp_path):
    size = {"drive_size": "100 MB"}
    data = tmp_path / "s" / "data"
    assert store(tmp_path, servers=2).disks() == {} and store(tmp_path, "ceph").disks() == {}
    assert store(tmp_path, servers=2, **size).disks() == {"volume-1": data / "volume-1", "volume-2": data / "volume-2"}
    assert store(tmp_path, "minio", **size).disks() == {f"drive-{i}": data / f"drive-{i}" for i in range(1, 5)}
    assert store(tmp_path, "versitygw", **size).disks() == store(tmp_path, "nginx", **size).disks() == {"drive-1": data}
    assert (
        store(tmp_path, "versitygw").data_actors() == []
        and store(tmp_path, "versitygw").drive_folder("drive-1") is None
    )


@pytest.mark.parametrize(
    ("kind", "redundancy", "servers", "stored"),  # stored: of 100 MB on each drive
    [
        ("seaweedfs", "none", 3, 300),
        ("seaweedfs", "replica-2", 3, 150),
        ("seaweedfs", "replica-3", 3, 100),
        ("minio", "ec-2-2", 4, 200),
        ("minio", "ec-9-3", 12, 900),
        ("minio", "none", 1, 100),
    ],
)
def test_room_is_of_objects(tmp_path, kernel, monkeypatch, kind, redundancy, servers, stored):
    s = store(tmp_path, kind, redundancy=redundancy, servers=servers, drive_size="100 MB")
    assert s.capacity_bytes() == s.free_bytes() == stored * MB, "before they are mounted"
    s.mount()
    left = iter([70] + [80] * 40)

    def usage(path):
        free = next(left)
        return Usage(99 * MB, (90 - free) * MB, free * MB)

    monkeypatch.setattr(disks.shutil, "disk_usage", usage)
    assert s.free_bytes() == stored * MB * 70 // 100, "as the fullest has it"
    assert s.capacity_bytes() == stored * MB * 90 // 100


def test_mounted_once_unmounted_and_images_stay(tmp_path, kernel):
    s = store(tmp_path, servers=2, drive_size="100 MB")
    s.mount()
    assert kernel.told == ["mkfs.ext4", "mount"] * 2
    images = sorted(s.images.iterdir())
    assert [p.name for p in images] == ["volume-1.img", "volume-2.img"] and images[0].stat().st_size == 100 * MB
    assert not str(s.images).startswith(f"{s.data}/"), "else they would count as data"
    s.mount()
    assert len(kernel.told) == 4, "once"
    kernel.busy = 3
    s.unmount()
    assert not kernel.mounted and kernel.told[4:] == ["umount"] * 5 and len(list(s.images.iterdir())) == 2
    s.unmount()
    s.mount()
    assert kernel.told[9:] == ["mount"] * 2, "the data are still there"
    other = store(tmp_path, servers=2, drive_size="200 MB")
    kernel.mounted.clear()
    with pytest.raises(
        UserError, match=r"stores\.s\.drive_size: the data are on drives of 100 MB; set it back, or remove"
    ):
        other.mount()


def test_a_busy_drive_is_told(tmp_path, kernel, monkeypatch):
    s = store(tmp_path, "versitygw", drive_size="100 MB")
    s.mount()
    kernel.busy = 10**6
    monkeypatch.setattr(disks, "BUSY_S", 0.01)
    with pytest.raises(MeasurementFailed, match="data stays mounted: target is busy"):
        s.unmount()


def test_images_in_memory_go(tmp_path, kernel, monkeypatch):
    s = store(tmp_path, "versitygw", drive_size="100 MB", backing="tmpfs")
    s.data = tmp_path / "memory" / "d"
    monkeypatch.setattr(disks, "filesystem", lambda path: "tmpfs" if Path(path) == s.images else "ext4")
    s.mount()
    assert s.memory_only(), "whatever its own file system is called"
    s.unmount()
    assert not s.images.exists()
    kept = store(tmp_path / "b", "versitygw", drive_size="100 MB", backing="tmpfs", directory=str(tmp_path / "mine"))
    kept.mount()
    kept.unmount()
    assert kept.images.exists(), "a folder of the user's"


def test_what_is_refused(tmp_path, kernel, monkeypatch):
    s = store(tmp_path, drive_size="100 MB")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match=r"stores\.s\.drive_size: a drive of its own is a mount, which needs root"):
        s.require_drives()
    store(tmp_path).require_drives()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UserError, match="63 MB are too small for a drive; give 64 MB or more"):
        store(tmp_path, drive_size="63 MB").require_drives()
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mkfs.ext4" else name)
    with pytest.raises(UserError, match=r"the program mkfs\.ext4 is missing"):
        s.require_drives()
    with pytest.raises(UserError, match=r"1 drives of 100 PB do not fit into .* free"):
        store(tmp_path, drive_size="100000 TB").mount()
    (s.data / "volume-1").mkdir(parents=True)
    (s.data / "volume-1" / "1.dat").write_text("old")
    with pytest.raises(UserError, match="volume-1 holds data that are on no drive of their own"):
        s.mount()
    assert not kernel.mounted


def test_what_a_fault_may_do_to_such_a_drive(tmp_path):
    s = store(tmp_path, "versitygw", drive_size="100 MB")
    s.require_full("drive-1", "faults.f")  # mounted or not yet
    with pytest.raises(UserError, match="lies on a disk that others use"):
        store(tmp_path).require_full("volume-1", "faults.f")
    with pytest.raises(UserError, match="is a file system of its own, and its place cannot be renamed"):
        drives.require(s.data, "gone", "faults.f", own_disk=True)
