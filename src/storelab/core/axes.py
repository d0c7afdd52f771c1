"""Axes that several workloads share."""

from storelab.core.model import DEFAULT, Axis

CLIENTS = Axis("clients", "int", 1, "Clients", "Processes started together, each a client of its own.")
WORKERS = Axis("workers", "int", 8, "Workers per client", "Parallel operations of one client (s5cmd: numworkers).")
FRONT_ENDS = Axis("front_ends", "int", 1, "Front-ends", "Front-ends used; client i talks to front-end i mod n.")
OBJECT_SIZE = Axis("object_size", "size", 4000, "Object size", "Size of every object.")
BUCKETS = Axis("buckets", "int", 1, "Buckets", "Buckets that the objects are spread over, round robin.")
ENGINE = Axis(
    "engine",
    "text",
    "s5cmd",
    "Engine",
    "What moves the bytes: the program s5cmd, fsspec (all protocols), obstore (S3, times of each operation), or loadgen (the same, at the "
    "least CPU).",
    choices=("s5cmd", "fsspec", "obstore", "loadgen"),
)
PART_SIZE = Axis(
    "part_size", "size", 0, "Part size", "Larger objects move in parts of this size; 0 B: as the engine does by itself.", minimum=0
)
PARALLEL_PARTS = Axis(
    "parallel_parts", "int", 0, "Parallel parts", "Parts of one object that move at a time; 0: as the engine does by itself.", minimum=0
)
ARRIVAL_RATE = Axis(
    "arrival_rate",
    "int",
    0,
    "Arrival rate",
    "Open loop: operations that are due per second, over all clients, evenly spaced; 0: closed loop, each worker begins when it is free.",
    minimum=0,
)
BALANCE = Axis(
    "balance",
    "text",
    "client",
    "Balance",
    "How a client uses the front-ends: `client`: one of them, client i number i mod n; `round_robin` or `least_load`: all, by operation.",
    choices=("client", "round_robin", "least_load"),
)
PAYLOAD = Axis(
    "payload",
    "text",
    "default",
    "Payload",
    "Content of uploads in the signature: `unsigned`; `sha256`: the client hashes each; `default`: as the engine does by itself.",
    choices=("default", "unsigned", "sha256"),
)
ACCOUNTS = Axis("accounts", "int", 1, "Accounts", "Accounts that own the buckets in turn; client i uses account i mod n and its buckets.")
# A deployment of a managed store; the default is the store as it is configured.
REDUNDANCY = Axis("redundancy", "text", DEFAULT["redundancy"], "Redundancy", "Redundancy of the store: none, replica-N, ec-K-M.")
SERVERS = Axis("servers", "int", DEFAULT["servers"], "Data servers", "Volume servers, OSDs, drives, DataNodes.", minimum=0)
BACKING = Axis(
    "backing", "text", DEFAULT["backing"], "Backing", "Where the store keeps its data.", choices=("default", "disk", "tmpfs", "memory")
)
SCHEME = Axis("scheme", "text", DEFAULT["scheme"], "Scheme", "Between client and front-end.", choices=("default", "http", "https"))
CLIENTS_PER_NODE = Axis(
    "clients_per_node", "int", 0, "Clients per node", "How many clients a node takes; 0: all nodes there are, evenly.", minimum=0
)
ONLY_S3 = ("s5cmd", "obstore", "loadgen")  # engines
DEPLOYMENT = (REDUNDANCY, SERVERS, BACKING, SCHEME)
PLACES = (CLIENTS, WORKERS, BUCKETS, FRONT_ENDS, ACCOUNTS)
WHOLE_OBJECTS = (
    ENGINE,
    OBJECT_SIZE,
    *PLACES,
    PART_SIZE,
    PARALLEL_PARTS,
    ARRIVAL_RATE,
    BALANCE,
    *DEPLOYMENT,
    CLIENTS_PER_NODE,
)  # of `put` and `get`
