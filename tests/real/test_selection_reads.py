"""The engines `uproot-s3fs` and `planned` and the workload `replay` on a real store.

Their counts must be equal to those of a proxy on the wire. Runs end after a number of reads.
"""

import json
import socket
import threading
import time

import awkward as ak
import pytest
import uproot
from managed import rows_of
from staged_root import SIDE_CAR, failed, read, run

from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.host.page_cache import PageCache

pytestmark = pytest.mark.real
UPROOT, PLANNED = {"engine": "uproot-s3fs"}, {"engine": "planned"}
FEW = UPROOT | {"entry_fraction": 1.0, "volume_fraction": 1.0}  # entries and branches: a read takes few requests
READERS = (("read_entries", UPROOT), ("read_entries", PLANNED), ("replay", {}))
PHASES = ("plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns")

# The first of each engine and workload are smoke tests.
SMOKES = [
    ("read_entries", UPROOT | {"entry_fraction": 0.1, "volume_fraction": 1.0}),
    ("read_volume", UPROOT | {"volume_fraction": 50.0}),
    ("read_entries", PLANNED | {"entry_fraction": 0.1}),
    ("read_volume", PLANNED | {"volume_fraction": 1.0, "thrift": 20}),
    ("replay", {"volume_fraction": 1.0, "max_amplification": 4}),
    ("replay", {"engine": "fsspec", "volume_fraction": 1.0, "merge": "gap", "max_range_gap": 4096}),
]
OTHERS = [
    ("read_entries", FEW | {"max_range_gap": 0}),
    ("read_entries", FEW | {"max_range_gap": 1 << 20}),
    ("read_entries", UPROOT),
    ("read_entries", PLANNED),
    ("replay", {"entry_fraction": 1.0, "volume_fraction": 50.0}),
    ("replay", {"volume_fraction": 1.0, "merge": "gap", "max_range_gap": 4096}),
]


def name_of(case) -> str:
    workload, axes = case
    return "-".join([workload, *map(str, axes.values())])


def totals(result) -> tuple[int, int]:
    return sum(result.ops["requests"]), sum(result.ops["wire_bytes"])


def since(proxy, before: tuple[int, int]) -> tuple[int, int]:
    return proxy.requests - before[0], proxy.received - before[1]


@pytest.mark.parametrize(
    "case", [*SMOKES, *(pytest.param(case, marks=pytest.mark.heavy) for case in OTHERS)], ids=name_of
)
def test_counts_are_those_of_proxy(reader, proxy, staged, case):
    workload, axes = case
    client = reader(proxy.url, workload, axes)
    before = proxy.requests, proxy.received
    if axes.get("engine") == "uproot-s3fs":
        assert proxy.connections == 0, "nothing is sent before the start"
    else:
        assert client.calibration["requests"] == before[0] > 600
    result = read(client, 4)
    reads, ops, facts = result.reads, result.ops, staged[2]
    assert not failed(result), result.checks
    assert reads["read"] == [0, 1, 2, 3] and ops["error"] == [None] * 4
    assert totals(result) == since(proxy, before), "exact for all requests of the client"
    table = baskets.read(staged[1] / SIDE_CAR)
    chosen = baskets.select_branches(table, axes.get("volume_fraction", 100.0))
    entries = max(1, -(-int(axes.get("entry_fraction", 100.0) * facts["entries"]) // 100))
    assert set(reads["entries"]) == {entries} and set(reads["branches"]) == {len(chosen)}
    if entries == facts["entries"]:
        assert set(reads["needed_bytes"]) == {baskets.ranges(table, chosen, range(entries))[1]}
        assert set(reads["baskets"]) == {4 * len(chosen)}
    for i in range(4):
        assert reads["wire_bytes"][i] > reads["asked_bytes"][i] >= reads["needed_bytes"][i] > 0
        assert 0 < sum(reads[k][i] for k in ("open_ns", *PHASES)) <= reads["end_ns"][i] - reads["start_ns"][i]
        assert (reads["open_ns"][i] > 0) == (i == 0 and workload != "replay")
        assert [reads[k][i] > 0 for k in PHASES] == [True, True, workload != "replay", workload != "replay"]
        if i and axes.get("max_range_gap") == 0:
            assert reads["asked_bytes"][i] == reads["needed_bytes"][i]
        if i and (bound := axes.get("max_amplification")):
            assert reads["wire_bytes"][i] <= 1.1 * bound * reads["needed_bytes"][i]
    text = json.dumps([result.engine, result.connections, [c.detail for c in result.checks]])
    if axes.get("engine") == "uproot-s3fs":
        assert result.connections["opened"] == proxy.connections and 1 <= result.connections["max"] <= 64
        assert result.engine["opening"]["requests"] == 3
        assert client.fs.key not in text and client.fs.secret not in text
    else:
        assert result.connections["opened"] <= proxy.connections and result.engine["connections_lost"] == 0
        assert result.engine["link"]["rtt_s"] > 0 and client.job.endpoint.url not in text


def test_changed_byte_fails_checks(reader, proxy):
    for workload, axes in READERS:
        client = reader(proxy.url, workload, axes, key="bad")
        before = proxy.requests, proxy.received
        result = read(client, 2)
        assert failed(result) == {"reads", "crc32"} and not result.reads["client"], (workload, axes)
        assert set(result.ops["error"]) == {"ChecksumMismatch"} and set(result.ops["bytes"]) == {0}
        assert totals(result) == since(proxy, before)


@pytest.mark.heavy
def test_other_file_than_staged_is_refused(reader, staged):
    for axes in (UPROOT, PLANNED):
        client = reader(staged[0].url, "read_entries", axes)
        (client.reader if axes is UPROOT else client).staged.size[5] += 1
        result = read(client, 2)
        assert failed(result) == {"reads", "side-car"} and set(result.ops["error"]) == {"SideCarMismatch"}


def test_missing_object_and_dead_server_are_errors(reader, proxy):
    """Between two errors a client waits 50 ms."""
    for workload, axes in READERS:
        client = reader(proxy.url, workload, axes, key="nothing-here")
        before = proxy.received
        result, _ = run(client, 0.5)
        n = len(result.ops["op"])
        assert failed(result) == {"reads"} and set(result.ops["status"]) == {404} and 1 <= n <= 11, (workload, axes)
        if axes is UPROOT:
            assert set(result.ops["error"]) == {"NoSuchKey"} and set(result.ops["requests"]) == {1}
            assert sum(result.ops["wire_bytes"]) == proxy.received - before
            assert result.engine["statuses"] == {"404": n}
        result, _ = run(reader("http://127.0.0.1:9", workload, axes), 0.5)
        kind = "EndpointConnectionError" if axes is UPROOT else "ConnectionRefused"
        assert set(zip(result.ops["status"], result.ops["error"], strict=True)) == {(0, kind)}


def test_missing_credentials_are_user_error(reader, staged, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for kind in ("uproot.UprootClient", "common.selections.SelectionClient"):
        monkeypatch.setattr(f"storelab.engines.{kind}.close", lambda self: None)
    for axes in (UPROOT, PLANNED):
        with pytest.raises(UserError, match="no credentials"):
            reader(staged[0].url, "read_entries", axes)


# Connections


@pytest.mark.heavy
def test_closed_idle_connections_keep_counts_right(reader, proxy):
    client = reader(proxy.url, "read_entries", FEW)
    client.last = client.counter.now()
    for number in range(4):
        client.reads.append(client._read(number))
        proxy.drop()
        while proxy.pairs:  # until both ends have closed
            time.sleep(0.01)
    result = client.result()
    assert not failed(result)
    assert result.connections["opened"] == proxy.connections > result.connections["max"]
    assert totals(result) == (proxy.requests, proxy.received)


@pytest.mark.heavy
def test_dropped_connections_are_errors_and_reads_go_on(reader, proxy):
    """The last bytes of closed connections of obstore are unknown, so wire bytes are missing from then on."""
    client = reader(proxy.url, "read_entries", FEW | {"max_range_gap": 0})
    one = client._read

    def cut(number):
        if number in range(1, 6):
            threading.Timer(0.05, proxy.drop).start()
        return one(number)

    client._read = cut
    result = read(client, 12)
    errors = {"ConnectionClosedError", "ClientPayloadError", "EndpointConnectionError", "ResponseStreamingError"}
    found = [e for e in result.ops["error"] if e]
    assert set(found) <= errors and 0 in result.reads["read"] and not failed(result)
    assert len(result.reads["read"]) + len(found) == len(result.ops["op"])
    client = reader(proxy.url, "replay", {"volume_fraction": 1.0})
    one = client._read
    client._read = lambda number: (proxy.drop() if number == 2 else None, one(number))[1]
    result = read(client, 6)
    assert result.reads["read"][:2] == [0, 1] and not failed(result) - {"reads"}
    assert result.reads["wire_bytes"][-1] is None or result.engine["connections_lost"] == 0


@pytest.mark.heavy
def test_connections_and_pieces_are_limited(reader, proxy):
    """Merged ranges are split over all allowed connections; the bytes are the same."""
    whole = read(reader(proxy.url, "read_entries", {"max_range_gap": 10**6}), 3)
    opened = proxy.connections
    client = reader(proxy.url, "read_entries", {"max_range_gap": 10**6, "split": 500_000, "connections": 3})
    before = proxy.requests, proxy.received
    parts = read(client, 3)
    assert not failed(whole) and not failed(parts), parts.checks
    assert all(parts.reads[k][1] == whole.reads[k][1] for k in ("asked_bytes", "needed_bytes"))
    assert parts.reads["requests"][1] == -(-parts.reads["asked_bytes"][1] // 500_000) > whole.reads["requests"][1]
    assert totals(parts) == since(proxy, before)
    limit = parts.engine["settings"]["max_pool_connections"]
    assert proxy.connections - opened == 3 == parts.connections["max"] == limit


COLD = [
    *(("read_volume", axes) for axes in (PLANNED, PLANNED | {"transport": "http"})),
    *(("replay", axes) for axes in ({}, {"engine": "fsspec"})),
]


@pytest.mark.parametrize(
    ("workload", "axes"),
    [("read_volume", UPROOT), *(pytest.param(*case, marks=pytest.mark.heavy) for case in COLD)],
)
def test_cold_reads_open_again_and_are_counted(reader, proxy, workload, axes):
    client = reader(proxy.url, workload, {"volume_fraction": 2.0, "access": "cold"} | axes)
    before, opened = (proxy.requests, proxy.received), proxy.connections
    result = read(client, 4)
    reads = result.reads
    assert not failed(result), result.checks
    requests, received = since(proxy, before)
    assert len(reads["read"]) == 4 and sum(reads["requests"]) == requests
    known = [n for n in reads["wire_bytes"] if n is not None]
    if axes is UPROOT or axes.get("transport") == "http":
        assert sum(known) == received, "these libraries use sockets that storelab counts"
    else:
        # Sockets of other libraries are looked up in /proc; what one that ended brought between two looks is unknown.
        lost = 4 - len(known)
        assert (not lost or result.engine["connections_lost"] > 0) and sum(known) <= received
        assert all(n > a for n, a in zip(reads["wire_bytes"], reads["asked_bytes"], strict=True) if n is not None)
    assert proxy.connections - opened >= 3, "new connections for each read"
    if workload != "replay":
        assert min(reads["open_ns"]) > 0 and len(set(reads["requests"])) <= 3
    why = "the store's data are not on disks of this machine"
    assert result.engine["cold"] == {"connections": "new for each read", "pages": {"dropped": 0, "why": why}}


@pytest.mark.heavy
def test_kept_header_costs_no_request(reader, proxy):
    axes = PLANNED | {"volume_fraction": 2.0}
    new = read(reader(proxy.url, "read_volume", axes), 2)
    axes |= {"header": "cached"}
    client = reader(proxy.url, "read_volume", axes)
    before = proxy.requests, proxy.received
    result = read(client, 2)
    assert not failed(result) and result.engine["opening"]["requests"] == 0 < new.engine["opening"]["requests"]
    assert totals(result) == since(proxy, before)
    assert result.reads["requests"][0] == result.reads["requests"][1] and result.reads["open_ns"][0] > 0
    asked = proxy.requests
    again = reader(proxy.url, "read_volume", axes)
    assert proxy.requests - asked == again.calibration["requests"], "the link is measured, the header is not read"
    client.kept.write_bytes(b"broken")
    third = reader(proxy.url, "read_volume", axes)
    assert not failed(read(third, 2)) and client.kept.stat().st_size > 1000, "read again, and kept"


# The end of a run


@pytest.fixture
def short_grace(monkeypatch):
    """Set the grace to 20 % of the duration, also for short durations."""
    monkeypatch.setattr("storelab.engines.common.selections.GRACE_S", 0.0)


@pytest.mark.heavy
def test_read_beyond_grace_is_left_out(reader, proxy, short_grace):
    """The grace is 20 % of 2 s. A silent server does not hold the client."""
    client = reader(proxy.url, "read_entries", FEW)
    one = client._read

    def stalling(number):
        if number == 1:
            proxy.flowing.clear()
        return one(number)

    client._read = stalling
    result, late = run(client)
    assert late > 0.38 and not failed(result)
    assert result.reads["read"] == [0] and result.ops["error"] == [None], "it is not an error"
    assert result.engine["abandoned"]["reads"] == 1 and result.engine["abandoned"]["requests"] > 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = reader(f"http://127.0.0.1:{server.getsockname()[1]}", "read_entries", UPROOT)
        result, _ = run(client, 0.5)
    assert result.ops["op"] == [] and result.engine["abandoned"]["reads"] == 1 and failed(result) == {"reads"}


# Values and records


@pytest.mark.heavy
def test_values_are_those_of_file(reader, staged):
    """Compare with what uproot reads from the local file."""
    one = reader(staged[0].url, "read_entries", UPROOT | {"entry_fraction": 1.0}).reader
    one.open()
    for seed in range(3):
        entries = baskets.select_entries(1000, 1, seed)
        rows, _, ranges = one.plan(entries)
        got = dict(one.arrays(rows, one.decompress(rows, one.transfer(ranges)), entries))
        with uproot.open(staged[1] / "s.root") as f:
            for name, branch in f[staged[2]["tree"]].iteritems(recursive=True):
                assert ak.array_equal(branch.array()[entries], ak.Array(got[name]), dtype_exact=False), name


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["directory", "seaweedfs"])
def test_records_contain_cold_pages(lab, tmp_path, port_block, kind):
    (tmp_path / "data").mkdir()
    place = {"path": str(tmp_path / "data")} if kind == "directory" else {"port": port_block}
    axes = {"engine": "planned", "volume_fraction": 5.0, "access": "cold", "header": "cached"}
    ((point, record, _),) = lab({"kind": kind} | place, cold={"workload": "read_volume", "axes": axes})
    reads = rows_of(tmp_path / "results" / "lab" / "raw" / point.key, "reads")
    pages = record["clients"][0]["engine"]["cold"]["pages"]
    assert len(reads) > 2 and min(r["open_ns"] for r in reads) > 0 and pages["dropped"] >= len(reads)
    assert 0 <= pages["still_cached"] <= 1 and "access~cold_header~cached" in point.key


@pytest.mark.heavy
def test_page_cache_is_dropped(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(8_000_000))
    cache = PageCache([str(tmp_path)])
    path.read_bytes()
    cache.look([path])
    assert cache.cached > 0.9 * cache.seen
    cache.cached = cache.seen = 0
    cache.drop()
    assert cache.facts()["dropped"] == 1
    if cache.facts()["still_cached"] > 0.1:
        pytest.skip("hardware: this file system keeps pages whatever is asked of it")
