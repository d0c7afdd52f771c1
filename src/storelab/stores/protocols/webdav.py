"""WebDAV as far as storelab needs it: facts, lists, whole objects, folders.

What servers do differently is dealt with here. No proxies; a request that finds its idle connection closed is tried
once more.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import urllib3

from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Endpoint

ASK = b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/></prop></propfind>'
CONNECTIONS = 16
AGAIN = frozenset({"GET", "PUT", "DELETE", "PROPFIND"})  # methods that do the same when done twice


class WebDav:
    """Names like those of fsspec's file systems. Paths are relative to the endpoint's URL, without '/' at either end.
    Thread-safe.

    Raises FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError, OSError (any other status), and
    urllib3's exceptions where no answer comes.
    """

    def __init__(self, endpoint: Endpoint):
        self.url = endpoint.url.rstrip("/")
        tls: dict[str, Any] = {"ssl_context": filesystems.tls_context(endpoint)} if self.url.startswith("https") else {}
        self.pool = urllib3.PoolManager(
            maxsize=CONNECTIONS,
            headers=filesystems.authorization(endpoint),
            timeout=urllib3.Timeout(connect=10, read=120),
            retries=urllib3.Retry(connect=0, read=1, redirect=5, other=0, status=0, allowed_methods=AGAIN),
            **tls,
        )

    def _ask(
        self, method: str, path: str, body: bytes | None = None, stream: bool = False, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        """Return the answer; with `stream` its body is not read."""
        answer = self.pool.request(
            method,
            f"{self.url}/{quote(path)}",
            body=body,
            headers=dict(self.pool.headers) | headers,
            redirect=method != "MKCOL",
            preload_content=not stream,
        )
        if answer.status < 300:
            return answer
        said = " ".join(re.sub(r"<[^>]*>", " ", answer.data[:500].decode(errors="replace")).split())[:100]
        text = f"HTTP {answer.status} to {method} {self.url}/{path}" + (f" ({said})" if said else "")
        if "not a directory" in said:  # XrdHttp answers 500 where others answer 404
            raise NotADirectoryError(text)
        if answer.status in (404, 410) or "no such file" in said:
            raise FileNotFoundError(text)
        raise {403: PermissionError, 405: FileExistsError if method == "MKCOL" else OSError}.get(
            answer.status, OSError
        )(text)

    def _found(self, path: str, depth: str) -> Iterator[tuple[list[str], bool, int]]:
        """(components of its path, whether it is a folder, bytes) of a folder or object.

        With depth `1`: of what is in the folder, too.
        """
        headers = {"Depth": depth, "Content-Type": "application/xml"}
        for entry in ElementTree.fromstring(self._ask("PROPFIND", path, ASK, **headers).data).iter("{DAV:}response"):
            place = re.sub(r"^https?://[^/]*", "", entry.findtext("{DAV:}href", "").strip())
            folder = entry.find(".//{DAV:}resourcetype/{DAV:}collection") is not None
            yield (
                [c for c in unquote(place).split("/") if c],
                folder,
                int(entry.findtext(".//{DAV:}getcontentlength") or 0),
            )

    def info(self, path: str) -> dict[str, Any]:
        _, folder, size = next(self._found(path, "0"))
        return {"name": path, "type": "directory" if folder else "file", "size": size}

    def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        """What is in a folder. The folder itself is the entry with the shortest path, however the server spells it."""
        path = path.strip("/")
        found = list(self._found(path + "/" if path else "", "1"))
        shortest = min((len(place) for place, _, _ in found), default=0)
        return [
            {"name": posixpath.join(path, place[-1]), "type": "directory" if folder else "file", "size": size}
            for place, folder, size in found
            if len(place) > shortest
        ]

    def server(self) -> str:
        """What the server says of itself, e.g. `nginx/1.22.1`; '' where it is silent."""
        return self.pool.request("OPTIONS", self.url + "/", redirect=False).headers.get("Server", "")

    def cat_file(self, path: str, most: int | None = None) -> bytes:
        """Return the object, or its first `most` bytes."""
        answer = self._ask("GET", path, stream=most is not None)
        if most is None:
            return answer.data
        try:
            return answer.read(most)
        finally:
            answer.close()

    def pipe_file(self, path: str, data: bytes) -> None:
        self._ask("PUT", path, data)

    def rm_file(self, path: str) -> None:
        self._ask("DELETE", path)

    def mkdir(self, path: str) -> None:
        """One level; nginx wants the '/'."""
        self._ask("MKCOL", path + "/")

    def rmdir(self, path: str) -> None:
        """An empty folder. Many servers would remove a full one with all that is in it, so it is looked into first."""
        if self.ls(path):
            raise OSError(f"folder {self.url}/{path} is not empty")
        self._ask("DELETE", path + "/")
