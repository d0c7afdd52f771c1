"""Selection reads without a store: their maximum duration, and their rows in the records."""

import json
import zlib
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from storelab.core import records
from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.engines.common import selections, wire
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.common.selections import Done, Tally
from storelab.engines.common.wire import Counts


class Reads(selections.SelectionClient):
    """A client with given rows."""

    engine, libraries = "imagined", ()
    connect = fresh = open_file = selection = lambda self, *_: None

    def counts(self):
        return wire.Counts()


def test_reads_may_last_a_fifth_longer():
    assert [selections.allowed_s(s) for s in (1.0, 25.0, 60.0)] == [6.0, 30.0, 72.0]


def test_missing_side_car_names_the_object():
    error = selections.not_staged("b/k")
    assert isinstance(error, selections.WrongData) and error.kind == "SideCarMismatch" and "b/k" in str(error)


def test_reads_have_rows_of_the_records():
    """Good and failed reads are ordered by their end; every column of such an operation is there."""
    point = SimpleNamespace(axes={"clients": 1}, seed=5, fixed={})
    one = Reads(SimpleNamespace(point=point, client=1, number=4, limits={}, extra={}, progress_file=None))
    one.key, one.branches, one.unreadable = "p/file", ["x"], {}
    good = dict.fromkeys(records.READS, 0) | {"needed_bytes": 7, "wire_bytes": 9, "requests": 2}
    good.pop("client")
    one.reads += [good | {"start_ns": end - 5, "end_ns": end} for end in (30, 10)]
    bad = {"bytes": 0, "wire_bytes": 1, "requests": 1, "start_ns": 15, "end_ns": 20, "status": 503, "error": "SlowDown"}
    one.ops.append(bad)
    found = one.result()
    same = {"client": 4, "worker": 0, "op": "READ", "object": "p/file", "count": 1}
    expected = {name: [value] * 3 for name, value in same.items()}
    expected |= {"bytes": [7, 0, 7], "wire_bytes": [9, 1, 9], "requests": [2, 1, 2], "start_ns": [5, 15, 25]}
    expected |= {"end_ns": [10, 20, 30], "status": [200, 503, 200], "error": [None, "SlowDown", None]}
    assert found.ops == expected
    assert set(found.ops) <= set(records.OPS) and set(found.reads) == set(records.READS)
    assert found.reads["client"] == [4, 4] and found.reads["end_ns"] == [30, 10]
    engine = {"name": "imagined", "settings": {"grace": 0.2, "grace_s": 5.0}, "branches_chosen": 1}
    engine |= {"requests_per_operation": {"READ": "varies, counted"}, "branches_left_out": 0, "opening": None}
    engine["abandoned"] = {"reads": 0} | asdict(wire.Counts())
    assert engine.items() <= found.engine.items()
    one.reads.clear()
    assert one.result().reads == {"client": []} and one.result().ops["error"] == ["SlowDown"]


# Whole runs: an engine whose counters and times are known


S, MS = 10**9, 10**6


@pytest.fixture
def time(monkeypatch):
    """Replace the clock by one that advances only when a test reads."""
    now = SimpleNamespace(ns=5 * S)
    monkeypatch.setattr(selections.clock, "now_ns", lambda: now.ns)
    monkeypatch.setattr(selections.clock, "sleep_until", lambda t: setattr(now, "ns", max(now.ns, t)))
    return now


class Reader(selections.SelectionClient):
    """Each read takes 10 ms, an opening 2 ms and two requests; read 1 fails, read 2 finds other entries than asked."""

    engine = "imagined"
    libraries = ("numpy",)

    def __init__(self, time, access="warm", late_at=99):
        axes = {"entry_fraction": 10.0, "clients": 1, "access": access}
        point = SimpleNamespace(axes=axes, seed=5, fixed={})
        super().__init__(SimpleNamespace(point=point, client=3, number=3, limits={}))
        self.branches, self.entries, self.guard, self.key = ["x", "y"], 200, Guard({}, 1), "file"
        self.unreadable, self.total, self.log, self.late_at, self.time = {"z": "why"}, Counts(), [], late_at, time
        pages = SimpleNamespace(drop=lambda: self.log.append("drop"), facts=lambda: {"pages": 1})
        self.pages = pages if self.cold else None

    def connect(self, root):
        """Nothing."""

    def fresh(self):
        self.log.append("fresh")

    def open_file(self):
        self.time.ns += 2 * MS
        self.log.append("open")
        self.total += Counts(2, 30, 30, 50)

    def settle(self, timeout_s):
        self.log.append(("settle", timeout_s > 0))

    def selection(self, entries):
        number = sum(isinstance(step, int) for step in self.log)
        self.log.append(len(entries))
        self.time.ns += 10 * MS
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


def read(reader, ms=300):
    start = reader.time.ns
    reader.run(start, start + ms * MS)
    return start, reader.result()


def test_reads_are_counted_once_and_failures_are_rows(time):
    """Read 0 lasts 12 ms, the two that fail 10 ms and a pause of 50 ms; 17 more begin in the remaining 168 ms."""
    reader = Reader(time)
    start, result = read(reader)
    reads, ops, n = result.reads, result.ops, 18
    assert reads["read"] == [0, *range(3, n + 2)] and reads["client"] == [3] * n
    assert reads["requests"] == [5, *[3] * (n - 1)] and reads["asked_bytes"] == [150, *[120] * (n - 1)]
    assert reads["wire_bytes"] == [200, *[150] * (n - 1)] and reads["needed_bytes"] == [100] * n
    assert reads["entries"] == [20] * n and reads["branches"] == [2] * n and reads["baskets"] == [7] * n
    assert [reads[f"{p}_ns"][0] for p in ("plan", "transfer", "decompress", "deserialise")] == [1, 2, 5, 6]
    assert reads["open_ns"] == [2 * MS, *[0] * (n - 1)]
    begins = [0, *range(132, 132 + 10 * (n - 1), 10)]
    assert [(t - start) / MS for t in reads["start_ns"]] == begins
    assert [(t - start) / MS for t in reads["end_ns"]] == [12, *(t + 10 for t in begins[1:])]
    assert ops["error"] == [None, "ValueError", "EntriesMismatch", *[None] * (n - 1)]
    assert [(t - start) / MS for t in ops["end_ns"][:4]] == [12, 22, 82, 142]
    assert sum(ops["wire_bytes"]) == reader.total.wire_bytes and sum(ops["requests"]) == reader.total.requests
    assert ops["object"] == ["file"] * (n + 2) and ops["wire_bytes"] == [200, *[150] * (n + 1)]
    for error, size, status in zip(ops["error"], ops["bytes"], ops["status"], strict=True):
        assert (size, status) == ((0, 0) if error else (100, 200))
    engine = result.engine
    assert engine["errors"]["ValueError"] == "a b c" and engine["errors"]["EntriesMismatch"].startswith("60 ")
    assert engine["opening"] == {"requests": 2, "asked_bytes": 30, "body_bytes": 30, "wire_bytes": 50, "ns": 2 * MS}
    assert engine["abandoned"] == {"reads": 0, "requests": 0, "asked_bytes": 0, "body_bytes": 0, "wire_bytes": 0}
    assert engine["branches_chosen"] == 2 and engine["branches_left_out"] == 1 and "cold" not in engine
    assert engine["verify_ns"] == 4 * n and engine["version"] == f"numpy {np.__version__}"
    assert result.connections["max"] == 6 and result.connections["opened"] == 9
    assert reader.log.count("open") == 1 and reader.log.count(("settle", True)) == 2
    assert {c.name for c in result.checks if not c.ok} == {"entries decoded"}


def test_client_prepares_its_copy_and_branches(tmp_path, time):
    """The branches are the smallest within half of the volume, without those that cannot be read."""
    columns = [[0, 1, 2, 3], [0] * 4, [0] * 4, [9] * 4, [100, 200, 300, 400], [10, 5, 25, 1]]
    layout = baskets.Baskets(["a", "b", "c", "d"], *(np.array(c, "i8") for c in columns))
    (tmp_path / "data").write_bytes(bytes(1000))
    baskets.write(baskets.table_of(layout, tmp_path / "data", "t", 9), tmp_path / "car.parquet")
    root = {"sidecar": "car.parquet", "entries": 9, "bytes": 1000, "unreadable": {"d": "why"}}
    objects = {"key": ["one", "two"], "bucket": [1, 0]}
    (tmp_path / "m.json").write_text(json.dumps({"root": root, "objects": objects}))
    (tmp_path / "other.json").write_text("{}")
    places = [SimpleNamespace(prefix="x/"), SimpleNamespace(prefix="y/")]
    point = SimpleNamespace(axes={"volume_fraction": 50.0, "clients": 3}, fixed={"duration_ns": 3 * S})
    shared = {"buckets": places, "limits": {}, "point": point, "extra": {}, "progress_file": None}
    for client, key, name in ((0, "y/one", "one"), (1, "x/two", "two"), (2, "y/one", "one")):
        reader, seen = Reader(time), []
        reader.connect = seen.append
        reader.job = SimpleNamespace(manifest=tmp_path / "m.json", client=client, **shared)
        reader.prepare()
        reader.close()
        assert (reader.key, reader.object, seen) == (key, name, [root])
        assert (reader.entries, reader.size, reader.unreadable, reader.duration_s) == (9, 1000, {"d": "why"}, 3.0)
        assert reader.branches == ["b", "a"] and reader.crc.tolist() == [zlib.crc32(bytes(n)) for n in columns[-1]]
    for wrong in (None, tmp_path / "other.json"):
        reader.job.manifest = wrong
        with pytest.raises(UserError):
            reader.prepare()


def test_cold_reads_open_the_file_again(time):
    reader = Reader(time, "cold")
    _, result = read(reader, 100)
    steps = [s for s in reader.log if isinstance(s, str)]
    assert steps[:5] == ["drop", "open", "fresh", "drop", "open"]
    assert result.engine["cold"] == {"connections": "new for each read", "pages": {"pages": 1}}
    assert set(result.reads["open_ns"]) == {2 * MS} and set(result.reads["requests"]) == {5}


def test_late_read_ends_the_run_and_its_bytes_are_recorded(time):
    reader = Reader(time, late_at=3)
    _, result = read(reader, 5000)
    sent = {"requests": 3, "asked_bytes": 120, "body_bytes": 120, "wire_bytes": 150}
    assert result.engine["abandoned"] == {"reads": 1} | sent
    assert result.reads["read"] == [0] and reader.log[-1] == ("settle", False)
    assert "1 not completed" in result.checks[0].detail


def test_grace_after_the_deadline_ends(time):
    reader = Reader(time)
    start, _ = read(reader, 0)
    assert reader.latest_ns == start + 5 * S and reader.reads == []
    reader.check_deadline()
    time.ns = reader.latest_ns + 1
    with pytest.raises(selections.Late):
        reader.check_deadline()


def test_draws_differ_by_read_and_client_and_repeat(time):
    reader, other = Reader(time), Reader(time)
    draws = [tuple(reader.draw(i)) for i in range(4)]
    assert len(set(draws)) == 4 and draws == [tuple(Reader(time).draw(i)) for i in range(4)]
    assert all(len(d) == 20 and d == tuple(sorted(set(d))) and d[0] >= 0 and d[-1] < 200 for d in draws)
    other.job.client = 4
    assert tuple(other.draw(0)) != draws[0]


def test_connections_are_sampled_five_times_a_second(time):
    reader = Reader(time)
    start, _ = read(reader, 700)
    assert [(t - start) / MS for t, _ in reader.samples] == [12, 212, 412, 612]
    assert {n for _, n in reader.samples} == {4}


def test_limits_hold_for_reads(time):
    reader = Reader(time)
    reader.guard = Guard({"room_bytes": 700}, 1)
    with pytest.raises(LimitExceeded):
        read(reader, 5000)
    assert reader.total.wire_bytes == 50 + 5 * 150, "750 B were the first above 700"


DONE = Done(5, 7, 60, 100, 3, 120, 1, 2, 4, 5, 6)


def test_read_must_send_what_was_planned():
    for spent, requests, wrong in (
        (Counts(3, 120, 120, 150), 0, 0),
        (Counts(4, 120, 120, 150), 1, 0),
        (Counts(3, 121, 120, 150), 0, 1),  # more was asked for
        (Counts(3, 120, 119, 150), 0, 1),  # not answered in full
        (Counts(3, 120, 120, 120), 0, 1),  # no header came
        (Counts(3, 120, 120, None), 0, 0),  # the kernel does not count
        (Counts(0, 120, 120, 0), 1, 0),  # nothing was sent
        (Counts(3, 121, 121, 150), 0, 1),  # other than planned
    ):
        tally = Tally(baskets=1, entries=2, verify_ns=3)
        tally.add(spent, DONE)
        assert tally == Tally(8, 62, 7, requests, wrong), spent


def by_name(checks):
    return {c.name: c for c in checks}


def failed(checks):
    return {c.name for c in checks if not c.ok}


def test_checks_name_what_is_wrong():
    tally = Tally(baskets=8, entries=62)
    good = by_name(tally.checks(4, [], {}, 0, True))
    assert not failed(good.values()) and good["reads"].detail == "4 completed, 0 failed"
    assert good["crc32"].detail.startswith("8 correct baskets") and good["entries decoded"].detail.startswith("62 ")
    unopened = by_name(tally.checks(4, [], {}, 0, False))["side-car"]
    assert unopened.ok and unopened.detail != good["side-car"].detail
    assert failed(tally.checks(0, [], {}, 0, True)) == {"reads"}
    kinds = {"ChecksumMismatch": "crc32", "SideCarMismatch": "side-car", "EntriesMismatch": "entries decoded"}
    for kind, name in kinds.items():
        checks = tally.checks(4, [kind, "Other"], {kind: "words", "Other": "x"}, 2, True)
        assert failed(checks) == {name} and "words" in by_name(checks)[name].detail
        assert checks[0].detail.startswith("4 completed, 2 failed, 2 ") and f"{kind}: words" in checks[0].detail
    for field, name in (("wrong_requests", "requests"), ("wrong_bytes", "bytes")):
        checks = Tally(**{field: 1}).checks(4, [], {}, 0, True)
        assert failed(checks) == {name} and by_name(checks)[name].detail.startswith("1 of 4 ")
