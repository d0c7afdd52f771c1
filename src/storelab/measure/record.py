"""The record of a point: check the results, move the tables into the point's folder, and write `run.json` last.

docs/records.md defines the record. This module may import `engines`, `host`, `stores` and `core`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab.core import records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, NoOperationEnded
from storelab.core.model import Point
from storelab.core.records import Budget, RoleRecord, RunRecord
from storelab.engines.contract import Check, ClientResult, GangJob, Limits
from storelab.host import environment
from storelab.stores.base import Store

ENGINE = ("name", "version", "settings", "requests_per_operation")
# Patterns of error classes and messages for a missing object or bucket.
GONE = re.compile(r"NoSuchKey|NoSuchBucket|NotFound|\b(?:Http)?404\b")
# fields of a result that are not copied to the client's entry in the record
APART = ("engine", "checks", "t0_ns", "begin_ns", "deadline_ns")


def reads_staged(point: Point) -> bool:
    """Return whether a point, or one of its roles, reads staged data."""
    return any(part.point.dataset for part in point.parts())


def budget(config: Config, results: Sequence[ClientResult], staged: bool = False) -> Budget:
    """Compare the failed operations with the failure budget, and return the result.

    Operations that hang count as errors. But a worker whose operation hangs fails only once, even if the operation
    lasts until the end. Therefore `hung_fraction` has the same budget. It is the fraction of all workers' time, from
    the start to the deadline, that hanging operations took. The `reason` is None within the budget, otherwise one line
    with the first error. `staged` means that the clients read staged data.
    """
    errors, operations = sum(r.errors for r in results), sum(r.operations for r in results)
    known = [r.engine["hung"] for r in results if r.engine.get("hung") is not None]
    found = Budget(errors, operations, errors / max(1, errors + operations), config.failure_budget)
    found.hung = sum(known) if len(known) == len(results) else None
    found.hung_fraction = _hung_fraction(results)
    most = f"more than failure_budget = {100 * config.failure_budget:g} %"
    if found.fraction > found.failure_budget:
        messages = [error for r in results for error in r.engine.get("errors", {}).values()]
        first = (messages or ["no engine reported the cause"])[0]
        words = " ".join((first if isinstance(first, str) else first["message"]).split())
        if len(words) > 200:  # keep the end as well, because Go programs print the cause at the end
            words = f"{words[:100]} … {words[-97:]}"
        reason = f"{100 * found.fraction:.3g} % of the operations failed, {most}: {words}"
        found.reason = _hinted(reason, results, staged)
    elif found.hung_fraction > found.failure_budget:
        lost = f"took {100 * found.hung_fraction:.3g} % of the workers' time"
        found.reason = f"{sum(known)} operations hung and {lost}, {most}"
    return found


def _hinted(reason: str, results: Sequence[ClientResult], staged: bool) -> str:
    """Return the reason, with a hint on how to stage objects again if staged objects are missing."""
    kinds = [kind for r in results for kind in r.engine.get("errors", {})]
    if not staged or not any(GONE.search(text) for text in (*kinds, reason)):
        return reason
    return f"{reason}; staged objects are missing (expired or deleted); run `storelab stage --again`"


def _hung_fraction(results: Sequence[ClientResult]) -> float:
    """Return the fraction of the workers' time that hanging operations took."""
    seconds = sum(r.engine["hung_s"] for r in results if r.engine.get("hung"))
    hung = [r for r in results if r.engine.get("hung") is not None]
    whole: int = sum(r.engine["settings"]["workers"] * (r.deadline_ns - r.begin_ns) for r in hung) if seconds else 0
    return float(seconds * 1e9 / whole) if whole else 0.0


def accept(limits: Limits, results: Sequence[ClientResult], checks: Sequence[Check], staged: bool = False) -> None:
    """Raise MeasurementFailed if a check failed or a limit was exceeded, so that such a run cannot look fast.

    Errors of operations are results, see `budget`. If no operation of a client ended, raise NoOperationEnded.
    """
    seconds = (max(r.deadline_ns for r in results) - results[0].t0_ns) / 1e9
    bound = limits["throughput"]
    if bound and sum(r.bytes for r in results) > bound * seconds:
        raise MeasurementFailed("the clients moved more than limits.throughput over the whole point")
    if bad := Counter(f"check {check.name!r} failed: {check.detail}" for check in checks if not check.ok):
        texts = [
            f"{text} (in {number} of {len(results)} clients)" if number > 1 else text for text, number in bad.items()
        ]
        nothing_ended = any(r.operations == r.errors == 0 for r in results)
        error = NoOperationEnded if nothing_ended else MeasurementFailed
        raise error(_hinted("; ".join(texts[:3]), results, staged))


def record_of_point(
    config: Config,
    chosen: Point,
    store: Store,
    attempt: str,
    results: Sequence[ClientResult],
    checks: Sequence[Check],
    watched: dict[str, Any],
) -> RunRecord:
    """Return the record of a point without its files. `watched` is the summary of this host's monitor."""
    roles = roles_of(config, chosen, results)
    spent = budget(config, results, reads_staged(chosen))
    spent.reason = next((role.budget.reason for role in roles if role.budget.reason), spent.reason)
    clients = []
    for result in results:  # the fields that differ between clients; `engine` of the record is for the whole point
        engine_facts = {name: value for name, value in result.engine.items() if name not in ENGINE}
        facts = {name: value for name, value in result.to_json().items() if name not in APART}
        clients.append(facts | {"engine": engine_facts})
    return RunRecord(
        campaign=config.name,
        point=chosen,
        valid=spent.reason is None,
        budget=spent,
        attempt=attempt,
        launcher=config.launcher.kind,
        start_ns=results[0].t0_ns,
        deadline_ns=results[0].t0_ns + chosen.fixed["duration_ns"],
        lead_ns=config.start_delay,
        clients=clients,
        host=watched | {"client_cpu_s": sum(r.cpu_user_s + r.cpu_system_s for r in results)},
        store={
            "name": chosen.store,
            "kind": store.settings.kind,
            "version": store.version(),
            "on_this_host": store.on_this_host(),
            "deployment": store.deployment(),
        },
        environment=environment.capture(),
        engine={name: results[0].engine[name] for name in ENGINE},
        checks=[asdict(check) for check in checks],
        roles=roles or None,
    )


def keep_changes(raw: Path) -> None:
    """Keep the uncommitted changes of the code, which the record names by their checksum."""
    found = environment.checkout()
    if found.changes and not (path := records.changes_file(raw, found.sha256)).exists():
        records.write_atomic(path, found.changes.encode())


def front_end_links(store: Store, job: GangJob) -> list[int] | None:
    """Return the capacity of each front-end's link in bits/s, from the configuration or from this host.

    Return None if one of them is unknown.
    """
    endpoints = max((role_job.endpoints for role_job in (job, *job.roles)), key=len)
    if declared := getattr(store.settings, "link", None):
        return [8 * declared] * len(endpoints)
    known = environment.link_speeds_of([urlsplit(end.url).hostname or "" for end in endpoints])
    found = [bits for bits in known if bits]
    return found if found and len(found) == len(known) else None


def roles_of(config: Config, chosen: Point, results: Sequence[ClientResult]) -> list[RoleRecord]:
    """Return the record of each role: ranks of its clients, engine and budget. Without roles, return an empty list."""
    out = []
    for part in chosen.parts() if "roles" in chosen.fixed else ():
        role_results = [results[rank] for rank in part.ranks]
        spent = budget(config, role_results, reads_staged(part.point))
        if spent.reason:
            spent.reason = f"role {part.name}: {spent.reason}"
        engine = {name: role_results[0].engine[name] for name in ENGINE}
        names = (part.name, part.point.workload, part.point.axes, [*part.ranks])
        out.append(RoleRecord(*names, role_results[0].begin_ns, role_results[0].deadline_ns, engine, spent))
    return out


def put_in_place(run: RunRecord, work: Path, folder: Path, why: str = records.AGAIN) -> None:
    """Move the tables of an attempt (folder `work`) into the point's folder, and write `run.json` last.

    An existing record stays complete until the new `run.json` replaces it, because new tables get different names and
    old tables are removed last. `why` is the reason to measure the point again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run.earlier = records.earlier(folder, run.point.to_json(), why)
    taken = {p.name for p in folder.glob("*.parquet")} if (folder / "run.json").exists() else set()
    names = []
    for table in sorted(work.glob("*.parquet")):
        names.append(f"{table.stem}.{work.name}.parquet" if table.name in taken else table.name)
        records.move_in(table, folder / names[-1])
    records.finish(folder, run.to_json(), names)
    remove_strays(folder)


def remove_strays(folder: Path) -> None:
    """Remove tables that belong to no record: a killed attempt left them in the point's folder."""
    head = folder / "run.json"
    if head.exists() and records.damage(head):
        return  # a damaged `run.json` does not list its tables
    kept = records.read_json(head)["files"] if head.exists() else ()
    for table in folder.glob("*.parquet"):
        if table.name not in kept:
            table.unlink()
