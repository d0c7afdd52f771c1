"""Tests of HDFS only; test_store_contract.py has the others."""

import os

import managed
import pytest
from laboratory import anything

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.external import WebHdfs
from storelab.stores.external import WebHdfsSettings as DoorSettings
from storelab.stores.hdfs import install
from storelab.stores.protocols import access, filesystems
from storelab.workloads.staging import buckets

pytestmark = [pytest.mark.real, pytest.mark.heavy]


store = managed.kept_up("h", "hdfs", servers=2)  # two DataNodes and two copies


@pytest.fixture
def bucket(store, request):
    """Return a bucket for this test."""
    name = request.node.name.replace("_", "-").partition("[")[0]
    store.access().make_bucket(name)
    return name


@pytest.fixture
def fs(store):
    return filesystems.data(store.endpoints()[0], {}, 4)


def test_default_deployment(store):
    deployment = store.deployment()
    assert store.version() == install.HADOOP and deployment["redundancy"] == "replica-2"
    assert deployment["daemons"] == {"namenode": 1, "datanode": 2}


def test_odd_keys_and_foreign_objects(store, bucket):
    way, bodies = store.access(), {"a/b c+d%": os.urandom(70_000), "top": b"x"}
    for key, body in bodies.items():
        way.write(bucket, key, body)
        assert way.read(bucket, key) == body
    assert way.read(bucket, "top/none") is None and not list(way.keys(bucket, "top/x"))
    with pytest.raises(access.BucketExists):
        way.make_bucket(bucket)
    with pytest.raises(access.NoSuchBucket):
        way.write("never-made", "k", b"")
    way.delete(bucket, [*bodies, "none"])
    way.write(bucket, "a/foreign", b"x")
    with pytest.raises(MeasurementFailed, match="still contains 'foreign'"):
        way.drop_bucket(bucket)
    assert way.read(bucket, "a/foreign") == b"x"
    way.delete(bucket, ["a/foreign"])
    way.drop_bucket(bucket)
    assert bucket not in way.bucket_names()


def test_range_requests_no_more_bytes(bucket, fs):
    body, path, answers = os.urandom(3_000_000), f"/{bucket}/k", []
    fs.pipe_file(path, body)
    fs.session.hooks["response"].append(lambda answer, **_: answers.append((answer.status_code, len(answer.content))))
    assert fs.cat_file(path, 1_000_000, 1_000_100) == body[1_000_000:1_000_100]
    assert [n for status, n in answers if status == 200] == [100], "fsspec's own reads 4 MiB ahead"
    assert fs.cat_file(path, 2_999_990, 4_000_000) == body[-10:] == fs.cat_file(path, -10)
    assert fs.cat_file(path, 3_000_000, 4_000_000) == fs.cat_file(path, 9_000_000) == fs.cat_file(path, 5, 5) == b""
    assert fs.cat_file(path) == body == fs.cat_file(path, 0, len(body))
    with fs.open(path) as f:
        f.seek(10)
        assert f.read(5) == body[10:15]
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"/{bucket}/none", 0, 10)


def test_write_takes_one_request(bucket, fs):
    path, methods = f"/{bucket}/k", []
    fs.session.hooks["response"].append(lambda answer, **_: methods.append(answer.request.method))
    with fs.open(path, "wb") as f:
        f.write(b"a" * 6_000_000)
    assert methods == ["PUT", "PUT"], "the NameNode's redirection and the data"
    with fs.open(path, "wb", block_size=10) as f:
        for part in (b"b" * 10, b"c" * 3, b"d" * 10):
            f.write(part)
    with fs.open(path, "ab") as f:
        f.write(b"e")
    assert fs.cat_file(path) == b"b" * 10 + b"c" * 3 + b"d" * 10 + b"e"
    with fs.open(path, "wb"):
        pass
    assert fs.cat_file(path) == b"" and fs.info(path)["size"] == 0


def test_external_store_works(store, bucket, tmp_path):
    url = f"{store.endpoints()[0].url}/{bucket}"
    door = WebHdfs("door", DoorSettings(kind="webhdfs", endpoint=url), tmp_path)
    door.up()
    assert door.status().detail == "usable" and door.down() == []
    way = door.access()
    buckets.ensure(door, "c", [door.bucket("c", 0)])
    way.write(door.bucket("c", 0).name, "x/y", b"through the door")
    assert store.access().read(bucket, f"{door.bucket('c', 0).name}/x/y") == b"through the door"
    looking = WebHdfs("door", DoorSettings(kind="webhdfs", endpoint=url, read_only=True), tmp_path).access()
    assert looking.read(door.bucket("c", 0).name, "x/y") == b"through the door"
    with pytest.raises(UserError, match="read-only"):
        looking.write(door.bucket("c", 0).name, "z", b"")
    assert buckets.remove(door, "c", anything)[:2] == (1, 1)
    with pytest.raises(UserError, match=r"stores\.door\.endpoint"):
        WebHdfs("door", DoorSettings(kind="webhdfs", endpoint=f"{url}/none"), tmp_path).up()
    closed = f"http://127.0.0.1:{store.settings.port + 3}/x"
    with pytest.raises(UserError, match="cannot be reached"):
        WebHdfs("door", DoorSettings(kind="webhdfs", endpoint=closed), tmp_path).up()


def test_reclaim_gives_the_space_back(store, bucket):
    store.reclaim()  # what earlier tests deleted
    way, body, empty = store.access(), os.urandom(1_000_000), store.used_bytes()
    for i in range(20):
        way.write(bucket, f"a/{i}", body)
    assert 40e6 < store.used_bytes() - empty < 42e6, "two copies"
    way.delete(bucket, [f"a/{i}" for i in range(20)])
    store.reclaim()
    assert store.used_bytes() - empty < 1e6


def test_suspended_longer_than_heartbeats_may_fail(store):
    managed.sleeps_and_wakes(store, seconds=15)  # a DataNode is dead after 14 s


def test_killed_while_it_formats(tmp_path):
    """The NameNode has no metadata yet, and the next `up` makes them."""
    settings = managed.settings_of("hdfs", servers=1, redundancy="none")
    with managed.running(managed.made("h", settings, tmp_path)) as store:
        starter = managed.begun_in_background(store, settings)
        managed.until((store.folder / "log" / "format.log").exists)
        starter.kill()
        starter.wait()
        store.down()
        assert managed.left_behind(store) == []
        store.up()


def test_daemon_that_cannot_start_reports_why(tmp_path):
    store = managed.made("h", managed.settings_of("hdfs", servers=1, redundancy="none"), tmp_path)
    store.up()
    store.down()
    (store.data / "namenode" / "current" / "VERSION").write_text("damaged=1\n")
    message = r"stores\.h: namenode-1 ended during its start; end of its log: .*\w+Exception"
    with pytest.raises(MeasurementFailed, match=message):
        store.up()
    assert managed.left_behind(store) == []
