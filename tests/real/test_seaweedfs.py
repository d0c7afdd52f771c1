"""SeaweedFS as storelab starts, loses, finds and stops it."""

import contextlib
import os
import signal
import socket
import stat
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest
from laboratory import anything, bucket_for

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.managed import net
from storelab.stores.protocols import s3_clients, s3_mistakes
from storelab.stores.protocols.s3 import S3Access
from storelab.stores.seaweedfs.store import ACCOUNTS, SeaweedFS, Settings
from storelab.workloads.staging import buckets

pytestmark = pytest.mark.real


def new(state: Path, port: int, **settings) -> SeaweedFS:
    return SeaweedFS("sw", Settings(kind="seaweedfs", port=port, **settings), state)


@pytest.fixture
def fresh(tmp_path, port_block):
    """A store that was never up; stopped at the end."""
    store = new(tmp_path / "state", port_block)
    yield store
    new(tmp_path / "state", port_block).down()


def disk_use(folder: Path) -> int:
    """Bytes that the files below `folder` take on the disk."""
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())


def test_up_and_down_are_idempotent(fresh):
    fresh.up()
    pids = fresh.actors()
    assert set(pids) == {"master", "volume-1", "filer", "s3-1"}
    fresh.up()
    assert fresh.actors() == pids
    fresh.up(2)
    assert fresh.actors().items() >= pids.items() and "s3-2" in fresh.actors()
    fresh.up(1)  # at least one: the second stays
    assert len(fresh.endpoints(2)) == 2
    with pytest.raises(UserError, match="3 front-ends asked, 2 run"):
        fresh.endpoints(3)
    status, deployment = fresh.status(), fresh.deployment()
    assert status.state == "up" and status.version == fresh.version() == "4.48"
    assert deployment["daemons"] == {"master": 1, "volume": 1, "filer": 1, "s3": 2} and deployment["backing"] != "?"
    assert str(fresh.folder) not in str(deployment)
    assert fresh.free_bytes() > 0
    stopped = fresh.down()
    assert len(stopped) == 5
    assert not any(psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE for p in stopped)
    assert fresh.down() == [] and fresh.status().state == "down"
    assert not list((fresh.folder / "run").glob("*.sock"))


def test_all_listen_on_loopback_only(seaweedfs):
    for pid in seaweedfs.actors().values():
        listening = {c.laddr.ip for c in psutil.Process(pid).net_connections("inet") if c.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}


def test_written_through_one_front_end_read_through_the_other(seaweedfs):
    bucket = bucket_for(seaweedfs, "both")
    one, two = (s3_clients.for_store(seaweedfs, e) for e in seaweedfs.endpoints(2))
    body = os.urandom(9_000_000)  # more than two chunks
    one.put_object(Bucket=bucket.name, Key="k", Body=body)
    assert two.get_object(Bucket=bucket.name, Key="k")["Body"].read() == body
    part = two.get_object(Bucket=bucket.name, Key="k", Range="bytes=4194300-4194310")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206 and part["Body"].read() == body[4194300:4194311]
    several = two.get_object(Bucket=bucket.name, Key="k", Range="bytes=0-9,100-109")  # documented: the whole object
    assert several["ResponseMetadata"]["HTTPStatusCode"] == 200 and several["ContentLength"] == len(body)
    several["Body"].close()


def test_a_put_makes_no_bucket(seaweedfs):
    s3 = s3_clients.for_store(seaweedfs)
    with pytest.raises(s3_mistakes.ERRORS):
        s3.put_object(Bucket="never-made", Key="k", Body=b"")


def test_taken_over_after_a_crash_of_the_manager(fresh):
    fresh.up()
    pids = fresh.actors()
    after = new(fresh.state, fresh.settings.port)  # knows no more than what lies in the folder
    after.up()
    assert after.actors() == pids
    after.daemons.file.unlink()  # the manager died before it could record
    after.up()
    assert after.actors() == pids
    assert sorted(new(fresh.state, fresh.settings.port).down()) == sorted(pids.values())


@pytest.mark.parametrize("victim", ["master", "volume-1", "filer", "s3-1"])
def test_a_killed_daemon_comes_back(seaweedfs, victim):
    bucket = bucket_for(seaweedfs, "killed")
    s3_clients.for_store(seaweedfs).put_object(Bucket=bucket.name, Key=victim, Body=b"before")
    pids = seaweedfs.actors()
    os.kill(pids[victim], signal.SIGKILL)
    until = time.monotonic() + 5
    while victim in seaweedfs.actors() and time.monotonic() < until:
        time.sleep(0.01)
    assert seaweedfs.status().state == "partly" and victim in seaweedfs.status().detail
    seaweedfs.up(2)
    assert seaweedfs.status().state == "up" and seaweedfs.actors()[victim] != pids[victim]
    for end in seaweedfs.endpoints(2):
        s3 = s3_clients.for_store(seaweedfs, end)
        assert s3.get_object(Bucket=bucket.name, Key=victim)["Body"].read() == b"before"
        s3.put_object(Bucket=bucket.name, Key="after", Body=b"after")


def test_suspended_it_takes_no_cpu_and_wakes_up(seaweedfs):
    bucket = bucket_for(seaweedfs, "sleep")
    processes = [psutil.Process(p) for p in seaweedfs.actors().values()]
    seaweedfs.suspend()
    seaweedfs.suspend()
    before = [p.cpu_times()[:2] for p in processes]
    time.sleep(0.5)
    assert [p.cpu_times()[:2] for p in processes] == before
    seaweedfs.up(2)  # wakes it
    seaweedfs.resume()
    s3_clients.for_store(seaweedfs).put_object(Bucket=bucket.name, Key="k", Body=b"awake")
    assert [psutil.Process(p) for p in seaweedfs.actors().values()] == processes


def test_two_at_once_start_it_once(tmp_path, port_block):
    stores = [new(tmp_path / "state", port_block) for _ in range(2)]
    threads = [threading.Thread(target=s.up) for s in stores]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    try:
        assert stores[0].actors() == stores[1].actors() and stores[0].status().state == "up"
    finally:
        assert len(stores[0].down()) == 4


def test_a_taken_port_leaves_nothing_running(fresh):
    port = fresh.settings.port + 1
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UserError) as caught:
        fresh.up()
    assert f"port {port} of filer is taken by" in str(caught.value) and "stores.sw.port" in str(caught.value)
    assert fresh.actors() == {}
    fresh.up()  # free again


def test_a_daemon_that_cannot_start_says_why_and_leaves_nothing(fresh):
    fresh.folder.mkdir(parents=True)
    fresh.make_keys(ACCOUNTS)
    (fresh.folder / "s3.json").write_text("{")
    with pytest.raises(MeasurementFailed, match=r"stores\.sw: s3-1 ended while it started; its log says: .*s3\.json"):
        fresh.up()
    assert fresh.actors() == {}


def test_a_data_folder_that_is_a_file(tmp_path, port_block):
    (tmp_path / "file").touch()
    store = new(tmp_path / "state", port_block, directory=str(tmp_path / "file" / "data"))
    with pytest.raises(UserError, match=r"stores\.sw\.directory: .*Not a directory"):
        store.up()


def test_the_wheel_is_missing(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    with pytest.raises(UserError, match=r"SeaweedFS wheel is missing .*; run `make setup`"):
        fresh.up()


def test_more_front_ends_than_ports(fresh):
    with pytest.raises(UserError, match="25 front-ends asked"):
        fresh.up(25)


def test_data_and_keys_outlive_a_restart(fresh):
    fresh.up()
    keys, bucket = fresh.credentials(), bucket_for(fresh, "kept")
    assert stat.S_IMODE((fresh.folder / "s3.json").stat().st_mode) == 0o600
    s3 = s3_clients.for_store(fresh)
    bodies = {f"k{i}": os.urandom(1000 * i) for i in range(40)}
    for key, body in bodies.items():
        s3.put_object(Bucket=bucket.name, Key=key, Body=body)
    fresh.down()  # at once: nothing may still be on its way
    fresh.up()
    again = fresh.credentials()
    assert (again.access_key, again.secret_key) == (keys.access_key, keys.secret_key)
    s3 = s3_clients.for_store(fresh)
    assert {k: s3.get_object(Bucket=bucket.name, Key=k)["Body"].read() for k in bodies} == bodies
    assert dict(buckets.list_keys(S3Access(s3, "stores.test"), bucket)) == {k: len(b) for k, b in bodies.items()}


def test_keys_are_nowhere_but_in_their_file(seaweedfs):
    keys = seaweedfs.credentials()
    bucket = bucket_for(seaweedfs, "secret")
    with contextlib.suppress(*s3_mistakes.ERRORS):
        s3_clients.for_store(seaweedfs).get_object(Bucket=bucket.name, Key="none")
    places = [
        p
        for p in seaweedfs.folder.rglob("*")
        if p.is_file() and p.name not in ("s3.json", "accounts.json") and seaweedfs.data not in p.parents
    ]
    texts = [p.read_bytes() for p in places]
    for pid in seaweedfs.actors().values():
        texts += [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    assert len(texts) > 10
    for text in texts:
        assert keys.access_key.encode() not in text and keys.secret_key.encode() not in text


def test_a_vacuum_that_takes_too_long_fails_nothing(seaweedfs):
    master = psutil.Process(seaweedfs.actors()["master"])
    begun = time.monotonic()
    master.suspend()
    try:
        seaweedfs.reclaim(timeout=1.5)
    finally:
        master.resume()
    assert 1.0 < time.monotonic() - begun < 10


def test_few_deleted_bytes_in_a_large_volume_are_not_waited_for(seaweedfs, monkeypatch):
    """As in the volumes of the filer's log: no vacuum rewrites them, so waiting would never end."""
    looks, ask = [], seaweedfs._ask
    names = {kind: [f"/few-{uuid.uuid4()}" for _ in range(6)] for kind in ("large", "small")}
    for kind, size in (("large", 3_000_000), ("small", 50)):  # each volume of the collection gets some
        for name in names[kind]:
            assert ask("filer", name, 10.0, "PUT", os.urandom(size))[0] == 201
    for name in names["small"]:
        ask("filer", name, 10.0, "DELETE")
    monkeypatch.setattr(seaweedfs, "_ask", lambda *a, **k: (looks.append(a[1]), ask(*a, **k))[1])
    seaweedfs.reclaim(timeout=30)
    assert sum("/vol/vacuum" in path for path in looks) < 10


@pytest.mark.heavy
def test_reclaim_gives_the_space_back(seaweedfs):
    bucket, s3 = bucket_for(seaweedfs, "space"), s3_clients.for_store(seaweedfs)
    body, empty = os.urandom(1_000_000), disk_use(seaweedfs.data)
    for i in range(40):
        s3.put_object(Bucket=bucket.name, Key=f"a/{i}", Body=body)
    s3.put_object(Bucket=bucket.name, Key="kept", Body=body)
    assert disk_use(seaweedfs.data) - empty > 40e6
    assert buckets.delete_prefix(S3Access(s3, "stores.test"), bucket, "a/", ours=anything).objects == 40
    seaweedfs.reclaim()
    assert disk_use(seaweedfs.data) - empty < 5e6
    assert s3.get_object(Bucket=bucket.name, Key="kept")["Body"].read() == body
    assert dict(buckets.list_keys(S3Access(s3, "stores.test"), bucket)) == {"kept": 1_000_000}


@pytest.mark.heavy
def test_more_than_a_hundred_buckets(seaweedfs):
    campaign = "many"
    all_ = [seaweedfs.bucket(campaign, i) for i in range(120)]
    buckets.ensure(seaweedfs, campaign, all_)
    buckets.ensure(seaweedfs, campaign, all_)
    assert buckets.own_buckets(seaweedfs, campaign) == all_
    s3 = s3_clients.for_store(seaweedfs)
    for bucket in all_[::10]:
        s3.put_object(Bucket=bucket.name, Key="k", Body=b"x" * 10_000)
    other = bucket_for(seaweedfs, "many-others")
    assert buckets.remove(seaweedfs, campaign, anything)[:2] == (12, 120)
    assert buckets.own_buckets(seaweedfs, campaign) == []
    assert buckets.marked(S3Access(s3, "stores.test"), other) == "many-others"


def test_a_second_instance_is_refused(seaweedfs, tmp_path, port_block):
    """On the ports of the first, or on its data: the second says so, stays down and leaves the first alone."""
    pids = seaweedfs.actors()
    for settings, message in (
        ({}, "is taken by weed"),
        ({"port": port_block, "directory": str(seaweedfs.data)}, "is in use by the store"),
    ):
        second = SeaweedFS("other", seaweedfs.settings.model_copy(update=settings), tmp_path)
        with pytest.raises(UserError, match=message):
            second.up()
        assert second.actors() == {} and seaweedfs.actors() == pids and seaweedfs.status().state == "up"


@pytest.mark.heavy
def test_a_master_that_hangs_is_replaced(seaweedfs):
    """It answers nobody, as one that has locked itself up; storelab did not suspend it, and cannot know."""
    bucket, before = bucket_for(seaweedfs, "hang"), seaweedfs.actors()
    answers = net.answers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(net, "answers", lambda *a: a[2] != "/dir/status" and answers(*a))
        seaweedfs.up(2)
    assert seaweedfs.actors()["master"] != before["master"]
    s3_clients.for_store(seaweedfs).put_object(Bucket=bucket.name, Key="k", Body=b"after")


@pytest.mark.heavy
def test_2100_buckets(fresh):
    """As many as the evaluation of 2013 used: each takes volumes of its own, each volume two open files."""
    campaign = "many"
    places = [fresh.bucket(campaign, i) for i in range(2100)]
    fresh.up()
    buckets.ensure(fresh, campaign, places)
    access = fresh.access()
    for place in places[::50]:
        access.write(place.name, "k", b"1")
    assert buckets.own_buckets(fresh, campaign) == places
    assert access.read(places[-50].name, "k") == b"1"
