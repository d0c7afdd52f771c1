"""HDFS as storelab starts, uses, loses, finds and stops it. Needs `storelab install hdfs`."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import ports
import psutil
import pyarrow.parquet as pq
import pytest
from laboratory import anything

from storelab.core import plan
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import tools_folder
from storelab.measure import point
from storelab.stores import everywhere
from storelab.stores.doors import WebHdfs
from storelab.stores.doors import WebHdfsSettings as DoorSettings
from storelab.stores.hdfs import recipe
from storelab.stores.hdfs.store import HDFS, Settings
from storelab.stores.protocols import access, filesystems
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets

pytestmark = pytest.mark.heavy


@pytest.fixture(autouse=True, scope="module")
def installed():
    if recipe.java() is None or not recipe.class_path(tools_folder()).exists():
        pytest.skip("HDFS is not installed: storelab install hdfs")


def new(state: Path, port: int, **settings) -> HDFS:
    return HDFS("h", Settings(kind="hdfs", port=port, **settings), state)


def processes(folder: Path) -> list[psutil.Process]:
    """All that bear the store's folder in their command line."""
    return [
        p
        for p in psutil.process_iter(["cmdline"])
        if str(folder) in " ".join(p.info["cmdline"] or ()) and p.pid != os.getpid()
    ]


@pytest.fixture(scope="module")
def store(installed, tmp_path_factory):
    """Two DataNodes, two copies."""
    it = new(tmp_path_factory.mktemp("state"), ports.block(), servers=2)
    it.up()
    try:
        yield it
    finally:
        it.down()
        assert not processes(it.folder)


@pytest.fixture
def bucket(store, request):
    """A folder of this test's own."""
    name = request.node.name.replace("_", "-").partition("[")[0]
    store.access().make_bucket(name)
    return name


@pytest.fixture
def fs(store):
    return filesystems.data(store.endpoints()[0], {}, 4)


def test_up_again_changes_nothing(store):
    pids = store.actors()
    assert set(pids) == {"namenode-1", "datanode-1", "datanode-2"}
    store.up()
    assert store.actors() == pids
    status, deployment = store.status(), store.deployment()
    assert status.state == "up" and status.version == store.version() == recipe.HADOOP
    assert deployment["daemons"] == {"namenode": 1, "datanode": 2} and deployment["redundancy"] == "replica-2"
    assert str(store.folder) not in str(deployment) and store.free_bytes() > 0
    with pytest.raises(UserError, match="2 front-ends asked"):
        store.up(2)


def test_all_listen_on_loopback_only(store):
    for pid in store.actors().values():
        listening = {c.laddr.ip for c in psutil.Process(pid).net_connections("inet") if c.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}


def test_objects_come_back(store, bucket):
    way = store.access()
    bodies = {"a/b/c": b"1", "a/b c+d%": os.urandom(70_000), "a/bc": b"", "top": os.urandom(9_000_000)}
    for key, body in bodies.items():
        way.write(bucket, key, b"replaced")
        way.write(bucket, key, body)
    assert {key: way.read(bucket, key) for key in bodies} == bodies
    assert way.read(bucket, "none") is None and way.read(bucket, "top/none") is None
    assert dict(way.keys(bucket)) == {key: len(body) for key, body in bodies.items()}
    assert sorted(k for k, _ in way.keys(bucket, "a/b")) == ["a/b c+d%", "a/b/c", "a/bc"]
    assert [k for k, _ in way.keys(bucket, "a/b/")] == ["a/b/c"] and not list(way.keys(bucket, "top/x"))
    assert bucket in way.bucket_names()
    with pytest.raises(access.BucketExists):
        way.make_bucket(bucket)
    for act in (
        lambda: way.read("never-made", "k"),
        lambda: way.write("never-made", "k", b""),
        lambda: list(way.keys("never-made")),
    ):
        with pytest.raises(access.NoSuchBucket):
            act()
    way.delete(bucket, [*bodies, "none"])
    assert not list(way.keys(bucket))
    way.write(bucket, "a/foreign", b"x")
    with pytest.raises(MeasurementFailed, match="still holds foreign"):
        way.drop_bucket(bucket)
    assert way.read(bucket, "a/foreign") == b"x"
    way.delete(bucket, ["a/foreign"])
    way.drop_bucket(bucket)
    assert bucket not in way.bucket_names()


def test_ranges_ask_for_no_more(bucket, fs):
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


def test_one_request_writes(bucket, fs):
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


def test_campaigns_buckets(store):
    wanted = [store.bucket("hd", i) for i in range(12)]
    buckets.ensure(store, "hd", wanted)
    buckets.ensure(store, "hd", wanted)
    assert buckets.own_buckets(store, "hd") == wanted
    store.access().write(wanted[3].name, "a/b", b"x")
    assert buckets.remove(store, "hd", anything)[:2] == (1, 12)
    assert buckets.own_buckets(store, "hd") == []


def test_a_door_that_is_there_already(store, bucket, tmp_path):
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


@pytest.mark.parametrize("victim", ["datanode-2", "namenode-1"])
def test_a_killed_daemon_comes_back(store, bucket, victim):
    way, body = store.access(), os.urandom(100_000)
    way.write(bucket, "before", body)
    pids = store.actors()
    os.kill(pids[victim], signal.SIGKILL)
    until = time.monotonic() + 5
    while victim in store.actors() and time.monotonic() < until:
        time.sleep(0.01)
    assert store.status().state == "partly" and victim in store.status().detail
    store.up()
    after = store.actors()
    assert after.pop(victim) != pids.pop(victim) and after == pids
    way = store.access()
    assert way.read(bucket, "before") == body
    for i in range(5):
        way.write(bucket, f"after-{i}", body)
    way.delete(bucket, [k for k, _ in way.keys(bucket)])
    way.drop_bucket(bucket)


def test_suspended_longer_than_its_heartbeats_may_fail(store, bucket):
    store.access().write(bucket, "before", b"x")
    daemons = [psutil.Process(p) for p in store.actors().values()]
    store.suspend()
    store.suspend()
    before = [p.cpu_times()[:2] for p in daemons]
    time.sleep(15)  # a DataNode is dead after 14 s
    assert [p.cpu_times()[:2] for p in daemons] == before
    store.resume()
    way = store.access()
    assert way.read(bucket, "before") == b"x"
    for i in range(5):
        way.write(bucket, f"k{i}", b"awake")
    assert [psutil.Process(p) for p in store.actors().values()] == daemons


def test_data_outlive_a_restart(store, bucket):
    way = store.access()
    bodies = {f"k{i}": os.urandom(30_000 * i) for i in range(6)}
    for key, body in bodies.items():
        way.write(bucket, key, body)
    stopped = store.down()  # at once: nothing may still be on its way
    assert len(stopped) == 3 and not processes(store.folder)
    assert store.down() == [] and store.status().state == "down"
    store.up()
    way = store.access()
    assert {k: way.read(bucket, k) for k in bodies} == bodies
    assert dict(way.keys(bucket)) == {k: len(b) for k, b in bodies.items()}


@pytest.mark.parametrize("until", ["format", "daemons"])
def test_killed_in_the_middle_of_its_start(tmp_path, port_block, until):
    store = new(tmp_path / "state", port_block, servers=1, redundancy="none")
    text = f"import tests_up; tests_up.up({str(tmp_path / 'state')!r}, {port_block})"
    (tmp_path / "tests_up.py").write_text(
        "from pathlib import Path\nfrom storelab.stores.hdfs.store import HDFS, Settings as S\n"
        "def up(state, port):\n    HDFS('h', S(kind='hdfs', port=port, servers=1, redundancy='none'), Path(state)).up()\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path)
    sign = store.folder / "log" / ("format.log" if until == "format" else "datanode-1.log")
    end = time.monotonic() + 30
    while not sign.exists() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    starter.kill()
    starter.wait()
    if until == "format":
        store.down()
        assert not processes(store.folder)
    store.up()
    store.down()
    assert not processes(store.folder)


def test_a_taken_port_and_a_daemon_that_cannot_start(tmp_path, port_block):
    store = new(tmp_path / "state", port_block, servers=1, redundancy="none")
    with (
        socket.create_server(("127.0.0.1", port_block + 5)),
        pytest.raises(UserError, match=rf"port {port_block + 5} of datanode-1 is taken"),
    ):
        store.up()
    assert not processes(store.folder)
    (store.data / "namenode" / "current" / "VERSION").write_text("damaged=1\n")
    with pytest.raises(
        MeasurementFailed, match=r"stores\.h: namenode-1 ended while it started; its log says: .*\w+Exception"
    ):
        store.up()
    assert not processes(store.folder)


def test_from_configuration_to_record(tmp_path):
    """Uploads, downloads and ranges of a campaign, and two copies as an axis: the other deployment has blocks and ports of its own."""
    axes = {"engine": "fsspec", "workers": 2, "clients": 2, "object_size": "200 kB"}
    sweeps = {
        "put": {"workload": "put", "axes": axes},
        "get": {"workload": "get", "axes": axes},
        "range": {"workload": "get_range", "axes": axes | {"range_size": "5 kB"}},
        "copies": {"workload": "put", "axes": axes | {"redundancy": "replica-2", "servers": 2}},
    }
    times = {"duration": "2 s", "warm_up": "100 ms", "objects": 6}
    config = Config.model_validate(
        {
            **{
                "campaign": "lab",
                "name": "lab",
                "results": str(tmp_path / "results"),
                "state": str(tmp_path / "state"),
            },
            "stores": {"h": {"kind": "hdfs", "port": ports.block(), "servers": 1, "redundancy": "none"}},
            **{
                "use_stores": ["h"],
                "repetitions": 1,
                "calibrate": False,
                "sweeps": {name: times | sweep for name, sweep in sweeps.items()},
            },
        }
    )
    try:
        for p in (points := plan.make(config, WORKLOADS)):
            record = point.point(config, points, p.key)
            rows = [
                row for table in (config.raw / p.key).glob("ops.*.parquet") for row in pq.read_table(table).to_pylist()
            ]
            size = p.axes.get("range_size") or p.axes["object_size"]
            assert rows and {r["error"] for r in rows} == {None} and {r["bytes"] for r in rows} == {size}
            assert all(c["ok"] for c in record["checks"]), record["checks"]
            copies = p.axes["redundancy"] == "replica-2"
            assert record["store"]["deployment"]["daemons"] == {"namenode": 1, "datanode": 2 if copies else 1}
    finally:
        for it in everywhere(config).values():
            it.down()
    assert not processes(tmp_path)
