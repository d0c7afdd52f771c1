"""`up` means that a store speaks S3: each answer of something else is told by its name, in one line with a mend."""

import http.server
import threading
from pathlib import Path

import pytest

from storelab.core.errors import UserError
from storelab.stores.s3.store import S3, Settings

LIST = b'<?xml version="1.0"?><ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Buckets/></ListAllMyBucketsResult>'
OBJECTS = b"<ListBucketResult><Name>b</Name><KeyCount>0</KeyCount></ListBucketResult>"
NGINX = b"<html>\n<head><title>Welcome to nginx!</title></head><body><h1>Welcome</h1></body></html>"
BAD = b"<html><head><title>404 Not Found</title></head><body><hr>nginx/1.24.0</body></html>"


@pytest.fixture
def server(monkeypatch):
    """A server that gives one answer to everything: (status, headers, body) in `say`."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secretexample")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = self.server.say
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def store(server, **settings):
    url = f"http://127.0.0.1:{server.server_address[1]}"
    return S3("mine", Settings(kind="s3", endpoint=url, **settings), Path("none"))


def test_s3_itself_is_up(server):
    server.say = (200, {"Server": "Ceph"}, LIST)
    found = store(server)
    found.up()
    assert found.version() == "Ceph"
    server.say = (200, {}, OBJECTS)
    store(server, bucket="given").up()


HTML = {"Content-Type": "text/html", "Server": "nginx/1.24.0"}
REGION = b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-1</Region></Error>"
ELSEWHERE = b"<Error><Code>PermanentRedirect</Code><Endpoint>b.s3.example.org</Endpoint></Error>"


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"),
    [
        (
            200,
            HTML,
            NGINX,
            'answers with an HTML page of nginx/1.24.0 titled "Welcome to nginx!" (HTTP 200), not with S3',
        ),
        (404, HTML, BAD, 'an HTML page of nginx/1.24.0 titled "404 Not Found" (HTTP 404)'),
        (
            403,
            {"Content-Type": "text/html"},
            b"<html><title>Access denied</title>",
            'titled "Access denied" (HTTP 403)',
        ),
        (503, HTML, BAD, "an HTML page of nginx/1.24.0"),
        (200, {}, b"", "an empty body (HTTP 200)"),
        (200, {"Content-Type": "application/json"}, b'{"ok": true}', "answers with application/json"),
        (200, {}, b"<feed><entry/></feed>", "XML of another kind, <feed>"),
        (
            302,
            {"Location": "https://login.example.org/sso?token=abc"},
            b"",
            "a redirect (302) to https://login.example.org/sso,",
        ),
        (301, {"Location": "/web/"}, b"", "a redirect (301) to /web/,"),
        (
            400,
            {},
            REGION,
            "stores.mine.region: the server's region is 'eu-west-1', not 'us-east-1'; set it to eu-west-1",
        ),
        (301, {"x-amz-bucket-region": "eu-west-1"}, ELSEWHERE, "the server's region is 'eu-west-1'"),
        (307, {}, ELSEWHERE, "the bucket lies elsewhere: b.s3.example.org"),
        (403, {}, b"<Error><Code>InvalidAccessKeyId</Code></Error>", "does not know this access key"),
        (500, {}, b"<Error><Code>InternalError</Code></Error>", "InternalError (HTTP 500)"),
    ],
)
@pytest.mark.parametrize("bucket", [None, "given"])
def test_something_else_is_told_by_name(server, status, headers, body, told, bucket):
    server.say = (status, headers, body)
    with pytest.raises(UserError) as caught:
        store(server, bucket=bucket).up()
    line = str(caught.value)
    assert told in line and "\n" not in line and "token" not in line and "secretexample" not in line
    assert caught.value.mend
