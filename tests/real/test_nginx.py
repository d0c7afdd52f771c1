"""nginx as storelab starts, loses, finds and stops it, and HTTP doors that point at it."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import ports
import psutil
import pytest
from laboratory import anything, bucket_for, gone

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import make
from storelab.stores.doors import HttpSettings
from storelab.stores.nginx import DAV_EXT, MODULES, Nginx, Settings
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.access import NoSuchBucket
from storelab.workloads.staging import buckets

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not any((m / DAV_EXT).exists() for m in MODULES),
        reason="nginx with dav_ext is not installed: storelab install nginx",
    ),
]


def new(state: Path, port: int, **settings) -> Nginx:
    return Nginx("ng", Settings(kind="nginx", port=port, **settings), state)


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    """A running store with two front-ends."""
    store = new(tmp_path_factory.mktemp("nginx"), ports.block())
    store.up(2)
    yield store
    pids = store.actors().values()
    store.down()
    assert gone(pids)


@pytest.fixture
def fresh(tmp_path, port_block):
    store = new(tmp_path / "state", port_block)
    yield store
    new(tmp_path / "state", port_block).down()


def test_up_and_down(fresh):
    begun = time.monotonic()
    fresh.up()
    assert time.monotonic() - begun < 3  # some 0.2 s where nobody else is at work
    pids = fresh.actors()
    assert set(pids) == {"http-1", "http-1/1", "http-1/2"}  # a master and its workers
    fresh.up()
    assert fresh.actors() == pids
    fresh.up(2)
    assert fresh.actors().items() >= pids.items() and len(fresh.endpoints(2)) == 2
    assert fresh.status().state == "up" and re.match(r"\d+\.\d+", fresh.version())
    assert fresh.deployment()["daemons"] == {"http": 2} and fresh.deployment()["processes"] == 2
    for pid in fresh.actors().values():
        assert {c.laddr.ip for c in psutil.Process(pid).net_connections("inet") if c.status == psutil.CONN_LISTEN} <= {
            "127.0.0.1"
        }
    bucket = bucket_for(fresh, "kept")
    fresh.access().write(bucket.name, "a/b", b"kept")
    pids = fresh.actors()
    assert sorted(fresh.down()) == sorted(pids.values()) and gone(pids.values())
    assert fresh.down() == [] and fresh.status().state == "down"
    fresh.up()
    assert fresh.access().read(bucket.name, "a/b") == b"kept"


def test_written_through_one_front_end_read_through_the_other(nginx):
    bucket = bucket_for(nginx, "both")
    one, two = nginx.access(front_end=0), nginx.access(front_end=1)
    body = os.urandom(3_000_000)
    for key, data in (("a/b/c", body), ("a/b/d", b"2"), ("a/bc", b""), ("z", b"3")):
        one.write(bucket.name, key, data)
    assert two.read(bucket.name, "a/b/c") == body and two.read(bucket.name, "a/bc") == b""
    one.write(bucket.name, "a/b/c", b"new")
    assert two.read(bucket.name, "a/b/c") == b"new"
    listed = {
        prefix: sorted(buckets.list_keys(two, bucket, prefix)) for prefix in ("", "a/b", "a/b/", "a/b/c", "none/")
    }
    assert listed[""] == [("a/b/c", 3), ("a/b/d", 1), ("a/bc", 0), ("z", 1)]
    assert listed["a/b"] == listed[""][:3] and listed["a/b/"] == listed[""][:2]
    assert listed["a/b/c"] == listed[""][:1] and listed["none/"] == []
    assert two.read(bucket.name, "a/none") is None
    with pytest.raises(NoSuchBucket):
        two.read("storelab-none", "k")
    with pytest.raises(NoSuchBucket):
        two.write("storelab-none", "k", b"")
    with pytest.raises(NoSuchBucket):
        list(two.keys("storelab-none"))
    two.delete(bucket.name, ["a/b/c", "a/never"])
    assert one.read(bucket.name, "a/b/c") is None
    assert buckets.own_buckets(nginx, "both") == [bucket]
    assert buckets.remove(nginx, "both", anything)[:2] == (3, 1)
    assert bucket.name not in one.bucket_names() and buckets.own_buckets(nginx, "both") == []


def test_a_folder_with_a_foreign_file_stays(nginx):
    bucket, access = bucket_for(nginx, "foreign"), nginx.access()
    (nginx.data / "objects" / bucket.name / "a" / "b").mkdir(parents=True)
    (nginx.data / "objects" / bucket.name / "a" / "b" / "mine").write_text("precious")
    with pytest.raises(MeasurementFailed, match="still holds"):
        access.drop_bucket(bucket.name)
    assert access.read(bucket.name, "a/b/mine") == b"precious"
    buckets.remove(nginx, "foreign", anything)


def get(endpoint, path: str, ranges: str) -> tuple[int, str, bytes]:
    host, port = endpoint.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", path, headers={"Range": f"bytes={ranges}"})
    answer = connection.getresponse()
    out = answer.status, answer.getheader("Content-Type", ""), answer.read()
    connection.close()
    return out


@pytest.mark.parametrize("n", [2, 200, 1500])
def test_many_ranges_in_one_get(nginx, n):
    bucket, body = bucket_for(nginx, "ranges"), os.urandom(500_000)
    nginx.access().write(bucket.name, "o", body)
    starts = [i * 300 for i in range(n)]
    status, kind, data = get(nginx.endpoints()[0], f"/{bucket.name}/o", ",".join(f"{s}-{s + 99}" for s in starts))
    assert status == 206 and kind.startswith("multipart/byteranges")
    parts = re.split(rb"\r\n--" + kind.partition("boundary=")[2].encode() + rb"(?:--)?\r\n", data)[1:-1]
    assert [p.partition(b"\r\n\r\n")[2] for p in parts] == [body[s : s + 100] for s in starts]


def test_suspended_it_takes_no_cpu_and_wakes_up(nginx):
    bucket = bucket_for(nginx, "sleep")
    processes = [psutil.Process(p) for p in nginx.actors().values()]
    nginx.suspend()
    nginx.suspend()
    assert {p.status() for p in processes} == {psutil.STATUS_STOPPED}  # the workers as well
    nginx.up(2)
    nginx.resume()
    nginx.access().write(bucket.name, "k", b"awake")
    assert [psutil.Process(p) for p in nginx.actors().values()] == processes


def test_a_killed_master_leaves_no_worker(nginx):
    bucket = bucket_for(nginx, "killed")
    nginx.access().write(bucket.name, "k", b"before")
    pids = nginx.actors()
    os.kill(pids["http-1"], signal.SIGKILL)
    psutil.Process(pids["http-1/1"]).suspend()  # one that cannot end by itself
    until = time.monotonic() + 5
    while "http-1" in nginx.actors() and time.monotonic() < until:
        time.sleep(0.01)
    assert nginx.status().state == "partly" and not gone([pids["http-1/1"]])  # the workers still serve
    nginx.up(2)
    assert gone([pids["http-1/1"], pids["http-1/2"]]) and nginx.actors()["http-2"] == pids["http-2"]
    assert nginx.access().read(bucket.name, "k") == b"before"


def test_down_finds_the_workers_of_a_killed_master(fresh):
    fresh.up()
    pids = fresh.actors()
    os.kill(pids["http-1"], signal.SIGKILL)
    fresh.down()
    assert gone(pids.values())


def test_taken_over_after_a_crash_of_the_manager(fresh):
    fresh.up()
    pids = fresh.actors()
    fresh.daemons.file.unlink()  # it died before it could record
    after = new(fresh.state, fresh.settings.port)
    after.up()
    assert after.actors() == pids
    after.daemons.file.unlink()
    assert sorted(new(fresh.state, fresh.settings.port).down()) == sorted(pids.values()) and gone(pids.values())


def test_killed_in_the_middle_of_up(fresh):
    code = (
        "import os, sys; from pathlib import Path; from storelab.stores.nginx import Nginx, Settings as S\n"
        "s = Nginx('ng', S(kind='nginx', port=int(sys.argv[2])), Path(sys.argv[1]))\n"
        "s._warm_up = lambda: os.kill(os.getpid(), 9)\n"
        "s.up(2)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code, str(fresh.state), str(fresh.settings.port)], check=False).returncode
        == -9
    )
    pids = fresh.actors()
    assert len(pids) == 6
    fresh.up(2)
    assert fresh.actors() == pids
    fresh.down()
    assert gone(pids.values())


def test_other_settings_start_it_anew(fresh):
    fresh.up()
    pids = fresh.actors()
    other = new(fresh.state, fresh.settings.port, processes=1, tls=True)
    other.up()
    assert gone(pids.values()) and len(other.actors()) == 2
    bucket = bucket_for(other, "tls")  # its certificate is verified
    other.access().write(bucket.name, "k", b"x")
    assert other.endpoints()[0].url.startswith("https://") and other.access().read(bucket.name, "k") == b"x"
    with socket.create_connection(("127.0.0.1", fresh.settings.port)) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b"400" in s.recv(100)


def test_a_taken_port_is_told_in_one_line(fresh):
    with socket.create_server(("127.0.0.1", fresh.settings.port + 1)), pytest.raises(UserError) as caught:
        fresh.up(2)
    assert f"port {fresh.settings.port + 1} of http-2 is taken by" in str(caught.value) and "\n" not in str(
        caught.value
    )
    assert fresh.actors() == {}


def test_a_folder_that_nginx_cannot_be_told_of(tmp_path, port_block):
    with pytest.raises(UserError, match="nginx does not bear"):
        new(tmp_path / "a$b", port_block).up()


def test_uploads_that_were_cut_off_go(fresh):
    fresh.up()
    with socket.create_connection(("127.0.0.1", fresh.settings.port)) as s:
        s.sendall(b"PUT /storelab-warmup/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + bytes(1_000_000))
        until = time.monotonic() + 5
        while not list((fresh.data / "incoming" / "http-1").iterdir()) and time.monotonic() < until:
            time.sleep(0.01)
        for pid in fresh.actors().values():
            os.kill(pid, signal.SIGKILL)
        while fresh.actors() and time.monotonic() < until:
            time.sleep(0.01)
    assert list((fresh.data / "incoming" / "http-1").iterdir())
    fresh.up()
    assert not list((fresh.data / "incoming" / "http-1").iterdir())
    assert fresh.access().read("storelab-warmup", "cut") is None


def test_in_memory_data_go_with_it(tmp_path, port_block):
    store = Nginx("ng", Settings(kind="nginx", port=port_block, backing="tmpfs"), tmp_path / "state")
    try:
        store.up()
        assert store.deployment()["backing"] == "tmpfs" and store.used_bytes() > 0
    finally:
        store.down()
    assert not store.data.exists()


# -- doors


def door(nginx, **settings):
    return make(
        "door",
        HttpSettings(**{"kind": "http", "endpoint": [e.url for e in nginx.endpoints(2)], **settings}),
        Path("none"),
    )


def test_a_door(nginx):
    store = door(nginx)
    store.up(2)
    assert store.status().detail == "usable" and store.version().startswith("nginx/")
    assert store.down() == [] and store.most("front_ends") == 2
    places = [store.bucket("door", i) for i in range(3)]
    buckets.ensure(store, "door", places)
    buckets.ensure(store, "door", places)
    store.access(front_end=1).write(places[1].name, "x/y", b"through the door")
    assert nginx.access().read(places[1].name, "x/y") == b"through the door"
    with pytest.raises(UserError, match="marked for the campaign 'door'"):
        buckets.ensure(store, "other", [places[0]])
    assert buckets.remove(store, "door", anything)[:2] == (1, 3)


def test_a_folder_behind_a_door(nginx):
    (nginx.data / "objects" / "site" / "given").mkdir(parents=True)
    store = door(nginx, endpoint=f"{nginx.endpoints()[0].url}/site/given/")
    store.up()
    bucket = bucket_for(store, "below")
    store.access().write(bucket.name, "x/y", b"1")
    assert store.access().bucket_names() == [bucket.name] and list(store.access().keys(bucket.name, "x")) == [
        ("x/y", 1)
    ]
    assert (nginx.data / "objects" / "site" / "given" / bucket.name / "x" / "y").read_bytes() == b"1"
    buckets.remove(store, "below", anything)


def test_the_engines_file_system(nginx):
    bucket, end = bucket_for(nginx, "engine"), nginx.endpoints()[0]
    fs = filesystems.data(end, {}, 4)
    path = filesystems.path(end, bucket, "a/b")
    fs.pipe_file(path, bytes(range(200)))  # folders are made on the way
    assert fs.cat_file(path) == bytes(range(200)) and fs.cat_file(path, start=10, end=20) == bytes(range(10, 20))
    assert fs.cat_ranges([path] * 2, [0, 100], [5, 110]) == [bytes(range(5)), bytes(range(100, 110))]
    with pytest.raises(FileNotFoundError):
        fs.cat_file(path + "-none")


def test_doors_that_do_not_open(nginx, port_block, monkeypatch):
    for url, said in (
        (f"http://127.0.0.1:{port_block}", "cannot be reached"),
        ("http://no-such-host.invalid", "cannot be resolved"),
        (f"{nginx.endpoints()[0].url}/none", "404"),
        (nginx.endpoints()[0].url.replace("http", "https"), "TLS|cannot be reached"),
        ("root://host//x", "is no URL of a http door"),
    ):
        with pytest.raises(UserError, match=said) as caught:
            door(nginx, endpoint=url).up()
        assert "\n" not in str(caught.value) and caught.value.place == "stores.door.endpoint"
    with pytest.raises(UserError, match="STORELAB_TOKEN is not set"):
        door(nginx, token="STORELAB_TOKEN").up()
    monkeypatch.setenv("STORELAB_TOKEN", "secret-token")
    door(nginx, token="STORELAB_TOKEN").up()


def test_a_read_only_door_writes_nothing(nginx):
    store = door(nginx, read_only=True)
    store.up()
    with pytest.raises(UserError, match="read-only"):
        buckets.ensure(store, "ro", [store.bucket("ro", 0)])
    for act in (
        lambda a: a.write("b", "k", b""),
        lambda a: a.make_bucket("b"),
        lambda a: a.drop_bucket("b"),
        lambda a: a.delete("b", ["k"]),
    ):
        with pytest.raises(UserError, match="read-only"):
            act(store.access())


def test_installing_twice_does_nothing():
    assert all(part.present() for part in Nginx.recipe(Path("none")))
