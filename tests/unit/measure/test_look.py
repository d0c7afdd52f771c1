"""Reading of the objects that ledgers name: every byte is compared, and each fault has examples."""

import sys
import threading
import time
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from ledger_job import job

from storelab.datasets import payload
from storelab.engines.common import ledger
from storelab.measure import look
from storelab.stores.protocols.endpoint import Endpoint

SIZE = 5000


class Held:
    """Content of a store: path of bucket and key -> bytes, or an exception; `ends`: front-ends that were used."""

    def __init__(self):
        self.objects, self.ends, self.lock = {}, [], threading.Lock()
        self.piece = 700

    def get(self, store, name):
        end, bucket = store
        with self.lock:
            self.ends.append(end)
        found = self.objects.get(f"{bucket}/{name}")
        if isinstance(found, dict):
            found = found.get(end, RuntimeError("this front-end is dead"))
        if found is None:
            raise FileNotFoundError(name)
        if isinstance(found, Exception):
            raise found
        pieces = [found[i : i + self.piece] for i in range(0, len(found), self.piece)]
        return SimpleNamespace(stream=lambda min_chunk_size: iter(pieces))


@pytest.fixture
def held(monkeypatch):
    it = Held()
    monkeypatch.setitem(sys.modules, "obstore", it)
    monkeypatch.setattr(look.s3_clients, "store", lambda end, bucket, waits: (end.url, bucket))
    monkeypatch.setattr(look, "PAUSE_S", 0.01)
    return it


class Written:
    """A ledger that is written here, and the objects that it describes."""

    def __init__(self, folder, rewritten, rank=0):
        folder.mkdir(exist_ok=True)
        self.folder, self.path = folder, ledger.begin(job(folder, clients=2, rank=rank, size=SIZE), rewritten)
        self.book, self.writer = ledger.Ledger(self.path), ledger.Book(self.path).writer(0)
        self.bodies = [f.read_bytes() for f in payload.body_files(folder / "scratch", 7, SIZE)]

    def note(self, number, generation, kind, acked=True, at=1000):
        self.writer[0](number, generation, kind, at)
        if acked:
            self.writer[1](at + 10)

    def put(self, held, *numbers):
        """Note new objects, and put them into the store."""
        for number in numbers:
            self.note(number, 1, ledger.NEW)
            held.objects[self.path_of(number)] = self.content(number, 1)

    def path_of(self, number):
        bucket, key = self.book.place(number)
        return f"{bucket.name}/{key}"

    def content(self, number, generation):
        if not self.book.head["rewritten"]:
            return self.bodies[number % 4]
        return ledger.stamp(self.book.mark, number, generation) + self.bodies[(number + generation) % 4][ledger.STAMP :]

    def read(self, live=False, ends=("a",), **more):
        asked = {"ledgers": [str(self.path)], "endpoints": [asdict(Endpoint(e)) for e in ends]}
        asked |= {"scratch": str(self.folder / "scratch"), "live": live, "seed": 1}
        return look.reading(asked | {"most": 100, "seconds": 30, "threads": 3} | more)


def faults(found):
    return {f: found[f] for f in look.FAULTS if found[f]}


def test_complete_store_has_no_faults(tmp_path, held):
    for piece in (700, 24, 9000):
        for rewritten in (True, False):
            it = Written(tmp_path / f"{piece}-{rewritten}", rewritten)
            held.piece, held.objects = piece, {}
            it.put(held, *range(8))
            if rewritten:
                it.note(0, 2, ledger.OVERWRITE)
                it.note(1, 2, ledger.DELETE)
                it.note(2, 2, ledger.OVERWRITE, acked=False)
                it.note(3, 2, ledger.DELETE, acked=False)
                held.objects |= {it.path_of(0): it.content(0, 2), it.path_of(2): it.content(2, 2)}
                del held.objects[it.path_of(1)], held.objects[it.path_of(3)]
            it.note(9, 1, ledger.NEW, acked=False)
            found = it.read()
            assert not faults(found) and not found["examples"] and (found["states"], found["read"]) == (8, 8)


def wrong(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_every_byte_is_compared(tmp_path, held):
    for rewritten in (True, False):
        it = Written(tmp_path / str(rewritten), rewritten)
        whole = it.content(0, 1)
        changed = [wrong(whole, at) for at in (0, 11, 12, 20, 23, 24, 699, 700, 4200, SIZE - 1)]
        changed += [whole[:-1], whole + b"x", whole[:10], b"", it.content(1, 1), whole[:24] + it.content(1, 1)[24:]]
        for n, data in enumerate(changed):
            it.note(4 * n, 1, ledger.NEW)
            if rewritten and data[:24] == whole[:24]:  # the stamp of this key, the same change behind it
                data = it.content(4 * n, 1)[:24] + data[24:]
            held.objects[it.path_of(4 * n)] = data
        assert faults(it.read()) == {"corrupted": len(changed)}


def test_each_fault_has_an_example(tmp_path, held):
    it = Written(tmp_path / "x", True)
    for number in range(5):
        it.note(number, 1, ledger.NEW)
        it.note(number, 2, ledger.OVERWRITE if number != 2 else ledger.DELETE, at=2000)
    held.objects = {it.path_of(n): it.content(n, 1) for n in (1, 2)}
    held.objects |= {it.path_of(3): wrong(it.content(3, 2), 100), it.path_of(4): RuntimeError("the disk\nis gone")}
    found = it.read()
    assert faults(found) == dict.fromkeys(("lost", "corrupted", "stale", "resurrected", "unreadable"), 1)
    expected = [
        (0, "lost", "version 2", "nothing"),
        (1, "stale", "version 2", "version 1"),
        (2, "resurrected", "its deletion", "version 1"),
        (3, "corrupted", "version 2", "bytes that were not written to it"),
        (4, "unreadable", "version 2", "no answer: the disk is gone"),
    ]
    names = ("key", "fault", "acknowledged", "read", "acknowledged_ns")
    rows = [(it.path_of(number), *rest, 2010) for number, *rest in expected]
    found["examples"].sort(key=lambda example: example["key"])
    assert found["examples"] == sorted((dict(zip(names, row, strict=True)) for row in rows), key=lambda e: e["key"])


def test_failed_check_uses_next_front_end(tmp_path, held):
    it = Written(tmp_path / "x", True)
    for number in range(6):
        it.note(number, 1, ledger.NEW)
        held.objects[it.path_of(number)] = {"c": it.content(number, 1)}
    assert not faults(it.read(ends=("a", "b", "c"))) and {*held.ends} == {"a", "b", "c"}
    assert faults(it.read(ends=("a", "b"))) == {"unreadable": 6} and len(held.ends) > 6 * 3


def test_checks_are_bounded_in_number_and_time(tmp_path, held, monkeypatch):
    it = Written(tmp_path / "x", False)
    it.put(held, *range(40))
    found = it.read(most=7)
    assert (found["states"], found["read"]) == (40, 7)
    for number in range(40):
        held.objects[it.path_of(number)] = RuntimeError("silent")
    assert len(it.read()["examples"]) == 10
    slept = []
    passing = SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept))
    monkeypatch.setattr(look, "time", passing)
    found = it.read(seconds=5 * (look.TRIES - 0.5) * look.PAUSE_S, threads=1)
    assert 0 < found["read"] == found["unreadable"] < 10, "each takes TRIES - 1 pauses"


def test_live_check_accepts_concurrent_writes(tmp_path, held, monkeypatch):
    """A version may be begun after the ledger was first read; one acknowledged long before must be seen."""
    it, now = Written(tmp_path / "x", True), time.time_ns()
    monkeypatch.setattr(look.clock, "now_ns", lambda: now)
    for number in range(4):
        it.note(number, 1, ledger.NEW, at=now - 10**9)
    held.objects = {it.path_of(n): it.content(n, 1) for n in range(4)}
    original = held.get

    def get(store, name):
        if name == it.book.place(0)[1] and it.path_of(0) in held.objects and not held.ends.count("done"):
            held.ends.append("done")
            it.note(0, 2, ledger.OVERWRITE, acked=False, at=now)
            held.objects[it.path_of(0)] = it.content(0, 2)
        return original(store, name)

    held.get = get
    assert not faults(it.read(live=True))
    it.note(1, 2, ledger.OVERWRITE, at=now)  # just now: the look may have come before
    assert not faults(it.read(live=True))
    it.note(2, 2, ledger.OVERWRITE, at=now - 5 * 10**8)
    assert faults(it.read(live=True)) == {"stale": 1}
    assert faults(it.read()) == {"stale": 2}


def test_every_acknowledgement_counts_after_the_clients(tmp_path, held):
    """It also holds for a read that is late by the clock of this process."""
    it = Written(tmp_path / "x", True)
    it.note(0, 1, ledger.NEW, at=time.time_ns() + 60 * 10**9)
    assert faults(it.read()) == {"lost": 1} and not faults(it.read(live=True))


def test_ledgers_of_several_clients_are_read(tmp_path, held):
    first, second = Written(tmp_path / "x", True), Written(tmp_path / "x", False, rank=1)
    for it in (first, second):
        it.put(held, 3)
    both = [str(first.path), str(second.path)]
    assert first.path_of(3) != second.path_of(3) and not faults(first.read(ledgers=both))
    del held.objects[second.path_of(3)]
    found = first.read(ledgers=both)
    assert faults(found) == {"lost": 1} and found["examples"][0]["key"] == second.path_of(3) and found["states"] == 2


def test_files_are_read_back_as_objects(tmp_path):
    """One is missing, one has another body, one half of it; the others are right."""
    there = tmp_path / "there"
    one = job(tmp_path, endpoint=Endpoint(f"file://{there}", protocol="file"))
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
    assert sum(found[fault] for fault in look.FAULTS) == 3
    assert sorted(e["key"][-8:] for e in found["examples"]) == ["00000003", "00000004", "00000005"]
