"""What engines of transfers share: the outcome of a run, and places of ranges."""

import random
from types import SimpleNamespace

from storelab.engines.common.ranges import begins, fixed
from storelab.engines.common.transfers import TransferClient


class Silent(TransferClient):
    engine = "silent"

    def prepare(self): ...

    def run(self, start_ns, deadline_ns): ...

    def result(self): ...


def outcome(good, messages, samples=()):
    one = object.__new__(Silent)
    one.workers, one.samples, one.messages = 2, list(samples), messages
    one.job = SimpleNamespace(endpoint=SimpleNamespace(url="https://s3"))
    return one.outcome({}, good, "1.0", {}, {}, [])


def test_run_without_success_fails():
    for good, detail in ((0, "at https://s3: 503 from the store"), (1, "503 from the store")):
        result = outcome(good, {"SlowDown": "503 from the store"}, [(0, 3), (1, 5)])
        (check,) = result.checks
        assert (check.name, check.ok, check.detail) == ("something moved", good > 0, detail)
        assert result.connections["max"] == 5


def test_failed_run_names_endpoint_and_cause():
    for messages, words in (
        ({}, ("https://s3", "`duration`")),
        ({"ConnectionRefused": "dial tcp: refused"}, ("https://s3", "nobody answers", "dial tcp: refused")),
        ({"AccessDenied": ""}, ("https://s3", "AccessDenied")),
    ):
        (check,) = outcome(0, messages).checks
        assert not check.ok and all(word in check.detail for word in words), check.detail


def test_sequential_ranges_cover_the_object_once():
    for size in (900, 1000):
        assert list(begins("sequential", size, 300, random.Random(1))) == [0, 300, 600]


def test_random_ranges_reach_both_ends():
    rng = random.Random(1)
    assert {b for _ in range(300) for b in begins("random", 12, 10, rng)} == {0, 1, 2}


def test_ranges_begin_at_a_fixed_place():
    for offset, begin in (("1MB", 10**6), ("0B", 0)):
        assert list(begins(offset, 10**7, 5, random.Random(1))) == [begin] == [fixed(offset)]
