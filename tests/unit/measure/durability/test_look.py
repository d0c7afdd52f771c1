"""Looks at what ledgers say must be there: every byte is compared, a look that fails is tried at the next front-end, examples are told."""

import sys
import threading
import time
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from ledger_job import job

from storelab.datasets import payload
from storelab.engines.common import ledger
from storelab.measure.durability import look
from storelab.stores.protocols.endpoint import Endpoint

SIZE = 5000


class Held:
    """What a store holds: path of bucket and key -> bytes, or an exception; `ends` it was asked through."""

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
    monkeypatch.setattr(look.s3_library, "store", lambda end, bucket, waits: (end.url, bucket))
    monkeypatch.setattr(look, "PAUSE_S", 0.01)
    return it


class Written:
    """A ledger that is written here, and the objects that it stands for."""

    def __init__(self, folder, rewritten, rank=0):
        folder.mkdir(exist_ok=True)
        self.folder, self.path = folder, ledger.begin(job(folder, clients=2, rank=rank, size=SIZE), rewritten)
        self.book, self.writer = ledger.Ledger(self.path), ledger.Book(self.path).writer(0)
        self.bodies = [f.read_bytes() for f in payload.body_files(folder / "scratch", 7, SIZE)]

    def note(self, number, generation, kind, acked=True, at=1000):
        self.writer[0](number, generation, kind, at)
        if acked:
            self.writer[1](at + 10)

    def path_of(self, number):
        bucket, key = self.book.place(number)
        return f"{bucket.name}/{key}"

    def content(self, number, generation):
        if not self.book.head["rewritten"]:
            return self.bodies[number % 4]
        return ledger.stamp(self.book.mark, number, generation) + self.bodies[(number + generation) % 4][ledger.STAMP :]

    def read(self, live=False, ends=("a",), **more):
        told = {
            "ledgers": [str(self.path)],
            "endpoints": [asdict(Endpoint(e)) for e in ends],
            "scratch": str(self.folder / "scratch"),
        }
        return look.reading(told | {"live": live, "most": 100, "seconds": 30, "threads": 3, "seed": 1} | more)


def faults(found):
    return {f: found[f] for f in look.FAULTS if found[f]}


@pytest.mark.parametrize("piece", [700, 24, 9000])
def test_what_must_be_there_is_there(tmp_path, held, piece):
    held.piece = piece
    for rewritten in (True, False):
        it = Written(tmp_path / str(rewritten), rewritten)
        for number in range(8):
            it.note(number, 1, ledger.NEW)
            held.objects[it.path_of(number)] = it.content(number, 1)
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


@pytest.mark.parametrize("rewritten", [True, False])
def test_every_byte_is_compared(tmp_path, held, rewritten):
    it = Written(tmp_path / "x", rewritten)
    whole = it.content(0, 1)
    changed = [wrong(whole, at) for at in (0, 11, 12, 20, 23, 24, 699, 700, 4200, SIZE - 1)]
    changed += [whole[:-1], whole + b"x", whole[:10], b"", it.content(1, 1), whole[:24] + it.content(1, 1)[24:]]
    for n, data in enumerate(changed):
        it.note(4 * n, 1, ledger.NEW)
        held.objects[it.path_of(4 * n)] = data if not rewritten else _stamped_for(it, 4 * n, data, whole)
    assert faults(it.read()) == {"corrupted": len(changed)}


def _stamped_for(it, number, data, whole):
    """The same change to the object of another key (with the same body), if the change is not in its stamp."""
    return it.content(number, 1)[:24] + data[24:] if data[:24] == whole[:24] else data


def test_each_fault_is_told_with_an_example(tmp_path, held):
    it = Written(tmp_path / "x", True)
    for number in range(5):
        it.note(number, 1, ledger.NEW)
        it.note(number, 2, ledger.OVERWRITE if number != 2 else ledger.DELETE, at=2000)
    held.objects = {
        it.path_of(1): it.content(1, 1),
        it.path_of(2): it.content(2, 1),
        it.path_of(3): wrong(it.content(3, 2), 100),
        it.path_of(4): RuntimeError("the disk\nis gone"),
    }
    found = it.read()
    assert faults(found) == dict.fromkeys(("lost", "corrupted", "stale", "resurrected", "unreadable"), 1)
    told = {e["fault"]: e for e in found["examples"]}
    expected = {
        "lost": (0, "version 2", "nothing"),
        "stale": (1, "version 2", "version 1"),
        "resurrected": (2, "its deletion", "version 1"),
        "corrupted": (3, "version 2", "bytes that were not written to it"),
        "unreadable": (4, "version 2", "no answer: the disk is gone"),
    }
    for fault, (number, acknowledged, read) in expected.items():
        assert told[fault] == {
            "key": it.path_of(number),
            "fault": fault,
            "acknowledged": acknowledged,
            "acknowledged_ns": 2010,
            "read": read,
        }


def test_a_look_that_fails_goes_to_the_next_front_end(tmp_path, held):
    it = Written(tmp_path / "x", True)
    for number in range(6):
        it.note(number, 1, ledger.NEW)
        held.objects[it.path_of(number)] = {"c": it.content(number, 1)}
    assert not faults(it.read(ends=("a", "b", "c"))) and {*held.ends} == {"a", "b", "c"}
    assert faults(it.read(ends=("a", "b"))) == {"unreadable": 6} and len(held.ends) > 6 * 3


def test_a_sample_and_a_bound_in_time(tmp_path, held):
    it = Written(tmp_path / "x", False)
    for number in range(40):
        it.note(number, 1, ledger.NEW)
        held.objects[it.path_of(number)] = it.content(number, 1)
    some = it.read(most=7)
    assert (some["states"], some["read"]) == (40, 7)
    for number in range(40):
        held.objects[it.path_of(number)] = RuntimeError("silent")
    begun = time.monotonic()
    few = it.read(seconds=0.03)
    assert 0 < few["read"] < 40 and few["unreadable"] == few["read"] and time.monotonic() - begun < 5
    assert len(it.read()["examples"]) == 10


def test_a_look_beside_the_writer_takes_what_it_wrote_meanwhile(tmp_path, held, monkeypatch):
    """The version that is seen was begun after the ledger was first read; one that is long acknowledged must be seen."""
    it = Written(tmp_path / "x", True)
    now = time.time_ns()
    for number in range(4):
        it.note(number, 1, ledger.NEW, at=now - 10**9)
    held.objects = {it.path_of(n): it.content(n, 1) for n in range(4)}
    original = held.get

    def get(store, name):
        if name == it.book.place(0)[1] and it.path_of(0) in held.objects and not held.ends.count("done"):
            held.ends.append("done")
            it.note(0, 2, ledger.OVERWRITE, acked=False, at=time.time_ns())
            held.objects[it.path_of(0)] = it.content(0, 2)
        return original(store, name)

    held.get = get
    assert not faults(it.read(live=True))
    it.note(1, 2, ledger.OVERWRITE, at=time.time_ns())  # just now: the look may have come before
    assert not faults(it.read(live=True))
    it.note(2, 2, ledger.OVERWRITE, at=now - 5 * 10**8)
    assert faults(it.read(live=True)) == {"stale": 1}
    assert faults(it.read()) == {"stale": 2}


def test_after_the_clients_every_acknowledgement_counts(tmp_path, held):
    """Also one that is late by the clock of this process."""
    it = Written(tmp_path / "x", True)
    it.note(0, 1, ledger.NEW, at=time.time_ns() + 60 * 10**9)
    assert faults(it.read()) == {"lost": 1} and not faults(it.read(live=True))


def test_ledgers_of_several_clients(tmp_path, held):
    first, second = Written(tmp_path / "x", True), Written(tmp_path / "x", False, rank=1)
    for it in (first, second):
        it.note(3, 1, ledger.NEW)
        held.objects[it.path_of(3)] = it.content(3, 1)
    both = [str(first.path), str(second.path)]
    assert first.path_of(3) != second.path_of(3) and not faults(first.read(ledgers=both))
    del held.objects[second.path_of(3)]
    found = first.read(ledgers=both)
    assert faults(found) == {"lost": 1} and found["examples"][0]["key"] == second.path_of(3) and found["states"] == 2
