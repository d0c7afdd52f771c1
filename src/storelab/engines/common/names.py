"""Names of the objects that points upload, whatever the engine."""

import re

PUT_PREFIX = "put/"  # below the bucket's own prefix: all that points upload


def put_prefix(attempt: str) -> str:
    """Prefix, below the bucket's own, of all keys that an attempt uploads."""
    return f"{PUT_PREFIX}{attempt}/"


def put_key(attempt: str, client: int, n: int) -> str:
    """Key, below the bucket's own prefix, of a client's `n`-th upload; its content is body n mod `payload.BODIES`."""
    return f"{put_prefix(attempt)}{client}/{n:08d}"


def put_keys(attempt: str) -> str:
    """Pattern of all that `put_key` gives for an attempt."""
    return rf"{re.escape(put_prefix(attempt))}(?P<client>0|[1-9]\d*)/(?:\d{{8}}|[1-9]\d{{8,}})"
