"""`read_entries`: random entries of chosen branches of a ROOT file, again and again until the deadline.

Experiment 12: "all branches; random entries until 100, 0.1, 0.001 % of the entries" (J. Phys. Conf. Ser. 664 022001).
"""

from storelab.core import axes
from storelab.workloads import reading

READ_ENTRIES = reading.Reading(
    "read_entries",
    (
        axes.engine("read_entries", "uproot-s3fs", reading.READER),
        axes.SCALE,
        axes.ENTRIES,
        axes.VOLUME,
        axes.CLIENTS,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *reading.LATER,
        *reading.OF_READERS,
        axes.CLIENTS_PER_NODE,
    ),
    "Random entries of a ROOT file: opened, planned, transferred, decompressed, deserialised.",
    dataset="root",
)
