"""`get`: clients download staged objects until the deadline (experiments 1-5 of the evaluations 2012-2015)."""

from storelab.core import axes
from storelab.core.model import Workload
from storelab.engines.contract import Client, Job

SPEC = Workload(
    "get",
    axes.WHOLE_OBJECTS,
    "Download of staged objects, each client in an order of its own.",
    dataset="payload",
    only_s3=axes.ONLY_S3,
)


def client(job: Job) -> Client:
    if job.point.axes["engine"] == "fsspec":
        from storelab.engines.fsspec.transfers import FsspecGet

        return FsspecGet(job)
    if job.point.axes["engine"] == "obstore":
        from storelab.engines.obstore.transfers import ObstoreGet

        return ObstoreGet(job)
    if job.point.axes["engine"] == "loadgen":
        from storelab.engines.loadgen.client import LoadgenGet

        return LoadgenGet(job)
    from storelab.engines.s5cmd.transfers import S5cmdGet

    return S5cmdGet(job)
