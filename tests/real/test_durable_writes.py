"""Ledgers and the reading of their objects, on a real store and behind a proxy that loses data."""

import contextlib
import signal
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import managed
import pytest
from laboratory import needs_loadgen
from lossy_proxy import LossyProxy
from serving import serving

from storelab.core.model import Point
from storelab.engines.common import ledger
from storelab.engines.contract import Job
from storelab.engines.loadgen import LoadgenPut
from storelab.measure.durability import Readings
from storelab.measure.look import FAULTS
from storelab.stores.protocols.endpoint import Bucket, Endpoint

pytestmark = [pytest.mark.real, needs_loadgen]  # without HEAVY: two that use the store of all smoke tests
HEAVY = pytest.mark.heavy
ENGINES = [pytest.param("obstore", marks=HEAVY), "loadgen"]
AXES = {"clients": 2, "workers": 4, "buckets": 3}
REWRITTEN = AXES | {"keys_per_worker": 100, "object_size": "1 kB"}
REWRITES = {"workload": "rewrite", "axes": REWRITTEN, "duration": "1500 ms"}
LIES = (("obstore", "drop"), ("loadgen", "flip"), ("obstore", "stale"), ("loadgen", "resurrect"), ("obstore", "all"))


def only(sweep: dict, **axes) -> dict:
    return sweep | {"axes": sweep["axes"] | axes}


def faults(reading: dict) -> dict[str, int]:
    return {f: reading[f] for f in FAULTS if reading[f]}


@pytest.mark.parametrize("engine", ENGINES)
def test_honest_store_raises_no_alarm(lab, external, keys, engine, capsys):
    puts = {"workload": "put", "axes": AXES | {"ledger": "kept", "engine": engine, "object_size": "20 kB"}}
    measured = lab(external, rewrite=only(REWRITES, engine=engine), put=puts)
    for measured_point, record, rows in measured:
        durability = record["durability"]
        (reading,) = durability["readings"]
        checks = {c["name"]: c["ok"] for c in record["checks"]}
        assert record["valid"] and all(checks.values()) and "ledger" in checks
        assert reading["when"] == "end" and not faults(reading) and not reading["examples"]
        assert reading["read"] == reading["states"] > 0 and reading["time_ns"] > record["deadline_ns"]
        acked, done = durability["acknowledged"], Counter(r["op"] for r in rows if not r["error"])
        assert durability["unacknowledged"] == 0 and all(r["error"] is None for r in rows)
        assert acked["put"] + acked["overwrite"] == done["PUT"] and acked["delete"] == done["DELETE"]
        if measured_point.workload == "rewrite":
            assert min(acked.values()) > 0 and reading["states"] <= 2 * 4 * 100
            assert {(r["op"], r["bytes"]) for r in rows} == {("PUT", 1000), ("DELETE", 0)}
        else:
            assert acked == {"put": reading["states"], "overwrite": 0, "delete": 0}
    output = capsys.readouterr()
    assert (output.out + output.err).count("acknowledged states read back at the end: all are correct") == 2, output


@HEAVY
@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_uploads_by_fsspec_keep_a_ledger_on_any_store(lab, request, tmp_path, kind):
    """Clients run in threads, and as tasks of one loop."""
    (tmp_path / "files").mkdir()
    store = {"kind": "directory", "path": str(tmp_path / "files")}
    if kind == "s3":
        request.getfixturevalue("keys")
        store = request.getfixturevalue("external")
    puts = {"workload": "put", "axes": AXES | {"ledger": "kept", "engine": "fsspec", "object_size": "20 kB"}}
    ((_, record, rows),) = lab(store, put=puts)
    (reading,) = record["durability"]["readings"]
    assert record["valid"] and "ledger" in {c["name"] for c in record["checks"]} and not faults(reading)
    acked = record["durability"]["acknowledged"]
    assert acked["put"] == reading["states"] == reading["read"] == len([r for r in rows if not r["error"]]) > 0


@pytest.mark.parametrize(
    ("engine", "lies"),  # each kind once, and all together with both engines
    [*(pytest.param(*case, marks=HEAVY) for case in LIES), ("loadgen", "all")],
)
def test_unrepaired_faults_are_found(lab, external, keys, engine, lies):
    with LossyProxy(external["endpoint"], lies, every=12, seed=5) as proxy:
        ((_, record, _),) = lab(external | {"endpoint": proxy.url}, rewrite=only(REWRITES, engine=engine))
        proxy.stop()
    (reading,) = record["durability"]["readings"]
    found = faults(reading)
    assert sum(found.values()) == sum(proxy.remaining.values()) > 0, "all of these faults, and no other"
    possible = {
        "flip": {"corrupted"},
        "stale": {"stale"},
        "resurrect": {"resurrected"},
        "drop": {"lost", "stale", "resurrected"},
    }
    assert set(found) <= possible.get(lies, set(FAULTS)) and "unreadable" not in found
    assert record["valid"], "lost data are a result, not a failure"
    assert len(reading["examples"]) == min(10, sum(found.values()))
    for example in reading["examples"]:
        assert example["fault"] in found and "/put/" in example["key"]
        assert example["acknowledged_ns"] < record["deadline_ns"] + 5e9


@HEAVY
@pytest.mark.parametrize("engine", ["loadgen", "fsspec"])
def test_dropped_puts_are_lost(lab, external, keys, engine):
    axes = AXES | {"ledger": "kept", "engine": engine}
    with LossyProxy(external["endpoint"], "drop,flip", every=50) as proxy:
        ((_, record, _),) = lab(external | {"endpoint": proxy.url}, put={"workload": "put", "axes": axes})
        proxy.stop()
    (reading,) = record["durability"]["readings"]
    lies = {"lost": proxy.remaining.get("drop"), "corrupted": proxy.remaining.get("flip")}
    assert faults(reading) == {fault: n for fault, n in lies.items() if n}
    assert lies["lost"] and proxy.false_answers == proxy.remaining


@HEAVY
def test_reading_while_clients_write(lab, external, keys, monkeypatch):
    """During the traffic, an honest store raises no alarm, and a faulty one does."""
    taken, original = [], Readings.__init__

    def begun(self, store, folder, job, seed):
        original(self, store, folder, job, seed)

        def take():
            while not list(folder.glob("ledger.*")):
                time.sleep(0.02)
            time.sleep(0.8)
            taken.append(self.take("down", live=True, seconds=10))

        self.thread = threading.Thread(target=take)
        self.thread.start()

    monkeypatch.setattr(Readings, "__init__", begun)
    sweep = only(REWRITES, engine="loadgen") | {"duration": "3 s"}
    ((_, record, _),) = lab(external, rewrite=sweep)
    first, last = record["durability"]["readings"]
    assert first["when"] == "down" and first["time_ns"] < record["deadline_ns"] and first["read"] > 0
    assert not faults(first) and not faults(last), (first, last)
    with LossyProxy(external["endpoint"], "all", every=20) as proxy:
        ((_, record, _),) = lab(external | {"endpoint": proxy.url}, rewrite=sweep)
    assert faults(record["durability"]["readings"][0]) and len(taken) == 2


@HEAVY
def test_readings_while_a_daemon_is_down(tmp_path, port_block):
    """SeaweedFS with two copies loses a volume server: no data are lost, during the failure and afterwards."""
    settings = {"kind": "seaweedfs", "servers": 3, "redundancy": "replica-2", "max_volumes": 50, "port": port_block}
    rewrites = {k: v for k, v in REWRITES["axes"].items() if k != "buckets"} | {"engine": "loadgen"}
    roles = {"writers": {"workload": "rewrite", "axes": rewrites}}
    sweep = {"duration": "4 s", "warm_up": "200 ms", "axes": {"fault": "lost", "buckets": 3}, "roles": roles}
    lost = {"lost": [{"at": "1 s", "act": "kill", "actor": "data.0"}]}
    lab = managed.Lab(tmp_path, settings, {"s": sweep}, faults=lost)
    with managed.running(lab.store):
        _, record, _ = lab.measured("s")
    live, whole, last = record["durability"]["readings"]
    assert [live["when"], whole["when"], last["when"]] == ["down", "down", "recovered"]
    kill = next(e for e in record["events"] if e.get("act") == "kill")
    undone = next(e for e in record["events"] if e["kind"] == "undone")
    order = [e["time_ns"] for e in (kill, live, whole, undone, last)]
    assert order == sorted(order) and live["time_ns"] < record["deadline_ns"] < whole["time_ns"]
    assert live["read"] > 0 and whole["read"] == whole["states"] == last["states"] == last["read"] > 0
    assert [faults(r) for r in (live, whole, last)] == [{}, {}, {}], record["durability"]


class Counting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    got: ClassVar[list[str]] = []
    answered: ClassVar[list[str]] = []

    def do_PUT(self):
        self.got.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answered.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@HEAVY
def test_killed_client_leaves_a_whole_ledger(tmp_path, monkeypatch):
    """The ledger has the server's requests as begun and its answers as acknowledged, except one for each worker."""
    Counting.got, Counting.answered, workers = [], [], 6
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    axes = {"object_size": 4000, "workers": workers, "clients": 1, "ledger": "kept"}
    point_ = Point("s", "put", axes, 1, "k", "s", 5, 0, {"data_seed": 7, "duration_ns": 60 * 10**9})
    scratch = tmp_path / "scratch" / "c"
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Counting)) as url:
        job = Job(point_, 0, Endpoint(url), [Bucket("b")], scratch, None, "a1b2", ledger=attempt / "ledger.0")
        with contextlib.closing(LoadgenPut(job)) as client:
            client.prepare()
            now = time.time_ns()
            client._send({"start_ns": now, "deadline_ns": now + 60 * 10**9})
            managed.until(lambda: len(Counting.answered) >= 500)
            client.process.send_signal(signal.SIGKILL)
            client.process.wait(10)
    assert client.process.returncode == -signal.SIGKILL
    entries = ledger.Ledger(attempt / "ledger.0").entries()
    read = ledger.Ledger(attempt / "ledger.0")
    begun = {f"/b/{read.place(n)[1]}" for n in entries["number"].tolist()}
    acked = {f"/b/{read.place(n)[1]}" for n in entries["number"][entries["ack_ns"] > 0].tolist()}
    assert set(Counting.got) <= begun and acked <= set(Counting.answered)
    assert len(set(Counting.answered) - acked) <= workers and len(acked) >= 500 - workers
