"""External S3 stores: settings, credentials, and other servers that may answer at an endpoint."""

import gzip
import json
import shutil
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from answer_server import answering
from botocore.exceptions import SSLError
from refusals import NONE, refusal

from storelab.host import patience
from storelab.stores import make
from storelab.stores.protocols import s3
from storelab.stores.protocols.endpoint import Bucket, Credentials
from storelab.stores.s3 import Settings

KEYS = Credentials("AKIDNOTREAL", "SECRETNOTREAL")
LIST = (
    b'<?xml version="1.0"?><ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Buckets/></ListAllMyBucketsResult>"
)


def store(**settings):
    return make("mine", Settings(**{"kind": "s3", "endpoint": "http://127.0.0.1:9", **settings}), Path("none"))


@pytest.fixture
def keys(monkeypatch):
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_key)


def test_endpoint_must_be_a_url():
    urls = "s3.example.org ftp://x http:// https://x/path http://u:pw@x u:pw@x http://x:port http://x?y=pw http://x/#pw"
    for url in urls.split():
        message = refusal(store(endpoint=url).endpoints)
        assert message.startswith("stores.mine.endpoint: ") and "pw" not in message, url
        assert ("omit the path; " in message) == (url == "https://x/path"), message


def test_front_ends_are_counted():
    two = store(endpoint=["http://a:1", "http://b:2/"])
    assert [e.url for e in two.endpoints(2)] == ["http://a:1", "http://b:2"]
    assert "front-ends: 3 requested, 2 configured" in refusal(two.endpoints, 3)


def test_resolve_all_gives_an_endpoint_for_each_address(monkeypatch):
    addresses = [(socket.AF_INET, (a, 80)) for a in ("192.0.2.2", "192.0.2.1", "192.0.2.1")]
    addresses.append((socket.AF_INET6, ("2001:db8::1", 80, 0, 0)))
    found = [(family, 1, 6, "", at) for family, at in addresses]
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lambda *a, **k: found)
        ends = store(endpoint="http://s3.example.org:8080", resolve_all=True).endpoints(3)
    assert [e.url for e in ends] == ["http://192.0.2.1:8080", "http://192.0.2.2:8080", "http://[2001:db8::1]:8080"]
    for settings, text in (
        ({"endpoint": "https://localhost:1"}, "certificate"),
        ({"endpoint": "http://localhost:1", "addressing": "virtual"}, "`virtual`"),
        ({"endpoint": ["http://a", "http://b"]}, "2 URLs"),
        ({"endpoint": "http://no-such-host.invalid"}, "resolved"),
    ):
        assert text in refusal(store(resolve_all=True, **settings).endpoints), settings


def test_names_of_buckets_are_valid():
    assert store().bucket("Run.1", 7) == Bucket("storelab-run-1-0007")
    assert store(bucket="given", prefix="lab").bucket("Run.1", 7) == Bucket("given", "lab/Run.1/b0007/")
    assert "longer than 63" in refusal(store().bucket, "c" * 60, 0)


def test_presets_decide_about_multipart_uploads():
    found = [store(preset=f"huawei-uds-{n}").endpoints()[0].multipart for n in (1, 2)]
    assert found == [False, True]


def test_credentials_come_from_environment(keys, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "TOKEN")
    found = store().credentials()
    assert (found.access_key, found.secret_key, found.session_token) == (KEYS.access_key, KEYS.secret_key, "TOKEN")
    assert "NOTREAL" not in repr(found)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "AWS_ACCESS_KEY_ID" in refusal(store().credentials)


def test_credentials_come_from_a_profile(keys, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text(
        "[lab]\naws_access_key_id = PA\naws_secret_access_key = PS\naws_session_token = PT\n[bare]\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    found = store(profile="lab").credentials()
    assert (found.access_key, found.secret_key, found.session_token) == ("PA", "PS", "PT")
    for profile in ("other", "bare"):
        message = refusal(store(profile=profile).credentials)
        assert message.startswith("stores.mine.profile: ") and (profile == "other" or "'bare'" in message)


# What answers

HTML = {"Content-Type": "text/html", "Server": "nginx/1.24.0"}
NGINX = b"<html>\n<head><title>Welcome to nginx!</title></head><body><h1>Welcome</h1></body></html>"
BAD = b"<html><head><title>404 Not Found</title></head><body><hr>nginx/1.24.0</body></html>"
LOGIN = {"Location": "https://login.example.org/sso?token=abc"}
REGION = b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-1</Region></Error>"
ELSEWHERE = b"<Error><Code>PermanentRedirect</Code><Endpoint>b.s3.example.org</Endpoint></Error>"
# (status, headers, body) of an answer, and what the message contains
STRANGERS = [
    ((200, HTML, NGINX), 'nginx/1.24.0 titled "Welcome to nginx!" (HTTP 200)'),
    ((404, HTML, BAD), 'nginx/1.24.0 titled "404 Not Found" (HTTP 404)'),
    ((403, {"Content-Type": "text/html"}, b"<html><title>Access denied</title>"), '"Access denied" (HTTP 403)'),
    ((503, HTML, BAD), "an HTML page of nginx/1.24.0"),
    ((200, {}, b""), "an empty body (HTTP 200)"),
    ((103, {"link": "</x>; rel=preload"}, b""), "interim responses (HTTP 103) before its answers"),
    ((200, {"Content-Type": "application/json"}, b'{"ok": true}'), "application/json"),
    ((200, {}, b"<feed><entry/></feed>"), "<feed>"),
    ((302, LOGIN, b""), "(302) to https://login.example.org/sso,"),
    ((301, {"Location": "/web/"}, b""), "(301) to /web/,"),
    ((400, {}, REGION), "stores.mine.region: the server's region is 'eu-west-1', not 'us-east-1'; set it to eu-west-1"),
    ((301, {"x-amz-bucket-region": "eu-west-1"}, ELSEWHERE), "the server's region is 'eu-west-1'"),
    ((301, {"x-amz-bucket-region": "eu-west-1"}, b""), "the server's region is 'eu-west-1'"),
    ((307, {}, ELSEWHERE), "b.s3.example.org"),
    ((200, {"Content-Encoding": "gzip"}, gzip.compress(LIST)), "Content-Encoding 'gzip', which was not requested"),
    ((500, {}, b"<Error><Code>InternalError</Code></Error>"), "InternalError (HTTP 500)"),
]
REFUSALS = [
    (403, "SignatureDoesNotMatch", "the secret key does not match"),
    (403, "InvalidAccessKeyId", "does not know this access key"),
    (403, "AccessDenied", "denies access"),
    (403, "SomethingOfTheirOwn", "denies access"),
    (403, "RequestTimeTooSkewed", "clock of this machine"),
    (400, "ExpiredToken", "expired"),
    (400, "AuthorizationHeaderMalformed", "`region`"),
    (301, "PermanentRedirect", "region"),
    (404, "NoSuchBucket", "bucket"),
    (503, "SlowDown", "SlowDown"),
]


@pytest.fixture
def server(keys):
    """Return a function that returns how `up` refuses a store whose server gives one answer to everything."""
    answer = [(200, {}, LIST)]
    with answering(lambda request: answer[0]) as port:

        def refused(given, **settings):
            answer[0] = given
            return refusal(store(endpoint=f"http://127.0.0.1:{port}", **settings).up)

        yield refused


def test_refused_credentials_are_distinguished_from_other_errors(server, keys, monkeypatch):
    """Only these make a point without a record: all other errors are results about the store."""
    answer = [(200, {}, LIST)]
    with answering(lambda request: answer[0]) as port:
        found = store(endpoint=f"http://127.0.0.1:{port}")
        assert found.credentials_refused() == ""
        for status, code, _ in REFUSALS:
            answer[0] = status, {}, f"<Error><Code>{code}</Code></Error>".encode()
            assert bool(found.credentials_refused()) == (code in s3.CREDENTIAL_CODES), code
        answer[0] = 400, {}, b"<Error><Code>ExpiredToken</Code></Error>"
        assert "expired; log in again" in found.credentials_refused()
    assert found.credentials_refused() == ""  # it does not answer
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2023-11-14T22:13:20+00:00")
    assert "the credential in AWS_SESSION_TOKEN ended" in found.credentials_refused()


def test_answer_of_s3_is_accepted(keys):
    with answering(lambda request: (200, {"Server": "Ceph"}, LIST)) as port:
        found = store(endpoint=f"http://127.0.0.1:{port}")
        found.up()
        assert found.version() == "Ceph"


def test_other_answers_are_named(server):
    assert server((200, {}, b"<ListBucketResult><Name>b</Name></ListBucketResult>"), bucket="given") == NONE
    for answer, text in STRANGERS:
        for message in (server(answer, bucket=bucket) for bucket in (None, "given")):
            assert text in message and message.startswith("stores.mine") and "; " in message, (answer, message)
            assert "token" not in message, (answer, message)


def test_unreadable_values_are_named(server):
    named = b"<ListBucketResult><Contents><Key>a</Key>%b</Contents></ListBucketResult>"
    bucket = b"<Buckets><Bucket><Name>b</Name><CreationDate>never</CreationDate></Bucket></Buckets>"
    every = b"<ListAllMyBucketsResult>%b</ListAllMyBucketsResult>" % bucket
    for body, given in (
        (named % b"<Size>-</Size>", "given"),
        (named % b"<LastModified>x</LastModified>", "given"),
        (every, None),
    ):
        message = server((200, {}, body), bucket=given)
        assert message.startswith("stores.mine.endpoint: ") and "cannot be read" in message, message


def test_configured_bucket_that_does_not_exist_has_its_own_hint(server):
    """Staging creates storelab's buckets, but not this one."""
    body = b"<Error><Code>NoSuchBucket</Code><Message>m</Message></Error>"
    problem = "stores.mine: NoSuchBucket: the bucket{} does not exist; "
    assert server((404, {}, body)).startswith(problem.format("") + "check the store's `bucket`, or run")
    expected = problem.format(" 'given'") + "set the store's `bucket` to an existing one, or omit it"
    assert server((404, {}, body), bucket="given") == expected


def test_errors_of_s3_are_explained_without_keys(server):
    for status, code, text in REFUSALS:
        key = f"<AWSAccessKeyId>{KEYS.access_key}</AWSAccessKeyId>"
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>m</Message>{key}</Error>"
        message = server((status, {}, body.encode()))
        assert text in message and message.startswith("stores.mine") and "NOTREAL" not in message, (code, message)


def test_unreachable_endpoints_are_named(keys, port_block):
    url = f"http://127.0.0.1:{port_block}"
    assert refusal(store(endpoint=url).up).startswith(f"stores.mine.endpoint: {url} refuses")
    far = store(endpoint="http://no-such-host.invalid")
    assert "http://no-such-host.invalid cannot be resolved" in refusal(far.up)
    assert far.status().state == "external"
    with answering(lambda request: (200, {}, b"")) as port:
        assert "http://" in refusal(store(endpoint=f"https://127.0.0.1:{port}").up), "it speaks no TLS"


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl, which makes the certificate, is not installed")
def test_certificates_are_verified(keys, tmp_path):
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key", "-out", "crt"]
    subprocess.run([*command.split(), *more], cwd=tmp_path, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text((tmp_path / "key").read_text() + (tmp_path / "crt").read_text())
    with answering(lambda request: (200, {}, LIST), both) as port:
        url = f"https://localhost:{port}"
        message = refusal(store(endpoint=url).up)
        assert url in message and "`ca_file`" in message
        store(endpoint=url, ca_file=str(tmp_path / "crt")).up()
        store(endpoint=url, verify_tls=False).up()


def test_wrong_certificates_have_the_right_hint(keys, tmp_path):
    trustme = pytest.importorskip("trustme")
    root, past = trustme.CA(), datetime(2020, 1, 1, tzinfo=UTC)
    root.cert_pem.write_to_path(tmp_path / "root")
    inner = root.create_child_ca().issue_cert("localhost")
    for certificate, chain, words in (
        (root.issue_cert("localhost", not_after=past), 1, "(certificate has expired); renew it"),
        (root.issue_cert("elsewhere.example"), 1, "is for other names: 'elsewhere.example"),
        (inner, 1, "(unable to get local issuer certificate); set the store's `ca_file`"),
        (inner, 2, ""),
    ):
        both = tmp_path / "both"
        parts = [certificate.private_key_pem, *certificate.cert_chain_pems[:chain]]
        both.write_bytes(b"".join(part.bytes() for part in parts))
        with answering(lambda request: (200, {}, LIST), both) as port:
            found = store(endpoint=f"https://localhost:{port}", ca_file=str(tmp_path / "root"))
            assert words in refusal(found.up) if words else found.up() is None, words


def test_refused_tls_has_the_reason():
    for text, reason in (
        (
            "SSL validation failed for https://h/ [SSL: UNSUPPORTED_PROTOCOL] unsupported protocol (_ssl.c:1)",
            "(unsupported p",
        ),
        (
            "SSL validation failed for https://h/ [SSL] legacy sigalg disallowed or unsupported (_ssl.c:1)",
            "(legacy sigalg ",
        ),
        ("SSL validation failed for https://h/ something new", "TLS with https://h fails; storelab needs TLS 1.2"),
    ):
        error = SSLError(endpoint_url="https://h/", error=text)
        assert reason in str(s3.explain(error, "stores.mine"))


def test_keys_that_cannot_be_used_are_named(keys, monkeypatch, tmp_path):
    """Half a pair, a file without profiles, an invalid character of a header: they are mistakes, not failures."""
    credentials = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    for name, other in (("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"), ("SECRET_ACCESS_KEY", "ACCESS_KEY_ID")):
        monkeypatch.setenv(f"AWS_{name}", "hush")
        monkeypatch.delenv(f"AWS_{other}", raising=False)
        assert refusal(store().credentials).startswith(
            f"stores.mine: AWS_{name} is set, but AWS_{other} is not; set AWS_ACC"
        )
    for access, secret, name in (("a\nb", "s", "access key"), ("a", "hush\r", "secret key"), ("ä", "s", "access key")):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", access)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        message = refusal(store().credentials)
        assert message.startswith(f"stores.mine: the {name} contains a line break") and "hush" not in message
    for text, message in (
        (
            b"[mine]\naws_access_key_id = hush\n",
            "stores.mine: the credentials are incomplete: aws_secret_access_key is missing",
        ),
        (b"garbage\n", f"{credentials}: the file has no valid AWS profiles; write [profile]"),
        (b"\x00\xff[[[ =\n", f"{credentials}: the file has no valid AWS profiles; write [profile]"),
    ):
        credentials.write_bytes(text)
        for act in ("credentials", "require") if b"[mine]" not in text else ("credentials",):
            found = refusal(getattr(store(profile="mine"), act))
            assert found.startswith(message) and "hush" not in found, found


def test_proxy_is_looked_at_before_anything_is_done(monkeypatch):
    for text in ("nonsense::::", "http://no such", "socks5://x:1", "127.0.0.1:99999", "x:0"):
        monkeypatch.setenv("http_proxy", text)
        assert "is not the URL of an HTTP proxy; write http://host:port" in refusal(
            store(endpoint="http://s3.example.org", proxy="environment").require
        )
        assert refusal(store(endpoint="http://s3.example.org").require) == NONE


def test_program_that_gives_no_keys_is_named(keys, monkeypatch, tmp_path):
    """Cases: output or action of the program, words of the message. The output may contain keys, and is not shown."""
    monkeypatch.setattr(patience, "STALLED_S", 0.2)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    old = {"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "my-secret", "Expiration": "2020-01-01T00:00:00Z"}
    program = tmp_path / "program"
    for script, words in (
        ("exec sleep 30", "did not end within 0 s"),
        ("echo my-secret", "cannot be read (JSONDecodeError)"),
        ("echo '[\"my-secret\"]'", "cannot be read (AttributeError)"),
        ("printf '\\377my-secret'", "cannot be read (UnicodeDecodeError)"),
        (f"echo '{json.dumps(old)}'", "cannot be read (they have expired)"),
        (f"echo '{json.dumps(old | {'Expiration': 'my-secret'})}'", "cannot be read (ParserError)"),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        (tmp_path / "config").write_text(f"[profile lab]\ncredential_process = {program}\n")
        message = refusal(store(profile="lab").credentials)
        assert words in message and "my-secret" not in message, message
