"""Send requests to an S3 store, signed or not, and read their answers."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cached_property
from xml.etree import ElementTree

from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Credentials
from storelab.workloads.probe import signing
from storelab.workloads.probe.answers import NotTried, Refuted, demand
from storelab.workloads.probe.context import SMALL, ByKey
from storelab.workloads.probe.plain_http import Connection, Reply, md5_header, require_status, status_text

MARKER = ".storelab"  # as in staging/buckets.py: marks a bucket that storelab made
SECOND = "STORELAB_SECOND_"  # prefix of the environment variables with another account's keys
PAGE = 1000  # number of keys in one page of a listing, and in one multi-object delete
MANY = PAGE + 1
WRITERS = 4  # number of connections that write the many objects
XML = {"Content-Type": "application/xml"}


def md5(body: bytes) -> str:
    """Return the MD5 of these bytes, in hexadecimal digits."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def etag(reply: Reply) -> str:
    """Return the ETag of an answer without quotes, or '' if it has none."""
    return reply.headers.get("etag", "").strip('"')


def tree(reply: Reply) -> ElementTree.Element:
    """Return the XML of an answer, without name spaces. Raises ParseError."""
    root = ElementTree.fromstring(reply.body)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


class S3(ByKey):
    """An S3 context. By default, requests use this client's account and bucket. Keys are complete keys."""

    def __init__(self, job: Job):
        super().__init__(job)
        keys = Credentials.found(os.environ)
        if keys is None:
            raise NotTried("there are no keys in the environment")
        self.keys: Credentials = keys
        self.second = Credentials.found(os.environ, SECOND)

    @cached_property
    def other(self) -> Bucket:
        """Return the bucket of the second account. Raises NotTried."""
        found = next((b for b in self.job.buckets if b.account == 1 and self.job.account == 0), None)
        if not (found and self.second):
            raise NotTried(
                "asked by client 0 only" if self.job.client else "the point has only one account; set `accounts: 2`"
            )
        return found

    def secrets(self) -> list[str]:
        known = [k for k in (self.keys, self.second) if k]
        return [part for k in known for part in (k.access_key, k.secret_key, k.session_token) if part]

    # Requests

    def place(self, key: str, bucket: str | None = None) -> tuple[Connection, str]:
        """Return the connection and the path for an object, a bucket ('' as key), or the service ('' as bucket too).

        The default is the bucket of this client.
        """
        url, path = signing.place(self.endpoint, self.bucket.name if bucket is None else bucket, key)
        return self.wire_to(url), path

    def send(
        self,
        method: str,
        key: str = "",
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        bucket: str | None = None,
        keys: Credentials | None = None,
        payload: str | None = None,
        wire: Connection | None = None,
    ) -> Reply:
        """Send one signed request (version 4). `payload`: the claimed SHA-256, if it differs from that of the body."""
        usual, path = self.place(key, bucket)
        digest, keys = payload or hashlib.sha256(body or b"").hexdigest(), keys or self.keys
        signed = signing.sign(method, usual.host, path, query or {}, headers or {}, digest, keys, self.endpoint.region)
        return (wire or usual).send(method, path + (f"?{signing.query_of(query)}" if query else ""), signed, body)

    def anonymous(
        self, method: str, key: str = "", *, bucket: str | None = None, body: bytes | None = None, query: str = ""
    ) -> Reply:
        """Send a request without a signature in the headers. `query` can contain a signature."""
        wire, path = self.place(key, bucket)
        return wire.send(method, path + (f"?{query}" if query else ""), None, body)

    def presigned(self, method: str, key: str, expires: int = 300, when: float | None = None) -> str:
        """Return the query string of a presigned URL."""
        wire, path = self.place(key)
        return signing.presign(method, wire.host, path, self.keys, self.endpoint.region, expires, when)

    def stored(self, name: str, **options: object) -> str:
        """Write a small object, and return its complete key. Raises Refuted."""
        key = self.key(name)
        self.put(key, SMALL, **options)
        return key

    # Many objects, which are made once for the listings and the multi-object deletes.

    @cached_property
    def many(self) -> list[str]:
        """Return the keys of 1001 small objects below `list/`, ten per folder. Raises Refuted."""
        names = [self.key(f"list/{i // 10:03d}/{i:04d}") for i in range(MANY)]
        writers = 1 if self.wire.pace_s else WRITERS
        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(self._write, [names[i::writers] for i in range(writers)]))
        return names

    def _write(self, keys: list[str]) -> None:
        with closing(self.new_wire()) as wire:
            for key in keys:
                self.put(key, b"x", wire=wire)

    def forget_many(self) -> None:
        """Forget the many objects. They are written again when they are needed."""
        self.__dict__.pop("many", None)

    def delete_many(self, names: list[str], bucket: str | None = None, keys: Credentials | None = None) -> Reply:
        """Send one multi-object delete."""
        body = signing.delete_body(names)
        headers = XML | {"Content-MD5": md5_header(body)}
        return self.send("POST", query={"delete": ""}, headers=headers, body=body, bucket=bucket, keys=keys)

    def pages(
        self, prefix: str, *, version: int = 2, bucket: str | None = None, **more: str
    ) -> Iterator[ElementTree.Element]:
        """Yield every page of a listing, at most 200.

        Raises Refuted if a page is rejected, or if no page is the last one.
        """
        query = {"prefix": prefix, **more} | ({"list-type": "2"} if version == 2 else {})
        for _ in range(200):
            page = tree(require_status(self.send("GET", query=query, bucket=bucket), "the listing", 200))
            yield page
            if page.findtext("IsTruncated", "false").strip().lower() != "true":
                return
            names = keys_in(page) + [p.findtext("Prefix", "") for p in page.iter("CommonPrefixes")]
            mark = "continuation-token" if version == 2 else "marker"
            last = "" if version == 2 else max(names, default="")
            query[mark] = page.findtext("NextContinuationToken" if version == 2 else "NextMarker") or last
            demand(bool(query[mark]), "a page that is not the last one has no token of the next one")
        raise Refuted("the listing does not end after 200 pages")

    # The buckets of the probe, limited to the names from the coordinator.

    def spares(self) -> list[str]:
        """Return names of buckets that the probe may make. Raises NotTried.

        The first is for short uses, and the last two are for versioning and policy. The others are counted.
        """
        names = self.extra.get("spare_buckets") or []
        demand(bool(names), self.extra.get("why_none") or "storelab may not make buckets here", NotTried)
        demand(self.job.client == 0, "asked by client 0 only", NotTried)
        return list(names)

    def make_bucket(self, name: str) -> Reply:
        """Make a bucket, which the caller must mark. Raises NotTried if it already exists."""
        there = self.send("GET", MARKER, bucket=name)
        demand(
            status_text(there) == "404 NoSuchBucket",
            f"a bucket with the probe's name exists already ({status_text(there)})",
            NotTried,
        )
        return self.send("PUT", bucket=name, body=signing.location(self.endpoint))

    def mark(self, name: str) -> None:
        """Write the mark of a bucket. Raises Refuted."""
        mark = {"campaign": self.extra["campaign"], "probe": self.job.attempt, "writer": self.extra.get("writer")}
        self.put(MARKER, json.dumps(mark).encode(), bucket=name)

    def marked_bucket(self, name: str) -> str:
        """Make and mark a bucket. Raises Refuted."""
        require_status(self.make_bucket(name), "making a bucket")
        self.mark(name)
        return name

    def drop_bucket(self, name: str) -> Reply:
        """Remove the mark and the bucket, which must be empty otherwise."""
        self.send("DELETE", MARKER, bucket=name)
        return self.send("DELETE", bucket=name)


def keys_in(page: ElementTree.Element) -> list[str]:
    """Return the keys in one page of a listing."""
    return [entry.findtext("Key", "") for entry in page.iter("Contents")]
