"""Where a point and its fault meet: the runner beside the gang, and what the record says of it.

May import: what `measure` may.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from storelab.core import records
from storelab.core.config import Config
from storelab.core.model import Point
from storelab.core.records import RunRecord
from storelab.engines.contract import Check
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


def checks(runner: Runner | None) -> list[Check]:
    """A run whose fault did not happen as asked is none."""
    if runner is None:
        return []
    failed = runner.failed()
    return [Check(f"fault {runner.name}", not failed, "; ".join(failed[:3]) or "all acts were done")]


def add_to(run: RunRecord, runner: Runner | None, work: Path) -> None:
    """Add a fault and its events to a record; errors after the first act do not make the run invalid."""
    if runner is None or run.budget is None:
        return
    budget = run.budget
    budget.before_errors, budget.before_operations = _before(work, runner.first_ns())
    share = budget.before_errors / max(1, budget.before_operations)
    budget.reason = None
    if share > budget.failure_budget:
        most = f"more than failure_budget = {100 * budget.failure_budget:g} %"
        budget.reason = f"{100 * share:.3g} % of the operations failed before the first act, {most}"
    run.events, run.fault, run.valid = runner.events, runner.told(), budget.reason is None


def _before(work: Path, first_ns: int) -> tuple[int, int]:
    """Count the operations of all clients that had ended when the first act began: those that failed, and all."""
    import pyarrow.compute as pc  # here: most points have no fault

    errors, operations = 0, 0
    for path in work.glob("ops.*.parquet"):
        rows = records.read_table(path, ["end_ns", "error", "count"])
        rows = rows.filter(pc.less(rows["end_ns"], first_ns))
        operations += pc.sum(rows["count"]).as_py() or 0
        errors += pc.sum(rows.filter(pc.is_valid(rows["error"]))["count"]).as_py() or 0
    return errors, operations
