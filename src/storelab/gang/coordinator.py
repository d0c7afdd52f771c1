"""The interface of launchers, and the coordinator of one point's gang: start, agree on the time, watch, collect.

It accepts only a complete gang: all requested clients, on the requested nodes, in time. May import:
`rendezvous`, `engines`, `host`, `core`.
"""

import contextlib
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed
from storelab.engines.contract import ClientResult
from storelab.gang import rendezvous
from storelab.host import processes

GRACE_S = 60.0  # seconds that clients have after the deadline for parsing, checking and writing
LOOK_S, MEASURING_LOOK_S = 0.02, 0.2  # seconds between two checks: before the start, and while clients measure

_signals: list[int] = []  # received signals that end the gang
_ending = False


class Launcher(ABC):
    """A launcher, which starts the clients of a gang on this host or on other hosts.

    `participants` is the number of processes that meet in the gang's folder: the clients, or one agent per node. `noun`
    is their name in messages. Optional methods return an empty value here.
    """

    name: str
    noun: str
    participants: int

    @abstractmethod
    def start(self) -> None:
        """Start the participants. Raises UserError or MeasurementFailed."""

    @abstractmethod
    def ended(self) -> dict[int, int]:
        """Return the exit status of the clients that have ended, by rank."""

    @abstractmethod
    def stop(self) -> None:
        """End all processes that were started. A second call has no effect."""

    def accept(self, ready: dict[int, dict[str, Any]]) -> str:
        """Return the reason why the gang must not start, or ''. `ready` contains the report of each participant."""
        return ""

    def trouble(self) -> str:
        """Return a problem of the launcher, or ''. Clients that have ended are not such a problem."""
        return ""

    def last_words(self) -> str:
        """Return the batch system's message about the reason of a failure, or ''."""
        return ""

    def pids(self) -> dict[int, int]:
        """Return the pids of the clients on this host, by rank."""
        return {}

    def about(self) -> list[dict[str, Any]]:
        """Return the final report of each node: host, clock, versions, and a summary of its monitor."""
        return []


def handle_signals() -> None:
    """Make SIGINT, SIGTERM and SIGHUP end a gang in order.

    This works even if a signal arrives twice, or if Python drops the exception of the handler after a fork.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # under nohup, SIGHUP stays ignored
            signal.signal(number, _handle_signal)
    sys.unraisablehook = _dropped


def _handle_signal(number: int, _: Any) -> None:
    _signals.append(number)
    if not _ending:
        sys.exit(128 + number)


def _dropped(what: Any) -> None:
    """Suppress the traceback of an exit that `_signals` records. Print other dropped exceptions as usual."""
    if not (_signals and isinstance(what.exc_value, SystemExit)):
        sys.__unraisablehook__(what)


def run(
    launcher: Launcher,
    folder: Path,
    size: int,
    timeout_s: float,
    duration_s: float,
    at_start: Callable[[int], None],
    lead_s: float = 0.2,
) -> list[ClientResult]:
    """Run the gang in `folder`, which contains `job.json`, and return the clients' results by rank.

    `at_start(t0_ns)` is called once, as soon as the start is agreed. No client keeps running, even after an error.
    Raises MeasurementFailed with the clients' reasons, or with the names of missing or late clients.
    """
    global _ending
    place, _ending = rendezvous.Folder(folder), False
    leader = rendezvous.Leader(place, launcher.participants, lead_s, timeout_s, launcher.accept, launcher.noun)
    try:
        launcher.start()
        leader.give_up = time.monotonic() + timeout_s
        _watch(launcher, leader, folder, size, timeout_s, duration_s, at_start)
        results = [ClientResult.read(folder, rank) for rank in range(size)]
    except BaseException:
        _ending = True
        with contextlib.suppress(OSError):  # on a full disk, `stop` still ends the clients
            place.put_once("abort", {"reason": "the coordinator cancelled the gang"})
        raise
    finally:
        launcher.stop()
    if len({(r.host, r.pid) for r in results}) != size or len({r.t0_ns for r in results}) != 1:
        raise MeasurementFailed("the gang is inconsistent: clients joined twice, or agreed on different starts")
    if late := [r.client for r in results if not r.saw_go_in_time]:
        raise MeasurementFailed(f"clients {late} received the start too late; increase `start_delay`")
    return results


def _watch(
    launcher: Launcher,
    leader: rendezvous.Leader,
    folder: Path,
    size: int,
    timeout_s: float,
    duration_s: float,
    at_start: Callable[[int], None],
) -> None:
    """Wait until every client has written its result. Raises MeasurementFailed."""
    limit = time.monotonic() + 2 * timeout_s + duration_s + GRACE_S
    quiet_until = 0.0
    while True:
        if _signals:
            sys.exit(128 + _signals[0])
        try:
            t0_ns = leader.step()
        except rendezvous.GangAborted as error:
            reason = launcher.trouble() or _failures(folder, launcher.ended()) or launcher.last_words()
            raise MeasurementFailed(f"{error}; {reason}" if reason else str(error)) from None
        if t0_ns is not None:
            at_start(t0_ns)
            now = time.monotonic()
            quiet_until, limit = now + duration_s, now + leader.round_s + duration_s + GRACE_S + leader.lead_s
        done = rendezvous.Folder(folder).present("result")  # read before the failures, so that no failure is missed
        if reasons := _failures(folder, launcher.ended()):
            raise MeasurementFailed(reasons)
        if len(done) >= size:
            return
        if trouble := launcher.trouble():
            raise MeasurementFailed(trouble)
        if time.monotonic() > limit:
            raise MeasurementFailed(
                f"clients {sorted(set(range(size)) - done)} left no result {GRACE_S:.0f} s after the deadline"
            )
        time.sleep(MEASURING_LOOK_S if time.monotonic() < quiet_until else LOOK_S)


def _failures(folder: Path, ended: dict[int, int]) -> str:
    """Return the reasons of failed clients, and the exit statuses of clients without a result; or ''.

    `ended` contains the exit statuses by rank. It must be read before the results, because a client writes its result
    before it ends.
    """
    results = {rank: ClientResult.read(folder, rank) for rank in rendezvous.Folder(folder).present("result")}
    reasons = [f"client {rank}: {r.failure}" for rank, r in sorted(results.items()) if r.exit_status]
    for rank in sorted(ended.keys() - results.keys()):
        last = "".join(f" ({line[:200]})" for line in processes.log_lines(folder / f"client.{rank}.log")[-1:])
        reasons.append(f"client {rank} ended with status {ended[rank]} and left no result{last}")
    return "; ".join(dict.fromkeys(reasons))
