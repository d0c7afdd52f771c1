"""The kind `s3`: any existing S3 endpoint, which storelab does not start or stop. See docs/stores.md."""

import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
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
    """The `credential_process` of a profile. It can ask for a code on the terminal, and is killed after 60 s."""

    def communicate(self, *_: Any, **__: Any) -> tuple[bytes, bytes]:
        try:
            return super().communicate(timeout=patience.STALLED_S)
        except subprocess.TimeoutExpired:
            self.kill()
            problem = f"the profile's `credential_process` did not end within {patience.STALLED_S:.0f} s"
            raise UserError("stores", problem, "run it in a terminal to see why, or log in again") from None


@dataclass(frozen=True)
class Preset:
    """An S3 system and its limits.

    Attributes
    ----------
    system
        Printed name.
    front_ends
        Number of front-ends of the documented installation; None if unknown.
    buckets_per_account
        Maximum number of buckets of one account.
    multipart
        Whether the system supports multipart uploads.
    multi_range
        Whether the answer to a GET of several ranges contained all of them.
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
            "A known system with documented limits, see docs/stores.md. `storelab check` compares the plan with these "
            "limits."
        ),
    )
    buckets_per_account: int | None = Field(
        None, ge=1, description="Maximum number of buckets of one account; default: limit of the preset, or no limit."
    )
    multipart: Boolean | None = Field(
        None,
        description=(
            "Whether the server supports multipart uploads. If not, large objects are written in one PUT. Default: "
            "value of the preset, or true."
        ),
    )
    endpoint: str | list[str] = Field(
        description="URL such as `https://s3.example.org`, or the list of the front-ends' URLs."
    )
    resolve_all: Boolean = Field(
        False, description="Resolve the DNS name to all of its addresses, and distribute the clients over them."
    )
    region: Name = Field("us-east-1", description="Region in the signature of requests.")
    addressing: Literal["path", "virtual"] = Field(
        "path", description="`path`: host/bucket/key; `virtual`: bucket.host/key."
    )
    verify_tls: Boolean = Field(True, description="Verify the server's certificate.")
    ca_file: FolderPath | None = Field(
        None, description="File of CA certificates (PEM) that verify the server's certificate."
    )
    proxy: Literal["none", "environment"] = Field(
        "none",
        description=(
            "`environment`: all clients and staging use the proxy that `http_proxy`, `https_proxy`, `all_proxy` and "
            "`no_proxy` define. Loopback addresses never use a proxy."
        ),
    )
    profile: Text | None = Field(
        None,
        description=(
            "AWS profile with the credentials. Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN "
            "if they are set, otherwise AWS_PROFILE."
        ),
    )
    profiles: Annotated[list[Text], Once] = Field(
        default_factory=list,
        description="AWS profiles of further accounts, for sweeps over `accounts`. `profile` is the first account.",
    )
    bucket: str | None = Field(
        None,
        description="An existing bucket. storelab uses only this bucket, and writes below `prefix` in it. Default: "
        "storelab creates buckets.",
    )

    @field_validator("bucket")
    @classmethod
    def _may_be_a_bucket(cls, bucket: str | None) -> str | None:
        if bucket is None or (
            BUCKET.fullmatch(bucket) and not bucket.startswith(RESERVED) and not bucket.endswith(ENDINGS)
        ):
            return bucket
        raise ValueError(
            f"{shown(bucket)} is not a valid S3 bucket name; use 3 to 63 lower-case letters, digits, '-' and '.', but "
            "not an IP address"
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
            with_path = re.fullmatch(rf"{URL.pattern}[^?#]+", url)
            raise UserError(
                f"{self.place}.endpoint",
                f"{shown(without_secrets(url), 100)} is not a URL of an S3 endpoint",
                "omit the path; to use an existing bucket, set the store's `bucket`"
                if with_path and is_host(with_path[1])
                else "write it like https://s3.example.org:443",
            )

    @cached_property
    def urls(self) -> list[str]:
        urls = super().urls
        return self._resolve(urls) if self.settings.resolve_all else urls

    def _resolve(self, urls: list[str]) -> list[str]:
        """Return one URL for each address of the host name.

        Raises UserError if settings need a host name: verified certificates and virtual hosts.
        """
        place, s = f"{self.place}.resolve_all", self.settings
        if len(urls) > 1:
            raise UserError(
                place,
                f"{len(urls)} URLs are listed, but resolve_all takes one",
                "set one URL, or set resolve_all to false",
            )
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
                "check the spelling, and DNS",
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
        import botocore.session  # imported here, because botocore is slow to import and planning does not need it

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
            for metadata_service in ("container-role", "iam-role"):
                providers.remove(metadata_service)
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
        ) as error:  # the text of this error is not shown, because it can contain keys
            named = f"the keys of {profile or os.environ['AWS_PROFILE']!r} cannot be read"
            kind = "they have expired" if "expired" in str(error) else type(error).__name__
            hint = "log in again, or run the profile's `credential_process` to see its output"
            raise UserError(f"{self.place}.profile", f"{named} ({kind})", hint) from None
        if not keys or not keys.access_key:
            raise UserError(
                f"{self.place}.profile", f"the profile {profile or os.environ['AWS_PROFILE']!r} contains no keys", KEYS
            )
        return Credentials(keys.access_key, keys.secret_key, keys.token).checked(f"{self.place}.profile")

    def credentials_end(self) -> list[tuple[str, str, float]]:
        """Return the expiry of the session token, if AWS_CREDENTIAL_EXPIRATION gives it."""
        if self.settings.profile or not os.environ.get("AWS_SESSION_TOKEN"):
            return []
        with suppress(KeyError, ValueError):
            when = datetime.fromisoformat(os.environ["AWS_CREDENTIAL_EXPIRATION"])
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            return [(self.place, "AWS_SESSION_TOKEN", when.timestamp())]
        return []

    def credentials_refused(self) -> str:
        from storelab.stores.protocols.s3 import CREDENTIAL_CODES

        try:
            self.up()
        except UserError as error:
            if error.problem.partition(":")[0] in CREDENTIAL_CODES:
                return str(error)
        return super().credentials_refused()

    def bucket(self, campaign: str, index: int, account: int = 0) -> Bucket:
        s = self.settings
        if s.bucket:
            return Bucket(s.bucket, f"{s.prefix}/{campaign}/b{index:04d}/", account)
        return super().bucket(campaign, index, account)

    def require(self) -> None:
        """Raise UserError if a configured profile does not exist, or if a proxy in the environment is not valid.

        The keys themselves are not read.
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
        """Send one signed LIST request to each front-end. Raises UserError if it does not answer like S3."""
        keys, *_ = [self.credentials(i) for i in range(accounts)]
        with ThreadPoolExecutor(16) as pool:
            self._version, *_ = pool.map(lambda e: self._greet(e, keys), self.endpoints(front_ends))

    def _greet(self, endpoint: Endpoint, keys: Credentials) -> str:
        """Return the `Server` header of the answer to a signed LIST request. Raises UserError if it is not from S3."""
        from storelab.stores.protocols.s3 import server_header
        from storelab.stores.protocols.s3_clients import client

        s3 = client(endpoint, keys, connect_timeout=5, read_timeout=10)
        try:
            return patience.call(
                f"{self.place}: the first LIST request",
                lambda: server_header(s3, self.place, self.settings.bucket, f"{self.settings.prefix}/"),
            )
        except MeasurementFailed as stalled:
            problem = str(stalled).removeprefix(f"{self.place}: ")
            raise UserError(f"{self.place}.endpoint", problem, "check the server and the network") from None

    @cached_property
    def _version(self) -> str:
        """The `Server` header of the server; '' if it sends none or cannot be reached."""
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
