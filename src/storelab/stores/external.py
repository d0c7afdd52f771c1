"""What stores share that are there already, behind one URL or several: storelab starts and stops nothing.

May import: what `stores` may.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from storelab.core.config_types import Boolean, Closed
from storelab.core.errors import UserError
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Endpoint


class Own(Closed):
    """How storelab behaves in a store that is there already."""

    prefix: str = Field(
        "storelab",
        description="How the names of its own buckets or folders begin; in a given `bucket`, its prefix there.",
        pattern=r"^[a-z0-9][a-z0-9-]*$",
    )
    read_only: Boolean = Field(False, description="Never write: only data staged before can be read.")


class External(Store):
    """A store whose setting `endpoint` is a URL, or the list of its front-ends' URLs."""

    system = ""  # name for people

    def check_url(self, url: str) -> None:
        """Raises UserError where the URL is none of such a store."""

    def endpoint(self, url: str) -> Endpoint:
        """How clients address the front-end at this URL."""
        return Endpoint(url, protocol=self.protocol)

    @cached_property
    def urls(self) -> list[str]:
        """The front-ends' URLs. Raises UserError where one is wrong, or `ca_file` names no file."""
        given = self.settings.endpoint
        urls = [given] if isinstance(given, str) else given
        if not urls:
            raise UserError(f"{self.place}.endpoint", "is empty", "give at least one URL")
        if (ca_file := self.ca_file()) and not Path(ca_file).is_file():
            raise UserError(f"{self.place}.ca_file", f"{ca_file!r} is not there", "give a PEM file")
        for url in urls:
            self.check_url(url)
        return [url.rstrip("/") for url in urls]

    def ca_file(self) -> str | None:
        """The setting `ca_file` as an absolute path."""
        given = getattr(self.settings, "ca_file", None)
        return str(Path(given).expanduser().absolute()) if given else None

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        if front_ends > len(self.urls):
            raise UserError(
                self.place,
                f"{front_ends} front-ends asked, {len(self.urls)} known",
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
