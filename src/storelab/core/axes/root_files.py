"""Axes of reads of ROOT files: file, selection, requests for its ranges, and navigation of a job.

May import: `core.model`.
"""

from storelab.core.model import Axis

SCALE = Axis(
    "scale",
    "text",
    "S",
    "File",
    "Size of the generated ROOT file (S, M, L), or the name of one of your `files`.",
    heading="File",
    words="file {}",
    always_shown=True,
)
ENTRIES = Axis(
    "entry_fraction",
    "percent",
    100.0,
    "Entries read",
    "Percentage of entries that is read, chosen at random; at least one entry.",
    heading="Entries [%]",
    words="{} % of entries",
    always_shown=True,
)
VOLUME = Axis(
    "volume_fraction",
    "percent",
    100.0,
    "Volume of branches",
    "Percentage of the compressed volume that is read: branches, smallest first, up to this volume.",
    heading="Volume [%]",
    words="{} % of volume",
    always_shown=True,
)
# How ranges of a ROOT file become requests.
MERGE = Axis(
    "merge",
    "text",
    "planned",
    "Merge",
    "How ranges become requests: `planned` by the read planner, or merged over a fixed `gap`.",
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
    "Ranges closer than this are merged to one request.",
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
    "Planned requests: weight of their load on link and server relative to the reader's own time; 0: no weight.",
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
# How a job moves through its file.
NAVIGATION = Axis(
    "navigation",
    "text",
    "scan",
    "Navigation",
    "Start of the next step: `scan`, after the last one; `random`, anywhere in the file.",
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
    "The file object's cache, by its name in fsspec: `readahead` and `bytes` read ahead of the requested bytes, "
    "`blockcache` keeps 32 blocks, `all` the whole file.",
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
    "Consecutive events of one step; with random navigation, the events at each position.",
    words="steps of {}",
    noun="event",
    always_shown=True,
)
FILES = Axis(
    "files",
    "int",
    1,
    "Files",
    "Copies of the file in one bucket. Job i reads only copy i, so there must be at least as many as clients.",
    words="{}",
    noun="file",
)
