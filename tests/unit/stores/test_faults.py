"""Acts on the actors of a store: their names, the journal, drives and links, and versions of programs."""

import pytest
from fault_stores import store
from programs import python
from refusals import check_refused, refusal

from storelab.core.errors import UserError
from storelab.install import wheels
from storelab.stores import faults
from storelab.stores.faults import Journal, resolve
from storelab.stores.managed import drives, network


def test_actors_have_names_of_store_and_of_kind(tmp_path):
    for name, actors in {
        "sw": {"data.0": "volume-1", "data.2": "volume-3", "front.1": "s3-2", "master": "master"},
        "ceph": {"data.0": "osd-0", "osd.2": "osd-2", "front.0": "s3-1"},
        "minio": {"data.11": "drive-12", "front.0": "minio-1"},
        "hdfs": {"data.1": "datanode-2", "namenode.1": "namenode-1"},
    }.items():
        assert {actor: resolve(store(name, tmp_path), actor, 2, "p") for actor in actors} == actors


def test_unknown_actors_are_refused(tmp_path):
    for name, actor, text in (
        ("sw", "data.3", "data.0 to data.2"),
        ("sw", "front.2", "front.0 to front.1"),
        ("sw", "volume-4", "did you mean 'volume-"),
        ("far", "data.0", "no data.…"),
        ("far", "osd.0", "`command`"),
    ):
        check_refused("p: ", text, resolve, store(name, tmp_path), actor, 2, "p")


def test_failures_that_redundancy_tolerates(tmp_path):
    found = {name: store(name, tmp_path).tolerated_failures() for name in ("sw", "ceph", "minio", "hdfs", "far")}
    assert found == {"sw": 1, "ceph": 1, "minio": 3, "hdfs": 1, "far": 0}


def test_journal_is_removed_after_last_repair(tmp_path):
    journal = Journal(tmp_path / "s")
    one, two = {"act": "kill", "actor": "a"}, {"act": "hang", "actor": "a"}
    journal.add(one)
    journal.add(two)
    assert Journal(tmp_path / "s").harms() == [one, two], "as the next process reads it"
    journal.remove(one)
    assert journal.harms() == [two]
    journal.remove(two)
    assert not journal.file.exists() and journal.harms() == []


HOLD = """
import sys, time
from pathlib import Path
from storelab.stores.faults import Journal
with Journal(Path(sys.argv[1])).taken("p"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_faults_of_a_killed_process_are_taken_back(tmp_path):
    """Acts of a running process remain."""
    sw = store("minio", tmp_path)
    drive = sw.drive_folders()[0]
    drive.mkdir(parents=True)
    (drive / "f").write_text("x")
    with python(HOLD, sw.folder) as child:
        assert child.stdout.readline() == "held\n"
        Journal(sw.folder).add({"act": "remove_drive", "actor": "drive-1", "drive": str(drive), "how": "gone"})
        drives.remove(drive, "gone")
        assert sw.repair() == [] and not drive.exists()
        with pytest.raises(UserError, match="another storelab process"), Journal(sw.folder).taken("p"):
            pass
    (line,) = sw.repair()
    assert "remove_drive of drive-1" in line and (drive / "f").read_text() == "x" and sw.repair() == []


def test_upgrade_of_a_killed_process_is_left_to_up(tmp_path):
    """`up` restarts each daemon that runs another program than the configured one."""
    sw = store("sw", tmp_path)
    faults.journal_of(sw).add({"act": "upgrade", "actor": "s3-1", "was": "1.0", "to": "2.0"})
    (line,) = faults.repair(sw)
    assert "upgrade of s3-1" in line and not sw.daemons.records() and not faults.journal_of(sw).harms()


def test_removed_drive_cannot_be_made_again(tmp_path):
    """A store that writes creates missing folders (MinIO): the drive would exist, and be empty."""
    drive = tmp_path / "drive-1"
    drive.mkdir()
    (drive / "old").touch()
    inode = drive.stat().st_ino
    drives.remove(drive, "gone")
    assert not drive.exists()
    with pytest.raises(OSError):
        (drive / "tmp").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        (drive / "old").read_bytes()
    with pytest.raises(OSError):
        drive.mkdir(exist_ok=True, parents=True)
    drives.give_back(drive, "gone")
    drives.give_back(drive, "gone")  # idempotent
    assert [p.name for p in drive.iterdir()] == ["old"] and drive.stat().st_ino == inode
    assert [p.name for p in tmp_path.iterdir()] == ["drive-1"]
    drives.away(drive).symlink_to("nowhere")  # killed before the step itself
    drives.give_back(drive, "gone")
    assert [p.name for p in tmp_path.iterdir()] == ["drive-1"] and (drive / "old").exists()


def test_link_options_become_those_of_tc():
    assert network._discipline({"rate_bytes_per_s": 10**6})[:3] == ["tbf", "rate", "8000000bit"]
    both = network._discipline({"delay_ns": 50_000_000, "loss_percent": 1.0, "rate_bytes_per_s": 125})
    assert both == ["netem", "delay", "50000us", "loss", "1%", "rate", "1000bit"]


def test_versions_of_programs_are_known(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    sw = store("sw", tmp_path)
    own = sw.version()
    sw.require_version(own, "faults.f")
    assert sw.program_of(own) == sw.program()
    check_refused("faults.f: ", "`storelab install seaweedfs`", sw.require_version, "4.47", "faults.f")
    assert f"4.47, {own}" in refusal(sw.require_version, "3", "faults.f")
    other = tmp_path / "seaweedfs-4.47" / "bin" / "weed"
    other.parent.mkdir(parents=True)
    other.write_text("")
    assert sw.program_of("4.47") == other and wheels.seaweedfs(tmp_path)[0].present()
    older = store("sw", tmp_path, version="4.47")
    assert older.daemon("s3-1").argv[0] == str(other) and sw.daemon("s3-1").argv[0] == str(sw.program())
    older.versions["s3-1"] = own
    assert older.daemon("s3-1").argv[0] == str(sw.program()) and older.daemon("s3-2").argv[0] == str(other)
    assert "MinIO" in refusal(store("minio", tmp_path).require_version, "2", "faults.f")
