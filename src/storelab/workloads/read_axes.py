"""Axes of the workloads that read ROOT files: which file, which selection of it, how ranges become requests."""

from storelab.model import Axis

SCALE = Axis("scale", "text", "S", "File", "Scale of the generated ROOT file (S, M, L), or the name of one of your `files`.")
CODEC = Axis("codec", "text", "zstd", "Codec", "Compression of the generated ROOT file, level 1.", choices=("zstd", "lz4", "zlib"))
ENTRIES = Axis("entry_fraction", "percent", 100.0, "Entries read", "Random entries read of all, at least one.")
VOLUME = Axis(
    "volume_fraction", "percent", 100.0, "Volume of branches", "Branches, smallest first, until this part of the compressed volume."
)
GAP = Axis("max_range_gap", "size", 32768, "Largest gap merged", "Ranges closer than this become one request.", minimum=0)
BUCKETS = Axis("buckets", "int", 1, "Buckets", "Buckets with a copy of the file each; client i reads copy i mod n. 1: shared by all.")
THRIFT = Axis(
    "thrift",
    "int",
    0,
    "Thrift",
    "Planned requests: how much it counts what they take of link and server, beside the reader's own time; 0: not.",
    minimum=0,
)
AMPLIFICATION = Axis(
    "max_amplification", "int", 0, "Largest amplification", "Planned requests: bound on wire over needed bytes; 0: none.", minimum=0
)
READER = Axis(
    "engine",
    "text",
    "uproot-s3fs",
    "Engine",
    "Reader and protocol: `uproot-s3fs` merges over a fixed gap; `planned`: storelab's read planner and decoder; `root`: ROOT itself.",
    choices=("uproot-s3fs", "planned", "root"),
)
TRANSPORT = Axis(
    "transport",
    "text",
    "default",
    "Transport",
    "Planned requests: `default`, or `http`: presigned GETs (S3) or plain ones, with several ranges each where the store truly answers them.",
    choices=("default", "http"),
)
LATER = (CODEC, BUCKETS, THRIFT, AMPLIFICATION, TRANSPORT)  # at the end, so that paths of older points stay what they are
