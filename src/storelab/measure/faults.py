"""Faults during a point: the acts of a fault, the runner that does them, and their part of the record.

The runner can be used without a point: it needs a store, a list of acts, and the start time of the run.

    with Runner(store, "osd-killed", acts) as runner:
        runner.start(t0_ns)
        ...                 # the clients
        runner.settle()     # undoes the remaining acts, and waits until the store is healthy
    runner.events

This module may import `engines`, `stores`, `host` and `core`.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from storelab.core import clock, records
from storelab.core.axes.roles import HARMS, NONE, UNDOES, UPGRADE, USER_ACTS
from storelab.core.campaign.faults import most_lost, resolved
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError, error_text, require_known
from storelab.core.model import Point
from storelab.core.records import RunRecord
from storelab.engines.contract import Check
from storelab.host import console
from storelab.stores.base import CLEAN, UNKNOWN, Condition, Store
from storelab.stores.faults import Acts, journal_of, resolve

AHEAD_NS = 500_000_000  # an act is prepared this time before it is due
POLL_S = 0.5  # seconds between two queries of the store's condition
RECOVERY_S = 240.0  # seconds until a store must be healthy again after the run
Event = dict[str, Any]
LOOK_S = 0.1


# The fault actions (acts) of a point


def name_of(point: Point) -> str:
    """Return the name of the fault of a point; `none` if it has no fault."""
    return str(point.axes.get("fault", NONE))


def acts_of(config: Config, point: Point) -> list[dict[str, Any]]:
    """Return the acts of a point in the order of time, from the plan (`fixed`) or else from the configuration.

    Raises UserError if the fault is not defined.
    """
    if (name := name_of(point)) == NONE:
        return []
    if "acts" in point.fixed:
        planned: list[dict[str, Any]] = point.fixed["acts"]
        return planned
    require_known(
        f"sweeps.{point.sweep}.axes.fault",
        name,
        [*config.faults, NONE],
        f"there is no fault {name!r} in `faults`",
        "one of:",
    )
    return resolved(config.faults[name], point.fixed["duration_ns"], config.scale, f"faults.{name}")


def refuse(config: Config, point: Point, store: Store) -> str:
    """Check that each act is possible in this deployment of the store. Raises UserError if one is not.

    Return a warning if the fault removes more data servers at the same time than the redundancy tolerates, which is
    allowed; otherwise ''.
    """
    acts = acts_of(config, point)
    if not acts:
        return ""
    name = name_of(point)
    place, front_ends = f"faults.{name}", point.axes.get("front_ends", 1)
    named = with_names(store, acts, front_ends, place)
    _in_order(named, place)
    for act in named:
        for actor in act["actors"]:
            Acts(store).require(act, actor, place)
    return beyond(named, store, name)


def beyond(named: list[dict[str, Any]], store: Store, name: str) -> str:
    """Return a warning if a fault removes more data servers at the same time than the redundancy tolerates; else ''."""
    lost, tolerated = most_lost(named) & set(store.data_actors()), store.tolerated_failures()
    if len(lost) <= tolerated:
        return ""
    which = ", ".join(sorted(lost))
    problem = f"fault {name} removes {which} of {store.name} at the same time, but its redundancy tolerates {tolerated}"
    return f"{problem}: data may be lost"


def _in_order(named: list[dict[str, Any]], place: str) -> None:
    """Raise UserError if an act undoes something that was not done, or repeats something that is not undone."""
    done: set[tuple[str, str]] = set()
    for act in named:
        for actor in act["actors"] if act["act"] not in USER_ACTS else ():
            kind = act["act"]
            if kind in HARMS and (actor, kind) in done:
                raise UserError(place, f"{kind} of {actor} occurs twice", "remove one, or undo the first before")
            if kind in HARMS:
                done.add((actor, kind))
            mine = {(actor, harm) for harm in UNDOES.get(kind, ())} & done
            if kind in UNDOES and kind != "restart" and not mine:
                before = " or ".join(UNDOES[kind])
                raise UserError(place, f"{kind} of {actor} has no {before} before it", f"add the {before}")
            done -= mine
            if kind == "resume" and (actor, "kill") in done:
                raise UserError(place, f"resume of {actor}, which was killed", "write `restart`")


def check_plan(
    config: Config,
    points: list[Point],
    deployment: Callable[[Point], Store],
    report: Callable[[str], None],
) -> None:
    """Check all faults of a plan once for each deployment, and print possible losses of data. Raises UserError."""
    reported: set[str] = set()
    seen: set[tuple[str, str, int, int]] = set()
    for point in points:
        if name_of(point) == NONE:
            continue
        store = deployment(point)
        key = (store.name, name_of(point), point.axes.get("front_ends", 1), point.fixed["duration_ns"])
        if key in seen:
            continue
        seen.add(key)
        if (line := refuse(config, point, store)) and line not in reported:
            reported.add(line)
            report(line)


# The run


class Runner:
    """The acts of one fault on one store in one run.

    Parameters
    ----------
    store
        The store.
    name
        Name of the fault.
    acts
        Acts from `core.campaign.faults.resolved`.
    report
        Function that prints a line for the user.
    moved
        Function that is called with name and pid of a daemon that has a new process.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        acts: Sequence[Mapping[str, Any]],
        front_ends: int = 1,
        report: Callable[[str], None] = lambda line: None,
        moved: Callable[[str, int], None] = lambda name, pid: None,
    ):
        self.store, self.name, self.report, self.moved = store, name, report, moved
        self.acts = with_names(store, acts, front_ends, f"faults.{name}")
        self.events: list[Event] = []
        self.recovered: bool | None = None  # None: the store does not report it, or the runner has not waited
        self._do, self._lock = Acts(store), threading.Lock()
        self._over, self._quiet = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._poll: threading.Thread | None = None
        self._state: Condition | None = None
        self._t0_ns = 0
        self._held = ExitStack()

    def __enter__(self) -> "Runner":
        self._held.enter_context(journal_of(self.store).taken(self.store.place))
        self._versions()  # read now, so that an act does not wait for a program that prints its version
        return self

    def __exit__(self, *_: Any) -> None:
        """Undo all acts of the fault, also after an error."""
        with self._held:
            self._end_acts()
            self._take_back()
            self._quiet.set()
            if self._poll:
                self._poll.join(10)

    def start(self, t0_ns: int) -> None:
        """Start the acts. `t0_ns` is the agreed start (Unix ns), which is in the future."""
        self._t0_ns = t0_ns
        self._poll = threading.Thread(target=self._watch, daemon=True, name="condition")
        first = threading.Thread(target=self._run, daemon=True, name="faults")
        self._threads.append(first)
        for thread in (self._poll, first):
            thread.start()

    def settle(self, seconds: float = RECOVERY_S) -> None:
        """Undo the remaining acts after the run, and wait until the store reports that it is healthy."""
        self._end_acts()
        self._take_back()
        end = time.monotonic() + seconds
        self._await_daemons(end)
        while (state := self.store.condition().state) not in (CLEAN, UNKNOWN) and time.monotonic() < end:
            time.sleep(POLL_S)
        self._ask()
        self.recovered = None if state == UNKNOWN else state == CLEAN
        if self.recovered is False:
            self.report(f"    {self.store.name} is not healthy {seconds:g} s after the run: {state}, {self._detail()}")

    def failed(self) -> list[str]:
        """Return one line for each act that failed."""
        return [f"{e['act']} of {e['actor'] or 'a user'}: {e['error']}" for e in self.events if e.get("error")]

    def first_ns(self) -> int:
        """Return the time (ns) when the first act began, or when it was due if no act has begun."""
        begun = [int(e["time_ns"]) for e in self.events if e["kind"] == "act"]
        return min(begun, default=self._t0_ns + self.acts[0]["at_ns"])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the record about the fault, without its events."""
        lost, tolerated = sorted(most_lost(self.acts) & set(self.store.data_actors())), self.store.tolerated_failures()
        return self._versions() | {
            "name": self.name,
            "acts": self.acts,
            "most_lost": lost,
            "bears": tolerated,
            "beyond_redundancy": len(lost) > tolerated,
            "recovered": self.recovered,
        }

    def _versions(self) -> dict[str, list[str]]:
        """Return the versions before and after upgrades, as the programs print them; empty without upgrades."""
        new = dict.fromkeys(act["to"] for act in self.acts if act["act"] == UPGRADE)
        return {"versions": [self.store.version(), *map(self.store.reported_version, new)]} if new else {}  # type: ignore[attr-defined]

    # The acts

    def _run(self) -> None:
        for act in self.acts:
            due = self._t0_ns + act["at_ns"]
            if self._wait(due - AHEAD_NS):
                return
            ready = [(actor, self._ready(act, actor)) for actor in act["actors"] or [""]]
            if self._wait(due):
                return
            for actor, do in ready:
                if act["act"] in USER_ACTS:  # in a thread, because it can take long and must not delay the next act
                    thread = threading.Thread(target=self._done, args=(act, actor, do, due), daemon=True)
                    self._threads.append(thread)
                    thread.start()
                elif act["act"] != UPGRADE:
                    self._done(act, actor, do, due)
            if act["act"] == UPGRADE:
                thread = threading.Thread(target=self._one_by_one, args=(act, ready, due), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _one_by_one(self, act: Mapping[str, Any], ready: Sequence[tuple[str, Callable[[], str]]], due_ns: int) -> None:
        """Upgrade the actors one after the other: each when the previous one is healthy. Later acts are not delayed."""
        for actor, do in ready:
            late = MeasurementFailed("the run ended before this actor was upgraded")
            self._done(act, actor, _raiser(late) if self._over.is_set() else do, due_ns)

    def _wait(self, t_ns: int) -> bool:
        """Wait until this time, and return whether the run ended before."""
        return self._over.wait(max(0, t_ns - clock.now_ns()) / 1e9)

    def _ready(self, act: Mapping[str, Any], actor: str) -> Callable[[], str]:
        try:
            return self._do.ready(act, actor)
        except Exception as error:  # noqa: BLE001 - reported at the time of the act
            return _raiser(error)

    def _done(self, act: Mapping[str, Any], actor: str, do: Callable[[], str], due_ns: int, kind: str = "act") -> None:
        """Do the act and record its result as an event."""
        event = {"kind": kind, "fault": self.name, "act": act["act"], "actor": actor, "due_ns": due_ns}
        begun, error, detail = clock.now_ns(), None, ""
        try:
            detail = do()
        except (MeasurementFailed, UserError, OSError) as failure:
            error = " ".join(str(failure).split())
        except Exception as failure:  # noqa: BLE001 - an error must not prevent later acts and the undoing
            error = error_text(failure)
        event |= {"time_ns": begun, "done_ns": clock.now_ns(), "error": error, "detail": detail}
        with self._lock:
            self.events.append(event)
            self.events.sort(key=lambda e: e["time_ns"])
        if error:
            self.report(f"    fault {self.name}: {act['act']} {actor}: {error}")
        for name, pid in self.store.actors().items() if detail.startswith("pid") and act["act"] != "hang" else ():
            if name == actor:
                self.moved(name, pid)

    def _end_acts(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(150)

    def _take_back(self) -> None:
        for harm, take_back in self._do.take_all_back(restart=True):
            self._done(harm, harm["actor"], take_back, clock.now_ns(), "undone")

    def _await_daemons(self, end: float) -> None:
        """Wait until every daemon that was started again is healthy."""
        names = {e["actor"] for e in self.events if e["kind"] != "state" and e["act"] in ("kill", "restart", UPGRADE)}
        for name in sorted(names & set(self.store.actors())):
            while not self.store.daemon(name).healthy() and time.monotonic() < end:  # type: ignore[attr-defined]
                time.sleep(0.1)

    # The condition of the store

    def _watch(self) -> None:
        while not self._quiet.is_set():
            self._ask()
            self._quiet.wait(POLL_S)

    def _ask(self) -> None:
        requested = clock.now_ns()
        try:
            now = self.store.condition()
        except Exception as error:  # noqa: BLE001 - client libraries raise many classes for a broken store
            now = Condition(UNKNOWN, f"{type(error).__name__}: {error}"[:200])
        with self._lock:
            if self._state is None or now.state != self._state.state:
                # The first state is valid from the start. A later state gets the time of its answer, which can be late.
                known = clock.now_ns() if self._state else max(requested, self._t0_ns)
                event = {"kind": "state", "time_ns": known, "state": now.state, "detail": now.detail}
                self.events.append(event)
                self.events.sort(key=lambda e: e["time_ns"])
            self._state = now

    def _detail(self) -> str:
        return self._state.detail if self._state else ""


def with_names(store: Store, acts: Sequence[Mapping[str, Any]], front_ends: int, place: str) -> list[dict[str, Any]]:
    """Return the acts with the store's names of the actors. Acts that are user commands do not change.

    Raises UserError if the store has no such actor.
    """
    return [
        {
            **act,
            "actors": [
                actor if act["act"] in USER_ACTS else resolve(store, actor, front_ends, place)
                for actor in act["actors"]
            ],
        }
        for act in acts
    ]


def _raiser(error: Exception) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


@contextmanager
def running(
    config: Config,
    point: Point,
    store: Store,
    moved: Callable[[str, int], None],
) -> Iterator[Runner | None]:
    """Yield the runner of the point's fault, or None if the point has no fault. Raises UserError."""
    if not (acts := acts_of(config, point)):
        yield None
        return
    runner = Runner(store, name_of(point), acts, point.axes.get("front_ends", 1), console.report, moved)
    if line := beyond(runner.acts, store, runner.name):
        console.report(f"    {line}")
    with runner:
        yield runner


def checks_of(runner: Runner | None) -> list[Check]:
    """Return a check that fails if an act was not possible. Such a run is not accepted."""
    if runner is None:
        return []
    failed = runner.failed()
    return [Check(f"fault {runner.name}", not failed, "; ".join(failed[:3]) or "all acts were done")]


def add_to(run: RunRecord, runner: Runner | None, work: Path) -> None:
    """Add a fault and its events to a record. Only errors before the first act count for the failure budget."""
    if runner is None or run.budget is None:
        return
    budget = run.budget
    budget.before_errors, budget.before_operations = _before(work, runner.first_ns())
    share = budget.before_errors / max(1, budget.before_operations)
    budget.reason = None
    if share > budget.failure_budget:
        most = f"more than failure_budget = {100 * budget.failure_budget:g} %"
        budget.reason = f"{100 * share:.3g} % of the operations failed before the first act, {most}"
    run.events, run.fault, run.valid = runner.events, runner.as_dict(), budget.reason is None


def _before(work: Path, first_ns: int) -> tuple[int, int]:
    """Return the numbers of failed operations and of ended operations of all clients when the first act began."""
    import pyarrow.compute as pc  # imported here, because most points have no fault

    errors, operations = 0, 0
    for path in work.glob("ops.*.parquet"):
        rows = records.read_table(path, ["end_ns", "error", "count"])
        rows = rows.filter(pc.less(rows["end_ns"], first_ns))
        operations += pc.sum(rows["count"]).as_py() or 0
        errors += pc.sum(rows.filter(pc.is_valid(rows["error"]))["count"]).as_py() or 0
    return errors, operations
