"""Possible content of a store after acknowledged and unknown writes, compared with every order of their effects."""

import itertools

from storelab.measure.look import ABSENT, FOREIGN, UNREADABLE, Write, allowed, judge

STEP = 8  # between the begins of two writes; an acknowledgement comes half-way


def reference(ops):
    """Return the possible final content after (effect, acknowledged) in order: the last of every possible order."""
    out = set()
    for n in range(len(ops) + 1):
        for order in itertools.permutations(range(len(ops)), n):
            whole = all(i in order for i, (_, acked) in enumerate(ops) if acked)
            fits = not any(b < a and ops[b][1] for a, b in itertools.combinations(order, 2))
            if whole and fits:
                out.add(ops[order[-1]][0] if order else ABSENT)
    return out


def histories(most):
    """Yield all orders of acknowledged and unknown puts and deletions of one key."""
    for n in range(1, most + 1):
        for kinds in itertools.product((False, True), repeat=n):
            for acks in itertools.product((False, True), repeat=n):
                yield [
                    Write(i + 1, deletes, STEP * (i + 1), STEP * (i + 1) + STEP // 2 if acked else 0)
                    for i, (deletes, acked) in enumerate(zip(kinds, acks, strict=True))
                ]


def test_final_states_are_those_of_some_order():
    tried = 0
    for writes in histories(4):
        assert allowed(writes) == reference([(w.effect, w.ack_ns > 0) for w in writes]), writes
        tried += 1
    assert tried == 4 + 16 + 64 + 256


def seen_by(times, writes, at):
    """Return the result of a read at a time, if the writes took effect at these times (None: never)."""
    done = [(t, w.effect) for t, w in zip(times, writes, strict=True) if t is not None and t <= at]
    return max(done, default=(0, ABSENT))[1]


def test_states_seen_meanwhile_are_those_of_some_moment():
    """A write takes effect at its begin, at its acknowledgement or, if unknown, at any such time later."""
    for writes in histories(3):
        times = range(STEP, STEP * (len(writes) + 2), STEP // 2)
        looks = [t + STEP // 4 for t in range(0, times[-1] + 1, STEP // 2)]
        later = {w: [None, *(t for t in times if t >= w.begin_ns)] for w in writes}
        moments = [(w.begin_ns, w.ack_ns) if w.ack_ns else later[w] for w in writes]
        seen = {at: {seen_by(world, writes, at) for world in itertools.product(*moments)} for at in looks}
        for begin, stop in itertools.combinations_with_replacement(looks, 2):
            true = set().union(*(seen[at] for at in looks if begin <= at <= stop))
            assert allowed(writes, begin, stop) == true, (writes, begin, stop)


PUT, OVER, GONE, AGAIN = (Write(n, n == 3, 10 * n, 10 * n + 5) for n in (1, 2, 3, 4))
UNKNOWN = Write(4, False, 40, 0)


def test_each_wrong_state_has_its_fault():
    for writes, faults in (
        ([PUT], {1: "", ABSENT: "lost", FOREIGN: "corrupted", UNREADABLE: "unreadable", 2: "corrupted"}),
        ([PUT, OVER], {2: "", 1: "stale", ABSENT: "lost"}),
        ([PUT, OVER, GONE], {ABSENT: "", 1: "resurrected", 2: "resurrected", FOREIGN: "corrupted", 3: "corrupted"}),
        ([PUT, OVER, GONE, AGAIN], {4: "", 2: "stale", ABSENT: "lost", 5: "corrupted"}),
        ([PUT, OVER, GONE, UNKNOWN], {4: "", ABSENT: "", 1: "resurrected"}),
    ):
        assert {state: judge(writes, state) for state in faults} == faults


def test_time_of_the_check_decides():
    """A write counts from its acknowledgement; a version that is written after the look cannot be seen by it."""
    for writes, state, begin, stop, fault in (
        ([PUT], ABSENT, 12, 13, ""),
        ([PUT], ABSENT, 14, 15, ""),
        ([PUT], ABSENT, 15, 15, "lost"),
        ([PUT], ABSENT, 16, 17, "lost"),
        ([PUT, OVER], 2, 12, 18, "corrupted"),
        ([PUT, OVER], 2, 12, 21, ""),
        ([PUT, OVER], 1, 21, 24, ""),
        ([PUT, OVER], 1, 24, 25, ""),
        ([PUT, OVER], 1, 25, 25, "stale"),
        ([PUT, OVER], 1, 26, 27, "stale"),
    ):
        assert judge(writes, state, begin, stop) == fault, (writes, state, begin, stop)
