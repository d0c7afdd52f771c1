"""Axes that several workloads share."""

from storelab.model import Axis

CLIENTS = Axis("clients", "int", 1, "Clients", "Processes started together, each a client of its own.")
WORKERS = Axis("workers", "int", 8, "Workers per client", "Parallel operations of one client (s5cmd: numworkers).")
FRONT_ENDS = Axis("front_ends", "int", 1, "Front-ends", "S3 front-ends used; client i talks to front-end i mod n.")
OBJECT_SIZE = Axis("object_size", "size", 4000, "Object size", "Size of every object.")
BUCKETS = Axis("buckets", "int", 1, "Buckets", "Buckets that the objects are spread over, round robin.")
ENGINE_S5CMD = Axis("engine", "text", "s5cmd", "Engine", "Program that moves the bytes.", choices=("s5cmd",))
