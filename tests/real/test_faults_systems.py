"""Faults on Ceph, MinIO and HDFS that run: what each says of a daemon that is killed or hung, and of drives that go."""

import threading
import time
from pathlib import Path

import ports
import pytest
from laboratory import bucket_for

from storelab.core import clock
from storelab.core.campaign.faults import Act, resolved
from storelab.core.errors import UserError
from storelab.core.stores import load
from storelab.measure.faults.runner import Runner
from storelab.stores import make
from storelab.stores.protocols import s3_clients

pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.alone]  # it asks when a store notices
S = 10**9
# Most seconds until a silent server is noticed. Ceph: 4 without a heartbeat, two ticks of an OSD (1 s each), one of the monitor, which may
# decide only then (mon_tick_interval, 5 s). HDFS: 3 without one, and the NameNode looks every 5 (Thread.sleep in HeartbeatManager.Monitor).
# A second more, for it is asked twice a second.
NOTICED_S = {"ceph": 12.0, "hdfs": 9.0}
DEPLOYMENTS = {
    "replicated": {"kind": "ceph", "backing": "tmpfs", "redundancy": "replica-3", "osd_size": "2 GB"},
    "coded": {"kind": "ceph", "backing": "tmpfs", "redundancy": "ec-2-1", "osd_size": "2 GB"},
    "minio": {"kind": "minio", "servers": 12, "redundancy": "ec-9-3"},
    "hdfs": {"kind": "hdfs"},
}


@pytest.fixture(scope="module", params=list(DEPLOYMENTS))
def store(request, tmp_path_factory):
    settings = DEPLOYMENTS[request.param] | {"port": ports.block()}
    state: Path = tmp_path_factory.mktemp("state")
    it = make(request.param, load(settings["kind"]).Settings.model_validate(settings), state)
    try:
        it.require()
    except UserError as error:
        pytest.skip(str(error))
    it.up()
    try:
        yield it
    finally:
        it.down()


def run(store, seconds, *given, settle=120):
    acts = resolved([Act.model_validate(a) for a in given], 300 * S, 1.0, "faults.f")
    with Runner(store, "f", acts, report=print) as runner:
        t0_ns = clock.now_ns() + S // 5
        runner.start(t0_ns)
        clock.sleep_until(t0_ns + int(seconds * S))
        runner.settle(settle)
    for e in runner.events:
        print(f"{(e['time_ns'] - t0_ns) / S:8.3f}", e.get("act") or e["state"], e.get("actor", ""), e["detail"])
    states = [(e["state"], (e["time_ns"] - t0_ns) / S) for e in runner.events if e["kind"] == "state"]
    return runner, states


def write(store, key, body=b"x" * 100_000):
    bucket = bucket_for(store, "faulty").name
    s3_clients.for_store(store).put_object(Bucket=bucket, Key=key, Body=body)


def read(store, key):
    bucket = bucket_for(store, "faulty").name
    return s3_clients.for_store(store).get_object(Bucket=bucket, Key=key)["Body"].read()


def test_its_own_word_is_cheap(store):
    store.condition()
    cpu, begun = time.process_time(), time.monotonic()
    words = [store.condition() for _ in range(10)]
    took = (time.monotonic() - begun) / 10
    print(took, (time.process_time() - cpu) / 10, words[-1])
    assert {w.state for w in words} == {"clean"}, words[-1]
    assert took < 0.1, "asked twice a second, on two cores that are busy"


def test_one_that_is_killed(store):
    if store.settings.kind == "minio":
        pytest.skip("its data servers are drives")
    wait = 16 if store.settings.kind == "hdfs" else 6  # a DataNode is dead after 14 s, and silent after 3
    runner, states = run(
        store,
        wait + 1,
        {"at": "1 s", "act": "kill", "actor": "data.0"},
        {"at": f"{wait} s", "act": "restart", "actor": "data.0"},
    )
    assert runner.failed() == [] and runner.recovered
    assert states[0][0] == "clean" and states[1][0] == "degraded" and states[-1][0] == "clean"
    assert 1 <= states[1][1] < (1 + NOTICED_S["hdfs"] if store.settings.kind == "hdfs" else 2.5), states
    assert store.status().state == "up"


def test_one_that_hangs(store):
    if store.settings.kind == "minio":
        pytest.skip("its data servers are drives")
    most = NOTICED_S[store.settings.kind]
    runner, states = run(
        store,
        most + 3,
        {"at": "1 s", "act": "hang", "actor": "data.1"},
        {"at": f"{most + 2:g} s", "act": "resume", "actor": "data.1"},
    )
    assert runner.failed() == [] and runner.recovered
    assert states[0][0] == "clean" and "degraded" in dict(states) and states[-1][0] == "clean"
    # Silence counts from the last sign of life, which came up to a second and more before it hung.
    assert 1.5 <= dict(reversed(states))["degraded"] - 1 < most, states


def test_its_front_end_is_down(store):
    """The monitor, the NameNode, the one server: without it nobody tells anything."""
    actor = "mon" if store.settings.kind == "ceph" else "front.0"
    runner, states = run(
        store,
        4,
        {"at": "1 s", "act": "kill", "actor": actor},
        {"at": "3 s", "act": "restart", "actor": actor},
    )
    assert runner.failed() == [] and runner.recovered
    assert states[1][0] == "down" and 1 <= states[1][1] < 3 and states[-1][0] == "clean"
    store.up()


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("how", ["gone", "read-only"])
def test_drives_that_go_and_come(store, lost, how):
    if store.settings.kind != "minio":
        pytest.skip("MinIO's drives")
    drives = [f"data.{i}" for i in range(lost)]
    write(store, "before")
    acts = [
        {"at": "1 s", "act": "remove_drive", "actor": drives, "how": how},
        {"at": "5 s", "act": "return_drive", "actor": drives},
    ]
    acts = resolved([Act.model_validate(a) for a in acts], 60 * S, 1.0, "f")
    with Runner(store, "f", acts, report=print) as runner:
        t0_ns = clock.now_ns()
        runner.start(t0_ns)
        clock.sleep_until(t0_ns + 2 * S)
        write(store, f"during-{lost}-{how}")
        assert read(store, "before") == read(store, f"during-{lost}-{how}") == b"x" * 100_000
        clock.sleep_until(t0_ns + 6 * S)
        runner.settle(60)
    for e in runner.events:
        print(f"{(e['time_ns'] - t0_ns) / S:8.3f}", e.get("act") or e["state"], e.get("actor", ""), e["detail"])
    assert runner.failed() == [] and runner.recovered
    told = runner.told()
    assert len(told["most_lost"]) == lost and told["bears"] == 3 and not told["beyond_redundancy"]
    states = [e["state"] for e in runner.events if e["kind"] == "state"]
    assert states[0] == "clean" and states[-1] == "clean"
    if how == "gone":
        assert "degraded" in states
    assert all(d.is_dir() for d in store.drives()) and not list(store.data.glob(".drive*"))
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(store.data) not in mounts


def test_a_full_osd(store):
    if store.settings.kind != "ceph":
        pytest.skip("Ceph's own way")
    write(store, "before")
    acts = [{"at": "500 ms", "act": "fill", "actor": ["data.0", "data.1", "data.2"]}]
    acts = resolved([Act.model_validate(a) for a in acts], 60 * S, 1.0, "f")
    with Runner(store, "f", acts, report=print) as runner:
        runner.start(clock.now_ns())
        time.sleep(4)
        assert runner.failed() == []
        writing = threading.Thread(target=write, args=(store, "during"))
        writing.start()
        writing.join(4)
        assert writing.is_alive(), "a write on full OSDs waits"
        runner.settle(60)
    assert runner.recovered and runner.failed() == []
    writing.join(30)
    assert read(store, "during") == read(store, "before"), "and comes through when they have room"
