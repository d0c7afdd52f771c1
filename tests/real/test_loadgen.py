"""The program `loadgen`: refusals, signals, and features that other engines lack (balance, signed payloads, bins)."""

import json
import os
import signal
import subprocess
import time

import latency_truth
import managed
import ports
import pyarrow.parquet as pq
import pytest
from delay_server import DelayServer
from laboratory import needs_loadgen

from storelab.core.errors import UserError
from storelab.engines import loadgen
from storelab.engines.common import bins
from storelab.stores.protocols.endpoint import Credentials

pytestmark = [pytest.mark.real, pytest.mark.heavy, needs_loadgen]
KEYS = Credentials("any", "body").environ()


def job(url: str, tmp_path, **more) -> dict:
    files = latency_truth.payload.body_files(tmp_path, 1, 1000)
    return {
        "schema": 1,
        "endpoints": [{"url": url, "region": "us-east-1", "addressing": "path", "verify": True}],
        "buckets": ["bucket"],
        "operations": [{"op": "GET"}],
        "objects": {"key": ["data/0"], "bucket": [0], "body": [0]},
        "bodies": [str(f) for f in files],
        "object_size": 1000,
        "workers": 2,
        "records": str(tmp_path / "ops.parquet"),
    } | more


def started(values: dict, environ=None) -> subprocess.Popen:
    now, pipe = time.time_ns(), subprocess.PIPE
    values = {"start_ns": now + 200_000_000, "deadline_ns": now + 60_000_000_000} | values
    variables = os.environ | (KEYS if environ is None else environ)
    process = subprocess.Popen([loadgen.binary()], stdin=pipe, stderr=pipe, env=variables)
    process.stdin.write(json.dumps(values).encode())
    process.stdin.close()
    process.stdin = None
    return process


def summary(lines: bytes) -> dict:
    return json.loads(lines.splitlines()[-1])["summary"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"wrokers": 3}, "wrokers"),
        (
            {"operations": [{"op": "GET_RANGE"}], "range": {"length": 1001}},
            "1001 B at sequential are not in an object of 1000 B",
        ),
        ({"endpoints": [{"url": "nowhere", "region": "r", "addressing": "path"}]}, "http(s)://host[:port]"),
        ({"objects": {}}, "objects: there are none"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, change, says):
    is_refused(tmp_path, says, job("http://127.0.0.1:1", tmp_path) | change)


def is_refused(folder, says: str, *arguments) -> None:
    """Check that the program ends with one line, and writes no records."""
    process = started(*arguments)
    _, output = process.communicate(timeout=20)
    assert process.returncode == 2 and output.count(b"\n") == 1 and says in output.decode()
    assert not (folder / "ops.parquet").exists()


def test_credentials_missing(tmp_path):
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    is_refused(tmp_path, "AWS_ACCESS_KEY_ID", job("http://127.0.0.1:1", tmp_path), none)


def test_certificate_that_is_not_trusted(tmp_path):
    with managed.running(managed.made("null", managed.settings_of("nullserver", tls=True), tmp_path)) as store:
        store.up(1)
        is_refused(tmp_path, "certificate is not trusted", job(store.endpoints(1)[0].url, tmp_path))


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_client_with_its_records(tmp_path, sig):
    with DelayServer(ports.block(), [0.05], latency_truth.body(tmp_path, 1000)) as server:
        process = started(job(server.url, tmp_path))
        time.sleep(1.0)
        process.send_signal(sig)
        begun = time.monotonic()
        _, output = process.communicate(timeout=20)
        assert time.monotonic() - begun < 2 and process.returncode == 128 + sig
    found = summary(output)
    assert found["operations"] >= 20 and found["hung"] == 0 and found["errors"] == 0
    assert pq.read_metadata(tmp_path / "ops.parquet").num_rows == found["rows"]


def stopped(tmp_path, pause_s: float, **more) -> tuple[dict, int]:
    """Return (summary of a run of 1.5 s at a fast server that is stopped for a time, UTC ns of the stop)."""
    with DelayServer(ports.block(), [0.005], latency_truth.body(tmp_path, 1000)) as server:
        now = time.time_ns()
        times = {"start_ns": now + 300_000_000, "deadline_ns": now + 1_800_000_000}
        process = started(job(server.url, tmp_path, **times, **more))
        time.sleep(1.0)
        begun = time.time_ns()
        if pause_s:
            process.send_signal(signal.SIGSTOP)
            time.sleep(pause_s)
            process.send_signal(signal.SIGCONT)
        _, output = process.communicate(timeout=20)
    return summary(output)["pauses"], begun


@pytest.mark.parametrize("more", [{}, {"rate": 100.0, "workers": 8}])
def test_a_pause_of_the_client_is_seen(tmp_path, more):
    found, begun = stopped(tmp_path, 0.15, **more)
    begin, length = max(found["longest"], key=lambda p: p[1])
    assert 130e6 < length == found["longest_ns"] < 300e6 and abs(begin - begun) < 50e6, found
    assert found["sum_ns"] >= length and found["count"] == len(found["longest"])
    assert (found["late_begins"] > 0) is bool(more), "a worker that waited began late"
    assert not more or 100e6 < found["late_begin_longest_ns"] < 300e6


def test_an_undisturbed_client_is_not_accused(tmp_path):
    """Other processes use this machine: one of five tries must be undisturbed."""
    assert any(stopped(tmp_path, 0)[0]["longest_ns"] < 50e6 for _ in range(5))


def test_killed_it_leaves_no_half_file(tmp_path):
    with DelayServer(ports.block(), [0.05], latency_truth.body(tmp_path, 1000)) as server:
        process = started(job(server.url, tmp_path))
        time.sleep(0.7)
        process.kill()
        process.communicate(timeout=20)
    assert not list(tmp_path.glob("ops*"))


def test_many_operations_are_bins_like_those_of_other_engines(tmp_path):
    """Beyond `most_single` operations: rows of 100 ms, with the buckets that Python's engines use."""
    with DelayServer(ports.block(), [0.002], latency_truth.body(tmp_path, 1000)) as server:
        for name, most in (("single", 5_000_000), ("binned", 10)):
            now = time.time_ns()
            times = {"start_ns": now + 200_000_000, "deadline_ns": now + 900_000_000}
            more = {"most_single": most, "records": str(tmp_path / name), "workers": 3}
            process = started(job(server.url, tmp_path, **more) | times)
            process.communicate(timeout=20)
            assert process.returncode == 0
    single, binned = (pq.read_table(tmp_path / name).to_pydict() for name in ("single", "binned"))
    assert set(binned["worker"]) == set(binned["start_ns"]) == set(binned["object"]) == {None}
    uppers = {b["upper_ns"] for hist in binned["latency_hist"] for b in hist}
    assert uppers <= set(bins.EDGES.tolist()), "buckets are those of the other engines"
    assert [sum(b["count"] for b in hist) for hist in binned["latency_hist"]] == binned["count"]
    assert all(hist is None or not hist for hist in single["latency_hist"]) and None not in single["start_ns"]


def test_balance_and_signed_payloads_through_a_campaign(lab, port_block):
    axes = {"engine": "loadgen", "workers": 4, "front_ends": 2}
    measured = lab(
        {"kind": "seaweedfs", "port": port_block},
        round={"workload": "get", "axes": axes | {"balance": "round_robin"}},
        least={"workload": "get", "axes": axes | {"balance": "least_load"}},
        one={"workload": "get", "axes": axes | {"balance": "client"}},
        signed={"workload": "put", "axes": axes | {"payload": "sha256"}},
    )
    for point, record, rows in measured:
        ends = [r["endpoint"] for r in rows]
        assert record["valid"] and {r["error"] for r in rows} == {None}
        if point.axes["balance"] == "client":
            assert set(ends) == {0}
        elif point.axes["balance"] == "round_robin":
            assert abs(ends.count(0) - ends.count(1)) <= 4
        else:
            assert set(ends) == {0, 1}
        assert record["engine"]["settings"]["payload"] == ("sha256" if point.workload == "put" else "unsigned")


def test_the_program_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"loadgen is not installed.*storelab install loadgen"):
        loadgen.binary()
