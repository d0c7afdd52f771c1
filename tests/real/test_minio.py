"""Tests of MinIO only: redundancy and lost drives; test_store_contract.py has the others."""

import os

import managed
import pytest
from laboratory import bucket_for, gone

from storelab import install
from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import golang
from storelab.stores.minio import PROGRAM
from storelab.stores.protocols.access import NoSuchBucket

pytestmark = [pytest.mark.real, pytest.mark.heavy]


def new(folder, **settings):
    return managed.made("mio", managed.settings_of("minio", **settings), folder)


fresh = managed.never_up("mio", "minio")
running = managed.kept_up("mio", "minio")  # four drives, two of them parity


def test_default_deployment(running):
    deployment = running.deployment()
    assert deployment["daemons"] == {"minio": 1} and deployment["redundancy"] == "ec-2-2" and deployment["drives"] == 4
    if (install.tools_folder() / "bin" / "minio.json").exists():  # not a program of the system
        assert golang.present(PROGRAM, install.tools_folder())
        date, _, commit = running.version().partition(" ")
        assert date.replace("-", "") in golang.pinned(PROGRAM) and commit.strip("()") in golang.pinned(PROGRAM)


def test_reads_and_writes_without_a_drive(running):
    bucket, way = bucket_for(running, "drives"), running.access()
    bodies = {f"k{i}": os.urandom(2_000_000) for i in range(6)}
    for key, body in bodies.items():
        way.write(bucket.name, key, body)
    drive, process = running.drive_folders()[1], running.actors()
    away = drive.with_name("away-2")
    assert any((drive / bucket.name).rglob("part.1"))  # the victim holds data
    drive.rename(away)
    try:
        assert {k: way.read(bucket.name, k) for k in bodies} == bodies
        way.write(bucket.name, "new", b"n" * 1_000_000)
        assert way.read(bucket.name, "new") == b"n" * 1_000_000
        running.up()
        assert running.actors() == process and not drive.exists()  # it stays, and the drive stays away
    finally:
        away.rename(drive)
    assert {k: way.read(bucket.name, k) for k in bodies} == bodies


def test_only_reads_without_two_drives(running):
    bucket, way = bucket_for(running, "two"), running.access()
    body = os.urandom(2_000_000)
    way.write(bucket.name, "k", body)
    moved = [(drive, drive.with_name(f"away-{drive.name}")) for drive in running.drive_folders()[:2]]

    def written() -> bool:
        try:
            way.write(bucket.name, "new", b"n")
        except NoSuchBucket:  # while it has not noticed yet
            return False
        except MeasurementFailed as error:
            assert "SlowDownWrite" in str(error)
            return False
        return True

    for drive, away in moved:
        drive.rename(away)
    try:
        assert way.read(bucket.name, "k") == body
        assert not any(written() for _ in range(20))
        assert way.read(bucket.name, "k") == body
    finally:
        for drive, away in moved:
            away.rename(drive)
    managed.until(written)
    assert way.read(bucket.name, "k") == body


def test_space_follows_redundancy(tmp_path):
    for servers, redundancy, factor in ((1, "none", 1.0), (4, "none", 1.0), (4, "ec-3-1", 4 / 3), (4, "ec-2-2", 2.0)):
        with managed.running(
            new(tmp_path / f"{redundancy}-{servers}", servers=servers, redundancy=redundancy)
        ) as store:
            store.up()
            bucket, way = bucket_for(store, "space"), store.access()
            empty = store.used_bytes()
            for i in range(4):
                way.write(bucket.name, f"k{i}", os.urandom(5_000_000))
            assert factor <= (store.used_bytes() - empty) / 20e6 < factor * 1.05, redundancy
            way.delete(bucket.name, [f"k{i}" for i in range(4)])
            store.reclaim()
            assert store.used_bytes() - empty < 1e6, redundancy


def test_impossible_redundancy_is_refused(tmp_path):
    for servers, redundancy in ((1, "ec-2-2"), (1, "ec-3-1"), (5, "ec-2-2")):
        settings = managed.settings_of("minio", servers=servers, redundancy=redundancy)
        store = managed.created("mio", settings, tmp_path)
        message = rf"stores\.mio\.redundancy: {redundancy} is not possible on {servers} drives; set servers to 4"
        with pytest.raises(UserError, match=message):
            store.up()
        assert not store.data.exists()


def test_changed_redundancy_restarts_it(tmp_path):
    """Fewer drives than the data have are refused."""
    settings = managed.settings_of("minio")
    with managed.running(managed.made("mio", settings, tmp_path)) as store:
        store.up()
        pids = store.actors()
        other = managed.made("mio", settings | {"redundancy": "ec-3-1"}, tmp_path)
        other.up()
        assert other.actors() != pids and gone(pids.values())
        other.down()
        fewer = managed.made("mio", settings | {"servers": 1, "redundancy": "none"}, tmp_path)
        with pytest.raises(UserError, match=r"stores\.mio\.servers: the data in .* are on 4 drives"):
            fewer.up()


def test_server_that_cannot_start_reports_why(tmp_path):
    store = new(tmp_path, tls=True)
    managed.spoil_certificates(store)
    message = r"stores\.mio: minio-1 ended during its start; end of its log: .*certificate"
    with pytest.raises(MeasurementFailed, match=message):
        store.up()
    assert store.actors() == {}


def test_missing_program_is_named(fresh, monkeypatch, tmp_path):
    for variable in ("STORELAB_TOOLS", "PATH"):
        monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(UserError, match="storelab install minio"):
        fresh.up()
