"""Any existing S3 endpoint; storelab does not start or stop it. See docs/stores.md."""

import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from storelab.core.config_types import Boolean, FolderPath, Name, Once, Text
from storelab.core.errors import MeasurementFailed, UserError, require_known, shown
from storelab.host import patience
from storelab.stores.external import RESERVED, External, ExternalSettings, is_host, without_secrets
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint

URL = re.compile(r"https?://([^/?#@]+)/?")
# Rules for bucket names (Amazon S3 User Guide, "General purpose bucket naming rules").
BUCKET = re.compile(r"(?!.*\.\.)(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
ENDINGS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


class KeyProgram(subprocess.Popen[bytes]):
    """The `credential_process` of a profile. It may ask for a code on the terminal, and has 60 s."""

    def communicate(self, *_: Any, **__: Any) -> tuple[bytes, bytes]:
        try:
            return super().communicate(timeout=patience.STALLED_S)
        except subprocess.TimeoutExpired:
            self.kill()
            problem = f"the profile's `credential_process` does not end in {patience.STALLED_S:.0f} s"
            raise UserError("stores", problem, "run it by hand; log in again") from None


@dataclass(frozen=True)
class Preset:
    """An S3 system and its limits.

    front_ends: of the documented installation, None if unknown; buckets_per_account: maximum; multipart: whether it
    supports uploads in parts; multi_range: whether it answered a GET of several ranges with all of them.
    """

    system: str
    front_ends: int | None
    buckets_per_account: int
    multipart: bool
    multi_range: bool


# Known S3 systems with their documented limits. Sources: Zotes Resines, CERN openlab reviews (2012, 2013);
# Arsuaga-Rios et al., J. Phys.: Conf. Ser. 664 (2015) 022001, its Table 1.
PRESETS = {
    "amazon-s3": Preset("Amazon S3", None, 100, True, False),
    "huawei-uds-1": Preset("Huawei UDS, generation 1", 7, 100, False, True),
    "huawei-uds-2": Preset("Huawei UDS, generation 2 (OceanStor V100R002C00)", 4, 100, True, True),
}


class Settings(ExternalSettings):
    """Any existing S3 endpoint.

    Credentials come from the environment or an AWS profile, never from the configuration.
    """

    kind: Literal["s3"]
    preset: Literal["amazon-s3", "huawei-uds-1", "huawei-uds-2"] | None = Field(
        None,
        description=(
            "A known system with its documented limits, see docs/stores.md; `storelab check` compares the plan with "
            "them."
        ),
    )
    buckets_per_account: int | None = Field(
        None, ge=1, description="Maximum number of buckets of one account; default: the preset's, else no limit."
    )
    multipart: Boolean | None = Field(
        None,
        description=(
            "Whether the server supports multipart uploads; if not, large objects are written in one PUT. Default: "
            "the preset's, else true."
        ),
    )
    endpoint: str | list[str] = Field(
        description="URL, or the list of the front-ends' URLs, such as `https://s3.example.org`."
    )
    resolve_all: Boolean = Field(
        False, description="Resolve the DNS name to all its addresses and distribute the clients over them."
    )
    region: Name = Field("us-east-1", description="Region for the signature.")
    addressing: Literal["path", "virtual"] = Field(
        "path", description="`path`: host/bucket/key; `virtual`: bucket.host/key."
    )
    verify_tls: Boolean = Field(True, description="Verify the server's certificate.")
    ca_file: FolderPath | None = Field(None, description="CA certificates (PEM) to verify the server with.")
    proxy: Literal["none", "environment"] = Field(
        "none",
        description=(
            "`environment`: all clients and staging use the proxy that `http_proxy`, `https_proxy`, `all_proxy` and "
            "`no_proxy` define. Never for loopback."
        ),
    )
    profile: Text | None = Field(
        None,
        description=(
            "AWS profile; default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else AWS_PROFILE."
        ),
    )
    profiles: Annotated[list[Text], Once] = Field(
        default_factory=list,
        description="AWS profiles of further accounts, for sweeps over `accounts`; `profile` stays the first.",
    )
    bucket: str | None = Field(
        None,
        description="The only bucket that you may use; storelab writes below `prefix` in it. Default: storelab makes "
        "buckets.",
    )

    @field_validator("bucket")
    @classmethod
    def _may_be_a_bucket(cls, bucket: str | None) -> str | None:
        if bucket is None or (
            BUCKET.fullmatch(bucket) and not bucket.startswith(RESERVED) and not bucket.endswith(ENDINGS)
        ):
            return bucket
        raise ValueError(
            f"{shown(bucket)} is not a valid S3 bucket name; use 3 to 63 lower-case letters, digits, '-' and '.', and "
            "no IP address"
        )


class S3(External):
    """An S3 endpoint, with the limits of its preset."""

    Settings = Settings

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.preset = PRESETS.get(settings.preset)
        self.system = self.preset.system if self.preset else "S3 endpoint"

    def check_url(self, url: str) -> None:
        """Raise UserError unless the URL is `http(s)://host[:port]` without anything else."""
        found = URL.fullmatch(url)
        if not found or not is_host(found[1]):
            raise UserError(
                f"{self.place}.endpoint",
                f"{shown(without_secrets(url), 100)} is not a URL of an S3 endpoint",
                "write it like https://s3.example.org:443",
            )

    @cached_property
    def urls(self) -> list[str]:
        urls = super().urls
        return self._resolve(urls) if self.settings.resolve_all else urls

    def _resolve(self, urls: list[str]) -> list[str]:
        """Return one URL per address of the name; certificates and virtual hosts are not possible with addresses."""
        place, s = f"{self.place}.resolve_all", self.settings
        if len(urls) > 1:
            raise UserError(place, f"{len(urls)} URLs are listed", "set one URL, or set resolve_all to false")
        parts = urlsplit(urls[0])
        if parts.scheme == "https" and s.verify_tls:
            raise UserError(
                place,
                "a certificate cannot be verified for an IP address",
                "list the front-ends' names in `endpoint`, or set verify_tls to false",
            )
        if s.addressing == "virtual":
            raise UserError(
                place,
                "addressing `virtual` needs a host name",
                "use `path`, or list the front-ends' names in `endpoint`",
            )
        try:
            found = socket.getaddrinfo(parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM)
        except OSError:
            raise UserError(
                f"{self.place}.endpoint",
                f"the name {parts.hostname!r} cannot be resolved",
                "check the spelling and DNS",
            ) from None
        hosts = sorted({f"[{a[4][0]}]" if a[0] == socket.AF_INET6 else str(a[4][0]) for a in found})
        return [f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "") for host in hosts]

    def endpoint(self, url: str) -> Endpoint:
        s = self.settings
        return Endpoint(
            url, s.region, s.addressing, s.verify_tls, self.ca_file(), multipart=self.multipart(), proxy=s.proxy
        )

    def multipart(self) -> bool:
        given = self.settings.multipart
        return self.preset.multipart if given is None and self.preset else given is not False

    def buckets_per_account(self) -> int | None:
        return self.settings.buckets_per_account or (self.preset.buckets_per_account if self.preset else None)

    def accounts(self) -> int:
        return 1 + len(self.settings.profiles)

    def credentials(self, account: int = 0) -> Credentials:
        """Return the keys from the environment or the profile, never from a metadata service.

        Raises UserError if there are none.
        """
        import botocore.session  # here: planning only reads the settings, and botocore is slow to import

        from storelab.stores.protocols.s3 import ERRORS, KEYS, explain

        if account >= self.accounts():
            raise UserError(
                self.place,
                f"accounts: {account + 1} requested, {self.accounts()} configured",
                "list more in `profiles`",
            )
        profile = self.settings.profiles[account - 1] if account else self.settings.profile
        if not profile and (given := Credentials.found(os.environ)):
            return given.checked(self.place)
        if not profile and (incomplete := Credentials.half(os.environ)):
            raise UserError(self.place, f"{incomplete[0]} is set, but {incomplete[1]} is not", KEYS)
        if not profile and not os.environ.get("AWS_PROFILE"):
            raise UserError(self.place, "no credentials found", KEYS)
        try:
            session = botocore.session.Session(profile=profile)
            providers = session.get_component("credential_provider")
            for asks_the_network in ("container-role", "iam-role"):
                providers.remove(asks_the_network)
            providers.get_provider("custom-process")._popen = KeyProgram
            found = session.get_credentials()
            keys = found.get_frozen_credentials() if found else None
        except ERRORS as error:
            raise explain(error, self.place) from None
        except (
            ValueError,
            TypeError,
            AttributeError,
            LookupError,
            RuntimeError,
        ) as error:  # not its text: it may hold keys
            named = f"the keys of {profile or os.environ['AWS_PROFILE']!r} cannot be read"
            kind = "they have expired" if "expired" in str(error) else type(error).__name__
            hint = "log in again, or see what the profile's `credential_process` prints"
            raise UserError(f"{self.place}.profile", f"{named} ({kind})", hint) from None
        if not keys or not keys.access_key:
            raise UserError(
                f"{self.place}.profile", f"the profile {profile or os.environ['AWS_PROFILE']!r} contains no keys", KEYS
            )
        return Credentials(keys.access_key, keys.secret_key, keys.token).checked(f"{self.place}.profile")

    def credentials_end(self) -> list[tuple[str, str, float]]:
        """Return the expiry of session tokens, from the variables of `aws configure export-credentials`."""
        if self.settings.profile or not os.environ.get("AWS_SESSION_TOKEN"):
            return []
        with suppress(KeyError, ValueError):
            when = datetime.fromisoformat(os.environ["AWS_CREDENTIAL_EXPIRATION"]).timestamp()
            return [(self.place, "AWS_SESSION_TOKEN", when)]
        return []

    def bucket(self, campaign: str, index: int, account: int = 0) -> Bucket:
        s = self.settings
        if s.bucket:
            return Bucket(s.bucket, f"{s.prefix}/{campaign}/b{index:04d}/", account)
        return super().bucket(campaign, index, account)

    def require(self) -> None:
        """Raise UserError if a configured profile does not exist, or if a proxy in the environment is not valid.

        Keys are read only when they are needed.
        """
        for url in self.urls:
            environment.proxy(self.endpoint(url))
        import botocore.session

        from storelab.stores.protocols.s3 import ERRORS, explain

        wanted = [(f"{self.place}.profile", self.settings.profile)]
        wanted += [(f"{self.place}.profiles", name) for name in self.settings.profiles]
        if not any(name for _, name in wanted):
            return
        try:
            known = botocore.session.Session().available_profiles
        except ERRORS as error:
            raise explain(error, wanted[0][0]) from None
        for place, name in wanted:
            if name:
                require_known(
                    place, name, known or ["none"], f"the AWS profile {shown(name)} does not exist", "in ~/.aws/config:"
                )

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Send one signed list to each front-end, which must answer like S3; nothing is started or written.

        Raises UserError with the problem.
        """
        keys, *_ = [self.credentials(i) for i in range(accounts)]
        with ThreadPoolExecutor(16) as pool:
            self._version, *_ = pool.map(lambda e: self._greet(e, keys), self.endpoints(front_ends))

    def _greet(self, endpoint: Endpoint, keys: Credentials) -> str:
        """Return the `Server` header of the answer to a signed list, which must be S3's."""
        from storelab.stores.protocols.s3 import server_header
        from storelab.stores.protocols.s3_clients import client

        s3 = client(endpoint, keys, connect_timeout=5, read_timeout=10)
        try:
            return patience.call(
                f"{self.place}: the first list",
                lambda: server_header(s3, self.place, self.settings.bucket, f"{self.settings.prefix}/"),
            )
        except MeasurementFailed as stalled:
            problem = str(stalled).removeprefix(f"{self.place}: ")
            raise UserError(f"{self.place}.endpoint", problem, "check the server, and the network to it") from None

    @cached_property
    def _version(self) -> str:
        """The server's `Server` header; '' if it sends none or cannot be reached."""
        with suppress(UserError):
            return self._greet(self.endpoints()[0], self.credentials())
        return ""

    def deployment(self) -> dict[str, Any]:
        s = self.settings
        return super().deployment() | {
            "verify_tls": s.verify_tls,
            "addressing": s.addressing,
            "region": s.region,
            "own_buckets": s.bucket is None,
            "proxy": environment.named(self.endpoint(self.urls[0])),
        }
