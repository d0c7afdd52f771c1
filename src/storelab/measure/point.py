"""One point: gang start -> clients until the deadline -> checks -> records, atomically (level 3, measuring side).

A point is done when a valid record with the same identity is there; then `point()` returns at once, whatever called it.
"""

import fcntl
import json
import secrets
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from storelab.core import records, units
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.gang import coordinator, credentials, nodes
from storelab.gang.launchers import choose
from storelab.host import environment, scratch
from storelab.host.monitor import Monitor
from storelab.measure import check, plan_file
from storelab.stores import all_stores, deployed, everywhere
from storelab.stores.base import Store
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import left_over, stage

ENGINE = ("name", "version", "settings", "requests_per_operation")


@contextmanager
def measuring_lock(state: Path) -> Iterator[None]:
    """One measurement at a time on this machine; released by the kernel when its holder ends, kill -9 included."""
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "measuring.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stage.report("    waiting: another measurement runs on this machine")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def point(config: Config, points: list[Point], key: str, again: bool = False) -> dict[str, Any] | None:
    """Measure the point `key` of the plan; returns its record, None where it was there already.

    Raises UserError (not in the plan, sealed, settings changed …) and MeasurementFailed; the latter leaves `failed.json`.
    """
    chosen = next((p for p in points if p.key == key), None)
    if chosen is None:
        raise UserError("measure", f"no point {key!r} in the plan of campaign {config.name!r}", "see `storelab plan`")
    folder = config.raw / key
    if not again and records.load_run(folder, chosen):
        return None
    if records.sealed(config.raw):
        raise UserError(str(config.raw), "the campaign is sealed: it is not measured any more", "give the new campaign another name")
    plan_file.refuse_differences(config, points)
    with measuring_lock(Path(config.state)), scratch.using(config.scratch):
        if not again and records.load_run(folder, chosen):  # measured by another run while this one waited
            return None
        announce(config, points, chosen)
        begun = time.monotonic()
        try:
            run = _measure(config, points, chosen, folder)
        except MeasurementFailed as error:
            records.fail(folder, chosen, str(error))
            raise MeasurementFailed(f"{key}: {error}") from None
        _note_overhead(config, chosen, time.monotonic() - begun)
    return run


def announce(config: Config, points: list[Point], chosen: Point) -> None:
    """Which point of how many, what it measures now, how long still."""
    todo = records.missing(config.raw, [p.key for p in points])
    tried = len(points) - len(records.missing(config.raw, [p.key for p in points if p != chosen], failed_counts=True))
    seconds = {p.key: p.fixed["duration_ns"] / 1e9 for p in points}
    left = sum(seconds[k] for k in todo) + len(todo) * _typical_overhead(config)
    what = chosen.key.removeprefix(f"{chosen.store}/{chosen.workload}/").replace("_", " ").replace("~", "=")
    stage.report(
        f"[{tried}/{len(points)}] {chosen.store} {chosen.workload} {what}: "
        f"{units.human_duration(chosen.fixed['duration_ns'])}, campaign about {units.human_duration(left * 1e9)} still"
    )


def _overheads(config: Config) -> Path:
    return config.campaign_dir / "work" / "overhead.jsonl"


def _typical_overhead(config: Config) -> float:
    """Median seconds that the last points took beside their windows; 2 s before the first."""
    try:
        lines = _overheads(config).read_text().splitlines()[-50:]
    except FileNotFoundError:
        return 2.0
    return statistics.median(json.loads(line)["overhead_s"] for line in lines)


def _note_overhead(config: Config, chosen: Point, wall_s: float) -> None:
    overhead = max(0.0, round(wall_s - chosen.fixed["duration_ns"] / 1e9, 3))  # a probe ends before its deadline
    _overheads(config).parent.mkdir(parents=True, exist_ok=True)
    with open(_overheads(config), "a") as f:
        f.write(json.dumps({"key": chosen.key, "overhead_s": overhead}) + "\n")


def _measure(config: Config, points: list[Point], chosen: Point, folder: Path) -> dict[str, Any]:
    store = deployed(all_stores(config)[chosen.store], chosen.axes)
    for name, other in everywhere(config).items():
        if name != store.name and other.managed:
            other.suspend()  # takes no CPU while another system is measured
    store.resume()
    accounts = chosen.axes.get("accounts", 1)
    choose.lives_outside(config, store, chosen.axes.get("front_ends", 1))
    store.up(chosen.axes.get("front_ends", 1), accounts)
    manifest = stage.ensure(config, store, chosen.dataset, stage.report) if chosen.dataset else None
    attempt = secrets.token_hex(4)
    work = config.campaign_dir / "work" / chosen.key / attempt
    work.mkdir(parents=True)
    for killed in work.parent.iterdir():
        credentials.forget(killed)
    job = job_data(config, chosen, store, manifest, attempt)
    module = WORKLOADS[chosen.workload]
    if module.direction == "write":
        left_over.add(config, store.name, chosen, 0, 0)  # noted first: a crash leaves nothing unknown behind
        job["limits"]["room_bytes"] = left_over.room(config, store, check.summarise(points, chosen.store).staged_bytes)
    module.before(config, store, chosen, job)
    records.write_json(work / "job.json", job)
    environs = [own.environ() if own else {} for own in map(store.credentials, range(accounts))]
    if accounts > 1 and "second_account" in module.needs:
        environs[0] |= {name.replace("AWS_", "STORELAB_SECOND_"): value for name, value in environs[1].items()}
    launcher = choose.make(config, chosen, work, environs)
    watch = Monitor(store.actors() if store.managed else {}, launcher.pids, chosen.fixed["duration_ns"])
    try:
        results = coordinator.run(
            launcher,
            work,
            chosen.axes["clients"],
            config.gang_timeout / 1e9,
            chosen.fixed["duration_ns"] / 1e9,
            watch.start,
            config.lead / 1e9,
        )
        checks = [c for r in results for c in r["checks"]]
        checks += module.after(store, chosen, job, work)
        observed = module.observe(store, chosen, job, work)
    finally:
        watch.stop()
    if columns := watch.columns():  # behind those of the nodes, where there are others
        index = launcher.participants if config.launcher.kind != choose.LOCAL else 0
        records.write_table(work / f"monitor.{index}.parquet", records.MONITOR, columns, sync=False)
    if module.direction == "write":
        if "objects" not in module.needs:  # else the objects were made, and noted, before
            left_over.add(config, store.name, chosen, sum(r["bytes"] for r in results), sum(r["operations"] for r in results))
        left_over.remove(config, store)
    _accept(job["limits"], results, checks)
    run = run_json(config, chosen, store, attempt, results, checks, watch.summary) | nodes.record(launcher, results, watch.summary)
    if reason := run["budget"]["reason"]:
        stage.report(f"    invalid: {reason}")
    if observed is not None:
        run["observed"] = observed
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)  # --again: never an old head over new bodies
    for old in folder.glob("*.parquet"):
        old.unlink()
    for table in work.glob("*.parquet"):
        records.move_in(table, folder / table.name)
    records.finish(folder, run)
    shutil.rmtree(work)
    return run


def job_data(config: Config, chosen: Point, store: Store, manifest: Path | None, attempt: str) -> dict[str, Any]:
    """`job.json`: what the clients need; nothing secret."""
    accounts = chosen.axes.get("accounts", 1)
    count = chosen.axes.get("buckets", accounts)  # a workload that does not sweep them has one for each account
    return {
        "point": asdict(chosen),
        "attempt": attempt,
        "size": chosen.axes["clients"],
        "endpoints": [asdict(e) for e in store.endpoints(chosen.axes.get("front_ends", 1))],
        "buckets": [asdict(b) for b in stage.buckets_of(config, store, count, accounts)],
        "accounts": accounts,
        "scratch": str(scratch.folder(config.scratch)),
        "scratch_base": str(Path(config.scratch)),
        "manifest": str(manifest.resolve()) if manifest else None,
        "lead_ns": config.lead,
        "timeout_ns": config.gang_timeout,
        "limits": config.limits.model_dump(mode="json"),
    }


def budget(config: Config, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Failed operations against the budget: {errors, operations, fraction, failure_budget, reason}; reason None within it."""
    errors, operations = sum(r["errors"] for r in results), sum(r["operations"] for r in results)
    fraction = errors / max(1, errors + operations)
    reason = None
    if fraction > config.failure_budget:
        messages = [m if isinstance(m, str) else m["message"] for r in results for m in r["engine"].get("errors", {}).values()]
        shown = f"{100 * fraction:.3g} % of the operations failed, more than failure_budget = {100 * config.failure_budget:g} %"
        reason = f"{shown}: {' '.join((messages or ['?'])[0].split())[:200]}"
    return {"errors": errors, "operations": operations, "fraction": fraction, "failure_budget": config.failure_budget, "reason": reason}


def _accept(limits: dict[str, Any], results: list[dict[str, Any]], checks: list[dict[str, Any]]) -> None:
    """Raises MeasurementFailed: a run whose checks fail can never look fast. Errors are results, see `budget`; without any success there
    is nothing measured."""
    seconds = (results[0]["deadline_ns"] - results[0]["t0_ns"]) / 1e9
    if limits["throughput"] and sum(r["bytes"] for r in results) > limits["throughput"] * seconds:
        raise MeasurementFailed("the clients moved more than limits.throughput over the whole point")
    if bad := [c for c in checks if not c["ok"]]:
        raise MeasurementFailed("; ".join(f"check {c['name']!r} failed: {c['detail']}" for c in bad[:3]))


def run_json(
    config: Config,
    chosen: Point,
    store: Store,
    attempt: str,
    results: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    watched: dict[str, Any],
) -> dict[str, Any]:
    """The record of the point without its files, see docs/records.md."""
    spent = budget(config, results)
    # What holds for the whole point, and what one client met.
    engine = {k: results[0]["engine"][k] for k in ENGINE}
    clients = [{k: v for k, v in r.items() if k not in ("engine", "checks", "t0_ns", "deadline_ns")} for r in results]
    for client, result in zip(clients, results, strict=True):
        client["engine"] = {k: v for k, v in result["engine"].items() if k not in ENGINE}
    host = dict(watched, client_cpu_s=sum(r["cpu_user_s"] + r["cpu_system_s"] for r in results))
    return {
        "campaign": config.name,
        "point": asdict(chosen),
        "valid": spent["reason"] is None,
        "budget": spent,
        "attempt": attempt,
        "launcher": config.launcher.kind,
        "start_ns": results[0]["t0_ns"],
        "deadline_ns": results[0]["deadline_ns"],
        "lead_ns": config.lead,
        "clients": clients,
        "host": host,
        "store": {
            "name": chosen.store,
            "kind": store.settings.kind,
            "version": store.version(),
            "on_this_host": store.on_this_host(),
            "deployment": store.deployment(),
        },
        "environment": environment.capture(),
        "engine": engine,
        "checks": checks,
        "events": [],
    }
