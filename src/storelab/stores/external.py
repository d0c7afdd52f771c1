"""Existing stores with folders: endpoints (root://, HTTP/WebDAV, WebHDFS) and mounted file systems.

storelab does not start or stop them, and writes only to folders that it created. S3 endpoints are in `s3.py`.
"""

import os
import re
import shutil
import ssl
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from storelab.core.config_types import Boolean, FolderPath, Name, Rate, StrictModel
from storelab.core.errors import MeasurementFailed, UserError, shown
from storelab.host.page_cache import PageCache
from storelab.host.scratch import filesystem
from storelab.stores.base import Cooling, Store
from storelab.stores.protocols import filesystems, tokens
from storelab.stores.protocols.access import AccessRefused
from storelab.stores.protocols.endpoint import Endpoint

# A host name of labels with letters, digits and '-' (RFC 1123), or an address in brackets; then an optional port.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST = re.compile(rf"(?:\[[0-9A-Fa-f:.]+\]|{_LABEL}(?:\.{_LABEL})*\.?)(?::0*([1-9]\d{{0,4}}))?")
RESERVED = ("xn--", "sthree-", "amzn-s3-demo-")  # S3 does not allow bucket names with these prefixes
MAX_PREFIX = 40  # maximum length of a prefix, because campaign and number follow in the name of a bucket


PATH = re.compile(r"[A-Za-z0-9._~/:@%+=,-]*")  # path of a URL, without blanks and characters of shell syntax
# Types of file systems on disks or in memory of this machine.
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay")


def is_host(text: str) -> bool:
    """Return whether the text is a host, with or without a port."""
    found = HOST.fullmatch(text)
    return bool(found) and len(text) < 256 and int(found[1] or 0) < 65536


def without_secrets(url: str) -> str:
    """Return the URL without user information, query and fragment, which may contain keys, for a message."""
    head, slashes, rest = url.partition("//") if "//" in url else ("", "", url)
    plain = re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)
    return f"{head}{slashes}{'…@' if '@' in rest else ''}{plain[0]}{'?…' if len(plain) > 1 else ''}"


class ExternalSettings(StrictModel):
    """Settings that control what storelab does in an existing store."""

    prefix: str = Field(
        "storelab",
        description="Prefix of the names of storelab's buckets or folders; with `bucket`, prefix of the keys in it.",
        pattern=r"^[a-z0-9][a-z0-9-]*$",
    )
    link: Rate | None = Field(
        None,
        description="Capacity of the network link of each front-end, for example 10 Gbit/s. Verdicts name the link as "
        "the limit if it is saturated.",
    )
    read_only: Boolean = Field(False, description="Never write to the store; read only data that were staged before.")

    @field_validator("prefix")
    @classmethod
    def _may_begin_a_bucket(cls, prefix: str) -> str:
        if prefix.startswith(RESERVED):
            raise ValueError(
                f"{prefix!r} begins with a prefix that S3 reserves ({', '.join(RESERVED)}); choose another prefix"
            )
        if len(prefix) > MAX_PREFIX:
            raise ValueError(f"{shown(prefix)} has {len(prefix)} characters; use at most {MAX_PREFIX}")
        return prefix


class External(Store):
    """An existing store whose setting `endpoint` is a URL, or a list with the URLs of its front-ends."""

    system = ""  # printed name

    def check_url(self, url: str) -> None:
        """Raise UserError if the URL is not valid for this kind of store."""

    def endpoint(self, url: str) -> Endpoint:
        """Return the endpoint of the front-end at this URL, as clients use it."""
        return Endpoint(url, protocol=self.protocol)

    @cached_property
    def urls(self) -> list[str]:
        """The URLs of the front-ends. Raises UserError if a URL or `ca_file` is wrong."""
        given = self.settings.endpoint
        urls = [given] if isinstance(given, str) else given
        if not urls:
            raise UserError(f"{self.place}.endpoint", "the list is empty", "set at least one URL")
        self._check_ca_file()
        for url in urls:
            self.check_url(url)
        plain = [url.rstrip("/") for url in urls]
        if twice := next((url for i, url in enumerate(plain) if url in plain[:i]), None):
            raise UserError(f"{self.place}.endpoint", f"{shown(twice)} is listed twice", "list each front-end once")
        if len(schemes := sorted({url.partition(":")[0] for url in plain})) > 1:
            raise UserError(
                f"{self.place}.endpoint",
                f"the front-ends mix {' and '.join(schemes)}",
                "use one scheme; to use two schemes, configure two stores",
            )
        return plain

    def _check_ca_file(self) -> None:
        """Raise UserError if `ca_file` contains no certificate."""
        if not (ca_file := self.ca_file()):
            return
        place = f"{self.place}.ca_file"
        if not Path(ca_file).is_file():
            raise UserError(place, f"{shown(ca_file, 200)} does not exist", "set the path of a PEM file")
        try:
            ssl.create_default_context(cafile=ca_file)
        except (OSError, ValueError):  # includes ssl.SSLError
            raise UserError(
                place, f"{shown(ca_file, 200)} contains no readable certificate", "set the path of a PEM file"
            ) from None

    def ca_file(self) -> str | None:
        """Return the setting `ca_file` as an absolute path."""
        given = getattr(self.settings, "ca_file", None)
        return str(Path(given).expanduser().absolute()) if given else None

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        if front_ends > len(self.urls):
            raise UserError(
                self.place,
                f"front-ends: {front_ends} requested, {len(self.urls)} configured",
                "list more URLs in `endpoint`, or sweep fewer front_ends",
            )
        return [self.endpoint(url) for url in self.urls[:front_ends]]

    def most(self, axis: str) -> int:
        return len(self.urls) if axis == "front_ends" else self.accounts()

    def deployment(self) -> dict[str, Any]:
        return {
            "system": self.system,
            "version": self.version(),
            "daemons": {},
            "front_ends": len(self.urls),
            "servers": None,
            "redundancy": "unknown",
            "backing": "unknown",
            "tls": all(u.split(":")[0] in ("https", "swebhdfs", "roots") for u in self.urls),
            "accounts": self.accounts(),
        }


class Folder(ExternalSettings):
    """Settings of an endpoint with folders instead of buckets."""

    endpoint: str | list[str] = Field(
        description="URL of a folder that storelab may use, or the list of its URLs at several front-ends."
    )


class FolderEndpoint(External):
    """An endpoint with folders. `schemes` are the allowed URL schemes; `example` is a URL for messages."""

    schemes: tuple[str, ...] = ()
    example = ""

    def check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host = parts.netloc.rpartition("@")[2]
        except ValueError:  # brackets of an address are wrong
            parts, host = urlsplit(""), ""
        unsupported = parts.query or parts.fragment or parts.password or not PATH.fullmatch(parts.path)
        # clients treat `.` and `..` differently
        unsupported = unsupported or {".", ".."} & set(unquote(parts.path).split("/"))
        if parts.scheme not in self.schemes or not is_host(host) or unsupported:
            raise UserError(
                f"{self.place}.endpoint",
                f"{shown(without_secrets(url), 100)} is not a URL of a {self.settings.kind} store",
                f"write it like {self.example}",
            )

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Check that the folder can be listed at each front-end. Raises UserError with the problem if it cannot."""
        for i in range(len(self.endpoints(front_ends))):
            try:
                self.access(front_end=i).bucket_names()
            except (MeasurementFailed, AccessRefused) as error:
                raise UserError(
                    f"{self.place}.endpoint",
                    str(error).removeprefix(f"{self.place}: "),
                    "check that this folder exists and that you have the right to list it",
                ) from None

    def credentials_refused(self) -> str:
        from storelab.stores.protocols.files import NO_CREDENTIALS

        try:
            self.access().bucket_names()
        except AccessRefused as error:
            return f"{self.place}: {error}; {tokens.RENEW}"
        except UserError as error:
            if NO_CREDENTIALS in error.problem:
                return f"{self.place}: {error.problem}; {tokens.RENEW}"
        except MeasurementFailed:
            pass
        return super().credentials_refused()


class RootSettings(Folder):
    """Any XRootD endpoint (`root://host:port//folder`): XRootD, EOS, dCache.

    storelab finds credentials in the same places as XRootD's own clients.
    """

    kind: Literal["root"]


class Root(FolderEndpoint):
    """An existing endpoint with the XRootD protocol (root://, roots://)."""

    Settings = RootSettings
    system = "XRootD door"
    protocol = "root"
    schemes = ("root", "roots")
    example = "root://door.example.org:1094//folder"

    def credentials_end(self) -> list[tuple[str, str, float]]:
        with suppress(UserError):  # the client does not use such a file
            tokens.discover(os.environ)
        sources = {f"{self.place}.{name}": name for name in (*tokens.XROOTD, tokens.PROXY)}
        return [(self.place, name, when) for _, name, when in tokens.ends(sources, os.environ)]

    @cached_property
    def _version(self) -> str:
        from XRootD import client
        from XRootD.client.flags import QueryCode

        filesystems.xrootd_environment()
        status, answer = client.FileSystem(self.urls[0]).query(QueryCode.CONFIG, "version", timeout=10)
        return (answer or b"").decode(errors="replace").strip("\0\n v") if status.ok else ""


class HttpSettings(Folder):
    """Any HTTP/WebDAV endpoint (`https://host:port/folder`): dCache, StoRM, XrdHttp, EOS, nginx, Apache."""

    kind: Literal["http"]
    verify_tls: Boolean = Field(True, description="Verify the server's certificate.")
    ca_file: FolderPath | None = Field(
        None, description="File of CA certificates (PEM) that verify the server's certificate."
    )
    token: str | None = Field(
        None,
        description="Name of the environment variable with a bearer token or macaroon. If the name ends in `_FILE`, "
        "the variable is the path of a file that contains it. This file is read again for every point. `wlcg`: search "
        "the token as WLCG's token discovery does, see docs/credentials.md.",
        pattern=r"^([A-Z_][A-Z0-9_]*|wlcg)$",
    )
    certificate: str | None = Field(
        None,
        description="Name of the environment variable with the path of a PEM file, which contains a certificate or "
        "proxy and its key. The name is `X509_USER_PROXY` or ends in `_FILE`.",
        pattern=r"^(X509_USER_PROXY|[A-Z_][A-Z0-9_]*_FILE)$",
    )


class Http(FolderEndpoint):
    """An existing HTTP or WebDAV endpoint."""

    Settings = HttpSettings
    system = "HTTP/WebDAV door"
    protocol = "http"
    schemes = ("http", "https")
    example = "https://door.example.org:2880/folder"

    def endpoint(self, url: str) -> Endpoint:
        s = self.settings
        tokens.named(self._wallet(), os.environ)
        settings = {"token": self._token(), "certificate": s.certificate}
        return Endpoint(url, verify=s.verify_tls, ca_file=self.ca_file(), protocol="http", **settings)

    def _token(self) -> str | None:
        """Return the variable with the token. Raises UserError if `wlcg` finds none."""
        if self.settings.token != tokens.WLCG:
            return self.settings.token
        if name := tokens.discover(os.environ):
            return name
        problem = (
            f"no token in {', '.join(tokens.XROOTD)}, $XDG_RUNTIME_DIR/bt_u{os.geteuid()} or /tmp/bt_u{os.geteuid()}"
        )
        raise UserError(f"{self.place}.token", problem, "get a token, for example with oidc-token or htgettoken")

    def _wallet(self) -> dict[str, str]:
        """Return the environment variables of the credentials, by their place in the configuration."""
        settings = {"token": self._token(), "certificate": self.settings.certificate}
        return {f"{self.place}.{key}": name for key, name in settings.items() if name}

    def credentials_end(self) -> list[tuple[str, str, float]]:
        return tokens.ends(self._wallet(), os.environ)

    @cached_property
    def _version(self) -> str:
        from urllib3.exceptions import HTTPError

        from storelab.stores.protocols.files import WebDav

        try:
            return WebDav(self.endpoints()[0]).server()
        except (OSError, UserError, HTTPError):
            return ""


class WebHdfsSettings(Folder):
    """Any WebHDFS endpoint (`http://namenode:port/folder`)."""

    kind: Literal["webhdfs"]
    user: Name = Field("storelab", description="User name in the requests.")


class WebHdfs(FolderEndpoint):
    """An existing WebHDFS endpoint."""

    Settings = WebHdfsSettings
    system = "WebHDFS"
    protocol = "webhdfs"
    schemes = ("http", "https", "webhdfs", "swebhdfs")
    example = "http://namenode.example.org:9870/folder"

    def endpoint(self, url: str) -> Endpoint:
        return Endpoint(url, protocol="webhdfs", user=self.settings.user)


class DirectorySettings(ExternalSettings):
    """The settings of a folder on any mounted file system, for example tmpfs, Lustre, GPFS, AFS, NFS, CephFS or EOS."""

    kind: Literal["directory"]
    path: FolderPath = Field(description="An existing folder in which storelab creates its folders.")


class Directory(Store):
    """A folder of any mounted file system. Clients on all nodes must see it at the same path.

    The caches of a kernel or FUSE client are part of the store, see docs/stores.md.
    """

    Settings = DirectorySettings
    protocol = "file"
    reports_usage = True

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.path = Path(settings.path).expanduser().absolute()

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Check that the folder exists and can be used. Nothing is created."""
        self.require()

    def require(self) -> None:
        """Raise UserError if the folder does not exist or cannot be used."""
        if not self.path.is_dir():
            raise UserError(
                f"{self.place}.path", f"{str(self.path)!r} is not a folder", "create it, or mount its file system"
            )
        wanted = os.R_OK | os.X_OK | (0 if self.settings.read_only else os.W_OK)
        if not os.access(self.path, wanted):
            raise UserError(
                f"{self.place}.path",
                f"{str(self.path)!r} cannot be written",
                "use a folder that you own, or set read_only: true",
            )

    def version(self) -> str:
        """Return the type of the file system."""
        return filesystem(self.path)

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        return [Endpoint(f"file://{self.path}", protocol="file")] * front_ends

    def most(self, axis: str) -> int:
        return 1

    def deployment(self) -> dict[str, Any]:
        return {
            "system": "POSIX file system",
            "version": self.version(),
            "daemons": {},
            "front_ends": 1,
            "servers": 1,
            "redundancy": "unknown",
            "backing": filesystem(self.path),
            "tls": False,
            "accounts": 1,
        }

    def on_this_host(self) -> bool:
        return filesystem(self.path) in LOCAL

    def memory_only(self) -> bool:
        return filesystem(self.path) == "tmpfs"

    def data_folders(self) -> list[Path]:
        """Return the folders that storelab created; [] on tmpfs."""
        return [] if self.memory_only() else sorted(self.path.glob(f"{self.settings.prefix}-*"))

    def cool(self, front_ends: int = 1, accounts: int = 1) -> Cooling:
        if self.memory_only():
            return Cooling(why="its data are in memory (tmpfs)")
        pages = PageCache([str(folder) for folder in self.data_folders()])
        pages.drop()
        done = [f"pages of {pages.files} files dropped"]
        if not self.on_this_host():
            done.append(f"caches on the servers of {self.version()} not dropped")
        return Cooling(done, self.data_folders(), pages.still_cached)

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(self.path).free if self.path.is_dir() else None

    def capacity_bytes(self) -> int | None:
        """Return the space for data in bytes if the folder is the root of a mounted file system; otherwise None."""
        usage = shutil.disk_usage(self.path) if os.path.ismount(self.path) else None
        return usage.used + usage.free if usage else None

    def used_bytes(self) -> int | None:
        """Return the bytes that the files in storelab's folders use on disk.

        Copies and parity on other machines are not included, because the file system does not report them.
        """
        os.sync()
        folders = self.path.glob(f"{self.settings.prefix}-*")
        return sum(p.lstat().st_blocks * 512 for folder in folders for p in folder.rglob("*"))
