"""Access to stores with files and folders: POSIX, root:// and WebHDFS through fsspec, and WebDAV."""

import posixpath
import re
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

import urllib3

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.access import (
    Access,
    AccessRefused,
    BucketExists,
    BucketNotEmpty,
    NoSuchBucket,
)
from storelab.stores.protocols.endpoint import Endpoint

ASK = b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/></prop></propfind>'
CONNECTIONS = 16
AGAIN = frozenset({"GET", "PUT", "DELETE", "PROPFIND"})  # idempotent methods, which can be retried
NO_CREDENTIALS = "the server requires credentials (401)"
UNREACHABLE = (
    *("refused", "connecterror", "connection error", "connection aborted", "connection reset", "socket error"),
    *("unreachable", "no route", "timed out", "timeout", "expired"),
)
# Problems that the user can fix: words in a library's message, the key in the store's settings, the problem, the hint.
MISTAKES = (
    (
        ("alert certificate", "alert_certificate", "alert unknown ca", "alert bad certificate", "certificate required"),
        "",
        "{host} refuses the certificate of the client ({text})",
        "renew it, and check that the server trusts its CA",
    ),
    (
        ("certificate", "sslerror", "tls error", "[ssl"),
        ".endpoint",
        "TLS with {host} fails ({text})",
        "check `endpoint` and `ca_file`",
    ),
    (
        ("name or service", "resolve", "invalid address", "getaddrinfo"),
        ".endpoint",
        "the name in {host} cannot be resolved",
        "check the spelling and DNS",
    ),
    (UNREACHABLE, ".endpoint", "{host} cannot be reached", "check address and port, and that the server runs"),
    (
        ("http 401", "unauthorized", "auth failed"),
        "",
        NO_CREDENTIALS,
        "set the store's `token`, or get a proxy or ticket first",
    ),
)


class FilesAccess(Access):
    """Access to folders. Buckets are folders below the endpoint's URL; keys are paths below buckets.

    With `read_only`, writing raises UserError.
    """

    deletes_at_once = 100

    def __init__(self, endpoint: Endpoint, place: str, read_only: bool = False):
        self.endpoint, self.place, self.read_only = endpoint, place, read_only
        if endpoint.protocol == "http":  # listing needs WebDAV
            self.fs: Any = WebDav(endpoint)
            self.base = ""
        else:
            self.fs, self.base = filesystems.data(endpoint, {}, 16), filesystems.base(endpoint)

    def _path(self, bucket: str, key: str = "") -> str:
        return posixpath.join(self.base, bucket, key) if key else posixpath.join(self.base, bucket)

    @contextmanager
    def _explained(self, writing: bool = False) -> Iterator[None]:
        if writing and self.read_only:
            raise UserError(self.place, "the store is read-only and cannot be written", "set `read_only` to false")
        try:
            yield
        except (UserError, MeasurementFailed, NoSuchBucket, BucketExists, AccessRefused):
            raise
        except Exception as error:  # noqa: BLE001 - every protocol's library raises its own classes
            if isinstance(error, PermissionError) or "[3010]" in str(error):  # XRootD's number
                raise AccessRefused(_line(error)) from None
            raise explain(error, self.endpoint, self.place) from None

    def _present(self, path: str) -> bool:
        """Return whether a path exists.

        `info` is used, because `exists` of some file systems returns False if the connection fails.
        """
        try:
            self.fs.info(path)
            return True
        except OSError as error:
            if absent(error):
                return False
            raise

    def holds(self, bucket: str, key: str = "") -> bool:
        """Return whether this object exists, or this bucket if the key is empty."""
        with self._explained():
            return self._present(self._path(bucket, key))

    def _bucket(self, bucket: str) -> None:
        if not self._present(self._path(bucket)):
            raise NoSuchBucket(bucket, self.place)

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        with self._explained():
            try:
                return self._get(self._path(bucket, key), most)
            except OSError as error:
                if not absent(error):
                    raise
            self._bucket(bucket)
            return None

    def _get(self, path: str, most: int | None) -> bytes:
        if self.endpoint.protocol == "http":
            return self.fs.cat_file(path, most)
        with self.fs.open(path, "rb") as f:
            return f.read() if most is None else f.read(most)

    def write(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object. Folders are created only after a failure, because most servers create them automatically."""
        with self._explained(writing=True):
            self._bucket(bucket)
            path = self._path(bucket, key)
            try:
                self._put(path, data)
            except OSError:
                if "/" not in key:
                    raise
                self._make_folders(posixpath.dirname(path))
                self._put(path, data)

    def _put(self, path: str, data: bytes) -> None:
        if self.endpoint.protocol == "http":
            self.fs.pipe_file(path, data)
            return
        if self.endpoint.protocol != "file":
            with self.fs.open(path, "wb") as f:
                f.write(data)
            return
        temporary = f"{path}.{uuid.uuid4().hex[:12]}.storelab-tmp"  # makes the write atomic
        try:
            with self.fs.open(temporary, "wb") as f:
                f.write(data)
            self.fs.mv(temporary, path)
        except BaseException:
            with suppress(OSError):
                self.fs.rm_file(temporary)
            raise

    def _make_folders(self, path: str) -> None:
        if self.endpoint.protocol != "http":
            self.fs.makedirs(path, exist_ok=True)
        elif not self._present(path):  # MKCOL creates only one level
            if above := posixpath.dirname(path):
                self._make_folders(above)
            with suppress(FileExistsError):
                self.fs.mkdir(path)

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        with self._explained():
            self._bucket(bucket)
            root, begin = self._path(bucket).rstrip("/") + "/", posixpath.dirname(prefix)
            waiting = [self._path(bucket, begin)]
            while waiting:
                folder = waiting.pop()
                try:
                    entries = self.fs.ls(folder, detail=True)
                except OSError as error:
                    if absent(error):
                        continue  # there is nothing below this prefix, or it was removed meanwhile
                    raise
                for entry in entries:
                    name = entry["name"].rstrip("/")
                    if (
                        entry["type"] == "directory" and name == folder
                    ):  # XRootD answers like this if it cannot read the folder
                        raise PermissionError(f"folder {name} cannot be listed")
                    key = ("/" + name.lstrip("/")).partition("/" + root.lstrip("/"))[2]
                    if not key.startswith(prefix) and not prefix.startswith(key + "/"):
                        continue
                    if entry["type"] == "directory":
                        waiting.append(name)
                    elif key.startswith(prefix):
                        yield key, int(entry["size"])

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        with self._explained(writing=True), ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: self._remove(self._path(bucket, key)), keys))

    def _remove(self, path: str) -> None:
        try:
            self.fs.rm_file(path)
        except OSError:
            if self._present(path):
                raise

    def bucket_names(self) -> list[str]:
        with self._explained():
            entries = self.fs.ls(self.base, detail=True)
            return [posixpath.basename(e["name"].rstrip("/")) for e in entries if e["type"] == "directory"]

    def prefixes(self, bucket: str, above: str) -> list[str]:
        with self._explained():
            self._bucket(bucket)
            path = self._path(bucket, above.rstrip("/"))
            entries = self.fs.ls(path, detail=True) if self._present(path) else []
            return [f"{above}{posixpath.basename(e['name'].rstrip('/'))}/" for e in entries if e["type"] == "directory"]

    def make_bucket(self, bucket: str) -> None:
        with self._explained(writing=True):
            if self._present(self._path(bucket)):
                raise BucketExists(bucket)
            try:
                if self.endpoint.protocol == "root":
                    self.fs.makedirs(self._path(bucket), exist_ok=True)
                else:
                    self.fs.mkdir(self._path(bucket))
            except FileExistsError:
                raise BucketExists(bucket) from None

    def drop_bucket(self, bucket: str) -> None:
        with self._explained(writing=True):
            self._drop(self._path(bucket))

    def _drop(self, path: str) -> None:
        for entry in self.fs.ls(path, detail=True):
            if entry["type"] != "directory":
                raise BucketNotEmpty(f"{self.place}: folder {path}", posixpath.basename(entry["name"]))
            if entry["name"].rstrip("/") == path.rstrip("/"):  # XRootD answers like this if it cannot read the folder
                raise PermissionError(f"folder {path} cannot be listed")
            self._drop(entry["name"].rstrip("/"))
        if self.endpoint.protocol == "webhdfs":
            self.fs.rm(path, recursive=False)
        else:
            self.fs.rmdir(path)


def absent(error: OSError) -> bool:
    """Return whether an error means that a path does not exist. XRootD's client reports this only in the text."""
    text = str(error).lower()
    return (
        isinstance(error, FileNotFoundError | NotADirectoryError)
        or "[3011]" in text
        or "no such file" in text
        or "not a directory" in text
    )


def _line(error: Exception) -> str:
    return " ".join(
        (str(error) if isinstance(error, OSError) and str(error) else f"{type(error).__name__}: {error}").split()
    )


def explain(error: Exception, endpoint: Endpoint, place: str) -> UserError | MeasurementFailed:
    """Return the exception to raise instead of an error of a file system's library."""
    parts, text = urlsplit(endpoint.url), _line(getattr(error, "reason", None) or error)  # urllib3 wraps the reason
    host = f"{parts.scheme}://{parts.netloc}"
    if endpoint.protocol == "file":
        return MeasurementFailed(f"{place}: {text[:200]}")
    for signs, key, problem, hint in MISTAKES:
        if any(sign in text.lower() for sign in signs):
            return UserError(f"{place}{key}", problem.format(host=host, text=text[:120]), hint)
    return MeasurementFailed(f"{place}: {text[:200]}")


def _begin(answer: urllib3.BaseHTTPResponse, whole: bool) -> bytes:
    """Return the first bytes of a body."""
    if whole:
        return answer.data[:500]
    data = answer.read(500)
    answer.close()
    return data


class WebDav:
    """A WebDAV client for metadata, lists, whole objects and folders.

    It handles differences between servers and does not use proxies. If the server has closed an idle connection, the
    request is retried once. The methods have the same names as those of fsspec's file systems. Paths are relative to
    the endpoint's URL, without '/' at either end. The client is thread-safe.

    The methods raise FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError, OSError (any other
    status), and urllib3's exceptions if there is no answer.
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
        self, method: str, path: str, body: bytes | None = None, whole: bool = True, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        """Send a request and return the answer. With `whole`, the body of the answer is read first."""
        answer = self.pool.request(
            method,
            f"{self.url}/{quote(path)}",
            body=body,
            headers=dict(self.pool.headers) | headers,
            redirect=method != "MKCOL",
            preload_content=whole,
        )
        if answer.status < 300:
            return answer
        body_text = " ".join(re.sub(r"<[^>]*>", " ", _begin(answer, whole).decode(errors="replace")).split())[:100]
        text = f"HTTP {answer.status} to {method} {self.url}/{path}" + (f" ({body_text})" if body_text else "")
        if "not a directory" in body_text:  # XrdHttp answers 500 where others answer 404
            raise NotADirectoryError(text)
        if answer.status in (404, 410) or "no such file" in body_text:
            raise FileNotFoundError(text)
        raise {403: PermissionError, 405: FileExistsError if method == "MKCOL" else OSError}.get(
            answer.status, OSError
        )(text)

    def _found(self, path: str, depth: str) -> Iterator[tuple[list[str], bool, int]]:
        """Yield path components, whether it is a folder, and size in bytes, of a folder or object.

        With depth `1`, also yield the entries of the folder.
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
        """Return the entries of a folder. The answer also contains the folder itself, which has the shortest path."""
        path = path.strip("/")
        found = list(self._found(path + "/" if path else "", "1"))
        shortest = min((len(place) for place, _, _ in found), default=0)
        return [
            {"name": posixpath.join(path, place[-1]), "type": "directory" if folder else "file", "size": size}
            for place, folder, size in found
            if len(place) > shortest
        ]

    def server(self) -> str:
        """Return the `Server` header of the server, e.g. `nginx/1.22.1`; '' if there is none."""
        return self.pool.request("OPTIONS", self.url + "/", redirect=False).headers.get("Server", "")

    def cat_file(self, path: str, most: int | None = None) -> bytes:
        if most is None:
            return self._ask("GET", path).data
        answer = self._ask("GET", path, whole=False)
        try:
            return answer.read(most)
        finally:
            answer.close()  # discards the rest of the object

    def pipe_file(self, path: str, data: bytes) -> None:
        self._ask("PUT", path, data)

    def rm_file(self, path: str) -> None:
        self._ask("DELETE", path)

    def mkdir(self, path: str) -> None:
        """Create one folder, whose parent must exist. The URL ends in '/', because nginx requires it."""
        self._ask("MKCOL", path + "/")

    def rmdir(self, path: str) -> None:
        """Remove an empty folder. This is checked first, because many servers would remove it with its content."""
        if self.ls(path):
            raise OSError(f"folder {self.url}/{path} is not empty")
        self._ask("DELETE", path + "/")
