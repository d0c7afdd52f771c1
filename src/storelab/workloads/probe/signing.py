"""Build requests to S3: paths, bodies, and signatures by the signers of botocore, without any additional headers.

The caller can choose date and payload hash, because a probe also sends requests that must be rejected. Paths are
already percent-encoded, as in the request line. Importing botocore is slow.
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
# Headers that the standard requires in addition to all `x-amz-` headers. botocore would sign more.
SIGNED = ("host", "content-type", "content-md5")
_AMAZON = re.compile(r"(^|\.)amazonaws\.com(\.cn)?\Z")


def path_of(key: str) -> str:
    """Return the key percent-encoded by the rules of S3: all characters except letters, digits and `-._~/`."""
    return quote(key, safe="/-._~")


def query_of(parameters: Mapping[str, str]) -> str:
    """Return the canonical query string, which is sent unchanged."""
    return "&".join(sorted(f"{quote(k, safe='-._~')}={quote(v, safe='-._~')}" for k, v in parameters.items()))


def place(endpoint: Endpoint, bucket: str, key: str = "") -> tuple[str, str]:
    """Return the URL of the host and the path for an object, a bucket ('' as key), or the service ('' as bucket too).

    With virtual addressing, each bucket has a separate host.
    """
    scheme, host, *_ = urlsplit(endpoint.url)
    if bucket and endpoint.addressing == "virtual":
        return f"{scheme}://{bucket}.{host}", f"/{path_of(key)}"
    return f"{scheme}://{host}", "/" + path_of("/".join(filter(None, (bucket, key))))


def location(endpoint: Endpoint) -> bytes | None:
    """Return the body of a request that makes a bucket. Amazon needs its region, unless it is the default region."""
    if endpoint.region == "us-east-1" or not _AMAZON.search(urlsplit(endpoint.url).hostname or ""):
        return None
    text = f"<LocationConstraint>{endpoint.region}</LocationConstraint>"
    return f"<CreateBucketConfiguration>{text}</CreateBucketConfiguration>".encode()


def delete_body(keys: Iterable[str]) -> bytes:
    """Return the body of a request that deletes several objects.

    The answer lists only objects that were not deleted.
    """
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>{objects}</Delete>'.encode()


def policy(bucket: str, prefix: str, owner: str | None = None) -> bytes:
    """Return a bucket policy that allows everyone to read below the prefix.

    owner: its access key. The policy of some servers (versitygw) denies access to everyone whom it does not name.
    """
    objects = f"arn:aws:s3:::{bucket}/"
    public = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"], "Resource": [f"{objects}{prefix}*"]}
    statements = [public]
    if owner:
        resources = [f"arn:aws:s3:::{bucket}", f"{objects}*"]
        statements.append({**public, "Principal": {"AWS": [owner]}, "Action": ["s3:*"], "Resource": resources})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()


class _Dated:
    """A mixin for signers.

    `when`: seconds since 1970 instead of the current time; `claimed`: the payload's hash instead of a calculated one.
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
    """A signer that puts the signature into the headers."""


class _Query(_Dated, S3SigV4QueryAuth):
    """A signer that puts the signature into the URL."""


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
    """Return `headers` with `Host`, date, payload hash and `Authorization` (version 4).

    `payload`: the SHA-256 in hexadecimal digits, or UNSIGNED. The host, the type, the MD5 and all `x-amz-` headers are
    signed.
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
    """Return the query string that allows this request for `expires` seconds from `when`.

    Only the host header is signed.
    """
    request = AWSRequest(method, f"http://{host}{path}", {"Host": host})
    signer = _Query(_known(keys), "s3", region, expires=expires)
    signer.when = when
    signer.add_auth(request)
    return urlsplit(request.url).query


def sign_v2(method: str, host: str, resource: str, keys: Credentials) -> dict[str, str]:
    """Return headers with a version 2 signature for a request without a body. `resource`: `/bucket/key`, encoded."""
    request = AWSRequest(method, f"http://{host}{resource}", {"Host": host})
    HmacV1Auth(_known(keys)).add_auth(request)
    return dict(request.headers)
