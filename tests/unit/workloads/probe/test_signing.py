"""What is sent is signed as Amazon defines it: its own published examples, and botocore's signers by themselves."""

import hashlib
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.auth import HmacV1Auth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from storelab.stores.protocols.endpoint import Credentials
from storelab.workloads.probe import signing

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
HOST = "127.0.0.1:18316"
KEYS = ["plain", "with space", "a/b/c", "plus+sign", "a=b&c", "ümläut-日本", "~tilde'quote(1)!*"]


@pytest.fixture(params=[None, "a-token+/="])
def token(request):
    return request.param


@pytest.fixture
def noon(monkeypatch):
    """Both read the clock at the same second."""
    import datetime

    from botocore import auth

    fixed = datetime.datetime(2026, 1, 2, 12, 0, 0, tzinfo=datetime.UTC)
    monkeypatch.setattr(
        auth, "get_current_datetime", lambda remove_tzinfo=True: fixed.replace(tzinfo=None) if remove_tzinfo else fixed
    )
    return fixed.timestamp()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("query", [{}, {"uploads": ""}, {"list-type": "2", "prefix": "a b/+&", "max-keys": "10"}])
def test_version_4(noon, token, key, query):
    body = b"hello" if not query else b""
    path = f"/bucket/{signing.path_of(key)}"
    url = f"http://{HOST}{path}" + (f"?{signing.query_of(query)}" if query else "")
    headers = {"x-amz-meta-run": "Some  Value", "Content-MD5": "abc="}
    request = AWSRequest("PUT", url, headers={**headers, "Host": HOST}, data=body)
    request.context["payload_signing_enabled"] = True
    S3SigV4Auth(ReadOnlyCredentials(ACCESS, SECRET, token), "s3", "eu-1").add_auth(request)
    digest = hashlib.sha256(body).hexdigest()
    unsigned = {
        "Range": "bytes=0-9"
    }  # the definition asks for host, type, MD5 and x-amz- alone; botocore signs all it knows
    ours = signing.sign(
        "PUT", HOST, path, query, {**headers, **unsigned}, digest, Credentials(ACCESS, SECRET, token), "eu-1", noon
    )
    assert request.headers["X-Amz-Content-SHA256"] == digest == ours["X-Amz-Content-SHA256"]
    assert ours["Authorization"] == request.headers["Authorization"] and ours["Range"] == "bytes=0-9"


@pytest.mark.parametrize("key", KEYS)
def test_presigned(noon, token, key):
    path = f"/bucket/{signing.path_of(key)}"
    request = AWSRequest("GET", f"http://{HOST}{path}", headers={})
    S3SigV4QueryAuth(ReadOnlyCredentials(ACCESS, SECRET, token), "s3", "eu-1", expires=300).add_auth(request)
    ours = signing.presign("GET", HOST, path, Credentials(ACCESS, SECRET, token), "eu-1", 300, noon)
    assert dict(parse_qsl(ours)) == dict(parse_qsl(urlsplit(request.url).query))


def test_version_2():
    headers = signing.sign_v2("GET", HOST, "/bucket/a%20b", Credentials(ACCESS, SECRET))
    again = HmacV1Auth(ReadOnlyCredentials(ACCESS, SECRET, None)).sign_string(
        f"GET\n\n\n{headers['Date']}\n/bucket/a%20b"
    )
    assert headers["Authorization"] == f"AWS {ACCESS}:{again}"


# "Authenticating Requests: Examples" of the Amazon S3 API reference: 24 May 2013, us-east-1.
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
FRIDAY, BUCKET = 1369353600.0, "examplebucket.s3.amazonaws.com"


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "body", "signature"),
    [
        ("GET", "/", {"lifecycle": ""}, {}, b"", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "GET",
            "/",
            {"max-keys": "2", "prefix": "J"},
            {},
            b"",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_published_examples(method, path, query, headers, body, signature):
    digest = hashlib.sha256(body).hexdigest()
    sent = signing.sign(method, BUCKET, path, query, headers, digest, EXAMPLE, "us-east-1", FRIDAY)
    assert sent["X-Amz-Date"] == "20130524T000000Z" and sent["Host"] == BUCKET
    assert sent["Authorization"].endswith(f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}")


def test_published_example_of_a_presigned_url():
    query = signing.presign("GET", BUCKET, "/test.txt", EXAMPLE, "us-east-1", 86400, FRIDAY)
    assert query.endswith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


def test_what_is_claimed_of_the_payload_is_sent():
    """A wrong hash and none at all, as the probe sends them."""
    for claim in (signing.UNSIGNED, "0" * 64):
        sent = signing.sign("PUT", HOST, "/b/k", {}, {}, claim, EXAMPLE, "eu-1")
        assert sent["X-Amz-Content-SHA256"] == claim


def test_a_host_with_a_usual_port_is_sent_and_signed_as_it_is():
    one, other = (signing.presign("GET", host, "/b/k", EXAMPLE, "eu-1", 60, FRIDAY) for host in ("h:80", "h"))
    assert one != other


def test_keys_are_not_shown():
    assert SECRET not in repr(Credentials(ACCESS, SECRET)) and ACCESS not in repr(Credentials(ACCESS, SECRET))
