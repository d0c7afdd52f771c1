"""`read_volume`: all entries of chosen branches of a ROOT file, again and again until the deadline.

Experiment 11: "all entries; branches taken smallest to biggest until 100, 50, 1 % of the file's volume is reached" (J.
Phys. Conf. Ser. 664 022001). `read_entries` with all entries reads the same; this is the paper's own name and figure
for it.
"""

from storelab.core import axes
from storelab.workloads import reading

READ_VOLUME = reading.Reading(
    "read_volume",
    (
        axes.engine("read_volume", "uproot-s3fs", reading.READER),
        axes.SCALE,
        axes.VOLUME,
        axes.CLIENTS,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *reading.LATER,
        *reading.OF_READERS,
        axes.CLIENTS_PER_NODE,
    ),
    "All entries of the smallest branches of a ROOT file: opened, planned, transferred, decompressed, deserialised.",
    dataset="root",
)
