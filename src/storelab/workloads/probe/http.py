"""Ask questions to an HTTP server with WebDAV: nginx, XrdHttp, dCache, StoRM, Apache.

The standards are RFC 9110 (HTTP), RFC 4918 (WebDAV), and RFC 3230 (`Want-Digest`: the checksums that HEP uses).
"""

import zlib
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

from storelab.engines.contract import Job
from storelab.stores.protocols.filesystems import authorization
from storelab.workloads.probe.answers import Answer, NotTried, Otherwise, Questions, confirm, demand
from storelab.workloads.probe.byteranges import CONDITIONAL, CONNECTION, DAVIX, RANGES, names_work, unfit_names
from storelab.workloads.probe.context import LISTED, SMALL, ByKey, overwritten
from storelab.workloads.probe.plain_http import Connection, Reply, md5_header, require_status


class Http(ByKey):
    """An HTTP context. Keys are paths below the bucket's folder. The client's folder is made with its first key."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.base = urlsplit(self.endpoint.url).path.rstrip("/")
        self.token = authorization(self.endpoint)

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

    @cached_property
    def client_folder(self) -> str:
        """Make and return the folder of this client."""
        folder = super().key("")
        self.send("MKCOL", folder)
        return folder

    def key(self, name: str) -> str:
        return self.client_folder + name

    def propfind(self, key: str, depth: str) -> list[str]:
        """Return the decoded paths in the answer to a PROPFIND. Raises Refuted."""
        reply = require_status(self.send("PROPFIND", key, {"Depth": depth}), "PROPFIND", 207)
        tags = (e for e in ElementTree.fromstring(reply.body).iter() if e.tag.rpartition("}")[2] == "href")
        return [unquote(urlsplit((e.text or "").strip()).path) for e in tags]


def put_get_head(c: Http) -> Answer:
    """Check that a new file is created with 201, is read back unchanged, and that HEAD returns its size."""
    key = c.key("object")
    made, got, head = c.put(key, SMALL), c.send("GET", key), c.send("HEAD", key)
    demand(got.holds(SMALL), f"GET answered {got.status} with {len(got.body)} bytes")
    demand(head.status == 200, f"HEAD answered {head.status}")
    length = head.headers.get("content-length")
    demand(length == str(len(SMALL)), f"HEAD reports {length} bytes", Otherwise)
    demand(made.status == 201, f"a new file answers {made.status} instead of 201", Otherwise)
    return confirm(f"201, 200, Accept-Ranges: {head.headers.get('accept-ranges', 'not sent')}")


def missing(c: Http) -> Answer:
    """Check that GET and HEAD of a file that does not exist answer 404."""
    got, head = c.send("GET", c.key("never-written")), c.send("HEAD", c.key("never-written"))
    demand(got.status == head.status == 404, f"GET {got.status}, HEAD {head.status} instead of 404", Otherwise)
    return confirm("404; HEAD 404")


def names(c: Http) -> Answer:
    """Check that unusual file names can be used."""
    return names_work(unfit_names(c))


def delete(c: Http) -> Answer:
    """Check that a file cannot be read after DELETE."""
    key = c.key("delete")
    overwritten(c, key)
    gone = require_status(c.send("DELETE", key), "DELETE")
    demand(c.send("GET", key).status == 404, f"DELETE answered {gone.status}, but the file can still be read")
    return confirm(f"{gone.status}, then 404")


def copy(c: Http) -> Answer:
    """Check that COPY makes a second file with the same content."""
    reply, _ = _moved(c, "COPY")
    return confirm(f"{reply.status}")


def move(c: Http) -> Answer:
    """Check that MOVE gives a file a new name and removes the old name."""
    reply, old = _moved(c, "MOVE")
    demand(c.send("HEAD", old).status == 404, "the old name still exists", Otherwise)
    return confirm(f"{reply.status}")


def _moved(c: Http, method: str) -> tuple[Reply, str]:
    """Return the answer to COPY or MOVE, and the key of the old file.

    Raises Refuted if the new file has other bytes.
    """
    old, new, scheme = c.key(f"{method}-source"), c.key(f"{method}-target"), "https" if c.wire.secure else "http"
    c.put(old, SMALL)
    to = {"Destination": f"{scheme}://{c.wire.host}{c.target(new)}", "Overwrite": "T"}
    reply = require_status(c.send(method, old, to), method)
    demand(c.holds(new, SMALL), f"{method} answered {reply.status}, but the new file does not have the bytes")
    return reply, old


def etag(c: Http) -> Answer:
    """Check that different content of the same length has a different ETag, as caches and conditional requests need."""
    seen = []
    for body in (SMALL, SMALL[::-1]):
        c.put(c.key("etag"), body)
        seen.append(c.send("HEAD", c.key("etag")).headers.get("etag", ""))
    demand(bool(seen[0]), "no ETag")
    demand(seen[0] != seen[1], "the same ETag for two contents that were written within a second", Otherwise)
    demand(seen[0].removeprefix("W/").startswith('"'), f"without quotes: {seen[0]}", Otherwise)
    return confirm(f"{'weak' if seen[0].startswith('W/') else 'strong'}, changes with the content")


def _adler32(body: bytes) -> str:
    return f"{zlib.adler32(body):08x}"


def _digest(c: Http, name: str, checksum: Callable[[bytes], str]) -> Answer:
    """Check `Want-Digest` (RFC 3230), which XRootD, dCache and EOS support."""
    digest = ""
    for method in ("HEAD", "GET"):
        reply = require_status(c.send(method, c.known, {"Want-Digest": name}), f"{method} with Want-Digest")
        digest = reply.headers.get("digest", "")
        if digest:
            break
    demand(bool(digest), "no Digest in the answer")
    parts = (part.strip().partition("=") for part in digest.split(","))
    got = {kind.lower(): value for kind, _, value in parts}.get(name, "")
    demand(bool(got), f"returned as {digest[:60]} instead", Otherwise)
    wanted = checksum(c.body)
    demand(got.lower() == wanted.lower(), f"{got} instead of {wanted}", Otherwise)
    return confirm(f"{name} {got}, the known object's")


def listing(c: Http) -> Answer:
    """Check that PROPFIND lists a folder with LISTED files completely."""
    require_status(c.send("MKCOL", c.key("many/")), "MKCOL")
    wanted = {f"{i:04d}" for i in range(LISTED)}
    for name in sorted(wanted):
        c.put(c.key(f"many/{name}"), b"x")
    got = wanted & {p.rstrip("/").rpartition("/")[2] for p in c.propfind(c.key("many/"), "1")}
    demand(len(got) == LISTED, f"{len(got)} of {LISTED} files listed")
    return confirm(f"PROPFIND, {LISTED} files in one answer")


def recursive(c: Http) -> Answer:
    """Check that DELETE of a folder also removes its files."""
    c.send("MKCOL", c.key("many/"))
    c.put(c.key("many/0000"), b"x")
    reply = require_status(c.send("DELETE", c.key("many/")), "DELETE of a folder")
    demand(c.send("HEAD", c.key("many/0000")).status == 404, f"answered {reply.status}, but its files are still there")
    return confirm(f"{reply.status}")


def without_token(c: Http) -> Answer:
    """Check that the server rejects a read without the token."""
    demand(bool(c.token), "this endpoint is used without a token", NotTried)
    reply = c.send("GET", c.known, token=False)
    demand(not reply.good, f"read without the token: {reply.status}")
    return confirm(f"{reply.status}")


QUESTIONS: Questions = {
    **RANGES,
    **DAVIX,
    ("objects", "put, get, head"): put_get_head,
    ("objects", "missing object"): missing,
    ("objects", "key names"): names,
    ("objects", "overwrite and delete"): delete,
    ("objects", "copy"): copy,
    ("objects", "rename"): move,
    ("checksums", "ETag"): etag,
    ("checksums", "adler32 by Want-Digest"): partial(_digest, name="adler32", checksum=_adler32),
    ("checksums", "md5 by Want-Digest"): partial(_digest, name="md5", checksum=md5_header),
    **CONDITIONAL,
    ("listing", "a folder of 1001"): listing,
    ("delete", "a folder with all in it"): recursive,
    ("anonymous", "refused without the token"): without_token,
    **CONNECTION,
}
CONTEXT = Http
