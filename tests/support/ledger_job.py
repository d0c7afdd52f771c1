"""Make a job whose client writes a ledger."""

from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint


def job(folder, clients=1, rank=0, size=4000, buckets=2, account=0, endpoint=None):
    point = Point("s", "put", {"object_size": size, "clients": clients}, 1, "k", "s", 5, 0, {"data_seed": 7})
    places = [Bucket(f"b{i}", "p/", i % 2) for i in range(buckets)]
    end, book = endpoint or Endpoint("http://x"), folder / f"ledger.{rank}"
    return Job(point, rank, end, places, folder, None, "a1b2", account=account, ledger=book)
