"""`read_entries`: random entries of chosen branches of a ROOT file, again and again until the deadline.

Experiment 12: "all branches; random entries until 100, 0.1, 0.001 % of the entries" (J. Phys. Conf. Ser. 664 022001).
"""

from storelab.core import axes
from storelab.core.model import Workload
from storelab.engines.contract import Client, Job
from storelab.workloads import read_axes
from storelab.workloads.read_axes import before

__all__ = ["SPEC", "before", "client"]

SPEC = Workload(
    "read_entries",
    (
        read_axes.READER,
        read_axes.SCALE,
        read_axes.ENTRIES,
        read_axes.VOLUME,
        axes.CLIENTS,
        read_axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *read_axes.LATER,
        *read_axes.OF_READERS,
        axes.CLIENTS_PER_NODE,
    ),
    "Random entries of a ROOT file: opened, planned, transferred, decompressed, deserialised.",
    dataset="root",
    only_s3=("uproot-s3fs",),
)


def client(job: Job) -> Client:
    """The reader of one client; uproot is imported only here."""
    if job.point.axes["engine"] == "planned":
        from storelab.engines.planned.client import PlannedClient

        return PlannedClient(job)
    if job.point.axes["engine"] == "root":
        from storelab.engines.root.client import RootClient

        return RootClient(job)
    from storelab.engines.uproot.client import UprootClient

    return UprootClient(job)
