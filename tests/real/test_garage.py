"""Garage as storelab starts it: one node, several with copies, gateways, accounts, a lost node, what survives, what is left."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import managed
import ports
import pyarrow.parquet as pq
import pytest
from laboratory import anything, bucket_for, gone

from storelab import install
from storelab.core import clock
from storelab.core.answers import YES
from storelab.core.campaign.faults import Act, resolved
from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import cargo
from storelab.measure.faults.runner import Runner
from storelab.stores.garage.settings import PROGRAM, Settings
from storelab.stores.garage.store import Garage
from storelab.stores.protocols import s3_clients
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.workloads.staging import buckets

pytestmark = pytest.mark.heavy
S = 10**9
WINDOWS = {"duration": "400 ms", "warm_up": "1 ms"}
SWEEPS = {
    "put": {"workload": "put", "axes": {"engine": "obstore", "workers": 2, "object_size": "20 kB"}, **WINDOWS},
    "get": {
        "workload": "get",
        "objects": 8,
        "axes": {"engine": "s5cmd", "workers": 2, "object_size": "3 MB"},
        **WINDOWS,
    },
    "asked": {"workload": "probe", "axes": {"accounts": 2, "most_buckets": 3}, "duration": "60 s"},
    "judged": {
        "workload": "consistency",
        "axes": {"engine": "fsspec", "clients": 2, "front_ends": 2},
        "duration": "2500 ms",
        "warm_up": "100 ms",
    },
}


def new(state: Path, port: int, **settings) -> Garage:
    return Garage("gar", Settings(kind="garage", port=port, **settings), state)


@pytest.fixture(scope="module", autouse=True)
def installed():
    managed.skip_without("garage", " (a long build, which CI leaves out)")


@pytest.fixture
def fresh(tmp_path, port_block):
    """A store that was never up; stopped at the end."""
    store = new(tmp_path / "state", port_block)
    yield store
    new(tmp_path / "state", port_block).down()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three nodes, three copies, a gateway, three accounts."""
    store = new(tmp_path_factory.mktemp("gar"), ports.block(), servers=3, redundancy="replica-3")
    try:
        store.up(4, 3)
        yield store
    finally:
        store.down()


def test_up_and_down_are_idempotent(fresh):
    fresh.up()
    pids = fresh.actors()
    assert set(pids) == {"node-1"}
    fresh.up()
    assert fresh.actors() == pids
    status, deployment = fresh.status(), fresh.deployment()
    assert status.state == "up" and status.version == fresh.version()
    assert deployment["daemons"] == {"node": 1} and deployment["redundancy"] == "none" and deployment["gateways"] == 0
    listening = managed.listening([pids["node-1"]])
    assert {ip for ip, _ in listening} == {"127.0.0.1"}
    assert {port for _, port in listening} == set(fresh.daemon("node-1").ports)
    stopped = fresh.down()
    assert stopped == list(pids.values()) and gone(stopped)
    assert fresh.down() == [] and fresh.status().state == "down" and managed.left_behind(fresh) == []


def test_the_version_is_the_pinned_one(running):
    if not (install.tools_folder() / "bin" / "garage.json").exists():
        pytest.skip("another Garage than storelab's own")
    assert cargo.present(PROGRAM, install.tools_folder()) and running.version() == PROGRAM.version


def test_all_nodes_and_the_gateway_show_the_same_objects(running):
    assert len(running.endpoints(4)) == 4 and running.deployment()["gateways"] == 1
    bucket, ways = bucket_for(running, "shared"), [running.access(0, i) for i in range(4)]
    body = os.urandom(3_000_000)
    for i, way in enumerate(ways):
        way.write(bucket.name, f"d/{i}", body[i:])
        for other in ways:
            assert other.read(bucket.name, f"d/{i}") == body[i:]
            assert [k for k, _ in other.keys(bucket.name, "d/")] == [f"d/{j}" for j in range(i + 1)]
    ways[2].delete(bucket.name, ["d/0"])
    assert ways[3].read(bucket.name, "d/0") is None
    s3 = s3_clients.for_store(running, running.endpoints(4)[3])
    part = s3.get_object(Bucket=bucket.name, Key="d/1", Range="bytes=10-19")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206 and part["Body"].read() == body[11:21]


def test_data_lie_on_the_nodes_and_not_on_the_gateway(running):
    bucket, way, body = bucket_for(running, "places"), running.access(), os.urandom(4_000_000)
    sizes = [_bytes_of(running, i) for i in range(1, 5)]
    way.write(bucket.name, "k", body)
    time.sleep(0.5)  # the third copy may come after the answer
    grown = [_bytes_of(running, i) - before for i, before in enumerate(sizes, 1)]
    assert all(4_000_000 <= g < 4_400_000 for g in grown[:3]) and grown[3] == 0


def _bytes_of(store: Garage, number: int) -> int:
    return sum(p.stat().st_size for p in (store.data / f"node-{number}" / "data").rglob("*") if p.is_file())


def test_accounts_are_kept_apart(running):
    mine = [bucket_for(running, "own", i, account=i) for i in range(3)]
    for i, bucket in enumerate(mine):
        running.access(i, 0).write(bucket.name, "k", b"%d" % i)
        for other in {0, 1, 2} - {i}:
            way = running.access(other, 1 + i % 2)
            with pytest.raises((AccessRefused, NoSuchBucket)):
                way.read(bucket.name, "k")
            with pytest.raises((AccessRefused, NoSuchBucket)):
                way.write(bucket.name, "k", b"")
            assert bucket.name not in way.bucket_names()
        assert running.access(i, 2).read(bucket.name, "k") == b"%d" % i
    assert buckets.own_buckets(running, "own") == mine
    assert buckets.remove(running, "own", anything)[:2] == (3, 3)
    users, _ = running.administration()
    assert users.answer == YES and "3 of the 3 that storelab uses" in users.evidence


def test_a_node_is_killed_and_comes_back(running):
    """Written and read while it is away, and read when it is back."""
    bucket, way = bucket_for(running, "faulty"), running.access()
    bodies = {f"k{i}": os.urandom(50_000) for i in range(12)}
    given = [{"at": "200 ms", "act": "kill", "actor": "data.1"}, {"at": "3 s", "act": "restart", "actor": "data.1"}]
    acts = resolved([Act.model_validate(a) for a in given], 60 * S, 1.0, "faults.f")
    with Runner(running, "f", acts, report=print) as runner:
        t0_ns = clock.now_ns() + S // 10
        runner.start(t0_ns)
        clock.sleep_until(t0_ns + S)
        for key, body in bodies.items():
            way.write(bucket.name, key, body)
        assert {key: way.read(bucket.name, key) for key in bodies} == bodies
        clock.sleep_until(t0_ns + 4 * S)
        runner.settle(60)  # others ask a lost node again after half a minute and more
    states = [e["state"] for e in runner.events if e["kind"] == "state"]
    assert runner.failed() == [] and "degraded" in states and states[-1] == "clean"
    again = running.access(0, 1)
    assert {key: again.read(bucket.name, key) for key in bodies} == bodies
    assert running.status().state == "up"


def test_suspended_it_takes_no_cpu_and_wakes_up(running):
    managed.sleeps_and_wakes(running, 4, 3)


def test_data_accounts_gateways_and_keys_outlive_a_restart(fresh):
    again, bucket = managed.outlives_a_restart(fresh, new, 2)
    assert set(again.actors()) == {"node-1", "node-2"}, "the gateway has a vote on buckets"
    assert len(again.access(0, 1).read(bucket, "d/k1")) == 20_000
    assert again.used_bytes() > 20_000 * sum(range(12)), "blocks that are alike are kept once"
    again.access(0).make_bucket(again.bucket("kept", 7).name)


@pytest.mark.parametrize(("servers", "redundancy"), [(1, "none"), (2, "none"), (2, "replica-2"), (3, "replica-3")])
def test_space_taken(tmp_path, port_block, servers, redundancy):
    store = new(tmp_path / "state", port_block, servers=servers, redundancy=redundancy)
    try:
        store.up()
        bucket, way = bucket_for(store, "space"), store.access()
        empty = store.used_bytes()
        for i in range(4):
            way.write(bucket.name, f"k{i}", os.urandom(5_000_000))
        until, factor = time.monotonic() + 10, store.bears() + 1
        while (store.used_bytes() - empty) / 20e6 < factor and time.monotonic() < until:
            time.sleep(0.2)
        assert factor <= (store.used_bytes() - empty) / 20e6 < factor * 1.1
    finally:
        store.down()


def test_a_crash_of_the_manager_leaves_no_stranger(fresh):
    fresh.up(2)
    pids = fresh.actors()
    fresh.daemons.file.unlink()  # it died before it could record
    after = new(fresh.state, fresh.settings.port)
    after.up(2)
    assert set(after.actors()) == set(pids)
    after.daemons.file.unlink()
    assert len(new(fresh.state, fresh.settings.port).down()) == 2 and managed.left_behind(after) == []


KILLED = """
import os, sys
from pathlib import Path
from storelab.stores.garage import admin, store
g = store.Garage("gar", store.Settings(kind="garage", port=int(sys.argv[1]), servers=3, redundancy="replica-3"), Path(sys.argv[2]))
if sys.argv[3] == "unrecorded":
    real = g.daemons._record
    g.daemons._record = lambda daemon, process: real(daemon, process) if daemon.name != "node-3" else os.kill(os.getpid(), 9)
else:
    admin.allow = lambda *_: os.kill(os.getpid(), 9)
g.up()
"""


@pytest.mark.parametrize("when", ["unrecorded", "joined"])
def test_killed_in_the_middle_of_up(tmp_path, port_block, when):
    """Once with a node that nobody recorded, once with a cluster that has a layout and no key: `down` leaves nothing."""
    command = [sys.executable, "-c", KILLED, str(port_block), str(tmp_path), when]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    store = new(tmp_path, port_block, servers=3, redundancy="replica-3")
    assert len(managed.left_behind(store)) == 3
    store.down()
    assert managed.left_behind(store) == []
    try:
        store.up()
        store.access().write(bucket_for(store, "after").name, "k", b"x")
    finally:
        store.down()


def test_a_taken_port_leaves_nothing_running(fresh):
    port = fresh.settings.port + 20  # of the administration
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(UserError, match=f"port {port} of node-1 is taken by"),
    ):
        fresh.up()
    assert fresh.actors() == {} and managed.left_behind(fresh) == []


def test_a_node_that_cannot_start_says_why_and_leaves_nothing(fresh):
    fresh.prepare()
    (fresh.data / "node-1").write_text("no folder")
    with pytest.raises(MeasurementFailed, match=r"stores\.gar: node-1 ended while it started; its log says: "):
        fresh.up()
    assert fresh.actors() == {} and managed.left_behind(fresh) == []


def test_keys_are_in_their_files_alone(running):
    accounts, root = [running.credentials(i) for i in range(3)], running.root_keys()
    secrets = {
        root.secret_key,
        running.daemon("node-1").environ["GARAGE_RPC_SECRET"],
        *(k.secret_key for k in accounts),
    }
    assert managed.told_elsewhere(running, secrets, ("accounts.json", "root.json")) == []
    assert managed.in_environment(running, [k.secret_key for k in accounts]) == []


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with managed.measuring(tmp_path_factory.mktemp("measured"), "garage", SWEEPS) as measured:
        yield measured


def test_put_and_get_by_engines(lab):
    for sweep in ("put", "get"):
        rows, record, _ = lab(sweep)
        assert rows and {r["error"] for r in rows} == {None}, sweep
    told = record["store"]["deployment"]
    assert told["system"] == "Garage" and told["version"][0].isdigit() and told["daemons"]["node"] >= 1
    assert "secret" not in json.dumps(record).lower()


def test_probe(lab):
    """What Garage is known not to do is listed here; the rest stands in docs/capabilities.md."""
    _, _, at = lab("asked")
    found = {(r["topic"], r["check"]): r["answer"] for r in pq.read_table(at / "answers.0.parquet").to_pylist()}
    apart = {c: answer for (topic, c), answer in found.items() if topic == "accounts"}
    refused = {c for c in apart if c.endswith("refused")}
    assert refused and {apart[c] for c in refused} == {"differs"}, "404 in place of 403"
    assert {apart[c] for c in set(apart) - refused} == {YES}
    assert found["ranges", "single range"] == found["objects", "put, get, head"] == YES
    assert found["multipart", "parts, complete"] == YES if ("multipart", "parts, complete") in found else True
    assert found["ranges", "multi-range 2"] == "no"


def test_consistency(lab):
    _, _, at = lab("judged")
    rows = [r for table in sorted(at.glob("scenarios.*.parquet")) for r in pq.read_table(table).to_pylist()]
    assert sum(r["tried"] for r in rows) and not [r for r in rows if r["anomalies"] or r["errors"]]
