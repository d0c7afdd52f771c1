"""Error classes and statuses from what the libraries say."""

import pytest

from storelab.engines.common.error_classes import classify, network, obstore

REFUSED = "Generic S3 error: Error performing {m} http://h/b/k in 1ms - Server returned non-2xx status code: {s}: {body}\n\nDebug source:\nGeneric"
HTTP = "Generic S3 error: Error performing GET http://h/timeout/k in 1ms - HTTP error: error sending request\n\nDebug source: inner: Http( {cause} )"


class GenericError(Exception):
    pass


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            REFUSED.format(m="GET", s="503 Service Unavailable", body="<Error><Code>SlowDown</Code></Error>"),
            ("SlowDown", 503),
        ),
        (REFUSED.format(m="PUT", s="403 Forbidden", body=""), ("Http403", 403)),
        (HTTP.format(cause="HttpError { kind: Timeout, source: TimedOut }"), ("Timeout", 0)),
        (HTTP.format(cause="Os { code: 111, kind: ConnectionRefused }"), ("ConnectionRefused", 0)),
        (HTTP.format(cause="hyper::Error( IncompleteMessage )"), ("ConnectionClosed", 0)),
        (
            "Generic S3 error: HTTP error: request or response body error Custom { kind: UnexpectedEof }",
            ("ConnectionClosed", 0),
        ),
        ("Generic S3 error: Received non-partial response when range requested … NotPartial", ("NotPartial", 0)),
        ("something new", ("GenericError", 0)),
    ],
)
def test_obstore(text, found):
    assert obstore(GenericError(text)) == found and classify(GenericError(text)) == found


def test_words_of_the_network_are_one_class_whatever_the_language():
    assert (
        network("dial tcp 127.0.0.1:1: connect: connection refused")
        == network("kind: ConnectionRefused")
        == "ConnectionRefused"
    )
    assert network("NoSuchKey: status code: 404") is None
