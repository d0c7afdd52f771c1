"""The engine `uproot-s3fs` on a real store, its counts held against a proxy that counts on the wire: they must be equal."""

import json
import threading
import time
from urllib.parse import urlsplit

import pytest
from counting_proxy import CountingProxy
from staged_root import SIDE_CAR, failed, job_for, read, run, staged_root

from storelab.core import records
from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.engines.common.guard import LimitExceeded
from storelab.workloads import WORKLOADS

pytestmark = pytest.mark.real
BUCKET = "storelab-sparse-reads"


@pytest.fixture(scope="module")
def staged(seaweedfs, tmp_path_factory):
    with staged_root(seaweedfs, BUCKET, tmp_path_factory.mktemp("sparse")) as found:
        yield found


@pytest.fixture
def make(staged, seaweedfs, monkeypatch):
    """`make(url, key, entry_fraction, …)`: a prepared client, closed at the end."""
    for name, value in seaweedfs.credentials().environ().items():
        monkeypatch.setenv(name, value)
    _, folder, facts = staged
    made = []

    def one(url, key="good", entries=100.0, volume=100.0, gap=32768, limits=None, client=0):
        axes = {"engine": "uproot-s3fs", "scale": "S", "entry_fraction": entries, "volume_fraction": volume}
        axes |= {"clients": 1, "max_range_gap": gap, "front_ends": 1}
        job = job_for(BUCKET, folder, facts, url, "read_entries", axes, key, client=client, limits=limits or {})
        made.append(WORKLOADS["read_entries"].client(job))
        made[-1].prepare()
        return made[-1]

    yield one
    for client in made:
        client.close()


@pytest.fixture
def proxy(staged):
    at = urlsplit(staged[0].url)
    with CountingProxy(at.hostname, at.port) as running:
        yield running


LONG = [(100, 100, 32768), (1, 100, 32768), (0.1, 100, 32768), (100, 1, 32768), (1, 1, 4096), (1, 1, 1 << 20)]
CASES = [
    (100, 50, 32768),
    (0.1, 1, 32768),
    (1, 1, 0),
    *(pytest.param(*case, marks=pytest.mark.heavy) for case in LONG),
]


@pytest.mark.parametrize(("entries", "volume", "gap"), CASES)
def test_counts_are_the_proxy_s(make, proxy, staged, tmp_path, monkeypatch, entries, volume, gap):
    monkeypatch.setattr(
        "storelab.engines.common.selections.GRACE", 5.0
    )  # no read is left out, however slow this machine
    client = make(proxy.url, entries=entries, volume=volume, gap=gap)
    assert proxy.connections == 0, "nothing is sent before the start"
    result = read(client, 4)
    reads, ops, facts = result.reads, result.ops, staged[2]
    assert not failed(result), result.checks
    assert reads["read"] and ops["error"] == [None] * len(reads["read"])
    # Exact, over everything that the client did.
    assert (sum(ops["requests"]), sum(ops["wire_bytes"])) == (proxy.requests, proxy.received)
    assert result.connections["opened"] == proxy.connections and 1 <= result.connections["max"] <= 64
    # And it is what was asked for.
    n = max(1, -(-int(entries * facts["entries"]) // 100))
    table = baskets.read(staged[1] / SIDE_CAR)
    chosen = baskets.select_branches(table, volume)
    assert set(reads["entries"]) == {n} and set(reads["branches"]) == {len(chosen)}
    if entries == 100:
        assert set(reads["needed_bytes"]) == {baskets.ranges(table, chosen, range(1000))[1]} and set(
            reads["baskets"]
        ) == {4 * len(chosen)}
    for i, number in enumerate(reads["read"]):
        assert reads["wire_bytes"][i] > reads["asked_bytes"][i] >= reads["needed_bytes"][i] > 0
        phases = sum(reads[k][i] for k in ("open_ns", "plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns"))
        assert 0 < phases <= reads["end_ns"][i] - reads["start_ns"][i]
        assert (reads["open_ns"][i] > 0) == (number == 0)
        assert min(reads[k][i] for k in ("plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns")) > 0
    assert result.engine["opening"]["requests"] == 3
    later = {(reads["asked_bytes"][i] - reads["needed_bytes"][i]) for i in range(1, len(reads["read"]))}
    assert gap != 0 or later <= {0}
    records.write_table(tmp_path / "ops.parquet", records.OPS, ops)
    records.write_table(tmp_path / "reads.parquet", records.READS, reads)
    secrets = [client.fs.key, client.fs.secret]
    assert not any(
        s in json.dumps([result.engine, result.connections, [c.detail for c in result.checks]]) for s in secrets
    )


def test_counts_stay_right_when_idle_connections_are_closed(make, proxy):
    client = make(proxy.url, entries=1, volume=1)
    client.last = client.counter.now()
    for number in range(4):
        client.reads.append(client._read(number))
        proxy.drop()
        time.sleep(0.1)
    result = client.result()
    assert not failed(result)
    assert result.connections["opened"] == proxy.connections > result.connections["max"]
    assert (sum(result.ops["requests"]), sum(result.ops["wire_bytes"])) == (proxy.requests, proxy.received)


@pytest.fixture
def short_grace(monkeypatch):
    """A grace of 20 % of the duration, however short that is."""
    monkeypatch.setattr("storelab.engines.common.selections.GRACE_S", 0.0)


def test_a_read_that_outlasts_the_grace_is_left_out(make, proxy, short_grace):
    client = make(proxy.url, entries=1, volume=1)
    one = client._read

    def stalling(number):
        if number == 1:
            proxy.flowing.clear()
        return one(number)

    client._read = stalling
    result, late = run(client)
    assert 0.38 < late < 1.0 and not failed(result), "the grace is 20 % of 2 s"
    assert result.reads["read"] == [0] and result.ops["error"] == [None], "it is no error"
    assert result.engine["abandoned"]["reads"] == 1 and result.engine["abandoned"]["requests"] > 0


def test_clients_draw_their_own_entries_and_repeat_them(make, staged):
    drawn = []
    for client in (make(staged[0].url, entries=0.1, client=c) for c in (0, 0, 1)):
        seen = []
        plan = client.reader.plan
        client.reader.plan = lambda entries, seen=seen, plan=plan: seen.append(tuple(entries.tolist())) or plan(entries)
        client.last = client.counter.now()
        for number in range(4):
            client._read(number)
        drawn.append(seen)
    assert drawn[0] == drawn[1] != drawn[2] and len(set(drawn[0])) > 1


def test_values_are_the_file_s(make, staged):
    """What is deserialised for drawn entries is what uproot reads from the local file."""
    import awkward as ak
    import uproot

    client = make(staged[0].url, entries=1)
    reader = client.reader
    reader.open()
    for seed in range(3):
        entries = baskets.select_entries(1000, 1, seed)
        rows, _, ranges = reader.plan(entries)
        got = dict(reader.arrays(rows, reader.decompress(rows, reader.transfer(ranges)), entries))
        with uproot.open(staged[1] / "s.root") as f:
            for name, branch in f[staged[2]["tree"]].iteritems(recursive=True):
                assert ak.array_equal(branch.array()[entries], ak.Array(got[name]), dtype_exact=False), name


def test_a_changed_byte_fails_the_check(make, proxy):
    client = make(proxy.url, key="bad")
    result = read(client, 2)
    assert failed(result) == {"reads", "crc32"} and not result.reads["client"]
    assert set(result.ops["error"]) == {"ChecksumMismatch"} and set(result.ops["bytes"]) == {0}
    assert (sum(result.ops["requests"]), sum(result.ops["wire_bytes"])) == (proxy.requests, proxy.received)


def test_another_file_than_staged_is_refused(make, staged, tmp_path):
    client = make(staged[0].url)
    client.reader.staged.size[5] += 1
    result = read(client, 2)
    assert failed(result) == {"reads", "side-car"} and set(result.ops["error"]) == {"SideCarMismatch"}


def test_a_missing_object_gives_errors_and_does_not_spin(make, proxy):
    result, late = run(make(proxy.url, key="nothing-here"), 1.0)
    n = len(result.ops["op"])
    assert failed(result) == {"reads"} and late < 1.0 and 1 <= n <= 20, "50 ms between two errors"
    assert set(zip(result.ops["status"], result.ops["error"], result.ops["requests"], strict=True)) == {
        (404, "NoSuchKey", 1)
    }
    assert sum(result.ops["wire_bytes"]) == proxy.received and result.engine["statuses"] == {"404": n}


def test_a_storm_of_errors_ends_at_the_limit(make, staged):
    with pytest.raises(LimitExceeded, match="operations failed"):
        run(make(staged[0].url, key="nothing-here", limits={"error_fraction": 0.01}), 6.0)


def test_no_one_listens(make):
    result, late = run(make("http://127.0.0.1:9"), 0.5)
    assert (
        set(zip(result.ops["status"], result.ops["error"], strict=True)) == {(0, "EndpointConnectionError")}
        and late < 1.0
    )


def test_a_silent_server_does_not_hold_the_client(make, short_grace):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        result, late = run(make(f"http://127.0.0.1:{server.getsockname()[1]}"), 0.5)
    assert (
        late < 1.0
        and result.ops["op"] == []
        and result.engine["abandoned"]["reads"] == 1
        and failed(result) == {"reads"}
    )


@pytest.mark.heavy
def test_connections_cut_in_flight_are_errors_and_reads_go_on(make, proxy):
    client = make(proxy.url, entries=1, volume=1, gap=0)
    one = client._read

    def cut(number):
        if number in range(1, 6):
            threading.Timer(0.05, proxy.drop).start()
        return one(number)

    client._read = cut
    result = read(client, 12)
    errors = [e for e in result.ops["error"] if e]
    assert errors and set(errors) <= {
        "ConnectionClosedError",
        "ClientPayloadError",
        "EndpointConnectionError",
        "ResponseStreamingError",
    }, set(errors)
    assert 0 in result.reads["read"] and not failed(result)
    assert len(result.reads["read"]) + len(errors) == len(result.ops["op"])


def test_no_credentials_is_the_user_s_mistake(make, staged, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setattr("storelab.engines.uproot.client.UprootClient.close", lambda self: None)
    with pytest.raises(UserError, match="no credentials"):
        make(staged[0].url)
