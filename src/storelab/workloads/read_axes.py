"""Axes of the workloads that read ROOT files: which file, which selection of it, how ranges become requests."""

from typing import TYPE_CHECKING, Any

from storelab.core.model import Axis, Point

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.stores.base import Store

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
ACCESS = Axis(
    "access",
    "text",
    "warm",
    "Access",
    "`warm`: the file stays open; `cold`: each read opens it anew, on fresh connections, and the pages of a store on this machine's disks are dropped.",
    choices=("warm", "cold"),
)
HEADER = Axis(
    "header",
    "text",
    "read",
    "Header",
    "Engine `planned`: the file's header is `read`, or `cached`: kept beside the clients since it was read once.",
    choices=("read", "cached"),
)
CONNECTIONS = Axis("connections", "int", 64, "Connections", "Engine `uproot-s3fs`: largest number of connections of a client.")
SPLIT = Axis("split", "size", 0, "Split", "Engine `uproot-s3fs`: longer requests are split into pieces of this size; 0 B: not.", minimum=0)
LATER = (CODEC, BUCKETS, THRIFT, AMPLIFICATION, TRANSPORT, ACCESS)  # at the end, so that paths of older points stay what they are
OF_READERS = (HEADER, CONNECTIONS, SPLIT)  # behind these


def before(config: "Config", store: "Store", point: Point, job: dict[str, Any]) -> None:
    """Of cold reads: tell clients the folders of this machine in which the store's data lie; they drop what is cached of them."""
    if point.axes["access"] != "cold":
        return
    kept = store.deployment()["backing"]
    if store.protocol == "file":
        folders = sorted({str(store.path / b["name"]) for b in job["buckets"]})  # type: ignore[attr-defined]
    else:
        folders = [str(store.data)] if store.managed else []  # type: ignore[attr-defined]
    job["extra"] = {"pages": [] if kept in ("memory", "tmpfs") else folders}
