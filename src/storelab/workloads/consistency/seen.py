"""Represent answers of a store, make bodies that identify themselves, and record the checks of one client."""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from storelab.core import clock
from storelab.engines.common.guard import Guard

OK, ABSENT, FAILED = "ok", "absent", "failed"


@dataclass(frozen=True)
class Seen:
    """One answer. Times are UTC in ns.

    Attributes
    ----------
    state
        `ok`; `absent`: the store reports that the object does not exist; `failed`: the outcome is unknown.
    names
        For a listing: size in bytes of each name (0 for buckets).
    repeated
        Names that were listed twice.
    error, message
        Reason of a failure or an absence, as reported by the store.
    """

    start_ns: int
    end_ns: int
    state: str = OK
    status: int = 0
    error: str | None = None
    message: str = ""
    data: bytes | None = None
    names: dict[str, int] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    requests: int | None = None

    def done(self) -> "Seen":
        """Return the answer to a write. It counts as failed if the store reports that the place does not exist."""
        return replace(self, state=FAILED) if self.state == ABSENT else self

    def gone(self) -> "Seen":
        """Return the answer to a deletion. It counts as successful also if there was nothing to delete."""
        return replace(self, state=OK) if self.state == ABSENT else self

    def status_text(self) -> str:
        """Return the status and the error of the store, as evidence."""
        return " ".join(str(part) for part in (self.status or "", self.error or self.state) if part)


def listed(entries: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Return `names` and `repeated` for a listing of (name, bytes)."""
    pairs = list(entries)
    counts = Counter(name for name, _ in pairs)
    return {"names": dict(pairs), "repeated": tuple(name for name, n in counts.items() if n > 1)}


class View(ABC):
    """A front-end that one thread uses. Keys are relative to the point's bucket and its prefix.

    Errors of the store are part of the answer; no method raises them.
    """

    bucket = prefix = ""  # the point's bucket, and the prefix of every key in it

    @abstractmethod
    def put(self, key: str, body: bytes) -> Seen:
        """Write an object; an existing object is replaced."""

    @abstractmethod
    def get(self, key: str) -> Seen:
        """Read the whole object. The content is in `data`."""

    @abstractmethod
    def delete(self, key: str) -> Seen:
        """Delete an object. The answer is `ok` also if the store reports that it does not exist."""

    @abstractmethod
    def listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        """List all keys of a bucket that begin with `prefix`, on all pages, without their first `cut` characters."""

    def list(self, prefix: str) -> Seen:
        """List all keys that begin with `prefix` (which ends in '/')."""
        return self.listing(self.bucket, self.prefix + prefix, len(self.prefix))

    @abstractmethod
    def make_bucket(self, bucket: str) -> Seen:
        """Make an empty bucket."""

    @abstractmethod
    def drop_bucket(self, bucket: str) -> Seen:
        """Delete a bucket. The answer is `ok` also if the store reports that it does not exist."""

    @abstractmethod
    def head_bucket(self, bucket: str) -> Seen:
        """Send HEAD for a bucket. The answer is `ok` also if the bucket belongs to someone else."""

    def list_bucket(self, bucket: str) -> Seen:
        """List the content of another bucket than the point's bucket."""
        return self.listing(bucket, "", 0)

    @abstractmethod
    def bucket_names(self) -> Seen:
        """List all buckets of the account. They are in `names`."""

    def first(self, key: str, body: bytes) -> Seen:
        """Write an object whose folder possibly does not exist yet."""
        return self.put(key, body)

    def close(self) -> None:
        """Close connections."""


def body(key: str, version: int, nonce: str, size: int) -> bytes:
    """Return `size` bytes that repeat one line with key, version and nonce.

    Mixtures of two bodies can thus be detected.
    """
    line = f"storelab {key} version {version} {nonce}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def recognise(data: bytes, size: int) -> tuple[str, int, str] | None:
    """Return (key, version, nonce) of a complete body of `size` bytes, or None for other data."""
    parts = data.partition(b"\n")[0].decode("utf-8", "replace").split(" ")
    if len(parts) != 5 or parts[0] != "storelab" or parts[2] != "version" or not parts[3].isdigit():
        return None
    found = parts[1], int(parts[3]), parts[4]
    return found if data == body(*found, size) else None


def difference(seen: Seen, key: str, version: int, expected: bytes) -> str | None:
    """Return what is wrong with an answer that must be `expected`, or None if it is right."""
    if seen.state == ABSENT:
        return f"does not exist ({seen.status_text()})"
    if seen.data == expected:
        return None
    found = recognise(seen.data or b"", len(expected))
    if found is None:
        return f"is not a body that was written ({len(seen.data or b'')} B instead of {len(expected)} B)"
    if found[0] != key:
        return f"is the content of another key, {found[0]}"
    return (
        f"is version {found[1]} instead of {version}"
        if found[1] != version
        else f"is version {version} of another write ({found[2]})"
    )


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
ONCE = (  # scenarios that only one worker of the point checks
    "listing_complete",
    "bucket_usable",
    "bucket_listed",
    "bucket_gone",
    "bucket_unlisted",
    "bucket_comes_back",
    "listed_bucket_exists",
)
# Columns of the rows of operations and anomalies.
OPERATION = ("worker", "op", "object", "bytes", "requests", "start_ns", "end_ns", "status", "error")
ANOMALY = ("scenario", "key", "same_front_end", "start_ns", "lasted_ns", "watched_ns", "evidence")
MAX_ROWS = 20_000  # maximum number of anomalies that are recorded individually; more are only counted


class TimeUp(Exception):
    """The deadline has passed. Later answers are neither recorded nor judged."""


class Ledger:
    """The records of one client. `scenarios`: the scenarios that it checks; `front_ends`: the number of front-ends."""

    def __init__(self, client: int, limits: dict[str, Any], clients: int, scenarios: tuple[str, ...], front_ends: int):
        self.client, self.deadline_ns = client, 0
        self.lock = threading.RLock()
        self.rows: list[tuple[Any, ...]] = []  # columns: OPERATION
        self.anomalies: list[tuple[Any, ...]] = []  # columns: ANOMALY
        modes = (True, False) if front_ends > 1 else (True,)
        self.counts = {(s, same): {"tried": 0, "anomalies": 0, "errors": 0} for s in scenarios for same in modes}
        self.messages: dict[str, str] = {}
        self.moved = self.uploaded = self.requests = self.failed = self.cut_off = 0
        self.over = threading.Event()  # set to end all workers
        self._flow = Guard({**limits, "room_bytes": None}, clients)
        self._room = Guard({"room_bytes": limits.get("room_bytes"), "error_fraction": 1.0}, clients)

    def operation(self, worker: int, op: str, key: str, size_bytes: int, seen: Seen) -> None:
        """Add one row of `records.OPS`. Raises TimeUp if the operation ended after the deadline, or LimitExceeded."""
        error = seen.error or seen.state if seen.state == FAILED else None
        with self.lock:
            if seen.end_ns > self.deadline_ns or self.over.is_set():
                self.cut_off += 1
                raise TimeUp
            times, size = (seen.start_ns, seen.end_ns), 0 if error else size_bytes
            self.rows.append((worker, op, key, size, seen.requests, *times, seen.status, error))
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
        """Count a try by its result, and add it to the counts of its scenario.

        what: `tried` if the answer was usable, `anomalies` if it was wrong, `errors` if a read or write failed.
        """
        with self.lock:
            self.counts.setdefault((scenario, same), {"tried": 0, "anomalies": 0, "errors": 0})[what] += 1

    def anomaly(
        self, scenario: str, same: bool, key: str, since_ns: int, lasted_ns: int | None, watched_ns: int, evidence: str
    ) -> None:
        """Add a try with a wrong answer.

        lasted_ns: time until the answer was right; None if it was still wrong when the watch ended.
        """
        with self.lock:
            self.count(scenario, same, "tried")
            self.count(scenario, same, "anomalies")
            if len(self.anomalies) < MAX_ROWS:
                self.anomalies.append((scenario, key, same, since_ns, lasted_ns, watched_ns, evidence[:500]))

    def left_ns(self) -> int:
        return self.deadline_ns - clock.now_ns() if not self.over.is_set() else 0

    def total(self, what: str) -> int:
        return sum(c[what] for c in self.counts.values())

    def ops(self) -> dict[str, Any]:
        """Return columns of `records.OPS`."""
        n = len(self.rows)
        return {"client": [self.client] * n, "count": [1] * n} | _columns(OPERATION, self.rows)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return columns of `records.ANOMALIES` and `records.SCENARIOS`."""
        counts = self.counts
        return {
            "anomalies": {"client": [self.client] * len(self.anomalies)} | _columns(ANOMALY, self.anomalies),
            "scenarios": {
                "client": [self.client] * len(counts),
                "scenario": [s for s, _ in counts],
                "same_front_end": [same for _, same in counts],
                **{what: [c[what] for c in counts.values()] for what in ("tried", "anomalies", "errors")},
            },
        }


def _columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}
