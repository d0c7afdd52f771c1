"""XRootD as storelab starts, loses, finds and stops it in its namespace, and doors that point at it."""

import contextlib
import http.client
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from laboratory import anything, bucket_for, needs_xrootd

from storelab.core.errors import UserError
from storelab.stores import make
from storelab.stores.doors import HttpSettings, RootSettings
from storelab.stores.protocols import filesystems
from storelab.stores.xrootd.settings import Settings
from storelab.stores.xrootd.store import XRootD
from storelab.workloads.staging import buckets

pytestmark = [
    pytest.mark.heavy,
    *needs_xrootd,
]
SUBNETS = (f"10.{200 + i // 16384 % 50}.{i // 64 % 256}.{i % 64 * 4}/30" for i in itertools.count(os.getpid() * 64))


def new(state: Path, **settings) -> XRootD:
    return XRootD("xr", Settings(kind="xrootd", **{"subnet": next(SUBNETS), **settings}), state)


def left_behind(store: XRootD) -> list[str]:
    """Processes, namespace, link and sockets of a store that is down."""
    out = [
        str(p.pid) for p in psutil.process_iter(["name"]) if p.info["name"] == "xrootd" and in_folder(p, store.folder)
    ]
    out += [
        n for n in (store.namespace.name,) if (Path("/run/netns") / n).exists() or (Path("/sys/class/net") / n).exists()
    ]
    return out + [str(p) for p in store.folder.rglob("*") if p.is_socket() or p.is_fifo()]


def in_folder(process: psutil.Process, folder: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder
    return False


@pytest.fixture(scope="module")
def xrootd(tmp_path_factory):
    """A running store; its state lies in folders that only root may enter."""
    store = new(tmp_path_factory.mktemp("xrootd"))
    store.up()
    yield store
    store.down()
    assert left_behind(store) == []


@pytest.fixture
def fresh(tmp_path):
    store = new(tmp_path / "state")
    yield store
    store.down()
    assert left_behind(store) == []


@pytest.mark.parametrize("protocol", ["root", "http"])
def test_up_and_down(tmp_path, protocol):
    store = new(tmp_path / "state", protocol=protocol)
    try:
        begun = time.monotonic()
        store.up()
        assert time.monotonic() - begun < 10  # a second where nobody else is at work
        pids = store.actors()
        store.up()
        assert store.actors() == pids and list(pids) == ["xrootd-1"]
        assert psutil.Process(pids["xrootd-1"]).username() == "xrootd"  # not root
        status, deployment = store.status(), store.deployment()
        assert (
            status.state == "up"
            and re.match(r"\d+\.\d+", status.version)
            and deployment["protocol"] == protocol == store.protocol
        )
        assert store.endpoints()[0].url.startswith(f"{protocol}://10.") and store.endpoints()[0].protocol == protocol
        assert str(store.folder) not in str(deployment)
        bucket = bucket_for(store, "kept")
        store.access().write(bucket.name, "a/b", b"kept")
        assert (store.data / "objects" / bucket.name / "a" / "b").read_bytes() == b"kept"  # where it should be
        assert store.down() == list(pids.values()) and left_behind(store) == []
        assert store.down() == [] and store.status().state == "down"
        store.up()
        assert store.access().read(bucket.name, "a/b") == b"kept"
    finally:
        store.down()
    assert left_behind(store) == []


def test_put_list_get_delete(xrootd):
    bucket, access, body = bucket_for(xrootd, "all"), xrootd.access(), os.urandom(3_000_000)
    for key, data in (("a/b/c", body), ("a/b/d", b"2"), ("a/bc", b""), ("z", b"3")):
        access.write(bucket.name, key, data)
    assert access.read(bucket.name, "a/b/c") == body and access.read(bucket.name, "a/none") is None
    assert sorted(access.keys(bucket.name, "a/b")) == [("a/b/c", 3_000_000), ("a/b/d", 1), ("a/bc", 0)]
    access.delete(bucket.name, ["a/b/c", "a/never"])
    assert [k for k, _ in access.keys(bucket.name, "a/b/")] == ["a/b/d"]
    assert xrootd.used_bytes() > 0 and buckets.own_buckets(xrootd, "all") == [bucket]
    assert buckets.remove(xrootd, "all", anything)[:2] == (3, 1) and bucket.name not in access.bucket_names()


def test_nobody_else_sees_its_ports_or_mounts(xrootd):
    host, port = xrootd.namespace.server, xrootd.settings.port
    listening = {c.laddr.port for c in psutil.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    assert port not in listening and port + 1 not in listening
    assert xrootd.root() not in {m.mountpoint for m in psutil.disk_partitions(all=True)}
    with socket.create_connection((host, port), 2):  # but from outside of the namespace it is reached
        pass


def get(url: str, path: str, ranges: str) -> tuple[int, str, bytes]:
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", path, headers={"Range": f"bytes={ranges}"})
    answer = connection.getresponse()
    out = answer.status, answer.getheader("Content-Type", ""), answer.read()
    connection.close()
    return out


@pytest.mark.parametrize("n", [2, 200, 1024])
def test_many_ranges_in_one_get(xrootd, n):
    bucket, body = bucket_for(xrootd, "ranges"), os.urandom(500_000)
    xrootd.access().write(bucket.name, "o", body)
    starts = [i * 300 for i in range(n)]
    ranges = [f"{s}-{s + 99}" for s in starts]
    status, kind, data = get(xrootd._url("x1", "http"), f"/{bucket.name}/o", ",".join(ranges))
    assert (status, kind) == (206, "multipart/byteranges; boundary=123456")
    parts = re.split(rb"\r\n--123456(?:--)?\r\n", data)[1:-1]
    assert [p.partition(b"\r\n\r\n")[2] for p in parts] == [body[s : s + 100] for s in starts]
    if n == 1024:  # documented: one more, and it promises all and closes the connection
        with pytest.raises((http.client.HTTPException, OSError)):
            get(xrootd._url("x1", "http"), f"/{bucket.name}/o", ",".join([*ranges, "400000-400099"]))


def test_suspended_it_takes_no_cpu_and_wakes_up(xrootd):
    bucket = bucket_for(xrootd, "sleep")
    pids = xrootd.actors()
    xrootd.suspend()
    assert psutil.Process(pids["xrootd-1"]).status() == psutil.STATUS_STOPPED
    xrootd.up()
    xrootd.resume()
    xrootd.access().write(bucket.name, "k", b"awake")
    assert xrootd.actors() == pids


def test_a_killed_server_comes_back(fresh):
    fresh.up()
    bucket = bucket_for(fresh, "killed")
    fresh.access().write(bucket.name, "k", b"before")
    os.kill(fresh.actors()["xrootd-1"], signal.SIGKILL)
    fresh.up()
    assert fresh.access().read(bucket.name, "k") == b"before"
    os.kill(fresh.actors()["xrootd-1"], signal.SIGKILL)
    fresh.down()
    assert left_behind(fresh) == []


def test_killed_in_the_middle_of_up(fresh):
    """With the server running and nothing recorded, and with a namespace that has no link yet: the next one goes on."""
    code = (
        "import os, sys; from pathlib import Path; from storelab.stores.xrootd.store import Settings as S, XRootD\n"
        "s = XRootD('xr', S(kind='xrootd', subnet=sys.argv[2]), Path(sys.argv[1]))\n"
        "die = lambda *a, **k: os.kill(os.getpid(), 9)\n"
        "if sys.argv[3] == 'server': s.daemons._record = die\n"
        "else: s.namespace._run = lambda *a, real=s.namespace._run, **k: die() if k else real(*a)\n"
        "s.up()"
    )
    for where in ("link", "server"):
        command = [sys.executable, "-c", code, str(fresh.state), fresh.settings.subnet, where]
        assert subprocess.run(command, check=False).returncode == -9
        assert fresh.actors() == {} and fresh.namespace.exists()
        if where == "link":
            assert not fresh.namespace.complete()
            fresh.up()
            assert fresh.status().state == "up"
        fresh.down()
        assert left_behind(fresh) == []


def test_a_lost_link_is_made_again(fresh):
    fresh.up()
    subprocess.run(["ip", "link", "delete", fresh.namespace.name], check=True)
    fresh.up()
    assert fresh.access().bucket_names() == ["storelab-warmup"]


def test_taken_over_after_a_crash_of_the_manager(fresh):
    fresh.up()
    pids = fresh.actors()
    fresh.daemons.file.unlink()  # it died before it could record
    after = new(fresh.state, subnet=fresh.settings.subnet)
    after.up()
    assert after.actors() == pids


def test_other_settings_start_it_anew(fresh):
    fresh.up()
    pids, other = fresh.actors(), new(fresh.state, port=fresh.settings.port + 5)  # and another subnet
    other.up()
    assert other.actors().keys() == pids.keys() and other.actors() != pids
    assert other.access().bucket_names() == ["storelab-warmup"]
    other.down()
    assert left_behind(other) == []


def test_two_at_once_in_subnets_of_their_own(xrootd, fresh):
    moved = xrootd.moved(xrootd.settings, 3)
    assert moved.port == xrootd.settings.port and moved.subnet != xrootd.settings.subnet
    fresh.up()  # same ports, another namespace
    assert fresh.endpoints()[0].url != xrootd.endpoints()[0].url
    bucket_for(fresh, "mine")
    assert fresh.bucket("mine", 0).name not in xrootd.access().bucket_names()


def test_a_subnet_in_use_is_told_in_one_line(xrootd, tmp_path):
    for subnet, said in (
        (xrootd.settings.subnet, "is in use"),
        ("127.0.0.0/30", "is in use"),
        ("10.213.77.1/30", "is no subnet"),
    ):
        store = new(tmp_path / "state", subnet=subnet)
        with pytest.raises(UserError, match=said) as caught:
            store.up()
        assert caught.value.place == "stores.xr.subnet" and "\n" not in str(caught.value)
    assert xrootd.status().state == "up" and xrootd.access().bucket_names()


def test_without_root(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="needs root"):
        new(tmp_path / "state").up()


# -- doors


def door(xrootd, kind: str, path: str = "", **settings):
    url = (
        f"root://{xrootd.namespace.server}:{xrootd.settings.port}/{path}"
        if kind == "root"
        else f"{xrootd._url('x1', 'http')}{path}"
    )
    model = {"root": RootSettings, "http": HttpSettings}[kind]
    return make("door", model(**{"kind": kind, "endpoint": url, **settings}), Path("none"))


@pytest.mark.parametrize("path", ["/", "/site/given"])
@pytest.mark.parametrize("kind", ["root", "http"])
def test_a_door(xrootd, kind, path):
    given = xrootd.data / "objects" / path.strip("/")
    if path != "/":
        given.mkdir(parents=True, exist_ok=True)
        for folder in (given.parent, given):
            shutil.chown(folder, "xrootd")
    store = door(xrootd, kind, path)
    store.up()
    assert store.status().detail == "usable" and xrootd.version() in store.version()
    places = [store.bucket("door", i) for i in range(3)]
    buckets.ensure(store, "door", places)
    buckets.ensure(store, "door", places)
    access = store.access()
    with contextlib.ExitStack() as stack:  # from several threads, while processes are started
        threads = [
            threading.Thread(
                target=lambda i=i: [access.write(places[i % 3].name, f"x{i}/y/{j}", bytes(500)) for j in range(10)]
            )
            for i in range(6)
        ]
        for thread in threads:
            thread.start()
            stack.callback(thread.join, 20)
        for _ in range(3):
            subprocess.run([sys.executable, "-S", "-c", "pass"], preexec_fn=lambda: None, check=True, timeout=20)
    assert not any(t.is_alive() for t in threads)
    assert len((given / places[0].name / "x0" / "y" / "1").read_bytes()) == 500
    access.write(places[0].name, "x0/y/1", b"new")
    assert access.read(places[0].name, "x0/y/1") == b"new" and access.read(places[0].name, "x0/none") is None
    assert sorted(buckets.list_keys(access, places[0], "x0/y/1")) == [("x0/y/1", 3)]
    assert (
        len(list(buckets.list_keys(access, places[0]))) == 20
        and list(buckets.list_keys(access, places[0], "none/")) == []
    )
    end = store.endpoints()[0]
    fs, target = filesystems.data(end, {}, 4), filesystems.path(end, places[0], "x3/y/2")
    assert fs.cat_file(target, start=0, end=500) == bytes(500) and fs.cat_ranges([target] * 2, [0, 7], [5, 17]) == [
        bytes(5),
        bytes(10),
    ]
    if kind == "root":
        fs.invalidate_cache()  # what it holds open for reading nobody can replace
    with pytest.raises(UserError, match="marked for the campaign 'door'"):
        buckets.ensure(store, "other", [places[0]])
    assert buckets.own_buckets(store, "door") == places
    assert buckets.remove(store, "door", anything)[:2] == (60, 3) and buckets.own_buckets(store, "door") == []
    read_only = door(xrootd, kind, path, read_only=True)
    read_only.up()
    with pytest.raises(UserError, match="read-only"):
        buckets.ensure(read_only, "door", places)


def test_a_door_that_was_closed_for_a_while(fresh):
    fresh.up()
    store, bucket = door(fresh, "root", "/"), fresh.bucket("while", 0)
    buckets.ensure(store, "while", [bucket])
    access = store.access()
    fresh.down()
    with pytest.raises(UserError, match="cannot be reached"):
        store.up()
    fresh.up()
    store.up()
    assert list(access.keys(bucket.name)) == [(".storelab", len(access.read(bucket.name, ".storelab")))]


def test_doors_that_do_not_open(xrootd):
    host, port = xrootd.namespace.server, xrootd.settings.port
    begun = time.monotonic()
    for kind, url, said in (
        ("root", f"root://{host}:{port + 2}//", "cannot be reached"),
        ("root", f"root://{host}:{port + 1}//", "cannot be reached"),  # XrdHttp
        ("root", f"root://{host}:{port}//none", "no such file"),
        ("root", "root://no-such-host.invalid//x", "cannot be resolved"),
        ("root", f"http://{host}:{port}/", "is no URL of a root door"),
        ("http", f"http://{host}:{port + 2}/", "cannot be reached"),
        ("http", f"http://{host}:{port}/", "cannot be reached"),  # root://
        ("http", f"http://{host}:{port + 1}/none", "404"),
    ):
        with pytest.raises(UserError, match=said) as caught:
            door(xrootd, kind, endpoint=url).up()
        assert caught.value.place == "stores.door.endpoint" and "\n" not in str(caught.value)
    assert time.monotonic() - begun < 10


def test_installing_twice_does_nothing():
    assert all(part.present() for part in XRootD.recipe(Path("none")))
