"""Conclusions of `consistency` from answers: bodies that name their write, listings of many keys, pages of S3."""

import re

import pytest

from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.consistency import rounds, seen
from storelab.workloads.consistency.client import S3View


def test_body_names_its_key_version_and_write():
    one = seen.body("put/a/0/0/0000001", 1, "cafe", 4000)
    assert len(one) == 4000 and seen.recognise(one, 4000) == ("put/a/0/0/0000001", 1, "cafe")
    other = seen.body("put/a/0/0/0000001", 2, "beef", 4000)
    for damaged in (one[:-1], one + b"x", one[:2000] + other[2000:], b"", b"\xff" * 4000, b"storelab k version x y\n"):
        assert seen.recognise(damaged, 4000) is None, damaged[:40]


def test_wrong_answers_are_described():
    wanted = seen.body("k", 2, "n", 300)
    for data, finding in (
        (seen.body("k", 1, "m", 300), "version 1 instead of 2"),
        (seen.body("j", 2, "n", 300), "another key, j"),
        (seen.body("k", 2, "m", 300), "version 2 of another write (m)"),
        (wanted[:-1], "299 B instead of 300 B"),
    ):
        assert finding in seen.difference(seen.Seen(0, 1, data=data), "k", 2, wanted)
    assert seen.difference(seen.Seen(0, 1, data=wanted), "k", 2, wanted) is None
    assert "404 NoSuchKey" in seen.difference(seen.Seen(0, 1, seen.ABSENT, 404, "NoSuchKey"), "k", 2, b"")


def test_long_listing_is_judged():
    many = rounds.Many("many/")
    many.there, many.unknown = {"many/1", "many/2", "many/3"}, {"many/4"}
    sizes = dict.fromkeys(many.there, rounds.MANY_BYTES)
    for right in (sizes, sizes | {"many/4": 256}):  # an upload that failed may be there or not
        assert many.wrong(seen.Seen(0, 1, names=right)) is None
    assert many.wrong(seen.Seen(0, 1, names={"many/1": 256})) == "of 3 keys 2 missing (many/2, many/3)"
    wrong = many.wrong(seen.Seen(0, 1, names=sizes | {"many/5": 256, "many/1": 1}, repeated=("many/2",)))
    assert wrong == "of 3 keys 1 listed twice (many/2), 1 never written (many/5), 1 of a wrong size (many/1)"


def page(names: list[str], truncated: bool = False, token: str = "") -> bytes:
    entries = "".join(f"<Contents><Key>p/{n}</Key><Size>5</Size></Contents>" for n in names)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"""<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
        <IsTruncated>{str(truncated).lower()}</IsTruncated>{more}{entries}</ListBucketResult>""".encode()


@pytest.fixture
def listed(monkeypatch):
    """Return a function that lists a bucket with these answers, in turn."""

    def run(*answers: bytes) -> seen.Seen:
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}
        view = S3View(Endpoint("http://127.0.0.1:1"), Bucket("b", "p/"), keys)
        turns = iter([seen.Seen(n, n + 1, status=200, data=data, requests=1) for n, data in enumerate(answers)])
        monkeypatch.setattr(view, "_ask", lambda *_, **__: next(turns))
        return view.list("")

    return run


def test_pages_make_one_listing(listed):
    found = listed(page(["1", "2"], True, "t1"), page(["3", "2"], True, "t2"), page(["4"]))
    assert found.names == dict.fromkeys("1324", 5) and found.repeated == ("2",)
    assert (found.state, found.requests, found.start_ns, found.end_ns) == (seen.OK, 3, 0, 3)


def test_broken_listing_is_a_failure(listed):
    for answers, error, message in (
        ([page(["1"], True, "t1"), page(["2"], True, "t1")], "BrokenListing", "the same token again"),
        ([page(["1"], True)], "BrokenListing", "no token"),
        ([page(["1"], True, "t1"), page(["2"])[:-9]], "ParseError", "unclosed token|no element found"),
        ([b"<html></html>"], "BrokenListing", "html"),
    ):
        found = listed(*answers)
        assert (found.state, found.error) == (seen.FAILED, error) and re.search(message, found.message), message


def test_names_of_buckets_have_campaign_and_attempt():
    assert rounds.stem(Bucket("storelab-demo-0000"), "0a1b2c3d") == "storelab-demo-x0a1b2c3d-"
    long = rounds.stem(Bucket("s" * 59 + "0000"), "0a1b2c3d")
    assert len(long) + 5 <= 63 and long.endswith("-x0a1b2c3d-")
