"""What `storelab clean` may delete: what notes, manifests and records of a campaign tell that storelab wrote.

May import: `workloads`, `stores`, `core`.
"""

import json
from contextlib import suppress

from storelab import workloads
from storelab.core import folders
from storelab.core.config import Config
from storelab.core.model import Point
from storelab.stores.base import Store
from storelab.workloads.staging import buckets, written


def ours(config: Config, store: Store) -> written.Written:
    """The attempts that have a record stand there too, where the notes were removed."""
    out = written.noted(config, store)
    for head in sorted((config.raw / store.name.partition("+")[0]).glob("*/*/run.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):  # a damaged one tells of nothing
            run = json.loads(head.read_bytes())
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
