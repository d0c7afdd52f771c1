"""Doors that are there already and hold folders: root://, HTTP/WebDAV, WebHDFS; storelab starts nothing."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from storelab.core.config_types import Boolean, Closed
from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.base import READ_ONLY, Store
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.access import AccessRefused
from storelab.stores.protocols.endpoint import Endpoint


class Folder(Closed):
    """What the stores share that are there already and hold folders instead of buckets."""

    endpoint: str | list[str] = Field(
        description="URL of a folder given to you, or the list of the front-ends' URLs of it."
    )
    prefix: str = Field(
        "storelab", description="Begin of the names of its own folders.", pattern=r"^[a-z0-9][a-z0-9-]*$"
    )
    read_only: Boolean = Field(False, description=READ_ONLY)


class Door(Store):
    """What the three share. `schemes`: of the URL; `example`: for messages."""

    system = ""
    schemes: tuple[str, ...] = ()
    example = ""

    @cached_property
    def _urls(self) -> list[str]:
        urls = self.listed()
        for url in urls:
            parts = urlsplit(url)
            if (
                parts.scheme not in self.schemes
                or not parts.hostname
                or parts.query
                or parts.fragment
                or parts.password
            ):
                raise UserError(
                    f"{self.place}.endpoint",
                    f"{url.rpartition('@')[2]!r} is no URL of a {self.settings.kind} door",
                    f"write it like {self.example}",
                )
        return [u.rstrip("/") for u in urls]

    def _endpoint(self, url: str) -> Endpoint:
        return Endpoint(url, protocol=self.protocol)

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        if front_ends > len(self._urls):
            raise UserError(
                self.place,
                f"{front_ends} front-ends asked, {len(self._urls)} known",
                "list more URLs in `endpoint`, or sweep fewer front_ends",
            )
        return [self._endpoint(url) for url in self._urls[:front_ends]]

    def most(self, axis: str) -> int:
        return len(self._urls) if axis == "front_ends" else 1

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Lists the folder at each front-end; nothing is started or written. Raises UserError that says what is
        wrong."""
        for i in range(len(self.endpoints(front_ends))):
            try:
                self.access(front_end=i).bucket_names()
            except (MeasurementFailed, AccessRefused) as error:
                problem = str(error).removeprefix(f"{self.place}: ")
                raise UserError(
                    f"{self.place}.endpoint", problem, "check that this folder is there and may be listed"
                ) from None

    def version(self) -> str:
        return self._version

    @cached_property
    def _version(self) -> str:
        """Asked once; '' where the door does not tell, or cannot be reached."""
        return ""

    def deployment(self) -> dict[str, Any]:
        return {
            "system": self.system,
            "version": self.version(),
            "daemons": {},
            "front_ends": len(self._urls),
            "servers": None,
            "redundancy": "unknown",
            "backing": "unknown",
            "tls": all(u.split(":")[0] in ("https", "swebhdfs", "roots") for u in self._urls),
            "accounts": 1,
        }


class RootSettings(Folder):
    """Any XRootD door (`root://host:port//folder`): XRootD, EOS, dCache. Credentials as XRootD's own clients find
    them."""

    kind: Literal["root"]


class Root(Door):
    Settings = RootSettings
    system = "XRootD door"
    protocol = "root"
    schemes = ("root", "roots")
    example = "root://door.example.org:1094//folder"

    @cached_property
    def _version(self) -> str:
        from XRootD import client
        from XRootD.client.flags import QueryCode

        filesystems.xrootd_environment()
        asked, said = client.FileSystem(self._urls[0]).query(QueryCode.CONFIG, "version", timeout=10)
        return (said or b"").decode(errors="replace").strip("\0\n v") if asked.ok else ""


class HttpSettings(Folder):
    """Any HTTP/WebDAV door (`https://host:port/folder`): dCache, StoRM, XrdHttp, EOS, nginx, Apache."""

    kind: Literal["http"]
    verify_tls: Boolean = Field(True, description="Verify the server's certificate.")
    ca_file: str | None = Field(None, description="CA certificates (PEM) to verify the server with.")
    token: str | None = Field(
        None, description="Name of the environment variable that holds a bearer token.", pattern=r"^[A-Z_][A-Z0-9_]*$"
    )


class Http(Door):
    Settings = HttpSettings
    system = "HTTP/WebDAV door"
    protocol = "http"
    schemes = ("http", "https")
    example = "https://door.example.org:2880/folder"

    def _endpoint(self, url: str) -> Endpoint:
        s = self.settings
        if s.token and not os.environ.get(s.token):
            raise UserError(
                f"{self.place}.token", f"the environment variable {s.token} is not set", "put the bearer token there"
            )
        ca_file = str(Path(s.ca_file).expanduser().absolute()) if s.ca_file else None
        return Endpoint(url, verify=s.verify_tls, ca_file=ca_file, protocol="http", token=s.token)

    @cached_property
    def _version(self) -> str:
        from urllib3.exceptions import HTTPError

        from storelab.stores.protocols.webdav import WebDav

        try:
            return WebDav(self.endpoints()[0]).server()
        except (OSError, UserError, HTTPError):
            return ""


class WebHdfsSettings(Folder):
    """Any WebHDFS (`http://namenode:port/folder`)."""

    kind: Literal["webhdfs"]
    user: str = Field("storelab", description="Name that the requests bear.")


class WebHdfs(Door):
    Settings = WebHdfsSettings
    system = "WebHDFS"
    protocol = "webhdfs"
    schemes = ("http", "https", "webhdfs", "swebhdfs")
    example = "http://namenode.example.org:9870/folder"

    def _endpoint(self, url: str) -> Endpoint:
        return Endpoint(url, protocol="webhdfs", user=self.settings.user)
