"""Engines that report the times of each operation: parts, ranges, deletions, open loop, errors as results."""

import contextlib
import itertools
import multiprocessing
import re
import signal
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from urllib.parse import unquote, urlsplit

import latency_truth
import ports
import pytest
from delay_server import DelayServer
from laboratory import skip_without_loadgen
from lying_proxy import LyingProxy
from process_table import having

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Credentials
from storelab.workloads import WORKLOADS

pytestmark = pytest.mark.real
AXES = {"object_size": "20 kB", "clients": 2, "workers": 5, "buckets": 3}
RANGE = {"object_size": "1 MB", "range_size": "5 kB"}


def at(url) -> dict:
    return {"kind": "s3", "endpoint": url}


def port_of(store) -> int:
    return int(store.endpoints(1)[0].url.rpartition(":")[2])


@pytest.mark.heavy
def test_parts_and_offsets(lab, external, keys, engine):
    """Random, sequential and fixed ranges; uploads and downloads in parts; a connection for each worker."""
    axes = AXES | {"engine": engine}
    parts = axes | {"object_size": "11 MB", "part_size": "5 MiB", "parallel_parts": 2, "buckets": 1}
    parts |= {"clients": 1, "workers": 2}  # few: an upload must end within the time granted after the deadline
    ranges = RANGE | {"engine": engine, "offset": ["random", "sequential", "100 kB"]}
    measured = lab(
        external,
        ranges={"workload": "get_range", "axes": ranges},
        parts={"workload": "put", "duration": "1200 ms", "axes": parts},
        ranged={"workload": "get", "duration": "1200 ms", "axes": parts},
        few={"workload": "get", "duration": "1200 ms", "axes": axes | {"clients": 1}},
    )
    assert len(measured) == 6
    for point, record, rows in measured:
        clients, workers, size = (point.axes.get(k) for k in ("clients", "workers", "range_size"))
        assert record["valid"] and record["engine"]["name"] == engine and all(c["ok"] for c in record["checks"])
        assert {r["error"] for r in rows} == {None} and {r["intended_ns"] for r in rows} == {None}
        assert {r["bytes"] for r in rows} == {size or point.axes["object_size"]}
        assert {r["client"] for r in rows} == set(range(clients)) and all(r["object"] for r in rows)
        assert {r["worker"] for r in rows} <= set(range(workers))
        for r in rows:
            assert record["start_ns"] <= r["start_ns"] < r["end_ns"]
            first = r["first_byte_ns"]
            assert first is None if point.workload == "put" else r["start_ns"] < first <= r["end_ns"]
        requests = {"put": 3 + 2, "get": 3}[point.workload] if point.axes.get("part_size") else 1
        assert {r["requests"] for r in rows} == {requests}
        assert record["host"]["monitor_samples"] >= 2, "one socket at each end"
        if point.sweep == "few":
            # obstore has one socket more in each of its processes. Its HTTP library may open a connection for an
            # operation that then takes one which became free meanwhile: at most one for each worker.
            more = 1 + record["engine"]["settings"]["processes"] + 5 if engine == "obstore" else 0
            assert 5 <= record["clients"][0]["connections_max"] <= 5 + more


@pytest.mark.heavy
def test_download_is_one_request(lab, proxy, keys, engine):
    """One connection is used for many buckets."""
    axes = AXES | {"engine": engine, "object_size": "4 kB", "clients": 1, "workers": 2, "buckets": 4}
    ((_, record, rows),) = lab(at(proxy.url), get={"workload": "get", "axes": axes})
    around = 200  # staging, checks and markers are requests too
    assert record["valid"] and len(rows) <= proxy.requests <= len(rows) + around


class Noting(LyingProxy):
    """A proxy that counts (method, subject of the query, key) of every request that reaches the server."""

    def __init__(self, targets):
        super().__init__(targets, set())
        self.seen: Counter[tuple[str, str, str]] = Counter()
        self.deleted: list[str] = []

    def change(self, method, target, sent, status, answer):
        parts = urlsplit(target)
        subject = next((q for q in ("uploads", "partNumber", "uploadId", "delete") if q in parts.query), "")
        with self.lock:
            self.seen[method, subject, unquote(parts.path).strip("/").partition("/")[2]] += 1
            if subject == "delete":
                self.deleted += re.findall(r"<Key>(.*?)</Key>", sent.decode())
        return status, answer


@pytest.fixture
def noting(seaweedfs):
    with Noting([("127.0.0.1", port_of(seaweedfs))]) as proxy:
        yield proxy


@pytest.mark.heavy
def test_uploads_cost_recorded_requests(lab, noting, keys, engine):
    """Count at the server, by key: one PUT, or a begin, three parts and an end, without a retry."""
    whole = {("PUT", ""): 1}, {}
    split = {("POST", "uploads"): 1, ("PUT", "partNumber"): 3, ("POST", "uploadId"): 1}
    for wanted, parts in (whole, (split, {"object_size": "11 MB", "part_size": "5 MiB", "parallel_parts": 2})):
        noting.seen.clear()
        axes = AXES | {"engine": engine, "clients": 1, "workers": 2, "buckets": 1} | parts
        put = {"workload": "put", "duration": "3 s" if parts else "1200 ms", "axes": axes}
        ((_, record, rows),) = lab(at(noting.urls[0]), put=put)
        assert record["valid"] and rows and len({r["object"] for r in rows}) == len(rows)
        for row in rows:
            seen = {k[:2]: n for k, n in noting.seen.items() if k[2] == row["object"] and k[0] in ("PUT", "POST")}
            assert seen == wanted and sum(seen.values()) == row["requests"], row


@pytest.mark.heavy
def test_deletions_cost_recorded_requests(lab, noting, keys, engine):
    """The run ends when all objects are gone, one by one or 30 in a request."""
    axes = {"engine": engine, "workers": 3, "clients": 2, "buckets": 2}
    for batch in (1, 30):
        noting.seen.clear()
        noting.deleted.clear()
        delete = {"workload": "delete", "objects": 400, "duration": "20 s", "axes": axes | {"batch": batch}}
        ((_, record, rows),) = lab(at(noting.urls[0]), it=delete)
        assert record["valid"] and sum(r["count"] for r in rows) == 400
        assert {r["op"] for r in rows} == {"DELETE" if batch == 1 else "DELETE_MULTI"}
        if batch == 1:
            deleted = {key: n for (method, _, key), n in noting.seen.items() if method == "DELETE" and key}
            assert all(deleted[r["object"]] == 1 == r["requests"] for r in rows) and len(rows) == 400
        else:
            posts = sum(n for (_, subject, _), n in noting.seen.items() if subject == "delete")
            assert posts == len(rows) == sum(r["requests"] for r in rows) and 14 <= posts < 30
            assert len(noting.deleted) == 400 == len(set(noting.deleted))
        gone = next(c for c in record["checks"] if c["name"] == "gone")
        assert gone["ok"] and "400 of 400 objects reported as deleted, 0 still listed" in gone["detail"]
        assert max(c["end_ns"] for c in record["clients"]) < record["deadline_ns"]


class Refusing(LyingProxy):
    """A proxy that answers every `every`-th request for the content of an object with 503."""

    def __init__(self, targets, every: int):
        super().__init__(targets, set())
        self.every, self.numbers = every, itertools.count(1)

    def change(self, method, target, sent, status, answer):
        content = method == "GET" and "/data/payload" in target and not target.endswith(".staged")
        return self.content(next(self.numbers), status, answer) if content else (status, answer)

    def content(self, number, status, answer):
        """Return the answer to a request for the content of an object."""
        return (status, answer) if number % self.every else (503, b"<Error><Code>SlowDown</Code></Error>")


def refusing(seaweedfs, every: int) -> Refusing:
    return Refusing([("127.0.0.1", port_of(seaweedfs))], every)


@pytest.mark.parametrize(
    "engine",
    ["loadgen", *(pytest.param(e, marks=pytest.mark.heavy) for e in ("obstore", "s5cmd", "fsspec"))],
    indirect=True,
)
def test_refused_requests_are_a_result(lab, seaweedfs, keys, engine):
    with refusing(seaweedfs, 2) as proxy:
        get = {"workload": "get", "axes": {"engine": engine, "workers": 2}}
        ((_, record, rows),) = lab(at(proxy.urls[0]), get=get)
    failed, budget = [r for r in rows if r["error"]], record["budget"]
    assert not record["valid"] and 0.3 < budget["fraction"] < 0.7 and len(failed) == budget["errors"]
    assert "more than failure_budget = 1 %" in budget["reason"]
    kinds = Counter((r["error"], r["status"]) for r in failed)
    assert {status for _, status in kinds} == {503}, kinds
    assert engine == "fsspec" or set(kinds) == {("SlowDown", 503)}, kinds
    assert all(r["bytes"] == 0 for r in failed)


@pytest.mark.heavy
def test_without_success_nothing_was_measured(lab, seaweedfs, keys, engine):
    with refusing(seaweedfs, 1) as proxy, pytest.raises(MeasurementFailed, match=r"operations completed.*SlowDown"):
        lab(at(proxy.urls[0]), get={"workload": "get", "axes": {"engine": engine, "workers": 2}})


def client_run(job: Job, seconds: float):
    with contextlib.closing(WORKLOADS["get"].client(job)) as client:
        client.prepare()
        start = clock.now_ns()
        client.run(start, start + int(seconds * 1e9))
        result = client.result()
        return start, latency_truth.columns(result), result.engine


@pytest.fixture
def anybody(monkeypatch):
    for name, value in Credentials("any", "body").environ().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def body(tmp_path) -> bytes:
    return latency_truth.body(tmp_path, 1000)


@pytest.fixture
def direct(tmp_path, anybody, body, engine):
    """Return a function that runs a client of a server with these delays: (start, columns of `ops`, engine facts).

    The client is a separate process: threads of obstore must not run when the engine forks its processes, and a test
    before may have begun some in this one.
    """

    def run(delays: list[float], workers: int, rate: int, seconds: float):
        spawned = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        with DelayServer(ports.block(), delays, body) as server, spawned as other:
            job = latency_truth.job(server.url, tmp_path, server.body, workers, rate, engine)
            return other.submit(client_run, job, seconds).result(timeout=60)

    return run


@pytest.mark.heavy
def test_open_loop_keeps_schedule(direct):
    """Operations are due at even intervals, and each is begun or counted."""
    start, ops, facts = direct([0.01], 12, 100, 1.5)
    begun = len(ops["intended_ns"])
    assert begun + facts["not_begun"] == 150 and begun > 0
    assert sorted(ops["intended_ns"]) == [start + k * 10_000_000 for k in range(begun)], "no operation is left out"
    assert all(s >= due for s, due in zip(ops["start_ns"], ops["intended_ns"], strict=True))


@pytest.mark.heavy
def test_open_loop_counts_late_operations(direct):
    """With 2 workers and 100 ms an answer, operation n of 100 a second begins after n / 2 answers at the earliest."""
    _, ops, facts = direct([0.1], 2, 100, 1.5)
    n = len(ops["end_ns"])
    assert 2 <= n <= 32 and n + facts["not_begun"] == 150
    late = [(end - due) / 1e9 for end, due in zip(ops["end_ns"], ops["intended_ns"], strict=True)]
    assert max(late) > 0.1 * -(-n // 2) - 0.01 * n, "latency counts from when an operation was due"


@pytest.mark.heavy
def test_operations_in_flight_at_deadline_end(direct):
    """Each of three workers has an operation that begins before the deadline and ends after it."""
    start, ops, facts = direct([0.4], 3, 0, 1.0)
    assert max(ops["start_ns"]) < start + 10**9 and facts["hung"] == 0
    assert sum(end > start + 10**9 for end in ops["end_ns"]) == 3


@pytest.mark.heavy
@pytest.mark.parametrize("opened", [False, True])
def test_hanging_operations_are_recorded(direct, opened):
    """After three answers two operations hang. They are in the record, and end 5 s after the deadline."""
    start, ops, facts = direct([0.001] * 3 + [3600.0] * 1000, 2, 20 if opened else 0, 0.5)
    assert (clock.now_ns() - start) / 1e9 > 5.4
    hung = [i for i, error in enumerate(ops["error"]) if error == "Hung"]
    assert facts["hung"] == len(hung) == 2 and len(ops["end_ns"]) == 5 and facts["errors"]["Hung"]
    for i in hung:
        assert start <= ops["start_ns"][i] < start + 500_000_000 and ops["end_ns"][i] == start + 5_500_000_000
        assert not any(ops[c][i] for c in ("bytes", "status", "first_byte_ns")) and ops["count"][i] == 1
        assert ops["object"][i].startswith("data/") and (not opened or ops["intended_ns"][i] <= ops["start_ns"][i])
    held = sum(start + 500_000_000 - ops["start_ns"][i] for i in hung) / 1e9
    assert facts["hung_s"] == pytest.approx(held) and 0 < held < 1.0
    assert facts["not_begun"] == (5 if opened else 0), "ten are due in half a second"


class Holding(Refusing):
    """A proxy that never answers seven requests for the content of objects, after 20 that it answers."""

    def content(self, number, status, answer):
        if 20 < number <= 27:
            self.over.wait(60)
        return status, answer


@pytest.mark.heavy
@pytest.mark.parametrize("engine", ["obstore", "loadgen", "s5cmd", "fsspec"], indirect=True)
def test_run_with_hanging_workers_is_invalid(lab, seaweedfs, keys, engine):
    """The eighth worker continues. s5cmd cannot report it; the record has it."""
    with Holding([("127.0.0.1", port_of(seaweedfs))], 0) as proxy:
        proxy.over = threading.Event()
        get = {"workload": "get", "duration": "3 s", "axes": {"engine": engine, "workers": 8, "clients": 1}}
        ((_, record, rows),) = lab(at(proxy.urls[0]), get=get)
        proxy.over.set()
    facts = record["clients"][0]["engine"]
    good = [r for r in rows if not r["error"]]
    assert good
    if engine == "s5cmd":
        assert record["valid"] and record["budget"]["hung"] is None and facts["hung"] is None and facts["cut_off"] >= 7
        return
    hung = [r for r in rows if r["error"] == "Hung"]
    assert not record["valid"] and record["budget"]["hung"] == facts["hung"] == len(hung) == 7
    assert record["budget"]["errors"] == record["clients"][0]["errors"] == 7
    assert 0 < record["budget"]["hung_fraction"] < 7 / 8
    assert {r["worker"] for r in hung} < set(range(8)) and len({r["worker"] for r in hung}) == 7
    assert {r["end_ns"] - record["deadline_ns"] for r in hung} == {5_000_000_000}
    assert re.search(r"hung and held \d\d\.\d %|of the operations failed", record["budget"]["reason"])


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sig", "ok", "detail"),
    [
        (None, True, r"s5cmd ended with 1\Z"),
        (signal.SIGINT, False, r"s5cmd ended with 1, \d\.\d s before the deadline"),
        (signal.SIGKILL, False, r"s5cmd ended with -9, \d\.\d s before the deadline"),
    ],
)
def test_early_exit_of_s5cmd_fails_check(tmp_path, anybody, body, sig, ok, detail):
    """The list of commands is endless, so half a run must not look like a whole one."""
    with DelayServer(ports.block(), [0.01], body) as server:
        client = WORKLOADS["get"].client(latency_truth.job(server.url, tmp_path, body, 2, 0, "s5cmd"))
        client.prepare()
        if sig:
            threading.Timer(0.7, lambda: client.process.send_signal(sig)).start()
        start = clock.now_ns()
        client.run(start, start + (6_000_000_000 if sig else 1_500_000_000))  # it ends when the program does
        check = client._ended()
        client.close()
    assert check.ok is ok and re.match(detail, check.detail), check.detail


def test_a_longer_round_trip(lab, port_block):
    """Each request takes as much longer as the campaign says, also those of a distant role only; proxies end."""
    skip_without_loadgen()
    small = {"engine": "loadgen", "object_size": "4 kB", "workers": 1}
    near = {"workload": "get", "axes": small}
    measured = lab(
        {"kind": "versitygw", "port": port_block},
        alone={"workload": "get", "duration": "1 s", "axes": small | {"round_trip_ms": [0, 40]}},
        roles={"duration": "1 s", "roles": {"near": near, "far": near | {"axes": small | {"round_trip_ms": 40}}}},
    )
    assert len(measured) == 3
    for point, record, rows in measured:
        assert record["valid"], record["checks"]
        delays = [0, 40] if point.sweep == "roles" else [point.axes["round_trip_ms"]]
        for client, delay_ms in enumerate(delays):
            took = sorted((r["end_ns"] - r["start_ns"]) / 1e6 for r in rows if r["client"] == client)
            assert delay_ms <= took[len(took) // 2] < delay_ms + 20, (point.key, client)
    assert not having("linkproxy")
