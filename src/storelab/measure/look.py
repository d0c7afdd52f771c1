"""Program that reads the objects of one account's ledgers and checks each: `python -m storelab.measure.look`.

It is a separate process, because the library can abort when it exits (see engines/obstore), and because it has the keys
in its environment. It reads one JSON object from standard input, and writes one to standard output.

A ledger has one writer, which does one operation at a time. An acknowledged operation took effect between its begin and
its acknowledgement. An operation without acknowledgement can take effect at any time after its begin, or never, because
a request can wait in a hanging server long after the client stopped waiting. `judge` checks whether a read is correct.
This module may import `engines`, `stores`, `datasets` and `core`.
"""

import json
import mmap
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from storelab.core import clock
from storelab.datasets import payload
from storelab.engines.common import ledger
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.stores.protocols.files import absent

# Results of a read instead of a generation: no object; bytes that were never written to this key; no answer.
ABSENT, FOREIGN, UNREADABLE = 0, -1, -2
LOST, CORRUPTED, STALE, RESURRECTED, UNREAD = "lost", "corrupted", "stale", "resurrected", "unreadable"
FAULTS = (LOST, CORRUPTED, STALE, RESURRECTED, UNREAD)
FOREVER = 2**63 - 1


class Write(NamedTuple):
    """One write of a key.

    `generation` is its number in the key's history, from 1. `ack_ns` is 0 if it was not acknowledged.
    """

    generation: int
    deletes: bool
    begin_ns: int
    ack_ns: int

    @property
    def effect(self) -> int:
        """Return the result of a read after this write: its generation, or ABSENT after a deletion."""
        return ABSENT if self.deletes else self.generation


def last_acknowledged(writes: Sequence[Write], by_ns: int = FOREVER) -> Write | None:
    """Return the last write that was acknowledged at the time `by_ns`; None if there is none."""
    return next((w for w in reversed(writes) if 0 < w.ack_ns <= by_ns), None)


def allowed(writes: Sequence[Write], begin_ns: int = FOREVER, end_ns: int = FOREVER) -> set[int]:
    """Return the correct results of a read with this begin and end; by default, of a read after all writes.

    `writes` contains all writes of one key in order.
    """
    base = last_acknowledged(writes, begin_ns)
    pending = {w.effect for w in writes if w.begin_ns <= end_ns and not 0 < w.ack_ns <= begin_ns}
    return {base.effect if base else ABSENT} | pending


def judge(writes: Sequence[Write], seen: int, begin_ns: int = FOREVER, end_ns: int = FOREVER) -> str:
    """Return '' if the result `seen` of a read is correct, otherwise the fault.

    The faults are: lost; corrupted; stale (an older object than the last acknowledged one); resurrected (there is an
    object although its deletion was acknowledged last); unreadable.
    """
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


THREADS = 16
MAX_EXAMPLES = 10
CHUNK = 1 << 20
TRIES, PAUSE_S = 3, 0.5  # number of tries of a failing read, and pause in seconds; each try uses the next front-end
WAITS = {"read_timeout": "10s", "timeout": "1h"}
# Because clocks differ, a write counts as in flight if it was acknowledged less than this time before a read.
CLOCKS_NS = 100_000_000


class Key(NamedTuple):
    """One key of a ledger: the index of the ledger, the number of the key, and its writes in order."""

    ledger: int
    number: int
    writes: list[Write]


def keys(books: Sequence[ledger.Ledger]) -> list[Key]:
    """Return all keys that have at least one acknowledged write, with their writes."""
    out: list[Key] = []
    for index, book in enumerate(books):
        columns = book.entries()
        names = ("number", "generation", "kind", "begin_ns", "ack_ns")
        last = None
        for number, generation, kind, begin_ns, ack_ns in zip(*(columns[n].tolist() for n in names), strict=True):
            if number != last:
                out.append(Key(index, number, []))
                last = number
            out[-1].writes.append(Write(generation, kind == ledger.DELETE, begin_ns, ack_ns))
    return [key for key in out if any(w.ack_ns for w in key.writes)]


class Bodies:
    """The payload bodies of all ledgers, mapped into memory."""

    def __init__(self, scratch: Path, books: Sequence[ledger.Ledger]):
        self.of = [
            [_mapped(f) for f in payload.body_files(scratch, b.head["data_seed"], b.head["object_size"])] for b in books
        ]


def _mapped(path: Path) -> memoryview:
    with open(path, "rb") as f:
        return memoryview(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) if path.stat().st_size else b"")


class Looker:
    """A reader of objects through several front-ends. It uses obstore for S3, otherwise fsspec."""

    def __init__(self, endpoints: Sequence[Endpoint], books: Sequence[ledger.Ledger], bodies: Bodies):
        self.books, self.bodies, self.ends = books, bodies, endpoints
        self.stores: dict[tuple[int, str], Any] = {}
        self.lock = threading.Lock()
        self.local = threading.local()  # each thread has separate file systems

    def _answer(self, end: int, bucket: Bucket, name: str) -> Iterable[Any]:
        """Return the object in pieces. If it does not exist, raise an OSError for which `absent` returns True."""
        endpoint = self.ends[end]
        if endpoint.protocol == "s3":
            import obstore

            return obstore.get(self._store(end, bucket), name).stream(min_chunk_size=CHUNK)
        systems = self.local.__dict__.setdefault("systems", {})
        if end not in systems:
            systems[end] = filesystems.data(endpoint, os.environ, 1)
        return [systems[end].cat_file(filesystems.path(endpoint, bucket, name.removeprefix(bucket.prefix)))]

    def _store(self, end: int, bucket: Bucket) -> Any:
        with self.lock:
            if (end, bucket.name) not in self.stores:
                self.stores[end, bucket.name] = s3_clients.store(self.ends[end], bucket.name, WAITS)
            return self.stores[end, bucket.name]

    def look(self, key: Key, turn: int) -> tuple[int, int, int, str]:
        """Read a key, and return generation, begin, end and error.

        The generation can also be ABSENT, FOREIGN or UNREADABLE. Begin and end are in ns. The error is the last one, or
        ''.
        """
        bucket, name = self.books[key.ledger].place(key.number)
        begin_ns, error = clock.now_ns(), ""
        for n in range(TRIES):
            if n:
                time.sleep(PAUSE_S)
            begin_ns = clock.now_ns()
            try:
                answer = self._answer((turn + n) % len(self.ends), bucket, name)
                return self._recognised(key, answer), begin_ns, clock.now_ns(), ""
            except Exception as caught:  # noqa: BLE001 - libraries raise many classes if an object cannot be read
                if isinstance(caught, OSError) and absent(caught):
                    return ABSENT, begin_ns, clock.now_ns(), ""
                error = " ".join(str(caught).split())[:200] or type(caught).__name__
        return UNREADABLE, begin_ns, clock.now_ns(), error

    def _recognised(self, key: Key, answer: Iterable[Any]) -> int:
        """Return the generation of the key to which these bytes belong. Every byte is compared."""
        book, bodies, at = self.books[key.ledger], self.bodies.of[key.ledger], 0
        generation, body, same = key.writes[0].generation, None, True
        for piece in answer:
            data = memoryview(piece)
            if body is None:
                if book.head["rewritten"]:
                    if len(data) < ledger.STAMP:
                        return FOREIGN
                    generation = self._stamped(book, key, bytes(data[: ledger.STAMP]))
                    if generation == FOREIGN:
                        return FOREIGN
                    at, data = ledger.STAMP, data[ledger.STAMP :]
                body = bodies[book.body(key.number, generation)]
            same = same and data == body[at : at + len(data)]
            at += len(data)
        return generation if same and at == book.head["object_size"] else FOREIGN

    @staticmethod
    def _stamped(book: ledger.Ledger, key: Key, head: bytes) -> int:
        mark, number, generation = ledger.stamped(head)
        return generation if (mark, number) == (book.mark, key.number) else FOREIGN


def _example(key: Key, book: ledger.Ledger, fault: str, seen: int, error: str) -> dict[str, Any]:
    """Return the record of a fault as an example for the user."""
    bucket, name = book.place(key.number)
    last = max((w for w in key.writes if w.ack_ns), key=lambda w: w.ack_ns)
    what = "its deletion" if last.deletes else f"version {last.generation}"
    words = {ABSENT: "nothing", FOREIGN: "bytes that were not written to it", UNREADABLE: f"no answer: {error}"}
    return {
        "key": f"{bucket.name}/{name}",
        "fault": fault,
        "acknowledged": what,
        "acknowledged_ns": last.ack_ns,
        "read": words.get(seen, f"version {seen}"),
    }


def reading(job: dict[str, Any]) -> dict[str, Any]:
    """Read the keys, check them, and return the result.

    `job` has the keys ledgers (paths), endpoints, scratch, live, most (number of keys), seconds, threads and seed.
    """
    books = [ledger.Ledger(Path(p)) for p in job["ledgers"]]
    looker = Looker([Endpoint(**e) for e in job["endpoints"]], books, Bodies(Path(job["scratch"]), books))
    known = keys(books)
    rng, states = random.Random(job["seed"]), len(known)
    chosen = rng.sample(known, min(states, job["most"]))
    until = time.monotonic() + job["seconds"]
    seen: list[tuple[Key, int, int, int, str]] = []

    def work(part: int) -> None:
        for turn in range(part, len(chosen), job["threads"]):
            if time.monotonic() > until:
                return
            seen.append((chosen[turn], *looker.look(chosen[turn], turn)))

    with ThreadPoolExecutor(job["threads"]) as pool:
        list(pool.map(work, range(job["threads"])))
    later = {(k.ledger, k.number): k.writes for k in keys(books)} if job["live"] else {}
    found: Counter[str] = Counter()
    examples: list[dict[str, Any]] = []
    for key, generation, begin_ns, end_ns, error in seen:
        if job["live"]:
            key = key._replace(writes=later[key.ledger, key.number])
            fault = judge(key.writes, generation, begin_ns - CLOCKS_NS, end_ns + CLOCKS_NS)
        else:
            fault = judge(key.writes, generation, FOREVER, FOREVER)
        found[fault] += 1
        if fault and len(examples) < MAX_EXAMPLES:
            examples.append(_example(key, books[key.ledger], fault, generation, error))
    return {"states": states, "read": len(seen), **{f: found[f] for f in FAULTS}, "examples": examples}


def main() -> None:
    """Read a job as JSON from standard input, do it, and write the result as JSON to standard output."""
    out = reading(json.loads(sys.stdin.read()))
    sys.stdout.write(json.dumps(out) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
