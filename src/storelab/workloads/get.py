"""`get`: clients download staged objects until the deadline (experiments 1-5 of the evaluations 2012-2015)."""

from storelab.model import Workload
from storelab.workloads import axes
from storelab.workloads.base import Client, Job

SPEC = Workload(
    "get",
    (axes.ENGINE_S5CMD, axes.OBJECT_SIZE, axes.CLIENTS, axes.WORKERS, axes.BUCKETS, axes.FRONT_ENDS),
    "Download of staged objects, each client in an order of its own.",
    dataset="payload",
)


def client(job: Job) -> Client:
    from storelab.engines.s5cmd_transfers import S5cmdGet

    return S5cmdGet(job)
