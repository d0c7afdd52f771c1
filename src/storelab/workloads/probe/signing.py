"""Signatures of Amazon S3, written out by the hand of the definition, so that no SDK hides what is sent (level 2, pure).

Version 4: "Authenticating Requests: Using the Authorization Header" and "Using Query Parameters" of the Amazon S3 API reference;
version 2: "Signing and authenticating REST requests". Paths are those of the request line, percent-encoded already.
"""

import hashlib
import hmac
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

EMPTY = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True)
class Keys:
    """Keys of one account; `repr` shows none of them."""

    access: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def encoded(text: str) -> str:
    """Percent-encoding of the definition: all but letters, digits and `-._~`."""
    return quote(text, safe="-._~")


def path_of(key: str) -> str:
    return quote(key, safe="/-._~")


def query_of(parameters: Mapping[str, str]) -> str:
    """Canonical query string, which is sent as it is."""
    return "&".join(f"{encoded(k)}={encoded(v)}" for k, v in sorted(parameters.items(), key=lambda p: (encoded(p[0]), encoded(p[1]))))


def _signature(keys: Keys, region: str, stamp: str, canonical: str) -> str:
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4" + keys.secret.encode()
    for part in (stamp[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def _stamp(when: float | None) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(when if when is not None else time.time()))


def _canonical(method: str, path: str, query: str, headers: Mapping[str, str], payload: str) -> tuple[str, str]:
    """(canonical request, signed headers)."""
    folded = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    names = ";".join(sorted(folded))
    lines = "".join(f"{name}:{folded[name]}\n" for name in sorted(folded))
    return f"{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}", names


def sign(
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str,
    keys: Keys,
    region: str,
    when: float | None = None,
) -> dict[str, str]:
    """`headers` with `Host`, date, payload hash and `Authorization` (version 4). `payload`: SHA-256 in hex, or UNSIGNED.

    Signed are the host, the type, the MD5 and all `x-amz-` headers.
    """
    stamp = _stamp(when)
    out = {**headers, "Host": host, "x-amz-date": stamp, "x-amz-content-sha256": payload}
    if keys.token:
        out["x-amz-security-token"] = keys.token
    signed = {k: v for k, v in out.items() if k.lower() in ("host", "content-type", "content-md5") or k.lower().startswith("x-amz-")}
    canonical, names = _canonical(method, path, query_of(query), signed, payload)
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    signature = _signature(keys, region, stamp, canonical)
    out["Authorization"] = f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    return out


def presign(
    method: str, host: str, path: str, query: Mapping[str, str], keys: Keys, region: str, expires: int, when: float | None = None
) -> str:
    """The query string that lets anybody do this for `expires` seconds from `when`; only the host header is signed."""
    stamp = _stamp(when)
    parameters = {
        **query,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.access}/{stamp[:8]}/{region}/s3/aws4_request",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.token:
        parameters["X-Amz-Security-Token"] = keys.token
    canonical, _ = _canonical(method, path, query_of(parameters), {"host": host}, UNSIGNED)
    return f"{query_of(parameters)}&X-Amz-Signature={_signature(keys, region, stamp, canonical)}"


def sign_v2(method: str, host: str, resource: str, keys: Keys) -> dict[str, str]:
    """Headers of an old signature (version 2) for a request without a body; `resource`: `/bucket/key`, encoded."""
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    extra = {"x-amz-security-token": keys.token} if keys.token else {}
    amz = "".join(f"{name}:{value}\n" for name, value in sorted(extra.items()))
    digest = hmac.digest(keys.secret.encode(), f"{method}\n\n\n{date}\n{amz}{resource}".encode(), "sha1")
    return {"Host": host, "Date": date, "Authorization": f"AWS {keys.access}:{b64encode(digest).decode()}", **extra}
