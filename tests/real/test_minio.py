"""MinIO as storelab starts it: redundancy, lost drives, accounts, what survives, what is left."""

import os
import signal
import socket
import stat
import time
from pathlib import Path

import managed
import ports
import pytest
from laboratory import anything, bucket_for, gone

from storelab import install
from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import golang
from storelab.stores.minio import PROGRAM, MinIO, Settings
from storelab.stores.protocols import s3_clients
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.workloads.staging import buckets

pytestmark = pytest.mark.heavy


def new(state: Path, port: int, **settings) -> MinIO:
    return MinIO("mio", Settings(kind="minio", port=port, **settings), state)


@pytest.fixture(scope="module", autouse=True)
def installed():
    managed.skip_without("minio")


@pytest.fixture
def fresh(tmp_path, port_block):
    """A store that was never up; stopped at the end."""
    store = new(tmp_path / "state", port_block)
    yield store
    new(tmp_path / "state", port_block).down()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Four drives, two of them parity; three accounts."""
    store = new(tmp_path_factory.mktemp("mio"), ports.block())
    store.up(1, 3)
    yield store
    store.down()


def test_up_and_down_are_idempotent(fresh):
    begun = time.monotonic()
    fresh.up()
    assert time.monotonic() - begun < 20  # alone on the machine: below two seconds
    pids = fresh.actors()
    assert set(pids) == {"minio-1"}
    fresh.up()
    assert fresh.actors() == pids
    status, deployment = fresh.status(), fresh.deployment()
    assert status.state == "up" and status.version == fresh.version()
    assert deployment["daemons"] == {"minio": 1} and deployment["redundancy"] == "ec-2-2" and deployment["drives"] == 4
    assert {ip for ip, _ in managed.listening(pids.values())} <= {"127.0.0.1", "::1"}
    stopped = fresh.down()
    assert stopped == list(pids.values()) and gone(stopped)
    assert fresh.down() == [] and fresh.status().state == "down"


def test_the_version_is_the_pinned_one(running):
    stamp = install.tools_folder() / "bin" / "minio.json"
    if not stamp.exists():
        pytest.skip("another MinIO than storelab's own")
    assert golang.present(PROGRAM, install.tools_folder())
    date, _, commit = running.version().partition(" ")
    assert f"{date.replace('-', '')}" in golang.pinned(PROGRAM) and commit.strip("()") in golang.pinned(PROGRAM)


def test_objects_ranges_and_listings(running):
    bucket, way = bucket_for(running, "objects"), running.access()
    body = os.urandom(9_000_000)
    for i in range(3):
        way.write(bucket.name, f"d/{i}", body[i:])
    assert [way.read(bucket.name, f"d/{i}") for i in range(3)] == [body[i:] for i in range(3)]
    assert list(way.keys(bucket.name, "d/")) == [(f"d/{i}", len(body) - i) for i in range(3)]
    part = s3_clients.for_store(running).get_object(Bucket=bucket.name, Key="d/1", Range="bytes=10-19")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206 and part["Body"].read() == body[11:21]
    way.delete(bucket.name, ["d/0"])
    assert way.read(bucket.name, "d/0") is None


def test_accounts_are_kept_apart(running):
    mine = [bucket_for(running, "own", i, account=i) for i in range(3)]
    for i, bucket in enumerate(mine):
        running.access(i).write(bucket.name, "k", b"%d" % i)
    for other in (1, 2):
        way = running.access(other)
        assert way.read(mine[other].name, "k") == b"%d" % other
        for i in {0, 1, 2} - {other}:
            with pytest.raises(AccessRefused):
                way.read(mine[i].name, "k")
            with pytest.raises(AccessRefused):
                way.write(mine[i].name, "k", b"")
            with pytest.raises(AccessRefused):
                list(way.keys(mine[i].name))
        with pytest.raises(AccessRefused):
            way.make_bucket(running.bucket("own", 7, account=0).name)
        assert way.bucket_names() == [mine[other].name]
    assert buckets.own_buckets(running, "own") == mine
    assert buckets.remove(running, "own", anything)[:2] == (3, 3)
    assert len({running.credentials(i).access_key for i in range(3)} | {running.root_keys().access_key}) == 4


def test_killed_it_comes_back(running):
    bucket, pids = bucket_for(running, "killed"), running.actors()
    running.access().write(bucket.name, "k", b"before")
    os.kill(pids["minio-1"], signal.SIGKILL)
    until = time.monotonic() + 5
    while running.actors() and time.monotonic() < until:
        time.sleep(0.01)
    assert running.status().state == "down"
    running.up(1, 3)
    assert running.actors()["minio-1"] != pids["minio-1"]
    assert running.access().read(bucket.name, "k") == b"before"


def test_suspended_it_takes_no_cpu_and_wakes_up(running):
    managed.sleeps_and_wakes(running)


def test_with_a_drive_away_it_reads_and_writes(running):
    bucket, way = bucket_for(running, "drives"), running.access()
    bodies = {f"k{i}": os.urandom(2_000_000) for i in range(6)}
    for key, body in bodies.items():
        way.write(bucket.name, key, body)
    drive, process = running.drives()[1], running.actors()
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


def test_with_two_drives_away_it_only_reads(running):
    bucket, way = bucket_for(running, "two"), running.access()
    body = os.urandom(2_000_000)
    way.write(bucket.name, "k", body)
    moved = [(drive, drive.with_name(f"away-{drive.name}")) for drive in running.drives()[:2]]
    for drive, away in moved:
        drive.rename(away)
    try:
        assert way.read(bucket.name, "k") == body
        for _ in range(20):  # NoSuchBucket while it has not noticed yet, SlowDownWrite later
            with pytest.raises((MeasurementFailed, NoSuchBucket)) as caught:
                way.write(bucket.name, "new", b"n")
        assert "SlowDownWrite" in str(caught.value) or caught.type is NoSuchBucket
        assert way.read(bucket.name, "k") == body
    finally:
        for drive, away in moved:
            away.rename(drive)
    until = time.monotonic() + 20
    while True:
        try:
            way.write(bucket.name, "new", b"n")
            break
        except (MeasurementFailed, NoSuchBucket):
            assert time.monotonic() < until
            time.sleep(0.2)
    assert way.read(bucket.name, "k") == body


def test_data_accounts_and_keys_outlive_a_restart(fresh):
    managed.outlives_a_restart(fresh, new)


@pytest.mark.parametrize(
    ("servers", "redundancy", "factor"), [(1, "none", 1.0), (4, "none", 1.0), (4, "ec-3-1", 4 / 3), (4, "ec-2-2", 2.0)]
)
def test_space_taken_and_given_back(tmp_path, port_block, servers, redundancy, factor):
    store = new(tmp_path / "state", port_block, servers=servers, redundancy=redundancy)
    try:
        store.up()
        bucket, way = bucket_for(store, "space"), store.access()
        empty = store.used_bytes()
        for i in range(4):
            way.write(bucket.name, f"k{i}", os.urandom(5_000_000))
        assert factor <= (store.used_bytes() - empty) / 20e6 < factor * 1.05
        way.delete(bucket.name, [f"k{i}" for i in range(4)])
        store.reclaim()
        assert store.used_bytes() - empty < 1e6
    finally:
        store.down()


@pytest.mark.parametrize(("servers", "redundancy"), [(1, "ec-2-2"), (1, "ec-3-1"), (5, "ec-2-2")])
def test_redundancy_that_is_not_possible(tmp_path, port_block, servers, redundancy):
    store = new(tmp_path / "state", port_block, servers=servers, redundancy=redundancy)
    with pytest.raises(
        UserError, match=rf"stores\.mio\.redundancy: {redundancy} is not possible on {servers} drives; set servers to 4"
    ):
        store.up()
    assert not store.data.exists()


def test_another_redundancy_restarts_it_and_fewer_drives_are_refused(fresh):
    fresh.up()
    pids = fresh.actors()
    other = new(fresh.state, fresh.settings.port, redundancy="ec-3-1")
    other.up()
    assert other.actors() != pids and gone(pids.values())
    other.down()
    fewer = new(fresh.state, fresh.settings.port, servers=1, redundancy="none")
    with pytest.raises(UserError, match=r"stores\.mio\.servers: the data in .* are on 4 drives"):
        fewer.up()


def test_https(tmp_path, port_block):
    store = new(tmp_path / "state", port_block, tls=True)
    managed.is_encrypted(store, 1, 2)
    assert stat.S_IMODE((store.folder / "tls" / "private.key").stat().st_mode) == 0o600


def test_keys_are_in_their_files_alone(running):
    accounts = [running.credentials(i) for i in range(3)]
    secrets = [key for keys in (*accounts, running.root_keys()) for key in (keys.access_key, keys.secret_key)]
    assert managed.told_elsewhere(running, secrets, ("accounts.json", "root.json")) == []
    assert managed.in_environment(running, [k for keys in accounts for k in (keys.access_key, keys.secret_key)]) == []


def test_a_crash_of_the_manager_leaves_no_stranger(fresh):
    fresh.up()
    pids = fresh.actors()
    fresh.daemons.file.unlink()  # it died before it could record
    after = new(fresh.state, fresh.settings.port)
    after.up()
    assert len(after.actors()) == 1
    assert after.actors() == pids or gone(pids.values())
    after.daemons.file.unlink()
    assert len(new(fresh.state, fresh.settings.port).down()) == 1


def test_a_taken_port_leaves_nothing_running(fresh):
    port = fresh.settings.port
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(UserError, match=f"port {port} of minio-1 is taken by"),
    ):
        fresh.up()
    assert fresh.actors() == {}


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(tmp_path, port_block):
    store = new(tmp_path / "state", port_block, tls=True)
    (store.folder / "tls").mkdir(parents=True)
    for name in ("ca.pem", "server.pem", "server.key"):
        (store.folder / "tls" / name).write_text("no certificate")
    with pytest.raises(
        MeasurementFailed, match=r"stores\.mio: minio-1 ended while it started; its log says: .*certificate"
    ):
        store.up()
    assert store.actors() == {}


def test_not_installed(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="minio is not installed; run `storelab install minio`"):
        fresh.up()
