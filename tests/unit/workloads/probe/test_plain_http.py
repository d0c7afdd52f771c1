"""The probe's connection against a server that closes kept connections without an answer."""

import http.client
import socket
import threading
from contextlib import closing

import pytest

from storelab.workloads.probe.plain_http import Connection

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def server():
    """Return a function that serves connections: each answers a number of requests, reads one more, and closes.

    Its list `seen` has the methods that came.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(10)
    seen: list[str] = []
    threads: list[threading.Thread] = []

    def serve(*answered: int) -> str:
        def run() -> None:
            for most in answered:
                try:
                    connection, _ = listening.accept()
                except OSError:  # the test has ended
                    return
                connection.settimeout(10)
                with connection, connection.makefile("rb") as stream:
                    for turn in range(most + 1):
                        head = b""
                        while (line := stream.readline()) not in (b"", b"\r\n"):
                            head += line
                        if not head:
                            break
                        seen.append(head.split()[0].decode())
                        if turn < most:
                            connection.sendall(ANSWER)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    serve.seen = seen  # type: ignore[attr-defined]
    yield serve
    listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a connection
    listening.close()
    for thread in threads:
        thread.join(10)


def test_read_is_repeated_over_a_new_connection(server):
    with closing(Connection(server(2, 1), timeout=10)) as wire:
        assert [wire.send("GET", "/").body for _ in range(3)] == [b"ok"] * 3
        assert wire.opened == 2 and server.seen == ["GET"] * 4


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_change_is_sent_once(server, method):
    with closing(Connection(server(1, 1), timeout=10)) as wire:
        wire.send("GET", "/")
        with pytest.raises(ConnectionResetError):  # also where the server ends before it has read the body
            wire.send(method, "/", body=b"x")
        assert server.seen == ["GET", method]


def test_new_connection_that_ends_is_an_error(server):
    with closing(Connection(server(0, 1), timeout=10)) as wire:
        with pytest.raises(http.client.RemoteDisconnected):
            wire.send("GET", "/")
        assert wire.opened == 1 and server.seen == ["GET"]


def test_read_is_repeated_once(server):
    with closing(Connection(server(1, 0, 1), timeout=10)) as wire:
        wire.send("GET", "/")
        with pytest.raises(http.client.RemoteDisconnected):
            wire.send("GET", "/")
        assert wire.opened == 2
