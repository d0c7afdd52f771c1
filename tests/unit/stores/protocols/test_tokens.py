"""Credentials of doors: where they are found, when they end, and that nobody is told what they say."""

import base64
import json
import subprocess
import time

import pytest

from storelab.core.errors import UserError
from storelab.gang import credentials
from storelab.stores.doors import Http, HttpSettings, Root, RootSettings
from storelab.stores.protocols import tokens
from storelab.stores.protocols.endpoint import Endpoint
from storelab.stores.protocols.filesystems import authorization, tls_context
from storelab.stores.s3.store import S3
from storelab.stores.s3.store import Settings as S3Settings

SECRET = "eyJ.never-told"


def jwt(end):
    body = base64.urlsafe_b64encode(json.dumps({"exp": end}).encode()).decode().rstrip("=")
    return f"head.{body}.signature"


def macaroon(*caveats):
    """As libmacaroons writes version 1: packets of four hexadecimal digits, a key, a blank, a value, a newline."""

    def packet(key, value):
        return f"{len(key) + len(value) + 6:04x}{key} {value}\n".encode()

    raw = packet("location", "site") + packet("identifier", "id") + b"".join(packet("cid", c) for c in caveats)
    return base64.urlsafe_b64encode(raw + packet("signature", "x" * 32)).decode().rstrip("=")


def kept(folder, text, mode=0o600):
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_token_stands_in_a_variable_or_in_the_file_that_it_names(tmp_path):
    path = kept(tmp_path, f"  {SECRET}\n")
    assert tokens.bearer("A", {"A": SECRET}) == tokens.bearer("A_FILE", {"A_FILE": path}) == SECRET
    assert tokens.bearer(None, {}) == tokens.bearer("A", {}) == ""
    door = Endpoint("http://h", protocol="http", token="A_FILE")
    assert authorization(door, {"A_FILE": path}) == {"Authorization": f"Bearer {SECRET}"}
    kept(tmp_path, "renewed")
    assert authorization(door, {"A_FILE": path}) == {"Authorization": "Bearer renewed"}, "read again each time"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path, mode):
    path = kept(tmp_path, SECRET, mode)
    with pytest.raises(UserError, match="chmod 600") as caught:
        tokens.bearer("A_FILE", {"A_FILE": path})
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        tokens.bearer("A_FILE", {"A_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("token", "end"),
    [
        (jwt(1_700_000_000), 1_700_000_000.0),
        (macaroon("activity:READ_METADATA", "before:2023-11-14T22:13:20Z"), 1_700_000_000.0),
        (macaroon("before:2023-11-14T22:13:21Z", "before:2023-11-14T22:13:20Z"), 1_700_000_000.0),
        (macaroon("path:/a"), None),
        ("opaque", None),
        ("a.b.c", None),
        ("", None),
    ],
)
def test_when_tokens_end(token, end):
    assert tokens.expires(token) == end


def test_when_a_certificate_ends(tmp_path):
    path = certificate(tmp_path)
    assert abs(tokens.certificate_ends(str(path)) - (time.time() + 86400)) < 60
    assert tokens.certificate_ends(str(tmp_path / "none")) is None


def certificate(folder):
    """Certificate and key, of a day, in one file of its owner's, as a proxy has them."""
    key, path = folder / "key.pem", folder / "proxy.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=me"
    subprocess.run([*command.split(), "-keyout", str(key), "-out", str(path)], check=True, capture_output=True)
    path.write_text(path.read_text() + key.read_text())
    path.chmod(0o600)
    return path


def test_a_certificate_is_loaded_with_its_key(tmp_path):
    door = Endpoint("https://h", protocol="http", certificate="X509_USER_PROXY")
    tls_context(door, {"X509_USER_PROXY": str(certificate(tmp_path))})
    tls_context(door, {})
    with pytest.raises(UserError, match="no certificate with its key"):
        tls_context(door, {"X509_USER_PROXY": kept(tmp_path, "none")})


def test_the_point_waits_for_no_credential_that_ends_before_it():
    now = time.time()
    soon, late, gone = ("stores.d.token", "A", now + 5), ("stores.d", "B", now + 500), ("stores.d", "C", now - 60)
    assert tokens.too_short([late], 10) is None and tokens.too_short([], 10) is None
    said = str(tokens.too_short([late, soon], 10))
    assert "stores.d.token" in said and "A holds ends in" in said and "goes on with what is missing" in said
    assert "C holds ended 60 s ago" in str(tokens.too_short([soon, gone], 10))


def door(tmp_path, **settings):
    return Http("d", HttpSettings(kind="http", endpoint="https://h/f", **settings), tmp_path)


def test_a_door_says_when_its_credentials_end(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_FILE", kept(tmp_path, jwt(1_700_000_000)))
    monkeypatch.setenv("X509_USER_PROXY", str(certificate(tmp_path)))
    found = door(tmp_path, token="MY_FILE", certificate="X509_USER_PROXY").credentials_end()
    assert [(place, name) for place, name, _ in found] == [
        ("stores.d.token", "MY_FILE"),
        ("stores.d.certificate", "X509_USER_PROXY"),
    ]
    assert found[0][2] == 1_700_000_000.0
    assert door(tmp_path).credentials_end() == []


def test_a_door_of_root_looks_where_xrootd_s_client_does(tmp_path, monkeypatch):
    for name in ("BEARER_TOKEN_FILE", "X509_USER_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BEARER_TOKEN", jwt(1_700_000_000))
    one = Root("r", RootSettings(kind="root", endpoint="roots://h//f"), tmp_path)
    assert one.credentials_end() == [("stores.r", "BEARER_TOKEN", 1_700_000_000.0)]


def test_session_tokens_of_s3_end_when_the_environment_says_so(tmp_path, monkeypatch):
    one = S3("s", S3Settings(kind="s3", endpoint="https://h"), tmp_path)
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2023-11-14T22:13:20+00:00")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    assert one.credentials_end() == []
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    assert one.credentials_end() == [("stores.s", "AWS_SESSION_TOKEN", 1_700_000_000.0)]
    monkeypatch.delenv("AWS_CREDENTIAL_EXPIRATION")
    assert one.credentials_end() == []


def test_what_a_door_names_must_be_there(tmp_path, monkeypatch):
    monkeypatch.delenv("MY_FILE", raising=False)
    with pytest.raises(UserError, match=r"stores.d.token: .*MY_FILE is not set"):
        door(tmp_path, token="MY_FILE").endpoints()
    monkeypatch.setenv("MY_FILE", kept(tmp_path, SECRET, 0o644))
    with pytest.raises(UserError, match="chmod 600"):
        door(tmp_path, token="MY_FILE").endpoints()


def test_files_travel_to_the_nodes_and_stay_the_owner_s(tmp_path):
    path = kept(tmp_path, SECRET)
    parcel = credentials.collect([{}], {"MY_FILE": path, "PLAIN": "value"}, ("MY_FILE", "PLAIN"))
    assert parcel["environs"] == [{"PLAIN": "value"}] and set(parcel["files"]) == {"MY_FILE"}
    (own,) = credentials.receive(parcel, tmp_path)
    assert tokens.bearer("MY_FILE", own) == SECRET and own["MY_FILE"] != path
