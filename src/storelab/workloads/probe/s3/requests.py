"""Requests to an S3 store, signed or not, as the probe sends them, and what its answers say."""

import hashlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from urllib.parse import urlsplit
from xml.etree import ElementTree

from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Credentials
from storelab.workloads.probe import signing
from storelab.workloads.probe.answers import NotTried, Refuted, demand
from storelab.workloads.probe.context import Context
from storelab.workloads.probe.multirange import ERROR_CODE
from storelab.workloads.probe.plain_http import Connection, Reply
from storelab.workloads.probe.signing import EMPTY

MARKER = ".storelab"  # as in stores/buckets.py: storelab made this bucket
SECOND = "STORELAB_SECOND_"  # begin of the variables that hold another account's keys
PAGE = 1000  # keys in one page of a listing, in one multi-object delete
MANY = PAGE + 1
WRITERS = 4  # connections that write them


def keys_of(prefix: str = "AWS_") -> Credentials | None:
    """Keys in this process's environment."""
    access, secret = os.environ.get(f"{prefix}ACCESS_KEY_ID"), os.environ.get(f"{prefix}SECRET_ACCESS_KEY")
    return Credentials(access, secret, os.environ.get(f"{prefix}SESSION_TOKEN")) if access and secret else None


def md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def md5_header(body: bytes) -> str:
    return b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def etag(reply: Reply) -> str:
    return reply.headers.get("etag", "").strip('"')


def tree(reply: Reply) -> ElementTree.Element:
    """The XML of an answer, without name spaces. Raises ParseError."""
    root = ElementTree.fromstring(reply.body)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def code(reply: Reply) -> str:
    """The error code in the answer's body, '' where there is none."""
    found = ERROR_CODE.search(reply.body[:20_000])
    return found[1].decode() if found else ""


def said(reply: Reply) -> str:
    """Status and error code, for evidence. Never the message: some servers repeat keys in it."""
    return f"{reply.status} {code(reply)}".strip()


class S3(Context):
    """`send` asks as this client's account unless told otherwise; keys are whole keys of the client's own bucket."""

    def __init__(self, job: Job):
        super().__init__(job)
        keys = keys_of()
        if keys is None:
            raise NotTried("no keys in the environment")
        self.keys: Credentials = keys
        self.second = keys_of(SECOND)
        self._many: list[str] | None = None
        self._hosts: dict[str, Connection] = {}

    @cached_property
    def other(self) -> Bucket:
        """The bucket of the second account. Raises NotTried."""
        found = next((b for b in self.job.buckets if b.account == 1 and self.job.account == 0), None)
        if not (found and self.second):
            raise NotTried(
                "asked by client 0 only" if self.job.client else "the point has one account: sweep `accounts: 2`"
            )
        return found

    def secrets(self) -> list[str]:
        return [
            part
            for k in (self.keys, self.second)
            if k
            for part in (k.access_key, k.secret_key, k.session_token or "")
            if part
        ]

    # Requests

    def place(self, bucket: str, key: str) -> tuple[str, str]:
        """(host, path) of an object, or of a bucket ('' as key), or of the service ('' as bucket too)."""
        if not bucket:
            return self.wire.host, "/"
        if self.endpoint.addressing == "virtual":
            return f"{bucket}.{self.wire.host}", "/" + signing.path_of(key)
        return self.wire.host, f"/{bucket}" + ("/" + signing.path_of(key) if key else "")

    def wire_to(self, host: str) -> Connection:
        """The connection to a host: with virtual addressing each bucket has one of its own."""
        if host == self.wire.host:
            return self.wire
        if host not in self._hosts:
            wire = self.new_wire()
            wire.host, wire.name = host, host.removesuffix(wire.host) + wire.name
            self._hosts[host] = wire
        return self._hosts[host]

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
        """One signed request (version 4). `payload`: the SHA-256 that is claimed, where it is not the body's."""
        host, path = self.place(self.bucket.name if bucket is None else bucket, key)
        digest = payload or (hashlib.sha256(body).hexdigest() if body else EMPTY)
        signed = signing.sign(
            method, host, path, query or {}, headers or {}, digest, keys or self.keys, self.endpoint.region
        )
        target = path + ("?" + signing.query_of(query) if query else "")
        return (wire or self.wire_to(host)).send(method, target, signed, body)

    def anonymous(
        self, method: str, key: str = "", *, bucket: str | None = None, body: bytes | None = None, query: str = ""
    ) -> Reply:
        """The same without any signature, but for one that stands in `query`."""
        host, path = self.place(self.bucket.name if bucket is None else bucket, key)
        return self.wire_to(host).send(method, path + (f"?{query}" if query else ""), {"Host": host}, body)

    def presigned(self, method: str, key: str, expires: int = 300, when: float | None = None) -> str:
        """The query string of a URL that anybody may use."""
        host, path = self.place(self.bucket.name, key)
        return signing.presign(method, host, path, {}, self.keys, self.endpoint.region, expires, when)

    def put(self, key: str, body: bytes, **options: object) -> Reply:
        """Raises Refuted where it is not accepted."""
        reply = self.send("PUT", key, body=body, **options)  # type: ignore[arg-type]
        demand(reply.good, f"PUT answered {said(reply)}")
        return reply

    def holds(self, key: str, body: bytes, **options: object) -> bool:
        """Whether the object is there with exactly these bytes."""
        reply = self.send("GET", key, **options)  # type: ignore[arg-type]
        return reply.status == 200 and reply.body == body

    def get_ranges(self, value: str, wire: Connection | None = None) -> Reply:
        """The known object with this Range header."""
        return self.send("GET", self.known, headers={"Range": value}, wire=wire)

    def get_whole(self) -> Reply:
        return self.send("GET", self.known)

    def get_small(self, wire: Connection) -> Reply:
        return self.get_ranges("bytes=0-9", wire)

    def get_missing(self, wire: Connection) -> Reply:
        return self.send("GET", self.key("never-written"), wire=wire)

    # Many objects, made once for the listings and the multi-object deletes

    def many(self) -> list[str]:
        """Keys of 1001 small objects below `list/`, ten to a folder. Raises Refuted."""
        if self._many is None:
            names = [self.key(f"list/{i // 10:03d}/{i:04d}") for i in range(MANY)]
            self._write_all(names, 1 if self.wire.pace_s else WRITERS)
            self._many = names
        return self._many

    def _write_all(self, names: list[str], writers: int) -> None:
        def write(share: list[str]) -> None:
            wire = self.new_wire()
            try:
                for name in share:
                    self.put(name, b"x", wire=wire)
            finally:
                wire.close()

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, [names[i::writers] for i in range(writers)]))

    def forget_many(self) -> None:
        self._many = None

    def delete_many(self, names: list[str], bucket: str | None = None) -> Reply:
        """One multi-object delete."""
        objects = "".join(f"<Object><Key>{_xml(n)}</Key></Object>" for n in names)
        body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>{objects}</Delete>'.encode()
        headers = {"Content-MD5": md5_header(body), "Content-Type": "application/xml"}
        return self.send("POST", query={"delete": ""}, headers=headers, body=body, bucket=bucket)

    def pages(
        self, prefix: str, *, version: int = 2, bucket: str | None = None, **more: str
    ) -> Iterator[ElementTree.Element]:
        """Every page of a listing, at most 200. Raises Refuted where one is refused, or none is the last."""
        query = {"prefix": prefix, **more} | ({"list-type": "2"} if version == 2 else {})
        for _ in range(200):
            reply = self.send("GET", query=query, bucket=bucket)
            demand(reply.status == 200, f"the listing answered {said(reply)}")
            page = tree(reply)
            yield page
            if page.findtext("IsTruncated", "false").strip().lower() != "true":
                return
            names = keys_in(page) + [p.findtext("Prefix", "") for p in page.iter("CommonPrefixes")]
            token = (
                page.findtext("NextContinuationToken")
                if version == 2
                else page.findtext("NextMarker") or max(names, default=None)
            )
            demand(bool(token), "a page that is not the last names no next one")
            query["continuation-token" if version == 2 else "marker"] = token or ""
        raise Refuted("the listing does not end: 200 pages came")

    # Buckets of the probe's own, bounded by what the coordinator named

    def spares(self) -> list[str]:
        """Names that it may make buckets of: one for short uses, those that count how many there may be, two that are
        switched (versioning, policy). Raises NotTried."""
        names = self.extra.get("spare_buckets") or []
        if not names:
            raise NotTried(self.extra.get("why_none") or "storelab may not make buckets here")
        if self.job.client:
            raise NotTried("asked by client 0 only")
        return list(names)

    def make_bucket(self, name: str) -> Reply:
        """Make a bucket; it is the caller's to mark. Raises NotTried where there is one already."""
        there = self.send("GET", MARKER, bucket=name)
        if there.status != 404 or code(there) != "NoSuchBucket":
            raise NotTried(f"a bucket of the probe's name is there already ({said(there)})")
        host, region = urlsplit(self.endpoint.url).hostname or "", self.endpoint.region
        amazon = re.search(r"(^|\.)amazonaws\.com(\.cn)?\Z", host) and region != "us-east-1"
        text = (
            f"<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
        )
        return self.send("PUT", bucket=name, body=text.encode() if amazon else None)

    def mark(self, name: str) -> None:
        """Raises Refuted."""
        self.put(
            MARKER, json.dumps({"campaign": self.extra["campaign"], "probe": self.job.attempt}).encode(), bucket=name
        )

    def own_bucket(self, name: str) -> str:
        """Make and mark. Raises Refuted."""
        made = self.make_bucket(name)
        demand(made.good, f"making a bucket answered {said(made)}")
        self.mark(name)
        return name

    def drop_bucket(self, name: str) -> Reply:
        """Remove the mark and the bucket, which must hold nothing else."""
        self.send("DELETE", MARKER, bucket=name)
        return self.send("DELETE", bucket=name)

    def close(self) -> None:
        super().close()
        for wire in self._hosts.values():
            wire.close()


def keys_in(page: ElementTree.Element) -> list[str]:
    return [entry.findtext("Key", "") for entry in page.iter("Contents")]


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
