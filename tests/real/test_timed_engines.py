"""The engines with the times of each operation, through `measure.point`: parts, ranges, deletions, open loop, errors as results."""

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
from counting_proxy import CountingProxy
from delay_server import DelayServer
from laboratory import LOADGEN_IS_BUILT, NO_LOADGEN
from lying_proxy import LyingProxy

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Credentials
from storelab.workloads import WORKLOADS

pytestmark = pytest.mark.real
AXES = {"object_size": "20 kB", "clients": 2, "workers": 5, "buckets": 3}
RANGE = {"object_size": "1 MB", "range_size": "5 kB"}


# Both engines run the same tests; half of them are kept for .ci/run, so that `make test` stays quick.
@pytest.fixture(params=[pytest.param("obstore", marks=pytest.mark.heavy), "loadgen"])
def engine(request) -> str:
    if request.param == "loadgen" and not LOADGEN_IS_BUILT:
        pytest.skip(NO_LOADGEN)
    return request.param


def external(url) -> dict:
    return {"kind": "s3", "endpoint": url}


@pytest.mark.heavy
def test_all_transfers(lab, seaweedfs, keys, engine):
    axes, ranges = AXES | {"engine": engine}, RANGE | {"engine": engine}
    measured = lab(
        external(seaweedfs.endpoints(1)[0].url),
        put={"workload": "put", "axes": axes},
        get={"workload": "get", "axes": axes},
        ranges={"workload": "get_range", "axes": ranges | {"offset": ["random", "sequential", "100 kB"]}},
        parts={
            "workload": "put",
            "duration": "1200 ms",
            "axes": axes | {"object_size": "11 MB", "part_size": "5 MiB", "parallel_parts": 2, "buckets": 1},
        },
        ranged={
            "workload": "get",
            "duration": "1200 ms",
            "axes": axes | {"object_size": "11 MB", "part_size": "5 MiB", "parallel_parts": 2, "buckets": 1},
        },
    )
    for point, record, rows in measured:
        assert record["valid"] and record["engine"]["name"] == engine and all(c["ok"] for c in record["checks"])
        assert len(rows) >= (3 if point.axes.get("part_size") else 20)
        size = point.axes.get("range_size") or point.axes["object_size"]
        assert (
            {r["error"] for r in rows} == {None}
            and {r["bytes"] for r in rows} == {size}
            and {r["intended_ns"] for r in rows} == {None}
        )
        assert {r["client"] for r in rows} == set(range(point.axes["clients"])) and all(r["object"] for r in rows)
        assert {r["worker"] for r in rows} <= set(range(point.axes["workers"]))
        for r in rows:
            assert record["start_ns"] <= r["start_ns"] < r["end_ns"]
            assert (
                r["first_byte_ns"] is None
                if point.workload == "put"
                else r["start_ns"] < r["first_byte_ns"] <= r["end_ns"]
            )
        requests = {"put": 3 + 2, "get": 3}[point.workload] if point.axes.get("part_size") else 1
        assert {r["requests"] for r in rows} == {requests}
        assert record["host"]["monitor_samples"] >= 2, "one at each end"


def test_https_with_a_certificate_of_our_own(lab, port_block, engine):
    axes = AXES | {"engine": engine, "clients": 1}
    ((_, record, rows),) = lab(
        {"kind": "seaweedfs", "port": port_block, "tls": True}, get={"workload": "get", "axes": axes}
    )
    assert record["valid"] and len(rows) > 20 and record["clients"][0]["endpoint"].startswith("https://")


def test_connections_are_the_workers(lab, seaweedfs, keys, engine):
    axes = AXES | {"engine": engine, "clients": 1}
    get = {"workload": "get", "duration": "1200 ms", "axes": axes}
    ((_, record, _),) = lab(external(seaweedfs.endpoints(1)[0].url), get=get)
    # One socket beside obstore's connections is the library's own, in each of its processes. And its HTTP library may open a
    # connection for an operation that then takes one which became free meanwhile: at most one for each worker.
    more = 1 + record["engine"]["settings"]["processes"] + 5 if engine == "obstore" else 0
    assert 5 <= record["clients"][0]["connections_max"] <= 5 + more


def test_parts_and_ranges_are_the_requests_that_are_declared(lab, seaweedfs, keys, engine):
    """A proxy counts: a PUT or GET of one request is one request, and a connection serves many buckets."""
    at = seaweedfs.endpoints(1)[0].url.rpartition(":")
    with CountingProxy("127.0.0.1", int(at[2])) as proxy:
        axes = AXES | {"engine": engine, "object_size": "4 kB", "clients": 1, "workers": 2, "buckets": 4}
        (_, record, rows) = lab(external(proxy.url), get={"workload": "get", "axes": axes})[0]
        staged, around = proxy.requests, 200  # staging, checks and markers are requests too
        assert record["valid"] and len(rows) <= staged <= len(rows) + around


def test_deletions(lab, seaweedfs, keys, engine):
    axes = {"engine": engine, "workers": 3, "clients": 2, "buckets": 2}
    measured = lab(
        external(seaweedfs.endpoints(1)[0].url),
        one={"workload": "delete", "objects": 400, "axes": axes | {"batch": 1}},
        many={"workload": "delete", "objects": 400, "axes": axes | {"batch": 30}},
    )
    for point, record, rows in measured:
        single = point.axes["batch"] == 1
        assert sum(r["count"] for r in rows) == 400 and {r["op"] for r in rows} == {
            "DELETE" if single else "DELETE_MULTI"
        }
        assert len(rows) == 400 if single else 14 <= len(rows) < 30
        gone = next(c for c in record["checks"] if c["name"] == "gone")
        assert gone["ok"] and "400 of 400 objects reported as deleted, 0 still listed" in gone["detail"]
        assert max(c["end_ns"] for c in record["clients"]) < record["deadline_ns"], "a run ends when nothing is left"


class Noting(LyingProxy):
    """Counts what reaches the server: (method, subject of the query, key) of every request."""

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
    with Noting([("127.0.0.1", int(seaweedfs.endpoints(1)[0].url.rpartition(":")[2]))]) as proxy:
        yield proxy


@pytest.mark.parametrize("parts", [{}, {"object_size": "11 MB", "part_size": "5 MiB", "parallel_parts": 2}])
def test_uploads_cost_what_the_record_says(lab, noting, keys, engine, parts):
    """Counted at the server, by key: one PUT, or a beginning, three parts and an end; never one tried again."""
    axes = AXES | {"engine": engine, "clients": 1, "workers": 2, "buckets": 1} | parts
    put = {"workload": "put", "duration": "3 s" if parts else "1200 ms", "axes": axes}
    ((_, record, rows),) = lab(external(noting.urls[0]), put=put)
    assert record["valid"] and len(rows) > 3 and len({r["object"] for r in rows}) == len(rows)
    wanted = {("POST", "uploads"): 1, ("PUT", "partNumber"): 3, ("POST", "uploadId"): 1} if parts else {("PUT", ""): 1}
    for row in rows:
        seen = {k[:2]: n for k, n in noting.seen.items() if k[2] == row["object"] and k[0] in ("PUT", "POST")}
        assert seen == wanted and sum(seen.values()) == row["requests"], row


@pytest.mark.parametrize("batch", [1, 30])
def test_deletions_cost_what_the_record_says(lab, noting, keys, engine, batch):
    axes = {"engine": engine, "workers": 3, "clients": 1, "buckets": 1, "batch": batch}
    delete = {"workload": "delete", "objects": 300, "duration": "5 s", "axes": axes}  # it ends when all are gone
    ((_, record, rows),) = lab(external(noting.urls[0]), it=delete)
    assert record["valid"] and sum(r["count"] for r in rows) == 300
    if batch == 1:
        deleted = {key: n for (method, _, key), n in noting.seen.items() if method == "DELETE" and key}
        assert all(deleted[r["object"]] == 1 == r["requests"] for r in rows) and len(rows) == 300
    else:
        posts = sum(n for (_, subject, _), n in noting.seen.items() if subject == "delete")
        assert posts == len(rows) == sum(r["requests"] for r in rows)
        assert len(noting.deleted) == 300 == len(set(noting.deleted))


class Refusing(LyingProxy):
    """Every `every`-th request for the content of an object gets 503."""

    def __init__(self, targets, every: int):
        super().__init__(targets, set())
        self.every, self.numbers = every, itertools.count(1)

    def change(self, method, target, sent, status, answer):
        if (
            method == "GET"
            and "/data/payload" in target
            and not target.endswith(".staged")
            and next(self.numbers) % self.every == 0
        ):
            return 503, b"<Error><Code>SlowDown</Code></Error>"
        return status, answer


@pytest.fixture
def refusing(seaweedfs):
    def proxy(every: int) -> Refusing:
        return Refusing([("127.0.0.1", int(seaweedfs.endpoints(1)[0].url.rpartition(":")[2]))], every)

    return proxy


@pytest.mark.parametrize("engine", ["obstore", "loadgen", "s5cmd", "fsspec"], indirect=True)
def test_half_of_the_requests_refused_is_a_result(lab, refusing, keys, engine):
    with refusing(2) as proxy:
        ((_, record, rows),) = lab(
            external(proxy.urls[0]), get={"workload": "get", "axes": {"engine": engine, "workers": 2}}
        )
    failed = [r for r in rows if r["error"]]
    assert (
        not record["valid"] and 0.3 < record["budget"]["fraction"] < 0.7 and len(failed) == record["budget"]["errors"]
    )
    assert "of the operations failed, more than failure_budget = 1 %" in record["budget"]["reason"]
    said = Counter((r["error"], r["status"]) for r in failed)
    assert {status for _, status in said} == {503}, said
    assert engine == "fsspec" or set(said) == {("SlowDown", 503)}, said
    assert all(r["bytes"] == 0 for r in failed)


def test_without_any_success_nothing_was_measured(lab, refusing, keys, engine):
    with refusing(1) as proxy, pytest.raises(MeasurementFailed, match=r"something moved.*SlowDown"):
        lab(external(proxy.urls[0]), get={"workload": "get", "axes": {"engine": engine, "workers": 2}})


def direct(server, folder, workers: int, rate: int, seconds: float, engine: str):
    """(start, columns of `ops`, engine facts) of one client against a server that knows no S3 but answers.

    A client is a process of its own: obstore's threads do not come along into the engine's processes, which are forks, so
    none may run when they begin. In this process a test before may have begun some.
    """
    job = latency_truth.job(server.url, folder, server.body, workers, rate, engine)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as own:
        return own.submit(client_run, job, seconds).result(timeout=60)


def client_run(job: Job, seconds: float):
    client = WORKLOADS["get"].client(job)
    try:
        client.prepare()
        start = clock.now_ns()
        client.run(start, start + int(seconds * 1e9))
        result = client.result()
        return start, latency_truth.columns(result), result.engine
    finally:
        client.close()


@pytest.fixture
def anybody(monkeypatch):
    for name, value in Credentials("any", "body").environ().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def body(tmp_path) -> bytes:
    return latency_truth.body(tmp_path, 1000)


def test_an_open_loop_keeps_its_schedule(tmp_path, anybody, body, engine):
    with DelayServer(ports.block(), [0.01], body) as server:
        start, ops, facts = direct(server, tmp_path, 12, 100, 1.5, engine)
    begun = len(ops["intended_ns"])
    assert begun + facts["not_begun"] == 150 and begun > 135, "a busy machine may be late with the last ones"
    assert sorted(ops["intended_ns"]) == [start + k * 10_000_000 for k in range(begun)], "evenly spaced, none left out"
    assert all(s >= due for s, due in zip(ops["start_ns"], ops["intended_ns"], strict=True))


def test_an_open_loop_counts_what_it_could_not_begin(tmp_path, anybody, body, engine):
    """2 workers and 100 ms an answer: 20 operations a second begin of 100 that are due, each later than the one before."""
    with DelayServer(ports.block(), [0.1], body) as server:
        _, ops, facts = direct(server, tmp_path, 2, 100, 1.5, engine)
    n = len(ops["end_ns"])
    assert 20 <= n <= 32 and n + facts["not_begun"] == 150
    late = [(end - due) / 1e9 for end, due in zip(ops["end_ns"], ops["intended_ns"], strict=True)]
    assert max(late) > 1.0, "latency counts from when an operation was due"


def test_operations_in_flight_at_the_deadline_end(tmp_path, anybody, body, engine):
    with DelayServer(ports.block(), [0.4], body) as server:
        start, ops, facts = direct(server, tmp_path, 3, 0, 1.0, engine)
    assert len(ops["end_ns"]) == 9 and facts["hung"] == 0, "three begin before the deadline and end after it"
    assert sum(end > start + 10**9 for end in ops["end_ns"]) == 3


@pytest.mark.parametrize("opened", [pytest.param(False, marks=pytest.mark.heavy), True])
def test_what_hangs_is_told(tmp_path, anybody, body, engine, opened):
    """Three answers, then none: two operations hang, and stand in the record until they are given up."""
    with DelayServer(ports.block(), [0.001] * 3 + [3600.0] * 1000, body) as server:
        start, ops, facts = direct(server, tmp_path, 2, 20 if opened else 0, 0.5, engine)
        assert 5.4 < (clock.now_ns() - start) / 1e9 < 12, "the deadline plus what is granted to operations in flight"
    hung = [i for i, error in enumerate(ops["error"]) if error == "Hung"]
    assert facts["hung"] == len(hung) == 2 and len(ops["end_ns"]) == 5 and facts["errors"]["Hung"]
    for i in hung:
        assert start <= ops["start_ns"][i] < start + 500_000_000 and ops["end_ns"][i] == start + 5_500_000_000
        assert not any(ops[c][i] for c in ("bytes", "status", "first_byte_ns")) and ops["count"][i] == 1
        assert ops["object"][i].startswith("data/") and (not opened or ops["intended_ns"][i] <= ops["start_ns"][i])
    held = sum(start + 500_000_000 - ops["start_ns"][i] for i in hung) / 1e9
    assert facts["hung_s"] == pytest.approx(held) and 0.5 < held < 1.0
    assert facts["not_begun"] == (5 if opened else 0), "ten are due in half a second"


class Holding(Refusing):
    """Seven requests for the content of objects are never answered, after 20 that are."""

    def change(self, method, target, sent, status, answer):
        content = method == "GET" and "/data/payload" in target and not target.endswith(".staged")
        if content and 20 < next(self.numbers) <= 27:
            self.over.wait(60)
        return status, answer


@pytest.mark.heavy
@pytest.mark.parametrize("engine", ["obstore", "loadgen", "s5cmd", "fsspec"], indirect=True)
def test_seven_of_eight_workers_that_hang_are_no_good_run(lab, seaweedfs, keys, engine):
    """Through `measure.point`: the eighth goes on as if nothing were. s5cmd cannot tell, and says so."""
    with Holding([("127.0.0.1", int(seaweedfs.endpoints(1)[0].url.rpartition(":")[2]))], 0) as proxy:
        proxy.over = threading.Event()
        get = {"workload": "get", "duration": "3 s", "axes": {"engine": engine, "workers": 8, "clients": 1}}
        ((_, record, rows),) = lab(external(proxy.urls[0]), get=get)
        proxy.over.set()
    facts = record["clients"][0]["engine"]
    good = [r for r in rows if not r["error"]]
    assert len(good) > 50
    if engine == "s5cmd":
        assert record["valid"] and record["budget"]["hung"] is None and facts["hung"] is None and facts["cut_off"] >= 7
        return
    hung = [r for r in rows if r["error"] == "Hung"]
    assert not record["valid"] and record["budget"]["hung"] == facts["hung"] == len(hung) == 7
    assert record["budget"]["errors"] == record["clients"][0]["errors"] == 7
    assert 0.7 < record["budget"]["hung_fraction"] < 7 / 8
    assert {r["worker"] for r in hung} < set(range(8)) and len({r["worker"] for r in hung}) == 7
    assert {r["end_ns"] - record["deadline_ns"] for r in hung} == {5_000_000_000}
    assert re.search(r"hung and held \d\d\.\d %|of the operations failed", record["budget"]["reason"])


@pytest.mark.parametrize(
    ("sig", "ok", "says"),
    [
        (None, True, r"s5cmd ended with 1\Z"),
        (signal.SIGINT, False, r"s5cmd ended with 1, 0\.\d s before the deadline"),
        (signal.SIGKILL, False, r"s5cmd ended with -9, 0\.\d s before the deadline"),
    ],
)
def test_the_exit_of_s5cmd_is_judged(tmp_path, anybody, body, sig, ok, says):
    """Its commands have no end: where it ends before it is told to, half a run must not look like a whole one."""
    with DelayServer(ports.block(), [0.01], body) as server:
        client = WORKLOADS["get"].client(latency_truth.job(server.url, tmp_path, body, 2, 0, "s5cmd"))
        client.prepare()
        if sig:
            threading.Timer(0.7, lambda: client.process.send_signal(sig)).start()
        start = clock.now_ns()
        client.run(start, start + 1_500_000_000)
        check = client._ended()
        client.close()
    assert check.ok is ok and re.match(says, check.detail), check.detail
