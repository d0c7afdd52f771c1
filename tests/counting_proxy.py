"""A pass-through on loopback that counts exactly: connections, requests, bytes of answers on the wire.

It forwards bytes as they are, so the client's Host header, which signature v4 covers, arrives unchanged. Requests are
counted by the blank line that ends their head: right for requests without a body (GET, HEAD), which is all it is for.
Never let two measurements share one proxy.
"""

import contextlib
import socket
import threading
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
        tail = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                # Counted before it is sent: when the client has its answer, the count is complete.
                with self.lock:
                    if upward:
                        self.requests += (tail + data).count(_HEAD_END)
                        tail = (tail + data)[-(len(_HEAD_END) - 1) :]
                    else:
                        self.received += len(data)
                upward or self.flowing.wait()
                sink.sendall(data)
        for sock, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            with contextlib.suppress(OSError):
                sock.shutdown(how)
        done.wait()
