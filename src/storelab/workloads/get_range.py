"""`get_range`: clients download ranges of staged objects until the deadline (experiment 1: "download of a range")."""

from storelab.core import axes
from storelab.core.model import Axis, Workload
from storelab.engines.contract import Client, Job

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
        from storelab.engines.obstore.transfers import ObstoreGetRange

        return ObstoreGetRange(job)
    if job.point.axes["engine"] == "loadgen":
        from storelab.engines.loadgen.client import LoadgenGetRange

        return LoadgenGetRange(job)
    from storelab.engines.fsspec.transfers import FsspecGetRange

    return FsspecGetRange(job)
