"""Axes of reads of ROOT files: which file, which selection, how its ranges become requests, how a job walks.

May import: `core.model`.
"""

from storelab.core.model import Axis

SCALE = Axis(
    "scale",
    "text",
    "S",
    "File",
    "Scale of the generated ROOT file (S, M, L), or the name of one of your `files`.",
    heading="File",
    words="file {}",
    told=True,
)
ENTRIES = Axis(
    "entry_fraction",
    "percent",
    100.0,
    "Entries read",
    "Random entries read of all, at least one.",
    heading="Entries [%]",
    words="{} % of entries",
    told=True,
)
VOLUME = Axis(
    "volume_fraction",
    "percent",
    100.0,
    "Volume of branches",
    "Branches, smallest first, until this part of the compressed volume.",
    heading="Volume [%]",
    words="{} % of volume",
    told=True,
)
# How ranges of a ROOT file become requests.
MERGE = Axis(
    "merge",
    "text",
    "planned",
    "Merge",
    "How ranges become requests: `planned` by the read planner, or over a fixed `gap`.",
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
    "Ranges closer than this become one request.",
    minimum=0,
    heading="Gap",
    words="gap {}",
    load=True,
    told=True,
)
THRIFT = Axis(
    "thrift",
    "int",
    0,
    "Thrift",
    "Planned requests: how much it counts what they take of link and server, beside the reader's own time; 0: not.",
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
    "Planned requests: bound on wire over needed bytes; 0: none.",
    minimum=0,
    heading="At most",
    words="at most {}×",
    values={"0": ""},
    load=True,
)
# How a job walks through its file.
NAVIGATION = Axis(
    "navigation",
    "text",
    "scan",
    "Navigation",
    "Where the next step begins: `scan`, behind the last; `random`, anywhere in the file.",
    choices=("scan", "random"),
    words="{}",
    values={"random": "random navigation"},
    told=True,
)
AHEAD = ("readahead", "bytes", "blockcache")  # caches of fsspec that read on by `read_ahead`
CACHE = Axis(
    "cache",
    "text",
    "none",
    "Cache",
    "The file object's cache, by its name in fsspec: `readahead` and `bytes` read on from where they are asked, "
    "`blockcache` keeps 32 blocks, `all` the whole file.",
    choices=("none", *AHEAD, "all"),
    words="cache {}",
    values={"none": "no cache", "all": "whole file kept"},
    told=True,
)
READ_AHEAD = Axis(
    "read_ahead",
    "size",
    0,
    "Read-ahead",
    "Bytes that the cache reads on, or its blocks have; 0 where it does neither.",
    minimum=0,
    heading="Read-ahead",
    words="{} read ahead",
    values={"0": ""},
    told=True,
)
STEP = Axis(
    "step",
    "int",
    50,
    "Step",
    "Consecutive events of one step; of a random navigation, the events at each place.",
    words="steps of {}",
    noun="event",
    told=True,
)
FILES = Axis(
    "files",
    "int",
    1,
    "Files",
    "Copies of the file in one bucket; job i has copy i for itself, so at least as many as clients.",
    words="{}",
    noun="file",
)
