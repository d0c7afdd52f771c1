"""`read_entries`: random entries of chosen branches of a ROOT file, again and again until the deadline.

Experiment 12: "all branches; random entries until 100, 0.1, 0.001 % of the entries" (J. Phys. Conf. Ser. 664 022001).
"""

from storelab.model import Axis, Workload
from storelab.workloads import axes
from storelab.workloads.base import Client, Job

SPEC = Workload(
    "read_entries",
    (
        Axis("engine", "text", "uproot-s3fs", "Engine", "Reader and protocol.", choices=("uproot-s3fs",)),
        Axis("scale", "text", "S", "File scale", "Scale of the generated ROOT file.", choices=("S",)),
        Axis("entry_fraction", "percent", 100.0, "Entries read", "Random entries read of all, at least one."),
        Axis(
            "volume_fraction", "percent", 100.0, "Volume of branches", "Branches, smallest first, until this part of the compressed volume."
        ),
        axes.CLIENTS,
        Axis("max_range_gap", "size", 32768, "Largest gap merged", "Ranges closer than this become one request.", minimum=0),
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
    ),
    "Random entries of a ROOT file, uproot over fsspec and s3fs.",
    dataset="root",
    only_s3=("uproot-s3fs",),
)


def client(job: Job) -> Client:
    """The reader of one client; uproot is imported only here."""
    from storelab.engines.uproot_s3fs import UprootClient

    return UprootClient(job)
