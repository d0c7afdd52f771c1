"""What `storelab clean` deletes: what the notes of a campaign name as written by this storelab.

May import: `workloads`, `stores`, `core`.
"""

from functools import partial

from storelab.core import folders
from storelab.core.config import Config
from storelab.stores.base import Store
from storelab.workloads.staging import buckets, written


def clean(config: Config, store: Store) -> buckets.Removed:
    """Delete what the campaign made in a store; what others put there stays. Raises as `buckets.remove`."""
    folders.own(config)
    ours, foreign = written.noted(config, store), partial(written.foreign, config, store)
    return buckets.remove(store, config.name, ours, foreign)
