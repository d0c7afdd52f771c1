"""Pauses of a client: late ticks are found with their begin and length, and the longest are kept."""

from itertools import accumulate
from types import SimpleNamespace

from storelab.engines.common import pauses
from storelab.engines.common.pauses import FROM_NS, TICK_NS

QUIET = {"count": 0, "sum_ns": 0, "longest_ns": 0, "longest": []}


def watched(monkeypatch, *lasted_ns):
    """Return the record of a watch whose sleeps last so long, one after the other."""
    watch, now, left = pauses.Watch(), [0], list(lasted_ns)

    def sleep(seconds):
        assert seconds == TICK_NS / 1e9
        now[0] += left.pop(0)
        if not left:
            watch.ended.set()

    monkeypatch.setattr(pauses, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(pauses, "clock", SimpleNamespace(now_ns=lambda: now[0]))
    watch.start()
    watch.ended.wait(60)
    return watch.stop()


def test_late_tick_is_a_pause(monkeypatch):
    late = (FROM_NS, 5 * TICK_NS, FROM_NS - 1, 10**9)
    found = watched(monkeypatch, TICK_NS, *(TICK_NS + ns for ns in late))
    ends = list(accumulate(TICK_NS + ns for ns in (0, *late)))[1:]
    wanted = [(end - ns, ns) for end, ns in zip(ends, late, strict=True) if ns >= FROM_NS]
    assert found["longest"] == wanted, "a pause begins when the clock should have ticked"
    assert found == {"count": 3, "sum_ns": sum(ns for _, ns in wanted), "longest_ns": 10**9, "longest": wanted}


def test_punctual_ticks_are_no_pauses(monkeypatch):
    assert watched(monkeypatch, *[TICK_NS, TICK_NS + FROM_NS - 1] * 20) == QUIET


def test_longest_pauses_are_kept(monkeypatch):
    lengths = [FROM_NS + i * 7 % 250 for i in range(250)]  # each from 0 to 249 once
    found = watched(monkeypatch, *(TICK_NS + length for length in lengths))
    assert (found["count"], found["sum_ns"], found["longest_ns"]) == (250, sum(lengths), FROM_NS + 249)
    begins = [end - length for end, length in zip(accumulate(TICK_NS + n for n in lengths), lengths, strict=True)]
    kept = [(begin, length) for begin, length in zip(begins, lengths, strict=True) if length >= FROM_NS + 150]
    assert found["longest"] == kept and len(kept) == pauses.MOST


def test_processes_of_a_client_together():
    quiet = {"count": 1, "sum_ns": 20, "longest_ns": 20, "longest": [(7, 20)]}
    loud = {"count": 3, "sum_ns": 48, "longest_ns": 19, "longest": [(1, 19), (2, 14), (9, 15)]}
    longest = [(1, 19), (2, 14), (7, 20), (9, 15)]
    assert pauses.together([quiet, loud]) == loud | {"longest_ns": 20, "longest": longest}
