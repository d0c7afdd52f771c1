"""Where clients find a store: front-end, keys, bucket. Client processes import it: it needs `core.redaction` only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from storelab.core.errors import UserError
from storelab.core.redaction import conceal

LOOPBACK = re.compile(r"localhost\Z|127\.|::1\Z|\[::1\]")  # names and addresses of this very host


@dataclass(frozen=True)
class Endpoint:
    """One front-end as a client addresses it.

    protocol: `s3`, `file`, `http` (with WebDAV), `root` or `webhdfs`; but for S3 the URL leads to the folder that
    holds the buckets. `addressing` (S3): `path` or `virtual`; `ca_file`: PEM to verify the server with; `user`: name
    in WebHDFS requests; `token`, `certificate`: names of the environment variables that hold a bearer token, or
    name the file of a certificate (HTTP); `proxy`: `none`, or `environment` as in `environment.proxy` (S3);
    `multipart`: uploads in parts are possible (S3).
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
    """How variables begin that hold the keys of a further account of a client."""
    return f"STORELAB_ACCOUNT_{account}_"


@dataclass(frozen=True)
class Credentials:
    """Keys of one account. Never written to records, logs or command lines: `repr` shows none of them."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Whoever knows keys never prints them, whatever repeats them."""
        conceal(self.secret_key, self.session_token, self.access_key if len(self.access_key) >= 16 else None)

    @classmethod
    def found(cls, environ: Mapping[str, str], prefix: str = "AWS_") -> "Credentials | None":
        """The keys in these environment variables; None where one of the two is missing."""
        access, secret = environ.get(f"{prefix}ACCESS_KEY_ID"), environ.get(f"{prefix}SECRET_ACCESS_KEY")
        return cls(access, secret, environ.get(f"{prefix}SESSION_TOKEN")) if access and secret else None

    @staticmethod
    def half(environ: Mapping[str, str], prefix: str = "AWS_") -> tuple[str, str] | None:
        """The name of a key's variable that is set, and of the one that is not; None where both are, or neither."""
        names = (f"{prefix}ACCESS_KEY_ID", f"{prefix}SECRET_ACCESS_KEY")
        told = sorted(names, key=lambda name: not environ.get(name))
        return (told[0], told[1]) if bool(environ.get(names[0])) != bool(environ.get(names[1])) else None

    def checked(self, place: str) -> "Credentials":
        """Return them. Raises UserError where one holds a character that no header can have, such as a line break."""
        for name in ("access_key", "secret_key", "session_token"):
            if not (value := getattr(self, name) or "").isprintable() or not value.isascii():
                problem = f"the {name.replace('_', ' ')} holds a line break, or another character that no key has"
                raise UserError(place, problem, "copy it again, without anything around it")
        return self

    def environ(self) -> dict[str, str]:
        """Environment variables for a client process. The metadata service is never asked."""
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
    """Where the i-th bucket of a campaign lies: bucket name, key prefix (empty, or ending in '/'), account that owns
    it.

    On a store without buckets the name is that of a folder.
    """

    name: str
    prefix: str = ""
    account: int = 0
