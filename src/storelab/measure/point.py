"""The measurement of one point: decide, prepare, run, accept and record.

A point is done when it has a valid record with the same identity. Then `point()` returns immediately.
docs/architecture.md explains the sequence in `measure`. This module may import every subpackage of the measuring side
and `core`.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from storelab import workloads
from storelab.core import clock, folders, integrity, records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, NoOperationEnded, UserError
from storelab.core.model import Point
from storelab.core.records import RunRecord
from storelab.engines.contract import Check, ClientResult, GangJob
from storelab.gang import coordinator, nodes
from storelab.gang.launchers import choose
from storelab.host import scratch
from storelab.host.console import report
from storelab.host.monitor import Monitor
from storelab.measure import attempts, check, cold, deployment, distance, durability, faults, jobs, progress, record
from storelab.stores.base import ServerRequests, Store
from storelab.workloads.staging import filling


def point(
    config: Config, points: list[Point], key: str, again: bool = False, spare: choose.Spare = None
) -> RunRecord | None:
    """Measure the point with this key, and return its record; None if the point already has a record.

    `gang.launchers.choose` explains `spare`. Raises UserError if the point is not in the plan, the campaign is sealed,
    or settings changed. After MeasurementFailed, the point has a file `failed.json`.
    """
    chosen = next((p for p in points if p.key == key), None)
    if chosen is None:
        raise UserError(
            "measure",
            f"there is no point {key!r} in the plan of campaign {config.name!r}",
            "run `storelab plan` to list the points",
        )
    folders.require_trusted(config)
    folder = config.raw / key
    if not again and integrity.load_run(folder, chosen):
        return None
    store = check.one_point(config, points, chosen)
    deployment.use(config, [chosen])
    config.campaign_dir.mkdir(parents=True, exist_ok=True)  # the folder must exist, because it is locked
    with (
        attempts.measuring_lock(Path(config.state)),
        folders.campaign_lock(config.campaign_dir),
        scratch.using(config.scratch, config.campaign_dir),
    ):
        check.refuse_sealed(config)  # another process may have sealed the campaign while this one waited
        measured = (folder / "run.json").exists()
        damaged = integrity.first_error(folder, chosen.identity()) if measured else None
        if measured and not damaged and not again:  # another run measured the point while this one waited
            return None
        attempts.sweep(config)
        if why := attempts.reason(config, chosen.store):
            attempts.skip(config, chosen, f"earlier points of {chosen.store} failed for the same reason: {why}")
            raise MeasurementFailed(f"{key}: not tried, because points of {chosen.store} failed in a row")
        at = progress.place(config, points, chosen)
        chosen = jobs.lengthened(config, points, chosen)
        progress.announce(at, chosen)
        why = records.AGAIN
        if damaged:
            report(f"    measuring again: {damaged.path} {damaged.problem}")
            why = f"its record was damaged: {damaged.path.name}"
        begun_ns = clock.now_ns()
        with progress.following(config, chosen, at) as state:
            try:
                made = measure(config, points, chosen, store, state, spare, why)
            except MeasurementFailed as error:
                detail = {jobs.NO_OPERATION: True} if isinstance(error, NoOperationEnded) else None
                records.fail(folder, chosen, str(error), detail)
                attempts.record_failure(config, points, chosen.store, str(error))
                progress.note_overhead(config, chosen, begun_ns)
                raise MeasurementFailed(f"{key}: {error}") from None
            except UserError as error:
                attempts.skip(config, chosen, str(error))
                attempts.record_failure(config, points, chosen.store, str(error))
                raise
        attempts.record_success(config, chosen.store)
        progress.note_overhead(config, chosen, begun_ns)
    return made


def measure(
    config: Config,
    points: list[Point],
    chosen: Point,
    store: Store,
    state: progress.State,
    spare: choose.Spare,
    why: str,
) -> RunRecord:
    """Measure one point, from the start of the store to the record, and return the record.

    `why` is the reason to measure it again. Raises MeasurementFailed, UserError.
    """
    deployment.bring_up(config, chosen, store)
    state.stage("data")
    manifests, fill = deployment.stage_data(config, chosen, store)
    with attempts.begun(config, chosen.key) as work:
        state.stage("clients", work)
        job = jobs.job_of_point(config, points, chosen, store, manifests, work.name)
        attempt = Attempt(config, points, chosen, store, job, work, cold.CacheCheck(config, store, chosen, job), state)
        try:
            with distance.added(config, chosen, store, job):
                prepare(attempt)
                outcome = run(attempt, spare)
        finally:
            workloads.workload_of(chosen).cleanup(job)
        if fill:
            outcome.fill = fill | {"end_percent": filling.used_percent(store)}
        accept(attempt, outcome)
        made = recorded(attempt, outcome)
        record.keep_changes(config.raw)
        record.put_in_place(made, work, config.raw / chosen.key, why)
    return made


@dataclass
class Attempt:
    """One attempt at a point, with the objects that its steps share. `work` is the attempt's folder."""

    config: Config
    points: list[Point]
    point: Point
    store: Store
    job: GangJob
    work: Path
    cold: cold.CacheCheck
    state: progress.State


@dataclass
class Outcome:
    """The results of a gang, and the observations of the store and of this host during the run."""

    results: list[ClientResult]
    checks: list[Check]
    observed: dict[str, Any] | None
    launcher: coordinator.Launcher
    watch: Monitor
    fault: faults.Runner | None
    durability: dict[str, Any] | None = None
    servers: list[dict[str, Any]] | None = None  # number of requests that each server answered
    fill: dict[str, Any] | None = None


def prepare(attempt: Attempt) -> None:
    """Record the possible uploads, let the workload prepare its clients, write `job.json`, and cool the store."""
    config, chosen, store, job = attempt.config, attempt.point, attempt.store, attempt.job
    deployment.note_uploads(config, attempt.points, chosen, store, job)
    workloads.workload_of(chosen).before(config, store, chosen, job)
    job.write(attempt.work)
    attempt.cold.cool()


def run(attempt: Attempt, spare: choose.Spare) -> Outcome:
    """Run the gang until its deadline while this host is monitored. Then do the workload's checks."""
    config, store, chosen, job, work = attempt.config, attempt.store, attempt.point, attempt.job, attempt.work
    workload, state, duration_ns = workloads.workload_of(chosen), attempt.state, chosen.fixed["duration_ns"]
    launcher = choose.make(config, chosen, work, jobs.environs(config, chosen, store, job), store, spare)
    actors = store.actors() if store.managed else {}
    watch = Monitor(actors, launcher.pids, duration_ns, state.beat, state.second)
    readings, requests = durability.Readings(store, work, job, chosen.seed), ServerRequests(store)
    try:
        with faults.running(config, chosen, store, watch.moved) as fault:
            aside = durability.DuringFault(readings, fault.acts if fault else (), duration_ns)

            def at_start(t0_ns: int) -> None:
                state.starts(t0_ns)
                watch.start(t0_ns)
                attempt.cold.begin(t0_ns)
                if fault:
                    fault.start(t0_ns)
                    aside.start(t0_ns)

            timeout_s, lead_s = config.gang_timeout / 1e9, config.start_delay / 1e9
            results = coordinator.run(launcher, work, chosen.clients, timeout_s, duration_ns / 1e9, at_start, lead_s)
            requests.end()
            state.stage("checks")
            attempt.cold.end(results)
            if fault:
                aside.finish()
                fault.settle()
        checks = [replace(c, name=f"{r.role}: {c.name}") if r.role else c for r in results for c in r.checks]
        checks += faults.checks_of(fault)
        checks += [Check(**one) for one in workload.after(store, chosen, job, work)]
        observed = workload.observe(store, chosen, job, work)
    finally:
        watch.stop()
    readings.at_end(fault is not None and fault.recovered is not False)
    return Outcome(results, checks, observed, launcher, watch, fault, readings.record(), requests.record)


def accept(attempt: Attempt, outcome: Outcome) -> None:
    """Count the objects that the clients left in the store. Raises MeasurementFailed after a failed check.

    A limit that was exceeded also raises MeasurementFailed.
    """
    config, chosen, results = attempt.config, attempt.point, outcome.results
    deployment.clear_uploads(config, attempt.points, chosen, attempt.store, attempt.job, results)
    record.accept(attempt.job.limits, results, outcome.checks, record.reads_staged(chosen))


def recorded(attempt: Attempt, outcome: Outcome) -> RunRecord:
    """Write the monitor's table, and return the record. Print the reason if it is incomplete or invalid."""
    config, chosen, store, job, work = attempt.config, attempt.point, attempt.store, attempt.job, attempt.work
    results, watched = outcome.results, outcome.watch.summary
    if columns := outcome.watch.columns():  # numbered after the monitors of other nodes, if there are any
        index = outcome.launcher.participants if config.launcher.kind != choose.LOCAL else 0
        records.write_table(work / f"monitor.{index}.parquet", records.MONITOR, columns, sync=False)
    made = record.record_of_point(config, chosen, store, job.attempt, results, outcome.checks, watched)
    made.store["deployment"] |= {"link_bits_per_s": record.front_end_links(store, job)}
    nodes.add_to(made, outcome.launcher, results, watched)
    made.cold = attempt.cold.record(work)
    faults.add_to(made, outcome.fault, work)
    made.observed, made.durability = outcome.observed, outcome.durability
    made.fill, made.servers = outcome.fill, outcome.servers
    for host in (made.host, *(node.get("watched") or {} for node in made.nodes or ())):
        if reason := host.get("invalid"):
            report(f"    no resources are recorded: {reason}")
    if made.budget and made.budget.reason:
        # An expired credential is not a result about the store: without a record, the next run repeats the point.
        for one in filter(None, (store, deployment.second(config, chosen))):
            if ended := one.credentials_refused():
                raise MeasurementFailed(f"{made.budget.reason}; {ended}")
        report(f"    invalid: {made.budget.reason}")
    return made
