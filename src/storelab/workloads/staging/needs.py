"""What a plan asks of a store and of tmpfs: objects and bytes that are staged, or made before the clients start.

May import: `stage`, `datasets`, `core`.
"""

from collections import Counter
from dataclasses import dataclass, field

from storelab.core.axes import mixes
from storelab.core.campaign.release import a_day, a_night
from storelab.core.engines import CATALOGUE
from storelab.core.model import Point
from storelab.datasets.payload import BODIES
from storelab.workloads.staging import stage

DAYS_BYTES = 64_000_000  # of days of a release that are made before they are uploaded, beside the last one


@dataclass
class Summary:
    """What a plan asks of one store.

    Only staged data are counted in bytes: how much clients upload until the deadline is not known before.
    """

    points: Counter[str] = field(default_factory=Counter)  # workload -> points
    seconds: Counter[str] = field(default_factory=Counter)  # workload -> seconds of windows
    staged_bytes: int = 0
    staged_objects: int = 0
    buckets: int = 0
    scratch_bytes: int = 0


def scratch_bytes(point: Point) -> int:
    """Bytes of tmpfs that the clients of a point need at most, on one host.

    These are the bodies, and for downloads the ring and what is in flight.
    """
    if release := point.fixed.get("release"):  # a day, and what failed days before it left: three days in all
        if CATALOGUE[point.axes["engine"]].through_files:  # as plain files, of which one more is spooled
            return 3 * a_night(release)
        return 3 * a_day(release)[1] + (DAYS_BYTES if point.workload == "collect_garbage" else 0)
    if "sizes" in point.fixed:
        return BODIES * mixes.largest(point.fixed["sizes"])
    what = point.axes.get("operation", point.workload)  # of a calibration: its operation
    if what not in ("put", "get", "get_range", "delete", "space", "write", "read"):
        return 0
    size = point.axes["object_size"]
    engine = CATALOGUE.get(point.axes["engine"])  # none of a calibration without a server
    if engine and not engine.through_files:  # answers stay in memory
        return BODIES * size
    ring = point.axes["clients"] * (max(point.axes["workers"], BODIES) + BODIES + point.axes["workers"]) * size
    return BODIES * size + (ring if what in ("get", "write", "read") else 0)


def summarise(points: list[Point], store: str) -> Summary:
    """Totals of the points of one store; a data set counts once."""
    out, own = Summary(), [p for p in points if p.store == store]
    for p in own:
        out.points[p.workload] += 1
        out.seconds[p.workload] += p.fixed["duration_ns"] / 1e9
        out.buckets = max(out.buckets, p.axes.get("buckets", p.axes.get("accounts", 1)))
        out.scratch_bytes = max(out.scratch_bytes, sum(scratch_bytes(part.point) for part in p.parts()))
    datasets = {q.dataset["name"]: q.dataset for q in in_parts(own) if q.dataset}.values()
    made = [_made(p) for p in own]
    out.staged_bytes = sum(map(stage.dataset_bytes, datasets)) + max((size for _, size in made), default=0)
    staged = (d.get("objects") or stage.root_copies(d) for d in datasets)
    out.staged_objects = sum(staged) + max((n for n, _ in made), default=0)
    return out


def _made(point: Point) -> tuple[int, int]:
    """(number, bytes) of the objects that are made for a point before its clients start."""
    parts = in_parts([point])
    own: list[tuple[int, float]] = [
        (q.fixed["objects"], q.axes["object_size"]) for q in parts if q.workload == "delete"
    ]
    for q in parts:
        if q.workload == "collect_garbage":
            n, size = a_day(q.fixed["release"])
            own.append((n * q.axes["days"], size / n))
    own += [(q.fixed["objects"], mixes.mean(q.fixed["sizes"])) for q in parts if "sizes" in q.fixed]
    return sum(n for n, _ in own), round(sum(n * size for n, size in own))


def in_parts(points: list[Point]) -> list[Point]:
    """The points; in place of one with roles the points of its roles."""
    return [part.point for p in points for part in p.parts()]
