"""One S3 front-end as one thread sees it: plain signed requests, no SDK, no retry."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit
from xml.etree import ElementTree

from storelab.core import clock
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.consistency.seen import ABSENT, FAILED, OK, Seen, View
from storelab.workloads.probe.plain_http import Connection
from storelab.workloads.probe.signing import path_of, query_of, sign

TIMEOUT_S = 15.0
MOST_PAGES = 1000
_CODE = re.compile(rb"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(rb"<Message>([^<]{1,300})</Message>")
_AMAZON = re.compile(r"(^|\.)amazonaws\.com(\.cn)?\Z")


class BrokenListing(Exception):
    """An answer that is no listing, or whose pages do not end."""


def keys_of(environ: Mapping[str, str]) -> Credentials:
    return Credentials(environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"], environ.get("AWS_SESSION_TOKEN"))


class S3View(View):
    """environ: holds the keys. One connection per host (with virtual addressing every bucket has its own)."""

    def __init__(self, endpoint: Endpoint, bucket: Bucket, environ: Mapping[str, str], timeout_s: float = TIMEOUT_S):
        self.endpoint, self.bucket, self.prefix = endpoint, bucket.name, bucket.prefix
        self.keys, self.timeout_s = keys_of(environ), timeout_s
        self.context = filesystems.tls_context(endpoint) if endpoint.url.startswith("https") else None
        self.wires: dict[str, Connection] = {}

    def _wire(self, bucket: str) -> Connection:
        virtual = bucket if self.endpoint.addressing == "virtual" else ""
        if virtual not in self.wires:
            url = self.endpoint.url
            if virtual:
                parts = urlsplit(url)
                url = f"{parts.scheme}://{virtual}.{parts.netloc}"
                for old in [name for name in self.wires if name not in ("", self.bucket)]:
                    self.wires.pop(old).close()  # of a bucket that is no more
            self.wires[virtual] = Connection(url, self.context, self.timeout_s)
        return self.wires[virtual]

    def _ask(
        self, method: str, bucket: str, key: str = "", query: Mapping[str, str] | None = None, data: bytes = b""
    ) -> Seen:
        """One request; 404 is `absent`, whatever else is no success is `failed`."""
        query, wire = query or {}, self._wire(bucket)
        place = path_of(key) if self.endpoint.addressing == "virtual" else path_of(f"{bucket}/{key}" if key else bucket)
        path = f"/{place}"
        headers = sign(
            method, wire.host, path, query, {}, hashlib.sha256(data).hexdigest(), self.keys, self.endpoint.region
        )
        target = f"{path}?{query_of(query)}" if query else path
        begun = clock.now_ns()
        try:
            reply = wire.send(method, target, headers, data or None)
        except Exception as error:  # noqa: BLE001 - whatever the connection throws, the operation failed
            return Seen(
                begun,
                clock.now_ns(),
                FAILED,
                0,
                type(error).__name__,
                f"{type(error).__name__}: {error}"[:300],
                requests=1,
            )
        seen = Seen(begun, clock.now_ns(), OK, reply.status, data=reply.body, requests=1)
        if reply.good:
            return seen
        code, message = _CODE.search(reply.body), _MESSAGE.search(reply.body)
        return replace(
            seen,
            state=ABSENT if reply.status == 404 else FAILED,
            error=code.group(1).decode("utf-8", "replace") if code else f"HTTP {reply.status}",
            message=message.group(1).decode("utf-8", "replace") if message else "",
        )

    def _pages(
        self, bucket: str, query: dict[str, str], root: str, entry: str, name: str, size: str | None, more: str
    ) -> Seen:
        """A listing to its end, as one answer. more: element that bears the token of the next page."""
        names: dict[str, int] = {}
        repeated: list[str] = []
        tokens: set[str] = set()
        begun = None
        for page in range(1, MOST_PAGES + 1):
            seen = self._ask("GET", bucket, query=query)
            begun = seen.start_ns if begun is None else begun
            seen = replace(seen, start_ns=begun, requests=page)
            if seen.state != OK:
                return seen
            try:
                tree = ElementTree.fromstring(seen.data or b"")
                if tree.tag.rpartition("}")[2] != root:
                    raise BrokenListing(f"answered {tree.tag}")
                for element in tree.iter():
                    if element.tag.rpartition("}")[2] == entry:
                        found = element.findtext(f"{{*}}{name}") or ""
                        if found in names:
                            repeated.append(found)
                        names[found] = int(element.findtext(f"{{*}}{size}") or 0) if size else 0
                token = tree.findtext(f"{{*}}{more}")
                truncated = tree.findtext("{*}IsTruncated")
                if truncated == "true" and not token:
                    raise BrokenListing("is truncated and says no token")
                if not token or truncated == "false":
                    return replace(seen, data=None, names=names, repeated=tuple(repeated))
                if token in tokens:
                    raise BrokenListing("gives the same token again")
            except (ElementTree.ParseError, BrokenListing, ValueError) as error:
                return replace(seen, state=FAILED, error=type(error).__name__, message=str(error)[:300], data=None)
            tokens.add(token)
            query = {**query, "continuation-token": token}
        return replace(
            seen, state=FAILED, error="BrokenListing", message=f"has more than {MOST_PAGES} pages", data=None
        )

    def put(self, key: str, body: bytes) -> Seen:
        return _done(self._ask("PUT", self.bucket, self.prefix + key, data=body))

    def get(self, key: str) -> Seen:
        return self._ask("GET", self.bucket, self.prefix + key)

    def delete(self, key: str) -> Seen:
        return _gone(self._ask("DELETE", self.bucket, self.prefix + key))

    def list(self, prefix: str) -> Seen:
        seen = self._listing(self.bucket, self.prefix + prefix)
        n = len(self.prefix)
        return replace(
            seen,
            names={key[n:]: size for key, size in seen.names.items()},
            repeated=tuple(k[n:] for k in seen.repeated),
        )

    def _listing(self, bucket: str, prefix: str) -> Seen:
        query = {"list-type": "2", "prefix": prefix}
        return self._pages(bucket, query, "ListBucketResult", "Contents", "Key", "Size", "NextContinuationToken")

    def make_bucket(self, bucket: str) -> Seen:
        """Amazon wants the region again where it is not its first one."""
        region, host = self.endpoint.region, urlsplit(self.endpoint.url).hostname or ""
        where = (
            f"<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
        )
        return _done(
            self._ask("PUT", bucket, data=where.encode() if region != "us-east-1" and _AMAZON.search(host) else b"")
        )

    def drop_bucket(self, bucket: str) -> Seen:
        return _gone(self._ask("DELETE", bucket))

    def head_bucket(self, bucket: str) -> Seen:
        seen = self._ask("HEAD", bucket)
        return replace(seen, state=OK) if seen.status in (301, 307, 403) else seen

    def list_bucket(self, bucket: str) -> Seen:
        return self._listing(bucket, "")

    def bucket_names(self) -> Seen:
        return _done(self._pages("", {}, "ListAllMyBucketsResult", "Bucket", "Name", None, "ContinuationToken"))

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


def _done(seen: Seen) -> Seen:
    """A write that was told `404` was not done; a list of all buckets cannot be absent."""
    return replace(seen, state=FAILED) if seen.state == ABSENT else seen


def _gone(seen: Seen) -> Seen:
    return replace(seen, state=OK) if seen.state == ABSENT else seen
