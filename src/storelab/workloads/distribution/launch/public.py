"""A repository that anybody may read without a signature, as clients of CernVM-FS do it.

A store that knows no keys serves it as it is. In S3, a policy of the bucket opens what lies below the repository, and
nothing else, while a point is measured; storelab puts policies on buckets that it made itself alone. May import:
`probe`, `stores`, `core`.
"""

import hashlib
import json
import time
from http.client import HTTPException
from urllib.parse import quote, urlsplit

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.base import Store
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.probe.plain_http import Connection, Reply, said

SPREADS_S = 5.0  # rights may take so long until all of a store knows them
_OPEN: set[tuple[str, str]] = set()  # URL of a store and bucket: a policy of this process lies on it


def url_of(endpoint: Endpoint, bucket: Bucket, prefix: str) -> str:
    """URL of what lies below `prefix` in a bucket, without a '/' at its end."""
    scheme, host, path, *_ = urlsplit(endpoint.url)
    below = quote(f"{bucket.prefix}{prefix}".strip("/"))
    if endpoint.protocol == "s3" and endpoint.addressing == "virtual":
        return f"{scheme}://{bucket.name}.{host}/{below}"
    return f"{scheme}://{host}{path.rstrip('/')}/{quote(bucket.name)}/{below}"


def connection(url: str, endpoint: Endpoint, timeout: float = 60.0) -> Connection:
    context = filesystems.tls_context(endpoint) if url.startswith("https") else None
    return Connection(url, context, timeout)


def asked(url: str, endpoint: Endpoint) -> str:
    """What an unsigned GET of this URL is answered: '' where it is served."""
    wire = connection(url, endpoint, 10.0)
    try:
        reply = wire.send("GET", urlsplit(url).path)
        return "" if reply.status == 200 else said(reply)
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        wire.close()


class Opened:
    """A repository that is served without signatures until `close`.

    Raises UserError where the store does not serve it. place: of the store in the configuration.
    """

    def __init__(
        self, store: Store, endpoint: Endpoint, bucket: Bucket, prefix: str, trial: str, what: str = "of `launch`"
    ):
        """trial: key below the prefix, of an object that is there; what: which sweeps need it, for people."""
        self.endpoint, self.bucket, self.own = endpoint, bucket, (endpoint.url, bucket.name)
        self.keys = store.credentials(bucket.account)
        self.url, self.policy = url_of(endpoint, bucket, prefix), False
        wanted = f"{self.url}/{quote(trial)}"
        if not (why := asked(wanted, endpoint)):
            return
        if self.keys is not None and endpoint.protocol == "s3":
            refused = self._open(f"{bucket.prefix}{prefix}")
            end = time.monotonic() + SPREADS_S
            while self.policy and (why := asked(wanted, endpoint)) and time.monotonic() < end:
                time.sleep(0.1)
            why = refused or why
        if why:
            self.close()
            raise UserError(
                f"stores.{store.name}",
                f"cannot serve GETs without a signature ({why}), as clients of CernVM-FS ask",
                f"leave the store out of sweeps {what}, or let everybody read its bucket",
            )

    def _open(self, prefix: str) -> str:
        """Let everybody read below the prefix; why not, '' where it was done."""
        if self.bucket.prefix:
            return "the bucket is not storelab's to open"
        if self.own in _OPEN:
            return "another role has opened its bucket, which has one policy"
        assert self.keys is not None
        for owner in (self.keys.access_key, None):  # most take no access key for a name
            reply = self._ask("PUT", policy(self.bucket.name, prefix, owner))
            if reply.good:
                self.policy = True
                _OPEN.add(self.own)
                return ""
        return f"a policy of the bucket: {said(reply)}"

    def _ask(self, method: str, body: bytes | None = None) -> Reply:
        """`?policy` of the bucket, signed. Raises MeasurementFailed where nothing is answered."""
        from storelab.workloads.probe import signing  # slow to import, and clients read this module

        assert self.keys is not None
        url, path = signing.place(self.endpoint, self.bucket.name)
        wire, query, keys = connection(url, self.endpoint), {"policy": ""}, self.keys
        digest = hashlib.sha256(body or b"").hexdigest()
        headers = signing.sign(method, wire.host, path, query, {}, digest, keys, self.endpoint.region)
        try:
            return wire.send(method, f"{path}?{signing.query_of(query)}", headers, body)
        except (OSError, HTTPException) as error:
            raise MeasurementFailed(f"{self.endpoint.url}: {error} to {method} of a bucket's policy") from None
        finally:
            wire.close()

    def close(self) -> None:
        """The policy goes, where this put one."""
        if self.policy:
            self.policy = False
            _OPEN.discard(self.own)
            self._ask("DELETE")


def policy(bucket: str, prefix: str, owner: str | None = None) -> bytes:
    """Everybody may read below the prefix. owner: its access key, for servers (versitygw) whose policy locks out whom
    it does not name."""
    public = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{bucket}/{prefix}*"],
    }
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    own = {"Effect": "Allow", "Principal": {"AWS": [owner]}, "Action": ["s3:*"], "Resource": resources}
    return json.dumps({"Version": "2012-10-17", "Statement": [public, *([own] if owner else [])]}).encode()
