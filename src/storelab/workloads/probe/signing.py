"""Parts of requests to S3: paths, bodies, and signatures by botocore's own signers. Nothing is sent but what is given
here.

The caller may choose date and payload hash: a probe also sends requests that must be refused. Paths are those of the
request line, percent-encoded already. What imports botocore is slow to start.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape

from botocore.auth import HmacV1Auth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from storelab.stores.protocols.endpoint import Credentials, Endpoint

UNSIGNED = "UNSIGNED-PAYLOAD"
# What the definition asks for, beside all `x-amz-` headers; botocore would sign more.
SIGNED = ("host", "content-type", "content-md5")
_AMAZON = re.compile(r"(^|\.)amazonaws\.com(\.cn)?\Z")


def path_of(key: str) -> str:
    """Percent-encoding of the definition: all but letters, digits and `-._~/`."""
    return quote(key, safe="/-._~")


def query_of(parameters: Mapping[str, str]) -> str:
    """Canonical query string, which is sent as it is."""
    return "&".join(sorted(f"{quote(k, safe='-._~')}={quote(v, safe='-._~')}" for k, v in parameters.items()))


def place(endpoint: Endpoint, bucket: str, key: str = "") -> tuple[str, str]:
    """(URL of the host, path) of an object, of a bucket ('' as key) or of the service ('' as bucket too). With virtual
    addressing each bucket has a host of its own."""
    scheme, host, *_ = urlsplit(endpoint.url)
    if bucket and endpoint.addressing == "virtual":
        return f"{scheme}://{bucket}.{host}", f"/{path_of(key)}"
    return f"{scheme}://{host}", "/" + path_of("/".join(filter(None, (bucket, key))))


def location(endpoint: Endpoint) -> bytes | None:
    """Body of a request that makes a bucket: Amazon wants its region again where it is not the first one."""
    if endpoint.region == "us-east-1" or not _AMAZON.search(urlsplit(endpoint.url).hostname or ""):
        return None
    text = f"<LocationConstraint>{endpoint.region}</LocationConstraint>"
    return f"<CreateBucketConfiguration>{text}</CreateBucketConfiguration>".encode()


def delete_body(keys: Iterable[str]) -> bytes:
    """The body of a request of S3 that deletes several objects; the answer names only what was not deleted."""
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>{objects}</Delete>'.encode()


def policy(bucket: str, prefix: str, owner: str | None = None) -> bytes:
    """A policy of a bucket: everybody may read below the prefix. owner: its access key, for servers (versitygw) whose
    policy locks out whom it does not name."""
    objects = f"arn:aws:s3:::{bucket}/"
    public = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"], "Resource": [f"{objects}{prefix}*"]}
    statements = [public]
    if owner:
        resources = [f"arn:aws:s3:::{bucket}", f"{objects}*"]
        statements.append({**public, "Principal": {"AWS": [owner]}, "Action": ["s3:*"], "Resource": resources})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()


class _Dated:
    """Part of a signer. `when`: seconds since 1970 in place of the clock's; `claimed`: the payload's hash, in place
    of what is measured.
    """

    when: float | None = None
    claimed = UNSIGNED

    def _modify_request_before_signing(self, request: AWSRequest) -> None:
        if self.when is not None:
            request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.when))
        super()._modify_request_before_signing(request)  # type: ignore[misc]

    def payload(self, request: AWSRequest) -> str:
        return self.claimed


class _Header(_Dated, S3SigV4Auth):
    """The signature stands in the headers."""


class _Query(_Dated, S3SigV4QueryAuth):
    """The signature stands in the URL."""


def _known(keys: Credentials) -> Any:
    return ReadOnlyCredentials(keys.access_key, keys.secret_key, keys.session_token)


def sign(
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str,
    keys: Credentials,
    region: str,
    when: float | None = None,
) -> dict[str, str]:
    """`headers` with `Host`, date, payload hash and `Authorization` (version 4). `payload`: SHA-256 in hex, or
    UNSIGNED.

    Signed are the host, the type, the MD5 and all `x-amz-` headers.
    """
    signed = {k: v for k, v in headers.items() if k.lower() in SIGNED or k.lower().startswith("x-amz-")}
    url = f"http://{host}{path}" + (f"?{query_of(query)}" if query else "")
    request, signer = AWSRequest(method, url, {**signed, "Host": host}), _Header(_known(keys), "s3", region)
    signer.when, signer.claimed = when, payload
    signer.add_auth(request)
    return {**headers, **request.headers}


def presign(
    method: str,
    host: str,
    path: str,
    keys: Credentials,
    region: str,
    expires: int,
    when: float | None = None,
) -> str:
    """The query string that lets anybody do this for `expires` seconds from `when`; only the host header is signed."""
    request = AWSRequest(method, f"http://{host}{path}", {"Host": host})
    signer = _Query(_known(keys), "s3", region, expires=expires)
    signer.when = when
    signer.add_auth(request)
    return urlsplit(request.url).query


def sign_v2(method: str, host: str, resource: str, keys: Credentials) -> dict[str, str]:
    """Headers of an old signature (version 2) for a request without a body; `resource`: `/bucket/key`, encoded."""
    request = AWSRequest(method, f"http://{host}{resource}", {"Host": host})
    HmacV1Auth(_known(keys)).add_auth(request)
    return dict(request.headers)
