"""The workload `events` on real stores: scan and random navigation, caches of file objects, counts by a proxy."""

import numpy as np
import pytest
from staged_root import SIDE_CAR, failed, read, run

from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.workloads.staging import stage

pytestmark = pytest.mark.real
AHEAD = 300_000
RANDOM, READ_AHEAD = {"navigation": "random"}, {"cache": "readahead", "read_ahead": AHEAD}
PLANNED, ALL = {"engine": "planned"}, {"cache": "all"}
BLOCKS = {"cache": "blockcache", "read_ahead": AHEAD}
SMALL = {"volume_fraction": 0.5, "step": 20}

# Every pair of navigation, cache and engine is in one of these; the first of each engine are smoke tests.
SMOKES = [{}, PLANNED]
OTHERS = [
    READ_AHEAD | RANDOM,
    READ_AHEAD,
    BLOCKS | RANDOM,
    {"cache": "bytes", "read_ahead": AHEAD} | RANDOM,
    ALL | RANDOM,
    PLANNED | RANDOM | {"max_amplification": 3},
]


@pytest.mark.parametrize(
    "axes",
    [*SMOKES, *(pytest.param(axes, marks=pytest.mark.heavy) for axes in OTHERS)],
    ids=lambda a: "-".join(map(str, a.values())) or "default",
)
def test_counts_are_those_of_proxy(reader, proxy, staged, axes):
    client = reader(proxy.url, "events", SMALL | axes)
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
    """Return the sum over all steps except the one that opens the file, by event."""
    return sum(result.reads[column][1:]) / sum(result.reads["entries"][1:])


@pytest.mark.heavy
def test_read_ahead_helps_scan_and_harms_random_navigation(reader, staged):
    found = {}
    for navigation in ("scan", "random"):
        for cache in ({"cache": "none"}, READ_AHEAD):
            axes = SMALL | {"navigation": navigation, "step": 50} | cache
            one = found[navigation, cache["cache"]] = read(reader(staged[0].url, "events", axes), 20)  # a pass
            assert not failed(one)
        plain, ahead = found[navigation, "none"], found[navigation, "readahead"]
        assert per_event(ahead, "wire_bytes") > 3 * per_event(plain, "wire_bytes")
        assert per_event(ahead, "requests") < 0.5 * per_event(plain, "requests")
    scan, random = found["scan", "readahead"], found["random", "readahead"]
    assert per_event(random, "wire_bytes") > 5 * per_event(scan, "wire_bytes")
    reads = found["random", "none"].reads
    assert reads["asked_bytes"][1:] == reads["needed_bytes"][1:]


@pytest.mark.heavy
def test_pass_needs_every_basket_once(reader, staged):
    _, folder, facts = staged
    table = baskets.read(folder / SIDE_CAR)
    for engine, volume in (("fsspec", 1.0), ("planned", 100.0)):
        axes = {"engine": engine, "step": 70, "volume_fraction": volume}
        reads = read(reader(staged[0].url, "events", axes), 15).reads
        assert sum(reads["entries"]) == facts["entries"] and reads["entries"][-1] == facts["entries"] - 14 * 70
        rows, needed, _ = baskets.ranges(table, baskets.select_branches(table, volume), np.arange(facts["entries"]))
        assert sum(reads["needed_bytes"]) == needed and sum(reads["baskets"]) == len(rows), engine
        assert 0 in reads["requests"], "a step within the cluster of the last one sends no requests"


@pytest.mark.heavy
def test_pass_begins_with_empty_caches(reader, staged):
    """In two passes of four steps, the second fetches the same as the first; the file stays open."""
    for axes in (PLANNED, ALL, BLOCKS):
        reads = read(reader(staged[0].url, "events", {"step": 250, "volume_fraction": 0.5} | axes), 8).reads
        assert reads["needed_bytes"][:4] == reads["needed_bytes"][4:] and min(reads["needed_bytes"]) > 0
        assert [ns > 0 for ns in reads["open_ns"]] == [True] + [False] * 7
        asked = [sum(reads["asked_bytes"][:4]), sum(reads["asked_bytes"][4:])]
        if axes is ALL:
            assert asked == [staged[2]["bytes"]] * 2 and reads["requests"] == [1, 0, 0, 0] * 2
        elif axes is BLOCKS:
            assert 0.5 * asked[0] < asked[1] <= asked[0] and sum(reads["requests"][4:]) > 2
        else:
            assert asked[1] >= sum(reads["needed_bytes"][4:])


@pytest.mark.heavy
def test_wrong_files_and_steps_are_errors(reader, staged):
    url = staged[0].url
    result = read(reader(url, "events", PLANNED | {"step": 1000}, key="bad"), 2)
    assert failed(result) == {"reads", "crc32"} and set(result.ops["error"]) == {"ChecksumMismatch"}
    result, _ = run(reader(url, "events", {}, key="nothing-here"), 0.5)
    assert failed(result) == {"reads"} and len(set(result.ops["error"])) == 1
    with pytest.raises(UserError, match="a step of 1001 events is longer than the file, which has 1000"):
        reader(url, "events", {"step": 1001})


@pytest.mark.heavy
def test_steps_go_on_after_dropped_connections(reader, proxy):
    client = reader(proxy.url, "events", RANDOM | {"volume_fraction": 0.5, "step": 5})
    step = client._read
    client._read = lambda number: (proxy.drop() if number == 3 else None, step(number))[1]
    result = read(client, 12)
    assert result.reads["read"][:3] == [0, 1, 2] and len(result.reads["read"]) > 8 and not failed(result) - {"reads"}


SWEEP = {
    "workload": "events",
    "duration": "4 s",  # a step of the random job takes many requests
    "axes": {"clients": 2, "files": 2, "navigation": ["scan", "random"], "cache": "readahead", "read_ahead": "100 kB"},
}
PLANS = {"workload": "events", "duration": "2 s", "axes": {"clients": 2, "files": 2, "engine": "planned"}}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["seaweedfs", "nginx", "xrootd", "directory"])
def test_each_job_has_its_file_on_every_protocol(lab, port_block, tmp_path, kind):
    more = {"directory": {"path": str(tmp_path / "shared")}, "xrootd": {"subnet": "10.213.93.0/30"}}
    (tmp_path / "shared").mkdir()
    settings = {"kind": kind, **more.get(kind, {"port": port_block})}
    for point, record, rows in lab(settings, scan=SWEEP, planned=PLANS):
        assert {r["client"] for r in rows} == {0, 1} and {r["error"] for r in rows} == {None}
        objects = {(r["client"], r["object"]) for r in rows}
        assert len(objects) == 2 and len({name for _, name in objects}) == 2, "one file for each job"
        assert point.dataset["name"] == "root-S-2files" and stage.root_copies(point.dataset) == 2
        assert record["engine"]["name"] == point.axes["engine"]
        wire = [r["wire_bytes"] for r in rows]
        assert all(w is None for w in wire) if kind == "directory" else sum(wire) > 0
        assert sum(r["requests"] for r in rows) > 0
