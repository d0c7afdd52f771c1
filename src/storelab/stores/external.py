"""What stores share that are there already, behind one URL or several: storelab starts and stops nothing.

May import: what `stores` may.
"""

import re
import ssl
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from storelab.core.config_types import Boolean, Closed, Rate
from storelab.core.errors import UserError, shown
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Endpoint

# Labels of letters, digits and '-' (RFC 1123), or an address in brackets; a port of at most 65535.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST = re.compile(rf"(?:\[[0-9A-Fa-f:.]+\]|{_LABEL}(?:\.{_LABEL})*\.?)(?::0*([1-9]\d{{0,4}}))?")
RESERVED = ("xn--", "sthree-", "amzn-s3-demo-")  # how no name of a bucket may begin
MOST_PREFIX = 40  # letters; campaign and number follow in the name of a bucket


def is_host(text: str) -> bool:
    """Whether this is a host with or without a port."""
    found = HOST.fullmatch(text)
    return bool(found) and len(text) < 256 and int(found[1] or 0) < 65536


class Own(Closed):
    """How storelab behaves in a store that is there already."""

    prefix: str = Field(
        "storelab",
        description="How the names of its own buckets or folders begin; in a given `bucket`, its prefix there.",
        pattern=r"^[a-z0-9][a-z0-9-]*$",
    )
    link: Rate | None = Field(
        None,
        description="Capacity of the network link of each front-end, such as 10 Gbit/s: verdicts name it as the limit "
        "where it is full.",
    )
    read_only: Boolean = Field(False, description="Never write: only data staged before can be read.")

    @field_validator("prefix")
    @classmethod
    def _may_begin_a_bucket(cls, prefix: str) -> str:
        if prefix.startswith(RESERVED):
            raise ValueError(f"{prefix!r} begins as no bucket may ({', '.join(RESERVED)}); take another word")
        if len(prefix) > MOST_PREFIX:
            raise ValueError(f"{shown(prefix)} has {len(prefix)} letters; give at most {MOST_PREFIX}")
        return prefix


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
        self._look_at_ca_file()
        for url in urls:
            self.check_url(url)
        plain = [url.rstrip("/") for url in urls]
        if twice := next((url for i, url in enumerate(plain) if url in plain[:i]), None):
            raise UserError(f"{self.place}.endpoint", f"{shown(twice)} is there twice", "name each front-end once")
        if len(schemes := sorted({url.partition(":")[0] for url in plain})) > 1:
            raise UserError(
                f"{self.place}.endpoint",
                f"the front-ends mix {' and '.join(schemes)}",
                "give one scheme; two schemes are two stores",
            )
        return plain

    def _look_at_ca_file(self) -> None:
        """Raises UserError where `ca_file` holds no certificate."""
        if not (ca_file := self.ca_file()):
            return
        place = f"{self.place}.ca_file"
        if not Path(ca_file).is_file():
            raise UserError(place, f"{shown(ca_file, 200)} is not there", "give a PEM file")
        try:
            ssl.create_default_context(cafile=ca_file)
        except (OSError, ValueError):  # an ssl.SSLError is one
            raise UserError(
                place, f"{shown(ca_file, 200)} holds no certificate that can be read", "give a PEM file"
            ) from None

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
