"""File rendezvous: all participants meet in a shared place and start at an agreed time. May import: `core`.

Each file is written under a temporary name and renamed, so that nobody reads half a file. `ready.<n>`: by every
participant, once. `call`: by the leader when all are ready. `seen.<n>`: by every participant when it has seen the call.
`go`: by the leader, {t0_ns, n}, or {reason} if the gang does not start. `abort`: by whoever must end the gang. The
start is ahead by the configured lead and by the time from `call` to the last `seen`: a place that shows files late
(attribute caches of NFS) makes a later start, not a missed one. The place must be new for every attempt: an old `go`
would release everybody at once.
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

POLL_S, POLL_EACH_S = 0.02, 3e-4  # between two looks: at least; per participant
SLOWEST_LEAD_S = 120.0
SHARED_S = 20.0  # for a shared folder to show a file that another host wrote


class GangAborted(Exception):
    """The gang does not start; the message says why, and who is missing."""


class Folder:
    """What the participants share: small JSON files by name, in a folder."""

    def __init__(self, path: Path):
        self.path = path

    def write(self, name: str, body: bytes, once: bool = False) -> bool:
        """Write the file, whole or not at all; it replaces an old one.

        once: False, and nothing changes, if the file exists already. Atomic, on NFS too (link(2)).
        """
        temporary = self.path / f".{name}.{os.uname().nodename}.{secrets.token_hex(4)}"
        try:
            temporary.write_bytes(body)
            (os.link if once else os.replace)(temporary, self.path / name)
        except FileExistsError:
            return False
        except OSError as error:
            error.filename = str(self.path / name)  # a full disk is told without one
            raise
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def put(self, name: str, data: dict[str, Any]) -> None:
        """Write the file; replaces an old one."""
        self.write(name, json.dumps(data).encode())

    def put_once(self, name: str, data: dict[str, Any]) -> bool:
        """Write the file; False, and nothing changes, if it exists already."""
        return self.write(name, json.dumps(data).encode(), once=True)

    def get(self, name: str) -> dict[str, Any] | None:
        """The content of the file; None if it does not exist."""
        try:
            return json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None

    def present(self, kind: str) -> set[int]:
        """Numbers n of the files `<kind>.<n>`."""
        head = f"{kind}."
        with os.scandir(self.path) as found:
            return {int(tail) for e in found if e.name.startswith(head) and (tail := e.name[len(head) :]).isdigit()}


def awaited(place: Any, name: str) -> dict[str, Any] | None:
    """The file as soon as the place shows it; None after SHARED_S seconds. place: a Folder, or what reaches one."""
    return clock.wait_for(lambda: place.get(name), SHARED_S, 0.2)


@dataclass(frozen=True)
class Start:
    """t0_ns: the agreed start (UTC ns); saw_in_time: whether this participant knew it before that time."""

    t0_ns: int
    saw_in_time: bool


def poll_s(size: int) -> float:
    """Seconds between two looks: a thousand participants must not become the load that they want to measure."""
    return max(POLL_S, size * POLL_EACH_S)


def join(place: Folder, rank: int, size: int, timeout_s: float, about: dict[str, Any]) -> Start:
    """Meet and agree.

    Raises GangAborted: not all came, the gang was called off, the rank is not asked for or came twice, or the leader
    does not answer.
    """
    if not 0 <= rank < size:
        text = f"client {rank} came, and the gang has {size}"
        place.put("abort", {"reason": text})
        raise GangAborted(text)
    if not place.put_once(f"ready.{rank}", {"rank": rank, "time_ns": clock.now_ns(), **about}):
        text = f"client {rank} came twice"
        place.put("abort", {"reason": text})
        raise GangAborted(text)
    wait(place, ("call", "go"), size, timeout_s)
    place.put(f"seen.{rank}", {"time_ns": clock.now_ns()})
    return decided(wait(place, ("go",), size, timeout_s))


def wait(place: Folder, names: tuple[str, ...], size: int, timeout_s: float) -> dict[str, Any]:
    """The first of these files that exists.

    Raises GangAborted: called off, or none of them 5 s after the leader's own time-out.
    """
    limit = time.monotonic() + timeout_s + 5
    while True:
        for name in names:
            if (found := place.get(name)) is not None:
                return found
        if (called := place.get("abort")) is not None:
            raise GangAborted(called.get("reason") or "the coordinator called it off")
        if time.monotonic() > limit:
            raise GangAborted(f"no start was agreed within {timeout_s:.0f} s: the coordinator did not answer")
        time.sleep(poll_s(size))


def decided(decision: dict[str, Any]) -> Start:
    """What the leader's `go` says. Raises GangAborted if it is not a start."""
    if "t0_ns" not in decision:
        raise GangAborted(decision["reason"])
    return Start(decision["t0_ns"], clock.now_ns() < decision["t0_ns"])


class Leader:
    """The coordinator's side. Call `step()` repeatedly; it looks no more often than `poll_s` allows.

    size: number of participants; lead_s: least time between the agreement and the start; accept: given what each said
    of itself, returns why the gang must not start, or ''. `settled` is true once there is a decision, whoever made it.
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
        self.round_s = 0.0  # from the call until all have answered it
        self._called: float | None = None
        self._next = 0.0

    def step(self) -> int | None:
        """The agreed start (ns) once there is one.

        Raises GangAborted, and tells the participants: who is missing, or why the gang is refused.
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
            self._called, self.give_up = now, max(self.give_up, now + min(self.timeout_s, SLOWEST_LEAD_S))
            self.place.put("call", {"n": self.size})
            return None
        self.round_s = now - self._called
        t0_ns = clock.now_ns() + int((self.lead_s + self.round_s) * 1e9)
        self.place.put("go", {"t0_ns": t0_ns, "n": self.size})
        self.settled = True
        return t0_ns

    def _missing(self, numbers: list[int]) -> str:
        what = "did not come" if self._called is None else "came, and did not see the call to start"
        names = f"{self.noun} {', '.join(map(str, numbers))}"
        return f"{len(numbers)} of {self.size} {self.noun}s {what} within {self.timeout_s:.0f} s (missing: {names})"

    def _refuse_wrong(self, there: set[int]) -> None:
        if extra := sorted(there - set(range(self.size))):
            self._end(f"{self.noun} {', '.join(map(str, extra))} came, and the gang has {self.size}")
        if problem := self.accept({n: self.place.get(f"ready.{n}") or {} for n in sorted(there)}):
            self._end(problem)

    def _end(self, text: str) -> None:
        self.settled = True
        self.place.put("go", {"reason": text})
        raise GangAborted(text)
