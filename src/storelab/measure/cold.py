"""Cold reads: prepare the store for the point's access mode, and record whether reads came from its disks.

A read counts as cold only with a proof: the bytes that the kernel read from disks for the store's processes are
compared with the bytes that these processes served. Without these numbers, no read is called cold; see docs/cold.md.
This module may import `workloads`, `stores`, `host` and `core`.
"""

import random
import statistics
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from storelab.core import records, units
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.engines.contract import ClientResult, GangJob
from storelab.host import page_cache, proc
from storelab.host.console import report
from storelab.host.scratch import filesystem
from storelab.stores import changed, make
from storelab.stores.base import Cooling, Store
from storelab.workloads.base import ONCE
from storelab.workloads.staging import buckets
from storelab.workloads.staging.written import MARKER

COLD, WARM = "cold", "warm"
# Limits on disk reads / bytes served: at or above the first one, reads are cold; up to the second one, they are warm.
FROM_DISK, FROM_MEMORY = 0.9, 0.1
STILL = 0.05  # maximum fraction of the checked pages that is still cached after caches were dropped
SAMPLE, SAMPLE_BYTES = 8, 64_000_000  # maximum number, and total size, of objects that are read twice after the run


def access_mode(point: Point) -> str | None:
    """Return how the clients of a point access staged data; None if they read nothing.

    For several roles, return the coldest access.
    """
    values = [str(part.point.axes["access"]) for part in point.parts() if "access" in part.point.axes]
    return next((v for v in (COLD, "once", WARM) if v in values), None)


def proven(share: float, whole: bool, dropped: bool) -> str:
    """Return whether reads are proven to be `cold`, `warm` or `partly` cold.

    For reads of ranges, disks read more bytes than are served. Therefore their bytes are not a proof.

    Parameters
    ----------
    share
        Disk reads divided by bytes served.
    whole
        Whether whole objects are read.
    dropped
        Whether the kernel had none of the data in its cache before.
    """
    if share <= FROM_MEMORY:
        return WARM
    return COLD if share >= FROM_DISK and (whole or dropped) else "partly"


class CacheCheck:
    """The evidence for cold reads in one attempt.

    Call `cool()` before the clients start, `begin()` when they start, `end()` after they have ended, then `record()`.
    """

    def __init__(self, config: Config, store: Store, point: Point, job: GangJob):
        parts = point.parts()
        self.config, self.store, self.roles = config, store, len(parts)
        self.point, self.job = (parts[0].point, job.parts[0]) if self.roles == 1 else (point, job)
        self.asked = access_mode(point)
        self.cooled = Cooling()
        self.pids: list[int] = []
        self.before: dict[int, int | None] = {}
        self.read: int | None = None
        self.ended_early_s: float | None = None

    def _cool(self) -> Cooling:
        axes = self.point.axes
        cooled = self.store.cool(axes.get("front_ends", 1), axes.get("accounts", 1))
        if self.config.drop_caches:
            try:
                page_cache.drop_all()
            except OSError as error:
                raise UserError("drop_caches", f"the kernel did not drop its caches ({error.strerror})", HINT) from None
            cooled.done.append("the kernel dropped its file caches")
        return cooled

    def cool(self) -> None:
        """Remove the store's data from memory if the point needs cold reads. Raises UserError, MeasurementFailed."""
        if self.asked == COLD:
            self.cooled = self._cool()
        if self.asked and self.store.managed:
            self.pids = list(self.store.actors().values())

    def begin(self, t0_ns: int) -> None:
        self.before = {pid: proc.disk_reads(pid) for pid in self.pids}

    def end(self, results: list[ClientResult]) -> None:
        """Read the counters of the disks. Raise MeasurementFailed if all objects were read within the warm-up."""
        if self.asked is None:
            return
        pids = self.pids if not self.store.managed else set(self.pids) | set(self.store.actors().values())
        found = [(proc.disk_reads(pid), self.before.get(pid, 0)) for pid in pids]
        if self.store.protocol == "file" and not self.store.managed:  # the clients' processes read the disks
            found = [(r.disk_read_bytes, 0) for r in results]
        known = [now - was for now, was in found if now is not None and was is not None]
        self.read = sum(known) if known and len(known) == len(found) else None
        deadline_ns, begun_ns = results[0].deadline_ns, results[0].t0_ns
        ends = [r.end_ns for r in results]
        if self.asked not in ONCE or self.roles > 1 or max(ends) >= deadline_ns:
            return
        self.ended_early_s = (deadline_ns - max(ends)) / 1e9
        hint = "stage more objects (`objects`), or more `files` of events"
        if min(ends) - begun_ns <= self.point.fixed["warm_up_ns"]:
            took = f"a client had read all of its objects {(min(ends) - begun_ns) / 1e9:.2f} s after the start"
            raise MeasurementFailed(f"{took}, within the warm-up: {hint}, or shorten `warm_up`")
        report(f"    all objects were read {self.ended_early_s:.1f} s before the deadline; for a longer run {hint}")

    def _served(self, folder: Path) -> int:
        """Return the number of bytes that clients requested. Selections include the gaps between their ranges."""
        import pyarrow.compute as pc

        reads = sorted(folder.glob("reads.*.parquet"))
        files, column = (reads, "asked_bytes") if reads else (sorted(folder.glob("ops.*.parquet")), "bytes")
        return sum(pc.sum(records.read_table(path, [column])[column]).as_py() or 0 for path in files)

    def _why(self, served: int) -> str:
        """Return the reason why disk reads are not evidence; '' if they are."""
        store, folders = self.store, self.store.data_folders()
        if self.roles > 1:
            return "several roles share the store, and its disk reads cannot be assigned to one of them"
        if store.memory_only():
            return "the store's data are in memory, so no read is cold"
        if not folders:
            return self.cooled.why or "the store's data are not on disks of this machine, so disk reads are not known"
        if self.read is None:
            return "the counters of the store's processes cannot be read"
        if not served:
            return "nothing was read"
        return (
            "" if page_cache.counted(folders[0]) else f"reads of {filesystem(folders[0])} are not counted as disk reads"
        )

    def record(self, folder: Path) -> dict[str, Any] | None:
        """Return the field `cold` of the record; None if nothing is read. `folder` contains the Parquet files."""
        if self.asked is None:
            return None
        served = self._served(folder)
        why = self._why(served)
        share = None if why or self.read is None else self.read / served
        axes, cooled = self.point.axes, self.cooled
        dropped = self.asked == COLD and not cooled.why and (cooled.still_cached or 0.0) <= STILL
        dropped &= cooled.still_cached is not None
        whole = self.point.workload == "get"
        memory, staged = psutil.virtual_memory().total, axes.get("working_set", 0)
        fields = {
            "asked": self.asked,
            "proven": None if share is None else proven(share, whole, dropped),
            "why": why,
            "done": cooled.done,
            "not_done": cooled.why,
            "still_cached": cooled.still_cached,
            "disk_read_bytes": self.read if not why else None,
            "served_bytes": served,
            "disk_share": share,
            "ended_early_s": self.ended_early_s,
            "working_set": {"bytes": staged, "memory_bytes": memory, "times": staged / memory} if staged else None,
        }
        return fields | {"step": self._step()}

    def _step(self) -> dict[str, Any] | None:
        """Cool the store again, and return the times of first and second accesses to a sample of the objects.

        Return None if the store was not cooled, or if the objects are large.
        """
        if self.asked != COLD or self.cooled.why or self.roles > 1 or not self.job.manifest:
            return None
        manifest = records.read_json(self.job.manifest)
        columns, bodies = manifest["objects"], manifest["bodies"]
        most = min(SAMPLE, len(columns["key"]), SAMPLE_BYTES // max(1, bodies[0]["size"]))
        if most < 1:
            return None
        sample = random.Random(self.point.seed).sample(range(len(columns["key"])), most)
        places = self.job.buckets
        with suppress(MeasurementFailed, UserError):
            self._cool()
            ways = buckets.accesses(self.store, places)
            times: list[list[float]] = [[], []]
            for i in sample:
                place = places[columns["bucket"][i]]
                way, key = ways[place.account], place.prefix + columns["key"][i]
                way.read(place.name, place.prefix + MARKER)  # opens the connection, so that the times do not include it
                for took in times:
                    begun = time.monotonic_ns()
                    way.read(place.name, key)
                    took.append((time.monotonic_ns() - begun) / 1e6)
            first, again = map(statistics.median, times)
            return {"objects": most, "first_ms": first, "again_ms": again, "ratio": first / again}
        return None


HINT = "run as root, or remove `drop_caches`"


def check(config: Config, points: list[Point]) -> None:
    """Raise UserError if the kernel would refuse to drop its caches."""
    if config.drop_caches and any(access_mode(p) == COLD for p in points) and not page_cache.may_drop_all():
        raise UserError("drop_caches", "only root can make the kernel drop its file caches", HINT)


def notes(points: list[Point], stores: Mapping[str, Store]) -> list[str]:
    """Return notes for `storelab check`: cold accesses that are impossible or cannot be proven, and working sets."""
    out: dict[str, None] = {}
    memory = psutil.virtual_memory().total
    for p in points:
        if access_mode(p) == COLD:
            store = make(*changed(stores[p.store], p.axes), stores[p.store].state)
            if store.memory_only():
                line = f"store {store.name} has its data in memory, so no access is cold; the records will show this"
                out[line] = None
            elif not store.managed and store.protocol != "file":
                line = f"storelab does not manage store {store.name}, so it cannot cool it and does not know its caches"
                out[line] = None
        if staged := p.axes.get("working_set"):
            times = f"{staged / memory:.2g} times the memory of this host ({units.human_size(memory)})"
            out[f"sweep {p.sweep}: a working set of {units.human_size(staged)} is {times}"] = None
    return list(out)
