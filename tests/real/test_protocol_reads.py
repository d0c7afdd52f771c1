"""Selection reads through every protocol that can be served here: their records, and their counts against proxies that count on the wire."""

import time
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import ports
import pyarrow.parquet as pq
import pytest
from counting_proxy import CountingProxy, RootProxy
from laboratory import needs_xrootd
from range_server import range_server
from staged_root import failed, job_for, read, s_file, staged_root

from storelab.core import stores
from storelab.core.errors import UserError
from storelab.readplan import measure
from storelab.stores import make
from storelab.workloads import WORKLOADS

pytestmark = pytest.mark.real
BUCKET = "storelab-protocol-reads"
SETTINGS = {
    "directory": {"kind": "directory"},
    "nginx": {"kind": "nginx"},
    "root": {"kind": "xrootd", "protocol": "root", "subnet": "10.213.96.0/30"},
    "xrdhttp": {"kind": "xrootd", "protocol": "http", "subnet": "10.213.97.0/30"},
}
SPEAKS = {
    "directory": ("file", "fsspec"),
    "nginx": ("http", "aiohttp"),
    "root": ("root", "fsspec-xrootd"),
    "xrdhttp": ("http", "aiohttp"),
}
KINDS_HERE = [
    "directory",
    pytest.param("nginx", marks=pytest.mark.heavy),
    *(pytest.param(k, marks=needs_xrootd) for k in ("root", "xrdhttp")),
]


def settings(kind, folder):
    """Skips with the line that installs the store."""
    more = {"directory": {"path": str(folder / "data")}, "nginx": {"port": ports.block()}}.get(kind, {})
    found = SETTINGS[kind] | more
    (folder / "data").mkdir(exist_ok=True)
    try:
        make("one", stores.load(found["kind"]).Settings(**found), folder / "look").require()
    except UserError as error:
        pytest.skip(str(error))
    return found


@pytest.mark.parametrize("kind", KINDS_HERE)
def test_records(lab, tmp_path, kind):
    protocol, library = SPEAKS[kind]
    common = {"clients": 2}
    measured = lab(
        settings(kind, tmp_path),
        planned={
            "workload": "read_entries",
            "duration": "2 s",
            "axes": {"engine": "planned", "entry_fraction": 1.0, **common},
        },
        volume={"workload": "read_volume", "axes": {"engine": "planned", "volume_fraction": 5.0, **common}},
        replay={"workload": "replay", "axes": {"engine": "fsspec", "volume_fraction": 5.0, **common}},
    )
    needed = set()
    for point, record, rows in measured:
        folder = tmp_path / "results" / "lab" / "raw" / point.key
        reads = [r for table in folder.glob("reads.*.parquet") for r in pq.read_table(table).to_pylist()]
        assert (
            {r["client"] for r in reads} == {0, 1}
            and {r["error"] for r in rows} == {None}
            and all(c["ok"] for c in record["checks"])
        )
        told = record["engine"]["settings"]
        assert (told["protocol"], told["library"], told["transport"]) == (protocol, library, "default")
        for r in reads:
            assert r["asked_bytes"] >= r["needed_bytes"] and r["requests"] >= 1
            assert r["wire_bytes"] is None if kind == "directory" else r["wire_bytes"] > r["asked_bytes"]
        if point.axes.get("volume_fraction") == 5.0:
            needed |= {r["needed_bytes"] for r in reads}
    assert len(needed) == 1, "the same selection needs the same bytes in every engine"


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "several"), [("nginx", True), ("seaweedfs", False)])
def test_tls(lab, tmp_path, port_block, kind, several):
    """The certificate is verified, and bytes are counted beneath the TLS layer."""
    axes = {
        "engine": "planned",
        "volume_fraction": 5.0,
        "transport": ["default", "http"],
        "clients": 2,
        "access": "cold",
    }
    axes |= {"scheme": "https"} if kind == "seaweedfs" else {}
    own = {"kind": kind, "port": port_block} | ({"tls": True} if kind == "nginx" else {})
    for point, record, rows in lab(own, tls={"workload": "read_volume", "duration": "2 s", "axes": axes}):
        assert {r["error"] for r in rows} == {None} and record["clients"][0]["endpoint"].startswith("https://")
        known = [r["wire_bytes"] > r["bytes"] for r in rows if r["wire_bytes"] is not None]
        assert all(known) and len(known) >= len(rows) / 2
        if point.axes["transport"] == "http" or kind == "nginx":
            assert len(known) == len(rows), "obstore may drop a connection that it did not use, others do not"
        if point.axes["transport"] == "http":
            assert (record["clients"][0]["engine"]["multirange"]["ranges"] > 100) == several


@pytest.fixture(scope="module")
def store(request, tmp_path_factory):
    """(store that runs, endpoint, folder, facts) with the S file in it."""
    folder = tmp_path_factory.mktemp(request.param)
    found = settings(request.param, folder)
    one = make("one", stores.load(found["kind"]).Settings(**found), folder / "state")
    one.up()
    try:
        with staged_root(one, BUCKET, folder) as (endpoint, where, facts):
            yield one, endpoint, where, facts
    finally:
        one.down()


@pytest.fixture
def client(store):
    """`client(url, workload, key, **axes)`: prepared, closed at the end."""
    _, endpoint, folder, facts = store
    made = []

    def one(url, workload="replay", key="good", **axes):
        every = (
            {a.name: a.default for a in WORKLOADS[workload].axes}
            | {"engine": "fsspec" if workload == "replay" else "planned"}
            | axes
        )
        made.append(
            WORKLOADS[workload].client(
                job_for(BUCKET, folder, facts, url, workload, every, key, protocol=endpoint.protocol)
            )
        )
        made[-1].prepare()
        return made[-1]

    yield one
    for client in made:
        client.close()


@contextmanager
def counted(endpoint):
    at = urlsplit(endpoint.url)
    with (RootProxy if at.scheme == "root" else CountingProxy)(at.hostname, at.port) as proxy:
        yield proxy


NETWORK = ["nginx", *(pytest.param(k, marks=needs_xrootd) for k in ("root", "xrdhttp"))]
HTTP = ["nginx", pytest.param("xrdhttp", marks=needs_xrootd)]
SELECTIONS = [
    ("replay", {"volume_fraction": 1.0, "merge": "gap", "max_range_gap": 0}),
    ("replay", {"entry_fraction": 1.0, "volume_fraction": 50.0}),
    ("read_entries", {}),
]


def same_counts(one, proxy):
    """Run it: what it counted is what the proxy did."""
    asked, seen, calibration = proxy.requests, proxy.received, one.calibration
    assert (calibration["requests"], calibration["wire_bytes"]) == (asked, seen)
    result = read(one, 4)
    assert not failed(result), result.checks
    assert (
        sum(result.ops["requests"]) == proxy.requests - asked and sum(result.ops["wire_bytes"]) == proxy.received - seen
    )
    return result


@pytest.mark.parametrize("store", NETWORK, indirect=True)
@pytest.mark.parametrize(("workload", "axes"), SELECTIONS)
def test_counts_are_the_proxy_s(store, client, monkeypatch, workload, axes):
    monkeypatch.setattr("storelab.engines.common.selections.GRACE", 5.0)
    with counted(store[1]) as proxy:
        one = client(proxy.url, workload, **axes)
        if store[1].protocol != "root":
            same_counts(one, proxy)
            return
        # The login of a connection is on the wire, and is no request; so wire bytes are compared from there on.
        assert one.calibration["requests"] == proxy.requests and set(proxy.kinds) == {"open", "query", "readv"}
        asked, seen = proxy.requests, proxy.received
        result = read(one, 4)
        assert not failed(result), result.checks
        assert (
            sum(result.ops["requests"]) == proxy.requests - asked
            and sum(result.ops["wire_bytes"]) == proxy.received - seen
        )
        if axes.get("merge") == "gap":
            assert max(result.reads["requests"]) <= one.transport.parallel, "vector reads: not a request for each range"


@pytest.mark.parametrize("store", HTTP, indirect=True)
@pytest.mark.parametrize(("workload", "axes"), SELECTIONS)
def test_several_ranges_in_a_request(store, client, monkeypatch, workload, axes):
    monkeypatch.setattr("storelab.engines.common.selections.GRACE", 5.0)
    with counted(store[1]) as proxy:
        one = client(proxy.url, workload, transport="http", **axes)
        result = same_counts(one, proxy)
        found = result.engine["multirange"]
        assert found["ranges"] > 100 and {s["answer"] for s in found["seen"]} == {"right"}
        assert result.engine["libraries"].keys() == {"urllib3"} and result.engine["settings"]["transport"] == "http"
        if axes.get("merge") == "gap":
            assert set(result.reads["requests"]) == {one.transport.parallel}, "hundreds of ranges"
            assert max(w / a for w, a in zip(result.reads["wire_bytes"], result.reads["asked_bytes"], strict=True)) < 4


@pytest.mark.heavy
@pytest.mark.parametrize("store", HTTP, indirect=True)
def test_the_cost_of_a_further_range(store, client):
    """Measured, and the time that follows from it is that of a transfer within a factor of three, on a busy machine."""
    one = client(store[1].url, transport="http")
    link, size = one.link, one.size
    assert link.ranges == one.transport.ranges > 100 and 50 < link.part_bytes < 200 and 0 < link.part_s < link.request_s
    starts = np.arange(800) * (size // 800)

    def fastest():
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            one.transport.fetch(starts.tolist(), (starts + 300).tolist())
            times.append(time.perf_counter() - begun)
        return min(times)

    several, expected = fastest(), link.seconds(np.array([300]), 800)
    assert 1 / 3 < expected / several < 3
    one.transport.ranges = 1
    assert several < fastest() and expected < replace(link, ranges=1, part_bytes=0, part_s=0.0).seconds(
        np.array([300]), 800
    )
    one.transport.ranges = link.ranges
    again = measure(one.transport, size)
    assert again.ranges == link.ranges and again.part_bytes == pytest.approx(link.part_bytes, abs=3)


@pytest.mark.parametrize("store", [pytest.param("root", marks=needs_xrootd)], indirect=True)
def test_the_cost_of_a_further_element(store, client):
    link = client(store[1].url).link
    assert link.ranges > 1000 and link.part_bytes == 16 and 0 < link.part_s < link.request_s


def test_a_store_without_it_is_asked_for_one_range_a_request(seaweedfs, keys, tmp_path, monkeypatch):
    monkeypatch.setattr("storelab.engines.common.selections.GRACE", 5.0)
    with staged_root(seaweedfs, BUCKET, tmp_path) as (endpoint, folder, facts), counted(endpoint) as proxy:
        every = {a.name: a.default for a in WORKLOADS["replay"].axes} | {"volume_fraction": 2.0, "transport": "http"}
        one = WORKLOADS["replay"].client(job_for(BUCKET, folder, facts, proxy.url, "replay", every))
        one.prepare()
        asked, seen = proxy.requests, proxy.received
        assert (
            one.calibration["requests"] == asked
            and seen >= one.calibration["wire_bytes"] > one.calibration["body_bytes"]
        )
        result = read(one, 4)
        assert not failed(result), result.checks
        assert (
            sum(result.ops["requests"]) == proxy.requests - asked
            and sum(result.ops["wire_bytes"]) == proxy.received - seen
        )
        first, few = result.engine["multirange"]["seen"]
        assert result.engine["multirange"]["ranges"] == 1 and first == {"ranges": 1, "answer": "right"}
        assert few["ranges"] == 3 and "status 200" in few["answer"], "the whole object"
        assert "Signature" not in str(result.engine), "no presigned URL in the record"
        one.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(server of the S file, folder, facts)"""
    folder = tmp_path_factory.mktemp("served")
    facts = s_file(folder)
    with range_server((folder / "s.root").read_bytes()) as server:
        yield server, folder, facts


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("whole", "WrongAnswer"),
        ("first", "WrongAnswer"),
        ("some", "WrongAnswer"),
        ("broken", "WrongAnswer"),
        ("dies", "ProtocolError"),
        ("wrong", "ChecksumMismatch"),
    ],
)
@pytest.mark.parametrize("workload", ["replay", pytest.param("read_volume", marks=pytest.mark.heavy)])
def test_a_server_that_changes_its_mind(served, mode, error, workload):
    """It answered rightly when it was asked in `prepare`; what comes later is held against what was asked for, every time."""
    server, folder, facts = served
    server.mode = "right"
    axes = {a.name: a.default for a in WORKLOADS[workload].axes}
    axes |= {
        "engine": "fsspec" if workload == "replay" else "planned",
        "volume_fraction": 2.0,
        "transport": "http",
        "max_amplification": 2,
    }
    url = f"http://127.0.0.1:{server.server_port}"
    one = WORKLOADS[workload].client(job_for(BUCKET, folder, facts, url, workload, axes, protocol="http"))
    one.prepare()
    assert one.transport.ranges > 100
    one.open_file()
    server.mode = mode
    result = read(one, 2)
    one.close()
    assert set(result.ops["error"]) == {error} and set(result.ops["bytes"]) == {0} and not result.reads.get("read")
    assert "reads" in failed(result) and min(result.ops["requests"]) > 0
