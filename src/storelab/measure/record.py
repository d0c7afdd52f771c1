"""The record of a point: is what came back good, what does `run.json` say, and into its place with it, the head last.

May import: `host`, `stores`, `core`. Definition: docs/records.md.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from storelab.core import records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed
from storelab.core.model import Point
from storelab.host import environment
from storelab.stores.base import Store

ENGINE = ("name", "version", "settings", "requests_per_operation")


def budget(config: Config, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Failed operations against the budget: {errors, operations, fraction, failure_budget, reason}.

    The reason is None within the budget, else one line with the first error's own words.
    """
    errors, operations = (sum(r[what] for r in results) for what in ("errors", "operations"))
    fraction = errors / max(1, errors + operations)
    found = {"errors": errors, "operations": operations, "fraction": fraction, "failure_budget": config.failure_budget}
    if fraction <= config.failure_budget:
        return found | {"reason": None}
    told = [error for r in results for error in r["engine"].get("errors", {}).values()]
    first = (told or ["?"])[0]
    words = " ".join((first if isinstance(first, str) else first["message"]).split())[:200]
    most = f"failure_budget = {100 * config.failure_budget:g} %"
    return found | {"reason": f"{100 * fraction:.3g} % of the operations failed, more than {most}: {words}"}


def accept(limits: dict[str, Any], results: list[dict[str, Any]], checks: list[dict[str, Any]]) -> None:
    """Raises MeasurementFailed: a run whose checks fail, or that broke a limit, can never look fast.

    Errors of operations are results, see `budget`.
    """
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
    # What one client met; `engine` below is what holds for the whole point.
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
        "engine": {k: results[0]["engine"][k] for k in ENGINE},
        "checks": checks,
        "events": [],
    }


def put_in_place(run: dict[str, Any], work: Path, folder: Path) -> None:
    """Move the tables of `work` into the point's folder; `run.json` last, so that a head stands for a whole record."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)  # --again: never an old head over new bodies
    for old in folder.glob("*.parquet"):
        old.unlink()
    for table in work.glob("*.parquet"):
        records.move_in(table, folder / table.name)
    records.finish(folder, run)
