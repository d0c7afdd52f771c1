"""Endpoint, keys and bucket of a store for clients. Client processes import this module; it imports only `core`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from storelab.core.errors import UserError
from storelab.core.redaction import conceal

LOOPBACK = re.compile(r"localhost\Z|127\.|::1\Z|\[::1\]")  # names and addresses of this host


@dataclass(frozen=True)
class Endpoint:
    """One front-end for clients.

    Attributes
    ----------
    url
        URL of the server (S3), or of the folder that contains the buckets.
    region
        Region in the signature (S3).
    addressing
        `path` or `virtual` (S3).
    verify
        Whether clients verify the server's certificate.
    ca_file
        PEM file with CA certificates that verify the server's certificate.
    protocol
        `s3`, `file`, `http` (with WebDAV), `root` or `webhdfs`.
    user
        User name in requests (WebHDFS).
    token, certificate
        Names of the environment variables with a bearer token, or with the path of a certificate (HTTP).
    multipart
        Whether multipart uploads are possible (S3).
    proxy
        `none`, or `environment` as in `environment.proxy` (S3).
    """

    url: str
    region: str = "us-east-1"
    addressing: str = "path"
    verify: bool = True
    ca_file: str | None = None
    protocol: str = "s3"
    user: str | None = None
    token: str | None = None
    multipart: bool = True
    certificate: str | None = None
    proxy: str = "none"


def account_prefix(account: int) -> str:
    """Return the prefix of the environment variables that contain the keys of a client's further account."""
    return f"STORELAB_ACCOUNT_{account}_"


@dataclass(frozen=True)
class Credentials:
    """The keys of one account. `repr` does not show them, and they are never in records, logs or command lines."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Register the keys so that they are removed from all output of this process."""
        conceal(self.secret_key, self.session_token, self.access_key if len(self.access_key) >= 16 else None)

    @classmethod
    def found(cls, environ: Mapping[str, str], prefix: str = "AWS_") -> "Credentials | None":
        """Return the keys in these environment variables; None if one of the two is missing."""
        access, secret = environ.get(f"{prefix}ACCESS_KEY_ID"), environ.get(f"{prefix}SECRET_ACCESS_KEY")
        return cls(access, secret, environ.get(f"{prefix}SESSION_TOKEN")) if access and secret else None

    @staticmethod
    def half(environ: Mapping[str, str], prefix: str = "AWS_") -> tuple[str, str] | None:
        """Return the name of the variable that is set, and of the missing one; None if both or neither are set."""
        names = (f"{prefix}ACCESS_KEY_ID", f"{prefix}SECRET_ACCESS_KEY")
        in_order = sorted(names, key=lambda name: not environ.get(name))
        return (in_order[0], in_order[1]) if bool(environ.get(names[0])) != bool(environ.get(names[1])) else None

    def checked(self, place: str) -> "Credentials":
        """Return the keys. Raises UserError if one has a character that is invalid in a header, e.g. a line break."""
        for name in ("access_key", "secret_key", "session_token"):
            if not (value := getattr(self, name) or "").isprintable() or not value.isascii():
                problem = f"the {name.replace('_', ' ')} contains a line break or another invalid character"
                raise UserError(place, problem, "copy the key again, without surrounding characters")
        return self

    def environ(self) -> dict[str, str]:
        """Return the environment variables of a client process with these keys and without a metadata service."""
        out = {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        if self.session_token:
            out["AWS_SESSION_TOKEN"] = self.session_token
        return out


@dataclass(frozen=True)
class Bucket:
    """A bucket of a campaign: its name, its key prefix, and the account that owns it.

    The key prefix is empty or ends in '/'. In a store without buckets, a folder has this name.
    """

    name: str
    prefix: str = ""
    account: int = 0
