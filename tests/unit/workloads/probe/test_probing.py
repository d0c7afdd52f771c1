"""The questions to S3, to servers that agree to everything, refuse everything, or answer nonsense."""

from urllib.parse import urlsplit

import pytest
from probed import Handler, job, served

from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.probe import answers, context, workload
from storelab.workloads.probe.s3 import access
from storelab.workloads.probe.s3.requests import S3


class Credulous(Handler):
    """A server that keeps what it is given and looks at no signature, condition or query.

    Its mode `no` refuses everything; `junk` answers 200 and nonsense.
    """

    objects: dict[str, bytes] = {}  # noqa: RUF012  each server gets another one

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

    def answer(self, status, body, headers=None):
        if self.mode == "no":
            status, body = 403, b"<Error><Code>AccessDenied</Code></Error>"
        if self.mode == "junk":
            status, body = 200, b"<a><b>\xff not what you asked for"
        super().answer(status, body, headers)


@pytest.fixture
def ask(monkeypatch):
    """A function that asks every question of S3 of a server in that mode; (topic, check) -> answer."""
    for name in ("AWS_", "STORELAB_SECOND_"):
        monkeypatch.setenv(f"{name}ACCESS_KEY_ID", f"{name}KEY")
        monkeypatch.setenv(f"{name}SECRET_ACCESS_KEY", f"{name}SECRET")
    at_once = lambda c, key, bucket=None, seconds=0: c.anonymous("GET", key, bucket=bucket)  # noqa: E731
    monkeypatch.setattr(access, "_readable", at_once)
    extra = {"campaign": "c", "spare_buckets": [f"spare-{i}" for i in range(5)]}

    def run(mode):
        with served(Credulous, mode=mode, objects={"/b/probe/a/known": context.known_body(5)}) as url:
            end = Endpoint(url)
            c = S3(job(end, [Bucket("b"), Bucket("b-a1", "", 1)], endpoints=[end], extra=extra))
            try:
                return {(q.topic, q.name): answers.ask(q, c, 1 << 62, c.secrets()) for q in workload.checks("s3")}
            finally:
                c.close()

    return run


def test_credulous_server_is_found_out(ask):
    found = ask("yes")
    assert "error" not in {a.answer for a in found.values()}
    for (topic, check), a in found.items():
        refuses = "refused" in check or "verified" in check or check == "private by default"
        if refuses or topic in ("versioning", "multipart"):
            assert a.answer in ("no", "differs", "not tried"), a
    conditional = {a.answer for (topic, _), a in found.items() if topic == "conditional"}
    assert conditional == {"no", "not tried"}, "two of the conditions need an ETag or a time, which it does not send"
    assert found["ranges", "multi-range 2"].answer == "no"
    assert found["objects", "put, get, head"].answer == "differs", "it forgets the Content-Type"
    assert found["anonymous", "public object by ACL"].answer == "differs", "and so is the next one"
    assert found["listing", "version 2, beyond 1000 keys"].answer == "no"


def test_useless_answers_break_no_question(ask):
    for mode, allowed in (("no", set()), ("junk", {"connection"})):
        found = ask(mode)
        assert "error" not in {a.answer for a in found.values()}, mode
        assert {topic for (topic, _), a in found.items() if a.answer == "yes"} <= allowed, mode
