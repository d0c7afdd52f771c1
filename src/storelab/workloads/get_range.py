"""`get_range`: clients download ranges of staged objects until the deadline (experiment 1: "download of a range")."""

from storelab.model import Axis, Workload
from storelab.workloads import axes
from storelab.workloads.base import Client, Job

SPEC = Workload(
    "get_range",
    (
        Axis("engine", "text", "fsspec", "Engine", "What moves the bytes.", choices=("fsspec",)),
        Axis("object_size", "size", 10_000_000, "Object size", "Size of every object."),
        Axis("range_size", "size", 4000, "Range size", "Bytes of one range, at a random place; one request, one range."),
        axes.CLIENTS,
        axes.WORKERS,
        axes.BUCKETS,
        axes.FRONT_ENDS,
        axes.ACCOUNTS,
        *axes.DEPLOYMENT,
    ),
    "Download of one range at a random place of a staged object. An answer of another length or with other bytes is an error.",
    dataset="payload",
)


def client(job: Job) -> Client:
    from storelab.engines.fsspec_transfers import FsspecGetRange

    return FsspecGetRange(job)
