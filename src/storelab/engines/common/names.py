"""Names of the objects that points upload, whatever the engine."""

PUT_PREFIX = "put/"  # below the bucket's own prefix: all that points upload, and all that clean-up removes


def put_prefix(attempt: str) -> str:
    """Prefix, below the bucket's own, of all keys that an attempt uploads."""
    return f"{PUT_PREFIX}{attempt}/"


def put_key(attempt: str, client: int, n: int) -> str:
    """Key, below the bucket's own prefix, of a client's `n`-th upload; its content is body n mod `payload.BODIES`."""
    return f"{put_prefix(attempt)}{client}/{n:08d}"
