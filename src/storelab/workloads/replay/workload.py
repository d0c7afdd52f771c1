"""`replay`: the ranges of a selection of a ROOT file, without ROOT: what the store can do (storage mode of experiments 11 and 12)."""

from storelab.core import axes
from storelab.core.model import Axis, Workload
from storelab.engines.contract import Client, Job
from storelab.workloads import read_axes
from storelab.workloads.read_axes import before

__all__ = ["SPEC", "before", "client"]

SPEC = Workload(
    "replay",
    (
        Axis(
            "engine",
            "text",
            "obstore",
            "Engine",
            "What moves the bytes: obstore (S3), or fsspec (all protocols).",
            choices=("obstore", "fsspec"),
        ),
        read_axes.SCALE,
        read_axes.ENTRIES,
        read_axes.VOLUME,
        axes.CLIENTS,
        Axis(
            "merge",
            "text",
            "planned",
            "Merge",
            "How ranges become requests: `planned` by the read planner, or over a fixed `gap`.",
            choices=("planned", "gap"),
        ),
        read_axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *read_axes.LATER,
        axes.CLIENTS_PER_NODE,
    ),
    "The ranges of a selection of a ROOT file, replayed: nothing is decoded.",
    dataset="root",
    only_s3=("obstore",),
)


def client(job: Job) -> Client:
    from storelab.workloads.replay.client import ReplayClient

    return ReplayClient(job)
