"""Ask questions to a WebHDFS server. See "WebHDFS REST API", Apache Hadoop.

The NameNode redirects clients to a DataNode. The probe follows these redirects itself, with one request for each step.
"""

import json
from functools import partial
from urllib.parse import quote, urlencode, urlsplit

from storelab.engines.contract import Job
from storelab.workloads.probe import byteranges
from storelab.workloads.probe.answers import Answer, NotTried, Otherwise, Questions, confirm, demand
from storelab.workloads.probe.byteranges import CONNECTION, RANGES
from storelab.workloads.probe.context import SMALL, OverHttp, overwritten
from storelab.workloads.probe.plain_http import Connection, Reply, require_status

LISTED = 120  # writing one file takes 50 to 150 ms
OFFSETS = 50  # number of requests with different offsets and lengths


class WebHdfs(OverHttp):
    """The context for WebHDFS: requests to the NameNode, and paths for this client."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.base = f"{urlsplit(self.endpoint.url).path.rstrip('/')}/{self.bucket.name}/"

    def target(self, key: str, op: str, **parameters: str) -> str:
        user = {"user.name": self.endpoint.user} if self.endpoint.user else {}
        path = quote(f"/webhdfs/v1{self.base}{key}", safe="/-._~")
        return path + "?" + urlencode({"op": op, **user, **parameters})

    def send(self, method: str, key: str, op: str, wire: Connection | None = None, **parameters: str) -> Reply:
        """Return the answer of the NameNode."""
        return (wire or self.wire).send(method, self.target(key, op, **parameters))

    def at_node(
        self,
        method: str,
        key: str,
        op: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        **parameters: str,
    ) -> Reply:
        """Return the DataNode's answer after the NameNode's redirect.

        Without a redirect, return the NameNode's answer.
        """
        first = self.send(method, key, op, **parameters)
        place = first.headers.get("location")
        if first.status not in (302, 303, 307) or not place:
            return first
        parts = urlsplit(place)
        kind = {"Content-Type": "application/octet-stream"} if body is not None else {}
        node = self.wire_to(f"{parts.scheme}://{parts.netloc}")
        return node.send(method, parts.path + "?" + parts.query, {**kind, **(headers or {})}, body)

    def put(self, key: str, body: bytes) -> Reply:
        """Write a file. Raises Refuted if it is not accepted."""
        return _require_status(self.at_node("PUT", key, "CREATE", body, overwrite="true"), "CREATE")

    def holds(self, key: str, body: bytes) -> bool:
        """Return True if the file exists with exactly these bytes."""
        return self.at_node("GET", key, "OPEN").holds(body)

    def get_ranges(self, value: str, wire: Connection | None = None) -> Reply:
        return self.at_node("GET", self.known, "OPEN", headers={"Range": value})

    def get_whole(self) -> Reply:
        return self.at_node("GET", self.known, "OPEN")

    def get_small(self, wire: Connection) -> Reply:
        return self.send("GET", self.known, "GETFILESTATUS", wire)

    def get_missing(self, wire: Connection) -> Reply:
        return self.send("GET", self.key("never-written"), "GETFILESTATUS", wire)


def _described(reply: Reply) -> str:
    """Return the status, and the name of the exception."""
    try:
        return f"{reply.status} {json.loads(reply.body)['RemoteException']['exception']}"
    except (ValueError, KeyError, TypeError):
        return str(reply.status)


_require_status = partial(require_status, describe=_described)


def offsets(c: WebHdfs) -> Answer:
    """Check the parameters of WebHDFS for a part of a file. Each range needs one request of two steps."""
    for first, last in byteranges.spread(OFFSETS, len(c.body)):
        reply = c.at_node("GET", c.known, "OPEN", offset=str(first), length=str(last - first + 1))
        _require_status(reply, status=200)
        demand(
            reply.body == c.body[first : last + 1], f"{len(reply.body)} bytes, not those at {first}-{last}", Otherwise
        )
    return confirm(f"{OFFSETS} ranges in {OFFSETS} requests of two steps, every byte compared", requests=2 * OFFSETS)


def put_get_head(c: WebHdfs) -> Answer:
    """Check that a new file is read back unchanged and that GETFILESTATUS returns its size."""
    key = c.key("object")
    made = c.put(key, SMALL)
    demand(c.holds(key, SMALL), "OPEN does not return the written bytes")
    facts = json.loads(_require_status(c.send("GET", key, "GETFILESTATUS"), "GETFILESTATUS", 200).body)["FileStatus"]
    demand(facts["length"] == len(SMALL), f"GETFILESTATUS reports {facts['length']} bytes", Otherwise)
    return confirm(f"{made.status}, 200, {facts['replication']} copies, blocks of {facts['blockSize']} bytes")


def missing(c: WebHdfs) -> Answer:
    """Check that OPEN of a file that does not exist answers 404."""
    reply = c.at_node("GET", c.key("never-written"), "OPEN")
    demand(reply.status == 404, f"{_described(reply)} instead of 404", Otherwise)
    return confirm(_described(reply))


def delete(c: WebHdfs) -> Answer:
    """Check that a file does not exist after DELETE."""
    key = c.key("delete")
    overwritten(c, key)
    gone = c.send("DELETE", key, "DELETE")
    demand(gone.good and json.loads(gone.body).get("boolean") is True, f"DELETE answered {_described(gone)}")
    demand(c.send("GET", key, "GETFILESTATUS").status == 404, "deleted, but it still exists")
    return confirm(f"{gone.status}, then 404")


def rename(c: WebHdfs) -> Answer:
    """Check that RENAME gives a file a new name."""
    old, new = c.key("move-source"), c.key("move-target")
    c.put(old, SMALL)
    reply = c.send("PUT", old, "RENAME", destination=c.base + new)
    demand(reply.good and json.loads(reply.body).get("boolean") is True, f"answered {_described(reply)}")
    demand(c.holds(new, SMALL), "renamed, but the new name does not exist with the same content")
    return confirm(f"{reply.status}")


def append(c: WebHdfs) -> Answer:
    """Check that APPEND adds bytes at the end of a file."""
    key = c.key("append")
    c.put(key, SMALL)
    reply = _require_status(c.at_node("POST", key, "APPEND", b" and more"))
    demand(c.holds(key, SMALL + b" and more"), "accepted, but not appended", Otherwise)
    return confirm(f"{reply.status}")


def checksum(c: WebHdfs) -> Answer:
    """Check the checksum of the blocks' checksums, which depends on the block size and is not an MD5 of the content."""
    facts = json.loads(_require_status(c.at_node("GET", c.known, "GETFILECHECKSUM"), status=200).body)["FileChecksum"]
    c.put(c.key("same"), c.body)
    again = json.loads(c.at_node("GET", c.key("same"), "GETFILECHECKSUM").body)["FileChecksum"]
    demand(facts["bytes"] == again["bytes"], "a different checksum for the same bytes", Otherwise)
    return confirm(f"{facts['algorithm']}, the same for the same bytes")


def put_if_absent(c: WebHdfs) -> Answer:
    """Check that a CREATE with `overwrite=false` does not replace a file."""
    key = c.key("if-absent")
    c.put(key, SMALL)
    second = c.at_node("PUT", key, "CREATE", b"intruder", overwrite="false")
    demand(c.holds(key, SMALL), f"an existing file is overwritten ({_described(second)})")
    demand(not second.good, f"not overwritten, but answered {second.status}", Otherwise)
    return confirm(f"overwrite=false: {_described(second)}, its bytes unchanged")


def listing(c: WebHdfs) -> Answer:
    """Check that LISTSTATUS lists a folder with LISTED files completely."""
    wanted = {f"{i:04d}" for i in range(LISTED)}
    for name in sorted(wanted):
        c.put(c.key(f"many/{name}"), b"x")
    reply = _require_status(c.send("GET", c.key("many"), "LISTSTATUS"), status=200)
    found = {f["pathSuffix"] for f in json.loads(reply.body)["FileStatuses"]["FileStatus"]}
    demand(found == wanted, f"{len(found & wanted)} of {LISTED} files listed")
    return confirm(f"LISTSTATUS, {LISTED} files in one answer")


def pages(c: WebHdfs) -> Answer:
    """Check that LISTSTATUS_BATCH continues after the name given as `startAfter`."""
    reply = c.send("GET", c.key("many"), "LISTSTATUS_BATCH", startAfter="0099")
    demand(reply.status != 404, "the folder does not exist", NotTried)
    page = json.loads(_require_status(reply, status=200).body)["DirectoryListing"]
    names = [f["pathSuffix"] for f in page["partialListing"]["FileStatuses"]["FileStatus"]]
    demand(bool(names) and names[0] == "0100", f"startAfter is ignored: the page begins with {names[:1]}", Otherwise)
    return confirm(f"LISTSTATUS_BATCH, {len(names)} after the 100th, {page['remainingEntries']} remain")


def recursive(c: WebHdfs) -> Answer:
    """Check that DELETE with recursive=true removes a folder with its files."""
    folder = c.key("many")
    c.put(f"{folder}/0000", b"x")
    plain = c.send("DELETE", folder, "DELETE")
    reply = _require_status(c.send("DELETE", folder, "DELETE", recursive="true"), "recursive=true")
    demand(c.send("GET", folder, "GETFILESTATUS").status == 404, "the folder still exists")
    return confirm(f"{reply.status}; without recursive=true {_described(plain)}")


QUESTIONS: Questions = {
    **RANGES,
    ("ranges", "offset and length"): offsets,
    ("objects", "put, get, head"): put_get_head,
    ("objects", "missing object"): missing,
    ("objects", "overwrite and delete"): delete,
    ("objects", "rename"): rename,
    ("objects", "append"): append,
    ("checksums", "file checksum"): checksum,
    ("conditional", "put if absent"): put_if_absent,
    ("listing", f"a folder of {LISTED}"): listing,
    ("listing", "pages"): pages,
    ("delete", "a folder with all in it"): recursive,
    **CONNECTION,
}
CONTEXT = WebHdfs
