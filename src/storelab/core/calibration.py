"""Calibration: what the clients could do at most, and the points that measure it (room `core`). Pure: no I/O, no clock.

A point's ceiling is what the same engine, with the same objects, clients and workers, reaches against a server that
does almost nothing. It is measured before the campaign and after it, so that a drift of the hosts is seen. Memory and
tmpfs, which engines move bytes through, are measured once, before. See docs/calibration.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from storelab.core import axes, engines
from storelab.core.model import Axis, Point, Workload, derive_seed, point_key

if TYPE_CHECKING:
    from storelab.core.config import Config

WORKLOAD = "calibrate"
STORE = "nullserver"  # the kind, and the name of the one that is there without being configured
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
    "A workload, for `network`; `copy` for `memory`; `write` or `read` a file, for `tmpfs` and `disk`.",
    choices=(*OPERATIONS, "copy", "write", "read"),
    ceiling=True,
)
TARGET = Axis(
    "target",
    "text",
    NETWORK,
    "Target",
    (
        "`network`: the null server; `memory`: another place of memory; `tmpfs`: files in `scratch`; `disk`: files in "
        "`state`."
    ),
    choices=(NETWORK, *LOCAL),
)
PHASE = Axis("phase", "text", BEFORE, "Phase", "First of the campaign, or last of it.", choices=(BEFORE, AFTER))
_MOVING = axes.engine(OPERATIONS, "loadgen", "As in the operation's workload; `none` but for `network`.")
AXES = (  # of the workload
    OPERATION,
    TARGET,
    PHASE,
    replace(_MOVING, choices=(*_MOVING.choices, "none")),
    axes.OBJECT_SIZE,
    replace(axes.RANGE_SIZE, default=0, minimum=0, help="Of `get_range`; 0 B elsewhere."),
    replace(axes.BATCH, help="Of `delete`."),
    axes.CLIENTS,
    axes.WORKERS,
    axes.PART_SIZE,
    axes.PARALLEL_PARTS,
    axes.SCHEME,
    axes.CLIENTS_PER_NODE,
    axes.PAYLOAD,
    replace(axes.KEYS, default=0, minimum=0, help="Of `list`; 0 elsewhere."),
    replace(axes.PAGE_SIZE, help="Of `list`, for loadgen."),
    replace(axes.PREFIX_DEPTH, help="Of `list`."),
)
# What a point and its ceiling must agree on. The operation is the point's workload; the scheme is in the settings of
# its store.
AGREE = tuple(a for a in AXES if a.ceiling)
DECISIVE = tuple(a.name for a in AGREE if a not in (OPERATION, axes.SCHEME))
# Least duration of a point; of one whose clients are on other hosts: their links may be slow.
SHORTEST_NS, BETWEEN_HOSTS_NS = 2 * 10**9, 10 * 10**9
WARM_UP = 0.25  # the part of it that is cut
ROUNDS, SLOW = 4, 5 * 10**8  # a point lasts so many rounds of one object per worker at so many bytes/s of all
LONGEST_NS = 60 * 10**9
SLOW_KEYS = 2 * 10**5  # of all in a second, of listings
MOVING_NOTHING = ("delete", "stat", "list")


def encrypted(settings: Any, values: Mapping[str, Any]) -> bool:
    """Whether clients speak https to this store (its settings), deployed as these axes say."""
    if (scheme := values.get("scheme", axes.SCHEME.default)) != axes.SCHEME.default:
        return bool(scheme == "https")
    endpoint = getattr(settings, "endpoint", "")
    first: str = endpoint if isinstance(endpoint, str) else next(iter(endpoint), "")
    return first.startswith("https:") or bool(getattr(settings, "tls", False))


def duration_ns(values: Mapping[str, Any], between_hosts: bool) -> int:
    """How long a point lasts, in ns: 2 s, 10 s through a network, or as long as large objects need for a few rounds.

    No setting of a sweep changes it: a ceiling is a ceiling.
    """
    moved, slow = values["range_size"] or values["object_size"], SLOW
    if values.get("keys"):
        moved, slow = values["keys"], SLOW_KEYS
    rounds: int = ROUNDS * values["clients"] * values["workers"] * moved * 10**9 // slow
    return min(max(BETWEEN_HOSTS_NS if between_hosts else SHORTEST_NS, rounds), LONGEST_NS)


def points(config: "Config", planned: Iterable[Point], workloads: Mapping[str, Workload]) -> list[Point]:
    """The points that give the planned ones their ceilings, unnumbered; none if the configuration leaves them out."""
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
    """Axes of the points against the null server; the same ones may come several times."""
    for p in measured:
        scheme = {"scheme": "https"} if encrypted(config.stores[p.store], p.axes) else {}
        same = {name: p.axes[name] for name in DECISIVE if name in p.axes}
        for phase in (BEFORE, AFTER):
            yield {"operation": p.workload, "target": NETWORK, "phase": phase} | same | scheme


def _local(measured: list[Point]) -> Iterable[dict[str, Any]]:
    """Axes of the points without a server, with the most clients that a point has.

    Memory by object size; files on tmpfs, where s5cmd writes its downloads and reads its uploads.
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
    """(points that come first, the others, those that come last)."""
    every = list(points)
    phase = {p.key: p.axes["phase"] if p.workload == WORKLOAD else "" for p in every}
    first, rest, last = ([p for p in every if phase[p.key] == wanted] for wanted in (BEFORE, "", AFTER))
    return first, rest, last
