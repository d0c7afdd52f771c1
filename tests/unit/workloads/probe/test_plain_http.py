"""The probe's own connection against a server of sockets that closes kept connections without a word."""

import http.client
import socket
import threading
from contextlib import closing

import pytest

from storelab.workloads.probe.plain_http import Connection

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def server():
    """serve(n, …): for each connection, how many requests it answers; the next one is read, and the connection closed
    without an answer. Its list `seen` holds the methods that came."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(10)
    seen: list[str] = []
    threads: list[threading.Thread] = []

    def serve(*answered: int) -> str:
        def run() -> None:
            for most in answered:
                try:
                    connection, _ = listening.accept()
                except OSError:  # the test has ended, and wanted no more
                    return
                connection.settimeout(10)
                with connection:
                    for turn in range(most + 1):
                        head = b""
                        while b"\r\n\r\n" not in head:
                            got = connection.recv(4096)
                            if not got:
                                break
                            head += got
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
    listening.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection
    listening.close()
    for thread in threads:
        thread.join(10)


def test_a_read_over_a_kept_connection_that_ends_is_asked_again_over_a_new_one(server):
    with closing(Connection(server(2, 1), timeout=10)) as wire:
        assert [wire.send("GET", "/").body for _ in range(3)] == [b"ok"] * 3
        assert wire.opened == 2 and server.seen == ["GET"] * 4


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_what_changes_something_is_sent_once(server, method):
    with closing(Connection(server(1, 1), timeout=10)) as wire:
        wire.send("GET", "/")
        with pytest.raises(ConnectionResetError):  # also where the server ends before it has read the body
            wire.send(method, "/", body=b"x")
        assert server.seen == ["GET", method]


def test_a_new_connection_that_ends_is_the_servers_answer(server):
    with closing(Connection(server(0, 1), timeout=10)) as wire:
        with pytest.raises(http.client.RemoteDisconnected):
            wire.send("GET", "/")
        assert wire.opened == 1 and server.seen == ["GET"]


def test_twice_is_enough(server):
    with closing(Connection(server(1, 0, 1), timeout=10)) as wire:
        wire.send("GET", "/")
        with pytest.raises(http.client.RemoteDisconnected):
            wire.send("GET", "/")
        assert wire.opened == 2
