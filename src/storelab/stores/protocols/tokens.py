"""Bearer tokens, macaroons, certificates of doors: where they are found, when they end. What they say is never told.

A store names a variable of the environment. The variable holds the token; one whose name ends in `_FILE` names a file
that holds it, read again for every point, so that it can be renewed meanwhile. May import: `host`, `core`.
"""

import base64
import json
import os
import re
import ssl
import stat
import time
from collections.abc import Mapping
from datetime import datetime

from storelab.core.errors import UserError
from storelab.core.redaction import conceal
from storelab.host.processes import ask

FILE = "_FILE"
PROXY = "X509_USER_PROXY"
XROOTD = ("BEARER_TOKEN", "BEARER_TOKEN_FILE")  # where XRootD's own clients look for a token (WLCG)
_BEFORE = re.compile(rb"before:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")  # a caveat of macaroons


def is_file(name: str) -> bool:
    """Whether a variable of this name holds the path of a file with the credential, and not the credential."""
    return name.endswith(FILE) or name == PROXY


def bearer(name: str | None, environ: Mapping[str, str]) -> str:
    """The token that a variable holds, or the file that it names; '' without one. Raises UserError: no such file, or
    others can read it."""
    value = environ.get(name or "", "")
    if value and is_file(name or ""):
        value = own_file(name or "", value).decode(errors="replace").strip()
    conceal(value)
    return value


def own_file(name: str, path: str) -> bytes:
    """Content of a file that a variable names. Raises UserError where it cannot be read, or others can read it."""
    try:
        with open(path, "rb") as f:
            mode = os.fstat(f.fileno()).st_mode
            content = f.read()
    except OSError as error:
        problem = f"it names {path}, which cannot be read ({error.strerror})"
        raise UserError(name, problem, "renew the credential, or unset it") from None
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(name, f"others than you can read {path}", f"chmod 600 {path}")
    return content


def expires(token: str) -> float | None:
    """When a JSON web token (`exp`, RFC 7519) or a macaroon (its earliest `before:`) ends, in seconds of UTC; None if
    it does not say."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(_decoded(payload))["exp"])
    except (IndexError, KeyError, ValueError, TypeError):
        pass
    try:
        ends = [datetime.fromisoformat(end.decode()).timestamp() for end in _BEFORE.findall(_decoded(token))]
    except ValueError:
        return None
    return min(ends, default=None)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def certificate_ends(path: str) -> float | None:
    """When the first certificate of a PEM file ends: of a proxy, its own. None if that cannot be told."""
    done = ask(["openssl", "x509", "-in", path, "-noout", "-enddate"], 20)
    found = re.search(r"notAfter=(.+)", done.stdout)
    try:
        return float(ssl.cert_time_to_seconds(found[1].strip())) if found else None
    except ValueError:
        return None


def ends(names: Mapping[str, str], environ: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """(place in the configuration, variable, when it ends) of the credentials that tell. names: variable by place."""
    out = []
    for place, name in names.items():
        if not (value := environ.get(name)):
            continue
        certificate = name == PROXY or place.endswith(".certificate")
        when = certificate_ends(value) if certificate else expires(bearer(name, environ))
        out += [(place, name, when)] if when is not None else []
    return out


def ends_text(seconds: float) -> str:
    """Return when something ends or ended, in words."""
    return f"ends in {seconds:.0f} s" if seconds > 0 else f"ended {abs(seconds):.0f} s ago"


def too_short(found: list[tuple[str, str, float]], seconds: float) -> UserError | None:
    """What to raise where one of `ends` comes before `seconds` have gone by."""
    now = time.time()
    for place, name, when in sorted(found, key=lambda one: one[2]):
        if when < now + seconds:
            problem = f"what {name} holds {ends_text(when - now)}, the point takes {seconds:.0f} s"
            mend = "renew it and run the same command again: it goes on with what is missing"
            return UserError(place, problem, mend)
    return None


def loaded(context: ssl.SSLContext, name: str, environ: Mapping[str, str]) -> None:
    """Give a TLS context the certificate and key of the file that the variable names. Raises UserError."""
    path = environ.get(name, "")
    own_file(name, path)
    try:
        context.load_cert_chain(path)
    except (OSError, ValueError):  # an ssl.SSLError is one
        problem = f"{path} holds no certificate with its key"
        raise UserError(name, problem, "give a PEM file with both, as voms-proxy-init makes it") from None


def named(names: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raises UserError: a variable that a store names is not set, its file cannot be read, or is open to others."""
    for place, name in names.items():
        if not (value := environ.get(name)):
            raise UserError(place, f"the environment variable {name} is not set", "put the credential there")
        if is_file(name):
            own_file(name, value)
