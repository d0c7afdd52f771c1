"""Shared parts of engines of transfers: the outcome of a run, and places of ranges."""

import random
from types import SimpleNamespace

from storelab.engines.common.objects import fixed_offset, range_begins
from storelab.engines.common.transfers import TransferClient
from storelab.engines.contract import Check


class Silent(TransferClient):
    engine = "silent"

    def prepare(self): ...

    def run(self, start_ns, deadline_ns): ...

    def result(self): ...


def outcome(good, messages, samples=(), checks=(), compared=None, differing=0):
    one = object.__new__(Silent)
    one.workers, one.samples, one.messages = 2, list(samples), messages
    one.job = SimpleNamespace(endpoint=SimpleNamespace(url="https://s3"))
    one.compared, one.differing = compared, differing
    return one.outcome({}, good, "1.0", {}, {}, list(checks))


def test_run_without_success_fails():
    for good, detail in ((0, "at https://s3: 503 from the store"), (1, "503 from the store")):
        result = outcome(good, {"SlowDown": "503 from the store"}, [(0, 3), (1, 5)])
        (check,) = result.checks
        assert (check.name, check.ok, check.detail) == ("operations completed", good > 0, detail)
        assert result.connections["max"] == 5


def test_record_has_share_of_compared_answers():
    checks = [Check("content", True, "4 of 4 right"), Check("body files", True, "same")]
    result = outcome(42, {}, checks=checks, compared=4)
    assert result.engine["compared"] == 4
    assert [c.detail for c in result.checks[1:]] == ["4 of 4 right; 4 of 42 answers were compared (9.52 %)", "same"]
    assert "compared" not in outcome(42, {}, checks=checks).engine
    wrong = outcome(10, {}, checks=checks, compared=40, differing=30)  # those that differ do not count as good
    assert wrong.checks[1].detail.endswith("40 of 40 answers were compared (100 %)")


def test_failed_run_names_endpoint_and_cause():
    for messages, words in (
        ({}, ("https://s3", "`duration`")),
        ({"ConnectionRefused": "dial tcp: refused"}, ("https://s3", "no answer from", "dial tcp: refused")),
        ({"AccessDenied": ""}, ("https://s3", "AccessDenied")),
    ):
        (check,) = outcome(0, messages).checks
        assert not check.ok and all(word in check.detail for word in words), check.detail


def test_sequential_ranges_cover_the_object_once():
    for size in (900, 1000):
        assert list(range_begins("sequential", size, 300, random.Random(1))) == [0, 300, 600]


def test_random_ranges_reach_both_ends():
    rng = random.Random(1)
    assert {b for _ in range(300) for b in range_begins("random", 12, 10, rng)} == {0, 1, 2}


def test_ranges_begin_at_a_fixed_place():
    for offset, begin in (("1MB", 10**6), ("0B", 0)):
        assert list(range_begins(offset, 10**7, 5, random.Random(1))) == [begin] == [fixed_offset(offset)]
