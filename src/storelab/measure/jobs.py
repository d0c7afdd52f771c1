"""The job of a point (`contract.GangJob`), and the environment of its clients, which contains the keys.

This module may import `workloads`, `engines`, `stores`, `host` and `core`.
"""

import os
from dataclasses import replace
from pathlib import Path

from storelab import workloads
from storelab.core import integrity, records, units
from storelab.core.config import Config
from storelab.core.engines import ALL, CATALOGUE
from storelab.core.errors import UserError
from storelab.core.model import Part, Point, accounts_of
from storelab.core.plan import sweeps
from storelab.engines.contract import Earlier, GangJob
from storelab.host import scratch
from storelab.host.console import report
from storelab.measure import deployment, progress
from storelab.stores.base import Store
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import account_prefix
from storelab.workloads.staging import stage

NO_OPERATION = "no_operation_ended"  # a detail in `failed.json`: no operation of a client ended
MIN_OPERATIONS = 3  # a window must be long enough for this number of operations
TOO_SHORT = 3  # factor of a window in which no operation ended
MAX_FACTOR = 10  # maximum length of a window, in units of the configured duration
LENGTHENED = ("put", "get", "get_range", "read_entries", "read_volume", "events", "replay")


def job_of_point(
    config: Config, points: list[Point], chosen: Point, store: Store, manifests: dict[str, Path], attempt: str
) -> GangJob:
    """Return the job of a point. `manifests` are the data sets that the point reads, by name."""
    job = _job_of_clients(config, chosen, store, manifests, attempt)
    job.reports_progress = (
        config.launcher.kind == "local" and not progress.off()
    )  # on another file system, the coordinator would see the folder late
    if "roles" in chosen.fixed:
        job.roles = [_job_of_role(config, part, store, manifests, attempt, chosen.clients) for part in chosen.parts()]
    if deployment.retains_data(chosen):
        _add_earlier(config, points, chosen, job)
    return job


def lengthened(config: Config, points: list[Point], chosen: Point) -> Point:
    """Return the point with a window that is long enough for MIN_OPERATIONS operations.

    The time of an operation is taken from another repetition. If no operation ended in an earlier attempt at the
    point or at these repetitions, the window is TOO_SHORT times as long as then. Open loops, roles, faults and
    workloads outside LENGTHENED keep their duration. The record has the measured duration.
    """
    fixed, axes = chosen.fixed, chosen.axes
    if chosen.workload not in LENGTHENED or axes.get("arrival_rate") or fixed.get("acts"):
        return chosen
    same = (chosen.store, chosen.workload, axes, chosen.sweep)
    others = [p for p in points if (p.store, p.workload, p.axes, p.sweep) == same and p.rep != chosen.rep]
    run = next((run for p in others if (run := integrity.load_run(config.raw / p.key, p))), None)
    needed, why = 0, ""
    if run is not None:
        done = sum(client.get("operations") or 0 for client in run.clients)
        busy_ns = (run.deadline_ns - run.start_ns) * len(run.clients) * int(axes.get("workers") or 1)
        needed = fixed["warm_up_ns"] + MIN_OPERATIONS * busy_ns // max(1, done)
        took = f"an operation took {units.human_duration(busy_ns // max(1, done))}" if done else "no operation ended"
        why = f"{took} in repetition {run.point.rep}"
    for p in [*others, chosen]:
        if not (path := config.raw / p.key / records.FAILED).exists():
            continue
        failure = records.read_json(path)
        longer = TOO_SHORT * failure["point"]["fixed"]["duration_ns"]
        if failure["detail"].get(NO_OPERATION) and longer > needed:
            needed, why = longer, f"no operation of a client ended in repetition {p.rep}"
    duration = min(-(-needed // 10**8) * 10**8, MAX_FACTOR * fixed["duration_ns"])
    if duration <= fixed["duration_ns"]:
        return chosen
    before, now = (units.human_duration(t) for t in (fixed["duration_ns"], duration))
    report(f"    {chosen.key}: {before} extended to {now}: {why}")
    return replace(chosen, fixed=fixed | {"duration_ns": duration})


def _add_earlier(config: Config, points: list[Point], chosen: Point, job: GangJob) -> None:
    """Add earlier parts of the series that have a record to the job and to the jobs of its roles, in order."""
    before = [p for p in sweeps.series_of(points, chosen) if sweeps.part(p) < sweeps.part(chosen)]
    runs = {sweeps.part(p): integrity.load_run(config.raw / p.key, p) for p in before}
    for part, role_job in zip(chosen.parts(), job.parts, strict=True):
        role_job.earlier = [Earlier(n, part.attempt(run.attempt)) for n, run in runs.items() if run]


def _job_of_role(
    config: Config, part: Part, store: Store, manifests: dict[str, Path], attempt: str, clients: int
) -> GangJob:
    """Return the job of a role. `clients` is the number of clients in the whole gang, which shares the limits."""
    job = _job_of_clients(config, part.point, store, manifests, part.attempt(attempt))
    for limit in ("throughput", "requests_per_s"):
        if bound := job.limits[limit]:
            job.limits[limit] = bound * len(part.ranks) / clients
    job.role, job.ranks, job.begin_ns = part.name, [*part.ranks], part.begin_ns
    return job


def _job_of_clients(config: Config, chosen: Point, store: Store, manifests: dict[str, Path], attempt: str) -> GangJob:
    """Return the job of clients that all have the same task."""
    reaches(chosen, store)
    accounts = chosen.axes.get("accounts", 1)
    count = chosen.axes.get("buckets", accounts)  # a workload without this axis has one bucket for each account
    return GangJob(
        point=chosen,
        attempt=attempt,
        size=chosen.clients,
        endpoints=store.endpoints(chosen.axes.get("front_ends", 1)),
        buckets=stage.buckets_of(config, store, count, accounts),
        accounts=accounts,
        scratch=scratch.folder(config.scratch),
        scratch_base=Path(config.scratch),
        manifest=manifests[chosen.dataset["name"]].resolve() if chosen.dataset else None,
        lead_ns=config.start_delay,
        timeout_ns=config.gang_timeout,
        limits=config.limits.model_dump(mode="json"),
    )


def reaches(chosen: Point, store: Store) -> None:
    """Raise UserError if the point's engine cannot use the proxy of this store."""
    if getattr(store.settings, "proxy", "none") == "none":
        return
    known = CATALOGUE.get(chosen.axes.get("engine", ""))
    if known and known.proxied and chosen.axes.get("transport") != "http":
        return
    ends = store.endpoints(chosen.axes.get("front_ends", 1))
    if way := next(filter(None, map(environment.proxy, ends)), None):
        able = [engine.name for engine in ALL if engine.proxied and chosen.workload in engine.uses]
        raise UserError(
            f"stores.{store.name}.proxy",
            f"workload {chosen.workload} by engine {chosen.axes.get('engine')} cannot use the proxy "
            f"{environment.shown(way)}",
            f"use one of the engines {', '.join(able)}, or set `proxy: none`" if able else "set `proxy: none`",
        )


def environs(config: Config, chosen: Point, store: Store, job: GangJob) -> list[dict[str, str]]:
    """Return the environment variables with credentials: one entry for each account.

    With roles, or with more accounts than clients, there is one entry for each client.
    """
    accounts, parts = job.accounts, chosen.parts()
    out = [keys.environ() if keys else {} for keys in map(store.credentials, range(accounts))]
    if accounts > 1 and "second_account" in workloads.workload_of(chosen).needs:
        out[0] |= {name.replace("AWS_", "STORELAB_SECOND_"): value for name, value in out[1].items()}
    proxies = environment.kept(job.endpoints, os.environ)
    out = [environ | deployment.second_environ(config, chosen) | proxies for environ in out]
    if not job.roles and accounts <= len(parts[0].ranks):
        return out
    return [
        several(out, accounts_of(client, len(part.ranks), accounts))
        for part in parts
        for client in range(len(part.ranks))
    ]


def several(environs: list[dict[str, str]], accounts: tuple[int, ...]) -> dict[str, str]:
    """Return the variables of a client that uses these accounts in turn.

    The variables of the first account have their usual names. Those of other accounts contain the account's number.
    """
    others = {
        name.replace("AWS_", account_prefix(account), 1): value
        for account in accounts[1:]
        for name, value in environs[account].items()
    }
    return environs[accounts[0]] | others
