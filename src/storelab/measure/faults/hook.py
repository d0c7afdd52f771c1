"""Where a point and its fault meet: the runner beside the gang, and what the record says of it.

May import: what `measure` may.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storelab.core import records
from storelab.core.config import Config
from storelab.core.model import Point
from storelab.measure.faults.check import acts_of, beyond, name_of
from storelab.measure.faults.runner import Runner
from storelab.stores.base import Store


@contextmanager
def beside(
    config: Config,
    point: Point,
    store: Store,
    report: Callable[[str], None],
    moved: Callable[[str, int], None],
) -> Iterator[Runner | None]:
    """The runner of the point's fault; None where it has none. Raises UserError."""
    if not (acts := acts_of(config, point)):
        yield None
        return
    runner = Runner(store, name_of(point), acts, point.axes.get("front_ends", 1), report, moved)
    if line := beyond(runner.acts, store, runner.name):
        report(f"    {line}")
    with runner:
        yield runner


def checks(runner: Runner | None) -> list[dict[str, Any]]:
    """A run whose fault did not happen as asked is none."""
    if runner is None:
        return []
    failed = runner.failed()
    return [{"name": f"fault {runner.name}", "ok": not failed, "detail": "; ".join(failed[:3]) or "all acts were done"}]


def record(run: dict[str, Any], runner: Runner | None, work: Path) -> dict[str, Any]:
    """What a fault changes in the record: its events; and errors after the first act are no reason against the run."""
    if runner is None:
        return run
    budget = run["budget"] | _before(work, runner.first_ns())
    most, share = budget["failure_budget"], budget["before_errors"] / max(1, budget["before_operations"])
    budget["reason"] = (
        f"{100 * share:.3g} % of the operations failed before the first act, more than failure_budget = "
        f"{100 * most:g} %"
        if share > most
        else None
    )
    return run | {
        "events": runner.events,
        "fault": runner.told(),
        "budget": budget,
        "valid": budget["reason"] is None,
    }


def _before(work: Path, first_ns: int) -> dict[str, int]:
    """Operations of all clients that had ended when the first act began, and those of them that failed."""
    import pyarrow.compute as pc  # here: most points have no fault

    out = {"before_errors": 0, "before_operations": 0}
    for path in work.glob("ops.*.parquet"):
        rows = records.read_table(path, ["end_ns", "error", "count"])
        rows = rows.filter(pc.less(rows["end_ns"], first_ns))
        out["before_operations"] += pc.sum(rows["count"]).as_py() or 0
        out["before_errors"] += pc.sum(rows.filter(pc.is_valid(rows["error"]))["count"]).as_py() or 0
    return out
