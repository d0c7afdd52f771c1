"""`read_volume`: all entries of chosen branches of a ROOT file, again and again until the deadline.

Experiment 11: "all entries; branches taken smallest to biggest until 100, 50, 1 % of the file's volume is reached" (J. Phys. Conf. Ser. 664
022001). `read_entries` with all entries reads the same; this is the paper's own name and figure for it.
"""

from storelab.core import axes
from storelab.core.model import Workload
from storelab.workloads import read_axes
from storelab.workloads.read_axes import before
from storelab.workloads.read_entries import client

__all__ = ["SPEC", "before", "client"]
SPEC = Workload(
    "read_volume",
    (
        read_axes.READER,
        read_axes.SCALE,
        read_axes.VOLUME,
        axes.CLIENTS,
        read_axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *read_axes.LATER,
        *read_axes.OF_READERS,
        axes.CLIENTS_PER_NODE,
    ),
    "All entries of the smallest branches of a ROOT file: opened, planned, transferred, decompressed, deserialised.",
    dataset="root",
    only_s3=("uproot-s3fs",),
)
