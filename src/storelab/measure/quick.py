"""The measurement of `storelab quick`: measure a campaign, and remove everything that it wrote into the stores.

This module may import every subpackage of the measuring side and `core`.
"""

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from storelab.core import calibration
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.host import scratch
from storelab.host.console import report
from storelab.measure import check, collect, deployment, plan_file, point
from storelab.stores import all_stores, everywhere
from storelab.workloads import WORKLOADS

IN_A_ROW = 3  # after this number of failed points in a row, no other points are tried


def measure(config: Config, points: list[Point]) -> float:
    """Measure all points, and remove everything from the stores. Return the duration in seconds.

    The records, the plan and the checksums are written to `config.raw`. Raises UserError before anything is written,
    and MeasurementFailed if no point can be measured, or if IN_A_ROW points in a row fail.
    """
    stores = all_stores(config)
    for name in config.stores_to_measure:
        deployment.connect(config, stores[name])
    check.everything(config, points, WORKLOADS, stores)
    plan_file.write(config, points, WORKLOADS)
    begun = time.monotonic()
    with nothing_left(config):
        _all(config, points)
    collect.write_sums(config, points)
    return time.monotonic() - begun


def _all(config: Config, points: list[Point]) -> None:
    failed: list[str] = []
    for chosen in points:
        try:
            point.point(config, points, chosen.key)
            failed.clear()
        except MeasurementFailed as error:
            failed.append(str(error))
            if len(failed) == min(IN_A_ROW, len(points)):
                raise MeasurementFailed(f"{len(failed)} points in a row failed, the last is {failed[-1]}") from None
            report(f"    failed: {error}")


@contextmanager
def nothing_left(config: Config) -> Iterator[None]:
    """Remove what the campaign wrote into its stores, and stop its processes, even if the block fails."""
    try:
        yield
    finally:
        with _not_to_be_stopped((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
            report("    removing what was written")
            _remove(config)
            used = {*config.stores_to_measure, calibration.STORE}
            for store in everywhere(config).values():
                if store.managed and (Path(config.state) / store.name).exists():
                    if store.name in used:
                        deployment.release(store)
                    else:
                        store.resume()  # it was suspended while another store was measured
            scratch.clear(config.scratch)


def _remove(config: Config) -> None:
    stores = all_stores(config)
    for name in config.stores_to_measure:
        try:
            removed = deployment.clean(config, stores[name])
            bare = [bucket for bucket in removed.unmarked if "/" not in bucket]
            for bucket in bare:  # a client was stopped before it marked this bucket; no other run uses this name
                stores[name].access(0).drop_bucket(bucket)
            rest = tuple(bucket for bucket in removed.unmarked if bucket not in bare)
            removed = removed._replace(buckets=removed.buckets + len(bare), unmarked=rest)
            report(f"    {name}: removed {removed}")
        except (UserError, MeasurementFailed) as error:
            first = stores[name].bucket(config.name, 0)
            report(f"storelab: not removed: bucket {first.name} {first.prefix}: {error}")


@contextmanager
def _not_to_be_stopped(numbers: Iterable[int]) -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
