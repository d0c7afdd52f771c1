"""A small S3 store in memory that supports all requests of the probe, except version 2 signatures and old versions.

Tests can set `faults`, which are single faults of real stores. A `Bucket` can have versioning, object lock and MFA
delete.
"""

import hashlib
import re
import threading
import time
import zlib
from base64 import b64encode
from calendar import timegm
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from urllib.parse import parse_qsl, quote, unquote, unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape, unescape

from probed import Handler, served

from storelab.stores.protocols.endpoint import Credentials
from storelab.workloads.probe import signing

FIRST, SECOND = Credentials("FIRSTKEY", "first-secret", None), Credentials("SECONDKEY", "second-secret", None)
REGION = "us-east-1"
DATE = "Mon, 13 Apr 2015 00:00:00 GMT"
QUERIES = {  # method -> query parameters that this store supports
    "GET": {"list-type", "prefix", "max-keys", "delimiter", "start-after", "continuation-token", "marker", "uploads"}
    | {"uploadId", "encoding-type", "versioning", "object-lock", "versions", "key-marker", "version-id-marker"}
    | {"retention", "legal-hold", "versionId"},
    "HEAD": set(),
    "PUT": {"policy", "partNumber", "uploadId"},
    "POST": {"delete", "uploads", "uploadId"},
    "DELETE": {"policy", "uploadId", "versionId"},
}


@dataclass
class Object:
    """An object or a version of it. A delete marker has no body. lock: mode and end (UTC seconds) of a retention."""

    body: bytes | None
    headers: dict[str, str] = field(default_factory=dict)
    etag: str = ""
    public: bool = False
    id: str = "null"
    lock: tuple[str, float] | None = None
    legal_hold: bool = False


@dataclass
class Bucket:
    """A bucket of an account. Objects below `public` can be read without credentials.

    versioning: '', 'Enabled' or 'Suspended'; lock: default retention (mode, days), or () for object lock without one.
    versions: key -> versions, the newest last, if versioning was ever enabled.
    """

    owner: str
    objects: dict[str, Object] = field(default_factory=dict)
    public: str | None = None
    versioning: str = ""
    mfa_delete: bool = False
    lock: tuple[str, int] | tuple[()] | None = None
    versions: dict[str, list[Object]] = field(default_factory=dict)
    numbers: count = field(default_factory=count)

    def store(self, key: str, one: Object) -> None:
        if not self.versioning:
            self.objects[key] = one
            return
        one.id = f"v{next(self.numbers):06d}" if self.versioning == "Enabled" else "null"
        if self.lock and one.body is not None:
            one.lock = self.lock[0], time.time() + 86400 * self.lock[1]
        self.versions[key] = [*self.older(key, but="" if self.versioning == "Enabled" else "null"), one]
        self.show(key)

    def older(self, key: str, but: str = "") -> list[Object]:
        known = self.versions.get(key) or ([self.objects[key]] if key in self.objects else [])
        return [version for version in known if version.id != but]

    def show(self, key: str) -> None:
        """Make the newest version of a key the current object."""
        self.objects.pop(key, None)
        if (known := self.versions[key]) and known[-1].body is not None:
            self.objects[key] = known[-1]

    def forget(self, key: str, version: str = "") -> None:
        """Delete an object or a version of it. Raise Refused if it is locked."""
        if not version:
            if self.versioning:
                self.store(key, Object(None))
            else:
                self.objects.pop(key, None)
            return
        one = next((v for v in self.older(key) if v.id == version), None)
        if one and (one.legal_hold or (one.lock and one.lock[1] > time.time())):
            raise Refused(403, "AccessDenied")
        self.versions[key] = self.older(key, but=version)
        self.show(key)

    def everything(self) -> list[tuple[str, Object]]:
        """Return (key, version) of all stored versions, sorted by key, the newest version first."""
        keys = sorted({*self.objects, *self.versions})
        return [(key, version) for key in keys for version in reversed(self.older(key))]


class Refused(Exception):
    """An error answer with a status and a code."""


def md5(body: bytes) -> bytes:
    return hashlib.md5(body, usedforsecurity=False).digest()


def quoted(mark: str) -> str:
    return f'"{mark}"'


class Answers(Handler):
    """A handler that answers from the content of `store`. It sends no answers while `silent` is set.

    The store has `buckets`, `uploads` (id -> parts), `faults`, `writers` (connections that put objects below `list/`),
    and `received`: (method, key, range) of each request.
    """

    store: SimpleNamespace

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.path, _, self.text = self.path.partition("?")
        name, _, self.key = unquote(self.path).lstrip("/").partition("/")
        self.query = dict(parse_qsl(self.text, keep_blank_values=True))
        while self.store.silent.is_set():
            time.sleep(0.01)
        try:
            self.store.received.append((self.command, self.key, self.headers.get("Range", "")))
            self.check_query()
            account = self.account(body)
            if self.key and self.command == "PUT" and "/list/" in self.key:
                self.store.writers.add(self.client_address)
            self.answer(*(self.service(account) if not name else self.in_bucket(name, account, body)))
        except Refused as refused:
            status, code = refused.args
            if "writes what it refuses" in self.store.faults and self.command == "PUT" and self.key:
                self.store.buckets[name].objects[self.key] = Object(body)
            self.answer(status, f"<Error><Code>{code}</Code></Error>".encode() if status != 304 else b"")

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def handle_expect_100(self):
        going = super().handle_expect_100()
        self.wfile.flush()
        return going

    def check_query(self):
        if unknown := {name for name in self.query if not name.startswith("X-Amz-")} - QUERIES[self.command]:
            raise Refused(400, f"Unknown.{sorted(unknown)[0]}")

    # Rights

    def account(self, body: bytes) -> str | None:
        """Return the access key of the request if its signature is right; None without a signature."""
        given, host = self.headers.get("Authorization", ""), self.headers["Host"]
        if not given and "X-Amz-Signature" not in self.query:
            return None
        scope = given if given else self.query["X-Amz-Credential"]
        found = re.search(r"(?:Credential=|^)(\w+)/", scope)
        keys = next((k for k in (FIRST, SECOND) if found and k.access_key == found[1]), None)
        if keys is None:
            raise Refused(403, "InvalidAccessKeyId")
        date = self.headers.get("X-Amz-Date") or self.query["X-Amz-Date"]
        when = timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
        if not given:
            seconds = int(self.query["X-Amz-Expires"])
            method = "GET" if "URL for any method" in self.store.faults else self.command
            right = signing.presign(method, host, self.path, keys, REGION, seconds, when) == self.text
            right = right and time.time() < when + seconds
        else:
            digest, own = self.headers["X-Amz-Content-SHA256"], ("authorization", "x-amz-date", "x-amz-content-sha256")
            headers = {name: text for name, text in self.headers.items() if name.lower() not in (*own, "host")}
            signed = signing.sign(self.command, host, self.path, self.query, headers, digest, keys, REGION, when)
            right = signed["Authorization"] == given
            if digest not in (signing.UNSIGNED, hashlib.sha256(body).hexdigest()):
                raise Refused(400, "XAmzContentSHA256Mismatch")
        if not right and "any signature" not in self.store.faults:
            raise Refused(403, "SignatureDoesNotMatch")
        return keys.access_key

    def service(self, account):
        if account is None:
            raise Refused(403, "AccessDenied")
        mine = [name for name, bucket in self.store.buckets.items() if bucket.owner == account]
        if "no list of buckets" in self.store.faults or ("no list of no buckets" in self.store.faults and not mine):
            raise Refused(403, "AccessDenied")
        rows = "".join(f"<Bucket><Name>{name}</Name></Bucket>" for name in mine)
        return 200, f"<ListAllMyBucketsResult><Buckets>{rows}</Buckets></ListAllMyBucketsResult>".encode()

    def in_bucket(self, name, account, body):
        bucket = self.store.buckets.get(name)
        if bucket is None and self.command == "PUT" and not self.key and account:
            named = re.search(r"<LocationConstraint>(.*?)</", body.decode())
            if "no location" in self.store.faults and named:
                raise Refused(400, "InvalidLocationConstraint")
            if "a location" in self.store.faults and (not named or named[1] != "eu-lab"):
                raise Refused(400, "IllegalLocationConstraintException")
            self.store.buckets[name] = self.store.made(account)
            return 200, b""
        if bucket is None:
            raise Refused(404, "NoSuchBucket")
        known = bucket.objects.get(self.key)
        read = self.command in ("GET", "HEAD") and known is not None
        public = bucket.public is not None and self.key.startswith(bucket.public)
        public = public or bool(known and known.public)
        if "ACL of the whole bucket" in self.store.faults and any(one.public for one in bucket.objects.values()):
            public = True
        if account != bucket.owner and not (read and public):
            raise Refused(403, "AccessDenied")
        if not self.key:
            return self.of_bucket(name, bucket, body)
        return getattr(self, self.command.lower())(bucket, known, body)

    # Buckets

    def of_bucket(self, name, bucket, body):
        if "policy" in self.query:
            statements = re.findall(r'"Effect": "Allow", "Principal": "\*", .*?:::[^/"]+/([^"*]+)\*', body.decode())
            if self.command == "PUT" and (
                not statements or ("no key in a policy" in self.store.faults and b"AWS" in body)
            ):
                raise Refused(400, "MalformedPolicy")
            whole = "policy of the whole bucket" in self.store.faults
            bucket.public = None if self.command == "DELETE" else "" if whole else statements[0]
            return 204, b""
        if self.command == "DELETE":
            full = bucket.everything() or bucket.public is not None
            if full and "deletes full buckets" not in self.store.faults:
                raise Refused(409, "BucketNotEmpty")
            del self.store.buckets[name]
            return 204, b""
        if "delete" in self.query:
            if "one deletion per request" in self.store.faults:
                raise Refused(501, "NotImplemented")
            return self.several(bucket, body)
        if "uploads" in self.query:
            if "no list of uploads" in self.store.faults:
                raise Refused(403, "AccessDenied")
            begun = [f"<Upload><Key>{key}</Key><UploadId>{i}</UploadId></Upload>" for i, (key, _) in self.uploads()]
            return 200, f"<R>{''.join(begun)}</R>".encode()
        if "versioning" in self.query:
            if "versioning not reported" in self.store.faults:
                raise Refused(403, "AccessDenied")
            status = f"<Status>{bucket.versioning}</Status>" if bucket.versioning else ""
            mfa = "<MfaDelete>Enabled</MfaDelete>" if bucket.mfa_delete else ""
            return 200, f"<R>{status}{mfa}</R>".encode()
        if "object-lock" in self.query:
            if bucket.lock is None:
                raise Refused(404, "ObjectLockConfigurationNotFoundError")
            rule = f"<Mode>{bucket.lock[0]}</Mode><Days>{bucket.lock[1]}</Days>" if bucket.lock else ""
            rule = f"<Rule><DefaultRetention>{rule}</DefaultRetention></Rule>" if rule else ""
            return 200, f"<R><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}</R>".encode()
        if "versions" in self.query:
            return self.list_versions(bucket)
        if self.command in ("PUT", "HEAD"):
            return 200, b""
        return self.listing(bucket)

    def several(self, bucket, body):
        """Delete the objects or versions that the body lists."""
        wanted = re.findall(r"<Key>(.*?)</Key>(?:<VersionId>(.*?)</VersionId>)?", body.decode(), re.DOTALL)
        if bucket.mfa_delete and any(version for _, version in wanted):
            raise Refused(403, "AccessDenied")
        rows = ""
        for name, version in wanted:
            row = f"<Key>{name}</Key>" + (f"<VersionId>{version}</VersionId>" if version else "")
            try:
                if "deletes nothing" not in self.store.faults:
                    bucket.forget(unescape(name), version)
                rows += "" if b"<Quiet>true" in body else f"<Deleted>{row}</Deleted>"
            except Refused as refused:
                rows += f"<Error>{row}<Code>{refused.args[1]}</Code></Error>"
        return 200, f"<DeleteResult>{rows}</DeleteResult>".encode()

    def list_versions(self, bucket):
        """List at most `page` versions after the markers."""
        prefix, most = self.query.get("prefix", ""), min(self.store.page, int(self.query.get("max-keys", 1000)))
        found = [one for one in bucket.everything() if one[0].startswith(prefix)]
        places = [(key, version.id) for key, version in found]
        after = self.query.get("key-marker", ""), self.query.get("version-id-marker", "")
        begin = places.index(after) + 1 if after in places else sum(key <= after[0] for key, _ in places)
        rows, more = [], len(found) > begin + most
        for key, version in found[begin : begin + most]:
            latest = str(version is bucket.older(key)[-1]).lower()
            row = f"<Key>{self.written(key)}</Key><VersionId>{version.id}</VersionId><IsLatest>{latest}</IsLatest>"
            if version.body is None:
                rows.append(f"<DeleteMarker>{row}</DeleteMarker>")
            else:
                rows.append(f"<Version>{row}<Size>{len(version.body)}</Size></Version>")
        key, version = places[begin + most - 1] if more else ("", "")
        onward = (
            f"<NextKeyMarker>{self.written(key)}</NextKeyMarker><NextVersionIdMarker>{version}</NextVersionIdMarker>"
        )
        return self.page(rows, more, onward if more else "")

    def written(self, key):
        """Return a key in the encoding of the listing."""
        return quote(key) if self.query.get("encoding-type") == "url" else escape(key)

    def page(self, rows, more, onward):
        """Return a page of a listing, possibly with a fault."""
        if "more without a token" in self.store.faults and more:
            onward = ""
        coding = "<EncodingType>url</EncodingType>" if self.query.get("encoding-type") == "url" else ""
        head = f"<IsTruncated>{str(more).lower()}</IsTruncated>{coding}{onward}"
        return 200, f"<ListBucketResult>{head}{''.join(rows)}</ListBucketResult>".encode()

    def listing(self, bucket):
        if "pages repeat" in self.store.faults:
            self.query.pop("continuation-token", None)
        after = max(self.query.get(name, "") for name in ("start-after", "continuation-token", "marker"))
        prefix, cut = self.query.get("prefix", ""), self.query.get("delimiter")

        def shown(name):
            below = name[len(prefix) :]
            return prefix + below.partition(cut)[0] + cut if cut and cut in below else name

        names = sorted({shown(name) for name in bucket.objects if name.startswith(prefix)})
        names = [name for name in names if name > after]
        most = min(self.store.page, int(self.query.get("max-keys", 1000))) + ("a key too many" in self.store.faults)
        if "pages without an end" in self.store.faults:
            names += [f"{prefix}~{next(self.store.numbers):09d}" for _ in range(most + 1)]
        rows, more = [], len(names) > most
        for name in names[:most]:
            if one := bucket.objects.get(name):
                facts = f"<Size>{len(one.body)}</Size><ETag>{one.etag}</ETag>"
                facts += "<LastModified>2015-04-13T00:00:00Z</LastModified>"
                rows.append(f"<Contents><Key>{self.written(name)}</Key>{facts}</Contents>")
            elif not cut:
                rows.append(f"<Contents><Key>{self.written(name)}</Key><Size>1</Size></Contents>")
            else:
                rows.append(f"<CommonPrefixes><Prefix>{self.written(name)}</Prefix></CommonPrefixes>")
        token = f"<NextContinuationToken>{escape(names[most - 1])}</NextContinuationToken>" if more else ""
        return self.page(rows, more, token)

    # Objects

    def head(self, bucket, known, body):
        return self.get(bucket, known, body)

    def get(self, bucket, known, body):
        if "uploadId" in self.query:
            _, parts = self.upload()
            rows = "".join(
                f"<Part><PartNumber>{n}</PartNumber><Size>{len(p)}</Size><ETag>{quoted(md5(p).hex())}</ETag></Part>"
                for n, p in sorted(parts.items())
            )
            return 200, f"<R>{rows}</R>".encode()
        if "retention" in self.query or "legal-hold" in self.query:
            one = next((v for v in bucket.older(self.key) if v.id == self.query["versionId"]), Object(b""))
            if "legal-hold" in self.query:
                return 200, f"<R><Status>{'ON' if one.legal_hold else 'OFF'}</Status></R>".encode()
            if not one.lock:
                raise Refused(404, "NoSuchObjectLockConfiguration")
            end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.lock[1]))
            return 200, f"<R><Mode>{one.lock[0]}</Mode><RetainUntilDate>{end}</RetainUntilDate></R>".encode()
        if known is None:
            raise Refused(404, "NoSuchKey")
        headers = known.headers | {"Last-Modified": DATE} | ({"ETag": known.etag} if known.etag else {})
        if "no CRC" in self.store.faults:
            headers.pop("x-amz-checksum-crc32", None)
        asked = self.headers
        if asked.get("If-None-Match") == known.etag or asked.get("If-Modified-Since") == DATE:
            raise Refused(304, "")
        if asked.get("If-Match", known.etag) != known.etag or asked.get("If-Unmodified-Since", DATE) != DATE:
            raise Refused(412, "PreconditionFailed")
        if "Range" in asked:
            return self.ranges(known.body, asked["Range"], headers)
        return 200, known.body, headers

    def ranges(self, data, value, headers):
        found, size = [], len(data)
        for first, last in re.findall(r"(\d*)-(\d*)", value.removeprefix("bytes=")):
            begin = int(first) if first else size - int(last)
            found.append((begin, min(int(last), size - 1) if first and last else size - 1))
        if found[0][0] >= size:
            return 416, b"", {"Content-Range": f"bytes */{size}"}
        places = [f"bytes {a}-{b}/{size}" for a, b in found]
        if len(found) == 1:
            a, b = found[0]
            return 206, data[a : b + 1], headers | {"Content-Range": places[0]}
        parts = [
            f"\r\n--cut\r\nContent-Range: {place}\r\n\r\n".encode() + data[a : b + 1]
            for place, (a, b) in zip(places, found, strict=True)
        ]
        kind = {"Content-Type": "multipart/byteranges; boundary=cut"}
        return 206, b"".join(parts) + b"\r\n--cut--\r\n", headers | kind

    def put(self, bucket, known, body):
        asked, headers = self.headers, {}
        source = asked.get("x-amz-copy-source")
        if source:
            place, _, key = unquote_plus(source).lstrip("/").partition("/")  # '+' means a space, as in Amazon S3
            if self.store.buckets[place].owner != bucket.owner:
                raise Refused(403, "AccessDenied")
            one = self.store.buckets[place].objects[key]
            first, last = re.findall(r"\d+", asked.get("x-amz-copy-source-range", f"0-{len(one.body) - 1}"))
            body, headers = one.body[int(first) : int(last) + 1], dict(one.headers)
        crc = b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
        if asked.get("Content-MD5", b64encode(md5(body)).decode()) != b64encode(md5(body)).decode():
            raise Refused(400, "BadDigest")
        if asked.get("x-amz-checksum-crc32", crc) != crc:
            raise Refused(400, "BadDigest")
        mark = quoted(md5(body).hex()) if "no ETag" not in self.store.faults else ""
        copied = f"<R><ETag>{mark}</ETag></R>".encode() if source else b""
        if "partNumber" in self.query:
            if not body:
                raise Refused(400, "EntityTooSmall")
            parts = self.upload(late="takes late parts" in self.store.faults)[1]
            parts[int(self.query["partNumber"])] = body
            return 200, copied, {"ETag": mark}
        if asked.get("If-None-Match") == "*" and (known or "no new object under a condition" in self.store.faults):
            raise Refused(412, "PreconditionFailed")
        if known and asked.get("If-Match", known.etag) != known.etag:
            raise Refused(412, "PreconditionFailed")
        kept = ("content-type", "x-amz-checksum-crc32")
        headers |= {n: t for n, t in asked.items() if n.lower() in kept or n.lower().startswith("x-amz-meta-")}
        bucket.store(self.key, Object(body, headers, mark, asked.get("x-amz-acl") == "public-read"))
        return 200, copied, {"ETag": mark} if mark else {}

    def delete(self, bucket, known, body):
        if "uploadId" in self.query:
            self.upload()
            self.store.aborted[self.query["uploadId"]] = self.store.uploads.pop(self.query["uploadId"])
        else:
            bucket.forget(self.key, self.query.get("versionId", ""))
        return 204, b""

    # Uploads in parts

    def uploads(self):
        return self.store.uploads.items()

    def upload(self, late=False):
        """Return (key, parts) of the requested upload. late: also return an aborted upload."""
        number = self.query.get("uploadId")
        found = self.store.uploads.get(number) or (self.store.aborted.get(number) if late else None)
        if found is None:
            raise Refused(404, "NoSuchUpload")
        return found

    def post(self, bucket, known, body):
        if "uploads" in self.query:
            number = f"u{next(self.store.numbers)}"
            self.store.uploads[number] = (self.key, {})
            return 200, f"<R><UploadId>{number}</UploadId></R>".encode()
        _, parts = self.upload(late="completes what was aborted" in self.store.faults)
        pieces = [parts.get(int(e.text), b"") for e in ElementTree.fromstring(body).iter("PartNumber")]
        marks = [quoted(md5(piece).hex()) for piece in pieces]
        if not all(pieces) or marks != [e.text for e in ElementTree.fromstring(body).iter("ETag")]:
            raise Refused(400, "InvalidPart")
        mark = quoted(f"{md5(b''.join(map(md5, pieces))).hex()}-{len(pieces)}")
        bucket.store(self.key, Object(b"".join(pieces), {}, mark))
        self.store.uploads.pop(self.query["uploadId"], None)
        if "completes with an error" in self.store.faults:
            return 200, b"<Error><Code>InternalError</Code></Error>"
        return 200, f"<R><ETag>{mark}</ETag></R>".encode()


@contextmanager
def honest_s3(*faults: str, buckets: dict[str, Bucket] | None = None):
    """Yield (URL, store) of a store with the buckets `b` and `b-a1` of the two accounts, and `buckets`.

    `store.made`: properties of new buckets; `store.page`: number of entries in a page of a listing.
    """
    usual = {"b": Bucket(FIRST.access_key), "b-a1": Bucket(SECOND.access_key)}
    store = SimpleNamespace(buckets=usual | (buckets or {}), uploads={}, aborted={}, faults=set(faults))
    store.writers, store.numbers, store.received, store.silent = set(), count(), [], threading.Event()
    store.made, store.page = Bucket, 1000
    with served(Answers, store=store) as url:
        yield url, store
