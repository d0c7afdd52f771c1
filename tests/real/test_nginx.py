"""What is peculiar to nginx, and HTTP doors that point at it; the rest is in test_store_contract.py."""

import http.client
import os
import re
import signal
import socket
from pathlib import Path

import managed
import psutil
import pytest
from laboratory import anything, bucket_for, gone

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import make
from storelab.stores.doors import HttpSettings
from storelab.stores.nginx import Nginx
from storelab.stores.protocols.access import NoSuchBucket
from storelab.workloads.staging import buckets

pytestmark = [pytest.mark.real, pytest.mark.heavy]


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    """Return a running store with two front-ends."""
    with managed.running(managed.made("ng", managed.settings_of("nginx"), tmp_path_factory.mktemp("nginx"))) as store:
        store.up(2)
        yield store


@pytest.fixture
def fresh(tmp_path):
    """Return a store that was never up; stop it at the end."""
    with managed.running(managed.made("ng", managed.settings_of("nginx"), tmp_path / "state")) as store:
        yield store


def test_master_and_its_workers_are_known(fresh):
    fresh.up()
    assert set(fresh.actors()) == {"http-1", "http-1/1", "http-1/2"}
    fresh.up(2)
    assert fresh.deployment()["daemons"] == {"http": 2} and fresh.deployment()["processes"] == 2


def test_prefixes_and_missing_buckets(nginx):
    bucket, way = bucket_for(nginx, "both"), nginx.access(front_end=1)
    for key, data in (("a/b/c", b"new"), ("a/b/d", b"2"), ("a/bc", b""), ("z", b"3")):
        way.write(bucket.name, key, data)
    everything = [("a/b/c", 3), ("a/b/d", 1), ("a/bc", 0), ("z", 1)]
    for prefix, number in (("", 4), ("a/b", 3), ("a/b/", 2), ("a/b/c", 1), ("none/", 0)):
        assert sorted(buckets.list_keys(way, bucket, prefix)) == everything[:number], prefix
    with pytest.raises(NoSuchBucket):
        way.write("storelab-none", "k", b"")


def test_foreign_file_keeps_its_folder(nginx):
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


def test_many_ranges_in_one_get(nginx):
    bucket, body = bucket_for(nginx, "ranges"), os.urandom(500_000)
    nginx.access().write(bucket.name, "o", body)
    for n in (2, 200, 1500):
        starts = [i * 300 for i in range(n)]
        status, kind, data = get(nginx.endpoints()[0], f"/{bucket.name}/o", ",".join(f"{s}-{s + 99}" for s in starts))
        assert status == 206 and kind.startswith("multipart/byteranges"), n
        parts = re.split(rb"\r\n--" + kind.partition("boundary=")[2].encode() + rb"(?:--)?\r\n", data)[1:-1]
        assert [p.partition(b"\r\n\r\n")[2] for p in parts] == [body[s : s + 100] for s in starts], n


def test_killed_master_leaves_no_worker(nginx):
    bucket = bucket_for(nginx, "killed")
    nginx.access().write(bucket.name, "k", b"before")
    pids = nginx.actors()
    psutil.Process(pids["http-1/1"]).suspend()  # one that cannot end by itself
    managed.kill(nginx, "http-1")
    assert nginx.status().state == "partly" and not gone([pids["http-1/1"]])  # the workers still serve
    nginx.up(2)
    assert gone([pids["http-1/1"], pids["http-1/2"]]) and nginx.actors()["http-2"] == pids["http-2"]
    assert nginx.access().read(bucket.name, "k") == b"before"


def test_down_finds_workers_of_a_killed_master(fresh):
    fresh.up()
    pids = fresh.actors()
    managed.kill(fresh, "http-1")
    fresh.down()
    assert gone(pids.values())


def test_unrecorded_master_is_taken_over(tmp_path):
    settings = managed.settings_of("nginx")
    with managed.running(managed.made("ng", settings, tmp_path)) as store:
        managed.kill_in_up(store, settings, "http-1")
        assert store.actors() == {}
        store.up()
        pids = store.actors()
        store.daemons.file.unlink()
        after = managed.again(store)
        assert sorted(after.down()) == sorted(pids.values()) and gone(pids.values())


def test_changed_settings_restart_it(tmp_path):
    settings = managed.settings_of("nginx")
    first = managed.made("ng", settings, tmp_path)
    with managed.running(managed.made("ng", settings | {"processes": 1, "tls": True}, tmp_path)) as store:
        first.up()
        pids = first.actors()
        store.up()
        assert gone(pids.values()) and len(store.actors()) == 2
        bucket = bucket_for(store, "tls")  # its certificate is verified
        store.access().write(bucket.name, "k", b"x")
        assert store.endpoints()[0].url.startswith("https://") and store.access().read(bucket.name, "k") == b"x"
        with socket.create_connection(("127.0.0.1", settings["port"])) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"400" in s.recv(100)


def test_taken_port_leaves_nothing_running(fresh):
    managed.refuses_a_taken_port(fresh, fresh.settings.port + 1, "http-2", 2)


def test_odd_folder_name_is_refused(tmp_path):
    with pytest.raises(UserError, match="nginx does not bear"):
        managed.created("ng", managed.settings_of("nginx"), tmp_path / "a$b").up()


def test_cut_uploads_are_removed(fresh):
    fresh.up()
    with socket.create_connection(("127.0.0.1", fresh.settings.port)) as s:
        s.sendall(b"PUT /storelab-warmup/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + bytes(1_000_000))
        managed.until(lambda: list((fresh.data / "incoming" / "http-1").iterdir()))
        pids = list(fresh.actors().values())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        managed.until(lambda: gone(pids))
    assert list((fresh.data / "incoming" / "http-1").iterdir())
    fresh.up()
    assert not list((fresh.data / "incoming" / "http-1").iterdir())
    assert fresh.access().read("storelab-warmup", "cut") is None


def test_data_in_memory_go_with_it(tmp_path):
    with managed.running(managed.made("ng", managed.settings_of("nginx", backing="tmpfs"), tmp_path)) as store:
        store.up()
        assert store.deployment()["backing"] == "tmpfs" and store.used_bytes() > 0
    assert not store.data.exists()


# -- doors


def door(nginx, **settings):
    return make(
        "door",
        HttpSettings(**{"kind": "http", "endpoint": [e.url for e in nginx.endpoints(2)], **settings}),
        Path("none"),
    )


def test_door(nginx):
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


def test_door_to_a_folder(nginx):
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


def test_unusable_doors_are_refused(nginx, port_block, monkeypatch):
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


def test_read_only_door_writes_nothing(nginx):
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


def test_installed_parts_are_present():
    assert all(part.present() for part in Nginx.recipe(Path("none")))
