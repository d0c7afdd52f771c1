"""`get_range`: clients download ranges of staged objects until the deadline (experiment 1: "download of a range")."""

from dataclasses import replace

from storelab.core import axes, units
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.engines.common.objects import fixed_offset
from storelab.workloads.base import ACCESS, Workload, each_once


class GetRange(Workload):
    def possible(self, point: Point) -> None:
        """Raises UserError where a range does not lie in its object."""
        place, values = f"sweeps.{point.sweep}.axes", point.axes
        length, size, offset = (values[name] for name in ("range_size", "object_size", "offset"))
        if length > size:
            problem = f"{units.format_size(length)} is more than the object"
            raise UserError(f"{place}.range_size", problem, "make it smaller than `object_size`")
        if length and fixed_offset(offset) + length > size:
            problem = f"a range of {units.format_size(length)} at {offset} ends behind the object"
            raise UserError(f"{place}.offset", problem, "begin earlier")
        each_once(point)


GET_RANGE = GetRange(
    "get_range",
    (
        axes.engine("get_range", "fsspec", "What moves the bytes."),
        replace(axes.OBJECT_SIZE, default=10_000_000),
        axes.RANGE_SIZE,
        axes.OFFSET,
        *axes.PLACES,
        axes.ARRIVAL_RATE,
        axes.BALANCE,
        *axes.DEPLOYMENT,
        axes.CLIENTS_PER_NODE,
        ACCESS,
        axes.WORKING_SET,
    ),
    "Download of one range of a staged object. An answer of another length or with other bytes is an error.",
    dataset="payload",
)
