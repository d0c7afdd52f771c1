"""Cold reads, a header that is kept, connections and pieces: what the axes of the selection readers do, on real stores."""

from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from counting_proxy import CountingProxy
from staged_root import failed, prepared, read, staged_root

from storelab.host.page_cache import PageCache

pytestmark = pytest.mark.real
BUCKET = "storelab-access"


@pytest.fixture(scope="module")
def staged(seaweedfs, tmp_path_factory):
    with staged_root(seaweedfs, BUCKET, tmp_path_factory.mktemp("access")) as found:
        yield found


@pytest.fixture
def proxy(staged):
    at = urlsplit(staged[0].url)
    with CountingProxy(at.hostname, at.port) as running:
        yield running


@pytest.fixture
def make(staged, keys, proxy, monkeypatch):
    """`make(workload, **axes)`: a prepared client behind the proxy, closed at the end."""
    monkeypatch.setattr("storelab.engines.common.selections.GRACE", 5.0)
    with prepared(BUCKET, *staged[1:]) as one:
        yield lambda workload, **axes: one(proxy.url, workload, axes)


@pytest.mark.parametrize(
    ("workload", "axes"),
    [
        ("read_volume", {"engine": "uproot-s3fs"}),
        pytest.param("read_volume", {"engine": "planned"}, marks=pytest.mark.heavy),
        pytest.param("read_volume", {"engine": "planned", "transport": "http"}, marks=pytest.mark.heavy),
        ("replay", {}),
        pytest.param("replay", {"engine": "fsspec"}, marks=pytest.mark.heavy),
    ],
)
def test_cold_reads_open_anew_and_are_counted(make, proxy, workload, axes):
    one = make(workload, volume_fraction=2.0, access="cold", **axes)
    asked, seen, opened = proxy.requests, proxy.received, proxy.connections
    result = read(one, 4)
    reads = result.reads
    assert not failed(result), result.checks
    assert len(reads["read"]) == 4 and sum(reads["requests"]) == proxy.requests - asked
    told = [n for n in reads["wire_bytes"] if n is not None]
    if len(told) == 4:
        assert sum(told) == proxy.received - seen
    else:  # a connection that came and went between two looks, seldom: its read is not told, and no other
        assert one.lost > 0 and len(told) == 3 and sum(told) < proxy.received - seen
    assert proxy.connections - opened >= len(reads["read"]) - 1, "connections of its own for each read"
    if workload != "replay":
        assert min(reads["open_ns"]) > 0 and len(set(reads["requests"])) <= 3
    assert result.engine["cold"] == {
        "connections": "new for each read",
        "pages": {"dropped": 0, "why": "the store's data are not on disks of this machine"},
    }


@pytest.mark.heavy
def test_a_kept_header_costs_no_request(make, proxy, staged):
    new = read(make("read_volume", engine="planned", volume_fraction=2.0), 2)
    one = make("read_volume", engine="planned", volume_fraction=2.0, header="cached")
    asked = proxy.requests
    result = read(one, 2)
    assert not failed(result) and result.engine["opening"]["requests"] == 0 < new.engine["opening"]["requests"]
    assert (
        sum(result.ops["requests"]) == proxy.requests - asked
        and result.reads["requests"][0] == result.reads["requests"][1]
    )
    assert 0 < result.reads["open_ns"][0] < new.reads["open_ns"][0] / 2
    asked = proxy.requests
    again = make("read_volume", engine="planned", volume_fraction=2.0, header="cached")
    assert proxy.requests - asked == again.calibration["requests"], "the link is measured, the header is not read"
    one.kept.write_bytes(b"broken")
    third = make("read_volume", engine="planned", volume_fraction=2.0, header="cached")
    assert not failed(read(third, 2)) and one.kept.stat().st_size > 1000, "read again, and kept"


def test_connections_and_pieces(make, proxy):
    """Merged ranges are split, by as many connections as are allowed; the bytes are the same."""
    whole = read(make("read_entries", max_range_gap=10**6), 3)
    proxy_before = proxy.connections
    one = make("read_entries", max_range_gap=10**6, split=500_000, connections=3)
    asked, seen = proxy.requests, proxy.received
    parts = read(one, 3)
    assert not failed(whole) and not failed(parts), parts.checks
    assert (
        parts.reads["asked_bytes"][1] == whole.reads["asked_bytes"][1]
        and parts.reads["needed_bytes"][1] == whole.reads["needed_bytes"][1]
    )
    assert parts.reads["requests"][1] == -(-parts.reads["asked_bytes"][1] // 500_000) > whole.reads["requests"][1]
    assert (
        sum(parts.ops["requests"]) == proxy.requests - asked and sum(parts.ops["wire_bytes"]) == proxy.received - seen
    )
    assert (
        proxy.connections - proxy_before
        == 3
        == parts.connections["max"]
        == parts.engine["settings"]["max_pool_connections"]
    )


def test_pages_are_dropped(tmp_path):
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
        pytest.skip("this file system keeps pages whatever it is told")


@pytest.mark.parametrize("kind", ["directory", pytest.param("seaweedfs", marks=pytest.mark.heavy)])
def test_records_tell_what_is_cold(lab, tmp_path, port_block, kind):
    (tmp_path / "data").mkdir()
    settings = (
        {"kind": kind, "path": str(tmp_path / "data")} if kind == "directory" else {"kind": kind, "port": port_block}
    )
    axes = {"engine": "planned", "volume_fraction": 5.0, "access": "cold", "header": "cached"}
    ((point, record, _),) = lab(settings, cold={"workload": "read_volume", "axes": axes})
    folder = tmp_path / "results" / "lab" / "raw" / point.key
    reads = [r for table in folder.glob("reads.*.parquet") for r in pq.read_table(table).to_pylist()]
    pages = record["clients"][0]["engine"]["cold"]["pages"]
    assert len(reads) > 2 and min(r["open_ns"] for r in reads) > 0 and pages["dropped"] >= len(reads)
    assert 0 <= pages["still_cached"] <= 1 and "access~cold_header~cached" in point.key
