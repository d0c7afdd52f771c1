"""The probe's own signatures against botocore's: two ways to the same string."""

import hashlib
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.auth import HmacV1Auth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from storelab.workloads.probe import signing
from storelab.workloads.probe.signing import EMPTY, Keys

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
    monkeypatch.setattr(auth, "get_current_datetime", lambda remove_tzinfo=True: fixed.replace(tzinfo=None) if remove_tzinfo else fixed)
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
    S3SigV4Auth(Credentials(ACCESS, SECRET, token), "s3", "eu-1").add_auth(request)
    digest = hashlib.sha256(body).hexdigest()
    unsigned = {"Range": "bytes=0-9"}  # the definition asks for host, type, MD5 and x-amz- alone; botocore signs all it knows
    ours = signing.sign("PUT", HOST, path, query, {**headers, **unsigned}, digest, Keys(ACCESS, SECRET, token), "eu-1", noon)
    assert request.headers["X-Amz-Content-SHA256"] == digest == ours["x-amz-content-sha256"]
    assert ours["Authorization"] == request.headers["Authorization"] and ours["Range"] == "bytes=0-9"


@pytest.mark.parametrize("key", KEYS)
def test_presigned(noon, token, key):
    path = f"/bucket/{signing.path_of(key)}"
    request = AWSRequest("GET", f"http://{HOST}{path}", headers={})
    S3SigV4QueryAuth(Credentials(ACCESS, SECRET, token), "s3", "eu-1", expires=300).add_auth(request)
    ours = signing.presign("GET", HOST, path, {}, Keys(ACCESS, SECRET, token), "eu-1", 300, noon)
    assert dict(parse_qsl(ours)) == dict(parse_qsl(urlsplit(request.url).query))


def test_version_2():
    headers = signing.sign_v2("GET", HOST, "/bucket/a%20b", Keys(ACCESS, SECRET))
    again = HmacV1Auth(Credentials(ACCESS, SECRET)).sign_string(f"GET\n\n\n{headers['Date']}\n/bucket/a%20b")
    assert headers["Authorization"] == f"AWS {ACCESS}:{again}"


def test_keys_are_not_shown():
    assert SECRET not in repr(Keys(ACCESS, SECRET)) and ACCESS not in repr(Keys(ACCESS, SECRET)) and len(EMPTY) == 64
