"""Transfer of credentials to the nodes, in a file that only its owner can read, until all clients are ready.

Credentials are never in a submit file, on a command line, in a log or in a record. S3 keys and tokens are environment
variables of the clients. If a variable names a file (an x509 proxy, a WLCG token), the content of the file is sent too,
and stored on the node's tmpfs until the end. Both are read again for every point, so that tokens can be renewed during
a campaign. This module may import `stores` and `core`.
"""

import base64
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.stores.protocols.tokens import ends_text, expires, is_file

FILES = ("X509_USER_PROXY", "BEARER_TOKEN_FILE", "XRD_SECRET_FILE")  # variables that name a file
TOKENS = ("BEARER_TOKEN",)
SECRET = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", *TOKENS)


def collect(environs: list[dict[str, str]], environ: Mapping[str, str], tokens: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the parcel of credentials for the nodes.

    `environs` contains the variables of each account, and `environ` those of this process. `tokens` are names of
    further variables from a store's settings. Raises UserError if a variable names a file that cannot be read.
    """
    shared = {name: environ[name] for name in (*TOKENS, *tokens) if environ.get(name) and not is_file(name)}
    files = {}
    for name in dict.fromkeys((*FILES, *filter(is_file, tokens))):
        if path := environ.get(name):
            try:
                files[name] = base64.b64encode(Path(path).read_bytes()).decode()
            except OSError as error:
                raise UserError(
                    name,
                    f"{path} cannot be read ({error.strerror})",
                    "renew the credential, or unset the variable",
                ) from None
    return {"environs": [shared | e for e in environs], "files": files}


def _keep(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read."""
    with open(path, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(content)


def send(folder: Path, name: str, parcel: dict[str, Any]) -> None:
    """Write the parcel to a file in the gang's folder that only its owner can read."""
    _keep(folder / name, json.dumps(parcel).encode())


def forget(folder: Path) -> None:
    """Remove the parcels."""
    for name in ("keys", "ticket"):
        (folder / name).unlink(missing_ok=True)


def receive(parcel: Mapping[str, Any], folder: Path) -> list[dict[str, str]]:
    """Return the clients' variables by account, and write the credential files into `folder` on the node's tmpfs."""
    named = {}
    for name, content in parcel.get("files", {}).items():
        path = folder / name.lower()
        _keep(path, base64.b64decode(content))
        named[name] = str(path)
    return [dict(e) | named for e in parcel.get("environs") or [{}]]


def clean(environ: Mapping[str, str], tokens: tuple[str, ...] = ()) -> dict[str, str]:
    """Return an environment without secrets for the commands of a batch system. For `tokens`, see `collect`."""
    return {k: v for k, v in environ.items() if k not in (*SECRET, *tokens)}


def too_short(environ: Mapping[str, str], seconds: float) -> str:
    """Return a message if a token expires before the end of a point of this duration, otherwise ''."""
    tokens = {name: environ.get(name, "") for name in TOKENS}
    if (path := Path(environ.get("BEARER_TOKEN_FILE", ""))).is_file():
        tokens[str(path)] = path.read_text().strip()
    for place, token in tokens.items():
        if (end := expires(token)) is not None and end < time.time() + seconds:
            lifetime = ends_text(end - time.time())
            return f"the token in {place} {lifetime}, but the point takes {seconds:.0f} s: renew it"
    return ""
