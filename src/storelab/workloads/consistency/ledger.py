"""What the checkers of one client write down: operations, tries, anomalies. Thread-safe, in memory."""

import threading
from typing import Any

from storelab.core import clock
from storelab.engines.common.guard import Guard
from storelab.workloads.consistency.seen import FAILED, Seen

OBJECTS = (
    "read_after_write",
    "list_after_write",
    "overwrite",
    "monotonic_reads",
    "read_after_delete",
    "list_after_delete",
    "comes_back",
    "comes_back_listed",
    "listing_works",
)
ONCE = (  # looked at by one worker of the point only
    "listing_complete",
    "bucket_usable",
    "bucket_listed",
    "bucket_gone",
    "bucket_unlisted",
    "bucket_comes_back",
    "listed_bucket_exists",
)
MOST_ROWS = 20_000  # anomalies that are written down one by one; further ones are counted


class TimeUp(Exception):
    """The deadline is over: what came later is neither recorded nor judged."""


class Ledger:
    """`scenarios`: names that this client tries; `front_ends`: with one, there is no other front-end to look
    through."""

    def __init__(self, client: int, limits: dict[str, Any], clients: int, scenarios: tuple[str, ...], front_ends: int):
        self.client, self.deadline_ns = client, 0
        self.lock = threading.RLock()
        self.rows: list[tuple[int, str, str, int, int | None, int, int, int, str | None]] = []
        self.anomalies: list[tuple[str, str, bool, int, int | None, int, str]] = []
        modes = (True, False) if front_ends > 1 else (True,)
        self.counts = {(s, same): {"tried": 0, "anomalies": 0, "errors": 0} for s in scenarios for same in modes}
        self.messages: dict[str, str] = {}
        self.moved = self.uploaded = self.requests = self.failed = self.cut_off = 0
        self.over = threading.Event()  # every worker ends as soon as it sees this
        self._flow = Guard({**limits, "room_bytes": None}, clients)
        self._room = Guard({"room_bytes": limits.get("room_bytes"), "error_fraction": 1.0}, clients)

    def operation(self, worker: int, op: str, key: str, size_bytes: int, seen: Seen) -> None:
        """One row of `records.OPS`. Raises TimeUp for what ended after the deadline, LimitExceeded."""
        error = seen.error or seen.state if seen.state == FAILED else None
        with self.lock:
            if seen.end_ns > self.deadline_ns or self.over.is_set():
                self.cut_off += 1
                raise TimeUp
            self.rows.append(
                (
                    worker,
                    op,
                    key,
                    0 if error else size_bytes,
                    seen.requests,
                    seen.start_ns,
                    seen.end_ns,
                    seen.status,
                    error,
                )
            )
            self.requests += seen.requests or 1
            if error:
                self.failed += 1
                self.messages.setdefault(error, f"{op} {key}: {seen.message or error}"[:300])
            else:
                self.moved += size_bytes
                self.uploaded += size_bytes if op == "PUT" else 0
            self._flow.observe(seen.end_ns, self.moved, self.requests, len(self.rows) - self.failed, self.failed)
            self._room.observe(seen.end_ns, self.uploaded, 0, 0, 0)

    def count(self, scenario: str, same: bool, what: str) -> None:
        """`tried`: the answer told something; `anomalies`: it was wrong; `errors`: the look, or the write before it,
        failed, which says nothing."""
        with self.lock:
            self.counts.setdefault((scenario, same), {"tried": 0, "anomalies": 0, "errors": 0})[what] += 1

    def anomaly(
        self, scenario: str, same: bool, key: str, since_ns: int, lasted_ns: int | None, watched_ns: int, evidence: str
    ) -> None:
        """A try that was answered wrongly. lasted_ns: until it was right, None where it never was while it was
        watched."""
        with self.lock:
            self.count(scenario, same, "tried")
            self.count(scenario, same, "anomalies")
            if len(self.anomalies) < MOST_ROWS:
                self.anomalies.append((scenario, key, same, since_ns, lasted_ns, watched_ns, evidence[:500]))

    def left_ns(self) -> int:
        return self.deadline_ns - clock.now_ns() if not self.over.is_set() else 0

    def total(self, what: str) -> int:
        return sum(c[what] for c in self.counts.values())

    def ops(self) -> dict[str, Any]:
        """Columns of `records.OPS`."""
        worker, op, key, size, requests, begun, ended, status, error = list(zip(*self.rows, strict=True)) or [
            [] for _ in range(9)
        ]
        return {
            "client": [self.client] * len(worker),
            "worker": worker,
            "op": op,
            "object": key,
            "count": [1] * len(worker),
            "bytes": size,
            "requests": requests,
            "start_ns": begun,
            "end_ns": ended,
            "status": status,
            "error": error,
        }

    def tables(self) -> dict[str, dict[str, Any]]:
        """Columns of `records.ANOMALIES` and `records.SCENARIOS`."""
        scenario, key, same, since, lasted, watched, evidence = list(zip(*self.anomalies, strict=True)) or [
            [] for _ in range(7)
        ]
        return {
            "anomalies": {
                "client": [self.client] * len(scenario),
                "scenario": scenario,
                "key": key,
                "same_front_end": same,
                "start_ns": since,
                "lasted_ns": lasted,
                "watched_ns": watched,
                "evidence": evidence,
            },
            "scenarios": {
                "client": [self.client] * len(self.counts),
                "scenario": [s for s, _ in self.counts],
                "same_front_end": [same for _, same in self.counts],
                **{what: [c[what] for c in self.counts.values()] for what in ("tried", "anomalies", "errors")},
            },
        }
