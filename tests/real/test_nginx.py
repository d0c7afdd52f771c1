"""Tests of nginx only, and of HTTP gateways that point at it; test_store_contract.py has the others."""

import os
import signal
import socket
from pathlib import Path

import managed
import psutil
import pytest
from laboratory import anything, bucket_for, gone

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import make
from storelab.stores.external import HttpSettings
from storelab.stores.nginx import Nginx
from storelab.stores.protocols.access import NoSuchBucket
from storelab.workloads.staging import buckets

pytestmark = [pytest.mark.real, pytest.mark.heavy]


nginx = managed.kept_up("ng", "nginx", 2)
fresh = managed.never_up("ng", "nginx")


def test_master_and_its_workers_are_known(fresh):
    fresh.up()
    assert set(fresh.actors()) == {"http-1", "http-1/1", "http-1/2"}
    fresh.up(2)
    assert fresh.deployment()["daemons"] == {"http": 2} and fresh.deployment()["processes"] == 2


def test_put_makes_no_bucket(nginx):
    with pytest.raises(NoSuchBucket):
        nginx.access().write("storelab-none", "k", b"")


def test_foreign_file_keeps_its_folder(nginx):
    bucket, access = bucket_for(nginx, "foreign"), nginx.access()
    (nginx.data / "objects" / bucket.name / "a" / "b").mkdir(parents=True)
    (nginx.data / "objects" / bucket.name / "a" / "b" / "mine").write_text("precious")
    with pytest.raises(MeasurementFailed, match="still contains"):
        access.drop_bucket(bucket.name)
    assert access.read(bucket.name, "a/b/mine") == b"precious"
    buckets.remove(nginx, "foreign", anything)


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
    with pytest.raises(UserError, match="nginx does not support"):
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


def test_external_store_works(nginx):
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


def test_unusable_external_stores_are_refused(nginx, port_block, monkeypatch):
    for url, found in (
        (f"http://127.0.0.1:{port_block}", "cannot be reached"),
        ("http://no-such-host.invalid", "cannot be resolved"),
        (f"{nginx.endpoints()[0].url}/none", "404"),
        (nginx.endpoints()[0].url.replace("http", "https"), "TLS|cannot be reached"),
        ("root://host//x", "is not a URL of a http store"),
    ):
        with pytest.raises(UserError, match=found) as caught:
            door(nginx, endpoint=url).up()
        assert "\n" not in str(caught.value) and caught.value.place == "stores.door.endpoint"
    with pytest.raises(UserError, match="STORELAB_TOKEN is not set"):
        door(nginx, token="STORELAB_TOKEN").up()
    monkeypatch.setenv("STORELAB_TOKEN", "secret-token")
    door(nginx, token="STORELAB_TOKEN").up()


def test_read_only_external_store_writes_nothing(nginx):
    store = door(nginx, read_only=True)
    store.up()
    with pytest.raises(UserError, match="read-only"):
        buckets.ensure(store, "ro", [store.bucket("ro", 0)])
    way = store.access()
    changes = ((way.write, "b", "k", b""), (way.make_bucket, "b"), (way.drop_bucket, "b"), (way.delete, "b", ["k"]))
    for change, *given in changes:
        with pytest.raises(UserError, match="read-only"):
            change(*given)


def test_installed_parts_are_present():
    assert all(part.present() for part in Nginx.recipe(Path("none")))
