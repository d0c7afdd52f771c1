"""Transports of the read planner for a store's endpoint, counted (level 2, measuring side).

S3 by obstore (`obstore`) or s3fs (`fsspec`); every other protocol by fsspec. Retries are off; a request ends by a time-out of its own.
"""

import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab.engines.wire import Counts, ProcessWire
from storelab.model import UserError
from storelab.readplan.transports import FsspecTransport, ObstoreTransport
from storelab.stores import filesystems
from storelab.stores.base import Bucket, Endpoint

PORTS = {"http": 80, "https": 443, "root": 1094, "roots": 1094}
LIBRARIES = {"s3": "s3fs", "http": "aiohttp", "root": "fsspec-xrootd"}  # behind fsspec


class Counted:
    """A transport that counts requests, bytes asked for and bytes of bodies; wire bytes of all connections to the endpoint's port."""

    def __init__(self, inner: Any, endpoint: Endpoint):
        parts = urlsplit(endpoint.url)
        port = parts.port or PORTS.get(parts.scheme)
        self.inner, self.parallel = inner, inner.parallel
        self.wire = ProcessWire(port) if port else None
        self.asked = self.body = 0

    @property
    def requests(self) -> int:
        return self.inner.requests

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        self.asked += sum(stops) - sum(starts)
        parts = self.inner.fetch(starts, stops)
        self.body += sum(memoryview(p).nbytes for p in parts)
        return parts

    def now(self) -> Counts:
        wire = self.wire.bytes if self.wire else None
        if self.wire and self.wire.lost:
            wire = None  # what a connection brought between the last look and its end is not known
        return Counts(self.inner.requests, self.asked, self.body, wire)


def s3_store(endpoint: Endpoint, bucket: str, timeout_s: float) -> Any:
    """An obstore store of one bucket. Raises UserError where the environment holds no credentials."""
    from obstore.store import S3Store

    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        raise UserError("AWS_ACCESS_KEY_ID", "the client has no credentials in its environment", "set it and AWS_SECRET_ACCESS_KEY")
    options: dict[str, Any] = {
        "allow_http": True,
        "http1_only": True,
        "allow_invalid_certificates": not endpoint.verify,
        "connect_timeout": "10s",
        "timeout": f"{max(1, round(timeout_s))}s",
        "randomize_addresses": False,
    }
    if endpoint.ca_file:
        options["root_certificate"] = Path(endpoint.ca_file).read_bytes()
    virtual = endpoint.addressing == "virtual"
    return S3Store(
        bucket,
        endpoint=endpoint.url.replace("://", f"://{bucket}.", 1) if virtual else endpoint.url,
        virtual_hosted_style_request=virtual,
        region=endpoint.region,
        access_key_id=key,
        secret_access_key=secret,
        **({"session_token": token} if (token := os.environ.get("AWS_SESSION_TOKEN")) else {}),
        client_options=options,
        retry_config={"max_retries": 0},
    )


def make(endpoint: Endpoint, bucket: Bucket, key: str, library: str, parallel: int, timeout_s: float) -> tuple[Counted, dict[str, str]]:
    """A counted transport to an object (key without the bucket's prefix), and the versions of the libraries behind it."""
    if library == "obstore" and endpoint.protocol == "s3":
        store = s3_store(endpoint, bucket.name, timeout_s)
        return Counted(ObstoreTransport(store, f"{bucket.prefix}{key}", parallel), endpoint), _versions("obstore")
    fs = filesystems.data(endpoint, os.environ, parallel)
    return Counted(FsspecTransport(fs, filesystems.path(endpoint, bucket, key), parallel), endpoint), versions(endpoint)


def versions(endpoint: Endpoint) -> dict[str, str]:
    """fsspec's, and that of the library behind it for this protocol."""
    name = LIBRARIES.get(endpoint.protocol)
    return _versions("fsspec", *([name] if name else []))


def _versions(*names: str) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in names}
