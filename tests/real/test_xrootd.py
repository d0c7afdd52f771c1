"""Tests of XRootD in its namespace, and of gateways that point at it; test_store_contract.py has the others."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import managed
import psutil
import pytest
import urllib3
from laboratory import anything, bucket_for, needs_xrootd

from storelab.core.errors import UserError
from storelab.stores import make
from storelab.stores.external import HttpSettings, RootSettings
from storelab.stores.protocols import filesystems
from storelab.stores.xrootd.store import XRootD
from storelab.workloads.staging import buckets

pytestmark = [pytest.mark.real, pytest.mark.heavy, *needs_xrootd]


def new(state: Path, **settings) -> XRootD:
    return managed.made("xr", managed.settings_of("xrootd") | settings, state)


xrootd = managed.kept_up("xr", "xrootd")  # its state is in folders that only root may enter
fresh = managed.never_up("xr", "xrootd")


def test_server_is_not_root_and_keeps_files(xrootd):
    assert list(xrootd.actors()) == ["xrootd-1"]
    assert psutil.Process(xrootd.actors()["xrootd-1"]).username() == "xrootd"
    bucket = bucket_for(xrootd, "files")
    xrootd.access().write(bucket.name, "a/b", b"kept")
    assert (xrootd.data / "objects" / bucket.name / "a" / "b").read_bytes() == b"kept"
    assert xrootd.used_bytes() > 0


def test_other_processes_see_no_ports_or_mounts(xrootd):
    assert xrootd.root() not in {m.mountpoint for m in psutil.disk_partitions(all=True)}
    with socket.create_connection((xrootd.namespace.server, xrootd.settings.port), 2):
        pass  # from outside of the namespace it is reached


def test_at_most_1024_ranges_in_one_get(xrootd):
    bucket, body, starts = bucket_for(xrootd, "ranges"), os.urandom(500_000), range(0, 1024 * 300, 300)
    xrootd.access().write(bucket.name, "o", body)
    url, ranges = f"{xrootd._url('x1', 'http')}/{bucket.name}/o", ",".join(f"{s}-{s + 99}" for s in starts)
    answer = urllib3.request("GET", url, headers={"Range": f"bytes={ranges}"}, timeout=10, retries=False)
    assert (answer.status, answer.headers["Content-Type"]) == (206, "multipart/byteranges; boundary=123456")
    parts = re.split(rb"\r\n--123456(?:--)?\r\n", answer.data)[1:-1]
    assert [p.partition(b"\r\n\r\n")[2] for p in parts] == [body[s : s + 100] for s in starts]
    # Documented: of one more it promises all, and closes the connection.
    one_more = {"Range": f"bytes={ranges},400000-400099"}
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", url, headers=one_more, timeout=10, retries=False)


def test_down_after_a_killed_server(fresh):
    fresh.up()
    os.kill(fresh.actors()["xrootd-1"], signal.SIGKILL)
    fresh.down()
    assert managed.left_behind(fresh) == []


def test_killed_before_the_link_is_made(fresh):
    """The namespace is there and has no link yet: the next `up` goes on."""
    code = (
        "import os, sys; from pathlib import Path; from storelab.stores.xrootd.store import Settings as S, XRootD\n"
        "s = XRootD('xr', S(kind='xrootd', subnet=sys.argv[2]), Path(sys.argv[1]))\n"
        "die = lambda *a, **k: os.kill(os.getpid(), 9)\n"
        "s.namespace._run = lambda *a, real=s.namespace._run, **k: die() if k else real(*a)\n"
        "s.up()"
    )
    command = [sys.executable, "-c", code, str(fresh.state), fresh.settings.subnet]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert fresh.actors() == {} and fresh.namespace.exists() and not fresh.namespace.complete()
    fresh.up()
    assert fresh.status().state == "up"


def test_lost_link_is_made_again(fresh):
    fresh.up()
    subprocess.run(["ip", "link", "delete", fresh.namespace.name], check=True)
    fresh.up()
    assert fresh.access().bucket_names() == ["storelab-warmup"]


def test_changed_settings_restart_it(fresh):
    fresh.up()
    pids, other = fresh.actors(), new(fresh.state, port=fresh.settings.port + 5)  # and another subnet
    other.up()
    assert other.actors().keys() == pids.keys() and other.actors() != pids
    assert other.access().bucket_names() == ["storelab-warmup"]
    other.down()
    assert managed.left_behind(other) == []


def test_two_stores_in_two_subnets(xrootd, fresh):
    moved = xrootd.moved(xrootd.settings, 3)
    assert moved.port == xrootd.settings.port and moved.subnet != xrootd.settings.subnet
    fresh.up()  # same ports, another namespace
    assert fresh.endpoints()[0].url != xrootd.endpoints()[0].url
    bucket_for(fresh, "mine")
    assert fresh.bucket("mine", 0).name not in xrootd.access().bucket_names()


def test_subnet_in_use_is_refused(xrootd, tmp_path):
    for subnet, found in (
        (xrootd.settings.subnet, "is in use"),
        ("127.0.0.0/30", "is in use"),
        ("10.213.77.1/30", "is not a subnet"),
    ):
        store = managed.created("xr", {"kind": "xrootd", "subnet": subnet}, tmp_path / "state")
        with pytest.raises(UserError, match=found) as caught:
            store.up()
        assert caught.value.place == "stores.xr.subnet" and "\n" not in str(caught.value)
    assert xrootd.status().state == "up" and xrootd.access().bucket_names()


def test_root_is_needed(tmp_path, monkeypatch):
    store = new(tmp_path / "state")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="needs root"):
        store.up()


# -- doors


def door(xrootd, kind: str, path: str = "", **settings):
    root = f"root://{xrootd.namespace.server}:{xrootd.settings.port}/"
    url = f"{root if kind == 'root' else xrootd._url('x1', 'http')}{path}"
    model = {"root": RootSettings, "http": HttpSettings}[kind]
    return make("door", model(**{"kind": kind, "endpoint": url, **settings}), Path("none"))


@pytest.mark.parametrize("path", ["/", "/site/given"])
@pytest.mark.parametrize("kind", ["root", "http"])
def test_external_store_works(xrootd, kind, path):
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

    def write_ten(i: int) -> None:
        for j in range(10):
            access.write(places[i % 3].name, f"x{i}/y/{j}", bytes(500))

    with ThreadPoolExecutor(6) as threads:  # while processes are started
        written = threads.map(write_ten, range(6), timeout=20)
        for _ in range(3):
            subprocess.run([sys.executable, "-S", "-c", "pass"], preexec_fn=lambda: None, check=True, timeout=20)
        assert len(list(written)) == 6
    assert len((given / places[0].name / "x0" / "y" / "1").read_bytes()) == 500
    access.write(places[0].name, "x0/y/1", b"new")
    assert access.read(places[0].name, "x0/y/1") == b"new" and access.read(places[0].name, "x0/none") is None
    assert sorted(buckets.list_keys(access, places[0], "x0/y/1")) == [("x0/y/1", 3)]
    assert len(list(buckets.list_keys(access, places[0]))) == 20
    assert list(buckets.list_keys(access, places[0], "none/")) == []
    end = store.endpoints()[0]
    fs, target = filesystems.data(end, {}, 4), filesystems.path(end, places[0], "x3/y/2")
    assert fs.cat_file(target, start=0, end=500) == bytes(500)
    assert fs.cat_ranges([target] * 2, [0, 7], [5, 17]) == [bytes(5), bytes(10)]
    if kind == "root":
        fs.invalidate_cache()  # a file that it holds open for reading cannot be replaced
    with pytest.raises(UserError, match="marked for the campaign 'door'"):
        buckets.ensure(store, "other", [places[0]])
    assert buckets.campaign_buckets(store, "door") == places
    assert buckets.remove(store, "door", anything)[:2] == (60, 3) and buckets.campaign_buckets(store, "door") == []
    read_only = door(xrootd, kind, path, read_only=True)
    read_only.up()
    with pytest.raises(UserError, match="read-only"):
        buckets.ensure(read_only, "door", places)


def test_external_store_reconnects(fresh):
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


def test_unusable_external_stores_are_refused(xrootd):
    host, port = xrootd.namespace.server, xrootd.settings.port
    for kind, url, found in (
        ("root", f"root://{host}:{port + 2}//", "cannot be reached"),
        ("root", f"root://{host}:{port + 1}//", "cannot be reached"),  # XrdHttp
        ("root", f"root://{host}:{port}//none", "no such file"),
        ("root", "root://no-such-host.invalid//x", "cannot be resolved"),
        ("root", f"http://{host}:{port}/", "is not a URL of a root store"),
        ("http", f"http://{host}:{port}/", "cannot be reached"),  # root://
    ):
        with pytest.raises(UserError, match=found) as caught:
            door(xrootd, kind, endpoint=url).up()
        assert caught.value.place == "stores.door.endpoint" and "\n" not in str(caught.value)


def test_installed_parts_are_present():
    assert all(part.present() for part in XRootD.recipe(Path("none")))
