"""The workload `events` on real stores: scan and random navigation, caches of fsspec's file objects, counts held against a proxy on the wire."""

from urllib.parse import urlsplit

import numpy as np
import pytest
from counting_proxy import CountingProxy
from staged_root import SIDE_CAR, failed, prepared, read, run, staged_root

from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.workloads.staging import stage

pytestmark = pytest.mark.real
BUCKET = "storelab-events"
AHEAD = 300_000


@pytest.fixture(scope="module")
def staged(seaweedfs, tmp_path_factory):
    with staged_root(seaweedfs, BUCKET, tmp_path_factory.mktemp("events")) as found:
        yield found


@pytest.fixture
def make(staged, seaweedfs, monkeypatch):
    """`make(url, key, **axes)`: a prepared client, closed at the end."""
    for name, value in seaweedfs.credentials().environ().items():
        monkeypatch.setenv(name, value)
    with prepared(BUCKET, *staged[1:]) as one:
        yield lambda url, key="good", client=0, **axes: one(url, "events", axes, key, client=client)


@pytest.fixture
def proxy(staged):
    at = urlsplit(staged[0].url)
    with CountingProxy(at.hostname, at.port) as running:
        yield running


LONG = [
    {"navigation": "random"},
    {"cache": "readahead", "read_ahead": AHEAD},
    {"cache": "bytes", "read_ahead": AHEAD, "navigation": "random"},
    {"cache": "all", "navigation": "random"},
    {"engine": "planned", "navigation": "random", "max_amplification": 3},
]
SETTINGS = [
    {},
    {"cache": "readahead", "read_ahead": AHEAD, "navigation": "random"},
    {"cache": "blockcache", "read_ahead": AHEAD, "navigation": "random"},
    {"engine": "planned"},
    *(pytest.param(axes, marks=pytest.mark.heavy) for axes in LONG),
]


@pytest.mark.parametrize("axes", SETTINGS, ids=lambda a: "-".join(map(str, a.values())) or "default")
def test_counts_are_the_proxy_s(make, proxy, staged, axes):
    client = make(proxy.url, volume_fraction=0.5, step=20, **axes)
    requests, received = proxy.requests, proxy.received
    result = read(client, 16)
    reads, ops = result.reads, result.ops
    assert not failed(result), result.checks
    assert len(reads["read"]) == 16 and ops["error"] == [None] * 16
    assert sum(ops["requests"]) == proxy.requests - requests
    assert sum(ops["wire_bytes"]) == proxy.received - received
    assert result.engine["connections_lost"] == 0 and set(reads["entries"]) == {20}
    if axes.get("cache") == "all":
        assert ops["requests"][0] == 1 and sum(ops["requests"]) == 1 and reads["asked_bytes"][0] == staged[2]["bytes"]


def per_event(result, column):
    """Sum over all steps but the one that opens the file, by event."""
    return sum(result.reads[column][1:]) / sum(result.reads["entries"][1:])


@pytest.mark.heavy
def test_read_ahead_helps_a_scan_and_harms_random_navigation(make, staged):
    found = {}
    for navigation in ("scan", "random"):
        for cache, ahead in (("none", 0), ("readahead", AHEAD)):
            axes = {"navigation": navigation, "cache": cache, "read_ahead": ahead, "volume_fraction": 0.5, "step": 50}
            found[navigation, cache] = read(make(staged[0].url, **axes), 20)  # a pass of the scan
            assert not failed(found[navigation, cache])
    for navigation in ("scan", "random"):
        plain, ahead = found[navigation, "none"], found[navigation, "readahead"]
        assert per_event(ahead, "wire_bytes") > 3 * per_event(plain, "wire_bytes")
        assert per_event(ahead, "requests") < 0.5 * per_event(plain, "requests")
    assert per_event(found["random", "readahead"], "wire_bytes") > 5 * per_event(
        found["scan", "readahead"], "wire_bytes"
    )
    assert found["random", "none"].reads["asked_bytes"][1:] == found["random", "none"].reads["needed_bytes"][1:]


@pytest.mark.parametrize("engine", ["fsspec", "planned"])
def test_a_pass_of_a_scan_needs_every_basket_once(make, staged, engine):
    _, folder, facts = staged
    volume = 1.0 if engine == "fsspec" else 100.0
    reads = read(make(staged[0].url, engine=engine, step=70, volume_fraction=volume), 15).reads
    assert sum(reads["entries"]) == facts["entries"] and reads["entries"][-1] == facts["entries"] - 14 * 70
    table = baskets.read(folder / SIDE_CAR)
    rows, needed, _ = baskets.ranges(table, baskets.select_branches(table, volume), np.arange(facts["entries"]))
    assert sum(reads["needed_bytes"]) == needed and sum(reads["baskets"]) == len(rows)
    assert 0 in reads["requests"], "a step within the cluster of the last one asks nothing"


@pytest.mark.parametrize(
    "axes", [{"engine": "planned"}, {"cache": "all"}, {"cache": "blockcache", "read_ahead": AHEAD}], ids=str
)
def test_a_pass_begins_with_empty_caches(make, staged, axes):
    """Two passes of four steps: the second fetches what the first did; the file is not opened again."""
    reads = read(make(staged[0].url, step=250, volume_fraction=0.5, **axes), 8).reads
    assert reads["needed_bytes"][:4] == reads["needed_bytes"][4:] and min(reads["needed_bytes"]) > 0
    assert [ns > 0 for ns in reads["open_ns"]] == [True] + [False] * 7
    asked = [sum(reads["asked_bytes"][:4]), sum(reads["asked_bytes"][4:])]
    if axes.get("cache") == "all":
        assert asked == [staged[2]["bytes"]] * 2 and reads["requests"] == [1, 0, 0, 0] * 2
    elif "cache" in axes:
        assert 0.5 * asked[0] < asked[1] <= asked[0] and sum(reads["requests"][4:]) > 2
    else:
        assert asked[1] >= sum(reads["needed_bytes"][4:])


def test_a_changed_byte_fails_the_check(make, staged):
    result = read(make(staged[0].url, key="bad", step=1000, engine="planned"), 2)
    assert failed(result) == {"reads", "crc32"} and set(result.ops["error"]) == {"ChecksumMismatch"}


def test_a_missing_object_is_an_error_and_a_step_larger_than_the_file_the_user_s(make, staged):
    result, late = run(make(staged[0].url, key="nothing-here"), 0.5)
    assert failed(result) == {"reads"} and len(set(result.ops["error"])) == 1 and late < 1.0
    with pytest.raises(UserError, match="1001 events are more than the file holds, 1000"):
        make(staged[0].url, step=1001)


def test_a_server_that_dies_between_two_read(make, proxy):
    client = make(proxy.url, volume_fraction=0.5, navigation="random", step=5)
    step = client._read

    def cut(number):
        if number == 3:
            proxy.drop()
        return step(number)

    client._read = cut
    result = read(client, 12)
    assert result.reads["read"][:3] == [0, 1, 2] and len(result.reads["read"]) > 8 and not failed(result) - {"reads"}


SWEEP = {
    "workload": "events",
    "duration": "4 s",  # a step of the random job takes many requests
    "axes": {"clients": 2, "files": 2, "navigation": ["scan", "random"], "cache": "readahead", "read_ahead": "100 kB"},
}
PLANNED = {"workload": "events", "duration": "2 s", "axes": {"clients": 2, "files": 2, "engine": "planned"}}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["seaweedfs", "nginx", "xrootd", "directory"])
def test_jobs_have_files_of_their_own_on_every_protocol(lab, port_block, tmp_path, kind):
    more = {"directory": {"path": str(tmp_path / "shared")}, "xrootd": {"subnet": "10.213.93.0/30"}}
    settings = {"kind": kind, **more.get(kind, {"port": port_block})}
    if kind == "directory":
        (tmp_path / "shared").mkdir()
    for point, record, rows in lab(settings, scan=SWEEP, planned=PLANNED):
        assert {r["client"] for r in rows} == {0, 1} and {r["error"] for r in rows} == {None}
        objects = {(r["client"], r["object"]) for r in rows}
        assert len(objects) == 2 and len({name for _, name in objects}) == 2, "one file for each job"
        assert point.dataset["name"] == "root-S-2files" and stage.root_copies(point.dataset) == 2
        assert record["engine"]["name"] == point.axes["engine"]
        wire = [r["wire_bytes"] for r in rows]
        assert all(w is None for w in wire) if kind == "directory" else sum(wire) > 0
        assert sum(r["requests"] for r in rows) > 0
