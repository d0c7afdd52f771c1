"""versitygw as storelab starts it: several gateways over one folder, accounts, what survives, what is left."""

import os
import signal
import socket
import time
from pathlib import Path

import managed
import ports
import pytest
from laboratory import anything, bucket_for, gone

from storelab import install
from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import golang
from storelab.stores.protocols import s3_clients
from storelab.stores.protocols.access import AccessRefused
from storelab.stores.versitygw import PROGRAM, Settings, Versitygw
from storelab.workloads.staging import buckets

pytestmark = pytest.mark.heavy


def new(state: Path, port: int, **settings) -> Versitygw:
    return Versitygw("vgw", Settings(kind="versitygw", port=port, **settings), state)


@pytest.fixture(scope="module", autouse=True)
def installed():
    managed.skip_without("versitygw")


@pytest.fixture
def fresh(tmp_path, port_block):
    """A store that was never up; stopped at the end."""
    store = new(tmp_path / "state", port_block)
    yield store
    new(tmp_path / "state", port_block).down()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three gateways, three accounts."""
    store = new(tmp_path_factory.mktemp("vgw"), ports.block())
    store.up(3, 3)
    yield store
    store.down()


def test_up_and_down_are_idempotent(fresh):
    begun = time.monotonic()
    fresh.up()
    assert time.monotonic() - begun < 10  # alone on the machine: well below a second
    pids = fresh.actors()
    assert set(pids) == {"s3-1"}
    fresh.up()
    assert fresh.actors() == pids
    fresh.up(4)
    assert fresh.actors().items() > pids.items() and len(fresh.endpoints(4)) == 4
    status, deployment = fresh.status(), fresh.deployment()
    assert status.state == "up" and status.version == fresh.version()
    assert deployment["daemons"] == {"s3": 4} and deployment["front_ends"] == 4 and deployment["redundancy"] == "none"
    assert {ip for ip, _ in managed.listening(fresh.actors().values())} == {"127.0.0.1"}
    stopped = fresh.down()
    assert len(stopped) == 4 and gone(stopped)
    assert fresh.down() == [] and fresh.status().state == "down"
    assert not (fresh.folder / "run").exists() or not list((fresh.folder / "run").iterdir())


def test_the_version_is_the_pinned_one(running):
    stamp = install.tools_folder() / "bin" / "versitygw.json"
    if not stamp.exists():
        pytest.skip("another versitygw than storelab's own")
    assert golang.present(PROGRAM, install.tools_folder())
    assert running.version() == golang.pinned(PROGRAM)


def test_all_gateways_show_the_same_objects(running):
    bucket, ways = bucket_for(running, "shared"), [running.access(0, i) for i in range(3)]
    body = os.urandom(9_000_000)
    for i, way in enumerate(ways):
        way.write(bucket.name, f"d/{i}", body[i:])
        for other in ways:
            assert other.read(bucket.name, f"d/{i}") == body[i:]
            assert [k for k, _ in other.keys(bucket.name, "d/")] == [f"d/{j}" for j in range(i + 1)]
    ways[2].delete(bucket.name, ["d/0"])
    assert ways[0].read(bucket.name, "d/0") is None
    s3 = s3_clients.for_store(running, running.endpoints(3)[1])
    part = s3.get_object(Bucket=bucket.name, Key="d/1", Range="bytes=10-19")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206 and part["Body"].read() == body[11:21]


def test_parts_of_one_upload_through_several_gateways(running):
    bucket = bucket_for(running, "parts")
    one, two, three = (s3_clients.for_store(running, e) for e in running.endpoints(3))
    blocks = [os.urandom(5 * 2**20), os.urandom(1000)]
    upload = one.create_multipart_upload(Bucket=bucket.name, Key="k")["UploadId"]
    tags = [
        way.upload_part(Bucket=bucket.name, Key="k", UploadId=upload, PartNumber=i, Body=block)["ETag"]
        for i, (way, block) in enumerate(zip((one, two), blocks, strict=True), 1)
    ]
    parts = {"Parts": [{"PartNumber": i, "ETag": tag} for i, tag in enumerate(tags, 1)]}
    three.complete_multipart_upload(Bucket=bucket.name, Key="k", UploadId=upload, MultipartUpload=parts)
    assert two.get_object(Bucket=bucket.name, Key="k")["Body"].read() == b"".join(blocks)


def test_accounts_are_kept_apart(running):
    mine = [bucket_for(running, "own", i, account=i) for i in range(3)]
    for i, bucket in enumerate(mine):
        running.access(i, 0).write(bucket.name, "k", b"%d" % i)
        for other in {0, 1, 2} - {i}:
            way = running.access(other, 1 + i % 2)
            with pytest.raises(AccessRefused):
                way.read(bucket.name, "k")
            with pytest.raises(AccessRefused):
                way.write(bucket.name, "k", b"")
            with pytest.raises(AccessRefused):
                list(way.keys(bucket.name))
            assert bucket.name not in way.bucket_names()
        assert running.access(i, 2).read(bucket.name, "k") == b"%d" % i
    assert buckets.own_buckets(running, "own") == mine
    assert buckets.remove(running, "own", anything)[:2] == (3, 3)
    assert len({running.credentials(i).access_key for i in range(3)} | {running.root_keys().access_key}) == 4


def test_a_killed_gateway_comes_back(running):
    bucket, pids = bucket_for(running, "killed"), running.actors()
    running.access().write(bucket.name, "k", b"before")
    os.kill(pids["s3-2"], signal.SIGKILL)
    until = time.monotonic() + 5
    while "s3-2" in running.actors() and time.monotonic() < until:
        time.sleep(0.01)
    assert running.access(0, 0).read(bucket.name, "k") == b"before"  # the others go on
    running.up(3)
    after = running.actors()
    assert after["s3-2"] != pids["s3-2"] and after["s3-1"] == pids["s3-1"] and after["s3-3"] == pids["s3-3"]
    assert running.access(0, 1).read(bucket.name, "k") == b"before"


def test_suspended_it_takes_no_cpu_and_wakes_up(running):
    managed.sleeps_and_wakes(running, 3)


def test_data_accounts_and_keys_outlive_a_restart(fresh):
    again, bucket = managed.outlives_a_restart(fresh, new)
    again.up(2)
    assert len(again.access(0, 1).read(bucket, "d/k1")) == 20_000
    assert again.used_bytes() > 2 * 20_000 * sum(range(12))


def test_a_crash_of_the_manager_leaves_no_stranger(fresh):
    """It died before it could record. A gateway leaves its working folder, so it is found by its log, and replaced."""
    fresh.up(2)
    pids = fresh.actors()
    fresh.daemons.file.unlink()
    after = new(fresh.state, fresh.settings.port)
    after.up(2)
    assert gone(pids.values()) and set(after.actors()) == set(pids)
    after.access(0, 1).write(bucket_for(after, "crash").name, "k", b"x")
    after.daemons.file.unlink()
    assert len(new(fresh.state, fresh.settings.port).down()) == 2


def test_https(tmp_path, port_block):
    managed.is_encrypted(new(tmp_path / "state", port_block, tls=True), 2, 2)


def test_keys_are_in_their_files_alone(running):
    accounts = [running.credentials(i) for i in range(3)]
    secrets = [key for keys in (*accounts, running.root_keys()) for key in (keys.access_key, keys.secret_key)]
    files = ("accounts.json", "root.json", "users.json", "users.json.backup")
    assert managed.told_elsewhere(running, secrets, files) == []
    assert managed.in_environment(running, [k for keys in accounts for k in (keys.access_key, keys.secret_key)]) == []


def test_a_taken_port_leaves_nothing_running(fresh):
    port = fresh.settings.port + 1
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UserError, match=f"port {port} of s3-2 is taken by"):
        fresh.up(2)
    assert fresh.actors() == {}
    fresh.up(2)  # free again


def test_a_gateway_that_cannot_start_says_why_and_leaves_nothing(tmp_path, port_block):
    store = new(tmp_path / "state", port_block, tls=True)
    (store.folder / "tls").mkdir(parents=True)
    for name in ("ca.pem", "server.pem", "server.key"):
        (store.folder / "tls" / name).write_text("no certificate")
    with pytest.raises(MeasurementFailed, match=r"stores\.vgw: s3-1 ended while it started; its log says: .*PEM"):
        store.up()
    assert store.actors() == {}


def test_a_file_system_without_extended_attributes(fresh, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(UserError, match=r"stores\.vgw\.directory: .* keeps no extended attributes"):
        fresh.up()


def test_too_many(fresh):
    with pytest.raises(UserError, match="25 front-ends asked; 1 to 24"):
        fresh.up(25)
    with pytest.raises(UserError, match="33 accounts asked; 1 to 32"):
        fresh.up(1, 33)


def test_not_installed(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="versitygw is not installed; run `storelab install versitygw`"):
        fresh.up()
