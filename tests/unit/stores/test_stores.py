"""Stores without a store: registry, daemons (with a small web server in their place), S3 settings, errors told in one line."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import make
from storelab.stores.managed import elsewhere
from storelab.stores.managed.daemons import Daemon, Daemons
from storelab.stores.protocols import s3 as access_s3
from storelab.stores.protocols import s3_clients, s3_mistakes
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.stores.s3.store import Settings as S3Settings
from storelab.stores.seaweedfs.store import Settings as SeaweedSettings

KEYS = Credentials("AKIDNOTREAL", "SECRETNOTREAL")
SERVER = "import http.server, sys; http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()"


def external(**settings) -> object:
    return make("mine", S3Settings(**{"kind": "s3", "endpoint": "http://127.0.0.1:9", **settings}), Path("none"))


@pytest.fixture
def keys(monkeypatch):
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_key)


# -- registry


def test_boto3_is_imported_late():
    code = (
        "import sys; from pathlib import Path; from storelab.stores.seaweedfs.store import Settings; from storelab.stores import make\n"
        "s = make('sw', Settings(kind='seaweedfs'), Path('none')); s.status(); assert 'boto3' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_kind():
    with pytest.raises(UserError, match="no store of kind"):
        make("x", type("Settings", (), {"kind": "tape"})(), Path("none"))


# -- daemons


@pytest.fixture
def daemons(tmp_path):
    d = Daemons(tmp_path / "d", "stores.d")
    yield d
    d.stop()


@pytest.fixture
def server(port_block):
    argv = (sys.executable, "-c", SERVER, str(port_block))
    return Daemon("web", argv, "127.0.0.1", (port_block,), health="/", grace=2, environ={"PATH": ""})


def test_start_recognise_stop(daemons, server):
    pid = daemons.start(server)
    daemons.wait_healthy(server)
    assert daemons.running() == {"web": pid} == Daemons(daemons.folder, "stores.d").running()
    assert os.getsid(pid) == pid
    assert daemons.stop() == [pid]
    assert not psutil.pid_exists(pid)
    assert daemons.stop() == []


def test_daemons_of_another_host_are_used_and_left_alone(tmp_path, port_block, monkeypatch):
    """Their folder is shared, their pids mean nothing here: a record of another machine, of a store that runs on this one."""
    store = make("sw", SeaweedSettings(kind="seaweedfs", port=port_block), tmp_path)
    store.up()
    own = elsewhere.here()
    try:
        with monkeypatch.context() as another:
            another.setattr(elsewhere, "here", lambda: {"machine": "node7", "boot_id": "another"})
            store.up()
            store.suspend()  # nothing, and nothing is
            assert (
                store.down() == []
                and store.actors() == {}
                and store.status().state == "up"
                and own["machine"] in store.status().detail
            )
            assert len(store.endpoints()) == 1 and store.deployment()["front_ends"] == 1
            with pytest.raises(UserError, match=f"2 front-ends and 1 accounts asked, 1 and 1 are on {own['machine']}"):
                store.up(2)
            another.setattr(elsewhere, "here", lambda: own | {"boot_id": "another"})
            assert not store.daemons.elsewhere()  # the same host, booted anew
        assert len(store.daemons.running()) == 4
    finally:
        assert len(store.down()) == 4
    store = make("sw", SeaweedSettings(kind="seaweedfs", port=port_block), tmp_path)
    (tmp_path / "sw" / "daemons.json").write_text(
        json.dumps({"schema": 1, "daemons": {"s3-1": _record(store, port_block)}})
    )
    with pytest.raises(
        UserError,
        match=r"s3-1 on gone does not answer: .*; `storelab up` on gone; if that host is gone, remove .*daemons\.json",
    ):
        store.up()
    (tmp_path / "sw" / "daemons.json").unlink()


def _record(store, port: int) -> dict:
    return {
        "pid": 1,
        "created": 0,
        "argv": [],
        "grace": 1,
        "host": "127.0.0.1",
        "ports": [port],
        "machine": "gone",
        "boot_id": "x",
    }


def test_another_process_of_the_same_pid_is_never_signalled(daemons, server):
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        pid = daemons.start(server)
        record = daemons.records()["web"]
        mine = psutil.Process(bystander.pid)
        for forged in (
            {"pid": mine.pid},
            {"pid": mine.pid, "created": mine.create_time()},
            {"pid": mine.pid, "argv": mine.cmdline(), "created": 1.0},
        ):
            daemons._write({"web": record | forged})
            assert daemons.running() == {}
            assert daemons.stop() == []
        assert bystander.poll() is None
        assert daemons.adopt(server) == pid  # found again by its command line
    finally:
        bystander.kill()
        bystander.wait()


def test_one_that_ends_at_once_shows_its_log(daemons, server):
    broken = Daemon(
        "web", (sys.executable, "-c", "print('no such disk'); raise SystemExit(3)"), "127.0.0.1", server.ports
    )
    daemons.start(broken)
    with pytest.raises(MeasurementFailed, match=r"web ended while it started; its log says: .*no such disk"):
        daemons.wait_healthy(broken)


def test_the_end_of_a_log_is_its_last_lines_that_say_something(daemons):
    daemons.logs.mkdir(parents=True, exist_ok=True)
    (daemons.logs / "web.log").write_text("begun\n\ncorrupt\n\n  asked\n\n\nended\n\n")
    assert (
        daemons.log_tail("web", 3) == "corrupt | asked | ended"
        and daemons.log_tail("web") == "begun | corrupt | asked | ended"
    )
    assert daemons.log_tail("none") == "(no log)"


def test_one_that_ignores_sigterm_is_killed(daemons, server):
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVER}"
    daemon = Daemon(
        "web", (sys.executable, "-c", deaf, str(server.ports[0])), "127.0.0.1", server.ports, health="/", grace=0.3
    )
    pid = daemons.start(daemon)
    daemons.wait_healthy(daemon)
    assert daemons.stop() == [pid]
    assert not psutil.pid_exists(pid)


def test_a_suspended_one_is_stopped_too(daemons, server):
    pid = daemons.start(server)
    daemons.wait_healthy(server)
    daemons.suspend()
    assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    assert daemons.resume() == ["web"]
    assert daemons.resume() == []
    daemons.wait_healthy(server)
    daemons.suspend()
    assert daemons.stop() == [pid]


def test_a_taken_port_names_port_program_and_key(daemons, server):
    with socket.create_server(("127.0.0.1", server.ports[0])), pytest.raises(UserError) as caught:
        daemons.check_ports([server])
    assert f"port {server.ports[0]} of web is taken by" in str(caught.value)
    assert f"(pid {os.getpid()})" in str(caught.value)
    assert "set stores.d.port" in str(caught.value)


def test_a_foreign_address(daemons, server):
    with pytest.raises(UserError, match=r"stores\.d\.address: 192\.0\.2\.7:.* is no address of this machine"):
        daemons.check_ports([Daemon("web", (), "192.0.2.7", server.ports)])


def test_damaged_records(daemons):
    daemons.folder.mkdir()
    daemons.file.write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        daemons.running()
    daemons.file.unlink()


def test_one_storelab_at_a_time(daemons):
    with (
        daemons.lock(),
        pytest.raises(UserError, match="another storelab process"),
        Daemons(daemons.folder, "stores.d").lock(0.1),
    ):
        pass


# -- SeaweedFS


def test_foreign_data_folder_is_refused(tmp_path, port_block):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    store = make(
        "sw",
        SeaweedSettings(kind="seaweedfs", port=port_block, directory=str(tmp_path / "precious")),
        tmp_path / "state",
    )
    with pytest.raises(UserError, match="not made by storelab"):
        store.up()
    assert [p.name for p in (tmp_path / "precious").iterdir()] == ["file"]


def test_down_where_nothing_was_ever_up(tmp_path):
    store = make("sw", SeaweedSettings(kind="seaweedfs"), tmp_path)
    assert store.down() == []
    assert store.status().state == "down"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="run `storelab up`"):
        store.credentials()


# -- S3: settings


@pytest.mark.parametrize(
    "url", ["s3.example.org", "ftp://x", "http://", "https://x/path", "http://u:pw@x", "http://x:port", "http://x?y=1"]
)
def test_a_wrong_url(url):
    with pytest.raises(UserError, match=r"stores\.mine\.endpoint: .* is no URL of an S3 endpoint") as caught:
        external(endpoint=url).endpoints()
    assert "pw" not in str(caught.value)


def test_front_ends_are_counted():
    store = external(endpoint=["http://a:1", "http://b:2/"])
    assert [e.url for e in store.endpoints(2)] == ["http://a:1", "http://b:2"]
    with pytest.raises(UserError, match="3 front-ends asked, 2 known"):
        store.endpoints(3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"endpoint": "https://localhost:1"}, "a certificate cannot be verified"),
        ({"endpoint": "http://localhost:1", "addressing": "virtual"}, "addressing `virtual`"),
        ({"endpoint": ["http://a", "http://b"]}, "2 URLs are listed"),
        ({"endpoint": "http://no-such-host.invalid"}, "cannot be resolved"),
    ],
)
def test_resolve_all_refuses(settings, message):
    with pytest.raises(UserError, match=message):
        external(resolve_all=True, **settings).endpoints()


def test_resolve_all(monkeypatch):
    found = [(socket.AF_INET, 1, 6, "", (a, 80)) for a in ("192.0.2.2", "192.0.2.1", "192.0.2.1")] + [
        (socket.AF_INET6, 1, 6, "", ("2001:db8::1", 80, 0, 0))
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: found)
    store = external(endpoint="http://s3.example.org:8080", resolve_all=True)
    assert [e.url for e in store.endpoints(3)] == [
        "http://192.0.2.1:8080",
        "http://192.0.2.2:8080",
        "http://[2001:db8::1]:8080",
    ]


def test_names_of_buckets():
    assert external().bucket("Run.1", 7) == Bucket("storelab-run-1-0007")
    assert external(bucket="given", prefix="lab").bucket("Run.1", 7) == Bucket("given", "lab/Run.1/b0007/")
    with pytest.raises(UserError, match="longer than 63"):
        external().bucket("c" * 60, 0)


def test_missing_ca_file():
    with pytest.raises(UserError, match="ca_file"):
        external(ca_file="none.pem").endpoints()


# -- S3: credentials


def test_credentials_of_the_environment(keys, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "TOKEN")
    found = external().credentials()
    assert (found.access_key, found.secret_key, found.session_token) == (KEYS.access_key, KEYS.secret_key, "TOKEN")
    assert "NOTREAL" not in repr(found)


def test_no_credentials(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="no credentials found; set AWS_ACCESS_KEY_ID"):
        external().credentials()


def test_credentials_of_a_profile(keys, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text(
        "[lab]\naws_access_key_id = PA\naws_secret_access_key = PS\naws_session_token = PT\n[bare]\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    found = external(profile="lab").credentials()
    assert (found.access_key, found.secret_key, found.session_token) == ("PA", "PS", "PT")
    with pytest.raises(UserError, match=r"stores\.mine\.profile: there is no such AWS profile"):
        external(profile="other").credentials()
    with pytest.raises(UserError, match="'bare' holds no keys"):
        external(profile="bare").credentials()


# -- S3: errors told in one line


@contextmanager
def answering(status: int, body: str, cert: Path | None = None):
    """A server that answers everything alike; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if cert:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "SignatureDoesNotMatch", "the secret key does not fit"),
        (403, "InvalidAccessKeyId", "does not know this access key"),
        (403, "AccessDenied", "denies access"),
        (403, "SomethingOfTheirOwn", "denies access"),
        (403, "RequestTimeTooSkewed", "clock of this machine"),
        (400, "ExpiredToken", "session token has expired"),
        (400, "AuthorizationHeaderMalformed", "another region; set the store's `region`"),
        (301, "PermanentRedirect", "another region"),
        (404, "NoSuchBucket", "bucket is not there"),
        (503, "SlowDown", "SlowDown"),
    ],
)
def test_answers_of_a_server(keys, status, code, message):
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>m</Message><AWSAccessKeyId>{KEYS.access_key}</AWSAccessKeyId></Error>"
    with answering(status, body) as port, pytest.raises(UserError, match=message) as caught:
        external(endpoint=f"http://127.0.0.1:{port}").up()
    assert "\n" not in str(caught.value)
    assert "NOTREAL" not in str(caught.value)
    assert str(caught.value).startswith("stores.mine")


@pytest.mark.parametrize("status", [200, 404])
def test_no_s3_server(keys, status):
    with (
        answering(status, "<html>welcome") as port,
        pytest.raises(UserError, match=r"answers with an HTML page of .*, not with S3; check address and port"),
    ):
        external(endpoint=f"http://127.0.0.1:{port}").up()


def test_unreachable_endpoints(keys, port_block):
    with pytest.raises(
        UserError, match=rf"stores\.mine\.endpoint: http://127\.0\.0\.1:{port_block} refuses the connection"
    ):
        external(endpoint=f"http://127.0.0.1:{port_block}").up()
    with pytest.raises(UserError, match=r"the name in http://no-such-host\.invalid cannot be resolved"):
        external(endpoint="http://no-such-host.invalid").up()
    with answering(200, "") as port, pytest.raises(UserError, match="speaks no TLS; write http://"):
        external(endpoint=f"https://127.0.0.1:{port}").up()
    assert external(endpoint="http://no-such-host.invalid").status().state == "external"


def test_a_silent_server_is_given_up(keys, port_block):
    with socket.create_server(("127.0.0.1", port_block)):
        s3 = s3_clients.client(Endpoint(f"http://127.0.0.1:{port_block}"), KEYS, read_timeout=0.3)
        with pytest.raises(s3_mistakes.ERRORS) as caught:
            s3.list_buckets()
    told = s3_mistakes.explain(caught.value, "stores.mine")
    assert isinstance(told, MeasurementFailed)
    assert "time-out" in str(told)


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl, which makes the certificate, is not installed")
def test_certificates(keys, tmp_path):
    pem, body = (
        tmp_path / "both.pem",
        "<?xml version='1.0'?><ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>",
    )
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key -out crt"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    pem.write_text((tmp_path / "key").read_text() + (tmp_path / "crt").read_text())
    with answering(200, body, pem) as port:
        url = f"https://localhost:{port}"
        with pytest.raises(
            UserError, match=r"certificate of https://localhost:\d+ is not trusted .*; set the store's `ca_file`"
        ):
            external(endpoint=url).up()
        external(endpoint=url, ca_file=str(tmp_path / "crt")).up()
        external(endpoint=url, verify_tls=False).up()


def test_a_read_only_client_sends_no_write(port_block):
    s3 = s3_clients.client(Endpoint(f"http://127.0.0.1:{port_block}"), KEYS, read_only=True)
    with pytest.raises(UserError, match="PutObject would write to a read-only store"):
        s3.put_object(Bucket="some-bucket", Key="k", Body=b"")


def test_the_users_aws_files_change_nothing(monkeypatch, tmp_path):
    (tmp_path / "config").write_text("[default]\nendpoint_url = http://192.0.2.1\nmax_attempts = 9\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    s3 = s3_clients.client(Endpoint("http://127.0.0.1:9"), KEYS)
    assert s3.meta.endpoint_url == "http://127.0.0.1:9"
    assert s3.meta.config.retries["total_max_attempts"] == 1


# -- doctor


def test_doctor_looks_and_never_raises(monkeypatch, tmp_path, capsys, port_block):
    from storelab.core.config import Config
    from storelab.measure import doctor

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    stores = {
        "a": {"kind": "seaweedfs", "port": port_block},
        "b": {"kind": "seaweedfs", "port": port_block + 8},
        "c": {"kind": "s3", "endpoint": "nonsense"},
    }
    base = {"campaign": "x", "name": "x", "use_stores": ["a"], "sweeps": {"s": {"workload": "put"}}, "stores": stores}
    config = Config.model_validate(
        {**base, "results": str(tmp_path / "r"), "state": str(tmp_path / "s"), "scratch": str(tmp_path / "none")}
    )
    findings = {f.name: f for f in doctor.examine(config)}
    assert findings["ports of a"].level == "fail" and "32 apart" in findings["ports of a"].mend
    assert findings["scratch"].level == "fail"
    assert findings["stores.c"].level == "fail" and "no credentials" in findings["stores.c"].value
    assert findings["stores.c.endpoint"].level == "fail"
    assert findings["s5cmd"].level == "ok" and findings["store a"].value == "down"
    assert not (tmp_path / "s").exists()
    doctor.print_findings(findings.values())
    assert "s5cmd" in capsys.readouterr().out


def test_records_name_no_key(tmp_path, daemons, server):
    daemons.start(server)
    assert set(json.loads(daemons.file.read_text())["daemons"]["web"]) == {
        "pid",
        "created",
        "argv",
        "grace",
        "host",
        "ports",
        "machine",
        "boot_id",
    }


class Busy:
    """An S3 client whose server refuses `refusals` times to delete the second key."""

    def __init__(self, refusals, code="SlowDownWrite"):
        self.refusals, self.code, self.asked = refusals, code, []

    def delete_objects(self, Bucket, Delete):
        self.asked.append([o["Key"] for o in Delete["Objects"]])
        self.refusals -= 1
        return {"Errors": [{"Key": "b", "Code": self.code}]} if self.refusals >= 0 and "b" in self.asked[-1] else {}


def test_a_busy_store_is_asked_again_to_delete_what_is_left(monkeypatch):
    monkeypatch.setattr(access_s3, "PAUSES", (0, 0, 0))
    busy = Busy(2)
    access_s3.S3Access(busy, "stores.x").delete("bucket", ["a", "b"])
    assert busy.asked == [["a", "b"], ["b"], ["b"]]
    for never in (Busy(9), Busy(9, "AccessDenied")):
        with pytest.raises(MeasurementFailed, match="1 objects were not deleted, the first with"):
            access_s3.S3Access(never, "stores.x").delete("bucket", ["a", "b"])
    assert len(never.asked) == 1, "what is no matter of time is not asked again"
