"""Faults of a store: kill, hang and restart daemons, remove drives, slow and cut links, and undo all of these.

Every fault is written to a journal in the store's folder before it is injected, so that it can be undone if storelab
itself is killed. The process that injects faults has a lock, which the kernel releases when the process ends, even by
kill -9. From the lock, another storelab process knows whether the faults in the journal belong to a running experiment
or were left behind. `Acts.ready` looks up processes and links in advance, so that the fault itself is only a signal or
a rename.
"""

import fcntl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core import folders
from storelab.core.axes.roles import UNDOES, UPGRADE, USER_ACTS
from storelab.core.errors import MeasurementFailed, UserError, nearest
from storelab.core.records import read_as, write_json
from storelab.host import processes
from storelab.stores.managed import drives, network
from storelab.stores.managed.daemons import continue_all, hold, kill

ON_DAEMONS = ("kill", "hang", "resume", "restart")
COMMAND_S = 120.0  # time limit of a user's command in seconds
Act = Mapping[str, Any]  # an action as `core.campaign.faults.resolved` returns it


@dataclass
class _AppliedFault:
    act: str
    actor: str


@dataclass
class _FaultJournal:
    """The content of `faults.json`. A harm has more fields, which depend on its act."""

    harms: list[_AppliedFault]


class Journal:
    """The faults that were injected into a store and are not undone yet.

    Each fault is a dictionary with `act`, `actor` and the values that are needed to undo it.
    """

    def __init__(self, folder: Path):
        self.file, self._lock, self._thread = folder / "faults.json", folder / "faults.lock", threading.RLock()

    def harms(self) -> list[dict[str, Any]]:
        """Return the faults in the order in which they were injected. Raises UserError for a damaged file."""
        if not self.file.exists():
            return []
        return read_as(self.file, _FaultJournal, "undo the faults of the store manually, then remove the file")["harms"]

    def add(self, harm: dict[str, Any]) -> None:
        """Write a fault to the journal."""
        with self._thread:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self.file, {"schema": 1, "harms": [*self.harms(), harm]})

    def remove(self, harm: dict[str, Any]) -> None:
        """Remove a fault from the journal. The file is deleted if it was the last fault."""
        with self._thread:
            rest = self.harms()
            rest.remove(harm)
            if rest:
                write_json(self.file, {"schema": 1, "harms": rest})
            else:
                self.file.unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Lock the journal during the block. Yield False if another process has the lock, otherwise True."""
        if not self.file.parent.exists():
            self.file.parent.mkdir(parents=True, mode=0o700)
        with folders.lock_file(self._lock) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    @contextmanager
    def taken(self, place: str) -> Iterator[None]:
        """Lock the journal during the block. Raises UserError if another process injects faults into this store."""
        with self.held() as locked:
            if not locked:
                raise UserError(
                    place, "another storelab process injects faults into this store", "wait until that process ends"
                )
            yield


def journal_of(store: Any) -> Journal:
    """Return the journal of the faults of a store."""
    return Journal(Path(store.state).absolute() / store.name)


def resolve(store: Any, actor: str, front_ends: int, place: str) -> str:
    """Return the store's name of an actor that a user calls `data.0`, `front.0`, `osd.0` or `osd-0`.

    Raises UserError, with `place` for the message, if the store has no such actor.
    """
    known = store.known_actors(front_ends)
    kind, dot, number = actor.rpartition(".")
    groups = {"data": store.data_actors(), "front": store.front_actors(front_ends)}
    if dot and kind in groups and number.isdigit():
        if int(number) < len(groups[kind]):
            return groups[kind][int(number)]
        names = f"{kind}.0 to {kind}.{len(groups[kind]) - 1}" if groups[kind] else f"no {kind}.…"
        raise UserError(place, f"store {store.name} has no {actor}", f"it has {names}")
    for name in (actor, actor.replace(".", "-", 1)):
        if name in known:
            return name
    if not known:
        raise UserError(
            place,
            f"storelab does not run the daemons of store {store.name} (kind {store.settings.kind})",
            "write the fault as a `command`",
        )
    raise UserError(place, f"store {store.name} has no actor {actor!r}", nearest(actor, known, "it has"))


class Acts:
    """The faults that can be injected into one store."""

    def __init__(self, store: Any):
        self.store, self.journal = store, journal_of(store)

    def require(self, act: Act, actor: str, place: str) -> None:
        """Check that this act is possible for this actor. Raises UserError if it is not; nothing is changed."""
        kind, store = act["act"], self.store
        if kind in USER_ACTS:
            return
        if kind in (*ON_DAEMONS, UPGRADE):
            if actor not in store.daemon_actors():
                has = ", ".join(store.daemon_actors())
                raise UserError(place, f"{kind} needs a daemon, but {actor} is a drive", f"daemons: {has}")
            if kind == UPGRADE:
                store.require_version(act["to"], place)
        elif kind == "remove_drive":
            drives.require_removable(
                store.drive(actor, place), act.get("how", "gone"), place, actor in store.drives.folders()
            )
        elif kind == "fill":
            store.require_full(actor, place)
        elif kind in ("slow", "cut"):
            network.require_root(place)
            store.link(actor, place)
            if kind == "slow":
                network.require_slow(act, place)

    def ready(self, act: Act, actor: str) -> Callable[[], str]:
        """Return a function that does the act and returns a text for the record.

        Raises MeasurementFailed or OSError if the act is not possible now.
        """
        kind = act["act"]
        if kind in UNDOES:
            return lambda: self._repair(kind, actor)
        if kind == "command":
            return lambda: self._command(act, actor)
        harm = {"act": kind, "actor": actor, **self._facts(act, actor)}
        do = self._fault_action(harm, act)
        self.journal.add(harm)
        return do

    def _command(self, act: Act, actor: str) -> str:
        if act.get("undo"):
            self.journal.add({"act": act["act"], "actor": actor, "undo": act["undo"]})
        return command(act["command"])

    def _facts(self, act: Act, actor: str) -> dict[str, Any]:
        """Return the values that are needed to undo the act."""
        kind, store = act["act"], self.store
        if kind == UPGRADE:
            return {"was": store.version_of(actor), "to": store.reported_version(act["to"])}
        if kind == "remove_drive":
            return {"drive": str(store.drive(actor, "")), "how": act.get("how", "gone")}
        if kind in ("slow", "cut"):
            link = dict(store.link(actor, ""))
            return {"link": link} | ({"routes": network.routes(link)} if kind == "cut" else {})
        return {}

    def _fault_action(self, harm: Mapping[str, Any], act: Act) -> Callable[[], str]:
        """Return a function that does the act. Processes and links are looked up here, in advance."""
        kind, actor, store = harm["act"], harm["actor"], self.store
        if kind in ("kill", "hang"):
            whole = store.daemons.family_of(actor)
            if not whole:
                raise MeasurementFailed(f"{actor} is not running")
            return lambda: kill(whole) if kind == "kill" else hold(whole)
        if kind == "remove_drive":
            return lambda: _with_text(drives.remove(Path(harm["drive"]), harm["how"]), harm["how"])
        if kind == UPGRADE:
            return lambda: f"{self._run_as(actor, act['to'])}, {harm['to']} after {harm['was']}"
        if kind == "fill":
            return lambda: store.fill(actor)
        if kind == "slow":
            return lambda: _with_text(network.slow(harm["link"], act), harm["link"]["device"])
        return lambda: _with_text(network.cut(harm["link"]), harm["link"]["device"])

    def _repair(self, kind: str, actor: str) -> str:
        """Undo what earlier acts did to this actor."""
        if kind == "restart":
            return self._restart(actor)
        mine = [h for h in self.journal.harms() if h["actor"] == actor and h["act"] in UNDOES[kind]]
        if not mine:
            raise MeasurementFailed(f"there is nothing to {kind} at {actor}")
        for harm in reversed(mine):
            self.take_back(harm)
        return ""

    def _restart(self, name: str) -> str:
        """Restart a daemon with the same command. A running daemon is stopped first; a hanging daemon is killed.

        Values in the daemon's record that are not about the process do not change.
        """
        daemons = self.store.daemons
        mine = [h for h in self.journal.harms() if h["actor"] == name and h["act"] in UNDOES["restart"]]
        with daemons.lock():
            before = daemons.records().get(name, {})
            if mine:
                kill(daemons.family_of(name))
                daemons.stop([name])
            elif daemons.family_of(name):
                daemons.stop([name])
            daemons.sweep([name])
            daemon = self.store.daemon(name)
            daemons.check_ports([daemon])
            pid = daemons.start(daemon)
            if more := {k: v for k, v in before.items() if k not in daemons.records().get(name, {})}:
                daemons.note(name, **more)
        for harm in mine:
            self.journal.remove(harm)
        return f"pid {pid}"

    def _run_as(self, name: str, version: str | None) -> str:
        """Restart a daemon with another version, or with the configured version for None, and wait until it is healthy.

        Raises MeasurementFailed if it does not become healthy.
        """
        daemons, versions = self.store.daemons, self.store.versions
        versions.pop(name, None)
        if version:
            versions[name] = version
        message = self._restart(name)
        daemons.wait_healthy(self.store.daemon(name), self.store.start_timeout)
        return message

    def take_back(self, harm: dict[str, Any], restart: bool = True) -> str:
        """Undo a fault and remove it from the journal. Return a text for the record.

        With `restart`, start a killed daemon again. If undoing raises MeasurementFailed or OSError, the fault stays in
        the journal.
        """
        kind, actor = harm["act"], harm["actor"]
        if kind == "kill" and restart:
            return self._restart(actor)
        message = ""
        if kind == UPGRADE and restart:  # without restart, `up` notices that the daemon runs another program
            message = self._downgrade(actor)
        elif kind == "hang":
            continue_all(self.store.daemons.family_of(actor))
        elif kind == "remove_drive":
            drives.give_back(Path(harm["drive"]), harm["how"])
        elif kind == "fill":
            self.store.empty(actor)
        elif kind == "slow":
            network.quick(harm["link"])
        elif kind == "cut":
            network.join(harm["link"], harm["routes"])
        elif kind == "command":
            command(harm["undo"])
        self.journal.remove(harm)
        return message

    def _downgrade(self, name: str) -> str:
        """Restart an upgraded daemon with its configured version, if it still runs the other version."""
        self.store.versions.pop(name, None)
        runs = self.store.daemons.records().get(name, {}).get("argv")
        return "" if runs == list(self.store.daemon(name).argv) else self._run_as(name, None)

    def take_all_back(self, restart: bool) -> Iterator[tuple[dict[str, Any], Callable[[], str]]]:
        """Yield every fault that is not undone, from last to first, with a function that undoes it."""
        for harm in reversed(self.journal.harms()):
            yield harm, lambda harm=harm: self.take_back(harm, restart)  # type: ignore[misc]


def repair(store: Any) -> list[str]:
    """Undo faults that a killed storelab process left in this store, and return lines to print.

    Faults of a running storelab process are not undone. `up` restarts killed daemons later.
    """
    journal, lines = journal_of(store), []
    if not journal.file.exists():
        return []
    with journal.held() as locked:
        for harm, take_back in Acts(store).take_all_back(restart=False) if locked else ():
            try:
                take_back()
                lines.append(f"{store.name}: undid {_name(harm)}, which was left behind")
            except Exception as error:  # noqa: BLE001 - a failing store can cause any exception
                raise UserError(
                    f"{journal.file}",
                    f"{_name(harm)} was left behind and cannot be undone: {error}",
                    "undo it manually, then remove the file",
                ) from None
    return lines


def _name(harm: Mapping[str, Any]) -> str:
    return f"{harm['act']} of {harm['actor']}" if harm["actor"] else str(harm["act"])


def command(line: str) -> str:
    """Run a user's command line, and return the end of its output. Raises MeasurementFailed if it fails."""
    done = processes.run_command(["/bin/sh", "-c", line], COMMAND_S)
    if done.returncode:
        raise MeasurementFailed(f"`{line[:60]}` ended with status {done.returncode}: {processes.words(done)[:120]}")
    return processes.words(done)[:120]


def _with_text(_: None, words: str) -> str:
    return words
