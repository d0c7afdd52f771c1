"""`replay`: the ranges of a selection of a ROOT file, without ROOT: what the store can do (storage mode of experiments
11, 12)."""

from storelab.core import axes
from storelab.workloads import reading

REPLAY = reading.Replay(
    "replay",
    (
        axes.engine("replay", "obstore", "What moves the bytes: obstore (S3), or fsspec (all protocols)."),
        axes.SCALE,
        axes.ENTRIES,
        axes.VOLUME,
        axes.CLIENTS,
        axes.MERGE,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *reading.LATER,
        axes.CLIENTS_PER_NODE,
    ),
    "The ranges of a selection of a ROOT file, replayed: nothing is decoded.",
    dataset="root",
)
