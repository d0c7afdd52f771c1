"""A pass-through on loopback that counts exactly: connections, requests, bytes of answers on the wire.

It forwards bytes as they are, so the client's Host header, which signature v4 covers, arrives unchanged. Requests are
counted by the blank line that ends their head: right for requests without a body (GET, HEAD), which is all it is for.
Never let two measurements share one proxy.
"""

import contextlib
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

_HEAD_END = b"\r\n\r\n"


class CountingProxy:
    """`with CountingProxy("127.0.0.1", port) as proxy:` … `proxy.url`, `proxy.requests`, `proxy.received`, `proxy.connections`."""

    def __init__(self, host: str, port: int):
        self.target = (host, port)
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.pairs: set[tuple[socket.socket, socket.socket]] = set()
        self.flowing = threading.Event()  # clear it, and answers stand still
        self.flowing.set()
        self.reset()

    def reset(self) -> None:
        """Set all counts to zero; only while nothing is in flight."""
        self.requests = self.received = self.connections = 0

    def counter(self) -> Callable[[bytes], int]:
        """Of one connection: how many requests begin in what it sends next."""
        tail = b""

        def told(data: bytes) -> int:
            nonlocal tail
            found, tail = (tail + data).count(_HEAD_END), (tail + data)[-(len(_HEAD_END) - 1) :]
            return found

        return told

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
        """Close every connection (FIN to the client), as a server does with idle ones."""
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
        told = self.counter()
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                # Counted before it is sent: when the client has its answer, the count is complete.
                with self.lock:
                    if upward:
                        self.requests += told(data)
                    else:
                        self.received += len(data)
                upward or self.flowing.wait()
                sink.sendall(data)
        for sock, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            with contextlib.suppress(OSError):
                sock.shutdown(how)
        done.wait()


KINDS = {3001: "query", 3010: "open", 3013: "read", 3025: "readv"}  # XRootD protocol


class RootProxy(CountingProxy):
    """The same for root://: `kinds` counts requests by name (those that open, ask, read); `requests` is their sum.

    A client sends 20 bytes, then requests: a head of 24 bytes (number of the stream, of the request, 16 bytes, length) and data.
    """

    def __init__(self, host: str, port: int):
        super().__init__(host, port)
        self.url = self.url.replace("http://", "root://") + "/"

    def reset(self) -> None:
        super().reset()
        self.kinds: Counter[str] = Counter()

    def counter(self) -> Callable[[bytes], int]:
        held, skip = b"", 20

        def told(data: bytes) -> int:
            nonlocal held, skip
            held, found = held + data, 0
            while True:
                gone = min(skip, len(held))
                held, skip = held[gone:], skip - gone
                if skip or len(held) < 24:
                    return found
                request, length = struct.unpack_from("!H", held, 2)[0], struct.unpack_from("!i", held, 20)[0]
                if request in KINDS:
                    self.kinds[KINDS[request]] += 1
                    found += 1
                skip = 24 + length

        return told


class HttpProxy(CountingProxy):
    """The same for requests with bodies, whose length the head says: `kinds` counts (method, what it asks for)."""

    def __init__(self, host: str, port: int, kind: Callable[[str], str]):
        """kind: what a target of a request is called."""
        self.kind = kind
        super().__init__(host, port)

    def reset(self) -> None:
        super().reset()
        self.kinds: Counter[tuple[str, str]] = Counter()

    def counter(self) -> Callable[[bytes], int]:
        held, skip = b"", 0

        def told(data: bytes) -> int:
            nonlocal held, skip
            held, found = held + data, 0
            while True:
                gone = min(skip, len(held))
                held, skip = held[gone:], skip - gone
                head, end, rest = held.partition(_HEAD_END)
                if skip or not end:
                    return found
                method, target = head.decode("latin-1").split(" ")[:2]
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                held, skip = rest, int(length[1]) if length else 0
                self.kinds[method, self.kind(target)] += 1
                found += 1

        return told
