"""The questions to S3, put to servers that say yes to everything, no to everything, or nonsense: none may be fooled, none may break."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.probe import answers, context, http_ranges, questions
from storelab.workloads.probe.s3 import access
from storelab.workloads.probe.s3.requests import S3


class Credulous(BaseHTTPRequestHandler):
    """Keeps what it is given, looks at no signature, no condition, no query; `mode` `no`: refuses all, `junk`: 200 and nonsense."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait for each other
    mode = "yes"
    objects: dict[str, bytes] = {}  # noqa: RUF012  of the class that the test makes

    def log_message(self, *_):
        pass

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.mode == "yes":
            self.objects[urlsplit(self.path).path] = body
        self.answer(200, b"")

    do_POST = do_PUT

    def do_GET(self):
        body = self.objects.get(urlsplit(self.path).path)
        self.answer(200 if body is not None else 404, body or b"")

    do_HEAD = do_GET

    def do_DELETE(self):
        self.objects.pop(urlsplit(self.path).path, None)
        self.answer(204, b"")

    def answer(self, status, body):
        if self.mode == "no":
            status, body = 403, b"<Error><Code>AccessDenied</Code></Error>"
        if self.mode == "junk":
            status, body = 200, b"<a><b>\xff not what you asked for"
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def ask(monkeypatch):
    """A function that asks every question of S3 of a server in that mode; (topic, check) -> answer."""
    for name in ("AWS_", "STORELAB_SECOND_"):
        monkeypatch.setenv(f"{name}ACCESS_KEY_ID", f"{name}KEY")
        monkeypatch.setenv(f"{name}SECRET_ACCESS_KEY", f"{name}SECRET")
    monkeypatch.setattr(
        access, "_readable", lambda c, key, bucket=None, seconds=0: c.anonymous("GET", key, bucket=bucket)
    )
    servers = []

    def run(mode):
        handler = type("H", (Credulous,), {"mode": mode, "objects": {"/b/probe/a/known": context.known_body(5)}})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        point = Point("s", "probe", {"clients": 1, "most_buckets": 2}, 1, "k", "p", 5, 1)
        extra = {"campaign": "c", "spare_buckets": [f"spare-{i}" for i in range(5)]}
        end = Endpoint(f"http://127.0.0.1:{server.server_port}")
        places = [Bucket("b"), Bucket("b-a1", "", 1)]
        c = S3(Job(point, 0, end, places, Path(), None, "a", endpoints=[end], extra=extra))
        try:
            return {(q.topic, q.name): answers.ask(q, c, 1 << 62, c.secrets()) for q in questions.checks("s3")}
        finally:
            c.close()

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


def test_who_lets_everybody_do_everything_is_found_out(ask):
    found = ask("yes")
    for (topic, check), a in found.items():
        assert a.answer != "error", a
        if (
            "refused" in check
            or topic in ("versioning", "multipart")
            or "verified" in check
            or check == "private by default"
        ):
            assert a.answer in ("no", "differs", "not tried"), a
    conditional = {a.answer for (topic, _), a in found.items() if topic == "conditional"}
    assert conditional == {"no", "not tried"}, "it tells neither ETag nor time, which two of the conditions need"
    assert found["ranges", "multi-range 2"].answer == "no"
    assert found["objects", "put, get, head"].answer == "differs"  # it forgets the Content-Type
    assert found["anonymous", "public object by ACL"].answer == "differs"  # and so is the next one
    assert found["listing", "version 2, beyond 1000 keys"].answer == "no"


@pytest.mark.parametrize("mode", ["no", "junk"])
def test_who_answers_nothing_useful_breaks_no_question(ask, mode):
    found = ask(mode)
    good = {place for place, a in found.items() if a.answer == "yes"}
    assert "error" not in {a.answer for a in found.values()}
    assert {topic for topic, _ in good} <= ({"connection"} if mode == "junk" else set()), good


def test_places_in_the_table_are_unique():
    for protocol in ("s3", "http", "webhdfs", "file", "root"):
        places = [(q.topic, q.name) for q in questions.checks(protocol)]
        assert len(places) == len(set(places)) > 15
    assert [q.name for q in http_ranges.RANGES][:2] == ["single range", "suffix range"]
