"""One point: decided, then prepared, run, accepted and recorded (room `measure`).

A point is done when a valid record with the same identity is there; then `point()` returns at once, whatever called it.
`measure` is the sequence that docs/architecture.md explains. May import: every room of the measuring side and `core`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from storelab import workloads
from storelab.core import evidence, folders, records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Part, Point
from storelab.core.records import RunRecord
from storelab.engines.contract import Check, ClientResult, GangJob
from storelab.gang import coordinator, nodes
from storelab.gang.coordinator import Launcher
from storelab.gang.launchers import choose
from storelab.gang.launchers.local import Spare
from storelab.host import scratch
from storelab.host.console import report
from storelab.host.monitor import Monitor
from storelab.measure import attempts, check, cold, deployment, faults, given_up, jobs, plan_file, progress, record
from storelab.measure.durability import DuringFault, Readings
from storelab.measure.progress import State
from storelab.stores import all_stores, deployed
from storelab.stores.base import Store
from storelab.stores.managed.answered import Answered
from storelab.workloads.staging import filling, left_over, needs, stage, written


def point(config: Config, points: list[Point], key: str, again: bool = False, spare: Spare = None) -> RunRecord | None:
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
        problem = "the campaign is sealed: it is not measured any more"
        raise UserError(str(config.raw), problem, "give the new campaign another name")
    stores = all_stores(config)
    store = deployed(stores[chosen.store], chosen.axes)
    check.possible(chosen, store)
    deployment.refuse_second(config, chosen, stores)
    faults.refuse(config, chosen, store)
    plan_file.refuse_differences(config, points)
    deployment.use(config, chosen)
    with attempts.measuring_lock(Path(config.state)), scratch.using(config.scratch):
        measured = (folder / "run.json").exists()
        damaged = evidence.flaw(folder, chosen.identity()) if measured else None
        if measured and not damaged and not again:  # by another run while this one waited
            return None
        attempts.sweep(config)
        if why := given_up.reason(config, chosen.store):
            given_up.leave(config, chosen, f"points of {chosen.store} before it failed alike: {why}")
            raise MeasurementFailed(f"{key}: not tried, {chosen.store} was given up")
        at = progress.place(config, points, chosen)
        chosen = jobs.lengthened(config, points, chosen)
        progress.announce(at, chosen)
        why = records.AGAIN
        if damaged:
            report(f"    measured again: {damaged.path} {damaged.problem}")
            why = f"its record was damaged: {damaged.path.name}"
        begun = time.monotonic()
        with progress.following(config, chosen, at) as state:
            try:
                run = measure(config, points, chosen, store, state, spare, why)
            except MeasurementFailed as error:
                records.fail(folder, chosen, str(error))
                given_up.failed(config, points, chosen.store, str(error))
                raise MeasurementFailed(f"{key}: {error}") from None
            except UserError as error:
                given_up.leave(config, chosen, str(error))
                given_up.failed(config, points, chosen.store, str(error))
                raise
        given_up.good(config, chosen.store)
        progress.note_overhead(config, chosen, time.monotonic() - begun)
    return run


def measure(
    config: Config, points: list[Point], chosen: Point, store: Store, state: State, spare: Spare, why: str
) -> RunRecord:
    """Measure one point, from the store to the record. why: the reason to measure it again.

    Raises MeasurementFailed, UserError.
    """
    deployment.bring_up(config, chosen, store)
    state.stage("data")
    manifests, fill = stage_data(config, chosen, store)
    with attempts.begun(config, chosen.key) as work:
        state.stage("clients", work)
        job = jobs.of_point(config, points, chosen, store, manifests, work.name)
        attempt = Attempt(config, chosen, store, job, work, cold.Evidence(config, store, chosen, job), state, spare)
        try:
            prepare(attempt, points)
            outcome = run(attempt)
        finally:
            workloads.of(chosen).ended(job)
        outcome.fill = fill and fill | {"end_percent": filling.used_percent(store)}
        clear(attempt, outcome, points)
        record.accept(job.limits, outcome.results, outcome.checks, record.reads_staged(chosen))
        made = recorded(attempt, outcome)
        record.put_in_place(made, work, config.raw / chosen.key, why)
    return made


@dataclass
class Attempt:
    """One attempt at a point: what its steps share. work: its folder."""

    config: Config
    point: Point
    store: Store
    job: GangJob
    work: Path
    cold: cold.Evidence
    state: State
    spare: Spare = None

    @property
    def writing(self) -> list[tuple[Part, GangJob]]:
        """The roles that write, with their jobs; or the point itself, if it writes."""
        parts = zip(self.point.parts(), self.job.parts, strict=True)
        return [(part, job) for part, job in parts if workloads.of(part.point).direction == "write"]


def stage_data(config: Config, chosen: Point, store: Store) -> tuple[dict[str, Path], dict[str, Any] | None]:
    """Stage the data sets that the point reads, and fill the store; return the manifests by name, and the fill level
    for the record."""
    datasets = {part.point.dataset["name"]: part.point.dataset for part in chosen.parts() if part.point.dataset}
    wanted = filling.level(chosen)
    if not wanted:
        filling.ensure(config, store, 0)
    manifests = {name: stage.ensure(config, store, dataset) for name, dataset in datasets.items()}
    return manifests, filling.ensure(config, store, wanted, jobs.keeps(chosen)) if wanted else None


def prepare(attempt: Attempt, points: list[Point]) -> None:
    """Write `job.json`, with what the workload adds, and cool the store.

    Uploads are noted first: a crash leaves nothing unknown behind.
    """
    config, store, chosen = attempt.config, attempt.store, attempt.point
    writers = sum(len(part.ranks) for part, _ in attempt.writing)
    for part, job in attempt.writing:
        own, name = part.point, part.attempt(attempt.job.attempt)
        left_over.add(config, store.name, own, 0, 0)
        written.note_attempt(config, store, name, own, workloads.of(own).makes(own, name))
        room = left_over.room(config, store, needs.summarise(points, chosen.store).staged_bytes)
        disk = left_over.disk(store, own.axes.get("object_size", 0))
        bounds = {"room_bytes": room, "disk_bytes": disk}
        job.limits |= {k: v * len(part.ranks) // writers for k, v in bounds.items() if v is not None}
    workloads.of(chosen).before(config, store, chosen, attempt.job)
    attempt.job.write(attempt.work)
    attempt.cold.cool()


@dataclass
class Outcome:
    """What a gang left, and what was seen of the store and of this host meanwhile."""

    results: list[ClientResult]
    checks: list[Check]
    observed: dict[str, Any] | None
    launcher: Launcher
    watch: Monitor
    fault: faults.Runner | None
    durability: dict[str, Any] | None = None
    servers: list[dict[str, Any]] | None = None  # what each answered
    fill: dict[str, Any] | None = None


def run(attempt: Attempt) -> Outcome:
    """Run the gang until its deadline, then ask the workload for its own checks; this host is watched meanwhile."""
    config, store, chosen, job, work = attempt.config, attempt.store, attempt.point, attempt.job, attempt.work
    workload, duration_ns = workloads.of(chosen), chosen.fixed["duration_ns"]
    launcher = choose.make(config, chosen, work, jobs.environs(config, chosen, store, job), store, attempt.spare)
    actors = store.actors() if store.managed else {}
    watch = Monitor(actors, launcher.pids, duration_ns, partial(progress.beat, duration_ns), attempt.state.second)
    readings, answered = Readings(store, work, job, chosen.seed), Answered(store)
    try:
        with faults.running(config, chosen, store, watch.moved) as fault:
            aside = DuringFault(readings, fault.acts if fault else (), duration_ns)

            def at_start(t0_ns: int) -> None:
                attempt.state.starts(t0_ns)
                watch.start(t0_ns)
                attempt.cold.begin(t0_ns)
                if fault:
                    fault.start(t0_ns)
                    aside.start(t0_ns)

            timeout_s, lead_s = config.gang_timeout / 1e9, config.lead / 1e9
            results = coordinator.run(launcher, work, chosen.clients, timeout_s, duration_ns / 1e9, at_start, lead_s)
            answered.end()
            attempt.state.stage("checks")
            attempt.cold.end(results)
            if fault:
                aside.ended()
                fault.settle()
        checks = [replace(c, name=f"{r.role}: {c.name}") if r.role else c for r in results for c in r.checks]
        checks += faults.checks_of(fault)
        checks += [Check(**one) for one in workload.after(store, chosen, job, work)]
        observed = workload.observe(store, chosen, job, work)
    finally:
        watch.stop()
    readings.at_end(fault is not None and fault.recovered is not False)
    return Outcome(results, checks, observed, launcher, watch, fault, readings.record(), answered.record)


def clear(attempt: Attempt, outcome: Outcome, points: list[Point]) -> None:
    """Write the table of the monitor, and count what the clients left in the store; it is removed when it is much, but
    not while later parts need it."""
    config, store = attempt.config, attempt.store
    if columns := outcome.watch.columns():  # behind those of the nodes, where there are others
        index = outcome.launcher.participants if config.launcher.kind != choose.LOCAL else 0
        records.write_table(attempt.work / f"monitor.{index}.parquet", records.MONITOR, columns, sync=False)
    for part, _ in attempt.writing:
        if "objects" not in workloads.of(part.point).needs:  # else the objects were made, and noted, before
            own = [outcome.results[rank] for rank in part.ranks]
            left_over.add(config, store.name, part.point, sum(r.bytes for r in own), sum(r.operations for r in own))
    if attempt.writing and (not jobs.keeps(attempt.point) or jobs.is_last(points, attempt.point)):
        left_over.remove(config, store)


def recorded(attempt: Attempt, outcome: Outcome) -> RunRecord:
    """Return the record, and report what it lacks or why it is invalid."""
    results, watched = outcome.results, outcome.watch.summary
    made = record.of_point(
        attempt.config, attempt.point, attempt.store, attempt.job.attempt, results, outcome.checks, watched
    )
    made.store["deployment"] |= {"link_bits_per_s": record.front_end_links(attempt.store, attempt.job)}
    nodes.add_to(made, outcome.launcher, results, watched)
    made.cold = attempt.cold.record(attempt.work)
    faults.add_to(made, outcome.fault, attempt.work)
    made.observed, made.durability = outcome.observed, outcome.durability
    made.fill, made.servers = outcome.fill, outcome.servers
    hosts: list[Mapping[str, Any]] = [made.host, *(node.get("watched") or {} for node in made.nodes or ())]
    for reason in filter(None, (host.get("invalid") for host in hosts)):
        report(f"    no resources are recorded: {reason}")
    if made.budget and made.budget.reason:
        report(f"    invalid: {made.budget.reason}")
    return made
