"""Declare the axes of the clients and of the store's deployment.

Verdicts show the axes that do not have their default value.
"""

from storelab.core.model import Axis

ENGINE = Axis("engine", "text", "", "Engine", "", heading="Engine", words="{}", ceiling=True)
ARRIVAL_RATE = Axis(
    "arrival_rate",
    "int",
    0,
    "Arrival rate",
    (
        "Open loop: number of operations due per second, for all clients together; 0: closed loop, in "
        "which each worker "
        "starts an operation when it is free."
    ),
    minimum=0,
    heading="Due/s",
    words="open loop, {} operations/s due",
    values={"0": "closed loop"},
)
ARRIVALS = Axis(
    "arrivals",
    "text",
    "even",
    "Arrivals",
    "Open loop: operations are due at equal intervals (`even`) or as a Poisson process (`poisson`).",
    choices=("even", "poisson"),
    words="{}",
    values={"even": "", "poisson": "Poisson arrivals"},
)
BALANCE = Axis(
    "balance",
    "text",
    "client",
    "Balance",
    (
        "How a client uses the front-ends: `client`: client i uses only front-end i mod n; `round_robin` or "
        "`least_load`: each client uses all front-ends, and chooses one for each operation."
    ),
    choices=("client", "round_robin", "least_load"),
)
PAYLOAD = Axis(
    "payload",
    "text",
    "default",
    "Payload",
    (
        "How the signature covers the content of uploads: `unsigned`: not at all; `sha256`: by its hash; `default`: "
        "the engine's default."
    ),
    choices=("default", "unsigned", "sha256"),
    ceiling=True,
)
LEDGER = Axis(
    "ledger",
    "text",
    "none",
    "Ledger",
    "`kept`: every write is recorded before it is sent and when it is acknowledged; all writes are checked at the end "
    "(docs/durability.md).",
    choices=("none", "kept"),
)
CODEC = Axis(
    "codec",
    "text",
    "zstd",
    "Codec",
    "Compression of the generated ROOT file, level 1.",
    choices=("zstd", "lz4", "zlib"),
)
TRANSPORT = Axis(
    "transport",
    "text",
    "default",
    "Transport",
    "Planned requests: `default`, or `http`: GET requests (presigned for S3), with several ranges each if the store "
    "supports them.",
    choices=("default", "http"),
)
ACCESS = Axis(
    "access",
    "text",
    "warm",
    "Access",
    "`warm`: the file stays open; `cold`: each read opens it again on new connections, and the page cache "
    "is dropped if "
    "the store uses disks of this host.",
    choices=("warm", "cold"),
)
HEADER = Axis(
    "header",
    "text",
    "read",
    "Header",
    "Engine `planned`: each client reads the file's header (`read`), or uses a copy of the first read (`cached`).",
    choices=("read", "cached"),
)
CONNECTIONS = Axis(
    "connections", "int", 64, "Connections", "Engine `uproot-s3fs`: maximum number of connections of a client."
)
SPLIT = Axis(
    "split",
    "size",
    0,
    "Split",
    "Engine `uproot-s3fs`: longer requests are split into pieces of this size; 0 B: no splitting.",
    minimum=0,
)
MAX_BUCKETS = Axis(
    "max_buckets",
    "int",
    120,
    "Most buckets",
    "Maximum number of buckets that the probe creates to find the limit of an account.",
    minimum=0,
)
CLIENTS_PER_NODE = Axis(
    "clients_per_node",
    "int",
    0,
    "Clients per node",
    "Number of clients on a node; 0: evenly over all nodes.",
    minimum=0,
    ceiling=True,
)
ROUND_TRIP = Axis(
    "round_trip_ms",
    "int",
    0,
    "Round trip",
    "Milliseconds by which a proxy in front of a managed store delays each request, like a distant site; 0: none.",
    minimum=0,
    heading="Round trip",
    words="{} ms away",
    values={"0": ""},
)
# Axes of the deployment of a managed store; the default is the store as configured.
REDUNDANCY = Axis(
    "redundancy",
    "text",
    "default",
    "Redundancy",
    "Redundancy of the store: none, replica-N, ec-K-M.",
    heading="Redundancy",
    words="{}",
    values={"default": "", "none": "no redundancy"},
    setting="redundancy",
)
SERVERS = Axis(
    "servers",
    "int",
    0,
    "Data servers",
    "Number of data servers: volume servers, OSDs, drives or DataNodes.",
    minimum=0,
    heading="Data servers",
    words="{}",
    noun="data server",
    values={"0": ""},
    setting="servers",
)
BACKING = Axis(
    "backing",
    "text",
    "default",
    "Backing",
    "Where the store saves its data.",
    choices=("default", "disk", "tmpfs", "memory"),
    heading="Backing",
    words="on {}",
    values={"default": ""},
    setting="backing",
)
SCHEME = Axis(
    "scheme",
    "text",
    "default",
    "Scheme",
    "Protocol between client and front-end.",
    choices=("default", "http", "https"),
    heading="Scheme",
    words="{}",
    values={"default": ""},
    setting="tls",
    setting_values={"http": False, "https": True},
    ceiling=True,
)
