"""Counts and remaining buckets of the worker that makes buckets, with a store in memory."""

import pytest
from fake_clock import FakeClock
from memory_view import Memory, counts

from storelab.workloads.consistency import rounds
from storelab.workloads.consistency.rounds import Many, NamespaceWorker
from storelab.workloads.consistency.seen import ABSENT, FAILED, OBJECTS, ONCE, Ledger, Seen


@pytest.fixture
def worked(monkeypatch):
    """Return a function that runs rounds next to another user's bucket; it returns counts, buckets and the worker."""
    time = FakeClock(monkeypatch, rounds)

    def run(count, fault=lambda *_: None):
        ledger, buckets = Ledger(0, {}, 1, OBJECTS + ONCE, 2), {"other"}
        ledger.deadline_ns = time.ns + 60 * 10**9
        objects = {"w/anchor": b"x"}
        views = [Memory(n, objects, lambda *asked: fault(buckets, *asked), [], buckets) for n in range(2)]
        worker = NamespaceWorker(0, views, ledger, "w/", 300, 1)
        worker.prepare(Many("many/"), "c-x-")
        for n in range(count):
            worker.round(n)
            time.ns += 300_000_000
        return counts(ledger), buckets, worker

    return run


def test_each_bucket_is_tried_in_every_scenario(worked):
    found, buckets, worker = worked(4)
    # A bucket is checked twice; a list of buckets tries `bucket_comes_back` once for each front-end through which one
    # was deleted before.
    expected = {
        "bucket_usable": 4 * 2,
        "bucket_listed": 4,
        "bucket_gone": 4,
        "bucket_unlisted": 4,
        "bucket_comes_back": 2 + 2 + 4,
        "listed_bucket_exists": 4,
    }
    assert {name: found[name] for name in expected} == {name: (tried, 0, 0) for name, tried in expected.items()}
    assert buckets == {"other"} and not worker.buckets_left


def test_buckets_that_cannot_be_deleted_are_removed_at_the_end(worked):
    refused = []
    fault = lambda buckets, op, *_: Seen(0, 0, FAILED) if op == "DELETE_BUCKET" and not refused else None  # noqa: E731
    found, buckets, worker = worked(2, fault)
    assert found["bucket_gone"] == (0, 0, 2) and buckets == {"other", "c-x-00000", "c-x-00001"}
    refused.append("no more")
    worker.close()
    assert buckets == {"other"}


def test_bucket_deleted_by_user_is_not_an_anomaly(worked):
    """It is listed, missing when it is checked, and no longer listed afterwards."""

    def fault(buckets, op, bucket, _):
        if (op, bucket) == ("HEAD_BUCKET", "other"):
            buckets.discard("other")
            return Seen(0, 0, ABSENT)
        return None

    assert worked(1, fault)[0]["listed_bucket_exists"] == (1, 0, 0)
