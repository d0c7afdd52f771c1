"""WebHDFS as an fsspec file system that reads exact ranges, writes a file with one request, and detects errors.

The WebHDFS class of fsspec (2026.9) has four problems: it reads 4 MiB more than every range, creates an empty file and
appends to it, ignores the status of a DataNode's answer to a read, and waits without a timeout. This file system is
thread-safe, because it has no cookies, no automatic redirects, and one connection pool.
"""

from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import quote

import requests
from fsspec.implementations import webhdfs
from requests.adapters import HTTPAdapter

TIMEOUT = (10, 120)  # seconds to connect, and between two pieces of an answer
HOSTS = 64  # maximum number of NameNodes and DataNodes with open connections
ABSENT = ("FileNotFoundException", "PathNotFoundException")
DENIED = ("SecurityException", "AccessControlException")
OCTETS = {"content-type": "application/octet-stream"}


class HdfsError(OSError):
    """An error that the system answers. `status` is the HTTP status; `kind` is the name of Java's exception."""

    kind = ""
    status = 0


class HdfsAbsent(FileNotFoundError):
    """A path does not exist."""

    kind = ""
    status = 0


class HdfsDenied(PermissionError):
    """The user has no permission for a request."""

    kind = ""
    status = 0


def judged(answer: requests.Response) -> requests.Response:
    """Return the answer if it is not an error. Raises HdfsError, HdfsAbsent, HdfsDenied."""
    if answer.status_code < 400:
        return answer
    try:
        remote = answer.json()["RemoteException"]
        kind, message = str(remote["exception"]), str(remote["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        kind, message = "", answer.text[:200].partition("\n")[0]
    cls = HdfsAbsent if kind in ABSENT else HdfsDenied if kind in DENIED or answer.status_code == 401 else HdfsError
    error = cls(f"HTTP {answer.status_code} {kind}: {message}")
    error.kind, error.status = kind, answer.status_code
    raise error


class WebHDFS(webhdfs.WebHDFS):
    """WebHDFS for measurements. `connections` is the number of open connections to each host."""

    cachable = False

    def __init__(self, host: str, port: int, connections: int = 1, **options: Any):
        self.connections = connections
        super().__init__(host, port, **options)

    def _connect(self) -> None:
        super()._connect()
        self.session.trust_env = False
        self.session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = HTTPAdapter(pool_connections=HOSTS, pool_maxsize=self.connections)
        self.session.mount("http://", adapter)
        self.session.mount("https://", adapter)

    def _call(
        self,
        op: str,
        method: str = "get",
        path: str | None = None,
        data: Any = None,
        redirect: bool = True,
        **options: Any,
    ) -> requests.Response:
        name = self._strip_protocol(path) if path is not None else ""
        url = self._apply_proxy(self.url + quote(name, safe="/="))
        parameters = options | self.pars | {"op": op.upper()}
        return judged(
            self.session.request(method, url, params=parameters, data=data, allow_redirects=redirect, timeout=TIMEOUT)
        )

    def send(self, op: str, method: str, path: str, body: bytes, **options: Any) -> None:
        """Send CREATE or APPEND. The NameNode answers with a location on a DataNode, which then gets the body."""
        where = self._apply_proxy(self._call(op, method, path, redirect=False, **options).headers["Location"])
        judged(self.session.request(method, where, data=body, headers=OCTETS, timeout=TIMEOUT))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Return these bytes. Bytes after the end of the file are omitted, as in a slice."""
        if (start or 0) < 0 or (end or 0) < 0:
            start, end = slice(start, end).indices(self.info(path)["size"])[:2]
        begin = start or 0
        if end is not None and end <= begin:
            return b""
        requested: dict[str, Any] = {"offset": begin} if begin else {}
        if end is not None:
            requested["length"] = end - begin
        try:
            answer = self._call("OPEN", path=path, redirect=False, **requested)
            if "Location" in answer.headers:  # without a location, a gateway has sent the data itself
                answer = judged(self.session.get(self._apply_proxy(answer.headers["Location"]), timeout=TIMEOUT))
        except HdfsError as error:
            if begin and "out of the range" in str(error):
                return b""
            raise
        return answer.content

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self.send("CREATE", "PUT", path, value, overwrite="true" if mode == "overwrite" else "false")

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """Return the entries of a folder. For a file, return the file itself."""
        entries = super().ls(path, detail=True)
        for entry in entries:
            if not entry["pathSuffix"]:
                entry["name"] = path.rstrip("/")
        return entries if detail else [entry["name"] for entry in entries]

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **options: Any,
    ) -> "File":
        return File(
            self,
            path,
            mode=mode,
            block_size=block_size or self.blocksize,
            tempdir=self.tempdir,
            autocommit=autocommit,
            **options,
        )


class File(webhdfs.WebHDFile):
    """A file that is written with one CREATE request. Only content that exceeds the buffer is appended."""

    def _initiate_upload(self) -> None:
        self.created = "a" in self.mode

    def _upload_chunk(self, final: bool = False) -> bool:
        body = self.buffer.getvalue()
        if self.created and body:
            self.fs.send("APPEND", "POST", self.path, body)
        elif not self.created:
            self.fs.send("CREATE", "PUT", self.path, body, overwrite="true")
        self.created = True
        return True

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.cat_file(self.path, max(start, 0), min(end, self.size))
