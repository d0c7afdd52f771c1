"""`get_range`: clients download ranges of staged objects until the deadline (experiment 1: "download of a range")."""

from storelab.model import Axis, Workload
from storelab.workloads import axes
from storelab.workloads.base import Client, Job

SPEC = Workload(
    "get_range",
    (
        Axis("engine", "text", "fsspec", "Engine", "What moves the bytes.", choices=("fsspec", "obstore", "loadgen")),
        Axis("object_size", "size", 10_000_000, "Object size", "Size of every object."),
        Axis("range_size", "size", 4000, "Range size", "Bytes of one range; one request, one range."),
        Axis(
            "offset",
            "place",
            "random",
            "Offset",
            "Where the ranges begin: `random`; `sequential`: one after the other through an object; or a size: always there.",
            choices=("random", "sequential"),
        ),
        *axes.PLACES,
        axes.ARRIVAL_RATE,
        axes.BALANCE,
        *axes.DEPLOYMENT,
        axes.CLIENTS_PER_NODE,
    ),
    "Download of one range of a staged object. An answer of another length or with other bytes is an error.",
    dataset="payload",
    only_s3=axes.ONLY_S3,
)


def client(job: Job) -> Client:
    if job.point.axes["engine"] == "obstore":
        from storelab.engines.obstore_transfers import ObstoreGetRange

        return ObstoreGetRange(job)
    if job.point.axes["engine"] == "loadgen":
        from storelab.engines.loadgen import LoadgenGetRange

        return LoadgenGetRange(job)
    from storelab.engines.fsspec_transfers import FsspecGetRange

    return FsspecGetRange(job)
