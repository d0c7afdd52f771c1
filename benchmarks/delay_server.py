"""An HTTP server on loopback that delays its answers by a known sequence and stalls on request: the true latencies.

Request i, in the order in which the heads arrive, is answered `delays[i mod n]` after its arrival. During a stall, no
answer is sent before the end of the stall. `log` has (received ns, due delay s, answered ns) of every GET and PUT. Each
connection has a thread. With `refuse` = k, every k-th request gets status 503.
"""

import itertools
import socket
import threading
import time
from contextlib import suppress
from typing import Self

from storelab.core import clock

HEAD = (
    'HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: "0"\r\nLast-Modified: Mon, 13 Apr 2015 08:00:00 GMT\r\n\r\n'
)
REFUSED = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class DelayServer:
    """A server, used as a context manager. It answers GET with `body`, and PUT, DELETE and HEAD with an empty body."""

    def __init__(self, port: int, delays: list[float], body: bytes, refuse: int = 0):
        self.port, self.delays, self.body, self.refuse = port, delays, body, refuse
        self.numbers = itertools.count()
        self.log: list[tuple[int, float, int]] = []
        self.stalls: list[tuple[int, int]] = []
        self.open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in list(self.open):
            with suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Start the sequence of delays from the beginning; clear the log and the stalls."""
        self.numbers, self.log, self.stalls = itertools.count(), [], []

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.open.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        data = b""
        with suppress(OSError), connection:
            while True:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(1 << 16)
                    if not more:
                        return
                    data += more
                received = clock.now_ns()
                head, _, data = data.partition(b"\r\n\r\n")
                method = head.split(b" ", 1)[0]
                length = next(
                    (int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")), 0
                )
                body, data = data[:length], data[length:]
                left = length - len(body)
                while left:
                    more = connection.recv(min(left, 1 << 20))
                    if not more:
                        return
                    left -= len(more)
                connection.sendall(self._answer(method, received))
        self.open.discard(connection)

    def _answer(self, method: bytes, received: int) -> bytes:
        if method == b"HEAD":
            return HEAD.format(status="404 Not Found", length=0).encode()
        number = next(self.numbers)
        delay = self.delays[number % len(self.delays)]
        end = max((stop for begin, stop in self.stalls if begin <= received < stop), default=received)
        time.sleep(max(0.0, (end - clock.now_ns()) / 1e9 + delay))
        self.log.append((received, delay, clock.now_ns()))
        if self.refuse and number % self.refuse == 0:
            return HEAD.format(status="503 Slow Down", length=len(REFUSED)).encode() + REFUSED
        body = self.body if method == b"GET" else b""
        return HEAD.format(status="200 OK", length=len(body)).encode() + body
