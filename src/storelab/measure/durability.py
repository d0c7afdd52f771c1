"""Durability: read back the ledgers of an attempt while an actor is down, after the recovery, and at the end.

A ledger lists the writes of a client that the store acknowledged. `Readings(…).take("down", live=True)` can be called
from any thread while clients write. `record()` returns the field `durability` of the record. Without ledgers, nothing
is read or recorded. During a fault, `DuringFault` reads a sample as long as clients write. It reads all states if the
actor is still down when the clients have ended. This module may import `engines`, `stores`, `host` and `core`.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.axes.roles import LOSSES, UNDOES
from storelab.core.errors import MeasurementFailed
from storelab.engines.common import ledger
from storelab.engines.contract import GangJob
from storelab.host import processes
from storelab.host.console import report
from storelab.measure import look
from storelab.measure.look import FAULTS
from storelab.stores.base import Store
from storelab.stores.protocols import environment

S = 10**9
LATER_NS = S // 2  # time from the loss of an actor to the begin of a reading
SAMPLE, THREADS = 1000, 2  # number of keys and threads of a reading while clients write; small, to not disturb them
MIN_S, MAX_S = 0.2, 10.0  # shortest and longest duration of such a reading
WHOLE_S = 60.0  # longest duration of a complete reading while an actor is down
MAX_STATES, MAX_BYTES = 200_000, 20 * 10**9  # limits of one reading; if there are more, a sample is read
SECONDS, GRACE_S = 600.0, 120.0  # longest duration of one reading, and extra time for reads that have begun before


class Readings:
    """The results of reading back all ledgers of one attempt."""

    def __init__(self, store: Store, folder: Path, job: GangJob, seed: int):
        """Store the arguments. `folder` is the attempt's folder; `seed` determines the samples."""
        self.store, self.folder, self.job, self.seed = store, folder, job, seed
        self.taken: list[dict[str, Any]] = []

    def take(
        self,
        when: str,
        live: bool = False,
        most: int = MAX_STATES,
        seconds: float = SECONDS,
        threads: int = look.THREADS,
    ) -> dict[str, Any] | None:
        """Read back the acknowledged states, and return the result; None if there is no ledger.

        Parameters
        ----------
        when
            `down`, `recovered` or `end`.
        live
            Whether clients still write.
        most
            Maximum number of keys to read.
        seconds
            Maximum duration.
        threads
            Number of threads that read.

        Raises
        ------
        MeasurementFailed
            The reading is not possible. A store that does not answer is a result, not an error.
        """
        accounts: dict[int, list[ledger.Ledger]] = {}
        for book in ledger.ledgers(self.folder):
            accounts.setdefault(book.head["account"], []).append(book)
        if not accounts:
            return None
        out: dict[str, Any] = {"when": when, "time_ns": clock.now_ns()}
        sums: dict[str, Any] = dict.fromkeys(("states", "read", *FAULTS), 0)
        examples: list[dict[str, Any]] = []
        for account, books in sorted(accounts.items()):
            size = max(b.head["object_size"] for b in books)
            bound = min(most, max(1, MAX_BYTES // max(1, size))) // len(accounts) or 1
            more = {"live": live, "most": bound, "seconds": seconds / len(accounts), "threads": threads}
            found = self._asked(account, books, more)
            examples += found.pop("examples")
            sums = {name: sums[name] + found[name] for name in sums}
        out |= sums | {"examples": examples[: look.MAX_EXAMPLES]}
        self.taken.append(out)
        return out

    def at_end(self, recovered: bool = False) -> None:
        """Take the last reading, and print all readings. Lost data are a result, not a failure of the point.

        `recovered` means that there was a fault and the store is healthy again.
        """
        if self.take("recovered" if recovered else "end"):
            for reading in self.taken:
                report(f"    {reading_text(reading)}")

    def _asked(self, account: int, books: list[ledger.Ledger], more: dict[str, Any]) -> dict[str, Any]:
        task = more | {
            "ledgers": [str(b.path) for b in books],
            "endpoints": [asdict(end) for end in self.job.endpoints],
            "scratch": str(self.job.scratch),
            "seed": self.seed,
        }
        credentials = self.store.credentials(account)
        proxies = environment.kept(self.job.endpoints, os.environ)
        environ = environment.explicit(os.environ) | proxies | (credentials.environ() if credentials else {})
        command = [sys.executable, "-m", "storelab.measure.look"]
        done = processes.run_command(command, more["seconds"] + GRACE_S, environ, json.dumps(task))
        if done.returncode:
            raise MeasurementFailed(f"the ledger could not be read back: {processes.words(done)}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def record(self) -> dict[str, Any] | None:
        """Return the field `durability` of the record; None if there is no ledger."""
        if not any(True for _ in ledger.ledgers(self.folder)):
            return None
        counts, unknown = ledger.acknowledged(self.folder)
        return {"acknowledged": counts, "unacknowledged": unknown, "readings": self.taken}


def reading_text(reading: dict[str, Any]) -> str:
    """Return one reading as a line for the terminal."""
    part = f"{reading['read']} of {reading['states']}" if reading["read"] < reading["states"] else f"{reading['read']}"
    when = {"down": "while an actor was down", "recovered": "after the recovery"}.get(reading["when"], "at the end")
    wrong = ", ".join(f"{reading[fault]} {fault}" for fault in FAULTS if reading[fault])
    line = f"durability: {part} acknowledged states read back {when}: {wrong or 'all are correct'}"
    if not wrong or not reading["examples"]:
        return line
    first = reading["examples"][0]
    return f"{line}; {first['key']}: {first['acknowledged']} was acknowledged, read: {first['read']}"


def away(acts: Sequence[Mapping[str, Any]], duration_ns: int) -> list[tuple[int, int]]:
    """Return the time spans (ns from the start) in which at least one actor is down.

    An outage that is not reverted lasts until the end of the run.
    acts: result of `core.campaign.faults.resolved`.
    """
    gone: dict[str, set[str]] = {}
    out, since = [], None
    for act in acts:
        for actor in act["actors"]:
            if act["act"] in LOSSES:
                gone.setdefault(actor, set()).add(act["act"])
            gone.get(actor, set()).difference_update(UNDOES.get(act["act"], ()))
        if any(gone.values()) and since is None:
            since = act["at_ns"]
        elif not any(gone.values()) and since is not None:
            out.append((since, act["at_ns"]))
            since = None
    return [*out, (since, duration_ns)] if since is not None else out


class DuringFault:
    """The readings during a fault.

    Call `start` when the start time is agreed. Call `finish` when the clients have ended, before the fault is undone.
    """

    def __init__(self, readings: Readings, acts: Sequence[Mapping[str, Any]], duration_ns: int):
        self.readings, self.spans, self.duration_ns = readings, away(acts, duration_ns), duration_ns
        self.over, self.failed = threading.Event(), ""
        self.thread: threading.Thread | None = None

    def start(self, t0_ns: int) -> None:
        self.thread = threading.Thread(target=self._run, args=(t0_ns,), daemon=True, name="readings")
        self.thread.start()

    def _run(self, t0_ns: int) -> None:
        for begin_ns, end_ns in self.spans:
            if self.over.wait(max(0, t0_ns + begin_ns + LATER_NS - clock.now_ns()) / S):
                return
            seconds = min(MAX_S, (t0_ns + end_ns - clock.now_ns()) / S)
            if seconds < MIN_S:
                continue
            try:
                self.readings.take("down", live=True, most=SAMPLE, seconds=seconds, threads=THREADS)
            except MeasurementFailed as error:
                self.failed = str(error)

    def finish(self) -> None:
        """Stop the readings, and take the last one. Raises MeasurementFailed if a reading was not possible."""
        self.over.set()
        if self.thread:
            self.thread.join()
        if self.failed:
            raise MeasurementFailed(self.failed)
        if self.spans and self.spans[-1][1] == self.duration_ns:
            self.readings.take("down", seconds=WHOLE_S)
