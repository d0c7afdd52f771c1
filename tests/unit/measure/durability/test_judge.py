"""The judging of read-backs against all that could have happened, and ledgers as they are written and read."""

import itertools
import json
import os
import threading
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from ledger_job import job

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.datasets import payload
from storelab.engines.common import ledger
from storelab.engines.common.arrivals import Closed
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.contract import Job
from storelab.engines.fsspec.transfers import FsspecPut
from storelab.engines.obstore import loop
from storelab.engines.obstore.loop import Outcome, Task
from storelab.measure.durability import beside, look, readings
from storelab.measure.durability.judge import ABSENT, FAULTS, FOREIGN, UNREADABLE, Write, allowed, judge
from storelab.stores.protocols.endpoint import Bucket, Endpoint

S = 10**9
STEP = 8  # between the begins of two writes; an acknowledgement comes half-way


def reference(ops):
    """What may be there in the end, of (effect, acknowledged) in order: the last of every order in which they can have taken effect. An
    operation that was acknowledged comes before all that began later; one that was not may come at any later time, or never."""
    out = set()
    for n in range(len(ops) + 1):
        for order in itertools.permutations(range(len(ops)), n):
            whole = all(i in order for i, (_, acked) in enumerate(ops) if acked)
            fits = not any(b < a and ops[b][1] for a, b in itertools.combinations(order, 2))
            if whole and fits:
                out.add(ops[order[-1]][0] if order else ABSENT)
    return out


def histories(most):
    """All orders of acknowledged and unknown puts and deletions of one key."""
    for n in range(1, most + 1):
        for kinds in itertools.product((False, True), repeat=n):
            for acks in itertools.product((False, True), repeat=n):
                yield [
                    Write(i + 1, deletes, STEP * (i + 1), STEP * (i + 1) + STEP // 2 if acked else 0)
                    for i, (deletes, acked) in enumerate(zip(kinds, acks, strict=True))
                ]


def test_what_may_be_seen_in_the_end_is_what_some_order_leaves():
    tried = 0
    for writes in histories(4):
        assert allowed(writes) == reference([(w.effect, w.ack_ns > 0) for w in writes]), writes
        tried += 1
    assert tried == 4 + 16 + 64 + 256


def seen_by(times, writes, at):
    """What a read at a moment sees, if the writes took effect at these times (None: never)."""
    done = [(t, w.effect) for t, w in zip(times, writes, strict=True) if t is not None and t <= at]
    return max(done, default=(0, ABSENT))[1]


def test_what_may_be_seen_meanwhile_is_what_some_moment_shows():
    """Writes take effect at their begin, at their acknowledgement, or (unknown) at any such time later; reads lie between these times."""
    for writes in histories(3):
        times = range(STEP, STEP * (len(writes) + 2), STEP // 2)
        looks = [t + STEP // 4 for t in range(0, times[-1] + 1, STEP // 2)]
        moments = [
            (w.begin_ns, w.ack_ns) if w.ack_ns else [None, *(t for t in times if t >= w.begin_ns)] for w in writes
        ]
        seen = {at: {seen_by(world, writes, at) for world in itertools.product(*moments)} for at in looks}
        for begin, stop in itertools.combinations_with_replacement(looks, 2):
            true = set().union(*(seen[at] for at in looks if begin <= at <= stop))
            assert allowed(writes, begin, stop) == true, (writes, begin, stop)


def test_the_words_of_each_fault():
    put, over, gone = Write(1, False, 10, 15), Write(2, False, 20, 25), Write(3, True, 30, 35)
    assert [judge([put], s) for s in (1, ABSENT, FOREIGN, UNREADABLE, 2)] == [
        "",
        "lost",
        "corrupted",
        "unreadable",
        "corrupted",
    ]
    assert [judge([put, over], s) for s in (2, 1, ABSENT)] == ["", "stale", "lost"]
    assert [judge([put, over, gone], s) for s in (ABSENT, 1, 2, FOREIGN, 3)] == [
        "",
        "resurrected",
        "resurrected",
        "corrupted",
        "corrupted",
    ]
    again = Write(4, False, 40, 45)
    assert [judge([put, over, gone, again], s) for s in (4, 2, ABSENT, 5)] == ["", "stale", "lost", "corrupted"]
    unknown = Write(4, False, 40, 0)
    assert [judge([put, over, gone, unknown], s) for s in (4, ABSENT, 1)] == ["", "", "resurrected"]
    # Meanwhile: a version that is written only after the look cannot be seen by it.
    assert (
        judge([put, over], 2, 12, 18) == "corrupted"
        and judge([put, over], 2, 12, 21) == ""
        and judge([put, over], 1, 21, 24) == ""
    )
    assert (
        judge([put, over], 1, 26, 27) == "stale"
        and judge([put], ABSENT, 12, 13) == ""
        and judge([put], ABSENT, 16, 17) == "lost"
    )


def test_a_write_counts_from_its_acknowledgement():
    put, over = Write(1, False, 10, 15), Write(2, False, 20, 25)
    assert judge([put], ABSENT, 15, 15) == "lost" and judge([put], ABSENT, 14, 15) == ""
    assert judge([put, over], 1, 25, 25) == "stale" and judge([put, over], 1, 24, 25) == ""


def test_a_ledger_of_several_threads_is_read_whole(tmp_path):
    workers, each = 5, 2 * ledger.REGION // 5 // 32 + 3
    book = ledger.Book(ledger.begin(job(tmp_path), rewritten=True))

    def work(worker):
        begin, acknowledged = book.writer(worker)
        for n in range(each):
            begin(worker + workers * (n % 50), n // 50 + 1, 1 + n % 3, 100 + n)
            if n % 7:
                acknowledged(200 + n)

    threads = [threading.Thread(target=work, args=(w,)) for w in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    entries = ledger.Ledger(tmp_path / "ledger.0").entries()
    assert len(entries) == workers * each
    expected = sorted(
        (w + workers * (n % 50), n // 50 + 1, w, 1 + n % 3, n % 7 != 0) for w in range(workers) for n in range(each)
    )
    columns = ("number", "generation", "worker", "kind")
    assert [(*r, a > 0) for *r, a in zip(*(entries[c].tolist() for c in (*columns, "ack_ns")), strict=True)] == expected
    known = entries[entries["ack_ns"] > 0]
    assert (known["ack_ns"] >= known["begin_ns"]).all() and len({*entries["begin_ns"].tolist()}) > 1
    counts, unknown = ledger.acknowledged(tmp_path)
    assert unknown == sum(not e[-1] for e in expected)
    assert counts == {name: sum(e[3] == kind and e[-1] for e in expected) for kind, name in ledger.KINDS.items()}


def test_an_entry_is_in_the_file_at_once(tmp_path):
    path = ledger.begin(job(tmp_path), rewritten=False)
    begin, acknowledged = ledger.Book(path).writer(65535)

    def found():
        return [
            e.item()
            for e in ledger.Ledger(path).entries()[["number", "generation", "worker", "kind", "begin_ns", "ack_ns"]]
        ]

    begin(2**32 - 1, 2**31 - 1, ledger.DELETE, 77)
    assert found() == [(2**32 - 1, 2**31 - 1, 65535, 3, 77, 0)]
    acknowledged(2**62)
    begin(5, 1, ledger.NEW, 78)
    assert found() == [(5, 1, 65535, 1, 78, 0), (2**32 - 1, 2**31 - 1, 65535, 3, 77, 2**62)]


def test_the_loop_notes_before_it_sends_and_before_it_sends_the_next(tmp_path):
    """As the engine obstore works: of each operation the ledger is read while it is under way."""
    path, seen = ledger.begin(job(tmp_path), rewritten=False), []

    def operation(task, keep):
        seen.append([(int(e["number"]), int(e["ack_ns"]) > 0) for e in ledger.Ledger(path).entries()])
        if task.key == 1:
            raise OSError("no answer")
        return Outcome(1, 0, 0)

    tasks = [Task(n, 0, "k", note=(n, 1, ledger.NEW)) for n in range(3)]
    now = clock.now_ns()
    work = loop.Loop(operation, lambda worker: iter(tasks), [0], 1, 1, Guard({}, 1), ledger.Book(path))
    work.run(now, now + S, Closed(now + S))
    assert seen == [[(0, False)], [(0, True), (1, False)], [(0, True), (1, False), (2, False)]]
    rows = list(zip(work.parts[0]["start_ns"], work.parts[0]["end_ns"], strict=True))
    entries = ledger.Ledger(path).entries()
    assert entries["begin_ns"].tolist() == [r[0] for r in rows] and entries["ack_ns"].tolist() == [
        rows[0][1],
        0,
        rows[2][1],
    ]


def test_processes_share_a_ledger(tmp_path, monkeypatch):
    stat = os.fstat
    monkeypatch.setattr(
        os, "fstat", lambda file: [stat(file), time.sleep(0.05)][0]
    )  # whoever looks at the end is alone
    path = ledger.begin(job(tmp_path), rewritten=False)
    children = []
    for i in range(3):
        if not (pid := os.fork()):
            begin, _ = ledger.Book(path).writer(i)
            for n in range(20_000):
                begin(i + 3 * n, 1, ledger.NEW, 1)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    assert ledger.Ledger(path).entries()["number"].tolist() == list(range(60_000))


def test_a_ledger_that_cannot_be_written_ends_the_client_before_it_writes(tmp_path, monkeypatch):
    path, done, room = ledger.begin(job(tmp_path), rewritten=False), [], ledger.REGION // 32
    book = ledger.Book(path)
    first = book.page()
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:100], at))
    tasks = [Task(n, 0, "k", note=(n, 1, ledger.NEW)) for n in range(2 * room)]
    now = clock.now_ns()
    work = loop.Loop(
        lambda t, keep: done.append(t) or Outcome(1, 0, 0), lambda worker: iter(tasks), [0], 1, 1, Guard({}, 1), book
    )
    with pytest.raises(LimitExceeded, match=r"the ledger cannot be written \(No space left on device\)"):
        work.run(now, now + 60 * S, Closed(now + 60 * S))
    assert path.stat().st_size == ledger.PAGE + ledger.REGION
    assert len(first) == ledger.PAGE and len(done) == room - ledger.PAGE // 32 == len(ledger.Ledger(path).entries())


def test_the_header_tells_where_each_object_lies(tmp_path):
    one = job(tmp_path, clients=4, rank=2, buckets=4)
    ledger.begin(one, rewritten=True)
    read = ledger.Ledger(tmp_path / "ledger.2")
    assert [b.name for b in read.buckets] == ["b0", "b2"], "those of the client's account"
    assert read.place(5) == (Bucket("b2", "p/", 0), "p/put/a1b2/2/00000005")
    assert read.head["object_size"] == 4000 and [read.body(5, g) for g in (1, 2, 3)] == [2, 3, 0]
    ledger.begin(job(tmp_path, rank=3), rewritten=False)
    assert [ledger.Ledger(tmp_path / "ledger.3").body(5, g) for g in (1, 2)] == [1, 1]
    ledger.begin(job(tmp_path, clients=4, rank=3, buckets=4), rewritten=False)
    assert [ledger.Ledger(tmp_path / "ledger.3").place(n)[0].name for n in (4, 5)] == ["b2", "b0"], (
        "as uploads go round"
    )
    marks = {ledger.mark(a, c) for a in ("a1b2", "a1b") for c in (2, 22)}
    assert len(marks) == 4 and ledger.stamped(ledger.stamp(read.mark, 5, 6) + b"rest") == (read.mark, 5, 6)


def test_uploads_by_fsspec_are_noted_and_acknowledged(tmp_path):
    there = tmp_path / "there"
    one = replace(job(tmp_path), scratch=tmp_path / "scratch" / "0")
    point = replace(one.point, axes=one.point.axes | {"ledger": "kept", "workers": 3})
    client = FsspecPut(replace(one, point=point, endpoint=Endpoint(f"file://{there}", protocol="file")))
    client.prepare()
    now = clock.now_ns()
    client.run(now, now + S // 5)
    client.close()
    book = ledger.Ledger(tmp_path / "ledger.0")
    entries = book.entries()
    assert len(entries) == len(client.rows) > 3 and (entries["ack_ns"] >= entries["begin_ns"]).all()
    assert set(entries["kind"]) == {ledger.NEW} and entries["number"].tolist() == list(range(len(entries)))
    places = [book.place(n) for n in range(len(entries))]
    assert {there / bucket.name / name for bucket, name in places} == {p for p in there.rglob("*") if p.is_file()}


def test_files_are_read_back_as_objects_are(tmp_path):
    """Of a store that speaks no S3: nothing there, another body, a half one, and all the others right."""
    there = tmp_path / "there"
    one = replace(job(tmp_path), endpoint=Endpoint(f"file://{there}", protocol="file"))
    bodies = [f.read_bytes() for f in payload.body_files(tmp_path, 7, 4000)]
    begin, acknowledged = ledger.Book(ledger.begin(one, rewritten=False)).writer(0)
    book = ledger.Ledger(tmp_path / "ledger.0")
    for n in range(12):
        begin(n, 1, ledger.NEW, 10 + n)
        acknowledged(20 + n)
        bucket, name = book.place(n)
        (there / bucket.name / name).parent.mkdir(parents=True, exist_ok=True)
        (there / bucket.name / name).write_bytes(bodies[n % payload.BODIES])
    begin(12, 1, ledger.NEW, 99)  # never acknowledged, and not there
    places = [there / book.place(n)[0].name / book.place(n)[1] for n in range(12)]
    places[3].unlink()
    places[4].write_bytes(bodies[1])
    places[5].write_bytes(bodies[1][:3999])
    asked = {"live": False, "most": 100, "seconds": 10, "threads": 3, "seed": 1, "scratch": str(tmp_path)}
    found = look.reading(asked | {"ledgers": [str(book.path)], "endpoints": [asdict(one.endpoint)]})
    assert (found["states"], found["read"], found["lost"], found["corrupted"]) == (12, 12, 1, 2)
    assert sum(found[fault] for fault in FAULTS) == 3
    assert sorted(e["key"][-8:] for e in found["examples"]) == ["00000003", "00000004", "00000005"]


def test_many_buckets_make_a_header_of_several_pages(tmp_path):
    ledger.begin(job(tmp_path, buckets=900), rewritten=False)
    path = tmp_path / "ledger.0"
    assert path.stat().st_size % ledger.PAGE == 0 and path.stat().st_size > ledger.PAGE
    ledger.Book(path).writer(1)[0](4, 1, ledger.NEW, 9)
    assert ledger.Ledger(path).entries()["number"].tolist() == [4]


def reading(**found):
    whole = {
        "when": "end",
        "states": 100,
        "read": 100,
        "lost": 0,
        "corrupted": 0,
        "stale": 0,
        "resurrected": 0,
        "unreadable": 0,
    }
    return whole | {"examples": []} | found


def test_a_reading_in_words():
    assert readings.told(reading()) == "durability: 100 acknowledged states read back at the end: all are right"
    assert readings.told(reading(read=20, when="down")) == (
        "durability: 20 of 100 acknowledged states read back while an actor was down: all are right"
    )
    example = {"key": "b/k", "fault": "stale", "acknowledged": "version 3", "read": "version 2"}
    assert readings.told(reading(stale=2, lost=1, when="recovered", examples=[example])) == (
        "durability: 100 acknowledged states read back after the recovery: 1 lost, 2 stale; b/k: version 3 was acknowledged, read: version 2"
    )


def test_readings_ask_for_each_account_and_sum_up(tmp_path, monkeypatch):
    for rank in range(3):
        one = job(tmp_path, clients=3, rank=rank)
        ledger.begin(Job(**(vars(one) | {"account": rank % 2})), rewritten=False)
    asked = []

    def ask(command, timeout_s, environ, feed):
        asked.append((environ["KEY"], json.loads(feed)))
        found = reading(read=7, lost=1, examples=[{"key": str(i)} for i in range(8)])
        del found["when"]
        return SimpleNamespace(returncode=0, stdout=json.dumps(found), stderr="")

    monkeypatch.setattr(readings.processes, "ask", ask)
    store = SimpleNamespace(credentials=lambda account: SimpleNamespace(environ=lambda: {"KEY": f"k{account}"}))
    taken = readings.Readings(store, tmp_path, {"endpoints": ["e"], "scratch": "s"}, 9)
    out = taken.take("down", live=True, most=50, seconds=60, threads=3)
    assert [(key, len(t["ledgers"]), t["most"], t["seconds"], t["live"], t["threads"]) for key, t in asked] == [
        ("k0", 2, 25, 30, True, 3),
        ("k1", 1, 25, 30, True, 3),
    ]
    assert (out["read"], out["lost"], out["states"], len(out["examples"])) == (14, 2, 200, 10)
    assert taken.record() == {
        "acknowledged": {"put": 0, "overwrite": 0, "delete": 0},
        "unacknowledged": 0,
        "readings": [out],
    }
    monkeypatch.setattr(readings, "MOST_BYTES", 40_000)  # ten objects, of both accounts
    taken.take("end")
    assert [t["most"] for _, t in asked[2:]] == [5, 5]
    failed = SimpleNamespace(returncode=1, stdout="", stderr="no module")
    monkeypatch.setattr(readings.processes, "ask", lambda *_: failed)
    with pytest.raises(MeasurementFailed, match="could not be read back: no module"):
        taken.take("end")
    nothing = readings.Readings(store, tmp_path / "none", {}, 9)
    assert nothing.take("end") is None and nothing.record() is None


def acts(*given):
    return [{"at_ns": at, "act": act, "actors": actors.split()} for at, act, actors in given]


@pytest.mark.parametrize(
    ("given", "spans"),
    [
        ([], []),
        ([(1, "kill", "a")], [(1, 9)]),
        ([(1, "kill", "a"), (4, "restart", "a")], [(1, 4)]),
        ([(1, "hang", "a"), (2, "hang", "b"), (3, "resume", "a"), (5, "resume", "b"), (7, "kill", "a")], [(1, 5), (7, 9)]),
        ([(1, "kill", "a b"), (3, "restart", "a")], [(1, 9)]),
        ([(1, "slow", "a"), (2, "fill", "b"), (3, "command", "")], []),
        ([(1, "hang", "a"), (2, "kill", "a"), (4, "restart", "a")], [(1, 4)]),
        ([(1, "cut", "a"), (2, "resume", "a"), (4, "heal", "a"), (6, "remove_drive", "d"), (8, "return_drive", "d")], [(1, 4), (6, 8)]),
    ],
)  # fmt: skip
def test_when_something_is_away(given, spans):
    assert beside.away(acts(*given), 9) == spans


class Taking:
    """Readings that only tell when they were taken."""

    def __init__(self, fails=False):
        self.taken, self.fails = [], fails

    def take(self, when, live=False, **more):
        self.taken.append((when, live, clock.now_ns(), more))
        if self.fails:
            raise MeasurementFailed("no reader")


def test_readings_beside_a_fault_come_when_something_is_away():
    readings, at = Taking(), clock.now_ns() + S // 5
    given = acts((S // 10, "kill", "a"), (S, "restart", "a"), (8 * S // 5, "hang", "b"))
    run = beside.Beside(readings, given, 3 * S)
    run.start(at)
    clock.sleep_until(at + 24 * S // 10)
    run.ended()
    (first, second, whole) = readings.taken
    assert [t[:2] for t in readings.taken] == [("down", True), ("down", True), ("down", False)]
    assert 0 <= first[2] - at - 6 * S // 10 < S // 5 and 0 <= second[2] - at - 21 * S // 10 < S // 5
    assert first[3]["seconds"] == pytest.approx(0.4, abs=0.2) and second[3]["seconds"] == pytest.approx(0.9, abs=0.2)
    assert whole[3] == {"seconds": beside.WHOLE_S}


def test_no_reading_beside_a_fault_that_takes_nothing_away_or_is_over_too_soon():
    for given in (acts((1, "slow", "a")), acts((0, "kill", "a"), (S // 2, "restart", "a"))):
        readings = Taking()
        run = beside.Beside(readings, given, 2 * S)
        run.start(clock.now_ns())
        clock.sleep_until(clock.now_ns() + 6 * S // 10)
        run.ended()
        assert not readings.taken


def test_a_reading_that_cannot_be_done_fails_the_run():
    run = beside.Beside(Taking(fails=True), acts((0, "kill", "a")), 3 * S)
    run.start(clock.now_ns() - S)
    with pytest.raises(MeasurementFailed, match="no reader"):
        [clock.sleep_until(clock.now_ns() + S // 10), run.ended()]
