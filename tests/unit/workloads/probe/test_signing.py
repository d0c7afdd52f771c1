"""Signatures as Amazon defines them: its published examples, and botocore's signers."""

import datetime
import hashlib
from itertools import product
from urllib.parse import parse_qsl, urlsplit

import pytest

from storelab.stores.protocols.endpoint import Credentials
from storelab.workloads.probe import signing

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
HOST = "127.0.0.1:18316"
KEYS = ["plain", "with space", "a/b/c", "plus+sign", "a=b&c", "ümläut-日本", "~tilde'quote(1)!*"]
TOKENS = [None, "a-token+/="]
QUERIES = [{}, {"uploads": ""}, {"list-type": "2", "prefix": "a b/+&", "max-keys": "10"}]


@pytest.fixture
def noon(monkeypatch):
    """Fix the time at which storelab and botocore sign, and return it in seconds."""
    from botocore import auth

    fixed = datetime.datetime(2026, 1, 2, 12, 0, 0, tzinfo=datetime.UTC)
    now = lambda remove_tzinfo=True: fixed.replace(tzinfo=None) if remove_tzinfo else fixed  # noqa: E731
    monkeypatch.setattr(auth, "get_current_datetime", now)
    return fixed.timestamp()


def test_version_4_is_that_of_botocore(noon):
    """The definition requires host, type, MD5 and x-amz- headers; botocore signs all headers that it knows."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import ReadOnlyCredentials

    sent = {"x-amz-meta-run": "Some  Value", "Content-MD5": "abc="}
    for token, key, query in product(TOKENS, KEYS, QUERIES):
        body = b"hello" if not query else b""
        path = f"/bucket/{signing.path_of(key)}"
        url = f"http://{HOST}{path}" + (f"?{signing.query_of(query)}" if query else "")
        request = AWSRequest("PUT", url, headers={**sent, "Host": HOST}, data=body)
        request.context["payload_signing_enabled"] = True
        S3SigV4Auth(ReadOnlyCredentials(ACCESS, SECRET, token), "s3", "eu-1").add_auth(request)
        digest, keys = hashlib.sha256(body).hexdigest(), Credentials(ACCESS, SECRET, token)
        headers = sent | {"Range": "bytes=0-9"}
        ours = signing.sign("PUT", HOST, path, query, headers, digest, keys, "eu-1", noon)
        assert request.headers["X-Amz-Content-SHA256"] == digest == ours["X-Amz-Content-SHA256"]
        assert ours["Authorization"] == request.headers["Authorization"], (token, key, query)
        assert ours["Range"] == "bytes=0-9"


def test_presigned_url_is_that_of_botocore(noon):
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import ReadOnlyCredentials

    for token, key in product(TOKENS, KEYS):
        path = f"/bucket/{signing.path_of(key)}"
        request = AWSRequest("GET", f"http://{HOST}{path}", headers={})
        S3SigV4QueryAuth(ReadOnlyCredentials(ACCESS, SECRET, token), "s3", "eu-1", expires=300).add_auth(request)
        ours = signing.presign("GET", HOST, path, Credentials(ACCESS, SECRET, token), "eu-1", 300, noon)
        assert dict(parse_qsl(ours)) == dict(parse_qsl(urlsplit(request.url).query)), (token, key)


def test_version_2_is_that_of_botocore():
    from botocore.auth import HmacV1Auth
    from botocore.credentials import ReadOnlyCredentials

    headers = signing.sign_v2("GET", HOST, "/bucket/a%20b", Credentials(ACCESS, SECRET))
    text = f"GET\n\n\n{headers['Date']}\n/bucket/a%20b"
    signature = HmacV1Auth(ReadOnlyCredentials(ACCESS, SECRET, None)).sign_string(text)
    assert headers["Authorization"] == f"AWS {ACCESS}:{signature}"


# "Authenticating Requests: Examples" of the Amazon S3 API reference: 24 May 2013, us-east-1.
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
FRIDAY, BUCKET = 1369353600.0, "examplebucket.s3.amazonaws.com"
SIGNED = "SignedHeaders=host;x-amz-content-sha256;x-amz-date"


def test_published_examples():
    digest = hashlib.sha256(b"").hexdigest()
    for query, signature in (
        ({"lifecycle": ""}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ({"max-keys": "2", "prefix": "J"}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ):
        sent = signing.sign("GET", BUCKET, "/", query, {}, digest, EXAMPLE, "us-east-1", FRIDAY)
        assert sent["X-Amz-Date"] == "20130524T000000Z" and sent["Host"] == BUCKET
        assert sent["Authorization"].endswith(f"{SIGNED}, Signature={signature}")
    query = signing.presign("GET", BUCKET, "/test.txt", EXAMPLE, "us-east-1", 86400, FRIDAY)
    assert query.endswith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


def test_claimed_digest_is_sent():
    """The probe sends a wrong hash, and none at all."""
    for claim in (signing.UNSIGNED, "0" * 64):
        sent = signing.sign("PUT", HOST, "/b/k", {}, {}, claim, EXAMPLE, "eu-1")
        assert sent["X-Amz-Content-SHA256"] == claim


def test_usual_port_is_signed_if_it_is_sent():
    one, other = (signing.presign("GET", host, "/b/k", EXAMPLE, "eu-1", 60, FRIDAY) for host in ("h:80", "h"))
    assert one != other
