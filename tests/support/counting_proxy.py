"""A proxy on loopback that counts connections, requests, and bytes of answers on the wire.

It forwards all bytes unchanged, also the Host header, which signature v4 covers. It counts the blank lines that end the
heads of requests, which is correct for requests without a body (GET, HEAD). Use a separate proxy for each measurement.
"""

import contextlib
import re
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Self

_HEAD_END = b"\r\n\r\n"


class CountingProxy:
    """A proxy that counts requests, bytes and connections to one server.

    Use it as `with CountingProxy("127.0.0.1", port) as proxy:`, and read `proxy.url`, `proxy.requests`,
    `proxy.received` and `proxy.connections`.
    """

    def __init__(self, host: str, port: int):
        self.target = (host, port)
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.pairs: set[tuple[socket.socket, socket.socket]] = set()
        self.flowing = threading.Event()  # answers are delayed while it is not set
        self.flowing.set()
        self.reset()

    def reset(self) -> None:
        """Set all counts to zero. Do not call it during a request."""
        self.requests = self.received = self.connections = 0

    def counter(self) -> Callable[[bytes], int]:
        """Return a function that counts the requests in the next bytes of a connection."""
        tail = b""

        def note(data: bytes) -> int:
            nonlocal tail
            found, tail = (tail + data).count(_HEAD_END), (tail + data)[-(len(_HEAD_END) - 1) :]
            return found

        return note

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.flowing.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop()

    def drop(self) -> None:
        """Close all connections (FIN to the client), as servers close idle connections."""
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            for sock in pair:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.connections += 1
                self.pairs.add((client, server))
            done = threading.Barrier(2, action=lambda pair=(client, server): self._end(pair))
            threading.Thread(target=self._pump, args=(client, server, True, done), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False, done), daemon=True).start()

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self.lock:
            self.pairs.discard(pair)
        for sock in pair:
            sock.close()

    def _pump(self, source: socket.socket, sink: socket.socket, upward: bool, done: threading.Barrier) -> None:
        found = self.counter()
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                # Count before sending, so that the count is complete when the client has the answer.
                with self.lock:
                    if upward:
                        self.requests += found(data)
                    else:
                        self.received += len(data)
                upward or self.flowing.wait()
                sink.sendall(data)
        for sock, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            with contextlib.suppress(OSError):
                sock.shutdown(how)
        done.wait()


class _ByLength(CountingProxy, ABC):
    """A proxy for protocols whose requests have a length field. `kinds` counts the requests by kind."""

    FIRST = 0  # bytes that a client sends before its first request

    def reset(self) -> None:
        super().reset()
        self.kinds: Counter = Counter()

    @abstractmethod
    def begins(self, held: bytes) -> tuple[Hashable | None, int] | None:
        """Return the kind of the first request (None: not counted) and its number of bytes.

        Return None if its head is incomplete.
        """

    def counter(self) -> Callable[[bytes], int]:
        held, skip = b"", self.FIRST

        def note(data: bytes) -> int:
            nonlocal held, skip
            held, found = held + data, 0
            while True:
                gone = min(skip, len(held))
                held, skip = held[gone:], skip - gone
                if skip or (request := self.begins(held)) is None:
                    return found
                kind, skip = request
                if kind is not None:
                    self.kinds[kind] += 1
                    found += 1

        return note


KINDS = {3001: "query", 3010: "open", 3013: "read", 3025: "readv"}  # XRootD protocol


class RootProxy(_ByLength):
    """A proxy for root:// that counts requests to open, query and read. A client sends 20 bytes, then requests.

    A request has a head of 24 bytes (stream id, request id, 16 bytes, length) and data.
    """

    FIRST = 20

    def __init__(self, host: str, port: int):
        super().__init__(host, port)
        self.url = self.url.replace("http://", "root://") + "/"

    def begins(self, held: bytes) -> tuple[str | None, int] | None:
        if len(held) < 24:
            return None
        return KINDS.get(struct.unpack_from("!H", held, 2)[0]), 24 + struct.unpack_from("!i", held, 20)[0]


class HttpProxy(_ByLength):
    """A proxy for HTTP, also for requests with bodies of a declared length. It counts requests by (method, kind)."""

    def __init__(self, host: str, port: int, kind: Callable[[str], str]):
        """Create the proxy. kind: function that returns the kind of a request target."""
        self.kind = kind
        super().__init__(host, port)

    def begins(self, held: bytes) -> tuple[tuple[str, str], int] | None:
        head, end, _ = held.partition(_HEAD_END)
        if not end:
            return None
        method, target = head.decode("latin-1").split(" ")[:2]
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        return (method, self.kind(target)), len(head) + len(end) + (int(length[1]) if length else 0)
