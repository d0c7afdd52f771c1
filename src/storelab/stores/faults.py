"""Faults of a store: its daemons killed, hung and restarted, its drives taken, its links slowed and cut; and back.

Every harm is in a journal in the store's folder before it is done, so that nothing stays stopped, away or slowed where
storelab itself is killed. Whoever does faults holds a lock, which the kernel gives free when its process ends, kill -9
included. So the next storelab knows whether what is in the journal is somebody's experiment or was left behind.
`Acts.ready` finds what an act needs (processes, links) ahead of its time: the act itself is then a signal or a rename.
"""

import fcntl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core import folders
from storelab.core.axes.roles import OF_A_USER, UNDOES, UPGRADE
from storelab.core.errors import MeasurementFailed, UserError, nearest
from storelab.core.records import read_as, write_json
from storelab.host import processes
from storelab.stores.managed import drives, network
from storelab.stores.managed.daemons import hold, kill, wake

ON_DAEMONS = ("kill", "hang", "resume", "restart")
COMMAND_S = 120.0  # that a user's command may take
Act = Mapping[str, Any]  # as of `core.campaign.faults.resolved`


@dataclass
class _Harm:
    act: str
    actor: str


@dataclass
class _Harms:
    """What `faults.json` holds; a harm has more, by its act."""

    harms: list[_Harm]


class Journal:
    """The harms that were done to the store of a folder and are not taken back yet.

    Each is {"act", "actor"} and what is needed to take it back.
    """

    def __init__(self, folder: Path):
        self.file, self._lock, self._thread = folder / "faults.json", folder / "faults.lock", threading.RLock()

    def harms(self) -> list[dict[str, Any]]:
        """In the order in which they were done. Raises UserError for a damaged file."""
        if not self.file.exists():
            return []
        return read_as(self.file, _Harms, "undo by hand what was done to the store, then remove the file")["harms"]

    def add(self, harm: dict[str, Any]) -> None:
        with self._thread:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self.file, {"schema": 1, "harms": [*self.harms(), harm]})

    def remove(self, harm: dict[str, Any]) -> None:
        """The file goes with the last one."""
        with self._thread:
            rest = self.harms()
            rest.remove(harm)
            if rest:
                write_json(self.file, {"schema": 1, "harms": rest})
            else:
                self.file.unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Whether the journal is this process's while the block runs."""
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
        """Raises UserError where another process does faults on this store."""
        with self.held() as own:
            if not own:
                raise UserError(place, "another storelab process does faults on it", "wait for that one to end")
            yield


def journal_of(store: Any) -> Journal:
    return Journal(Path(store.state).absolute() / store.name)


def resolve(store: Any, actor: str, front_ends: int, place: str) -> str:
    """The store's own name of an actor: `data.0`, `front.0`, `osd.0` and `osd-0` are understood. Raises UserError."""
    known = store.known_actors(front_ends)
    kind, dot, number = actor.rpartition(".")
    groups = {"data": store.data_actors(), "front": store.front_actors(front_ends)}
    if dot and kind in groups and number.isdigit():
        if int(number) < len(groups[kind]):
            return groups[kind][int(number)]
        told = f"{kind}.0 to {kind}.{len(groups[kind]) - 1}" if groups[kind] else f"no {kind}.…"
        raise UserError(place, f"store {store.name} has no {actor}", f"it has {told}")
    for name in (actor, actor.replace(".", "-", 1)):
        if name in known:
            return name
    if not known:
        raise UserError(
            place,
            f"storelab runs no daemon of store {store.name} (kind {store.settings.kind})",
            "write the act as a `command`",
        )
    raise UserError(place, f"store {store.name} has no actor {actor!r}", nearest(actor, known, "it has"))


class Acts:
    """The acts on one store."""

    def __init__(self, store: Any):
        self.store, self.journal = store, journal_of(store)

    def require(self, act: Act, actor: str, place: str) -> None:
        """Raises UserError where this act cannot be done to this actor; nothing is touched."""
        kind, store = act["act"], self.store
        if kind in OF_A_USER:
            return
        if kind in (*ON_DAEMONS, UPGRADE):
            if actor not in store.daemon_actors():
                has = ", ".join(store.daemon_actors())
                raise UserError(place, f"{kind} is done to a daemon, and {actor} is a drive", f"daemons: {has}")
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
        """The act, to be called at its time; it returns what there is to say of it.

        Raises MeasurementFailed, OSError where it cannot be done now.
        """
        kind = act["act"]
        if kind in UNDOES:
            return lambda: self._repair(kind, actor)
        if kind == "command":
            return lambda: self._command(act, actor)
        harm = {"act": kind, "actor": actor, **self._facts(act, actor)}
        do = self._harm(harm, act)
        self.journal.add(harm)
        return do

    def _command(self, act: Act, actor: str) -> str:
        if act.get("undo"):
            self.journal.add({"act": act["act"], "actor": actor, "undo": act["undo"]})
        return command(act["command"])

    def _facts(self, act: Act, actor: str) -> dict[str, Any]:
        """What taking it back needs to know."""
        kind, store = act["act"], self.store
        if kind == UPGRADE:
            return {"was": store.version_of(actor), "to": store.told_version(act["to"])}
        if kind == "remove_drive":
            return {"drive": str(store.drive(actor, "")), "how": act.get("how", "gone")}
        if kind in ("slow", "cut"):
            link = dict(store.link(actor, ""))
            return {"link": link} | ({"routes": network.routes(link)} if kind == "cut" else {})
        return {}

    def _harm(self, harm: Mapping[str, Any], act: Act) -> Callable[[], str]:
        """The call that does it, all looked up before."""
        kind, actor, store = harm["act"], harm["actor"], self.store
        if kind in ("kill", "hang"):
            whole = store.daemons.family_of(actor)
            if not whole:
                raise MeasurementFailed(f"{actor} does not run")
            return lambda: kill(whole) if kind == "kill" else hold(whole)
        if kind == "remove_drive":
            return lambda: _said(drives.remove(Path(harm["drive"]), harm["how"]), harm["how"])
        if kind == UPGRADE:
            return lambda: f"{self._run_as(actor, act['to'])}, {harm['to']} after {harm['was']}"
        if kind == "fill":
            return lambda: store.fill(actor)
        if kind == "slow":
            return lambda: _said(network.slow(harm["link"], act), harm["link"]["device"])
        return lambda: _said(network.cut(harm["link"]), harm["link"]["device"])

    def _repair(self, kind: str, actor: str) -> str:
        """Take back what earlier acts did to this actor."""
        if kind == "restart":
            return self._restart(actor)
        mine = [h for h in self.journal.harms() if h["actor"] == actor and h["act"] in UNDOES[kind]]
        if not mine:
            raise MeasurementFailed(f"nothing is there to {kind} at {actor}")
        for harm in reversed(mine):
            self.take_back(harm)
        return ""

    def _restart(self, name: str) -> str:
        """Start a daemon with its own command; one that still runs is stopped first, one that hangs is killed.

        What was noted about it, beside its process, holds for the new one too.
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
        """Stop a daemon in order, start it from another version's program (None: the configured one), and wait until it
        is healthy. Raises MeasurementFailed where it never is."""
        daemons, versions = self.store.daemons, self.store.versions
        versions.pop(name, None)
        if version:
            versions[name] = version
        said = self._restart(name)
        daemons.wait_healthy(self.store.daemon(name), self.store.start_timeout)
        return said

    def take_back(self, harm: dict[str, Any], restart: bool = True) -> str:
        """Undo a harm and strike it from the journal; returns what there is to say of it.

        restart: whether a daemon that was killed is started again. Raises MeasurementFailed, OSError; the harm then
        stays in the journal.
        """
        kind, actor = harm["act"], harm["actor"]
        if kind == "kill" and restart:
            return self._restart(actor)
        said = ""
        if kind == UPGRADE and restart:  # else `up` finds that it runs as another program than configured
            said = self._downgrade(actor)
        elif kind == "hang":
            wake(self.store.daemons.family_of(actor))
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
        return said

    def _downgrade(self, name: str) -> str:
        """What an upgrade of a daemon leaves: nothing where it was not done, or is taken back already."""
        self.store.versions.pop(name, None)
        runs = self.store.daemons.records().get(name, {}).get("argv")
        return "" if runs == list(self.store.daemon(name).argv) else self._run_as(name, None)

    def take_all_back(self, restart: bool) -> Iterator[tuple[dict[str, Any], Callable[[], str]]]:
        """Every harm that stands, the last one first, with the call that takes it back."""
        for harm in reversed(self.journal.harms()):
            yield harm, lambda harm=harm: self.take_back(harm, restart)  # type: ignore[misc]


def mend(store: Any) -> list[str]:
    """Take back what a storelab that was killed left in this store; returns lines for people.

    Faults of a storelab that lives stay. Daemons that were killed are left to `up`.
    """
    journal, told = journal_of(store), []
    if not journal.file.exists():
        return []
    with journal.held() as own:
        for harm, take_back in Acts(store).take_all_back(restart=False) if own else ():
            try:
                take_back()
                told.append(f"{store.name}: {harm['act']} of {harm['actor'] or 'yours'} was left behind; taken back")
            except Exception as error:  # noqa: BLE001 - whatever a sick store makes a client raise
                raise UserError(
                    f"{journal.file}",
                    f"{harm['act']} of {harm['actor']} was left behind and cannot be taken back: {error}",
                    "do it by hand, then remove the file",
                ) from None
    return told


def command(line: str) -> str:
    """Run a user's line; returns the end of what it says. Raises MeasurementFailed where its status is not 0."""
    done = processes.ask(["/bin/sh", "-c", line], COMMAND_S)
    if done.returncode:
        raise MeasurementFailed(f"`{line[:60]}` ended with status {done.returncode}: {processes.words(done)[:120]}")
    return processes.words(done)[:120]


def _said(_: None, words: str) -> str:
    return words
