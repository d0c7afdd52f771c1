"""Make boto3 clients with the credentials of a store."""

from typing import Any

from storelab.stores.base import Store
from storelab.stores.protocols import s3_clients
from storelab.stores.protocols.endpoint import Endpoint


def for_store(store: Store, endpoint: Endpoint | None = None, **options: Any) -> Any:
    """Return a client of a front-end (default: the first). It cannot write to a read-only store."""
    keys, read_only = store.credentials(), bool(store.settings.read_only)
    return s3_clients.client(endpoint or store.endpoints(1)[0], keys, read_only=read_only, **options)
