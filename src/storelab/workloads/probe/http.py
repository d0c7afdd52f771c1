"""Questions to an HTTP door with WebDAV: nginx, XrdHttp, dCache, StoRM, Apache.

RFC 9110 (HTTP), RFC 4918 (WebDAV), RFC 3230 (`Want-Digest`: the checksums that HEP asks for).
"""

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

from storelab.engines.contract import Job
from storelab.stores.protocols.filesystems import authorization
from storelab.workloads.probe.answers import NO, Answer, Checks, NotTried, Otherwise, demand, yes
from storelab.workloads.probe.context import Context
from storelab.workloads.probe.http_ranges import CONNECTION, RANGES
from storelab.workloads.probe.plain_http import Connection, Reply

OWN = Checks()
SMALL = b"one small file of the probe"
NAMES = (
    "with space",
    "plus+sign",
    "a=b&c",
    "per%cent",
    "ümläut-日本",
    "(brackets)'quote'!*~",
    "colon:at@semi;comma,dollar$",
)
LISTED = 1001


class Http(Context):
    """Paths are those below the client's folder; the folder exists."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.base = urlsplit(self.endpoint.url).path.rstrip("/")
        self.token = authorization(self.endpoint)
        self.own = f"{self.folder}{job.client}/"
        self._made = False

    def secrets(self) -> list[str]:
        return [value.removeprefix("Bearer ") for value in self.token.values()]

    def target(self, key: str) -> str:
        return quote(f"{self.base}/{self.bucket.name}/{key}", safe="/-._~")

    def send(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        wire: Connection | None = None,
        token: bool = True,
    ) -> Reply:
        return (wire or self.wire).send(
            method, self.target(key), {**(self.token if token else {}), **(headers or {})}, body
        )

    def path(self, name: str) -> str:
        """Whole key of a file of this client; its folder is made with the first."""
        if not self._made:
            self.send("MKCOL", self.own)
            self._made = True
        return self.own + name

    def put(self, name: str, body: bytes) -> Reply:
        reply = self.send("PUT", self.path(name), body=body)
        demand(reply.good, f"PUT answered {reply.status}")
        return reply

    def holds(self, name: str, body: bytes) -> bool:
        reply = self.send("GET", self.path(name))
        return reply.status == 200 and reply.body == body

    def get_ranges(self, value: str, wire: Connection | None = None) -> Reply:
        return self.send("GET", self.known, {"Range": value}, wire=wire)

    def get_whole(self) -> Reply:
        return self.send("GET", self.known)

    def get_small(self, wire: Connection) -> Reply:
        return self.get_ranges("bytes=0-9", wire)

    def get_missing(self, wire: Connection) -> Reply:
        return self.send("GET", self.path("never-written"), wire=wire)

    def propfind(self, key: str, depth: str) -> list[str]:
        """Decoded paths of a PROPFIND. Raises Refuted."""
        reply = self.send("PROPFIND", key, {"Depth": depth})
        demand(reply.status == 207, f"PROPFIND answered {reply.status}")
        tags = (e for e in ElementTree.fromstring(reply.body).iter() if e.tag.rpartition("}")[2] == "href")
        return [unquote(urlsplit((e.text or "").strip()).path) for e in tags]


@OWN.add("objects", "put, get, head")
def put_get_head(c: Http) -> Answer:
    made = c.put("object", SMALL)
    got, head = c.send("GET", c.path("object")), c.send("HEAD", c.path("object"))
    demand(got.status == 200 and got.body == SMALL, f"GET answered {got.status} with {len(got.body)} bytes")
    demand(head.status == 200, f"HEAD answered {head.status}")
    length = head.headers.get("content-length")
    demand(length == str(len(SMALL)), f"HEAD says {length} bytes", Otherwise)
    demand(made.status == 201, f"a new file answers {made.status} instead of 201", Otherwise)
    return yes(f"201, 200, Accept-Ranges: {head.headers.get('accept-ranges', 'not sent')}")


@OWN.add("objects", "missing object")
def missing(c: Http) -> Answer:
    got, head = c.send("GET", c.path("never-written")), c.send("HEAD", c.path("never-written"))
    demand(got.status == head.status == 404, f"GET {got.status}, HEAD {head.status} instead of 404", Otherwise)
    return yes("404; HEAD 404")


@OWN.add("objects", "key names")
def names(c: Http) -> Answer:
    bad = []
    for name in NAMES:
        written = c.send("PUT", c.path(name), body=name.encode())
        if not (written.good and c.holds(name, name.encode())):
            bad.append(f"{name!r} {written.status}")
    demand(len(bad) < len(NAMES), f"none of {len(NAMES)} names with special characters")
    demand(not bad, f"{len(NAMES) - len(bad)} of {len(NAMES)} names; not {', '.join(bad)}", Otherwise)
    return yes(f"{len(NAMES)} names with space, + = & % ' : @ and Unicode")


@OWN.add("objects", "overwrite and delete")
def delete(c: Http) -> Answer:
    c.put("delete", SMALL)
    c.put("delete", SMALL[::-1])
    demand(c.holds("delete", SMALL[::-1]), "the first content is read after the second was written")
    gone = c.send("DELETE", c.path("delete"))
    demand(gone.good, f"DELETE answered {gone.status}")
    demand(c.send("GET", c.path("delete")).status == 404, f"DELETE answered {gone.status}, and the file is still read")
    return yes(f"{gone.status}, then 404")


@OWN.add("objects", "copy")
def copy(c: Http) -> Answer:
    c.put("copy-source", SMALL)
    reply = c.send("COPY", c.path("copy-source"), _to(c, "copy-target"))
    demand(reply.good, f"COPY answered {reply.status}")
    demand(c.holds("copy-target", SMALL), f"COPY answered {reply.status}, but the copy does not hold the bytes")
    return yes(f"{reply.status}")


@OWN.add("objects", "rename")
def move(c: Http) -> Answer:
    c.put("move-source", SMALL)
    reply = c.send("MOVE", c.path("move-source"), _to(c, "move-target"))
    demand(reply.good, f"MOVE answered {reply.status}")
    demand(c.holds("move-target", SMALL), f"MOVE answered {reply.status}, but the file is not there")
    demand(c.send("HEAD", c.path("move-source")).status == 404, "the old name is still there", Otherwise)
    return yes(f"{reply.status}")


def _to(c: Http, name: str) -> dict[str, str]:
    scheme = "https" if c.wire.secure else "http"
    return {"Destination": f"{scheme}://{c.wire.host}{c.target(c.path(name))}", "Overwrite": "T"}


@OWN.add("checksums", "ETag")
def etag(c: Http) -> Answer:
    """Another content of the same length has another ETag: what caches and conditional requests rest on."""
    seen = []
    for body in (SMALL, SMALL[::-1]):
        c.put("etag", body)
        seen.append(c.send("HEAD", c.path("etag")).headers.get("etag", ""))
    demand(bool(seen[0]), "no ETag")
    strong = not seen[0].startswith("W/")
    demand(seen[0] != seen[1], "the same ETag for two contents that were written within a second", Otherwise)
    demand(seen[0].removeprefix("W/").startswith('"'), f"without quotes: {seen[0]}", Otherwise)
    return yes(f"{'strong' if strong else 'weak'}, changes with the content")


def _digest(c: Http, name: str, wanted: str) -> Answer:
    """`Want-Digest` (RFC 3230), as XRootD, dCache and EOS answer it."""
    told = ""
    for method in ("HEAD", "GET"):
        reply = c.send(method, c.known, {"Want-Digest": name})
        demand(reply.good, f"{method} with Want-Digest answered {reply.status}")
        told = reply.headers.get("digest", "")
        if told:
            break
    demand(bool(told), "no Digest in the answer")
    value = dict(part.strip().partition("=")[::2] for part in told.split(","))
    got = next((v for k, v in value.items() if k.lower() == name), None)
    demand(got is not None, f"told as {told[:60]} instead", Otherwise)
    demand((got or "").lower() == wanted.lower() or got == wanted, f"{got} instead of {wanted}", Otherwise)
    return yes(f"{name} {got}, the known object's")


@OWN.add("checksums", "adler32 by Want-Digest")
def adler32(c: Http) -> Answer:
    return _digest(c, "adler32", f"{zlib.adler32(c.body):08x}")


@OWN.add("checksums", "md5 by Want-Digest")
def md5(c: Http) -> Answer:
    return _digest(c, "md5", b64encode(hashlib.md5(c.body, usedforsecurity=False).digest()).decode())


@OWN.add("conditional", "put if absent")
def put_if_absent(c: Http) -> Answer:
    first = c.send("PUT", c.path("if-absent"), {"If-None-Match": "*"}, SMALL)
    demand(first.good, f"a new file is refused: {first.status}")
    second = c.send("PUT", c.path("if-absent"), {"If-None-Match": "*"}, b"intruder")
    demand(c.holds("if-absent", SMALL), f"an existing file is overwritten ({second.status})")
    demand(second.status == 412, f"not overwritten, but answered {second.status} instead of 412", Otherwise)
    return yes(f"new: {first.status}, existing: 412, its bytes untouched")


def _conditional_get(c: Http, name: str, value: str | None, status: int) -> Answer:
    head = c.send("HEAD", c.known)
    value = value if value is not None else head.headers.get("etag" if name == "If-None-Match" else "last-modified")
    if not value:
        raise NotTried("no ETag or Last-Modified to ask with")
    got = c.send("GET", c.known, {name: value})
    if got.status == 200 and got.body == c.body:
        return Answer(NO, "ignored: 200 and the whole object")
    demand(got.status == status, f"answered {got.status} instead of {status}", Otherwise)
    return yes(f"{status}")


OWN.add("conditional", "get if none match", "If-None-Match", None, 304)(_conditional_get)
OWN.add("conditional", "get if match", "If-Match", '"no-such-etag"', 412)(_conditional_get)
OWN.add("conditional", "get if modified since", "If-Modified-Since", None, 304)(_conditional_get)
OWN.add("conditional", "get if unmodified since", "If-Unmodified-Since", "Mon, 01 Jan 2001 00:00:00 GMT", 412)(
    _conditional_get
)


@OWN.add("listing", "a folder of 1001")
def listing(c: Http) -> Answer:
    c.path("")
    demand((made := c.send("MKCOL", f"{c.own}many/")).good, f"MKCOL answered {made.status}")
    wanted = {f"{i:04d}" for i in range(LISTED)}
    for name in sorted(wanted):
        c.put(f"many/{name}", b"x")
    found = [p.rstrip("/").rpartition("/")[2] for p in c.propfind(f"{c.own}many/", "1")]
    got = wanted & set(found)
    demand(len(got) == LISTED, f"{len(got)} of {LISTED} files listed")
    return yes(f"PROPFIND, {LISTED} files in one answer")


@OWN.add("delete", "a folder with all in it")
def recursive(c: Http) -> Answer:
    c.path("")
    c.send("MKCOL", f"{c.own}many/")
    c.put("many/0000", b"x")
    reply = c.send("DELETE", f"{c.own}many/")
    demand(reply.good, f"DELETE of a folder answered {reply.status}")
    demand(c.send("HEAD", c.path("many/0000")).status == 404, f"answered {reply.status}, but its files are still there")
    return yes(f"{reply.status}")


@OWN.add("anonymous", "refused without the token")
def without_token(c: Http) -> Answer:
    if not c.token:
        raise NotTried("this endpoint is used without a token")
    reply = c.send("GET", c.known, token=False)
    demand(not reply.good, f"read without the token: {reply.status}")
    return yes(f"{reply.status}")


CHECKS = Checks([*RANGES, *OWN, *CONNECTION])
CONTEXT = Http
