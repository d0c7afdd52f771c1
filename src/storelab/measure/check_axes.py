"""Values of axes that an engine, a store or each other rule out: parts, ranges, batches, arrivals (level 3, measuring side)."""

import importlib.util
from typing import Any

from storelab.core import units
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets.root.generated import SCALES
from storelab.engines.common.ranges import fixed
from storelab.stores.base import Store
from storelab.workloads import WORKLOADS
from storelab.workloads.events.workload import AHEAD

MIB = 2**20
MOST_BATCH = 1000  # keys of one DeleteObjects request (Amazon S3 API reference)
# Axes, off their default, that only some engines know.
ENGINES = {
    "arrival_rate": ("obstore", "loadgen"),
    "part_size": ("s5cmd", "obstore", "loadgen"),
    "parallel_parts": ("s5cmd", "obstore", "loadgen"),
    "balance": ("loadgen",),
    "payload": ("loadgen",),
    "header": ("planned",),
    "connections": ("uproot-s3fs",),
    "split": ("uproot-s3fs",),
}


def transfer(point: Point, store: Store) -> None:
    """Raises UserError at the first value that cannot be."""
    place, axes = f"sweeps.{point.sweep}.axes", point.axes
    default = {a.name: a.default for a in WORKLOADS[point.workload].axes}
    for axis, engines in ENGINES.items():
        if axis in axes and axes[axis] != default[axis] and axes["engine"] not in engines:
            raise UserError(f"{place}.{axis}", f"engine {axes['engine']} has no {axis}", f"sweep engine {' or '.join(engines)}")
    _parts(place, point, store)
    _range(place, point)
    _reads(place, axes, default)
    _events(place, axes, default)
    if axes.get("engine") == "root":
        _root(place, store)
    if axes.get("transport") == "http" and store.protocol not in ("s3", "http"):
        problem = f"store {store.name} (kind {store.settings.kind}) speaks {store.protocol}"
        raise UserError(f"{place}.transport", f"http asks for S3 or HTTP, {problem}", "sweep transport `default`, or leave the store out")
    if axes.get("batch", 1) > MOST_BATCH:
        raise UserError(f"{place}.batch", f"{axes['batch']} objects are more than one request may delete", f"at most {MOST_BATCH}")


def _parts(place: str, point: Point, store: Store) -> None:
    part, size = point.axes.get("part_size", 0), point.axes.get("object_size", 0)
    if not part:
        return
    if point.axes["engine"] == "s5cmd" and part % MIB:
        raise UserError(
            f"{place}.part_size", f"{units.format_size(part)} is no whole number of MiB, as s5cmd wants", "write it like 16 MiB"
        )
    if point.workload == "put" and part < size and not store.multipart():
        raise UserError(
            f"{place}.part_size", f"store {store.name} takes no multipart uploads", "leave it out: each object goes in a single PUT"
        )


def _range(place: str, point: Point) -> None:
    length, size = point.axes.get("range_size", 0), point.axes.get("object_size", 0)
    if length > size:
        raise UserError(f"{place}.range_size", f"{units.format_size(length)} is more than the object", "make it smaller than `object_size`")
    offset = point.axes.get("offset", "random")
    if length and fixed(offset) + length > size:
        raise UserError(f"{place}.offset", f"a range of {units.format_size(length)} at {offset} ends behind the object", "begin earlier")


def _reads(place: str, axes: dict[str, Any], default: dict[str, Any]) -> None:
    """Planned requests have no fixed gap, a fixed gap neither thrift nor bound, ROOT none of them."""
    if "max_range_gap" not in axes:
        return
    way = "merge" if "merge" in axes else "engine"
    planned = axes[way] == "planned"
    if axes["engine"] == "root" and axes["max_range_gap"] != default["max_range_gap"]:
        raise UserError(f"{place}.max_range_gap", "engine root has no max_range_gap: its TTreeCache merges", "sweep engine uproot-s3fs")
    for axis in ("max_range_gap",) if planned else ("thrift", "max_amplification") + (() if "merge" in axes else ("transport",)):
        if axes[axis] != default[axis]:
            mend = f"sweep {way} {'gap' if way == 'merge' else 'uproot-s3fs'}" if planned else f"sweep {way} planned"
            raise UserError(f"{place}.{axis}", f"{way} {axes[way]} has no {axis}", mend)


def _events(place: str, axes: dict[str, Any], default: dict[str, Any]) -> None:
    """A job has its file for itself; a cache belongs to a file object, a read-ahead to a cache that has one."""
    if "navigation" not in axes:
        return
    if axes["clients"] > axes["files"]:
        problem = f"{axes['clients']} clients read a file of their own each, and there are {axes['files']}"
        raise UserError(f"{place}.files", problem, "raise `files`, or sweep fewer clients")
    known = SCALES.get(axes["scale"])
    if known and axes["step"] > known.entries:
        raise UserError(f"{place}.step", f"file {axes['scale']} holds {known.entries} events", "make the step smaller")
    planned = axes["engine"] == "planned"
    for axis in ("cache", "read_ahead") if planned else ("thrift", "max_amplification"):
        if axes[axis] != default[axis]:
            raise UserError(
                f"{place}.{axis}", f"engine {axes['engine']} has no {axis}", f"sweep engine {'fsspec' if planned else 'planned'}"
            )
    if (axes["cache"] in AHEAD) != (axes["read_ahead"] > 0):
        ahead = axes["cache"] in AHEAD
        problem = f"cache {axes['cache']} reads ahead by 0 B" if ahead else f"cache {axes['cache']} does not read ahead"
        mend = "give a size, like 1 MiB" if ahead else f"leave it out, or sweep cache {' or '.join(AHEAD)}"
        raise UserError(f"{place}.read_ahead", problem, mend)


def _root(place: str, store: Store) -> None:
    """ROOT as a wheel speaks root:// and reads files: no S3, no HTTP."""
    if store.protocol not in ("root", "file"):
        problem = f"store {store.name} (kind {store.settings.kind}) speaks {store.protocol}, ROOT here root:// and files only"
        raise UserError(f"{place}.engine", problem, "sweep engine `planned`, or leave the store out")
    if importlib.util.find_spec("ROOT") is None:
        raise UserError(f"{place}.engine", "ROOT is not installed in this environment", "run `storelab install root`")
