"""Check the questions to S3 against several stores.

These are an honest store, the same store with one fault, and servers that accept everything, refuse everything, or
answer nonsense.
"""

from contextlib import closing
from urllib.parse import urlsplit

import pytest
from honest_s3 import FIRST, SECOND, Bucket, Object, honest_s3
from probed import Handler, job, served

from storelab.stores.protocols import endpoint
from storelab.stores.protocols.endpoint import Endpoint
from storelab.workloads.probe import answers, context, workload
from storelab.workloads.probe.s3 import access, requests
from storelab.workloads.probe.s3.requests import S3

OTHERWISE = {  # that this store, or this host, does not do
    ("signatures", "version 2"),
    ("versioning", "old versions kept"),
    ("ranges", "davix, 10 ranges"),
    ("connection", "HTTPS"),
}
OWN_BUCKETS = [
    ("anonymous", "public bucket by policy"),
    ("buckets", "made, listed, removed"),
    ("buckets", "not removed with objects in it"),
    ("buckets", "per account"),
    ("versioning", "old versions kept"),
]


class Credulous(Handler):
    """A server that stores everything it receives, and checks no signature, condition or query.

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
def asked(monkeypatch):
    """Return a function that asks all or some questions of S3 at a URL: (topic, check) -> answer."""
    for name, keys in (("AWS_", FIRST), ("STORELAB_SECOND_", SECOND)):
        monkeypatch.setenv(f"{name}ACCESS_KEY_ID", keys.access_key)
        monkeypatch.setenv(f"{name}SECRET_ACCESS_KEY", keys.secret_key)
    at_once = lambda c, key, bucket=None, seconds=0: c.anonymous("GET", key, bucket=bucket)  # noqa: E731
    monkeypatch.setattr(access, "_readable", at_once)
    extra = {"campaign": "c", "spare_buckets": [f"spare-{i}" for i in range(5)]}

    def run(url, wanted=None, **more):
        end, places = Endpoint(url), [endpoint.Bucket("b"), endpoint.Bucket("b-a1", "", 1)]
        with closing(S3(job(end, places, endpoints=[end], extra=extra, **more))) as c:
            chosen = [q for q in workload.checks("s3") if wanted is None or (q.topic, q.name) in wanted]
            return {(q.topic, q.name): answers.ask_question(q, c, 1 << 62, c.secrets()) for q in chosen}

    return run


@pytest.fixture
def ask(asked):
    """Return a function that asks questions of an honest store with some faults; it returns answers and store."""

    def run(wanted, *faults, buckets=None, **more):
        with honest_s3(*faults, buckets=buckets) as (url, store):
            store.buckets["b"].objects["probe/a/known"] = Object(context.known_body(5), {}, '"known"')
            return asked(url, wanted, **more), store

    return run


@pytest.fixture
def ask_in_mode(asked):
    """Return a function that asks every question of a `Credulous` server in a mode."""

    def run(mode):
        with served(Credulous, mode=mode, objects={"/b/probe/a/known": context.known_body(5)}) as url:
            return asked(url)

    return run


def test_honest_store_answers_yes(ask):
    found, store = ask(None)
    asked = {place: a for place, a in found.items() if place not in OTHERWISE}
    wrong = {place: (a.answer, a.evidence) for place, a in asked.items() if a.answer != "yes"}
    assert not wrong, wrong
    assert set(store.buckets) == {"b", "b-a1"} and not store.buckets["b-a1"].objects and not store.uploads
    assert found["connection", "keep-alive"].detail == {"requests": 30, "connections": 1}
    assert found["listing", "version 2, beyond 1000 keys"].detail == {"pages": 2}
    assert found["buckets", "per account"].detail == {"made": 2, "beside": 1, "asked": 2}


def test_each_fault_is_found_out(ask):
    """Cases: a fault of the store, the question that detects it, the answer, and words of its evidence."""
    cases = (
        ("any signature", "signatures", "wrong secret refused", "no", "accepted: 200"),
        ("URL for any method", "presigned", "other method refused", "no", "with a URL for GET (PUT 200"),
        ("writes what it refuses", "presigned", "other method refused", "no", "with a URL for GET (PUT 403"),
        ("ACL of the whole bucket", "anonymous", "public object by ACL", "differs", "every object"),
        ("policy of the whole bucket", "anonymous", "public bucket by policy", "differs", "are public too"),
        ("no key in a policy", "anonymous", "public bucket by policy", "yes", "200 without keys"),
        ("a key too many", "listing", "pages of 100 keys", "differs", "a page of 101 keys"),
        ("completes with an error", "multipart", "upload", "no", "InternalError"),
        ("completes what was aborted", "multipart", "abort", "no", "still be completed"),
        ("takes late parts", "multipart", "abort", "differs", "still accepted (200)"),
        ("no CRC", "checksums", "CRC32 kept", "no", "HEAD with x-amz-checksum-mode"),
        ("no ETag", "checksums", "ETag is the MD5", "no", "no ETag"),
        ("no new object under a condition", "conditional", "put if absent", "no", "new object is refused"),
    )
    wrong = []
    for fault, *place, answer, words in cases:
        found, store = ask([tuple(place)], fault)
        a = found[tuple(place)]
        wrong += [(fault, a.answer, a.evidence)] if a.answer != answer or words not in a.evidence else []
        wrong += [(fault, "left", left)] if (left := set(store.buckets) - {"b", "b-a1"}) else []
    assert not wrong, wrong


def test_existing_bucket_is_not_changed(ask):
    """The probe neither uses nor removes a bucket that had one of its names before."""
    mine = Bucket(FIRST.access_key, {"mine": Object(b"x")})
    places = OWN_BUCKETS
    found, store = ask(places, buckets={f"spare-{n}": mine for n in range(5)})
    assert {a.answer for a in found.values()} == {"not tried"} and set(mine.objects) == {"mine"}
    assert len(store.buckets) == 7


def test_paced_probe_writes_over_one_connection(ask, monkeypatch):
    """A limit of requests per second holds for all of a client's connections."""
    monkeypatch.setattr(requests, "MANY", 20)
    for limits, most in (({"requests_per_s": 1e6}, 1), ({}, requests.WRITERS)):
        _, store = ask([("listing", "start after a key")], limits=limits)
        assert len(store.writers) == most, limits


def test_server_that_accepts_wrong_signatures_is_found(ask_in_mode):
    found = ask_in_mode("yes")
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


def test_useless_answers_break_no_question(ask_in_mode):
    for mode, allowed in (("no", set()), ("junk", {"connection"})):
        found = ask_in_mode(mode)
        assert "error" not in {a.answer for a in found.values()}, mode
        assert {topic for (topic, _), a in found.items() if a.answer == "yes"} <= allowed, mode
