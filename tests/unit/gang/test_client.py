"""Parts of a client that make or judge a number: limits, shares, what a program printed, sums of reads, local copies, clocks."""

import json
import random
import threading
import time
import zlib
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.datasets.root import baskets
from storelab.engines.common import selections
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.common.shares import Staged, staged, to_delete
from storelab.engines.common.tally import Done, Tally
from storelab.engines.common.wire import Counts
from storelab.engines.obstore.rewrite import ObstoreRewrite
from storelab.engines.s5cmd import output
from storelab.gang import clocks
from storelab.measure import record
from storelab.workloads.calibrate import local_copies

S, MS = 10**9, 10**6
PROPERTY = settings(max_examples=80, deadline=None, database=None, derandomize=True)


# Limits of a production store


def broken(limits, clients, seen):
    """(which limit broke, at which look), by the definition: bytes and requests over spans of at least 1 s, from the last one judged."""
    last = None
    for i, (now, size, requests, good, bad) in enumerate(seen):
        every = good + bad
        if limits["error_fraction"] is not None and every >= 50 and bad >= 5 and bad / every > limits["error_fraction"]:
            return "error_fraction", i
        if limits["room_bytes"] is not None and size * clients > limits["room_bytes"]:
            return "room", i
        if last is None:
            last = now, size, requests
        elif now - last[0] >= S:
            for name, value in (("throughput", size - last[1]), ("requests_per_s", requests - last[2])):
                if limits[name] and value * S * clients > limits[name] * (now - last[0]):
                    return name, i
            last = now, size, requests
    return None


looks_ = st.lists(st.tuples(st.sampled_from([S // 3, S - 1, S, 2 * S]), st.integers(0, 300), st.integers(0, 30), st.integers(0, 60), st.integers(0, 6)), min_size=1, max_size=8)  # fmt: skip


@PROPERTY
@given(looks_, st.sampled_from([1, 2, 4]), st.sampled_from([None, 0, 400]), st.sampled_from([None, 40]), st.sampled_from([None, 0.1]), st.sampled_from([None, 0, 600]))  # fmt: skip
def test_limits_are_held_over_spans_of_a_second(steps, clients, throughput, requests, errors, room):
    limits = {"throughput": throughput, "requests_per_s": requests, "error_fraction": errors, "room_bytes": room}
    seen = [tuple(map(int, row)) for row in np.cumsum(np.array(steps), axis=0)]
    guard = Guard(limits, clients)
    assert guard.active == (bool(throughput) or bool(requests) or errors is not None or room is not None)
    told, at = None, None
    for i, look in enumerate(seen):
        try:
            guard.observe(*look)
        except LimitExceeded as error:
            told, at = str(error), i
            break
    expected = broken(limits, clients, seen)
    assert (told is None) == (expected is None)
    if expected:
        assert at == expected[1]
        assert {"room": "stored_bytes"}.get(expected[0], f"limits.{expected[0]}") in told


def test_what_a_broken_limit_says():
    limits = {"throughput": 8_000_000, "requests_per_s": 20, "room_bytes": 6_000_000}
    for clients, look, said in (
        (2, (9_000_000, 0), "moved 4.5 MB/s: more than its share 4.0 MB/s"),
        (2, (0, 44), "sent 22 requests/s: more than its share 10 of"),
    ):
        guard = Guard(limits | {"room_bytes": None}, clients)
        guard.observe(0, 0, 0, 0, 0)
        with pytest.raises(LimitExceeded, match=said):
            guard.observe(2 * S, *look, 0, 0)
    with pytest.raises(LimitExceeded, match="uploaded 4 MB: more than its share 3 MB"):
        Guard(limits, 2).observe(0, 4_000_000, 0, 0, 0)
    with pytest.raises(LimitExceeded, match="6 of 56 operations failed"):
        Guard({"error_fraction": 0.1}, 1).observe(0, 0, 0, 50, 6)
    assert str(LimitExceeded("limit").because(["first", "second"])) == "limit: first"
    assert str(LimitExceeded("limit").because([])) == "limit"


def test_overwrites_are_no_new_bytes():
    """1000 bytes over and over, within a room of 3000: only objects of unknown outcome need more, and the disk where it keeps what was overwritten."""
    limits = {"room_bytes": 6000, "error_fraction": None}
    guard = Guard(limits, 2, kept=(1000, 200))
    for moved in (500, 10**9):
        guard.observe(0, moved, 0, moved // 200, 0)
    guard.observe(S, 10**9, 0, 100, 10)  # 1000 + 10 * 200 = 3000, its share
    with pytest.raises(LimitExceeded, match="uploaded 0 MB: more than its share 0 MB of the room"):
        guard.observe(S, 10**9, 0, 100, 11)
    Guard(limits, 2, kept=(10**9, 200)).observe(0, 3000, 0, 1, 0)  # never more than was uploaded
    with pytest.raises(LimitExceeded):
        Guard(limits, 2).observe(0, 3001, 0, 1, 0)
    for kept in (None, (1000, 200)):
        guard = Guard({"disk_bytes": 8_000_000}, 2, kept=kept)
        assert guard.active
        guard.observe(0, 4_000_000, 0, 1, 0)
        with pytest.raises(LimitExceeded, match="its share 4 MB of the free disk, and the store gives no space"):
            guard.observe(0, 4_000_001, 0, 1, 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_rewriting_client_keeps_a_bounded_set(processes):
    """Its slots, each of one object; shared by its processes as its workers are."""
    axes = {"keys_per_worker": 4, "object_size": 100, "workers": 5}
    client = object.__new__(ObstoreRewrite)
    client.job, client.size = SimpleNamespace(point=SimpleNamespace(axes=axes)), 100
    each = [len(range(i, 5, processes)) for i in range(processes)]
    assert sum(client.kept(n)[0] for n in each) == 5 * 4 * 100 and client.kept(1)[1] == 100
    axes.pop("keys_per_worker")
    assert client.kept(5) is None


# Shares of objects


def test_staged_objects_are_those_of_the_clients_account(tmp_path):
    places = [
        SimpleNamespace(account=0, prefix="a/"),
        SimpleNamespace(account=1, prefix="b/"),
        SimpleNamespace(account=0, prefix="c/"),
    ]
    columns = {"bucket": [0, 1, 2, 1], "key": ["k0", "k1", "k2", "k3"], "body": [5, 6, 7, 8]}
    (tmp_path / "manifest.json").write_text(json.dumps({"objects": columns, "more": 1}))
    for account, expected in ((0, [(0, "a/k0", 5), (2, "c/k2", 7)]), (1, [(1, "b/k1", 6), (1, "b/k3", 8)])):
        point = SimpleNamespace(axes={})
        path = tmp_path / "manifest.json"
        owns = {id(p): p.account == account for p in places}
        job = SimpleNamespace(manifest=path, buckets=places, point=point, owns=lambda p, owns=owns: owns[id(p)])
        manifest, found = staged(job)
        assert manifest["more"] == 1
        assert [(s.number, s.key, s.body) for s in found] == expected and all(
            s.place is places[s.number] for s in found
        )
    assert Staged(0, places[1], "x", 0).key == "b/x"


def test_deletions_are_in_batches_of_one_bucket_and_each_object_once():
    objects = [[], [(0, f"x{i}") for i in range(7)] + [(1, f"y{i}") for i in range(4)]]
    places = [SimpleNamespace(prefix="a/"), SimpleNamespace(prefix="b/")]
    job = SimpleNamespace(extra={"objects": objects}, client=1, buckets=places, point=SimpleNamespace(seed=7))
    pieces = to_delete(job, 3)
    assert sorted(len(keys) for _, keys in pieces) == [1, 1, 3, 3, 3]
    assert sorted(k for b, keys in pieces if b == 0 for k in keys) == [f"a/x{i}" for i in range(7)]
    assert sorted(k for b, keys in pieces if b == 1 for k in keys) == [f"b/y{i}" for i in range(4)]
    assert pieces == to_delete(job, 3) and [b for b, _ in pieces] != sorted(b for b, _ in pieces)
    job.client = 0
    assert to_delete(job, 3) == []


# What s5cmd printed


def test_lines_bear_the_arrival_of_their_end():
    assert output.lines([(1, b"ab"), (2, b"c\nd"), (5, b"e\n\n  \nf\ng")]) == [(2, "abc"), (5, "de"), (5, "f")]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("SlowDown: reduce your rate status code: 503", "SlowDown"),
        ("NoSuchKey, it is gone", "NoSuchKey"),
        ("dial tcp: connection refused", "ConnectionRefused"),
        ("something else", "Other"),
    ],
)
def test_classes_of_errors(message, name):
    assert output.classify(message) == name


def printed(*keys, side="source", size=10):
    other = {"source": "destination", "destination": "source"}[side]
    return [
        json.dumps({"operation": "cp", side: f"s3://bucket/{k}", other: "/x", "object": {"size": size}}) for k in keys
    ]


@pytest.mark.parametrize(("op", "side"), [("GET", "source"), ("PUT", "destination")])
def test_operations_and_errors_of_s5cmd(op, side):
    out = [(10 * i, f"{line}\n".encode()) for i, line in enumerate(printed("a/1", "b", side=side), 1)]
    stat = [(30, b'{"operation": "cp", "success": 2, "error": 2}\n')]
    errors = ["SlowDown: no status code: 503, request", "SlowDown: again", "x context canceled", "y RequestCanceled z"]
    lines = [(40 + i, (json.dumps({"error": e}) if i else e).encode() + b"\n") for i, e in enumerate(errors)]
    found = output.parse(3, op, 10, out + stat, lines)
    assert found.summary == {"operation": "cp", "success": 2, "error": 2}
    assert found.messages == {"SlowDown": {"count": 2, "message": errors[0]}}
    assert found.ops == {
        "client": [3] * 4,
        "op": [op] * 4,
        "object": ["a/1", "b", None, None],
        "count": [1] * 4,
        "bytes": [10, 10, 0, 0],
        "end_ns": [10, 20, 40, 41],
        "status": [0, 0, 503, 0],
        "error": [None, None, "SlowDown", "SlowDown"],
    }


def test_what_s5cmd_may_not_say():
    with pytest.raises(MeasurementFailed, match="no JSON: 'hello'"):
        output.parse(0, "GET", 10, [(1, b"hello\n")], [])
    lines = [(1, f"{line}\n".encode()) for line in [*printed("a"), *printed("b", "c", size=9)]]
    with pytest.raises(MeasurementFailed, match="2 objects of a wrong size, the first of 9 B instead of 10 B"):
        output.parse(0, "GET", 10, lines, [])


# Sums of reads and their checks

DONE = Done(5, 7, 60, 100, 3, 120, 1, 2, 4, 5, 6)


@pytest.mark.parametrize(
    ("spent", "requests", "wrong"),
    [
        (Counts(3, 120, 120, 150), 0, 0),
        (Counts(4, 120, 120, 150), 1, 0),
        (Counts(3, 121, 120, 150), 0, 1),  # asked for more
        (Counts(3, 120, 119, 150), 0, 1),  # not answered in full
        (Counts(3, 120, 120, 120), 0, 1),  # no header came
        (Counts(3, 120, 120, None), 0, 0),  # the kernel does not tell
        (Counts(0, 120, 120, 0), 1, 0),  # nothing was sent
        (Counts(3, 121, 121, 150), 0, 1),  # other than planned
    ],
)
def test_a_read_must_be_as_planned(spent, requests, wrong):
    tally = Tally(baskets=1, entries=2, verify_ns=3)
    tally.add(spent, DONE)
    assert tally == Tally(8, 62, 7, requests, wrong)


def test_the_checks_of_reads():
    tally = Tally(baskets=8, entries=62)
    good = {c.name: c for c in tally.checks(4, [], {}, 0, True)}
    assert all(c.ok for c in good.values()) and good["reads"].detail == "4 completed, 0 failed"
    assert (
        good["crc32"].detail == "8 baskets right, 0 reads with a wrong one"
        and good["entries decoded"].detail == "62 of all branches"
    )
    assert good["side-car"].detail == "the baskets are those of the side-car"
    assert {c.name: c for c in tally.checks(4, [], {}, 0, False)}[
        "side-car"
    ].detail == "not compared: the file was not opened"
    assert not {c.name: c for c in tally.checks(0, [], {}, 0, True)}["reads"].ok
    for kind, name in (
        ("ChecksumMismatch", "crc32"),
        ("SideCarMismatch", "side-car"),
        ("EntriesMismatch", "entries decoded"),
    ):
        checks = tally.checks(4, [kind, "Other"], {kind: "words", "Other": "x"}, 2, True)
        assert [c.name for c in checks if not c.ok] == [name] and "words" in next(
            c for c in checks if c.name == name
        ).detail
        assert (
            checks[0].detail
            == f"4 completed, 2 failed, 2 not done in the grace after the deadline; first error {kind}: words"
        )
    for field, name in (("wrong_requests", "requests"), ("wrong_bytes", "bytes")):
        checks = Tally(**{field: 1}).checks(4, [], {}, 0, True)
        assert [c.name for c in checks if not c.ok] == [name]
        assert next(c for c in checks if c.name == name).detail.startswith("1 of 4 reads")


# Selection reads: an engine whose counters and times are known


class Reader(selections.SelectionClient):
    """Each read takes 10 ms; read 1 fails, read 2 finds other entries than were asked; opening sends 2 requests of 30 B in all."""

    engine = "imagined"
    libraries = ("numpy",)

    def __init__(self, access="warm", late_at=99):
        axes = {"entry_fraction": 10.0, "clients": 1, "access": access}
        super().__init__(
            SimpleNamespace(point=SimpleNamespace(axes=axes, seed=5, fixed={}), client=3, number=3, limits={})
        )
        self.branches, self.entries, self.guard, self.key = ["x", "y"], 200, Guard({}, 1), "file"
        self.unreadable, self.total, self.log, self.late_at = {"z": "why"}, Counts(), [], late_at
        self.pages = (
            SimpleNamespace(drop=lambda: self.log.append("drop"), facts=lambda: {"pages": 1}) if self.cold else None
        )

    def connect(self, root):
        """Nothing."""

    def fresh(self):
        self.log.append("fresh")

    def open_file(self):
        time.sleep(0.002)
        self.log.append("open")
        self.total += Counts(2, 30, 30, 50)

    def settle(self, timeout_s):
        self.log.append(("settle", timeout_s > 0))

    def selection(self, entries):
        number = sum(isinstance(step, int) for step in self.log)
        self.log.append(len(entries))
        time.sleep(0.01)
        self.total += Counts(3, 120, 120, 150)
        if number == self.late_at:
            raise selections.Late
        if number == 1:
            raise ValueError("a  b\nc")
        decoded = len(entries) * (3 if number == 2 else 2)
        return Done(2, 7, decoded, 100, 3, 120, 1, 2, 4, 5, 6)

    def counts(self):
        return self.total

    def connections(self):
        return (4, 6, 9)


def read(reader, seconds=0.3):
    start = clock.now_ns()
    reader.run(start, start + int(seconds * S))
    return start, reader.result()


def test_reads_are_booked_once_and_failures_are_rows():
    reader = Reader()
    start, result = read(reader)
    reads, ops = result.reads, result.ops
    n = len(reads["read"])
    assert n >= 2 and reads["read"] == [0, *range(3, n + 2)] and reads["client"] == [3] * n
    assert reads["requests"] == [5, *[3] * (n - 1)] and reads["asked_bytes"] == [150, *[120] * (n - 1)]
    assert reads["wire_bytes"] == [200, *[150] * (n - 1)] and reads["needed_bytes"] == [100] * n
    assert reads["entries"] == [20] * n and reads["branches"] == [2] * n and reads["baskets"] == [7] * n
    assert [reads[f"{p}_ns"][0] for p in ("plan", "transfer", "decompress", "deserialise")] == [1, 2, 5, 6]
    assert reads["open_ns"][0] >= 2 * MS and reads["open_ns"][1:] == [0] * (n - 1)
    lasted = [b - a for a, b in zip(reads["start_ns"], reads["end_ns"], strict=True)]
    assert all(t >= 10 * MS for t in lasted) and lasted[0] >= 12 * MS and reads["start_ns"][0] >= start
    assert all(b >= a for a, b in zip(reads["end_ns"], reads["start_ns"][1:], strict=False))
    assert ops["error"].count("ValueError") == ops["error"].count("EntriesMismatch") == 1 and len(ops["error"]) == n + 2
    assert ops["end_ns"] == sorted(ops["end_ns"]) and sum(ops["wire_bytes"]) == reader.total.wire_bytes
    assert sum(ops["requests"]) == reader.total.requests and ops["object"] == ["file"] * (n + 2)
    for error, size, status, wire in zip(ops["error"], ops["bytes"], ops["status"], ops["wire_bytes"], strict=True):
        assert (size, status) == ((0, 0) if error else (100, 200)) and wire in (150, 200)
    failed = ops["error"].index("ValueError")
    assert ops["start_ns"][failed + 1] - ops["end_ns"][failed] >= 50 * MS, "it backs off"
    engine = result.engine
    assert engine["errors"] == {
        "ValueError": "a b c",
        "EntriesMismatch": "60 entries decoded over all branches, 40 wanted",
    }
    opening = {k: engine["opening"][k] for k in ("requests", "asked_bytes", "body_bytes", "wire_bytes")}
    assert (
        opening == {"requests": 2, "asked_bytes": 30, "body_bytes": 30, "wire_bytes": 50}
        and engine["opening"]["ns"] >= 2 * MS
    )
    assert engine["abandoned"] == {"reads": 0, "requests": 0, "asked_bytes": 0, "body_bytes": 0, "wire_bytes": 0}
    assert engine["branches_chosen"] == 2 and engine["branches_left_out"] == 1 and "cold" not in engine
    assert engine["verify_ns"] == 4 * n and engine["version"] == f"numpy {np.__version__}"
    assert result.connections["max"] == 6 and result.connections["opened"] == 9
    assert reader.log.count("open") == 1 and reader.log.count(("settle", True)) == 2
    assert {c.name for c in result.checks if not c.ok} == {"entries decoded"}


@pytest.mark.parametrize(("client", "copy"), [(0, 0), (1, 1), (2, 0)])
def test_what_a_client_prepares(tmp_path, client, copy):
    """Its copy of the file, its branches: the smallest within half of the volume, without those that cannot be read."""
    columns = [
        np.array(c, "i8") for c in ([0, 1, 2, 3], [0] * 4, [0] * 4, [9] * 4, [100, 200, 300, 400], [10, 5, 25, 1])
    ]
    layout = baskets.Baskets(["a", "b", "c", "d"], *columns)
    (tmp_path / "data").write_bytes(bytes(1000))
    baskets.write(baskets.table_of(layout, tmp_path / "data", "t", 9), tmp_path / "car.parquet")
    root = {"sidecar": "car.parquet", "entries": 9, "bytes": 1000, "unreadable": {"d": "why"}}
    objects = {"key": ["one", "two"], "bucket": [1, 0]}
    (tmp_path / "m.json").write_text(json.dumps({"root": root, "objects": objects}))
    reader, seen = Reader(), []
    reader.connect = seen.append
    places = [SimpleNamespace(prefix="x/"), SimpleNamespace(prefix="y/")]
    axes = {"volume_fraction": 50.0, "clients": 3}
    point = SimpleNamespace(axes=axes, fixed={"duration_ns": 3 * S})
    reader.job = SimpleNamespace(
        manifest=tmp_path / "m.json", client=client, buckets=places, limits={}, point=point, extra={}, told=None
    )
    reader.prepare()
    reader.close()
    assert reader.key == ("y/one", "x/two")[copy] and reader.object == ("one", "two")[copy] and seen == [root]
    assert (reader.entries, reader.size, reader.unreadable, reader.duration_s) == (9, 1000, {"d": "why"}, 3.0)
    assert reader.branches == ["b", "a"] and reader.crc.tolist() == [zlib.crc32(bytes(n)) for n in (10, 5, 25, 1)]
    for wrong in (None, tmp_path / "car.json"):
        (tmp_path / "car.json").write_text("{}")
        reader.job.manifest = wrong
        with pytest.raises(UserError):
            reader.prepare()


def test_a_cold_read_opens_anew():
    reader = Reader("cold")
    _, result = read(reader, 0.1)
    steps = [s for s in reader.log if isinstance(s, str)]
    assert steps[:5] == ["drop", "open", "fresh", "drop", "open"]
    assert result.engine["cold"] == {"connections": "new for each read", "pages": {"pages": 1}}
    assert all(ns > 0 for ns in result.reads["open_ns"]) and set(result.reads["requests"]) == {5}


def test_a_read_that_is_late_ends_the_run_and_its_bytes_are_told():
    reader = Reader(late_at=3)
    _, result = read(reader, 5)
    assert result.engine["abandoned"] == {
        "reads": 1,
        "requests": 3,
        "asked_bytes": 120,
        "body_bytes": 120,
        "wire_bytes": 150,
    }
    assert result.reads["read"] == [0] and reader.log[-1] == ("settle", False)
    assert "1 not done in the grace" in result.checks[0].detail


def test_the_grace_ends():
    reader = Reader()
    start = clock.now_ns()
    reader.run(start, start)
    assert reader.latest_ns == start + 5 * S and reader.reads == []
    reader.hurry()
    reader.latest_ns = clock.now_ns() - 1
    with pytest.raises(selections.Late):
        reader.hurry()


def test_draws_differ_by_read_and_client_and_repeat():
    reader = Reader()
    draws = [tuple(reader.draw(i)) for i in range(4)]
    assert len(set(draws)) == 4 and draws == [tuple(Reader().draw(i)) for i in range(4)]
    assert all(len(d) == 20 and d == tuple(sorted(set(d))) and d[0] >= 0 and d[-1] < 200 for d in draws)
    other = Reader()
    other.job.client = 4
    assert tuple(other.draw(0)) != draws[0]


def test_samples_of_connections_are_taken_at_most_five_times_a_second():
    reader = Reader()
    read(reader, 0.7)
    times = [t for t, _ in reader.samples]
    assert 2 <= len(times) <= 5 and {n for _, n in reader.samples} == {4}
    assert all(b - a >= 200 * MS for a, b in pairwise(times))


def test_limits_hold_for_reads():
    reader = Reader()
    reader.guard = Guard({"room_bytes": 700}, 1)
    with pytest.raises(LimitExceeded):
        read(reader, 5)
    assert reader.total.wire_bytes == 50 + 5 * 150, "750 B were the first above 700"


# Local copies


def copy(tmp_path, operation, size=1000, workers=2, target="tmpfs"):
    axes = {"object_size": size, "workers": workers, "target": target}
    job = SimpleNamespace(
        point=SimpleNamespace(axes=axes),
        client=4,
        number=4,
        scratch=tmp_path / "scratch",
        attempt="a",
        extra={"disk": str(tmp_path / "disk")},
    )
    client = local_copies.CLIENTS[operation](job)
    client.prepare()
    return client


@pytest.mark.parametrize(("operation", "op"), [("copy", "COPY"), ("write", "WRITE"), ("read", "READ_FILE")])
def test_local_copies_count_what_was_done(tmp_path, operation, op):
    client = copy(tmp_path, operation)
    done = [0, 0]
    for worker, one in enumerate(client.operations):

        def counted(worker=worker, one=one):
            one()
            done[worker] += 1
            time.sleep(0.001)

        client.operations[worker] = counted
    start = clock.now_ns()
    client.run(start, start + 100 * MS)
    ops, checks = client.result().ops, {c.name: c.ok for c in client.result().checks}
    assert checks == {"something moved": True, "content": True} and set(ops["op"]) == {op} and set(ops["client"]) == {4}
    for worker in (0, 1):
        rows = [(c, e) for w, c, e in zip(ops["worker"], ops["count"], ops["end_ns"], strict=True) if w == worker]
        # what ended after the deadline is in no bin: at most the last one
        assert done[worker] - 11 <= sum(c for c, _ in rows) <= done[worker]
        assert all(start < e <= start + 100 * MS for _, e in rows) and all(c >= 1 for c, _ in rows)
        assert all(b - a >= local_copies.BIN_NS for (_, a), (_, b) in pairwise(rows[:-1]))
    assert (
        ops["bytes"] == [1000 * c for c in ops["count"]] and set(ops["error"]) == {None} and set(ops["status"]) == {0}
    )
    engine = client.result().engine
    assert engine["settings"] == {"workers": 2, "target": "tmpfs"} and engine["name"] == "none"
    assert engine["requests_per_operation"] == {} and engine["version"].startswith("Python 3.")
    client.close()
    assert not (tmp_path / "scratch").exists()


def test_nothing_moved_and_wrong_content_are_seen(tmp_path):
    for operation in local_copies.CLIENTS:
        client = copy(tmp_path / operation, operation, workers=1)
        (tmp_path / operation / "scratch").mkdir(parents=True, exist_ok=True)
        assert (
            client.body[:3] == bytes([0, 1, 2]) and len(client.body) == 1000 and client.body[251:253] == bytes([0, 1])
        )
        checks = {c.name: c for c in client.result().checks}
        assert (
            not checks["something moved"].ok
            and checks["content"].ok
            and checks["something moved"].detail == "0 operations"
        )
        if operation == "write":
            client.file(0).write_bytes(client.body[:-1])
        else:
            client.buffers[0][5] = 99
        assert not {c.name: c.ok for c in client.result().checks}["content"]


def test_files_on_disk_lie_apart_by_attempt_and_client(tmp_path):
    client = copy(tmp_path, "write", target="disk")
    folder = tmp_path / "disk" / "a-4"
    assert (
        sorted(p.name for p in folder.iterdir()) == ["0000", "0001"] and (folder / "0001").read_bytes() == client.body
    )
    client.close()
    assert not folder.exists() and (tmp_path / "disk").exists()


# Clocks


@pytest.mark.parametrize("shift_ns", [0, 3 * S, -40 * MS])
def test_the_offset_of_a_clock_is_found_within_its_error(shift_ns):
    server = clocks.Server(["127.0.0.1"])
    try:
        server.shift_ns = shift_ns
        found = clocks.measure([["127.0.0.1", 9], *server.addresses])  # the first does not answer
    finally:
        server.close()
    assert found.how == "asked" and 0 < found.error_ns < 150 * MS and abs(found.ns - shift_ns) <= found.error_ns + 1
    assert found.told() == {"clock_offset_ns": found.ns, "clock_error_ns": found.error_ns, "clock_how": "asked"}


def test_the_quickest_answer_counts_and_late_ones_are_not_mixed_up():
    """A coordinator that answers the first questions late, and once twice: the offset is that of the quick answers."""
    import socket
    import struct

    asked = []

    def answer(sock):
        while True:
            try:
                nonce, sender = sock.recvfrom(64)
            except OSError:
                return
            asked.append(nonce)
            if len(asked) < 4:
                time.sleep(0.03)  # the offset would seem 15 ms too small
            told = nonce + struct.pack("!q", clock.now_ns() + 5 * S)
            if len(asked) == 6:
                sock.sendto(bytes(16) + struct.pack("!q", 0), sender)
            sock.sendto(told, sender)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=answer, args=(sock,), daemon=True)
        thread.start()
        found = clocks.measure([list(sock.getsockname())])
    assert len(asked) == clocks.ASKED == 12 and len(set(asked)) == 12
    assert abs(found.ns - 5 * S) <= found.error_ns + 1 and found.error_ns < 10 * MS


def test_without_an_answer_the_kernel_tells(monkeypatch):
    monkeypatch.setattr(clocks, "WAIT_S", 0.01)
    for error, how in ((None, "unknown"), (1234, "kernel")):
        monkeypatch.setattr(clocks, "kernel_error_ns", lambda error=error: error)
        assert clocks.measure([["127.0.0.1", 9]]) == clocks.Offset(0, error, how)


# What makes a run fail


def test_checks_and_limits_of_a_whole_point():
    results = [{"t0_ns": 0, "deadline_ns": 2 * S, "bytes": size} for size in (60, 40)]
    record.accept({"throughput": 50}, results, [{"name": "x", "ok": True, "detail": ""}])
    record.accept({"throughput": None}, results, [])
    with pytest.raises(MeasurementFailed, match=r"more than limits\.throughput"):
        record.accept({"throughput": 49}, results, [])
    bad = [{"name": n, "ok": n == "b", "detail": f"why {n}"} for n in "abcde"]
    with pytest.raises(
        MeasurementFailed, match=r"^check 'a' failed: why a; check 'c' failed: why c; check 'd' failed: why d$"
    ):
        record.accept({"throughput": None}, results, bad)


def test_a_record_goes_into_place_whole(tmp_path):
    """Old tables go, new ones come, the head tells of both and of the earlier try."""
    work, folder = tmp_path / "work", tmp_path / "point"
    work.mkdir()
    point = {"store": "a", "workload": "get", "axes": {}, "rep": 1}
    for n, rows in ((1, b"old"), (2, b"new!")):
        (work / f"ops.{n}.parquet").write_bytes(rows)
        record.put_in_place({"point": point, "start_ns": n}, work, folder)
    run = json.loads((folder / "run.json").read_text())
    assert [p.name for p in folder.glob("*.parquet")] == ["ops.2.parquet"] == list(run["files"]) and not list(
        work.iterdir()
    )
    assert run["files"]["ops.2.parquet"]["bytes"] == 4
    assert [(t["time_ns"], t["outcome"]) for t in run["earlier"]] == [(1, "measured")]


def test_random_ranges_lie_within_the_object():
    from storelab.engines.common.ranges import begins, fixed

    rng = random.Random(1)
    assert {next(begins("random", 10, 8, rng)) for _ in range(200)} == {0, 1, 2}
    assert list(begins("sequential", 10, 3, rng)) == [0, 3, 6] and list(begins("sequential", 9, 3, rng)) == [0, 3, 6]
    assert list(begins("4kB", 10**6, 10, rng)) == [4000] and [fixed(o) for o in ("random", "sequential", "2 kB")] == [
        0,
        0,
        2000,
    ]


def test_waiting_ends_with_what_was_found_or_with_the_time():
    looks = iter([[], [], ["found"]])
    assert clock.wait_for(lambda: next(looks), 5, 0.001) == ["found"]
    begun = time.monotonic()
    assert clock.wait_for(list, 0.05, 0.001) == [] and time.monotonic() - begun >= 0.05
