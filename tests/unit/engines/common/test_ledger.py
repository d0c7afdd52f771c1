"""Ledgers of acknowledged writes: each entry is in the file before its request is sent."""

import os
import threading
import time
from dataclasses import replace

import pytest
from ledger_job import job

from storelab.core import clock
from storelab.engines.common import ledger
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.common.timing import ClosedLoop
from storelab.engines.fsspec import FsspecPut
from storelab.engines.obstore import client
from storelab.engines.obstore.client import Outcome, Task
from storelab.stores.protocols.endpoint import Bucket, Endpoint

S = 10**9


def test_ledger_of_several_threads_is_read_whole(tmp_path):
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


def test_entry_is_in_the_file_at_once(tmp_path):
    path = ledger.begin(job(tmp_path), rewritten=False)
    begin, acknowledged = ledger.Book(path).writer(65535)
    columns = ["number", "generation", "worker", "kind", "begin_ns", "ack_ns"]

    def found():
        return [e.item() for e in ledger.Ledger(path).entries()[columns]]

    begin(2**32 - 1, 2**31 - 1, ledger.DELETE, 77)
    assert found() == [(2**32 - 1, 2**31 - 1, 65535, 3, 77, 0)]
    acknowledged(2**62)
    begin(5, 1, ledger.NEW, 78)
    assert found() == [(5, 1, 65535, 1, 78, 0), (2**32 - 1, 2**31 - 1, 65535, 3, 77, 2**62)]


def test_loop_notes_before_each_request(tmp_path):
    """As the engine obstore works: the ledger is read during each operation."""
    path, seen = ledger.begin(job(tmp_path), rewritten=False), []

    def operation(task, keep):
        seen.append([(int(e["number"]), int(e["ack_ns"]) > 0) for e in ledger.Ledger(path).entries()])
        if task.key == 1:
            raise OSError("no answer")
        return Outcome(1, 0, 0)

    tasks = [Task(n, 0, "k", note=(n, 1, ledger.NEW)) for n in range(3)]
    now = clock.now_ns()
    work = client.Loop(operation, lambda worker: iter(tasks), [0], 1, 1, Guard({}, 1), ledger.Book(path))
    work.run(now, now + S, ClosedLoop(now + S))
    assert seen == [[(0, False)], [(0, True), (1, False)], [(0, True), (1, False), (2, False)]]
    starts, ends = (work.parts[0][name] for name in ("start_ns", "end_ns"))
    entries = ledger.Ledger(path).entries()
    assert entries["begin_ns"].tolist() == list(starts) and entries["ack_ns"].tolist() == [ends[0], 0, ends[2]]


def test_processes_share_a_ledger(tmp_path, monkeypatch):
    stat = os.fstat
    # Only one process at a time may look for the end of the file.
    monkeypatch.setattr(os, "fstat", lambda file: [stat(file), time.sleep(0.02)][0])
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


def test_full_disk_ends_client_before_it_writes(tmp_path, monkeypatch):
    path, done, room = ledger.begin(job(tmp_path), rewritten=False), [], ledger.REGION // 32
    book = ledger.Book(path)
    first = book.page()
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:100], at))
    tasks = [Task(n, 0, "k", note=(n, 1, ledger.NEW)) for n in range(2 * room)]
    now = clock.now_ns()
    operation = lambda task, keep: done.append(task) or Outcome(1, 0, 0)  # noqa: E731
    work = client.Loop(operation, lambda worker: iter(tasks), [0], 1, 1, Guard({}, 1), book)
    with pytest.raises(LimitExceeded, match=r"the ledger cannot be written \(No space left on device\)"):
        work.run(now, now + 60 * S, ClosedLoop(now + 60 * S))
    assert path.stat().st_size == ledger.PAGE + ledger.REGION
    assert len(first) == ledger.PAGE and len(done) == room - ledger.PAGE // 32 == len(ledger.Ledger(path).entries())


def test_header_has_the_place_of_each_object(tmp_path):
    one = job(tmp_path, clients=4, rank=2, buckets=4)
    ledger.begin(one, rewritten=True)
    read = ledger.Ledger(tmp_path / "ledger.2")
    assert [b.name for b in read.buckets] == ["b0", "b2"], "those of the client's account"
    assert read.place(5) == (Bucket("b2", "p/", 0), "p/put/a1b2/2/00000005")
    assert read.head["object_size"] == 4000 and [read.body(5, g) for g in (1, 2, 3)] == [2, 3, 0]
    ledger.begin(job(tmp_path, rank=3), rewritten=False)
    assert [ledger.Ledger(tmp_path / "ledger.3").body(5, g) for g in (1, 2)] == [1, 1]
    ledger.begin(job(tmp_path, clients=4, rank=3, buckets=4), rewritten=False)
    other = ledger.Ledger(tmp_path / "ledger.3")
    assert [other.place(n)[0].name for n in (4, 5)] == ["b2", "b0"], "in the order of uploads"
    marks = {ledger.mark(a, c) for a in ("a1b2", "a1b") for c in (2, 22)}
    assert len(marks) == 4 and ledger.stamped(ledger.stamp(read.mark, 5, 6) + b"rest") == (read.mark, 5, 6)


def test_header_of_many_buckets_has_several_pages(tmp_path):
    path = ledger.begin(job(tmp_path, buckets=900), rewritten=False)
    assert path.stat().st_size % ledger.PAGE == 0 and path.stat().st_size > ledger.PAGE
    ledger.Book(path).writer(1)[0](4, 1, ledger.NEW, 9)
    assert ledger.Ledger(path).entries()["number"].tolist() == [4]


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
