"""Declare the axes for reading ROOT files: the file, the selection, its requests, and the navigation of a job."""

from storelab.core.model import Axis

FILE_SIZE = Axis(
    "file_size",
    "text",
    "S",
    "File",
    "Size of the generated ROOT file (S, M, L), or a name in `files`.",
    heading="File",
    words="file {}",
    always_shown=True,
)
ENTRIES = Axis(
    "entry_fraction",
    "percent",
    100.0,
    "Entries read",
    "Percentage of entries that are read, chosen at random; at least one entry.",
    heading="Entries [%]",
    words="{} % of entries",
    always_shown=True,
)
VOLUME = Axis(
    "volume_fraction",
    "percent",
    100.0,
    "Volume of branches",
    "Percentage of the compressed volume that is read. The smallest branches are read, up to this volume.",
    heading="Volume [%]",
    words="{} % of volume",
    always_shown=True,
)
# How the ranges of a ROOT file are combined into requests.
MERGE = Axis(
    "merge",
    "text",
    "planned",
    "Merge",
    "How ranges are combined into requests: `planned` by the read planner, or merged over a fixed `gap`.",
    choices=("planned", "gap"),
    words="fixed {}",
    values={"planned": "planned"},
    load=True,
)
GAP = Axis(
    "max_range_gap",
    "size",
    32768,
    "Largest gap merged",
    "Ranges with a smaller distance are merged into one request.",
    minimum=0,
    heading="Gap",
    words="gap {}",
    load=True,
    always_shown=True,
)
THRIFT = Axis(
    "thrift",
    "int",
    0,
    "Thrift",
    "Planned requests: weight of their load on link and server relative to the reader's time; 0: no weight.",
    minimum=0,
    words="thrift {}",
    values={"0": ""},
    load=True,
)
AMPLIFICATION = Axis(
    "max_amplification",
    "int",
    0,
    "Largest amplification",
    "Planned requests: maximum ratio of transferred to needed bytes; 0: no limit.",
    minimum=0,
    heading="At most",
    words="at most {}×",
    values={"0": ""},
    load=True,
)
# How a job navigates in its file.
NAVIGATION = Axis(
    "navigation",
    "text",
    "scan",
    "Navigation",
    "Start of the next step: `scan`: after the previous step; `random`: anywhere in the file.",
    choices=("scan", "random"),
    words="{}",
    values={"random": "random navigation"},
    always_shown=True,
)
AHEAD = ("readahead", "bytes", "blockcache")  # caches of fsspec that use `read_ahead`
CACHE = Axis(
    "cache",
    "text",
    "none",
    "Cache",
    "Cache of the file object, by its name in fsspec: `readahead` and `bytes` read ahead of the requested bytes, "
    "`blockcache` keeps 32 blocks, and `all` keeps the whole file.",
    choices=("none", *AHEAD, "all"),
    words="cache {}",
    values={"none": "no cache", "all": "whole file kept"},
    always_shown=True,
)
READ_AHEAD = Axis(
    "read_ahead",
    "size",
    0,
    "Read-ahead",
    "Bytes that the cache reads ahead, or size of its blocks; 0 for other caches.",
    minimum=0,
    heading="Read-ahead",
    words="{} read ahead",
    values={"0": ""},
    always_shown=True,
)
STEP = Axis(
    "step",
    "int",
    50,
    "Step",
    "Number of consecutive events of one step; with random navigation, the events at each position.",
    words="steps of {}",
    noun="event",
    always_shown=True,
)
FILES = Axis(
    "files",
    "int",
    1,
    "Files",
    "Number of copies of the file in one bucket; at least the number of clients, because job i reads only copy i.",
    words="{}",
    noun="file",
)
