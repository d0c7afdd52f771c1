"""A job that writes a ledger."""

from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint


def job(folder, clients=1, rank=0, size=4000, buckets=2):
    point = Point("s", "put", {"object_size": size, "clients": clients}, 1, "k", "s", 5, 0, {"data_seed": 7})
    places = [Bucket(f"b{i}", "p/", i % 2) for i in range(buckets)]
    return Job(point, rank, Endpoint("http://x"), places, folder, None, "a1b2", ledger=folder / f"ledger.{rank}")
