"""File rendezvous: all participants meet in a shared folder and start at an agreed time. May import: `core`.

Each file is written under a temporary name and renamed, so that readers never see half a file. `ready.<n>`: by every
participant, once. `call`: by the leader when all are ready. `seen.<n>`: by every participant when it has seen the call.
`go`: by the leader, {t0_ns, n}, or {reason} if the gang does not start. `abort`: by any process that ends the gang. The
start is the configured lead plus the time from `call` to the last `seen` in the future. Therefore a folder that shows
files late (attribute caches of NFS) makes a later start, not a missed one. The folder must be new for every attempt: an
old `go` would start all participants at once.
"""

import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core import clock

POLL_S, POLL_PER_CLIENT_S = 0.02, 3e-4  # between two checks: at least; per participant
MAX_START_DELAY_S = 120.0
SHARED_S = 20.0  # for a shared folder to show a file of another host


class GangAborted(Exception):
    """The gang does not start; the message has the reason, and the missing participants."""


class Folder:
    """The shared folder of the participants: small JSON files by name."""

    def __init__(self, path: Path):
        self.path = path

    def write(self, name: str, body: bytes, once: bool = False) -> bool:
        """Write the complete file or nothing; replace an old one.

        once: if the file exists already, change nothing and return False. Atomic, on NFS too (link(2)).
        """
        temporary = self.path / f".{name}.{os.uname().nodename}.{secrets.token_hex(4)}"
        try:
            temporary.write_bytes(body)
            (os.link if once else os.replace)(temporary, self.path / name)
        except FileExistsError:
            return False
        except OSError as error:
            error.filename = str(self.path / name)  # the error of a full disk has no file name
            raise
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def put(self, name: str, data: dict[str, Any]) -> None:
        """Write the file; replace an old one."""
        self.write(name, json.dumps(data).encode())

    def put_once(self, name: str, data: dict[str, Any]) -> bool:
        """Write the file; if it exists already, change nothing and return False."""
        return self.write(name, json.dumps(data).encode(), once=True)

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the content of the file; None if it does not exist."""
        try:
            return json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None

    def present(self, kind: str) -> set[int]:
        """Return the numbers n of the files `<kind>.<n>`."""
        head = f"{kind}."
        with os.scandir(self.path) as found:
            return {int(tail) for e in found if e.name.startswith(head) and (tail := e.name[len(head) :]).isdigit()}


def wait_for_file(place: Any, name: str) -> dict[str, Any] | None:
    """Return the file as soon as it appears; None after SHARED_S seconds. place: a Folder, or a way to reach one."""
    return clock.wait_for(lambda: place.get(name), SHARED_S, 0.2)


@dataclass(frozen=True)
class Start:
    """The agreed start. t0_ns: UTC ns; saw_in_time: this participant knew it before that time."""

    t0_ns: int
    saw_in_time: bool


def poll_s(size: int) -> float:
    """Return the seconds between two checks: many participants must not become the load that they want to measure."""
    return max(POLL_S, size * POLL_PER_CLIENT_S)


def join(place: Folder, rank: int, size: int, timeout_s: float, about: dict[str, Any]) -> Start:
    """Meet the other participants and agree on the start.

    Raise GangAborted if not all came, the gang was cancelled, the rank is not wanted or joined twice, or the leader
    does not answer.
    """
    if not 0 <= rank < size:
        text = f"client {rank} joined, but the gang has only {size}"
        place.put("abort", {"reason": text})
        raise GangAborted(text)
    if not place.put_once(f"ready.{rank}", {"rank": rank, "time_ns": clock.now_ns(), **about}):
        text = f"client {rank} joined twice"
        place.put("abort", {"reason": text})
        raise GangAborted(text)
    wait(place, ("call", "go"), size, timeout_s)
    place.put(f"seen.{rank}", {"time_ns": clock.now_ns()})
    return decided(wait(place, ("go",), size, timeout_s))


def wait(place: Folder, names: tuple[str, ...], size: int, timeout_s: float) -> dict[str, Any]:
    """Return the first of these files that exists.

    Raise GangAborted if the gang is cancelled, or none of them exists 5 s after the leader's own time-out.
    """
    limit = time.monotonic() + timeout_s + 5
    while True:
        for name in names:
            if (found := place.get(name)) is not None:
                return found
        if (called := place.get("abort")) is not None:
            raise GangAborted(called.get("reason") or "the coordinator cancelled the gang")
        if time.monotonic() > limit:
            raise GangAborted(f"no start was agreed within {timeout_s:.0f} s: the coordinator did not answer")
        time.sleep(poll_s(size))


def decided(decision: dict[str, Any]) -> Start:
    """Return the start in the leader's `go`. Raise GangAborted if it is not a start."""
    if "t0_ns" not in decision:
        raise GangAborted(decision["reason"])
    return Start(decision["t0_ns"], clock.now_ns() < decision["t0_ns"])


class Leader:
    """The coordinator's side. Call `step()` repeatedly; it checks no more often than `poll_s` allows.

    size: number of participants; lead_s: minimum time from the agreement to the start; accept: gets what each
    participant reports, returns why the gang must not start, or ''. `settled`: there is a decision.
    """

    def __init__(
        self,
        place: Folder,
        size: int,
        lead_s: float,
        timeout_s: float,
        accept: Callable[[dict[int, dict[str, Any]]], str] = lambda ready: "",
        noun: str = "client",
    ):
        self.place, self.size, self.noun = place, size, noun
        self.lead_s, self.timeout_s, self.accept = lead_s, timeout_s, accept
        self.give_up = time.monotonic() + timeout_s
        self.settled = False
        self.round_s = 0.0  # from the call until all participants have answered it
        self._called: float | None = None
        self._next = 0.0

    def step(self) -> int | None:
        """Return the agreed start (ns) once there is one.

        Raise GangAborted with the missing participants, or why the gang is refused, and inform the participants.
        """
        now = time.monotonic()
        if self.settled or now < self._next:
            return None
        self._next = now + poll_s(self.size) / 2
        there = self.place.present("ready" if self._called is None else "seen")
        if len(there) < self.size:
            if now > self.give_up:
                self._end(self._missing(sorted(set(range(self.size)) - there)))
            return None
        if self._called is None:
            self._refuse_wrong(there)
            self._called, self.give_up = now, max(self.give_up, now + min(self.timeout_s, MAX_START_DELAY_S))
            self.place.put("call", {"n": self.size})
            return None
        self.round_s = now - self._called
        t0_ns = clock.now_ns() + int((self.lead_s + self.round_s) * 1e9)
        self.place.put("go", {"t0_ns": t0_ns, "n": self.size})
        self.settled = True
        return t0_ns

    def _missing(self, numbers: list[int]) -> str:
        what = "did not join" if self._called is None else "joined, but did not see the call to start"
        names = f"{self.noun} {', '.join(map(str, numbers))}"
        return f"{len(numbers)} of {self.size} {self.noun}s {what} within {self.timeout_s:.0f} s (missing: {names})"

    def _refuse_wrong(self, there: set[int]) -> None:
        if extra := sorted(there - set(range(self.size))):
            self._end(f"{self.noun} {', '.join(map(str, extra))} joined, but the gang has only {self.size}")
        if problem := self.accept({n: self.place.get(f"ready.{n}") or {} for n in sorted(there)}):
            self._end(problem)

    def _end(self, text: str) -> None:
        self.settled = True
        self.place.put("go", {"reason": text})
        raise GangAborted(text)
