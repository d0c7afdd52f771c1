"""`get`: clients download staged objects until the deadline (experiments 1-5 of the evaluations 2012-2015)."""

from storelab.core import axes
from storelab.core.model import Point
from storelab.workloads.base import ACCESS, Workload, each_once, whole_objects


class Get(Workload):
    def possible(self, point: Point) -> None:
        each_once(point)


GET = Get(
    "get",
    (*whole_objects("get"), ACCESS, axes.WORKING_SET),
    "Download of staged objects, each client in an order of its own.",
    dataset="payload",
)
