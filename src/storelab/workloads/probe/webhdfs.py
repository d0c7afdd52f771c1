"""Questions to a WebHDFS. "WebHDFS REST API", Apache Hadoop.

The NameNode sends clients on to a DataNode; the probe goes there itself, each step one request.
"""

import json
from urllib.parse import quote, urlencode, urlsplit

from storelab.engines.contract import Job
from storelab.workloads.probe import multirange
from storelab.workloads.probe.answers import Answer, Checks, NotTried, Otherwise, demand, yes
from storelab.workloads.probe.context import Context
from storelab.workloads.probe.http_ranges import CONNECTION, RANGES
from storelab.workloads.probe.plain_http import Connection, Reply

OWN = Checks()
SMALL = b"one small file of the probe"
LISTED = 120  # writing one takes 50 to 150 ms
OFFSETS = 50  # requests in a row, each with an offset and a length


class WebHdfs(Context):
    def __init__(self, job: Job):
        super().__init__(job)
        self.base = "/" + urlsplit(self.endpoint.url).path.strip("/")
        self.own = f"{self.folder}{job.client}/"
        self._nodes: dict[str, Connection] = {}

    def target(self, key: str, op: str, **parameters: str) -> str:
        path = f"/webhdfs/v1{self.base if self.base != '/' else ''}/{self.bucket.name}/{key}"
        user = {"user.name": self.endpoint.user} if self.endpoint.user else {}
        return quote(path, safe="/-._~") + "?" + urlencode({"op": op, **user, **parameters})

    def node(self, url: str) -> Connection:
        """The connection to the DataNode that a Location names."""
        parts = urlsplit(url)
        if parts.netloc not in self._nodes:
            self._nodes[parts.netloc] = Connection(
                f"{parts.scheme}://{parts.netloc}", self.wire.context, self.wire.timeout, self.wire.pace_s
            )
        return self._nodes[parts.netloc]

    def send(self, method: str, key: str, op: str, wire: Connection | None = None, **parameters: str) -> Reply:
        """What the NameNode itself answers."""
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
        """Two steps: the NameNode's redirect, then the DataNode's answer; the NameNode's where it sends nobody on."""
        first = self.send(method, key, op, **parameters)
        place = first.headers.get("location")
        if first.status not in (302, 303, 307) or not place:
            return first
        parts = urlsplit(place)
        kind = {"Content-Type": "application/octet-stream"} if body is not None else {}
        return self.node(place).send(method, parts.path + "?" + parts.query, {**kind, **(headers or {})}, body)

    def put(self, name: str, body: bytes, **parameters: str) -> Reply:
        return self.at_node("PUT", self.own + name, "CREATE", body, **{"overwrite": "true", **parameters})

    def holds(self, name: str, body: bytes) -> bool:
        reply = self.at_node("GET", self.own + name, "OPEN")
        return reply.status == 200 and reply.body == body

    def get_ranges(self, value: str, wire: Connection | None = None) -> Reply:
        return self.at_node("GET", self.known, "OPEN", headers={"Range": value})

    def get_whole(self) -> Reply:
        return self.at_node("GET", self.known, "OPEN")

    def get_small(self, wire: Connection) -> Reply:
        return self.send("GET", self.known, "GETFILESTATUS", wire)

    def get_missing(self, wire: Connection) -> Reply:
        return self.send("GET", self.own + "never-written", "GETFILESTATUS", wire)

    def close(self) -> None:
        super().close()
        for wire in self._nodes.values():
            wire.close()


def _said(reply: Reply) -> str:
    """Status and the exception's name."""
    try:
        return f"{reply.status} {json.loads(reply.body)['RemoteException']['exception']}"
    except (ValueError, KeyError, TypeError):
        return str(reply.status)


@OWN.add("ranges", "offset and length")
def offsets(c: WebHdfs) -> Answer:
    """WebHDFS' own way to a part of a file: one request (two steps) for each range."""
    for first, last in multirange.spread(OFFSETS, len(c.body)):
        reply = c.at_node("GET", c.known, "OPEN", offset=str(first), length=str(last - first + 1))
        demand(reply.status == 200, f"answered {_said(reply)}")
        demand(
            reply.body == c.body[first : last + 1], f"{len(reply.body)} bytes, not those at {first}-{last}", Otherwise
        )
    return yes(f"{OFFSETS} ranges in as many requests of two steps, every byte compared", requests=2 * OFFSETS)


@OWN.add("objects", "put, get, head")
def put_get_head(c: WebHdfs) -> Answer:
    made = c.put("object", SMALL)
    demand(made.good, f"CREATE answered {_said(made)}")
    demand(c.holds("object", SMALL), "OPEN does not answer what was written")
    status = c.send("GET", c.own + "object", "GETFILESTATUS")
    demand(status.status == 200, f"GETFILESTATUS answered {_said(status)}")
    facts = json.loads(status.body)["FileStatus"]
    demand(facts["length"] == len(SMALL), f"GETFILESTATUS says {facts['length']} bytes", Otherwise)
    return yes(f"{made.status}, 200, {facts['replication']} copies, blocks of {facts['blockSize']} bytes")


@OWN.add("objects", "missing object")
def missing(c: WebHdfs) -> Answer:
    reply = c.at_node("GET", c.own + "never-written", "OPEN")
    demand(reply.status == 404, f"{_said(reply)} instead of 404", Otherwise)
    return yes(_said(reply))


@OWN.add("objects", "overwrite and delete")
def delete(c: WebHdfs) -> Answer:
    for body in (SMALL, SMALL[::-1]):
        demand((made := c.put("delete", body)).good, f"CREATE answered {_said(made)}")
    demand(c.holds("delete", SMALL[::-1]), "the first content is read after the second was written")
    gone = c.send("DELETE", c.own + "delete", "DELETE")
    demand(gone.good and json.loads(gone.body).get("boolean") is True, f"DELETE answered {_said(gone)}")
    demand(c.send("GET", c.own + "delete", "GETFILESTATUS").status == 404, "deleted, and still there")
    return yes(f"{gone.status}, then 404")


@OWN.add("objects", "rename")
def rename(c: WebHdfs) -> Answer:
    c.put("move-source", SMALL)
    target = f"{c.base.rstrip('/')}/{c.bucket.name}/{c.own}move-target"
    reply = c.send("PUT", c.own + "move-source", "RENAME", destination=target)
    demand(reply.good and json.loads(reply.body).get("boolean") is True, f"answered {_said(reply)}")
    demand(c.holds("move-target", SMALL), "renamed, but not there")
    return yes(f"{reply.status}")


@OWN.add("objects", "append")
def append(c: WebHdfs) -> Answer:
    c.put("append", SMALL)
    reply = c.at_node("POST", c.own + "append", "APPEND", b" and more")
    demand(reply.good, f"answered {_said(reply)}")
    demand(c.holds("append", SMALL + b" and more"), "answered well, but not appended", Otherwise)
    return yes(f"{reply.status}")


@OWN.add("checksums", "file checksum")
def checksum(c: WebHdfs) -> Answer:
    """A checksum of checksums of blocks: it tells equal files of equal block sizes, and is no MD5 of the content."""
    reply = c.at_node("GET", c.known, "GETFILECHECKSUM")
    demand(reply.status == 200, f"answered {_said(reply)}")
    facts = json.loads(reply.body)["FileChecksum"]
    c.put("same", c.body)
    again = json.loads(c.at_node("GET", c.own + "same", "GETFILECHECKSUM").body)["FileChecksum"]
    demand(facts["bytes"] == again["bytes"], "another one for the same bytes", Otherwise)
    return yes(f"{facts['algorithm']}, the same for the same bytes")


@OWN.add("conditional", "put if absent")
def put_if_absent(c: WebHdfs) -> Answer:
    """`overwrite=false`"""
    c.put("if-absent", SMALL)
    second = c.put("if-absent", b"intruder", overwrite="false")
    demand(c.holds("if-absent", SMALL), f"an existing file is overwritten ({_said(second)})")
    demand(not second.good, f"not overwritten, but answered {second.status}", Otherwise)
    return yes(f"overwrite=false: {_said(second)}, its bytes untouched")


@OWN.add("listing", f"a folder of {LISTED}")
def listing(c: WebHdfs) -> Answer:
    wanted = {f"{i:04d}" for i in range(LISTED)}
    for name in sorted(wanted):
        demand((made := c.put(f"many/{name}", b"x")).good, f"CREATE answered {_said(made)}")
    reply = c.send("GET", c.own + "many", "LISTSTATUS")
    demand(reply.status == 200, f"answered {_said(reply)}")
    found = {f["pathSuffix"] for f in json.loads(reply.body)["FileStatuses"]["FileStatus"]}
    demand(found == wanted, f"{len(found & wanted)} of {LISTED} files listed")
    return yes(f"LISTSTATUS, {LISTED} files in one answer")


@OWN.add("listing", "pages")
def pages(c: WebHdfs) -> Answer:
    reply = c.send("GET", c.own + "many", "LISTSTATUS_BATCH", startAfter="0099")
    if reply.status == 404:
        raise NotTried("the folder is not there")
    demand(reply.status == 200, f"answered {_said(reply)}")
    page = json.loads(reply.body)["DirectoryListing"]
    names = [f["pathSuffix"] for f in page["partialListing"]["FileStatuses"]["FileStatus"]]
    demand(bool(names) and names[0] == "0100", f"startAfter is not obeyed: it begins with {names[:1]}", Otherwise)
    return yes(f"LISTSTATUS_BATCH, {len(names)} behind the 100th, {page['remainingEntries']} remain")


@OWN.add("delete", "a folder with all in it")
def recursive(c: WebHdfs) -> Answer:
    c.put("many/0000", b"x")
    plain = c.send("DELETE", c.own + "many", "DELETE")
    reply = c.send("DELETE", c.own + "many", "DELETE", recursive="true")
    demand(reply.good, f"recursive=true answered {_said(reply)}")
    demand(c.send("GET", c.own + "many", "GETFILESTATUS").status == 404, "still there")
    return yes(f"{reply.status}; without recursive=true {_said(plain)}")


CHECKS = Checks([*RANGES, *OWN, *CONNECTION])
CONTEXT = WebHdfs
