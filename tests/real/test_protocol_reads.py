"""Selection reads through every protocol that can be served here: their records, and counts of proxies."""

from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import ports
import pytest
from counting_proxy import CountingProxy, RootProxy
from laboratory import needs_xrootd
from managed import made, rows_of
from range_server import range_server
from staged_root import failed, prepared, read, s_file, staged_root

from readplan import measure

pytestmark = pytest.mark.real
BUCKET = "storelab-protocol-reads"
SETTINGS = {
    "directory": {"kind": "directory"},
    "nginx": {"kind": "nginx"},
    "root": {"kind": "xrootd", "protocol": "root", "subnet": "10.213.96.0/30"},
    "xrdhttp": {"kind": "xrootd", "protocol": "http", "subnet": "10.213.97.0/30"},
}
HTTP = ("http", "aiohttp")
SPEAKS = {"directory": ("file", "fsspec"), "nginx": HTTP, "root": ("root", "fsspec-xrootd"), "xrdhttp": HTTP}
XROOTD = [pytest.param(kind, marks=[*needs_xrootd, pytest.mark.heavy]) for kind in ("root", "xrdhttp")]
NGINX = pytest.param("nginx", marks=pytest.mark.heavy)


def settings(kind, folder):
    """Return the settings of a store; skip with the line that installs it."""
    more = {"directory": {"path": str(folder / "data")}, "nginx": {"port": ports.block()}}.get(kind, {})
    (folder / "data").mkdir(exist_ok=True)
    made("one", SETTINGS[kind] | more, folder / "look")
    return SETTINGS[kind] | more


@pytest.mark.parametrize("kind", ["directory", NGINX, *XROOTD])
def test_records_of_protocols(lab, tmp_path, kind):
    planned, replay = {"engine": "planned", "clients": 2}, {"engine": "fsspec", "clients": 2}
    measured = lab(
        settings(kind, tmp_path),
        planned={"workload": "read_entries", "duration": "2 s", "axes": planned | {"entry_fraction": 1.0}},
        volume={"workload": "read_volume", "axes": planned | {"volume_fraction": 5.0}},
        replay={"workload": "replay", "axes": replay | {"volume_fraction": 5.0}},
    )
    needed = set()
    for point, record, rows in measured:
        reads = rows_of(tmp_path / "results" / "lab" / "raw" / point.key, "reads")
        assert {r["client"] for r in reads} == {0, 1} and {r["error"] for r in rows} == {None}
        assert all(c["ok"] for c in record["checks"])
        known = record["engine"]["settings"]
        assert (known["protocol"], known["library"], known["transport"]) == (*SPEAKS[kind], "default")
        for r in reads:
            assert r["asked_bytes"] >= r["needed_bytes"] and r["requests"] >= 1
            assert r["wire_bytes"] is None if kind == "directory" else r["wire_bytes"] > r["asked_bytes"]
        if point.axes.get("volume_fraction") == 5.0:
            needed |= {r["needed_bytes"] for r in reads}
    assert len(needed) == 1, "the same selection needs the same bytes in every engine"


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "several"), [("nginx", True), ("seaweedfs", False)])
def test_bytes_are_counted_beneath_tls(lab, port_block, kind, several):
    """The certificate is verified."""
    axes = {"engine": "planned", "volume_fraction": 5.0, "transport": ["default", "http"], "clients": 2}
    axes |= {"access": "cold"} | ({"scheme": "https"} if kind == "seaweedfs" else {})
    store = {"kind": kind, "port": port_block} | ({"tls": True} if kind == "nginx" else {})
    for point, record, rows in lab(store, tls={"workload": "read_volume", "duration": "2 s", "axes": axes}):
        client = record["clients"][0]
        assert {r["error"] for r in rows} == {None} and client["endpoint"].startswith("https://")
        known = [r["wire_bytes"] > r["bytes"] for r in rows if r["wire_bytes"] is not None]
        assert all(known) and len(known) >= len(rows) / 2
        if point.axes["transport"] == "http" or kind == "nginx":
            assert len(known) == len(rows), "obstore may drop a connection that it did not use, others do not"
        if point.axes["transport"] == "http":
            assert (client["engine"]["multirange"]["ranges"] > 100) == several


@pytest.fixture(scope="module")
def store(request, tmp_path_factory):
    """Return (endpoint, folder, facts) of a running store with the S file in it."""
    folder = tmp_path_factory.mktemp(request.param)
    one = made("one", settings(request.param, folder), folder / "state")
    one.up()
    try:
        with staged_root(one, BUCKET, folder) as found:
            yield found
    finally:
        one.down()


@pytest.fixture
def client(store):
    """Return `client(url, workload, **axes)`: prepared, closed at the end."""
    with prepared(BUCKET, *store[1:]) as one:

        def made(url, workload="replay", **axes):
            engine = {"engine": "fsspec" if workload == "replay" else "planned"}
            return one(url, workload, engine | axes, protocol=store[0].protocol)

        yield made


@contextmanager
def counted(endpoint):
    at = urlsplit(endpoint.url)
    with (RootProxy if at.scheme == "root" else CountingProxy)(at.hostname, at.port) as proxy:
        yield proxy


SELECTIONS = [
    ("replay", {"volume_fraction": 1.0, "merge": "gap", "max_range_gap": 0}),
    ("replay", {"entry_fraction": 1.0, "volume_fraction": 50.0}),
    ("read_entries", {}),
]


def same_counts(one, proxy):
    """Read, and compare the counts with those of the proxy."""
    asked, seen = proxy.requests, proxy.received
    result = read(one, 4)
    assert not failed(result), result.checks
    assert sum(result.ops["requests"]) == proxy.requests - asked
    assert sum(result.ops["wire_bytes"]) == proxy.received - seen
    return result


@pytest.mark.parametrize("store", [NGINX, *XROOTD], indirect=True)
def test_counts_are_those_of_proxy(store, client):
    """The login of a root:// connection is on the wire, and is not a request: compare bytes from there on."""
    for workload, axes in SELECTIONS:
        with counted(store[0]) as proxy:
            one = client(proxy.url, workload, **axes)
            assert one.calibration["requests"] == proxy.requests
            if store[0].protocol == "root":
                assert set(proxy.kinds) == {"open", "query", "readv"}
            else:
                assert one.calibration["wire_bytes"] == proxy.received
            result = same_counts(one, proxy)
            if store[0].protocol == "root" and axes.get("merge") == "gap":
                assert max(result.reads["requests"]) <= one.transport.parallel, "vector reads"


@pytest.mark.parametrize("store", [NGINX, XROOTD[1]], indirect=True)
def test_several_ranges_share_a_request(store, client):
    for workload, axes in SELECTIONS:
        with counted(store[0]) as proxy:
            one = client(proxy.url, workload, transport="http", **axes)
            assert (one.calibration["requests"], one.calibration["wire_bytes"]) == (proxy.requests, proxy.received)
            result = same_counts(one, proxy)
            found, reads = result.engine["multirange"], result.reads
            assert found["ranges"] > 100 and {s["answer"] for s in found["seen"]} == {"right"}
            assert result.engine["libraries"].keys() == {"urllib3"} and result.engine["settings"]["transport"] == "http"
            if axes.get("merge") == "gap":
                assert set(reads["requests"]) == {one.transport.parallel}, "hundreds of ranges"
                assert max(w / a for w, a in zip(reads["wire_bytes"], reads["asked_bytes"], strict=True)) < 4


@pytest.mark.parametrize("store", [NGINX, *XROOTD], indirect=True)
def test_further_range_has_a_cost(store, client):
    """It is the size of the header of a part, and less than a request."""
    one = client(store[0].url, **({} if store[0].protocol == "root" else {"transport": "http"}))
    link = one.link
    assert 0 < link.part_s < link.request_s
    if store[0].protocol == "root":
        assert link.ranges > 1000 and link.part_bytes == 16
        return
    assert link.ranges == one.transport.ranges > 100 and 50 < link.part_bytes < 200
    single = replace(link, ranges=1, part_bytes=0, part_s=0.0)
    assert link.seconds(np.array([300]), 800) < single.seconds(np.array([300]), 800)
    again = measure(one.transport, one.size)
    assert again.ranges == link.ranges and again.part_bytes == pytest.approx(link.part_bytes, abs=3)


@pytest.mark.heavy
def test_store_without_several_ranges_gets_one_a_request(reader, proxy):
    one = reader(proxy.url, "replay", {"volume_fraction": 2.0, "transport": "http"})
    calibration = one.calibration
    assert calibration["requests"] == proxy.requests
    assert proxy.received >= calibration["wire_bytes"] > calibration["body_bytes"]
    result = same_counts(one, proxy)
    first, few = result.engine["multirange"]["seen"]
    assert result.engine["multirange"]["ranges"] == 1 and first == {"ranges": 1, "answer": "right"}
    assert few["ranges"] == 3 and "status 200" in few["answer"], "the whole object"
    assert "Signature" not in str(result.engine), "no presigned URL in the record"


@pytest.mark.heavy
def test_changed_answer_of_server_is_noticed(tmp_path):
    """It answers correctly in `prepare`. Later answers are compared with the requests, every time."""
    facts = s_file(tmp_path)
    axes = {"volume_fraction": 2.0, "transport": "http", "max_amplification": 2}
    wrong = dict.fromkeys(("whole", "first", "some", "broken"), "WrongAnswer")
    wrong |= {"dies": "ProtocolError", "wrong": "ChecksumMismatch"}
    with range_server((tmp_path / "s.root").read_bytes()) as server, prepared(BUCKET, tmp_path, facts) as reader:
        for workload, engine in (("replay", "fsspec"), ("read_volume", "planned")):
            for mode, error in wrong.items():
                server.mode = "right"
                url = f"http://127.0.0.1:{server.server_port}"
                one = reader(url, workload, axes | {"engine": engine}, protocol="http")
                assert one.transport.ranges > 100
                one.open_file()
                server.mode = mode
                result = read(one, 2)
                assert set(result.ops["error"]) == {error} and set(result.ops["bytes"]) == {0}, (workload, mode)
                assert not result.reads.get("read")
                assert "reads" in failed(result) and min(result.ops["requests"]) > 0
