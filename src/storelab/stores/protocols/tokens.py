"""Bearer tokens, macaroons and certificates: functions that find them and their expiry. Their content is never printed.

The settings of a store name an environment variable that contains the token. If the variable's name ends in `_FILE`, it
contains the path of a file with the token. This file is read again for every point, so that it can be renewed. This
module may import `host` and `core`.
"""

import base64
import json
import os
import re
import ssl
import stat
import time
from collections.abc import Mapping, MutableMapping
from datetime import datetime

from storelab.core.errors import UserError
from storelab.core.redaction import conceal
from storelab.host.processes import run_command

FILE = "_FILE"
PROXY = "X509_USER_PROXY"
XROOTD = ("BEARER_TOKEN", "BEARER_TOKEN_FILE")  # variables in which XRootD's own clients look for a token (WLCG)
WLCG = "wlcg"  # setting of a store: search a token as WLCG's token discovery does
SHARED_FOLDER = "/tmp"
_BEFORE = re.compile(rb"before:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")  # expiry of a macaroon (a caveat)
RENEW = "renew it and run the same command again, which continues with the missing points"


def is_file(name: str) -> bool:
    """Return whether a variable with this name contains the path of a credential file, not the credential."""
    return name.endswith(FILE) or name == PROXY


def discover(environ: MutableMapping[str, str]) -> str:
    """Return the variable with the bearer token that WLCG's token discovery finds; '' without a token.

    Search BEARER_TOKEN, BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_u<uid> and /tmp/bt_u<uid>, in this order. If a file is
    found, set BEARER_TOKEN_FILE to it, so that clients find the same token. Raises UserError if the file is not a
    private regular file of this user: everyone can create files in /tmp.
    """
    if given := next((name for name in XROOTD if environ.get(name, "").strip()), None):
        return given
    for folder in filter(None, (environ.get("XDG_RUNTIME_DIR"), SHARED_FOLDER)):
        path = f"{folder}/bt_u{os.geteuid()}"
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise UserError(path, "is not a regular file", "remove it, or set BEARER_TOKEN_FILE")
        if found.st_uid != os.geteuid():
            raise UserError(path, "belongs to another user", "set BEARER_TOKEN_FILE to your own file")
        credential_file("BEARER_TOKEN_FILE", path)
        environ["BEARER_TOKEN_FILE"] = path
        return "BEARER_TOKEN_FILE"
    return ""


def bearer(name: str | None, environ: Mapping[str, str]) -> str:
    """Return the token in a variable, or in the file that the variable names; '' if there is no token.

    Raises UserError if the file does not exist, or if other users can read it.
    """
    value = environ.get(name or "", "")
    if value and is_file(name or ""):
        value = credential_file(name or "", value).decode(errors="replace").strip()
    conceal(value)
    return value


def credential_file(name: str, path: str) -> bytes:
    """Return the content of a file that a variable names.

    Raises UserError if the file cannot be read, if other users can read it, or if it is not a regular file. Pipes are
    not possible, because they can be read only once, but credentials are read again for every point.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:
            mode = os.fstat(f.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise UserError(name, f"{path} is not a regular file", "set the variable to the path of a file")
            content = f.read()
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror})"
        raise UserError(name, problem, "renew the credential, or unset the variable") from None
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(name, f"other users can read {path}", f"run `chmod 600 {path}`")
    return content


def expires(token: str) -> float | None:
    """Return the expiry of a token in Unix seconds; None if it does not expire.

    It is `exp` of a JSON web token (RFC 7519), or the earliest `before:` of a macaroon.
    """
    try:
        payload = token.split(".")[1]
        return float(json.loads(_decoded(payload))["exp"])
    except (IndexError, KeyError, ValueError, TypeError, OverflowError, RecursionError):
        pass
    try:
        ends = [datetime.fromisoformat(end.decode()).timestamp() for end in _BEFORE.findall(_decoded(token))]
    except ValueError:
        return None
    return min(ends, default=None)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def certificate_ends(path: str) -> float | None:
    """Return the expiry in Unix seconds of the first certificate in a PEM file; None if it is unknown.

    In the file of a proxy, the first certificate is the proxy's own certificate.
    """
    done = run_command(["openssl", "x509", "-in", path, "-noout", "-enddate"], 20)
    found = re.search(r"notAfter=(.+)", done.stdout)
    try:
        return float(ssl.cert_time_to_seconds(found[1].strip())) if found else None
    except ValueError:
        return None


def ends(names: Mapping[str, str], environ: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """Return place in the configuration, variable and expiry (Unix seconds) of all credentials that expire.

    `names` contains the variable of each place.
    """
    out = []
    for place, name in names.items():
        if not (value := environ.get(name)):
            continue
        certificate = name == PROXY or place.endswith(".certificate")
        when = certificate_ends(value) if certificate else expires(bearer(name, environ))
        out += [(place, name, when)] if when is not None else []
    return out


def ends_text(seconds: float) -> str:
    """Return the remaining time of a credential as text."""
    return f"ends in {seconds:.0f} s" if seconds > 0 else f"ended {abs(seconds):.0f} s ago"


def too_short(found: list[tuple[str, str, float]], seconds: float) -> UserError | None:
    """Return a UserError if one of these credentials (see `ends`) expires within `seconds`, otherwise None."""
    now = time.time()
    for place, name, when in sorted(found, key=lambda one: one[2]):
        if when < now + seconds:
            problem = f"the credential in {name} {ends_text(when - now)}, but the point takes {seconds:.0f} s"
            return UserError(place, problem, RENEW)
    return None


def ended(found: list[tuple[str, str, float]]) -> str:
    """Return which of these credentials (see `ends`) has expired, and how to go on; '' if none has."""
    now = time.time()
    for place, name, when in found:
        if when < now:
            return f"{place}: the credential in {name} {ends_text(when - now)}; {RENEW}"
    return ""


def loaded(context: ssl.SSLContext, name: str, environ: Mapping[str, str]) -> None:
    """Load certificate and key from the file that the variable names into a TLS context. Raises UserError."""
    path = environ.get(name, "")
    credential_file(name, path)
    encrypted = []

    def no_password() -> str:  # without it, OpenSSL would ask on the terminal and wait
        encrypted.append(True)
        return ""

    try:
        context.load_cert_chain(path, password=no_password)
    except (OSError, ValueError):  # includes ssl.SSLError
        if encrypted:
            hint = "use a file whose key has no password, like those of voms-proxy-init"
            raise UserError(name, f"the key in {path} is encrypted", hint) from None
        problem = f"{path} does not contain a certificate with its key"
        raise UserError(name, problem, "use a PEM file with both, like those of voms-proxy-init") from None


def named(names: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Check the variables that a store names.

    Raises UserError if a variable is not set, if its file cannot be read, or if other users can read the file.
    """
    for place, name in names.items():
        if not (value := environ.get(name)):
            raise UserError(place, f"the environment variable {name} is not set", "set it to the credential")
        if is_file(name):
            credential_file(name, value)
