"""What `storelab clean` may delete: what notes, manifests and records of a campaign tell that storelab wrote.

May import: `workloads`, `stores`, `core`.
"""

from contextlib import suppress

from storelab import workloads
from storelab.core import evidence, folders
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.stores.base import Store
from storelab.workloads.staging import buckets, written


def ours(config: Config, store: Store) -> written.Written:
    """The attempts that have a record stand there too, where the notes were removed."""
    out = written.noted(config, store)
    for key in evidence.heads(config.raw):
        if not key.startswith(f"{store.name.partition('+')[0]}/"):
            continue
        with suppress(UserError, KeyError, TypeError):  # a damaged one tells of nothing
            run = evidence.read(config.raw, key)
            point = Point(**run["point"])
            for part in point.parts():
                name = part.attempt(run["attempt"])
                if made := workloads.of(part.point).makes(part.point, name):
                    out.attempt(name, len(part.ranks), made)
    return out


def clean(config: Config, store: Store) -> buckets.Removed:
    """Delete what the campaign made in a store; what others put there stays. Raises as `buckets.remove`."""
    folders.own(config)
    return buckets.remove(store, config.name, ours(config, store))
