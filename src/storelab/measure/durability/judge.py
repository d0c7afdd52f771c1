"""What may be seen of a key, by the ledger of its only writer, and what it means when something else is seen. Pure.

The writer does one operation at a time. One that was acknowledged took effect between its begin and its
acknowledgement. One that was not may take effect at any time after its begin, or never: a request may wait in a server
that hangs, and be carried out when its client has long given it up.
"""

from collections.abc import Sequence
from typing import NamedTuple

ABSENT, FOREIGN, UNREADABLE = 0, -1, -2  # seen: nothing; bytes that nobody wrote to this key; no answer
LOST, CORRUPTED, STALE, RESURRECTED, UNREAD = "lost", "corrupted", "stale", "resurrected", "unreadable"
FAULTS = (LOST, CORRUPTED, STALE, RESURRECTED, UNREAD)
FOREVER = 2**63 - 1


class Write(NamedTuple):
    """One write of a key. generation: its number in the key's history, from 1; ack_ns: 0 if it was not acknowledged."""

    generation: int
    deletes: bool
    begin_ns: int
    ack_ns: int

    @property
    def effect(self) -> int:
        """What is seen after it: its generation, or ABSENT."""
        return ABSENT if self.deletes else self.generation


def last_acknowledged(writes: Sequence[Write], by_ns: int = FOREVER) -> Write | None:
    """The last write that was acknowledged by then."""
    return next((w for w in reversed(writes) if 0 < w.ack_ns <= by_ns), None)


def allowed(writes: Sequence[Write], begin_ns: int = FOREVER, end_ns: int = FOREVER) -> set[int]:
    """What a look that began and ended at these times may see; by default one after all writes. writes: of one key, in
    order."""
    base = last_acknowledged(writes, begin_ns)
    pending = {w.effect for w in writes if w.begin_ns <= end_ns and not 0 < w.ack_ns <= begin_ns}
    return {base.effect if base else ABSENT} | pending


def judge(writes: Sequence[Write], seen: int, begin_ns: int = FOREVER, end_ns: int = FOREVER) -> str:
    """'' where this may be seen, else the fault: lost, corrupted, stale (an older object than the one acknowledged
    last), resurrected (an object although its deletion was acknowledged last), unreadable."""
    if seen == UNREADABLE:
        return UNREAD
    if seen in allowed(writes, begin_ns, end_ns):
        return ""
    if seen == ABSENT:
        return LOST
    if not any(w.effect == seen and w.begin_ns <= end_ns for w in writes):
        return CORRUPTED
    base = last_acknowledged(writes, begin_ns)
    return RESURRECTED if base and base.deletes else STALE
