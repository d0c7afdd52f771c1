"""One S3 front-end as one thread sees it: plain signed requests, no SDK, no retry."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from xml.etree import ElementTree

from storelab.core import clock
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.consistency.seen import ABSENT, FAILED, OK, Seen, View, listed
from storelab.workloads.probe import signing
from storelab.workloads.probe.plain_http import Connection, error_code

TIMEOUT_S = 15.0
MOST_PAGES = 1000
_MESSAGE = re.compile(rb"<Message>([^<]{1,300})</Message>")


class BrokenListing(Exception):
    """An answer that is no listing, or whose pages do not end."""


class S3View(View):
    """environ: holds the keys. One connection per host (with virtual addressing every bucket has its own)."""

    def __init__(self, endpoint: Endpoint, bucket: Bucket, environ: Mapping[str, str]):
        self.endpoint, self.bucket, self.prefix = endpoint, bucket.name, bucket.prefix
        self.keys = Credentials.found(environ)
        self.context = filesystems.tls_context(endpoint) if endpoint.url.startswith("https") else None
        self.wires: dict[str, Connection] = {}
        self.kept = {signing.place(endpoint, name)[0] for name in ("", self.bucket)}

    def _wire(self, url: str) -> Connection:
        if url not in self.wires:
            for old in self.wires.keys() - self.kept:
                self.wires.pop(old).close()  # of a bucket that is no more
            self.wires[url] = Connection(url, self.context, TIMEOUT_S)
        return self.wires[url]

    def _ask(
        self, method: str, bucket: str, key: str = "", query: Mapping[str, str] | None = None, data: bytes = b""
    ) -> Seen:
        """One request; 404 is `absent`, every other answer that is no success is `failed`."""
        url, path = signing.place(self.endpoint, bucket, key)
        wire, digest = self._wire(url), hashlib.sha256(data).hexdigest()
        headers = signing.sign(method, wire.host, path, query or {}, {}, digest, self.keys, self.endpoint.region)
        target = f"{path}?{signing.query_of(query)}" if query else path
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
        message = _MESSAGE.search(reply.body)
        return replace(
            seen,
            state=ABSENT if reply.status == 404 else FAILED,
            error=error_code(reply.body) or f"HTTP {reply.status}",
            message=message.group(1).decode("utf-8", "replace") if message else "",
        )

    def _pages(
        self, bucket: str, query: dict[str, str], root: str, entry: str, name: str, more: str, cut: int = 0
    ) -> Seen:
        """A listing to its end, as one answer. more: element that bears the token of the next page; cut: as of
        `listing()`."""
        entries: list[tuple[str, int]] = []
        begun, tokens = 0, {""}
        for page in range(1, MOST_PAGES + 1):
            seen = self._ask("GET", bucket, query=query)
            begun = seen.start_ns if page == 1 else begun
            seen = replace(seen, start_ns=begun, requests=page)
            if seen.state != OK:
                return seen
            try:
                tree = ElementTree.fromstring(seen.data or b"")
                if tree.tag.rpartition("}")[2] != root:
                    raise BrokenListing(f"answered {tree.tag}")
                for element in tree.iterfind(f".//{{*}}{entry}"):
                    size = element.findtext("{*}Size") or 0  # a bucket has none
                    entries.append(((element.findtext(f"{{*}}{name}") or "")[cut:], int(size)))
                token, truncated = tree.findtext(f"{{*}}{more}"), tree.findtext("{*}IsTruncated")
                if truncated == "true" and not token:
                    raise BrokenListing("is truncated and says no token")
                if not token or truncated == "false":
                    return replace(seen, data=None, **listed(entries))
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
        return self._ask("PUT", self.bucket, self.prefix + key, data=body).done()

    def get(self, key: str) -> Seen:
        return self._ask("GET", self.bucket, self.prefix + key)

    def delete(self, key: str) -> Seen:
        return self._ask("DELETE", self.bucket, self.prefix + key).gone()

    def listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        query = {"list-type": "2", "prefix": prefix}
        return self._pages(bucket, query, "ListBucketResult", "Contents", "Key", "NextContinuationToken", cut)

    def make_bucket(self, bucket: str) -> Seen:
        return self._ask("PUT", bucket, data=signing.location(self.endpoint) or b"").done()

    def drop_bucket(self, bucket: str) -> Seen:
        return self._ask("DELETE", bucket).gone()

    def head_bucket(self, bucket: str) -> Seen:
        seen = self._ask("HEAD", bucket)
        return replace(seen, state=OK) if seen.status in (301, 307, 403) else seen

    def bucket_names(self) -> Seen:
        return self._pages("", {}, "ListAllMyBucketsResult", "Bucket", "Name", "ContinuationToken").done()

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()
