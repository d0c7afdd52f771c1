"""The questions to S3, to a store that is honest, and to the same with one fault."""

import pytest
from honest_s3 import FIRST, SECOND, Bucket, Object, honest_s3
from probed import job

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


@pytest.fixture
def ask(monkeypatch):
    """A function that asks some questions, or all; (topic, check) -> answer, and the store."""
    for name, keys in (("AWS_", FIRST), ("STORELAB_SECOND_", SECOND)):
        monkeypatch.setenv(f"{name}ACCESS_KEY_ID", keys.access_key)
        monkeypatch.setenv(f"{name}SECRET_ACCESS_KEY", keys.secret_key)
    at_once = lambda c, key, bucket=None, seconds=0: c.anonymous("GET", key, bucket=bucket)  # noqa: E731
    monkeypatch.setattr(access, "_readable", at_once)
    extra = {"campaign": "c", "spare_buckets": [f"spare-{i}" for i in range(5)]}

    def run(wanted, *faults, buckets=None, **more):
        with honest_s3(*faults, buckets=buckets) as (url, store):
            store.buckets["b"].objects["probe/a/known"] = Object(context.known_body(5), {}, '"known"')
            end = Endpoint(url)
            places = [endpoint.Bucket("b"), endpoint.Bucket("b-a1", "", 1)]
            c = S3(job(end, places, endpoints=[end], extra=extra, **more))
            try:
                asked = [q for q in workload.checks("s3") if wanted is None or (q.topic, q.name) in wanted]
                return {(q.topic, q.name): answers.ask(q, c, 1 << 62, c.secrets()) for q in asked}, store
            finally:
                c.close()

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
    """Cases: a fault of the store, the question that sees it, the answer, and words of its evidence."""
    cases = (
        ("any signature", "signatures", "wrong secret refused", "no", "accepted: 200"),
        ("URL for any method", "presigned", "other method refused", "no", "changed (PUT 200"),
        ("writes what it refuses", "presigned", "other method refused", "no", "changed (PUT 403"),
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


def test_bucket_that_is_there_is_left_alone(ask):
    """The probe does not use, and does not remove, a bucket that had one of its names before."""
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
