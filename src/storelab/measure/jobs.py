"""`job.json`: what the clients of a point are told; nothing secret. With roles, a job for each of them besides.

May import: `workloads`, `stores`, `host`, `core`.
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from storelab import workloads
from storelab.core import evidence
from storelab.core.config import Config
from storelab.core.engines import ALL, CATALOGUE
from storelab.core.errors import UserError
from storelab.core.model import Part, Point, accounts_of
from storelab.core.plan import series
from storelab.host import scratch
from storelab.measure import beside
from storelab.measure.progress import state
from storelab.stores.base import Store
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint, account_prefix
from storelab.workloads.staging import stage


def of_point(config: Config, chosen: Point, store: Store, manifests: dict[str, Path], attempt: str) -> dict[str, Any]:
    """The job of a point. manifests: of the data sets that it reads, by name."""
    job = job_data(config, chosen, store, manifests, attempt)
    job["tells"] = config.launcher.kind == "local" and not state.off()  # elsewhere nobody sees it in time
    if "roles" in chosen.fixed:
        job["roles"] = [role_data(config, part, store, manifests, attempt, chosen.clients) for part in chosen.parts()]
    return job


def keeps(chosen: Point) -> bool:
    """Whether the point, or a role of it, is a part that finds in the store what earlier parts left there."""
    return series.part(chosen) > 0 and any(series.keeps(workloads.of(part.point)) for part in chosen.parts())


def is_last(points: list[Point], chosen: Point) -> bool:
    """Whether no part of its series follows."""
    return series.of(points, chosen)[-1] == chosen


def tell_earlier(config: Config, points: list[Point], chosen: Point, job: dict[str, Any]) -> None:
    """Add to the job, and to those of its roles, the `earlier` parts of the series that have a record, in their order:
    {part, attempt}."""
    before = [p for p in series.of(points, chosen) if series.part(p) < series.part(chosen)]
    runs = {series.part(p): evidence.load_run(config.raw / p.key, p) for p in before}
    for part, own in zip(chosen.parts(), job.get("roles", [job]), strict=True):
        own["earlier"] = [{"part": n, "attempt": part.attempt(run["attempt"])} for n, run in runs.items() if run]


def role_data(
    config: Config, part: Part, store: Store, manifests: dict[str, Path], attempt: str, clients: int
) -> dict[str, Any]:
    """The job of a role in `job.json`. clients: of the whole gang, who share the limits."""
    job = job_data(config, part.point, store, manifests, part.attempt(attempt))
    for limit in ("throughput", "requests_per_s"):
        if bound := job["limits"][limit]:
            job["limits"][limit] = bound * len(part.ranks) / clients
    return job | {"role": part.name, "ranks": [*part.ranks], "begin_ns": part.begin_ns}


def job_data(config: Config, chosen: Point, store: Store, manifests: dict[str, Path], attempt: str) -> dict[str, Any]:
    """The job of clients that do one thing."""
    reaches(chosen, store)
    manifest = manifests[chosen.dataset["name"]] if chosen.dataset else None
    accounts = chosen.axes.get("accounts", 1)
    count = chosen.axes.get("buckets", accounts)  # a workload that does not sweep them has one for each account
    return {
        "point": asdict(chosen),
        "attempt": attempt,
        "size": chosen.clients,
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


def reaches(chosen: Point, store: Store) -> None:
    """Raise UserError where the point's engine cannot use the proxy that this store's clients use."""
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
            f"sweep engines {', '.join(able)}, or set `proxy: none`" if able else "set `proxy: none`",
        )


def environs(config: Config, chosen: Point, store: Store, job: dict[str, Any]) -> list[dict[str, str]]:
    """The credentials of each account, as environment variables; those of each client where there are roles, or more
    accounts than clients."""
    accounts, parts = job["accounts"], chosen.parts()
    out = [own.environ() if own else {} for own in map(store.credentials, range(accounts))]
    if accounts > 1 and "second_account" in workloads.of(chosen).needs:
        out[0] |= {name.replace("AWS_", "STORELAB_SECOND_"): value for name, value in out[1].items()}
    proxies = environment.kept([Endpoint(**end) for end in job["endpoints"]], os.environ)
    out = [environ | beside.environ(config, chosen) | proxies for environ in out]
    if "roles" not in job and accounts <= len(parts[0].ranks):
        return out
    return [
        several(out, accounts_of(client, len(part.ranks), accounts))
        for part in parts
        for client in range(len(part.ranks))
    ]


def several(environs: list[dict[str, str]], accounts: tuple[int, ...]) -> dict[str, str]:
    """The variables of a client that uses these accounts in turn: those of the first, and the keys of the others under
    their numbers."""
    others = {
        name.replace("AWS_", account_prefix(account), 1): value
        for account in accounts[1:]
        for name, value in environs[account].items()
    }
    return environs[accounts[0]] | others
