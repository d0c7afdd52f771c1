"""Plan the calibration: the points that measure the limits of the clients.

The ceiling of a point is the throughput of the same engine, with the same objects, clients and workers, with a server
that does almost nothing. It is measured before and after the campaign, to show whether the hosts changed. The rates of
memory and tmpfs, which engines use for their data, are measured once, before the campaign. See docs/calibration.md.

This module has no I/O and reads no clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from storelab.core import axes, engines
from storelab.core.model import Axis, Point, Workload, derive_seed, point_key

if TYPE_CHECKING:
    from storelab.core.config import Config

WORKLOAD = "calibrate"
STORE = "nullserver"  # kind and name of the null server, which is added to the configuration automatically
BEFORE, AFTER = "before", "after"
NETWORK, MEMORY, TMPFS = "network", "memory", "tmpfs"
OPERATIONS = ("put", "get", "get_range", "delete", "stat", "list")  # workloads that have a ceiling
DISK = "disk"
LOCAL = {MEMORY: ("copy",), TMPFS: ("write", "read"), DISK: ("write", "read")}  # operations without a server, by target
OPERATION = Axis(
    "operation",
    "text",
    "get",
    "Operation",
    "For `network`: a workload; for `memory`: `copy`; for `tmpfs` and `disk`: `write` or `read` a file.",
    choices=(*OPERATIONS, "copy", "write", "read"),
    ceiling=True,
)
TARGET = Axis(
    "target",
    "text",
    NETWORK,
    "Target",
    (
        "`network`: the null server; `memory`: another place in memory; `tmpfs`: files in `scratch`; `disk`: files in "
        "`state`."
    ),
    choices=(NETWORK, *LOCAL),
)
PHASE = Axis("phase", "text", BEFORE, "Phase", "Before or after the campaign.", choices=(BEFORE, AFTER))
_MOVING = axes.engine(OPERATIONS, "loadgen", "As in the operation's workload; `none` except for `network`.")
AXES = (  # axes of the workload
    OPERATION,
    TARGET,
    PHASE,
    replace(_MOVING, choices=(*_MOVING.choices, "none")),
    axes.OBJECT_SIZE,
    replace(axes.RANGE_SIZE, default=0, minimum=0, help="For `get_range`; 0 B otherwise."),
    replace(axes.BATCH, help="For `delete`."),
    axes.CLIENTS,
    axes.WORKERS,
    axes.PART_SIZE,
    axes.PARALLEL_PARTS,
    axes.SCHEME,
    axes.CLIENTS_PER_NODE,
    axes.PAYLOAD,
    replace(axes.KEYS, default=0, minimum=0, help="For `list`; 0 otherwise."),
    replace(axes.PAGE_SIZE, help="For `list` with loadgen."),
    replace(axes.PREFIX_DEPTH, help="For `list`."),
)
# Axes that must be equal for a point and its ceiling. The operation is the point's workload. The scheme is a setting of
# the store.
AGREE = tuple(a for a in AXES if a.ceiling)
DECISIVE = tuple(a.name for a in AGREE if a not in (OPERATION, axes.SCHEME))
# Minimum duration of a point, and of a point whose clients are on other hosts, because their links can be slow.
SHORTEST_NS, BETWEEN_HOSTS_NS = 2 * 10**9, 10 * 10**9
WARM_UP = 0.25  # fraction of the duration that is cut
# a point is long enough for this number of rounds of one object per worker, at this total rate (bytes/s)
ROUNDS, SLOW = 4, 5 * 10**8
LONGEST_NS = 60 * 10**9
SLOW_KEYS = 2 * 10**5  # the same for listings, in keys/s
MOVING_NOTHING = ("delete", "stat", "list")


def encrypted(settings: Any, values: Mapping[str, Any]) -> bool:
    """Return True if clients use https with this store in the deployment that these axes define.

    settings: the configuration of the store; values: the axes of a point.
    """
    if (scheme := values.get("scheme", axes.SCHEME.default)) != axes.SCHEME.default:
        return bool(scheme == "https")
    endpoint = getattr(settings, "endpoint", "")
    first: str = endpoint if isinstance(endpoint, str) else next(iter(endpoint), "")
    return first.startswith("https:") or bool(getattr(settings, "tls", False))


def duration_ns(values: Mapping[str, Any], between_hosts: bool) -> int:
    """Return the duration of a point in ns: 2 s, 10 s through a network, or longer for large objects.

    It does not depend on the sweep, so that all points with the same axes have the same ceiling.
    """
    moved, slow = values["range_size"] or values["object_size"], SLOW
    if values.get("keys"):
        moved, slow = values["keys"], SLOW_KEYS
    rounds: int = ROUNDS * values["clients"] * values["workers"] * moved * 10**9 // slow
    return min(max(BETWEEN_HOSTS_NS if between_hosts else SHORTEST_NS, rounds), LONGEST_NS)


def points(config: "Config", planned: Iterable[Point], workloads: Mapping[str, Workload]) -> list[Point]:
    """Return the calibration points for the planned points, without numbers, or [] if calibration is disabled."""
    if not config.calibrate or WORKLOAD not in workloads:
        return []
    workload, out = workloads[WORKLOAD], {}
    measured = [p for p in planned if p.workload in OPERATIONS and workload.covers(config.stores[p.store].kind)]
    store = next(name for name, settings in config.stores.items() if settings.kind == STORE)
    for given in (*_network(config, measured), *_local(measured)):
        values = {a.name: given.get(a.name, a.default) for a in workload.axes}
        key = point_key(store, workload, values, 1)
        duration = duration_ns(values, values["target"] == NETWORK and config.launcher.kind != "local")
        fixed = {"duration_ns": duration, "warm_up_ns": round(WARM_UP * duration), "data_seed": config.seed}
        out[key] = Point(store, WORKLOAD, values, 1, key, WORKLOAD, derive_seed(config.seed, key), 0, fixed)
    return list(out.values())


def _network(config: "Config", measured: Iterable[Point]) -> Iterable[dict[str, Any]]:
    """Yield the axes of the points with the null server. Points can be repeated."""
    for p in measured:
        scheme = {"scheme": "https"} if encrypted(config.stores[p.store], p.axes) else {}
        same = {name: p.axes[name] for name in DECISIVE if name in p.axes}
        for phase in (BEFORE, AFTER):
            yield {"operation": p.workload, "target": NETWORK, "phase": phase} | same | scheme


def _local(measured: list[Point]) -> Iterable[dict[str, Any]]:
    """Yield the axes of the points without a server, each with the largest number of clients of all points.

    They measure memory by object size, and files on tmpfs, because s5cmd writes downloads to tmpfs and reads uploads
    from there.
    """
    most: dict[tuple[str, str, int], tuple[int, int]] = {}
    for p in measured:
        clients, size = p.axes["clients"], p.axes.get("range_size") or p.axes["object_size"]
        uses = [(MEMORY, "copy", 1)] if p.workload not in MOVING_NOTHING else []
        if engines.CATALOGUE[p.axes["engine"]].through_files and p.workload in ("put", "get"):
            uses.append((TMPFS, "write" if p.workload == "get" else "read", p.axes["workers"]))
        for target, operation, workers in uses:
            known = most.get((target, operation, size), (0, 0))
            most[target, operation, size] = max(known, (clients, workers))
    for (target, operation, size), (clients, workers) in most.items():
        where = {"operation": operation, "target": target, "phase": BEFORE, "engine": "none"}
        yield where | {"object_size": size, "clients": clients, "workers": workers}


def in_order(points: Iterable[Point]) -> tuple[list[Point], list[Point], list[Point]]:
    """Return the points that are measured first, the other points, and the points that are measured last."""
    every = list(points)
    phase = {p.key: p.axes["phase"] if p.workload == WORKLOAD else "" for p in every}
    first, rest, last = ([p for p in every if phase[p.key] == wanted] for wanted in (BEFORE, "", AFTER))
    return first, rest, last
