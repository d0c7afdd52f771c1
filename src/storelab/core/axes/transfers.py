"""Declare the axes of requests to a store: what they transfer, their number, and their form."""

from storelab.core.model import Axis

# Amount of load, and its distribution.
CLIENTS = Axis(
    "clients",
    "int",
    1,
    "Clients",
    "Number of client processes that start together.",
    heading="Clients",
    words="{}",
    noun="client",
    ceiling=True,
    load=True,
    curve=True,
)
WORKERS = Axis(
    "workers",
    "int",
    8,
    "Workers per client",
    "Number of parallel operations of one client (s5cmd: numworkers).",
    heading="Workers",
    words="{} per client",
    noun="worker",
    ceiling=True,
    load=True,
    curve=True,
)
BUCKETS = Axis(
    "buckets",
    "int",
    1,
    "Buckets",
    "Number of buckets; the objects are distributed over them in turn.",
    heading="Buckets",
    words="{}",
    noun="bucket",
    load=True,
    curve=True,
)
ACCOUNTS = Axis(
    "accounts",
    "int",
    1,
    "Accounts",
    "Number of accounts that own the buckets in turn. Client i uses account i mod n and its buckets; with fewer "
    "clients than accounts, a client uses several in turn (engine `obstore`).",
    heading="Accounts",
    words="{}",
    noun="account",
    load=True,
)
FRONT_ENDS = Axis(
    "front_ends",
    "int",
    1,
    "Front-ends",
    "Number of front-ends that are used; client i uses front-end i mod n.",
    heading="Front-ends",
    words="{}",
    noun="front-end",
    load=True,
    curve=True,
)
# Form of the requests.
PART_SIZE = Axis(
    "part_size",
    "size",
    0,
    "Part size",
    "Larger objects are transferred in parts of this size; 0 B: default of the engine.",
    minimum=0,
    heading="Parts",
    words="parts of {}",
    values={"0": ""},
    ceiling=True,
    load=True,
)
PARALLEL_PARTS = Axis(
    "parallel_parts",
    "int",
    0,
    "Parallel parts",
    "Number of parts of one object that are transferred in parallel; 0: default of the engine.",
    minimum=0,
    heading="Parallel parts",
    words="{} at a time",
    noun="part",
    values={"0": ""},
    ceiling=True,
    load=True,
)
BATCH = Axis(
    "batch",
    "int",
    1,
    "Objects per request",
    "1: DELETE of one object; more: one DeleteObjects request for this number of objects (at most 1000).",
    heading="Objects a request",
    words="{} a request",
    noun="object",
    ceiling=True,
    load=True,
)
OFFSET = Axis(
    "offset",
    "place",
    "random",
    "Offset",
    "Start of the ranges: `random`; `sequential`: one after the other in an object; or a size: this position.",
    choices=("random", "sequential"),
    heading="Offset",
    words="at {}",
    values={"random": "random places", "sequential": "one after the other"},
    load=True,
)
# What is transferred.
RANGE_SIZE = Axis(
    "range_size",
    "size",
    4000,
    "Range size",
    "Size of one range in bytes; each request has one range.",
    heading="Range",
    words="ranges of {}",
    ceiling=True,
    always_shown=True,
)
OBJECT_SIZE = Axis(
    "object_size",
    "size",
    4000,
    "Object size",
    "Size of every object.",
    heading="Objects",
    words="{} objects",
    ceiling=True,
    always_shown=True,
)
WORKING_SET = Axis(
    "working_set",
    "size",
    0,
    "Working set",
    "Total bytes to stage; replaces `objects`. If it exceeds the memory of the servers, they read from their "
    "disks. 0 B: use `objects` of the sweep.",
    minimum=0,
    heading="Working set",
    words="working set of {}",
    values={"0": ""},
)
# Axes of rewrites.
KEYS_PER_WORKER = Axis(
    "keys_per_worker",
    "int",
    256,
    "Keys per worker",
    "Number of keys that only this worker writes, overwrites and deletes, one at a time.",
    heading="Keys per worker",
    words="{} per worker",
    noun="key",
    load=True,
)
DELETIONS = Axis(
    "deletions",
    "percent",
    25.0,
    "Deletions",
    "Percentage of deletions among the operations on existing objects; the others overwrite. A key "
    "without an object is "
    "written.",
    heading="Deletions [%]",
    words="{} % deletions",
)
# Axes of listings.
KEYS = Axis(
    "keys",
    "int",
    1000,
    "Keys",
    "Number of keys in the folder that is listed, staged in each bucket; at most a million.",
    heading="Keys",
    words="{}",
    noun="key",
    ceiling=True,
    always_shown=True,
)
PAGE_SIZE = Axis(
    "page_size",
    "int",
    1000,
    "Page size",
    "Keys requested per page (`max-keys`), at most 1000.",
    heading="Page",
    words="pages of {}",
    ceiling=True,
    load=True,
)
PREFIX_DEPTH = Axis(
    "prefix_depth",
    "int",
    0,
    "Prefix depth",
    "Number of levels of folders between the listed folder and its keys, with ten folders in each; 0: none.",
    minimum=0,
    heading="Depth",
    words="{} deep",
    noun="folder",
    values={"0": ""},
    ceiling=True,
)
PLACES = (CLIENTS, WORKERS, BUCKETS, FRONT_ENDS, ACCOUNTS)
