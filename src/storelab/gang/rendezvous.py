"""File rendezvous: all participants meet in a shared folder and start at an agreed time. May import: `core`.

Each file is written under a temporary name and renamed, so that readers never see half a file. `ready.<n>`: by every
participant, once. `call`: by the leader when all are ready. `seen.<n>`: by every participant when it has seen the call.
`go`: by the leader, {t0_ns, n}, or {reason} if the gang does not start. `abort`: by any process that ends the gang. The
start is the configured `start_delay` plus the time from `call` to the last `seen` in the future. Therefore a folder
that shows files late (attribute caches of NFS) makes a later start, not a missed one. The folder must be new for every
attempt: an old `go` would start all participants at once.
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

POLL_S, POLL_PER_CLIENT_S = 0.02, 3e-4  # seconds between two checks: minimum, and for each participant
MAX_START_DELAY_S = 120.0
SHARED_S = 20.0  # seconds until a shared folder must show a file of another host


class GangAborted(Exception):
    """A gang did not start. The message contains the reason, and the missing participants."""


class Folder:
    """The shared folder of the participants: small JSON files by name."""

    def __init__(self, path: Path):
        self.path = path

    def write(self, name: str, body: bytes, once: bool = False) -> bool:
        """Write a file atomically, and replace an old file. Return whether it was written.

        With `once`, an existing file is not changed. This is atomic on NFS too (link(2)).
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
        """Write the file, and replace an old one."""
        self.write(name, json.dumps(data).encode())

    def put_once(self, name: str, data: dict[str, Any]) -> bool:
        """Write the file, unless it exists. Return whether it was written."""
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
    """Return the content of a file as soon as it exists; None after SHARED_S seconds. `place` is a folder or uplink."""
    return clock.wait_for(lambda: place.get(name), SHARED_S, 0.2)


@dataclass(frozen=True)
class Start:
    """The agreed start. `t0_ns` is in Unix ns; `saw_in_time` is whether this participant knew it before that time."""

    t0_ns: int
    saw_in_time: bool


def poll_s(size: int) -> float:
    """Return the seconds between two checks. They grow with the number of participants, to limit the load."""
    return max(POLL_S, size * POLL_PER_CLIENT_S)


def join(place: Folder, rank: int, size: int, timeout_s: float, about: dict[str, Any]) -> Start:
    """Meet the other participants, agree on the start, and return it.

    Raises GangAborted if participants are missing, the gang was cancelled, the rank is too high or joined twice, or the
    leader does not answer.
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
    """Wait until one of these files exists, and return its content.

    Raises GangAborted if the gang is cancelled, or if none of the files exists 5 s after the leader's timeout.
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
    """Return the start in the leader's `go`. Raises GangAborted if `go` contains a reason instead of a start."""
    if "t0_ns" not in decision:
        raise GangAborted(decision["reason"])
    return Start(decision["t0_ns"], clock.now_ns() < decision["t0_ns"])


class Leader:
    """The coordinator's side of the rendezvous.

    Call `step()` repeatedly. It checks the folder only as often as `poll_s` allows. `settled` is True when there is a
    decision.

    Parameters
    ----------
    size
        Number of participants.
    lead_s
        Minimum time in seconds from the agreement to the start.
    accept
        Function that gets the reports of all participants, and returns why the gang must not start, or ''.
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
        self.round_s = 0.0  # seconds from `call` until all participants have seen it
        self._called: float | None = None
        self._next = 0.0

    def step(self) -> int | None:
        """Return the agreed start (ns), or None if there is no decision yet.

        If the gang cannot start, inform the participants, and raise GangAborted with the missing participants or the
        reason.
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
