"""Counts of a worker of `consistency`: rounds with a store in memory that gives wrong answers on purpose."""

import pytest
from fake_clock import FakeClock
from memory_view import Memory, counts

from storelab.workloads.consistency import rounds
from storelab.workloads.consistency.rounds import Worker
from storelab.workloads.consistency.seen import ABSENT, FAILED, OBJECTS, Ledger, Seen

SECOND = 1_000_000_000


@pytest.fixture
def worked(monkeypatch):
    """Return a function that runs rounds at views with faults; it returns the ledger and the (operation, front-end)."""
    time = FakeClock(monkeypatch, rounds)

    def run(count, fault=lambda *_: None, last_look=False, views=2):
        ledger, objects, asked = Ledger(0, {}, 1, OBJECTS, views), {}, []
        ledger.deadline_ns = time.ns + 60 * SECOND
        worker = Worker(0, [Memory(n, objects, fault, asked) for n in range(views)], ledger, "w/", 300, 1)
        objects["w/anchor"] = b"x"
        for n in range(count):
            worker.round(n)
        if last_look:
            worker.last_look()
        return ledger, asked

    return run


def test_right_store_is_tried_in_every_scenario(worked):
    ledger, asked = worked(4, last_look=True)
    # Each round lists twice and reads one deleted key again; the final check lists twice and reads all four. A listing
    # tries `comes_back_listed` once for each front-end through which a key was deleted before.
    assert counts(ledger) == {
        "read_after_write": (4, 0, 0),
        "list_after_write": (4, 0, 0),
        "overwrite": (4, 0, 0),
        "monotonic_reads": (8, 0, 0),
        "read_after_delete": (4, 0, 0),
        "list_after_delete": (4, 0, 0),
        "comes_back": (4 + 4, 0, 0),
        "comes_back_listed": (2 + 2 + 4 + 4, 0, 0),
        "listing_works": (8 + 2, 0, 0),
    }
    assert [n for op, n in asked if op == "PUT"] == [0] * 4 + [1] * 4, "each front-end writes in two rounds"
    assert all(ledger.counts[name, same]["tried"] for name in OBJECTS[:-3] for same in (True, False))


def test_each_fault_is_counted_where_it_belongs(worked):
    """Cases: a fault of one answer, or of all; (tries, anomalies, errors) of the scenarios that it is in."""
    failed = Seen(0, 0, FAILED, 500, "InternalError")
    first = "w/0000000"
    turns = {}

    def nth(op, number, answer):
        """Put a fault into the answer with this number to an operation on the first key."""

        def fault(asked, key, view):
            if (asked, key) != (op, first):
                return None
            turns[op] = turns.get(op, 0) + 1
            return answer if turns[op] == number else None

        return fault

    def always(op, answer, key=first):
        return lambda asked, name, view: answer if (asked, name) == (op, key) else None

    listed = Seen(0, 0, names={first: 300})
    cases = (
        ("put fails", nth("PUT", 1, failed), {"read_after_write": (0, 0, 1), "overwrite": (0, 0, 0)}),
        ("second put fails", nth("PUT", 2, failed), {"overwrite": (0, 0, 1), "monotonic_reads": (0, 0, 0)}),
        ("delete fails", nth("DELETE", 1, failed), {"read_after_delete": (0, 0, 1)}),
        ("late", nth("GET", 1, Seen(0, 0, ABSENT)), {"read_after_write": (1, 1, 0), "overwrite": (1, 0, 0)}),
        ("never", always("GET", Seen(0, 0, ABSENT)), {"read_after_write": (1, 1, 0), "overwrite": (0, 0, 0)}),
        ("deleted is read", nth("GET", 5, Seen(0, 0, data=b"x")), {"read_after_delete": (1, 1, 0)}),
        ("listing fails once", nth_listing(1, failed), {"listing_works": (1, 0, 1), "list_after_write": (0, 0, 1)}),
        ("listing fails", always("LIST", failed, "w/"), {"listing_works": (2, 2, 0)}),
        ("deleted is listed", nth_listing(2, listed), {"list_after_delete": (1, 1, 0)}),
    )
    wrong = []
    for name, fault, expected in cases:
        turns.clear()
        ledger, _ = worked(1, fault)
        found = counts(ledger)
        wrong += [(name, s, found[s], numbers) for s, numbers in expected.items() if found[s] != numbers]
    assert not wrong, wrong


def nth_listing(number, answer):
    """Return a fault in one listing."""
    turn = iter(range(1, 1_000_000))
    return lambda op, key, view: answer if op == "LIST" and next(turn) == number else None


def test_deleted_key_that_comes_back_is_counted_once(worked):
    """The third listing, of the second round, shows the key of the first one again."""
    back = Seen(0, 0, names={"w/0000000": 300, "w/0000001": 300})
    ledger, _ = worked(2, nth_listing(3, back))
    found = counts(ledger)["comes_back_listed"]
    assert found == (1, 1, 0), found
    assert [(a[0], a[1]) for a in ledger.anomalies] == [("comes_back_listed", "w/0000000")]
