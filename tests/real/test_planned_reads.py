"""The engine `planned` and the workload `replay` on a real store, their counts held against a proxy that counts on the wire."""

import json
from urllib.parse import urlsplit

import pytest
from counting_proxy import CountingProxy
from staged_root import SIDE_CAR, failed, prepared, read, run, staged_root

from storelab.core import records
from storelab.core.errors import UserError
from storelab.datasets.root import baskets

pytestmark = pytest.mark.real
BUCKET = "storelab-planned-reads"


@pytest.fixture(scope="module")
def staged(seaweedfs, tmp_path_factory):
    with staged_root(seaweedfs, BUCKET, tmp_path_factory.mktemp("planned")) as found:
        yield found


@pytest.fixture
def make(staged, seaweedfs, monkeypatch):
    """`make(url, workload, key, **axes)`: a prepared client, closed at the end."""
    for name, value in seaweedfs.credentials().environ().items():
        monkeypatch.setenv(name, value)
    with prepared(BUCKET, *staged[1:]) as one:

        def planned(url, workload="read_entries", key="good", **axes):
            return one(url, workload, ({} if workload == "replay" else {"engine": "planned"}) | axes, key)

        yield planned


@pytest.fixture
def proxy(staged):
    at = urlsplit(staged[0].url)
    with CountingProxy(at.hostname, at.port) as running:
        yield running


@pytest.mark.parametrize(
    ("workload", "axes"),
    [
        ("read_entries", {"entry_fraction": 0.1}),
        ("read_volume", {"volume_fraction": 1.0, "thrift": 20}),
        ("replay", {"volume_fraction": 1.0, "max_amplification": 4}),
        *(
            pytest.param(workload, axes, marks=pytest.mark.heavy)
            for workload, axes in (
                ("read_entries", {}),
                ("replay", {"entry_fraction": 1.0, "volume_fraction": 50.0}),
                ("replay", {"volume_fraction": 1.0, "merge": "gap", "max_range_gap": 4096}),
                ("replay", {"volume_fraction": 1.0, "merge": "gap", "max_range_gap": 4096, "engine": "fsspec"}),
            )
        ),
    ],
)
def test_counts_are_the_proxy_s(make, proxy, staged, tmp_path, monkeypatch, workload, axes):
    monkeypatch.setattr(
        "storelab.engines.common.selections.GRACE", 5.0
    )  # no read is left out, however slow this machine
    client = make(proxy.url, workload, **axes)
    asked_before, seen_before = proxy.requests, proxy.received
    assert client.calibration["requests"] == asked_before > 600
    result = read(client, 4)
    reads, ops = result.reads, result.ops
    assert not failed(result), result.checks
    assert reads["read"] and ops["error"] == [None] * len(reads["read"])
    assert sum(ops["requests"]) == proxy.requests - asked_before
    assert sum(ops["wire_bytes"]) == proxy.received - seen_before
    assert result.connections["opened"] <= proxy.connections and result.engine["connections_lost"] == 0
    table = baskets.read(staged[1] / SIDE_CAR)
    chosen = baskets.select_branches(table, axes.get("volume_fraction", 100.0))
    assert set(reads["branches"]) == {len(chosen)}
    for i, number in enumerate(reads["read"]):
        assert reads["wire_bytes"][i] > reads["asked_bytes"][i] >= reads["needed_bytes"][i] > 0
        assert (reads["open_ns"][i] > 0) == (number == 0 and workload != "replay")
        decoded = [reads[k][i] > 0 for k in ("decompress_ns", "deserialise_ns")]
        assert decoded == [workload != "replay"] * 2 and min(reads["plan_ns"][i], reads["transfer_ns"][i]) > 0
    if bound := axes.get("max_amplification"):
        assert all(
            w <= 1.1 * bound * n for w, n in zip(reads["wire_bytes"][1:], reads["needed_bytes"][1:], strict=True)
        )
    records.write_table(tmp_path / "ops.parquet", records.OPS, ops)
    records.write_table(tmp_path / "reads.parquet", records.READS, reads)
    text = json.dumps([result.engine, result.connections])
    assert result.engine["link"]["rtt_s"] > 0 and client.job.endpoint.url not in text


@pytest.mark.parametrize("workload", ["read_entries", "replay"])
def test_a_changed_byte_fails_the_check(make, staged, workload):
    result = read(make(staged[0].url, workload, key="bad"), 2)
    assert (
        failed(result) == {"reads", "crc32"}
        and set(result.ops["error"]) == {"ChecksumMismatch"}
        and set(result.ops["bytes"]) == {0}
    )


def test_another_file_than_staged_is_refused(make, staged):
    client = make(staged[0].url)
    client.staged.size[5] += 1
    result = read(client, 2)
    assert failed(result) == {"reads", "side-car"} and set(result.ops["error"]) == {"SideCarMismatch"}


@pytest.mark.parametrize("workload", ["read_entries", "replay"])
def test_a_missing_object_and_a_dead_server_are_errors(make, staged, workload):
    result, late = run(make(staged[0].url, workload, key="nothing-here"), 0.5)
    assert failed(result) == {"reads"} and set(result.ops["status"]) == {404} and late < 1.0
    assert 1 <= len(result.ops["op"]) <= 12, "50 ms between two errors"
    result, late = run(make("http://127.0.0.1:9", workload), 0.5)
    assert set(result.ops["error"]) == {"ConnectionRefused"} and late < 1.0


def test_a_server_that_dies_between_two_reads(make, proxy):
    client = make(proxy.url, "replay", volume_fraction=1.0)
    one = client._read

    def cut(number):
        if number == 2:
            proxy.drop()
        return one(number)

    client._read = cut
    result = read(client, 6)
    # The library opens new connections; what the closed ones brought last is not known, so wire bytes are not told from there on.
    assert result.reads["read"][:2] == [0, 1] and not failed(result) - {"reads"}
    assert result.reads["wire_bytes"][-1] is None or result.engine["connections_lost"] == 0


def test_no_credentials_is_the_user_s_mistake(make, staged, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setattr("storelab.engines.common.selections.SelectionClient.close", lambda self: None)
    with pytest.raises(UserError, match="no credentials"):
        make(staged[0].url)
