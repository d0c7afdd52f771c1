"""One point: gang start -> clients until the deadline -> checks -> records, atomically (room `measure`).

A point is done when a valid record with the same identity is there; then `point()` returns at once, whatever called it.
`_measure` is the sequence that docs/architecture.md tells. May import: every room of the measuring side and `core`.
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from storelab import workloads
from storelab.core import evidence, folders, records, units
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Part, Point
from storelab.gang import coordinator, nodes
from storelab.gang.launchers import choose
from storelab.gang.launchers.local import Spare
from storelab.host import scratch
from storelab.host.monitor import Monitor
from storelab.measure import attempts, beside, check_axes, cold, given_up, jobs, plan_file, record
from storelab.measure.durability.beside import Beside
from storelab.measure.durability.readings import Readings
from storelab.measure.faults import check as fault_check
from storelab.measure.faults import hook
from storelab.measure.faults.runner import Runner
from storelab.measure.progress import lines
from storelab.measure.progress.state import State, following
from storelab.stores import all_stores, deployed, everywhere
from storelab.stores.base import Answered, Store
from storelab.stores.managed import users
from storelab.stores.protocols import tokens
from storelab.workloads.base import Workload
from storelab.workloads.staging import filling, left_over, needs, stage, written

REQUESTED = "measured again by request"
MIN_OPERATIONS = 3  # operations that a window has to be long enough for
MAX_FACTOR = 10  # by which a window is lengthened
LENGTHENED = ("put", "get", "get_range", "read_entries", "read_volume", "events", "replay")


@contextmanager
def measuring_lock(state: Path) -> Iterator[None]:
    """One measurement at a time on this machine; released by the kernel when its holder ends, kill -9 included."""
    folders.trusted(state, "state")
    state.mkdir(parents=True, exist_ok=True)
    with folders.lock_file(state / "measuring.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stage.report("    waiting: another measurement runs on this machine")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def point(
    config: Config, points: list[Point], key: str, again: bool = False, spare: Spare = None
) -> dict[str, Any] | None:
    """Measure the point `key` of the plan; returns its record, None where it was there already. spare: of `choose`.

    Raises UserError (not in the plan, sealed, settings changed …) and MeasurementFailed, which leaves `failed.json`.
    """
    chosen = next((p for p in points if p.key == key), None)
    if chosen is None:
        raise UserError("measure", f"no point {key!r} in the plan of campaign {config.name!r}", "see `storelab plan`")
    folders.own(config)
    folder = config.raw / key
    if not again and evidence.load_run(folder, chosen):
        return None
    if records.sealed(config.raw):
        raise UserError(
            str(config.raw),
            "the campaign is sealed: it is not measured any more",
            "give the new campaign another name",
        )
    check_axes.possible(chosen, deployed(all_stores(config)[chosen.store], chosen.axes))
    beside.possible(config, chosen, all_stores(config))
    fault_check.possible(config, chosen, deployed(all_stores(config)[chosen.store], chosen.axes))
    plan_file.refuse_differences(config, points)
    users.use(Path(config.state), [chosen.store, *filter(None, [beside.named(chosen)])])
    with measuring_lock(Path(config.state)), scratch.using(config.scratch):
        wrong = evidence.flaw(folder, chosen.identity()) if (folder / "run.json").exists() else None
        if not again and not wrong and (folder / "run.json").exists():  # by another run while this one waited
            return None
        attempts.sweep(config)
        if why := given_up.reason(config, chosen.store):
            given_up.leave(config, chosen, f"points of {chosen.store} before it failed alike: {why}")
            raise MeasurementFailed(f"{key}: not tried, {chosen.store} was given up")
        at = lines.place(config, points, chosen)
        chosen = lengthened(config, points, chosen)
        lines.announce(at, chosen)
        if wrong:
            stage.report(f"    measured anew: {wrong.path} {wrong.problem}")
        begun, why = time.monotonic(), f"its record was damaged: {wrong.path.name}" if wrong else REQUESTED
        with following(config, chosen, at) as state:
            try:
                run = _measure(config, points, chosen, why, state, spare)
            except (MeasurementFailed, UserError) as error:
                if isinstance(error, MeasurementFailed):
                    records.fail(folder, chosen, str(error))
                else:
                    given_up.leave(config, chosen, str(error))
                given_up.failed(config, points, chosen.store, str(error))
                if isinstance(error, UserError):
                    raise
                raise MeasurementFailed(f"{key}: {error}") from None
        given_up.good(config, chosen.store)
        lines.note_overhead(config, chosen, time.monotonic() - begun)
    return run


def lengthened(config: Config, points: list[Point], chosen: Point) -> Point:
    """Return the point with a window of at least MIN_OPERATIONS operations, as long as those of an earlier repetition.

    Open loops, roles and faults keep their duration, and workloads that are not in LENGTHENED. The record has the
    duration that was measured.
    """
    fixed, axes = chosen.fixed, chosen.axes
    if chosen.workload not in LENGTHENED or axes.get("arrival_rate") or fixed.get("acts"):
        return chosen
    same = (chosen.store, chosen.workload, axes, chosen.sweep)
    earlier = [p for p in points if (p.store, p.workload, p.axes, p.sweep) == same and p.rep < chosen.rep]
    run = next((run for p in earlier if (run := evidence.load_run(config.raw / p.key, p))), None)
    if run is None:
        return chosen
    done = sum(c.get("operations") or 0 for c in run["clients"])
    busy_ns = (run["deadline_ns"] - run["start_ns"]) * len(run["clients"]) * int(axes.get("workers") or 1)
    needed = fixed["warm_up_ns"] + MIN_OPERATIONS * busy_ns // max(1, done)
    duration = min(-(-needed // 10**8) * 10**8, MAX_FACTOR * fixed["duration_ns"])
    if duration <= fixed["duration_ns"]:
        return chosen
    before, now, each = (units.human_duration(t) for t in (fixed["duration_ns"], duration, busy_ns // max(1, done)))
    took = f"an operation took {each}" if done else "no operation ended"
    stage.report(f"    {chosen.key}: {before} lengthened to {now}: {took} in repetition {run['point']['rep']}")
    return replace(chosen, fixed=fixed | {"duration_ns": duration})


@dataclass
class Attempt:
    """One try at a point: what its steps share. `work` is its folder, `job` what the clients are told: with a job of
    its own for each role, where there are roles; `filled`: what the record says of the store's fill level."""

    config: Config
    point: Point
    store: Store
    workload: Workload
    name: str
    work: Path
    job: dict[str, Any]
    cold: cold.Evidence
    filled: dict[str, Any] | None
    state: State
    spare: Spare = None

    @property
    def parts(self) -> list[tuple[Part, dict[str, Any]]]:
        """The point's roles with their jobs, or the point itself."""
        parts = self.point.parts()
        return [*zip(parts, self.job.get("roles", [self.job]), strict=True)]

    @property
    def writing(self) -> list[tuple[Part, dict[str, Any]]]:
        return [(part, job) for part, job in self.parts if workloads.of(part.point).direction == "write"]


@dataclass
class Outcome:
    """What the gang left: the clients' results, all checks, what the workload observed, the launcher, the monitor, what
    was read back of a ledger, and what each server answered."""

    results: list[dict[str, Any]]
    checks: list[dict[str, Any]]
    observed: dict[str, Any] | None
    launcher: Any
    watch: Monitor
    fault: Runner | None
    durability: dict[str, Any] | None
    servers: list[dict[str, Any]] | None


def _measure(
    config: Config, points: list[Point], chosen: Point, why: str, state: State, spare: Spare
) -> dict[str, Any]:
    """One point, from the store to the record. `why`: the reason to measure it again. Raises MeasurementFailed."""
    store = _bring_up(config, chosen)
    state.stage("data")
    datasets = {p.dataset["name"]: p.dataset for p in (part.point for part in chosen.parts()) if p.dataset}
    if not (wanted := filling.level(chosen)):
        filling.ensure(config, store, 0)
    manifests = {name: stage.ensure(config, store, dataset) for name, dataset in datasets.items()}
    filled = filling.ensure(config, store, wanted, jobs.keeps(chosen)) if wanted else None
    with attempts.begun(config, chosen.key) as work:
        attempt = _new_attempt(config, points, chosen, store, manifests, work, filled, state)
        attempt.spare = spare
        return _attempted(attempt, points, why)


def _attempted(attempt: Attempt, points: list[Point], why: str) -> dict[str, Any]:
    attempt.state.stage("clients", attempt.work)
    try:
        _write_job(attempt, points)
        attempt.cold.cool()
        outcome = _launch(attempt)
    finally:
        attempt.workload.ended(attempt.job)
    _gather(attempt, outcome, points)
    staged = record.reads_staged(attempt.point)
    record.accept(attempt.job["limits"], outcome.results, outcome.checks, staged)
    run = _told(attempt, outcome)
    record.put_in_place(run, attempt.work, attempt.config.raw / attempt.point.key, why)
    return run


def _bring_up(config: Config, chosen: Point) -> Store:
    """The store as the point deploys it, up; every other managed one is suspended. Raises UserError where credentials
    end before the point would."""
    store = deployed(all_stores(config)[chosen.store], chosen.axes)
    second = beside.store_of(config, chosen)
    found = [one for used in filter(None, (store, second)) for one in used.credentials_end()]
    if ended := tokens.too_short(found, chosen.fixed["duration_ns"] / 1e9):
        raise ended
    for name, other in everywhere(config).items():
        _mend(other)
        if other.managed and name != store.name and not (second and name == second.name):
            other.suspend()  # takes no CPU while another system is measured
    store.resume()
    front_ends = chosen.axes.get("front_ends", 1)
    choose.lives_outside(config, store, front_ends)
    store.up(front_ends, chosen.axes.get("accounts", 1))
    if second:
        second.resume()
        second.up()
    return store


def _mend(store: Store) -> None:
    """Take back what a storelab that was killed in the middle of a fault left behind.

    What cannot be taken back is told; it stops nobody but who wants that very store (`up`).
    """
    try:
        lines = store.mend()
    except UserError as error:
        lines = [str(error)]
    for line in lines:
        stage.report(f"    {line}")


def _new_attempt(
    config: Config,
    points: list[Point],
    chosen: Point,
    store: Store,
    manifests: dict[str, Path],
    work: Path,
    filled: dict[str, Any] | None,
    state: State,
) -> Attempt:
    job = jobs.of_point(config, chosen, store, manifests, work.name)
    if jobs.keeps(chosen):
        jobs.tell_earlier(config, points, chosen, job)
    evidence = cold.Evidence(config, store, chosen, job)
    return Attempt(config, chosen, store, workloads.of(chosen), work.name, work, job, evidence, filled, state)


def _write_job(attempt: Attempt, points: list[Point]) -> None:
    """`job.json`, with what the workload adds. Uploads are noted first: a crash leaves nothing unknown behind."""
    config, store, chosen = attempt.config, attempt.store, attempt.point
    writers = sum(len(part.ranks) for part, _ in attempt.writing)
    for part, job in attempt.writing:
        own, name = part.point, part.attempt(attempt.name)
        left_over.add(config, store.name, own, 0, 0)
        written.note_attempt(config, store, name, own, workloads.of(own).makes(own, name))
        room = left_over.room(config, store, needs.summarise(points, chosen.store).staged_bytes)
        disk = left_over.disk(store, own.axes.get("object_size", 0))
        bounds = {"room_bytes": room, "disk_bytes": disk}
        job["limits"] |= {k: v * len(part.ranks) // writers for k, v in bounds.items() if v is not None}
    attempt.workload.before(config, store, chosen, attempt.job)
    records.write_json(attempt.work / "job.json", attempt.job)


def _launch(attempt: Attempt) -> Outcome:
    """Run the gang until its deadline, then ask the workload for its own checks; this host is watched meanwhile."""
    config, store, chosen, job, work = attempt.config, attempt.store, attempt.point, attempt.job, attempt.work
    module, duration_ns = attempt.workload, chosen.fixed["duration_ns"]
    launcher = choose.make(config, chosen, work, jobs.environs(config, chosen, store, job), store, attempt.spare)
    tellers = partial(lines.beat, duration_ns), attempt.state.second
    watch = Monitor(store.actors() if store.managed else {}, launcher.pids, duration_ns, *tellers)
    readings, answered = Readings(store, work, job, chosen.seed), Answered(store)
    clients, seconds = chosen.clients, [t / 1e9 for t in (config.gang_timeout, duration_ns)]
    try:
        with hook.beside(config, chosen, store, stage.report, watch.moved) as fault:
            aside = Beside(readings, fault.acts if fault else (), duration_ns)
            later = [fault.start, aside.start] if fault else []
            starts = [attempt.state.starts, watch.start, attempt.cold.begin, *later]
            begin = partial(_each, starts)
            results = coordinator.run(launcher, work, clients, *seconds, begin, config.lead / 1e9)
            answered.end()
            attempt.state.stage("checks")
            attempt.cold.end(results)
            if fault:
                aside.ended()
                fault.settle()
        checks = [c | {"name": f"{r['role']}: {c['name']}"} if "role" in r else c for r in results for c in r["checks"]]
        checks += hook.checks(fault)
        checks += module.after(store, chosen, job, work)
        observed = module.observe(store, chosen, job, work)
    finally:
        watch.stop()
    readings.at_end(fault is not None and fault.recovered is not False)
    return Outcome(results, checks, observed, launcher, watch, fault, readings.record(), answered.record)


def _each(calls: list[Callable[[int], None]], t0_ns: int) -> None:
    for call in calls:
        call(t0_ns)


def _gather(attempt: Attempt, outcome: Outcome, points: list[Point]) -> None:
    """The monitor's table, and what the clients left in the store: counted, and removed when it is much, but not while
    later parts want it."""
    config, store, results = attempt.config, attempt.store, outcome.results
    if columns := outcome.watch.columns():  # behind those of the nodes, where there are others
        index = outcome.launcher.participants if config.launcher.kind != choose.LOCAL else 0
        records.write_table(attempt.work / f"monitor.{index}.parquet", records.MONITOR, columns, sync=False)
    if attempt.filled:
        attempt.filled["end_percent"] = filling.used_percent(store)
    for part, _ in attempt.writing:
        if "objects" not in workloads.of(part.point).needs:  # else the objects were made, and noted, before
            own = [results[rank] for rank in part.ranks]
            size_bytes, objects = (sum(r[what] for r in own) for what in ("bytes", "operations"))
            left_over.add(config, store.name, part.point, size_bytes, objects)
    if attempt.writing and (not jobs.keeps(attempt.point) or jobs.is_last(points, attempt.point)):
        left_over.remove(config, store)


def _told(attempt: Attempt, outcome: Outcome) -> dict[str, Any]:
    """The record's head: `run.json`."""
    results, watched = outcome.results, outcome.watch.summary
    run = record.run_json(attempt.config, attempt.point, attempt.store, attempt.name, results, outcome.checks, watched)
    run["store"]["deployment"] |= {"link_bits_per_s": record.front_end_links(attempt.store, attempt.job)}
    run |= nodes.record(outcome.launcher, results, watched) | attempt.cold.record(attempt.work)
    run = hook.record(run, outcome.fault, attempt.work)
    for host in (run["host"], *(node.get("watched") or {} for node in run.get("nodes", ()))):
        if reason := host.get("invalid"):
            stage.report(f"    no resources are recorded: {reason}")
    if reason := run["budget"]["reason"]:
        stage.report(f"    invalid: {reason}")
    more = {"observed": outcome.observed, "durability": outcome.durability, "fill": attempt.filled}
    more |= {"servers": outcome.servers}
    return run | {name: value for name, value in more.items() if value is not None}
