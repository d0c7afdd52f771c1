"""Edges of the parts that measure and read: waiting, files for good, baskets with a tail, names by their path, plans."""

import hashlib
import itertools
import math
import os
import re
import socket
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from memory_transport import Memory
from paths import ROOT
from range_server import range_server

from storelab.analysis.statistics import ratios
from storelab.core import axes, clock, config, plan, records
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets.root import baskets, decode, pages, reader, steps
from storelab.datasets.root.header import COLUMNS, Header
from storelab.engines.common import bins, selections, wire
from storelab.engines.common.wire import Counts
from storelab.engines.s5cmd import output
from storelab.gang import clocks
from storelab.host import monitor
from storelab.measure import plan_file
from storelab.readplan import HttpTransport, choose, link, source
from storelab.readplan.transports import WrongAnswer
from storelab.workloads import WORKLOADS
from storelab.workloads.calibrate import local_copies


def test_between_two_looks_there_is_a_pause(monkeypatch):
    """A clock of the test's own: it moves by what is slept, and by 1 ms for each look."""
    now, slept, looks = [0.0], [], itertools.count(1)

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def look():
        now[0] += 0.001
        return next(looks) >= 4

    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert clock.wait_for(look, 10, 0.25) is True and slept == [0.25] * 3
    slept.clear()
    assert clock.wait_for(lambda: (), 1, 0.25) == () and slept == [0.25] * 4, "until a second is over"


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("x")
    done, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(str(Path(f"/proc/self/fd/{fd}").readlink())) or fsync(fd))
    monkeypatch.setattr(os, "replace", lambda a, b: done.append("replace") or replace(a, b))
    records.move_in(tmp_path / "a", tmp_path / "b")
    assert done == [str(tmp_path / "a"), "replace"] and (tmp_path / "b").read_text() == "x"


def test_side_cars_are_packed(tmp_path):
    """Zeros shrink to next to nothing; the codec is the one of the records."""
    n = 50_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, "i4")), ["b"])
    table = pa.table({"branch": column} | {name: np.zeros(n, "i8") for name in COLUMNS[1:]})
    baskets.write(table, tmp_path / "side.parquet")
    records.write_table(tmp_path / "ops.parquet", {"count": "int64"}, {"count": [1] * 100})
    codecs = {
        pq.ParquetFile(tmp_path / f).metadata.row_group(0).column(0).compression
        for f in ("side.parquet", "ops.parquet")
    }
    assert codecs == {"ZSTD"}


def test_a_basket_with_bytes_behind_its_offsets():
    """ROOT's offsets are whole numbers of four bytes; one to three bytes behind them belong to none."""
    values, key = b"abcdefg", 60
    for tail in range(4):
        told = struct.pack(">4i", 3, key, key + 3, 0) + b"\0" * tail
        body = values + told
        head = struct.pack(">iHiIHH", key + len(body), 4, len(body), 0, key, 1)
        end = struct.pack(">Hiiii", 3, 32000, 1000, 2, key + len(values)) + b"\0"
        data = np.frombuffer(head + bytes(key - len(head) - len(end)) + end + body, np.uint8)
        content = decode.unpack(data)
        assert content.offsets.tolist() == [0, 3, 7] and content.values.tobytes() == values and content.entries == 2


def branch(seek):
    members = {
        "fBasketSeek": [seek],
        "fBasketBytes": [10],
        "fBasketEntry": [0, 5],
        "fWriteBasket": 1,
        "fEntryNumber": 5,
    }
    return SimpleNamespace(member=members.__getitem__, num_entries=5, embedded_baskets=[])


def test_branches_of_one_name_below_two_others_are_two():
    """As uproot names them: `x` below `a` and below `b`; by their full path they are told apart."""

    class Tree:
        def iteritems(self, recursive=False, full_paths=False):
            found = {"a/x": 100, "b/x": 200} if recursive else {}
            return [(path if full_paths else path.rpartition("/")[2], branch(seek)) for path, seek in found.items()]

    found = baskets.Baskets.from_tree(Tree())
    assert found.names == ["a/x", "b/x"] and found.offset.tolist() == [100, 200] and found.entry_stop.tolist() == [5, 5]


def test_axes_that_a_workload_lacks_stand_at_their_default():
    """A deployment is the same whether a workload has the axis or not: what it measures shares the blocks of the others."""
    every = {a.name: a.default for a in axes.DEPLOYMENT}
    full, bare = (Point("s", "get", values, 1, "k", "x", 1, 1) for values in (every | {"clients": 1}, {"clients": 1}))
    assert plan.deployment(full) == plan.deployment(bare)
    for axis in axes.DEPLOYMENT:
        other = Point("s", "get", every | {axis.name: "other"}, 1, "k", "x", 1, 1)
        assert plan.deployment(other) != plan.deployment(full), axis.name
    assert plan.deployment(Point("t", "get", every, 1, "k", "x", 1, 1)) != plan.deployment(full)


def test_axes_with_choices_take_no_other_word():
    """Of every workload: each axis of words that names its values in its help takes these, and no other."""
    seen = set()
    for workload in WORKLOADS.values():
        for axis in workload.axes:
            if axis.kind == "text" and axis.choices:
                assert [axis.parse(c, "here") for c in axis.choices] == list(axis.choices)
                with pytest.raises(UserError, match="is not known"):
                    axis.parse("something else", "here")
                seen.add(axis.name)
    assert {
        "engine",
        "balance",
        "payload",
        "merge",
        "navigation",
        "cache",
        "access",
        "codec",
        "scheme",
        "target",
        "operation",
        "phase",
    } <= seen


def test_pages_are_forgotten(tmp_path):
    """The last cluster is kept, until the reader is told to forget: then its pages are missing as before the first step."""
    path = tmp_path / "tuple.root"
    with uproot.recreate(path) as file:
        made = file.mkrntuple("events", {"x": np.arange(10.0)})
        made.extend({"x": np.arange(20.0)})
    with uproot.open(path) as file:
        known = pages.Pages.of(file["events"])
        reader = steps.PageSteps(known, ["x"])
        every, missing = reader.rows(25, 30)
        assert every.tolist() == missing.tolist() and len(every)
        whole = np.fromfile(path, np.uint8)
        places = zip(known.layout.offset[missing], known.layout.size[missing], strict=True)
        reader.unpack(missing, [whole[o : o + s] for o, s in places])
        assert reader.arrays(every, 25, 30) == 5 and not len(reader.rows(25, 30)[1])
        reader.forget()
        assert reader.rows(25, 30)[1].tolist() == missing.tolist()


# What was measured with other settings


def measured(tmp_path, change):
    """The configuration and points of a campaign of which one point is measured, its plan changed since."""
    told = {"campaign": "x", "name": "x", "use_stores": ["a"], "repetitions": 1, "calibrate": False}
    told |= {"stores": {"a": {"kind": "seaweedfs"}}, "results": str(tmp_path), "sweeps": {"up": {"workload": "put"}}}
    settings = config.Config.model_validate(told)
    points = plan.make(settings, WORKLOADS)
    then = records.as_json(plan_file.current(settings, points, WORKLOADS))
    change(then)
    records.write_json(settings.raw / "plan.json", then)
    (settings.raw / points[0].key).mkdir(parents=True)
    (settings.raw / points[0].key / "run.json").write_text("{}")
    return settings, points


@pytest.mark.parametrize("changes", [0, 1, 2, 3])
def test_the_first_difference_is_told_with_how_many_more(tmp_path, changes):
    fixed = {"duration_ns": 1, "warm_up_ns": 2, "data_seed": 3}

    def change(then):
        then["points"][0]["fixed"] |= dict(list(fixed.items())[:changes])

    settings, points = measured(tmp_path, change)
    found = plan_file.differences(settings, points)
    assert len(found) == changes
    if not changes:
        plan_file.refuse_differences(settings, points)
        return
    with pytest.raises(UserError) as refused:
        plan_file.refuse_differences(settings, points)
    more = ["", " (and 1 more)", " (and 2 more)"][changes - 1]
    assert refused.value.problem == f"its records were measured with other settings: {found[0]}{more}"


def test_a_plan_that_does_not_know_the_store_had_it_at_its_defaults(tmp_path):
    settings, points = measured(tmp_path, lambda then: then["stores"].clear())
    assert plan_file.differences(settings, points) == []


def test_addresses_and_ports_may_change(tmp_path):
    def change(then):
        then["stores"]["a"] |= {"port": 12345, "address": "10.0.0.1", "directory": "/elsewhere"}

    settings, points = measured(tmp_path, change)
    assert plan_file.differences(settings, points) == []
    plan_file.write(settings, points, WORKLOADS)
    assert plan_file.up_to_date(settings, points, WORKLOADS), "the plan says what is used now"


def test_every_column_of_the_records_is_explained():
    page = (ROOT / "docs" / "records.md").read_text()
    row = next(line for line in page.splitlines() if "`open_ns` … `deserialise_ns`" in line)
    phases = {f"{word}_ns" for word in re.findall(r"\w+", row.rpartition("each phase:")[2])}
    others = [kinds for name, kinds in records.TABLES.items() if name != "monitor"]  # that has a page of its own
    for kinds in (records.OPS, records.READS, *others):
        assert [name for name in kinds if f"`{name}`" not in page and name not in phases] == []


class Clocked:
    """A transport whose time is its own: a request of few bytes takes 10 ms, each further range in it 1 ms, each byte 1 us.

    ranges: how many share a request; every second request in flight begins 2 ms later."""

    def __init__(self, ranges=1, parallel=4, slow=()):
        self.parallel, self.ranges, self.now, self.extra, self.requests, self.asked = parallel, ranges, 0.0, 0, 0, []
        self.slow, self.calls = slow, 0

    def fetch(self, starts, stops):
        self.asked.append((list(starts), list(stops)))
        count, self.calls = -(-len(starts) // self.ranges), self.calls + 1
        self.requests += count
        self.extra += 90 * len(starts) * (self.ranges > 1)
        rounds = -(-count // self.parallel)
        self.now += (
            0.010 * rounds
            + 0.001 * (len(starts) - count)
            + 1e-6 * sum(b - a for a, b in zip(starts, stops, strict=True))
        )
        self.now += 5.0 if self.calls in self.slow else 0

    def clock(self):
        return self.now


def test_one_slow_answer_is_no_round_trip():
    """Seven requests one by one, the median counts: three slow ones (the 2nd to the 8th call) change nothing, four do."""
    quiet, some, most = (
        link.measure(one := Clocked(slow=slow), 10**8, one.clock).rtt_s for slow in ((), (2, 4, 8), (2, 4, 6, 8))
    )
    assert [quiet, some] == pytest.approx([0.010 + 64e-6] * 2) and most == pytest.approx(5 + quiet)


def test_several_ranges_in_a_request_are_far_apart():
    """In a small object as many as have room: 1200 bytes from begin to begin."""
    for size, ranges in ((100_000, 100), (10**6, 3), (3001, 100)):
        one = Clocked(ranges)
        if size < 4096:
            with pytest.raises(ValueError, match="too small"):
                link.measure(one, size, one.clock)
            continue
        found = link.measure(one, size, one.clock)
        together = [starts for starts, _ in one.asked[-3:]]
        assert {len(t) for t in together} == {min(4 * ranges, size // 1200)} and one.ranges == ranges == found.ranges
        for starts in together:
            assert min(b - a for a, b in itertools.pairwise(starts)) >= 1200 and starts[-1] + 64 <= size
        assert found.part_bytes == 90


def test_the_order_does_not_hang_on_how_the_sweeps_are_written():
    """The same points, given in any order, are measured in one order: it follows from the seed and the keys alone."""
    sweeps = {f"s{n}": {"workload": "get", "axes": {"object_size": f"{n} kB", "clients": [1, 2]}} for n in range(1, 6)}
    told = {"campaign": "x", "name": "x", "use_stores": ["a"], "repetitions": 2, "stores": {"a": {"kind": "seaweedfs"}}}
    one, other = (
        [p.key for p in plan.make(config.Config.model_validate(told | {"sweeps": dict(items)}), WORKLOADS)]
        for items in (sweeps.items(), reversed(sweeps.items()))
    )
    assert one == other and len(one) > 40
    seeded = [p.key for p in plan.make(config.Config.model_validate(told | {"sweeps": sweeps, "seed": 7}), WORKLOADS)]
    assert seeded != one and sorted(seeded) == sorted(one)


def test_pages_that_many_branches_share_are_of_the_first():
    """40 branches of three clusters each, whose baskets lie at the same three places."""
    n, clusters = 40, 3
    code, number = np.repeat(np.arange(n), clusters), np.tile(np.arange(clusters), n)
    names = [f"b{i:02d}" for i in range(n)]
    b = baskets.Baskets(
        names, code, number, number * 10, number * 10 + 10, 1000 - 100 * number, np.full(n * clusters, 7)
    )
    rows, needed, found = baskets.ranges(b, names, np.arange(30))
    assert rows.tolist() == [2, 1, 0] and needed == 21 and found == [(800, 7), (900, 7), (1000, 7)]


def test_a_coordinator_that_is_silent_is_asked_three_times(monkeypatch):
    monkeypatch.setattr(clocks, "WAIT_S", 0.01)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert clocks._ask(*silent.getsockname()) is None
        silent.setblocking(False)
        asked = []
        with pytest.raises(BlockingIOError):
            while True:
                asked.append(silent.recv(64))
    assert len(asked) == len(set(asked)) == 3


def test_finding_processes_leaves_no_file_open():
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    one, before = monitor.Monitor({"me": os.getpid()}, dict, 0), count()
    one._find()
    assert count() == before and os.getpid() in one._born


@pytest.mark.parametrize("less", [0, 1])
def test_a_link_is_measured_where_there_are_enough_ranges(less):
    data = bytes(range(256)) * 4000
    one = source.PlannedSource("x", transport=Memory(data), num_bytes=len(data))
    begins = np.arange(one.WORTH - less) * 5000
    found = one.requests_for(np.column_stack([begins, begins + 10]))
    assert (one.link is None) == bool(less) and found.needed_bytes == 10 * len(begins)


def test_a_higher_speed_is_faster_and_a_longer_latency_slower():
    assert ratios.verdict(1.1, 1.2) == ratios.verdict(1.1, 1.2, False) == ratios.verdict(0.8, 0.9, True) == "faster"
    assert ratios.verdict(0.8, 0.9) == ratios.verdict(1.1, 1.2, True) == "slower"
    assert {ratios.verdict(*i) for i in ((1.0, 1.2), (0.9, 1.0), (0.9, 1.1), (math.nan, math.nan))} == {
        ratios.CANNOT_TELL
    }
    assert ratios.ratio([10, 11, 12, 13], [20, 21, 22, 23]).verdict == "faster"


def test_one_range_asked_of_a_source_is_counted():
    data = bytes(range(256)) * 20
    one = source.PlannedSource("x", transport=Memory(data), num_bytes=len(data))
    assert bytes(one.chunk(100, 110).raw_data) == data[100:110] and one.num_requested_bytes == 10
    assert (one.num_requests, one.num_requested_chunks) == (1, 1)
    one.chunk(5, 8)
    assert (one.num_requested_bytes, one.num_requests, one.num_requested_chunks) == (13, 2, 2)


class Opens(selections.SelectionClient):
    """A client whose openings take another number of requests each time."""

    connect = fresh = selection = None

    def __init__(self):
        self.opening, self.sent, self.is_open = None, 0, False

    def open_file(self):
        self.sent += 3 if not self.sent else 5

    def counts(self):
        return Counts(requests=self.sent, asked_bytes=10 * self.sent)


def test_the_first_opening_is_the_one_that_is_told():
    Opens.__abstractmethods__ = frozenset()
    one = Opens()
    assert one._open().requests == 3 and one.is_open
    assert one._open().requests == 5
    assert (one.opening["requests"], one.opening["asked_bytes"]) == (3, 30)


def test_an_answer_that_is_not_wanted_spoils_no_later_one():
    data = np.random.default_rng(1).bytes(3_000_000)
    with range_server(data) as server:
        one = HttpTransport(f"http://127.0.0.1:{server.server_port}/o", parallel=1)
        for _ in range(3):
            server.mode = "whole"
            with pytest.raises(WrongAnswer):
                one.fetch([0, 5000], [10, 5010])
            server.mode = "right"
            assert [bytes(p) for p in one.fetch([0, 5000], [10, 5010])] == [data[:10], data[5000:5010]]


def test_batches_break_where_so_many_bytes_are_passed():
    """Sizes of 40 in batches of 100: by the running sum 40, 80 | 120, 160 | 200, …"""
    size = np.full(7, 40)
    layout = baskets.Baskets(["x"], *(np.zeros(7, "i8"),) * 5, size)
    one = reader.SelectionReader(Header("t", 7, layout, [None], {}), None, None, batch=100)
    found = [part.tolist() for part in one._batches(np.arange(7))]
    by_sum = [[i for i in range(7) if 40 * (i + 1) // 100 == n] for n in range(3)]
    assert found == by_sum == [[0, 1], [2, 3], [4, 5, 6]]


def test_a_basket_at_the_begin_of_the_file_is_not_of_the_header():
    """Offset 0 is a place; below it lie those that the header holds."""
    columns = [np.array(c) for c in ([0, 0, 0], [0, 1, 2], [0, 5, 8], [5, 8, 9], [0, 70, -1], [70, 30, 9])]
    one = steps.StepReader(Header("t", 9, baskets.Baskets(["x"], *columns), [None], {}), ["x"], None)
    every, missing = one.rows(0, 9)
    assert sorted(every.tolist()) == [0, 1, 2] and sorted(missing.tolist()) == [0, 1]


def test_operations_that_were_cut_off_stand_between_failed_ones():
    """Of s5cmd's messages each that tells of a failure counts, whatever stands before it."""
    said = ["InternalError: status code: 500", "context canceled", "RequestCanceled: x", "SlowDown: status code: 503"]
    stderr = [(stamp, f'{{"error": "{text}"}}\n'.encode()) for stamp, text in enumerate(said, 1)]
    ops = output.parse(0, "GET", 10, [], stderr).ops
    assert ops["end_ns"] == [1, 4] and ops["status"] == [500, 503] and None not in ops["error"]


def test_files_of_a_point_are_told_with_their_sums(tmp_path):
    (tmp_path / "ops.0.parquet").write_bytes(b"abc")
    (tmp_path / "run.json").write_text("{}")
    told = records.file_entries(sorted(tmp_path.glob("*.parquet")))
    assert told == {"ops.0.parquet": {"sha256": hashlib.sha256(b"abc").hexdigest(), "bytes": 3}}


def test_times_of_calibrations_are_whole_nanoseconds():
    """A quarter is warm-up."""
    told = {"campaign": "x", "name": "x", "use_stores": ["a"], "repetitions": 1, "stores": {"a": {"kind": "seaweedfs"}}}
    sweeps = {"up": {"workload": "put", "axes": {"object_size": ["4 kB", "333333333 B"], "clients": [1, 3]}}}
    for p in plan.make(config.Config.model_validate(told | {"sweeps": sweeps}), WORKLOADS):
        if p.workload == "calibrate":
            assert all(type(p.fixed[name]) is int for name in ("duration_ns", "warm_up_ns"))
            assert abs(4 * p.fixed["warm_up_ns"] - p.fixed["duration_ns"]) <= 2


@pytest.mark.parametrize("operation", ["write", "read"])
def test_files_that_are_copied_are_closed(tmp_path, operation):
    axes = {"object_size": 1000, "workers": 1, "target": "tmpfs"}
    where = {"scratch": tmp_path / "scratch", "attempt": "a", "client": 0, "extra": {"disk": str(tmp_path / "disk")}}
    client = local_copies.CLIENTS[operation](SimpleNamespace(point=SimpleNamespace(axes=axes), **where))
    client.prepare()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        client.operations[0]()
    assert len(list(Path("/proc/self/fd").iterdir())) == before and client.moved()
    client.close()


def test_a_counted_socket_closes():
    one = wire.Wire()
    sock = one.factory((socket.AF_INET, socket.SOCK_STREAM, 0, "", None))
    assert sock.fileno() >= 0 and (one.open, one.opened) == (1, 1)
    sock.close()
    assert sock.fileno() == -1 and (one.open, one.opened) == (0, 1)


@pytest.mark.parametrize("operation", ["write", "read"])
def test_files_that_move_in_parts_are_whole(tmp_path, monkeypatch, operation):
    """A kernel that writes, or reads, 300 bytes at a time."""
    axes = {"object_size": 1000, "workers": 1, "target": "tmpfs"}
    where = {"scratch": tmp_path / "scratch", "attempt": "a", "client": 0, "extra": {"disk": str(tmp_path / "disk")}}
    client = local_copies.CLIENTS[operation](SimpleNamespace(point=SimpleNamespace(axes=axes), **where))
    client.prepare()
    write, readv = os.write, os.readv
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:300]))
    monkeypatch.setattr(os, "readv", lambda fd, buffers: readv(fd, [buffers[0][:300]]))
    for buffer in client.buffers:
        buffer[:] = bytes(1000)
    client.operations[0]()
    monkeypatch.undo()
    assert client.moved() and client.file(0).read_bytes() == client.body
    client.close()


def test_a_long_run_is_cut_at_the_nearest_begin_of_a_range():
    """By trying all: of the begins, the one nearest to the even cut, if it is within a quarter of a part."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        stop, piece = int(rng.integers(50, 400)), int(rng.integers(20, 60))
        begins = np.unique(np.append(rng.integers(0, stop, rng.integers(0, 30)), 0))
        count, expected = math.ceil(stop / piece), []
        for k in range(1, count):
            even = k * stop // count
            near = [b for b in begins.tolist() if abs(b - even) <= stop // count // 4]
            expected.append(min(near, key=lambda b, even=even: (abs(b - even), b)) if near else even)
        starts, stops = choose.split(np.array([0]), np.array([stop]), np.array([count]), begins)
        assert starts.tolist() == [0, *expected] and stops.tolist() == [*expected, stop], (stop, piece, begins)


@pytest.mark.parametrize(("seconds", "allowed"), [(10, 15), (25, 30), (100, 120)])
def test_a_read_in_flight_may_end_a_fifth_of_the_window_later(seconds, allowed):
    """And five seconds at least. The window lies long ago: nothing is read."""
    Opens.__abstractmethods__ = frozenset()
    one = Opens()
    one.run(10**18, 10**18 + seconds * 10**9)
    assert one.latest_ns - 10**18 == allowed * 10**9


def test_no_operations_are_no_bins():
    for sums in (None, {"bytes": [], "requests": []}):
        found = bins.binned(0, [], [], "GET", sums=sums)
        assert set(found) >= {"op", "count", "end_ns", "latency_hist", *(sums or {})} and not any(found.values())


def test_an_answer_that_breaks_off_is_not_asked_for_again():
    """A second try would hide the first, and its time."""
    with range_server(bytes(30_000)) as server:
        server.mode = "dies"
        one = HttpTransport(f"http://127.0.0.1:{server.server_port}/o", parallel=1)
        with pytest.raises(Exception, match=r"IncompleteRead|Connection broken"):
            one.fetch([0, 5000, 10000], [10, 5010, 10010])
        assert len(server.asked) == 1 == one.requests


def test_nothing_is_spent_before_something_is():
    spent = reader.Spent()
    assert not any(vars(spent).values())
