"""The program s5cmd against a store in memory: what it is asked to do, and what is counted of it."""

import threading
from collections import Counter

import pytest
from honest_s3 import FIRST, honest_s3
from staged_bodies import staged

from storelab.core import clock
from storelab.core.records import HUNG
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.s5cmd import client, transfers

MIB = 2**20
MINUTE = 60 * 10**9  # no test waits for it


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A function that returns a prepared client of a kind, and its store of six objects of 1000 B."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", FIRST.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", FIRST.secret_key)
    made = []
    folder = tmp_path / "a scratch folder's"
    folder.mkdir()
    with honest_s3("any signature") as (url, store):

        def one(kind, **more):
            made.append(kind(staged(store, url, folder, 1000, 6, **more)))
            made[-1].prepare()
            return made[-1], store

        yield one
        for each in made:
            each.close()


def run(one):
    start = clock.now_ns()
    one.run(start, start + MINUTE)


def test_requests_of_an_operation():
    for op, size, multipart, part, requests in (
        ("PUT", 0, True, 0, 1),
        ("PUT", 50 * MIB, True, 0, 1),
        ("PUT", 50 * MIB + 1, True, 0, 2 + 2),
        ("PUT", 50 * MIB + 1, False, 0, 1),
        ("PUT", 20 * MIB, True, 8 * MIB, 3 + 2),
        ("GET", 0, True, 0, 1 + 1),
        ("GET", 50 * MIB + 1, True, 0, 1 + 2),
        ("GET", 50 * MIB + 1, False, 0, 1 + 2),
    ):
        assert client.requests_per_operation(op, size, multipart, part) == requests, (op, size, multipart, part)


def test_objects_are_read_once(prepared):
    """The program ends by itself, also where an object is missing: that is an error, and no object is cut off."""
    for missing in (0, 1):
        one, store = prepared(transfers.S5cmdGet, access="once")
        if missing:
            del store.buckets["b"].objects["p/data/d/0000003"]
        store.asked.clear()
        run(one)
        result = one.result()
        assert one.exit_status == missing
        names = ("something moved", "exit status", "summary", "content")
        assert {c.name: c.ok for c in result.checks} == dict.fromkeys(names, True)
        assert Counter(result.ops["error"]) == Counter({None: 6 - missing, "NoSuchKey": missing})
        assert result.engine["cut_off"] == 0 and sum(result.ops["bytes"]) == 1000 * (6 - missing)
        assert Counter(method for method, *_ in store.asked) == {"HEAD": 6, "GET": 6}
        assert result.engine["requests_per_operation"] == {"GET": 2}


def test_uploads_end_at_the_room_in_the_store(prepared):
    one, _ = prepared(transfers.S5cmdPut, limits={"room_bytes": 20_000})
    with pytest.raises(LimitExceeded, match="the room in the store"):
        run(one)


def test_operations_of_a_cut_link_hung(prepared):
    """From the middle of the window on nothing is answered: the operations in flight count, and those before."""
    for cut in (True, False):
        one, store = prepared(transfers.S5cmdGet)
        threading.Timer(0.8, store.silent.set if cut else int).start()
        start = clock.now_ns()
        one.run(start, start + 3 * 10**9)
        store.silent.clear()
        result = one.result()
        good, hung, failed = (result.ops["error"].count(kind) for kind in (None, HUNG, "RequestError"))
        assert good > 5 and not failed and {c.ok for c in result.checks} == {True}
        engine = result.engine
        assert engine["hung"] == (2 if cut else None), engine
        assert hung == (2 if cut else 0) and (HUNG in engine["errors"]) == cut
        if cut:
            assert 2.0 < engine["hung_s"] / 2 < 2.4 and result.ops["end_ns"][-1] == start + 3 * 10**9
        assert len({len(column) for column in result.ops.values()}) == 1


def test_program_that_ends_early_is_reported(prepared):
    """An endless list has no end: a program that ends before the deadline failed, whatever its exit status."""
    one, _ = prepared(transfers.S5cmdPut)
    one.commands = lambda: iter(())
    run(one)
    check = next(c for c in one.result().checks if c.name == "exit status")
    assert one.exit_status == 0 and not check.ok and "before the deadline" in check.detail
