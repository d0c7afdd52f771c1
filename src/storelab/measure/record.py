"""The record of a point: is what came back good, what does `run.json` say, and into its place with it, the head last.

May import: `host`, `stores`, `core`. Definition: docs/records.md.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab.core import records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed
from storelab.core.model import Point
from storelab.host import environment
from storelab.stores.base import Store

ENGINE = ("name", "version", "settings", "requests_per_operation")
# Classes and messages of errors about an object or a bucket that is not there.
GONE = re.compile(r"NoSuchKey|NoSuchBucket|NotFound|\b(?:Http)?404\b")
APART = ("engine", "checks", "t0_ns", "begin_ns", "deadline_ns")  # of a client's result, not of the client alone


def reads_staged(point: Point) -> bool:
    """Whether a point, or a role of it, reads what was staged before."""
    return any(part.point.dataset for part in point.parts())


def budget(config: Config, results: list[dict[str, Any]], staged: bool = False) -> dict[str, Any]:
    """Failed operations against the budget: errors, operations, fraction, hung, hung_fraction, failure_budget, reason.

    Operations that hung are among the errors. hung: how many, None where an engine cannot tell. A worker whose
    operation hangs fails only once, however long it stands still: hung_fraction is the part of all workers' time, from
    the start to the deadline, that such operations took, and stands against the same budget. The reason is None within
    the budget, else one line with the first error's own words. staged: the clients read what was staged before.
    """
    errors, operations = (sum(r[what] for r in results) for what in ("errors", "operations"))
    known = [r["engine"]["hung"] for r in results if r["engine"].get("hung") is not None]
    budget, fraction, held = config.failure_budget, errors / max(1, errors + operations), _held(results)
    found = {"errors": errors, "operations": operations, "fraction": fraction, "failure_budget": budget}
    found |= {"hung": sum(known) if len(known) == len(results) else None, "hung_fraction": held}
    most = f"more than failure_budget = {100 * budget:g} %"
    if fraction > budget:
        told = [error for r in results for error in r["engine"].get("errors", {}).values()]
        first = (told or ["no engine told why"])[0]
        words = " ".join((first if isinstance(first, str) else first["message"]).split())
        if len(words) > 200:  # the cause is at the end of what Go's programs say
            words = f"{words[:100]} … {words[-97:]}"
        reason = f"{100 * fraction:.3g} % of the operations failed, {most}: {words}"
        return found | {"reason": _hinted(reason, results, staged)}
    if held > budget:
        lost = f"{sum(known)} operations hung and held {100 * held:.3g} % of the workers' time"
        return found | {"reason": f"{lost}, {most}"}
    return found | {"reason": None}


def _hinted(reason: str, results: list[dict[str, Any]], staged: bool) -> str:
    """Return the reason, with the way out where what was staged is not there any more."""
    kinds = [kind for r in results for kind in r["engine"].get("errors", {})]
    if not staged or not any(GONE.search(text) for text in (*kinds, reason)):
        return reason
    return f"{reason}; objects that were staged are gone (expired or deleted): run `storelab stage --again`"


def _held(results: list[dict[str, Any]]) -> float:
    """The part of the workers' time that operations which hung took."""
    held = [(r["engine"]["hung_s"], r) for r in results if r["engine"].get("hung")]
    if not held:
        return 0.0
    own = [r for r in results if r["engine"].get("hung") is not None]
    whole = sum(r["engine"]["settings"]["workers"] * (r["deadline_ns"] - r["begin_ns"]) for r in own)
    return sum(seconds for seconds, _ in held) * 1e9 / whole


def accept(
    limits: dict[str, Any], results: list[dict[str, Any]], checks: list[dict[str, Any]], staged: bool = False
) -> None:
    """Raises MeasurementFailed: a run whose checks fail, or that broke a limit, can never look fast.

    Errors of operations are results, see `budget`.
    """
    seconds = (max(r["deadline_ns"] for r in results) - results[0]["t0_ns"]) / 1e9
    if limits["throughput"] and sum(r["bytes"] for r in results) > limits["throughput"] * seconds:
        raise MeasurementFailed("the clients moved more than limits.throughput over the whole point")
    if bad := [c for c in checks if not c["ok"]]:
        reason = "; ".join(f"check {c['name']!r} failed: {c['detail']}" for c in bad[:3])
        raise MeasurementFailed(_hinted(reason, results, staged))


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
    roles = roles_of(config, chosen, results)
    spent = budget(config, results, reads_staged(chosen))
    spent["reason"] = next((role["budget"]["reason"] for role in roles if role["budget"]["reason"]), spent["reason"])
    # What one client met; `engine` below is what holds for the whole point.
    clients = [{k: v for k, v in r.items() if k not in APART} for r in results]
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
        "deadline_ns": results[0]["t0_ns"] + chosen.fixed["duration_ns"],
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
        "engine": {k: results[0]["engine"][k] for k in ENGINE},
        "checks": checks,
        "events": [],
        **({"roles": roles} if roles else {}),
    }


def front_end_links(store: Store, job: Mapping[str, Any]) -> list[int] | None:
    """Return the capacity of the link of each front-end in bits/s: as declared, else as this host knows it; None where
    one is unknown."""
    endpoints = max((j["endpoints"] for j in (job, *job.get("roles", ()))), key=len)
    if declared := getattr(store.settings, "link", None):
        return [8 * declared] * len(endpoints)
    known = environment.link_speeds_of([urlsplit(end["url"]).hostname or "" for end in endpoints])
    found = [bits for bits in known if bits]
    return found if found and len(found) == len(known) else None


def roles_of(config: Config, chosen: Point, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each role did, with the ranks of its clients, its engine and budget; nothing of a point without roles."""
    out = []
    for part in chosen.parts() if "roles" in chosen.fixed else ():
        own = [results[rank] for rank in part.ranks]
        spent = budget(config, own, reads_staged(part.point))
        if spent["reason"]:
            spent["reason"] = f"role {part.name}: {spent['reason']}"
        told = {"name": part.name, "workload": part.point.workload, "axes": part.point.axes, "clients": [*part.ranks]}
        times = {"begin_ns": own[0]["begin_ns"], "end_ns": own[0]["deadline_ns"]}
        out.append(told | times | {"engine": {k: own[0]["engine"][k] for k in ENGINE}, "budget": spent})
    return out


def put_in_place(run: dict[str, Any], work: Path, folder: Path, why: str = "measured again by request") -> None:
    """Move the tables of an attempt (its folder `work`) into the point's folder; `run.json` last, so that a head stands
    for a whole record.

    Where there is a record already, it stays whole until the new head takes its place: new tables get names of their
    own beside the old ones, which go last. `why`: the reason to measure it again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run["earlier"] = records.earlier(folder, run["point"], why)
    taken = {p.name for p in folder.glob("*.parquet")} if (folder / "run.json").exists() else set()
    names = []
    for table in sorted(work.glob("*.parquet")):
        names.append(f"{table.stem}.{work.name}.parquet" if table.name in taken else table.name)
        records.move_in(table, folder / names[-1])
    records.finish(folder, run, names)
    remove_strays(folder)


def remove_strays(folder: Path) -> None:
    """Tables that no record has: a killed attempt left them in the point's folder."""
    head = folder / "run.json"
    if head.exists() and records.damage(head):
        return  # nobody knows which are its own
    kept = records.read_json(head)["files"] if head.exists() else ()
    for table in folder.glob("*.parquet"):
        if table.name not in kept:
            table.unlink()
