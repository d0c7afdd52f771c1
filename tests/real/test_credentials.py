"""Tokens, macaroons, certificates and session tokens against servers that verify them.

The tests check who is accepted, what is reported when a credential expires, and that no secret is written.
"""

import base64
import contextlib
import hmac
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import managed
import ports
import pytest
import trustme
import urllib3
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from laboratory import missing, needs_xrootd
from process_table import watched

from storelab.core.errors import UserError
from storelab.engines import davix_program
from storelab.stores.nginx import Nginx
from storelab.stores.nginx import Settings as NginxSettings
from storelab.stores.protocols import tokens
from storelab.stores.xrootd.store import Settings as XRootDSettings
from storelab.stores.xrootd.store import XRootD

pytestmark = [pytest.mark.real, pytest.mark.heavy]
ISSUER = "https://issuer.storelab.example"
SCITOKENS = Path("/usr/lib/x86_64-linux-gnu/libXrdAccSciTokens-5.so")
SECRET = os.urandom(64)  # of the macaroons
KEY = ec.generate_private_key(ec.SECP256R1())


def plain(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt(seconds, key=KEY, **more):
    """Return a token of the WLCG profile that expires in `seconds`, signed by us (RFC 7515, ES256)."""
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "me", "aud": "https://wlcg.cern.ch/jwt/v1/any", "wlcg.ver": "1.0", "iat": now}
    claims |= {"nbf": now - 60, "exp": now + seconds, "jti": os.urandom(8).hex()}
    claims |= {"scope": "storage.read:/ storage.modify:/ storage.create:/"} | more
    head = {"alg": "ES256", "typ": "JWT", "kid": "one"}
    body = ".".join(plain(json.dumps(part).encode()) for part in (head, claims))
    r, s = decode_dss_signature(key.sign(body.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{body}.{plain(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def own(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def written(folder, secrets, but=()):
    """Return the files below the folder that contain one of the secrets."""
    files = [p for p in folder.rglob("*") if p.is_file() and not any(p.is_relative_to(b) for b in but)]
    assert files
    return [p for p in files if any(s.encode() in p.read_bytes() for s in secrets)]


def engines(*names):
    """Return these engines, and davix if it is installed."""
    return [*names] if missing(davix_program.binary) else [*names, "davix"]


def small(workload="get", **axes):
    return {"workload": workload, "duration": "700 ms", "axes": {"object_size": "20 kB", "clients": 1} | axes}


def good(measured):
    """Check that all checks passed, and that operations were done without an error."""
    for _, record, rows in measured:
        assert all(c["ok"] for c in record["checks"]), record["checks"]
        assert {r["error"] for r in rows} == {None}


def reachable(daemon):
    """Return whether a server listens at each port: without a token, it answers nothing else."""
    with contextlib.suppress(OSError):
        for port in daemon.ports:
            socket.create_connection((daemon.host, port), 1).close()
        return True
    return False


class Guarded(Nginx):
    """An nginx that accepts only requests that the line `allowed` of its configuration admits."""

    allowed = ""

    def _text(self, name):
        return super()._text(name).replace("        location / {", f"{self.allowed}        location / {{", 1)

    def daemon(self, name):
        one = super().daemon(name)
        return replace(one, health=lambda: reachable(one))

    def warm_up_one(self, endpoint): ...


@pytest.fixture
def nginx(tmp_path_factory):
    """Return a function (line, **settings) that starts one, and returns its URL and CA file."""
    made = []

    def start(line, **settings):
        folder = tmp_path_factory.mktemp("guarded")
        one = Guarded("guarded", NginxSettings(kind="nginx", port=ports.block(), **settings), folder)
        one.allowed = line
        managed.skip_unless_usable(one)
        made.append(one)
        one.up()
        end = one.endpoints()[0]
        return end.url, end.ca_file

    yield start
    for one in made:
        one.down()


@pytest.mark.command_lines
def test_bearer_token_ends_and_is_renewed(nginx, lab, tmp_path, monkeypatch):
    first, second, third = jwt(600), jwt(1), jwt(900)
    url, _ = nginx(
        "".join(f'if ($http_authorization = "Bearer {t}") {{ set $in 1; }}\n' for t in (first, third))
        + 'if ($in = "") { return 401; }\n'
    )
    door = {"kind": "http", "endpoint": url, "token": "DOOR_FILE"}
    path = tmp_path / "own" / "token"
    path.parent.mkdir()
    monkeypatch.setenv("DOOR_FILE", own(path, first))
    sweeps = {"get": small(engine="fsspec")}
    with watched() as seen:
        good(lab(door, **sweeps, probe={"workload": "probe", "duration": "20 s"}))
        own(path, second)
        ended = r"stores.one.token: the credential in DOOR_FILE end.*continues with the missing points"
        with pytest.raises(UserError, match=ended):
            lab(door, **sweeps)
        failed = list((tmp_path / "results").rglob("failed.json"))
        assert failed and all("not tried" in f.read_text() for f in failed)
        own(path, third)
        assert len(lab(door, **sweeps)) == 1, "the run continues with the renewed credential"
        own(path, "opaque-and-withdrawn")
        with pytest.raises(UserError, match="401"):
            lab(door, **sweeps)
    secrets = (first, second, third, "opaque-and-withdrawn")
    assert written(tmp_path, secrets, [path.parent]) == []
    assert not [line for line in seen if any(s.encode() in line for s in secrets)]


def test_certificate_is_used_for_external_store(nginx, lab, tmp_path, monkeypatch):
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "clients.pem")
    url, ca_file = nginx(f'ssl_verify_client on;\nssl_client_certificate "{tmp_path}/clients.pem";\n', tls=True)
    mine = authority.issue_cert(common_name="me")
    both = (mine.cert_chain_pems[0].bytes() + mine.private_key_pem.bytes()).decode()
    monkeypatch.setenv("X509_USER_PROXY", own(tmp_path / "proxy.pem", both))
    door = {"kind": "http", "endpoint": url, "ca_file": ca_file, "certificate": "X509_USER_PROXY"}
    sweeps = {"get": small(engine=engines("fsspec")[-1])}
    several = {"engine": "planned", "transport": "http"}
    sweeps["reads"] = {"workload": "read_volume", "axes": several | {"volume_fraction": 5.0, "clients": 1}}
    good(lab(door, **sweeps))
    strange = other.issue_cert(common_name="me")
    own(tmp_path / "proxy.pem", (strange.cert_chain_pems[0].bytes() + strange.private_key_pem.bytes()).decode())
    with pytest.raises(UserError, match=r"stores\.one"):
        lab(door, **sweeps)
    assert written(tmp_path, [mine.private_key_pem.bytes().decode()[40:90]], [tmp_path / "proxy.pem"]) == []


class Tokens(XRootD):
    """XRootD that checks SciTokens, and issues macaroons to accepted clients."""

    def text(self, node):
        root = self.root()
        return f"""{super().text(node)}all.sitename storelab
xrd.tls {root}/host.pem {root}/host.key
xrd.tlsca certfile {root}/host.pem
xrootd.tls capable all
xrootd.seclib libXrdSec.so
sec.protocol ztn
http.header2cgi Authorization authz
http.exthandler xrdmacaroons libXrdMacaroons.so
macaroons.secretkey {root}/macaroons.key
ofs.authorize 1
ofs.authlib libXrdMacaroons.so libXrdAccSciTokens.so config={root}/scitokens.cfg
"""

    def _ready(self, node):
        super()._ready(node)
        spool, user = self.folder / "spool", self._user()
        numbers = KEY.public_key().public_numbers()
        key = {"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "use": "sig"}
        key |= {n: plain(v.to_bytes(32, "big")) for n, v in (("x", numbers.x), ("y", numbers.y))}
        later = int(time.time()) + 86400
        (spool / "cache" / "scitokens").mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(spool / "cache" / "scitokens" / "scitokens_cpp.sqllite")) as base:
            base.execute(
                "CREATE TABLE IF NOT EXISTS keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)"
            )
            known = json.dumps({"jwks": {"keys": [key]}, "expires": later, "next_update": later})
            base.execute("INSERT OR REPLACE INTO keycache VALUES (?, ?)", (ISSUER, known))
            base.commit()
        (spool / "scitokens.cfg").write_text(f"[Issuer storelab]\nissuer = {ISSUER}\nbase_path = /\n")
        (spool / "macaroons.key").write_bytes(base64.b64encode(SECRET) + b"\n")
        (spool / "macaroons.key").chmod(0o600)
        # XRootD's client looks for an address among the names of hosts, others among the addresses.
        names = f"subjectAltName=IP:{self.namespace.server},DNS:{self.namespace.server}"
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=host -addext"
        places = ["-keyout", spool / "host.key", "-out", spool / "host.pem"]
        subprocess.run([*command.split(), names, *places], check=True, capture_output=True)
        (spool / "host.key").chmod(0o600)
        for path in (spool / "host.key", spool / "macaroons.key", spool / "cache", *(spool / "cache").rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid)

    def daemon(self, name):
        one = super().daemon(name)
        more = {"XDG_CACHE_HOME": f"{self.root()}/cache"}
        return replace(one, environ=one.environ | more, health=lambda: reachable(one))

    def warm_up_one(self, endpoint): ...


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    if not SCITOKENS.exists():
        pytest.skip("XRootD's plugin for SciTokens is not installed: apt-get install xrootd-scitokens-plugins")
    settings = XRootDSettings(kind="xrootd", protocol="http", subnet=managed.subnet())
    one = Tokens("tokens", settings, tmp_path_factory.mktemp("t"))
    managed.skip_unless_usable(one)
    one.up()
    yield one
    one.down()


def macaroon(seconds):
    """Return a macaroon as XRootD issues it: a chain of HMACs over its content (libmacaroons, version 1)."""

    def keyed(key, text):
        return hmac.digest(key, text, "sha256")

    def packet(name, value):
        return f"{len(name) + len(value) + 6:04x}{name} ".encode() + value + b"\n"

    end = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    activities = "activity:DOWNLOAD,LIST,UPLOAD,MANAGE,DELETE,READ_METADATA"
    found = [b"name:me", activities.encode(), b"path:/", f"before:{end}".encode()]
    own = os.urandom(8).hex().encode()
    signature = keyed(keyed(b"macaroons-key-generator".ljust(32, b"\0"), SECRET), own)
    for caveat in found:
        signature = keyed(signature, caveat)
    parts = [packet("location", b"storelab"), packet("identifier", own), *(packet("cid", c) for c in found)]
    return plain(b"".join([*parts, packet("signature", signature)]))


def ask_macaroon(url, ca_file, token):
    """Request a macaroon as clients of dCache and XRootD do."""
    body = json.dumps({"caveats": ["activity:DOWNLOAD"], "validity": "PT10M"})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/macaroon-request"}
    answer = urllib3.PoolManager(ca_certs=ca_file).request("POST", f"{url}/", body=body, headers=headers)
    assert answer.status == 200, answer.data
    return answer.json()["macaroon"]


@pytest.mark.parametrize("kind", [pytest.param(k, marks=needs_xrootd) for k in ("scitoken", "macaroon")])
def test_xrootd_accepts_tokens(guarded, lab, tmp_path, monkeypatch, kind):
    url = guarded.endpoints()[0].url.replace("http:", "https:")
    ca_file = str(guarded.folder / "spool" / "host.pem")
    token = jwt(600) if kind == "scitoken" else macaroon(600)
    path = tmp_path / "own"
    monkeypatch.setenv("DOOR_FILE", own(path, token))
    door = {"kind": "http", "endpoint": url, "ca_file": ca_file, "token": "DOOR_FILE", "prefix": f"storelab-{kind}"}
    good(lab(door, get=small(engine=engines("fsspec")[-1]), put=small("put", engine="fsspec")))
    if kind == "macaroon":
        assert 500 < tokens.expires(ask_macaroon(url, ca_file, jwt(600))) - time.time() < 610
        own(path, macaroon(0))
        with pytest.raises(UserError, match="credential in DOOR_FILE end"):
            lab(door, get=small(engine="fsspec"))
    assert written(tmp_path, [token], [path]) == []


@pytest.mark.alone  # XRootD's client keeps the authorities of the first TLS connection of its process: no other test's
@pytest.mark.parametrize("way", [pytest.param("roots", marks=needs_xrootd)])
def test_token_opens_root(guarded, lab, tmp_path, monkeypatch, way):
    """Found by XRootD's own client, which sends it over TLS."""
    certificates, path, token = tmp_path / "certificates", tmp_path / "own", jwt(600)
    certificates.mkdir()
    shutil.copy(guarded.folder / "spool" / "host.pem", certificates)
    subprocess.run(["openssl", "rehash", str(certificates)], check=True, capture_output=True)
    monkeypatch.setenv("X509_CERT_DIR", str(certificates))
    monkeypatch.setenv("BEARER_TOKEN_FILE", own(path, token))
    door = {"kind": "root", "endpoint": f"{way}://{guarded.namespace.server}:{guarded.settings.port}//"}
    good(lab(door, get=small(engine="fsspec"), put=small("put", engine="fsspec")))
    own(path, jwt(-5))
    with pytest.raises(UserError, match=r"stores\.one: the credential in BEARER_TOKEN_FILE ended"):
        lab(door, get=small(engine="fsspec"))
    assert written(tmp_path, [token], [path]) == []


@pytest.mark.parametrize("way", [pytest.param("http", marks=needs_xrootd)])
def test_xrootd_refuses_other_tokens(guarded, lab, monkeypatch, way):
    """Tokens of someone else, for another audience or folder, and text that is not a token, are refused."""
    stranger = ec.generate_private_key(ec.SECP256R1())
    audience, folder = {"aud": "https://another.example"}, {"scope": "storage.read:/elsewhere"}
    for token in (jwt(600, stranger), jwt(600, **audience), jwt(600, **folder), "opaque"):
        monkeypatch.setenv("DOOR", token)
        with pytest.raises(UserError) as caught:
            lab({"kind": way, "endpoint": guarded.endpoints()[0].url, "token": "DOOR"}, get=small(engine="fsspec"))
        assert "\n" not in str(caught.value) and token not in str(caught.value) and "stores.one" in str(caught.value)


@pytest.mark.command_lines
def test_session_tokens_of_s3(lab, tmp_path, tmp_path_factory, monkeypatch):
    """Keys for an hour from MinIO's AssumeRole: without the session token, no engine gets access."""
    one = managed.made("m", managed.settings_of("minio"), tmp_path_factory.mktemp("minio"))
    one.up()
    try:
        import boto3

        url, keys = one.endpoints()[0].url, one.credentials(0)
        sts = boto3.client(
            "sts",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
        )
        answer = sts.assume_role(RoleArn="arn:aws:iam::1:role/x", RoleSessionName="storelab", DurationSeconds=3600)
        role = answer["Credentials"]
        variables = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        for variable, name in zip(variables, ("AccessKeyId", "SecretAccessKey", "SessionToken"), strict=True):
            monkeypatch.setenv(variable, role[name])
        door = {"kind": "s3", "endpoint": url, "prefix": "storelab-sts"}
        sweeps = {e: small(engine=e) for e in engines("s5cmd", "obstore", "loadgen")}
        with watched() as seen:
            good(lab(door, **sweeps))
        monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2023-11-14T22:13:20+00:00")
        with pytest.raises(UserError, match="credential in AWS_SESSION_TOKEN ended"):
            lab(door, **sweeps)
        secrets = [role[name] for name in ("SecretAccessKey", "SessionToken")]
        assert written(tmp_path, secrets) == []
        assert not [line for line in seen if any(s.encode() in line for s in secrets)]
    finally:
        one.down()
