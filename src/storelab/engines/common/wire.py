"""Bytes on the wire, from the kernel's count of each TCP connection. Standard library; urllib3 in a function.

`Wire` creates the sockets for libraries that allow it, and reads each counter again when the socket closes: exact.
`HttpWire` does this for urllib3, with or without TLS. `ProcessWire` looks at all connections of this process to an
endpoint, for libraries that create their own sockets. Its count is exact if a connection is still open at the next
look. It reports the number of connections that it lost.
"""

import contextlib
import os
import socket
import struct
import threading
from dataclasses import astuple, dataclass
from functools import reduce
from typing import Any
from urllib.parse import urlsplit

from storelab.stores.protocols.endpoint import Endpoint

PORTS = {"http": 80, "https": 443, "root": 1094, "roots": 1094}
_RECEIVED = 128  # offset of tcpi_bytes_received in Linux's struct tcp_info
_FIN_SEEN = {6, 8, 9, 11}  # TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING: the peer's FIN is counted as one byte


def received(sock: socket.socket) -> int | None:
    """Return the bytes that the kernel received on this TCP connection, with TLS and HTTP headers; None if unknown."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except (AttributeError, OSError):  # not Linux
        return None
    if len(info) < _RECEIVED + 8:
        return None
    return struct.unpack_from("Q", info, _RECEIVED)[0] - (info[0] in _FIN_SEEN)


class Wire:
    """All sockets of one engine: bytes received so far, also by closed ones, and the number of open ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed_bytes: int | None = 0
        self.opened = self.most_open = self.lost = 0  # lost: connections whose last bytes are unknown

    def factory(self, address: Any) -> socket.socket:
        """Return a socket, as the `socket_factory` of aiohttp's connector. address: as from `getaddrinfo`."""
        sock = _Socket(*address[:3])
        sock.setblocking(False)
        sock.wire = self
        self.adopt(sock)
        return sock

    def adopt(self, sock: socket.socket) -> None:
        """Count this socket from now on; `retire` must be called before it closes."""
        with self._lock:
            self._open.add(sock)
            self.opened += 1
            self.most_open = max(self.most_open, len(self._open))

    def retire(self, sock: socket.socket) -> None:
        """Add the bytes of this socket to the total before it closes."""
        with self._lock:
            if sock in self._open:
                self._open.remove(sock)
                self._closed_bytes = _add(self._closed_bytes, received(sock))

    @property
    def bytes(self) -> int | None:
        """Return the bytes that all sockets have received; None if those of one are unknown."""
        with self._lock:
            return reduce(_add, map(received, self._open), self._closed_bytes)

    @property
    def open(self) -> int:
        """Return the number of open connections."""
        return len(self._open)


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


class _Socket(socket.socket):
    """A socket that reports its count before it closes."""

    wire: Wire | None = None

    def close(self) -> None:
        if self.wire is not None:
            self.wire.retire(self)
        super().close()


@dataclass(frozen=True)
class Counts:
    """Running totals, or their difference. wire_bytes: None if the kernel does not report them."""

    requests: int = 0
    asked_bytes: int = 0  # by the Range headers sent
    body_bytes: int = 0  # by the Content-Length of successful answers
    wire_bytes: int | None = 0  # server to client, headers included

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(_add, astuple(self), astuple(other)))

    def __sub__(self, other: "Counts") -> "Counts":
        return self + Counts(*(None if n is None else -n for n in astuple(other)))


class ProcessWire:
    """Connections of this process to a port since this object was made: bytes, maximum open, opened, lost unseen."""

    def __init__(self, port: int):
        self.port = port
        self._seen: dict[int, int | None] = dict(self._look())  # by inode of the socket: bytes at the last look
        self._before = set(self._seen)  # older connections, whose end does not count as lost
        self.open = self.most_open = len(self._seen)
        self.opened = self.lost = 0
        before = reduce(_add, self._seen.values(), 0)
        self._gone = None if before is None else -before  # bytes of ended connections, minus those received before

    @property
    def bytes(self) -> int | None:
        """Look at all connections and return their bytes; None if the kernel does not report them."""
        now = dict(self._look())
        for inode in self._seen.keys() - now.keys():
            self._gone = _add(self._gone, self._seen.pop(inode))
            self.lost += inode not in self._before
        self.opened += len(now.keys() - self._seen.keys())
        self._seen = now
        self.open = len(now)
        self.most_open = max(self.most_open, self.open)
        return reduce(_add, now.values(), self._gone)

    def _look(self) -> Any:
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names, not paths
            try:
                copy = os.dup(int(name))
            except OSError:  # closed meanwhile
                continue
            try:
                sock = socket.socket(fileno=copy)
            except OSError:  # not a socket
                os.close(copy)
                continue
            with sock, contextlib.suppress(OSError):
                if (
                    sock.type == socket.SOCK_STREAM
                    and sock.family in (socket.AF_INET, socket.AF_INET6)
                    and sock.getpeername()[1] == self.port
                ):
                    yield os.fstat(sock.fileno()).st_ino, received(sock)


def port_wire(endpoint: Endpoint) -> ProcessWire | None:
    """Return the counter for the endpoint's port; None without a wire, or if other servers send the bytes (WebHDFS)."""
    parts = urlsplit(endpoint.url)
    return ProcessWire(parts.port or PORTS[parts.scheme]) if endpoint.protocol in ("s3", "http", "root") else None


class _Counted:
    """A mixin for urllib3's connections: `wire` counts each socket while it is open."""

    wire: Wire
    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.wire.adopt(self.sock)

    def getresponse(self) -> Any:
        """Return the answer; count the connection as lost if urllib3 closes it before the body is read."""
        answer = super().getresponse()  # type: ignore[misc]
        self.wire.lost += self.sock is None
        return answer

    def close(self) -> None:
        if self.sock is not None:
            self.wire.retire(self.sock)
        super().close()  # type: ignore[misc]


class HttpWire(Wire):
    """A counter of the sockets of urllib3's pools that it makes."""

    def pools(self) -> dict[str, Any]:
        """Return the value for `PoolManager.pool_classes_by_scheme`."""
        from urllib3.connection import HTTPConnection, HTTPSConnection
        from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

        plain = type("Plain", (_Counted, HTTPConnection), {"wire": self})
        secure = type("Secure", (_Counted, HTTPSConnection), {"wire": self})
        return {
            "http": type("PlainPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }
