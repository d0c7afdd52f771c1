"""Doors that are there already and hold folders: root://, HTTP/WebDAV, WebHDFS; storelab starts nothing."""

import os
import re
from functools import cached_property
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field

from storelab.core.config_types import Boolean, FolderPath, Name
from storelab.core.errors import MeasurementFailed, UserError, shown
from storelab.stores.external import External, Own, is_host
from storelab.stores.protocols import filesystems, tokens
from storelab.stores.protocols.access import AccessRefused
from storelab.stores.protocols.endpoint import Endpoint

PATH = re.compile(r"[A-Za-z0-9._~/:@%+=,-]*")  # of a URL: no blank, and nothing that a shell reads


class Folder(Own):
    """What the stores share that are there already and hold folders instead of buckets."""

    endpoint: str | list[str] = Field(
        description="URL of a folder given to you, or the list of the front-ends' URLs of it."
    )


class Door(External):
    """What the three share. `schemes`: of the URL; `example`: for messages."""

    schemes: tuple[str, ...] = ()
    example = ""

    def check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host = parts.netloc.rpartition("@")[2]
        except ValueError:  # of brackets
            parts, host = urlsplit(""), ""
        odd = parts.query or parts.fragment or parts.password or not PATH.fullmatch(parts.path)
        if parts.scheme not in self.schemes or not is_host(host) or odd:
            raise UserError(
                f"{self.place}.endpoint",
                f"{shown(url.rpartition('@')[2], 100)} is no URL of a {self.settings.kind} door",
                f"write it like {self.example}",
            )

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """List the folder at each front-end; nothing is started or written.

        Raises UserError that says what is wrong.
        """
        for i in range(len(self.endpoints(front_ends))):
            try:
                self.access(front_end=i).bucket_names()
            except (MeasurementFailed, AccessRefused) as error:
                raise UserError(
                    f"{self.place}.endpoint",
                    str(error).removeprefix(f"{self.place}: "),
                    "check that this folder is there and may be listed",
                ) from None


class RootSettings(Folder):
    """Any XRootD door (`root://host:port//folder`): XRootD, EOS, dCache.

    Credentials are found as XRootD's own clients find them.
    """

    kind: Literal["root"]


class Root(Door):
    Settings = RootSettings
    system = "XRootD door"
    protocol = "root"
    schemes = ("root", "roots")
    example = "root://door.example.org:1094//folder"

    def credentials_end(self) -> list[tuple[str, str, float]]:
        own = {f"{self.place}.{name}": name for name in (*tokens.XROOTD, tokens.PROXY)}
        return [(self.place, name, when) for _, name, when in tokens.ends(own, os.environ)]

    @cached_property
    def _version(self) -> str:
        from XRootD import client
        from XRootD.client.flags import QueryCode

        filesystems.xrootd_environment()
        asked, said = client.FileSystem(self.urls[0]).query(QueryCode.CONFIG, "version", timeout=10)
        return (said or b"").decode(errors="replace").strip("\0\n v") if asked.ok else ""


class HttpSettings(Folder):
    """Any HTTP/WebDAV door (`https://host:port/folder`): dCache, StoRM, XrdHttp, EOS, nginx, Apache."""

    kind: Literal["http"]
    verify_tls: Boolean = Field(True, description="Verify the server's certificate.")
    ca_file: FolderPath | None = Field(None, description="CA certificates (PEM) to verify the server with.")
    token: str | None = Field(
        None,
        description="Name of the environment variable that holds a bearer token or macaroon; with a name that ends in "
        "`_FILE`: that names a file with it, read again for every point.",
        pattern=r"^[A-Z_][A-Z0-9_]*$",
    )
    certificate: str | None = Field(
        None,
        description="Name of the environment variable that names a PEM file with a certificate, or proxy, and its "
        "key: `X509_USER_PROXY`, or one that ends in `_FILE`.",
        pattern=r"^(X509_USER_PROXY|[A-Z_][A-Z0-9_]*_FILE)$",
    )


class Http(Door):
    Settings = HttpSettings
    system = "HTTP/WebDAV door"
    protocol = "http"
    schemes = ("http", "https")
    example = "https://door.example.org:2880/folder"

    def endpoint(self, url: str) -> Endpoint:
        s = self.settings
        tokens.named(self._wallet(), os.environ)
        own = {"token": s.token, "certificate": s.certificate}
        return Endpoint(url, verify=s.verify_tls, ca_file=self.ca_file(), protocol="http", **own)

    def _wallet(self) -> dict[str, str]:
        """Variables of credentials, by place in the configuration."""
        own = {"token": self.settings.token, "certificate": self.settings.certificate}
        return {f"{self.place}.{key}": name for key, name in own.items() if name}

    def credentials_end(self) -> list[tuple[str, str, float]]:
        return tokens.ends(self._wallet(), os.environ)

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
    user: Name = Field("storelab", description="Name that the requests bear.")


class WebHdfs(Door):
    Settings = WebHdfsSettings
    system = "WebHDFS"
    protocol = "webhdfs"
    schemes = ("http", "https", "webhdfs", "swebhdfs")
    example = "http://namenode.example.org:9870/folder"

    def endpoint(self, url: str) -> Endpoint:
        return Endpoint(url, protocol="webhdfs", user=self.settings.user)
