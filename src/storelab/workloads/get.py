"""`get`: clients download staged objects until the deadline (experiments 1-5 of the evaluations 2012-2015)."""

from storelab.workloads.base import Workload, whole_objects

GET = Workload(
    "get",
    whole_objects("get"),
    "Download of staged objects, each client in an order of its own.",
    dataset="payload",
)
