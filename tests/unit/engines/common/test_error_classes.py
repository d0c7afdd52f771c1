"""Error classes and HTTP statuses, from what the libraries raise."""

import subprocess

import obstore as obstore_library
import pytest
from answer_server import answering

from storelab.engines.common import error_classes
from storelab.engines.common.error_classes import classify, network, obstore
from storelab.engines.common.selections import WrongData
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Credentials, Endpoint

S3 = "Generic S3 error: "
ANSWERED = S3 + "Error performing {m} http://h/b/k in 1ms - Server returned non-2xx status code: {s}: {body}"
UNANSWERED = S3 + "Error performing GET http://h/timeout/k in 1ms - HTTP error: error sending request"
REFUSED = ANSWERED + "\n\nDebug source:\nGeneric"
HTTP = UNANSWERED + "\n\nDebug source: inner: Http( {} )"
SLOW = "<Error><Code>SlowDown</Code></Error>"


class GenericError(Exception):
    """The name of obstore's exceptions."""


def test_messages_of_obstore():
    for text, found in (
        (REFUSED.format(m="GET", s="503 Service Unavailable", body=SLOW), ("SlowDown", 503)),
        (REFUSED.format(m="PUT", s="403 Forbidden", body=""), ("Http403", 403)),
        (HTTP.format("HttpError { kind: Timeout, source: TimedOut }"), ("Timeout", 0)),
        (HTTP.format("Os { code: 111, kind: ConnectionRefused }"), ("ConnectionRefused", 0)),
        (HTTP.format("hyper::Error( IncompleteMessage )"), ("ConnectionClosed", 0)),
        (S3 + "HTTP error: request or response body error Custom { kind: UnexpectedEof }", ("ConnectionClosed", 0)),
        (S3 + "Received non-partial response when range requested … NotPartial", ("NotPartial", 0)),
        ("something new", ("GenericError", 0)),
    ):
        assert obstore(GenericError(text)) == classify(GenericError(text)) == found, text


def test_network_failures_of_all_languages_are_one_class():
    go, rust = "dial tcp 127.0.0.1:1: connect: connection refused", "kind: ConnectionRefused"
    assert network(go) == network(rust) == "ConnectionRefused"
    assert network("NoSuchKey: status code: 404") is None


def test_messages_name_networks_and_redirects():
    for kind, text, message in (
        ("ConnectionClosed", "error sending request", "ConnectionClosed: error sending request"),
        ("Timeout", "Timeout: none", "Timeout: none"),
        ("SlowDown", "busy", "busy"),
        ("307", "answer", "redirected (307), and redirects are not followed: answer"),
        ("Http308", "answer", "redirected (Http308), and redirects are not followed: answer"),
        ("TemporaryRedirect", "answer", "redirected (TemporaryRedirect), and redirects are not followed: answer"),
        ("Http304", "answer", "answer"),
    ):
        assert error_classes.named(kind, text) == message


def test_causes_are_classified():
    class Answer(Exception):
        response = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}  # noqa: RUF012

    translated = OSError("busy")
    translated.__cause__ = Answer()
    assert classify(translated) == ("SlowDown", 503)
    assert classify(WrongData("ChecksumMismatch", "…")) == ("ChecksumMismatch", 0)
    assert classify(TimeoutError()) == ("TimeoutError", 0)


@pytest.mark.parametrize("known", [False, True])
def test_tls_failures_have_one_class(tmp_path, monkeypatch, known):
    """OpenSSL accepts a known certificate that `openssl req -x509` makes; Rust's library never does."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -keyout key -out crt -addext"
    subprocess.run([*command.split(), "subjectAltName=IP:127.0.0.1"], cwd=tmp_path, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text((tmp_path / "key").read_text() + (tmp_path / "crt").read_text())
    keys = Credentials("key", "secret")
    for name, value in keys.environ().items():
        monkeypatch.setenv(name, value)
    with answering(lambda request: (200, {}, b"0123" if request.method == "GET" else b""), both) as port:
        end = Endpoint(f"https://127.0.0.1:{port}", ca_file=str(tmp_path / "crt") if known else None)
        fs = filesystems.data(end, keys.environ(), 1)
        with pytest.raises(Exception, match="error sending request") as caught:
            obstore_library.get(s3_clients.store(end, "b", {"timeout": "5s"}), "k")
        assert classify(caught.value) == ("CertificateNotTrusted", 0)
        message = error_classes.named("CertificateNotTrusted", error_classes.words(caught.value))
        assert message.startswith("CertificateNotTrusted: the server uses a CA certificate as its own")
        assert "{" not in message
        if known:
            assert fs.cat_file("b/k") == b"0123"
        else:
            with pytest.raises(Exception, match="self-signed") as caught:
                fs.cat_file("b/k")
            assert classify(caught.value) == ("CertificateNotTrusted", 0)


def test_tls_failures_of_programs():
    go, neon = 'Get "https://h/b/k": remote error: tls: protocol version not supported', "SSL handshake failed: legacy"
    assert network(go) == network(neon) == network("AlertReceived( CertificateRequired )") == "TlsFailed"
    go, neon = "tls: failed to verify certificate: x509", "Server certificate verification failed: issuer"
    assert network(go) == network(neon) == "CertificateNotTrusted"


def test_message_is_one_line_without_debug_text():
    import obstore

    options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    keys = {"access_key_id": "k", "secret_access_key": "s", "region": "x"}
    store = obstore.store.S3Store("b", endpoint="http://127.0.0.1:9", **keys, **options)
    with pytest.raises(Exception) as caught:
        obstore.get(store, "a")
    assert "Debug source" in str(caught.value) and classify(caught.value)[0] == "ConnectionRefused"
    message = error_classes.error_message(caught.value)
    assert "127.0.0.1:9" in message and not any(word in message for word in ("\n", "{", "source")), message
    assert error_classes.error_message(TimeoutError()).startswith("TimeoutError")


def test_exception_without_text_has_a_class():
    """The `__str__` of uproot's DeserializationError may raise."""

    class Unprintable(Exception):
        def __str__(self):
            raise AttributeError

    assert classify(Unprintable()) == ("Unprintable", 0) and obstore(Unprintable()) == ("Unprintable", 0)
    assert error_classes.error_message(Unprintable()) == "Unprintable, without a message"
