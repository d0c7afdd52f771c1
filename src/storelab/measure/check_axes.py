"""Values of axes that an engine, a store or another axis rules out (room `measure`).

What an engine obeys stands in the catalogue.
"""

import math

from storelab import workloads
from storelab.core import units
from storelab.core.axes import roles
from storelab.core.config import Config
from storelab.core.engines import CATALOGUE, obeyed, of, protocols
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets import own_file
from storelab.stores.base import Store

BINNING = ("loadgen", "obstore")  # engines that keep operations as bins


def possible(point: Point, store: Store) -> None:
    """Raises UserError at the first value that cannot be."""
    for part in point.parts():
        _possible(part.point, store)


def place(point: Point, axis: str) -> str:
    """Where the configuration says an axis of a point, or of a role: one of the whole point stands in the sweep's."""
    sweep = point.sweep.partition(".roles.")[0] if axis in roles.WHOLE_NAMES else point.sweep
    return f"sweeps.{sweep}.axes.{axis}"


def factor(config: Config, point: Point, axis: str, most: int) -> str:
    """The `scale` with which an axis would have at most this value, as the end of a mend; '' where it is not scaled."""
    name, _, role = point.sweep.partition(".roles.")
    sweep = config.sweeps.get(name)
    if sweep is None or axis not in (sweep.roles[role] if role else sweep).scaled_axes:
        return ""
    asked = point.axes[axis] / config.scale  # about what the campaign says
    fits = math.floor(1000 * (most + 0.4) / asked) / 1000
    return f", or set `scale` to {fits:g}" if fits > 0 else ""


def _possible(point: Point, store: Store) -> None:
    _speaks(point, store)
    _obeyed(point)
    _binned(point)
    _parts(point, store)
    workloads.of(point).possible(point)
    if point.axes.get("arrivals", "even") != "even" and not point.axes["arrival_rate"]:
        raise UserError(
            place(point, "arrivals"),
            f"{point.axes['arrivals']} arrivals need a rate: in a closed loop a worker begins when it is free",
            "sweep `arrival_rate` too",
        )
    if point.axes.get("transport") == "http" and store.protocol not in ("s3", "http"):
        raise UserError(
            place(point, "transport"),
            f"http asks for S3 or HTTP, store {store.name} (kind {store.settings.kind}) speaks {store.protocol}",
            "sweep transport `default`, or leave the store out",
        )


def _speaks(point: Point, store: Store) -> None:
    """Raises UserError where the point's engine does not speak the store's protocol."""
    engine, workload = point.axes["engine"], point.workload
    if store.protocol in (spoken := protocols(engine, workload)):
        return
    others = [e.name for e in of(workload) if store.protocol in protocols(e.name, workload)]
    raise UserError(
        place(point, "engine"),
        f"{engine} speaks {' and '.join(spoken)}, store {store.name} (kind {store.settings.kind}) speaks "
        f"{store.protocol}",
        f"sweep engine `{others[0]}`, or leave the store out" if others else "leave the store out",
    )


def _obeyed(point: Point) -> None:
    """Axes off their default that the point's engine does not obey."""
    engine = point.axes["engine"]
    for axis in workloads.of(point).axes:
        able = obeyed(point.workload).get(axis.name)
        if able is not None and engine not in able and point.axes[axis.name] != axis.default:
            raise UserError(
                place(point, axis.name), f"engine {engine} has no {axis.name}", f"sweep engine {' or '.join(able)}"
            )


def accounts(point: Point) -> None:
    """Raises UserError where an account has no bucket, or no client that can sign for it."""
    asked, buckets, clients = (point.axes.get(axis, 1) for axis in ("accounts", "buckets", "clients"))
    role = f", role {point.sweep.rpartition('.')[2]} too" if ".roles." in point.sweep else ""
    if asked > buckets:
        problem = f"{asked} accounts need as many buckets{role}"
        raise UserError(place(point, "accounts"), problem, f"raise `buckets` to {asked}, or lower `accounts`")
    if asked <= clients:
        return
    engine = CATALOGUE[point.axes["engine"]]
    kept = point.workload == "rewrite" or point.axes.get("ledger") == "kept"
    if engine.many_accounts and not kept:
        return
    why = "a ledger is of one account" if kept else f"engine {engine.name} signs for one account a client"
    able = [e.name for e in of(point.workload) if e.many_accounts and not kept]
    mend = f"raise `clients` to {asked}, or lower `accounts`" + (f", or sweep engine {able[0]}" if able else "")
    raise UserError(place(point, "accounts"), f"{asked} accounts need as many clients{role}: {why}", mend)


def _binned(point: Point) -> None:
    """Raises UserError where the sweep wants bins, and the point's engine makes none."""
    if "bin_ns" in point.fixed and (engine := point.axes["engine"]) not in BINNING:
        sweep = point.sweep.partition(".roles.")[0]
        mend = f"sweep engine {' or '.join(BINNING)}, or leave `bins` out"
        raise UserError(f"sweeps.{sweep}.bins", f"engine {engine} keeps each operation by itself", mend)


def _parts(point: Point, store: Store) -> None:
    part, size, engine = point.axes.get("part_size", 0), point.axes.get("object_size", 0), point.axes["engine"]
    if not part:
        return
    if engine in CATALOGUE and part % (unit := CATALOGUE[engine].part_unit):
        raise UserError(
            place(point, "part_size"),
            f"{units.format_size(part)} is no multiple of {units.format_size(unit)}, as {engine} wants",
            f"write it like {units.format_size(16 * unit)}",
        )
    if point.workload == "put" and part < size and not store.multipart():
        raise UserError(
            place(point, "part_size"),
            f"store {store.name} takes no multipart uploads",
            "leave it out: each object goes in a single PUT",
        )


def files(points: list[Point]) -> None:
    """The user's own ROOT files that the plan reads. Raises UserError."""
    every = [part.point for p in points for part in p.parts()]
    for dataset in {p.dataset["name"]: p.dataset for p in every if p.dataset and "file" in p.dataset}.values():
        if own_file.check(dataset) == "RNTuple":
            for point in every:
                if point.dataset and point.dataset["name"] == dataset["name"] and point.axes.get("engine") == "root":
                    raise UserError(
                        f"sweeps.{point.sweep}.axes.engine",
                        f"root reads TTrees, and {dataset['scale']} is an RNTuple",
                        "sweep planned or uproot-s3fs",
                    )
