"""Credentials of gateways: where they are found, when they expire, and that no message shows them."""

import base64
import json
import os
import subprocess
import time

import pytest
from refusals import NONE, check_refused, refusal

from storelab.gang import credentials
from storelab.stores.external import Http, HttpSettings, Root, RootSettings
from storelab.stores.protocols import tokens
from storelab.stores.protocols.endpoint import Endpoint
from storelab.stores.protocols.filesystems import authorization, tls_context
from storelab.stores.s3 import S3
from storelab.stores.s3 import Settings as S3Settings

SECRET = "eyJ.never-told"
END = 1_700_000_000


def jwt(end):
    body = base64.urlsafe_b64encode(json.dumps({"exp": end}).encode()).decode().rstrip("=")
    return f"head.{body}.signature"


def macaroon(*caveats):
    """Return a macaroon of version 1: packets of four hexadecimal digits, a key, a blank, a value, a newline."""

    def packet(key, value):
        return f"{len(key) + len(value) + 6:04x}{key} {value}\n".encode()

    raw = packet("location", "site") + packet("identifier", "id") + b"".join(packet("cid", c) for c in caveats)
    return base64.urlsafe_b64encode(raw + packet("signature", "x" * 32)).decode().rstrip("=")


def kept(folder, text, mode=0o600):
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return certificate and key, valid for a day, in one file that only its owner can read, like a proxy."""
    folder = tmp_path_factory.mktemp("certificate")
    key, path = folder / "key.pem", folder / "proxy.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=me"
    subprocess.run([*command.split(), "-keyout", str(key), "-out", str(path)], check=True, capture_output=True)
    path.write_text(path.read_text() + key.read_text())
    path.chmod(0o600)
    return path


def test_token_is_in_a_variable_or_in_its_file(tmp_path):
    path = kept(tmp_path, f"  {SECRET}\n")
    assert tokens.bearer("A", {"A": SECRET}) == tokens.bearer("A_FILE", {"A_FILE": path}) == SECRET
    assert tokens.bearer(None, {}) == tokens.bearer("A", {}) == ""
    end = Endpoint("http://h", protocol="http", token="A_FILE")
    assert authorization(end, {"A_FILE": path}) == {"Authorization": f"Bearer {SECRET}"}
    kept(tmp_path, "renewed")
    assert authorization(end, {"A_FILE": path}) == {"Authorization": "Bearer renewed"}, "read again each time"


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """Use a folder in place of /tmp, and return the default file in it."""
    assert tokens.SHARED_FOLDER == "/tmp", "WLCG's token discovery names it"
    (tmp_path / "shared").mkdir()
    monkeypatch.setattr(tokens, "SHARED_FOLDER", str(tmp_path / "shared"))
    return tmp_path / "shared" / f"bt_u{os.geteuid()}"


def put(path, mode=0o600):
    path.parent.mkdir(exist_ok=True)
    path.write_text(SECRET)
    path.chmod(mode)


def test_wlcg_discovery_has_an_order(tmp_path, shared):
    assert tokens.discover({}) == ""
    put(shared)
    environ = {}
    assert tokens.discover(environ) == "BEARER_TOKEN_FILE" and environ == {"BEARER_TOKEN_FILE": str(shared)}
    own = tmp_path / "run" / shared.name
    put(own)
    environ = {"XDG_RUNTIME_DIR": str(own.parent), "BEARER_TOKEN": " "}
    assert tokens.discover(environ) == "BEARER_TOKEN_FILE" and environ["BEARER_TOKEN_FILE"] == str(own)
    assert tokens.bearer("BEARER_TOKEN_FILE", environ) == SECRET
    environ["BEARER_TOKEN_FILE"] = "mine"
    assert tokens.discover(environ) == "BEARER_TOKEN_FILE" and environ["BEARER_TOKEN_FILE"] == "mine"
    assert tokens.discover(environ | {"BEARER_TOKEN": SECRET}) == "BEARER_TOKEN"


def test_wlcg_discovery_takes_only_private_files_of_the_user(tmp_path, shared, monkeypatch):
    put(shared, 0o644)
    assert f"other users can read {shared}" in refusal(tokens.discover, {})
    put(shared)
    entry = os.lstat(shared)
    other = os.stat_result((*entry[:4], entry.st_uid + 1, *entry[5:]))
    with monkeypatch.context() as patch:
        patch.setattr(tokens.os, "lstat", lambda _: other)
        assert "belongs to another user" in refusal(tokens.discover, {})
    shared.rename(tmp_path / "elsewhere")
    shared.symlink_to(tmp_path / "elsewhere")
    assert "is not a regular file" in refusal(tokens.discover, {})


def test_stores_use_the_discovered_token(shared, monkeypatch, tmp_path):
    for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR", "X509_USER_PROXY"):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    store = Http("dav", HttpSettings(kind="http", endpoint="https://h/f", token="wlcg"), tmp_path)
    assert f"/tmp/bt_u{os.geteuid()}" in refusal(lambda: store.endpoints())
    root = Root("door", RootSettings(kind="root", endpoint="roots://h//f"), tmp_path)
    put(shared, 0o644)
    assert root.credentials_end() == [] and "BEARER_TOKEN_FILE" not in os.environ
    put(shared)
    shared.write_text(jwt(END))
    assert store.endpoints()[0].token == "BEARER_TOKEN_FILE" and store.credentials_end()[0][1:] == (
        "BEARER_TOKEN_FILE",
        END,
    )
    del os.environ["BEARER_TOKEN_FILE"]
    assert [end[2] for end in root.credentials_end()] == [END]


def test_token_files_are_private_and_readable(tmp_path):
    for mode in (0o640, 0o604, 0o644):
        message = refusal(tokens.bearer, "A_FILE", {"A_FILE": kept(tmp_path, SECRET, mode)})
        assert "chmod 600" in message and SECRET not in message, oct(mode)
    assert refusal(tokens.bearer, "A_FILE", {"A_FILE": str(tmp_path / "none")}) != NONE


def test_pipe_is_no_file_of_a_token(tmp_path):
    """Opening it would wait for a writer without end."""
    os.mkfifo(pipe := tmp_path / "pipe", 0o600)
    for path in (str(pipe), "/dev/zero"):
        message = refusal(tokens.bearer, "MY_FILE", {"MY_FILE": path})
        assert message.startswith("MY_FILE: ") and "regular file" in message, message


def test_end_of_tokens_is_known():
    two = ("before:2023-11-14T22:13:21Z", "before:2023-11-14T22:13:20Z")
    for token, end in (
        (jwt(END), END),
        (jwt(10**400), None),
        (macaroon("activity:READ_METADATA", two[1]), END),
        (macaroon(*two), END),
        (macaroon("path:/a"), None),
        ("opaque", None),
        ("a.b.c", None),
        ("", None),
    ):
        assert tokens.expires(token) == end, token


def test_certificate_is_loaded_and_its_end_known(tmp_path, certificate):
    assert abs(tokens.certificate_ends(str(certificate)) - (certificate.stat().st_mtime + 86400)) < 60
    assert tokens.certificate_ends(str(tmp_path / "none")) is None
    end = Endpoint("https://h", protocol="http", certificate="X509_USER_PROXY")
    tls_context(end, {"X509_USER_PROXY": str(certificate)})
    tls_context(end, {})
    assert "certificate" in refusal(tls_context, end, {"X509_USER_PROXY": kept(tmp_path, "none")})


def test_encrypted_key_is_refused_without_a_question(tmp_path, certificate):
    """OpenSSL would ask on the terminal for the password, and wait."""
    key = tmp_path / "key"
    command = ["openssl", "pkcs8", "-topk8", "-passout", "pass:x", "-in", str(certificate), "-out", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    content = certificate.read_text().partition("-----BEGIN PRIVATE")[0] + key.read_text()
    path = kept(tmp_path, content)
    end = Endpoint("https://h", protocol="http", certificate="X509_USER_PROXY")
    assert f"the key in {path} is encrypted; use" in refusal(tls_context, end, {"X509_USER_PROXY": path})


def test_credentials_that_end_too_early_are_named():
    now = time.time()
    soon, late, gone = ("stores.d.token", "A", now + 5), ("stores.d", "B", now + 500), ("stores.d", "C", now - 60)
    assert tokens.too_short([late], 10) is None and tokens.too_short([], 10) is None
    message = str(tokens.too_short([late, soon], 10))
    assert "stores.d.token" in message and "credential in A ends" in message
    assert "credential in C ended" in str(tokens.too_short([soon, gone], 10))


def gateway(tmp_path, **settings):
    return Http("d", HttpSettings(kind="http", endpoint="https://h/f", **settings), tmp_path)


def test_gateway_reports_end_of_its_credentials(tmp_path, monkeypatch, certificate):
    monkeypatch.setenv("MY_FILE", kept(tmp_path, jwt(END)))
    monkeypatch.setenv("X509_USER_PROXY", str(certificate))
    found = gateway(tmp_path, token="MY_FILE", certificate="X509_USER_PROXY").credentials_end()
    names = [("stores.d.token", "MY_FILE"), ("stores.d.certificate", "X509_USER_PROXY")]
    assert [(place, name) for place, name, _ in found] == names and found[0][2] == END
    assert gateway(tmp_path).credentials_end() == []


def test_root_gateway_uses_variables_of_xrootd(tmp_path, monkeypatch):
    for name in ("BEARER_TOKEN_FILE", "X509_USER_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BEARER_TOKEN", jwt(END))
    one = Root("r", RootSettings(kind="root", endpoint="roots://h//f"), tmp_path)
    assert one.credentials_end() == [("stores.r", "BEARER_TOKEN", END)]


def test_s3_session_tokens_expire_by_environment(tmp_path, monkeypatch):
    one = S3("s", S3Settings(kind="s3", endpoint="https://h"), tmp_path)
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2023-11-14T22:13:20+00:00")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    assert one.credentials_end() == []
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    assert one.credentials_end() == [("stores.s", "AWS_SESSION_TOKEN", END)]
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2023-11-14T22:13:20")  # UTC, in each time zone of this machine
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert one.credentials_end() == [("stores.s", "AWS_SESSION_TOKEN", END)]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    monkeypatch.delenv("AWS_CREDENTIAL_EXPIRATION")
    assert one.credentials_end() == []


def test_named_credentials_must_exist(tmp_path, monkeypatch):
    monkeypatch.delenv("MY_FILE", raising=False)
    check_refused("stores.d.token: ", "MY_FILE", gateway(tmp_path, token="MY_FILE").endpoints)
    monkeypatch.setenv("MY_FILE", kept(tmp_path, SECRET, 0o644))
    assert "chmod 600" in refusal(gateway(tmp_path, token="MY_FILE").endpoints)


def test_token_files_travel_to_nodes(tmp_path):
    path = kept(tmp_path, SECRET)
    parcel = credentials.collect([{}], {"MY_FILE": path, "PLAIN": "value"}, ("MY_FILE", "PLAIN"))
    assert parcel["environs"] == [{"PLAIN": "value"}] and set(parcel["files"]) == {"MY_FILE"}
    (own,) = credentials.receive(parcel, tmp_path)
    assert tokens.bearer("MY_FILE", own) == SECRET and own["MY_FILE"] != path


def test_token_of_a_gang_that_has_ended_is_named(monkeypatch):
    """The message was that it ends in -5 s."""
    monkeypatch.setattr(credentials.time, "time", lambda: 1000.0)
    for end, result in ((995, "ended 5 s ago"), (1000, "ended 0 s ago"), (1005, "ends in 5 s"), (1090, "")):
        found = credentials.too_short({"BEARER_TOKEN": jwt(end)}, 60)
        assert found == (f"the token in BEARER_TOKEN {result}, but the point takes 60 s: renew it" if result else "")
