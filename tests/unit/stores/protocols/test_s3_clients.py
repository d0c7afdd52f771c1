"""Clients of botocore send one plain request for each call, and accept only the requested answer."""

import os

import pytest
from botocore.exceptions import HTTPClientError
from honest_s3 import FIRST
from probed import Handler, served
from quirky_s3 import quirky

from readplan.transports import WrongAnswer
from storelab.core.errors import MeasurementFailed, UserError
from storelab.engines.common.error_classes import classify, named
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Endpoint
from storelab.stores.protocols.s3 import S3Access

BODY = bytes(range(256)) * 8


@pytest.fixture
def serve():
    """Return a function that returns both clients of a server with these quirks, and its store."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def one(quirk):
            url, store = stack.enter_context(quirky(quirk, objects={"k": BODY}))[quirk]
            fs = filesystems.data(Endpoint(url), dict(os.environ) | FIRST.environ(), 2)
            return s3_clients.client(Endpoint(url), FIRST), fs, store

        yield one


def test_uploads_do_not_wait_for_100_continue(serve):
    """aiohttp waits for it without a limit, and many servers send none."""
    boto, fs, store = serve("no 100 Continue")
    boto.put_object(Bucket="b", Key="one", Body=BODY)
    fs.pipe_file("b/two", BODY)
    assert {key: store.buckets["b"].objects[key].body for key in ("one", "two")} == {"one": BODY, "two": BODY}


def test_other_range_than_requested_is_refused(serve):
    for quirk, words, kind in (
        ("wrong Content-Range", "Content-Range 'bytes 4-6/2048' instead of 3-6", "WrongAnswer"),
        ("range ignored", "the answer to a range has status 200", "NotPartial"),
    ):
        boto, fs, _ = serve(quirk)
        for read in (
            lambda boto=boto: boto.get_object(Bucket="b", Key="k", Range="bytes=3-6"),
            lambda fs=fs: fs.cat_file("b/k", start=3, end=7),
        ):
            with pytest.raises(WrongAnswer) as wrong:
                read()
            assert words in str(wrong.value) and classify(wrong.value)[0] == kind


def test_right_ranges_are_accepted(serve):
    boto, fs, _ = serve("none")
    for start, end in ((0, 1), (3, 7), (2000, 2048), (2000, 5000), (0, 2048)):
        answer = boto.get_object(Bucket="b", Key="k", Range=f"bytes={start}-{end - 1}")
        assert answer["Body"].read() == fs.cat_file("b/k", start=start, end=end) == BODY[start:end]
    assert boto.get_object(Bucket="b", Key="k", Range="bytes=-5")["Body"].read() == BODY[-5:]
    assert fs.cat_file("b/k") == BODY


def test_range_of_unknown_total_is_accepted(serve):
    """`bytes 3-6/*` is a correct answer (RFC 9110, section 14.4)."""
    boto, fs, _ = serve("total unknown")
    assert boto.get_object(Bucket="b", Key="k", Range="bytes=3-6")["Body"].read() == BODY[3:7]
    assert fs.cat_file("b/k", start=3, end=7) == BODY[3:7]


def test_head_without_length_is_named(serve):
    boto, fs, _ = serve("HEAD without length")
    for read in (lambda: boto.head_object(Bucket="b", Key="k"), lambda: fs.info("b/k")):
        with pytest.raises(WrongAnswer, match="Content-Length"):
            read()


def test_redirects_are_named_and_not_followed(serve):
    """The server to which they lead would answer."""
    boto, fs, store = serve("redirected")
    before = len(store.received)
    for call in (
        lambda: fs.cat_file("b/k"),
        lambda: fs.cat_file("b/k", start=3, end=7),
        lambda: fs.pipe_file("b/new", BODY),
    ):
        with pytest.raises(OSError) as refused:
            call()
        kind, status = classify(refused.value)
        assert status == 307 and named(kind, "words").startswith("redirected")
    with pytest.raises(UserError, match=r"stores\.x: redirected"):
        S3Access(boto, "stores.x").read("b", "k")
    assert len(store.received) == before


def test_answer_without_end_is_refused(monkeypatch):
    """A listing is read whole, and would fill the memory."""
    monkeypatch.setattr(s3_clients, "MAX_ANSWER", 2**20)

    class Endless(Handler):
        def do_GET(self):
            self.send_response(500 if "versions" in self.path else 200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(100):  # 6.5 MB
                self.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")

    with served(Endless) as url:
        made = s3_clients.client(Endpoint(url), FIRST)
        access = S3Access(made, "stores.x")
        for ask in (lambda: list(access.keys("b")), lambda: made.list_object_versions(Bucket="b")):
            with pytest.raises((MeasurementFailed, HTTPClientError), match="the answer has no end: more than 1 MiB"):
                ask()


def test_too_many_headers_are_named():
    class Chatty(Handler):
        def do_GET(self):
            self.answer(200, b"", {f"x-{n}": "1" for n in range(200)})

    class Long(Handler):
        def do_GET(self):
            self.answer(200, b"", {"x": "1" * 70_000})

    for handler in (Chatty, Long):
        with served(handler) as url, pytest.raises(MeasurementFailed, match="too many or too long header lines"):
            S3Access(s3_clients.client(Endpoint(url), FIRST), "stores.x").bucket_names()
