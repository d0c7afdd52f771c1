"""Count the bytes on the wire from the kernel's counter of each TCP connection.

`Wire` creates the sockets for libraries that allow this, and reads each counter again when the socket closes. Its count
is exact. `HttpWire` does the same for urllib3, with or without TLS. `ProcessWire` regularly examines all connections of
this process to an endpoint, for libraries that create their sockets themselves. Its count is exact if every connection
is examined before it closes. It reports the number of connections for which this was not possible.
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
# TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING: the kernel counts the FIN of the server as one byte
_FIN_SEEN = {6, 8, 9, 11}


def received(sock: socket.socket) -> int | None:
    """Return the bytes that the kernel received on this TCP connection, or None if unknown.

    They include TLS and HTTP headers.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except (AttributeError, OSError):  # not Linux
        return None
    if len(info) < _RECEIVED + 8:
        return None
    return struct.unpack_from("Q", info, _RECEIVED)[0] - (info[0] in _FIN_SEEN)


class Wire:
    """The sockets of one engine: the bytes received so far, also by closed sockets, and the number of open sockets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed_bytes: int | None = 0
        self.opened = self.most_open = self.lost = 0  # lost: number of connections whose last bytes are unknown

    def factory(self, address: Any) -> socket.socket:
        """Return a new socket, as `socket_factory` for the connector of aiohttp.

        address: a result of `getaddrinfo`.
        """
        sock = _Socket(*address[:3])
        sock.setblocking(False)
        sock.wire = self
        self.adopt(sock)
        return sock

    def adopt(self, sock: socket.socket) -> None:
        """Count the bytes of this socket from now on. The caller must call `retire` before the socket closes."""
        with self._lock:
            self._open.add(sock)
            self.opened += 1
            self.most_open = max(self.most_open, len(self._open))

    def retire(self, sock: socket.socket) -> None:
        """Add the bytes of this socket to the total. The caller must call this before the socket closes."""
        with self._lock:
            if sock in self._open:
                self._open.remove(sock)
                self._closed_bytes = _add(self._closed_bytes, received(sock))

    @property
    def bytes(self) -> int | None:
        """Return the bytes that all sockets have received, or None if the bytes of a socket are unknown."""
        with self._lock:
            return reduce(_add, map(received, self._open), self._closed_bytes)

    @property
    def open(self) -> int:
        """Return the number of open connections."""
        return len(self._open)


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


class _Socket(socket.socket):
    """A socket that reports its byte count before it closes."""

    wire: Wire | None = None

    def close(self) -> None:
        if self.wire is not None:
            self.wire.retire(self)
        super().close()


@dataclass(frozen=True)
class Counts:
    """Total counts so far, or the difference of two totals. wire_bytes is None if the kernel does not report them."""

    requests: int = 0
    asked_bytes: int = 0  # sum of the lengths in the Range headers that were sent
    body_bytes: int = 0  # sum of the Content-Length of successful answers
    wire_bytes: int | None = 0  # bytes from server to client, including headers

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(_add, astuple(self), astuple(other)))

    def __sub__(self, other: "Counts") -> "Counts":
        return self + Counts(*(None if n is None else -n for n in astuple(other)))


class ProcessWire:
    """The connections of this process to a port, since this object was created.

    It counts bytes, open connections and their maximum, opened connections, and lost ones, whose last bytes are
    unknown.
    """

    def __init__(self, port: int):
        self.port = port
        # by inode of the socket: the bytes when it was last examined
        self._seen: dict[int, int | None] = dict(self._look())
        self._before = set(self._seen)  # older connections; they do not count as lost when they close
        self.open = self.most_open = len(self._seen)
        self.opened = self.lost = 0
        before = reduce(_add, self._seen.values(), 0)
        # bytes of closed connections, minus the bytes received before this object was created
        self._gone = None if before is None else -before

    @property
    def bytes(self) -> int | None:
        """Examine all connections and return their total bytes, or None if the kernel does not report them."""
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
            except OSError:  # closed in the meantime
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
    """Return a counter of the connections to the endpoint's port.

    Return None if there is no network, or if other servers send the bytes (WebHDFS).
    """
    parts = urlsplit(endpoint.url)
    return ProcessWire(parts.port or PORTS[parts.scheme]) if endpoint.protocol in ("s3", "http", "root") else None


class _Counted:
    """A mixin for connections of urllib3. `wire` counts the bytes of each socket while it is open."""

    wire: Wire
    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.wire.adopt(self.sock)

    def getresponse(self) -> Any:
        """Return the answer. Count the connection as lost if urllib3 closes it before the body is read."""
        answer = super().getresponse()  # type: ignore[misc]
        self.wire.lost += self.sock is None
        return answer

    def close(self) -> None:
        if self.sock is not None:
            self.wire.retire(self.sock)
        super().close()  # type: ignore[misc]


class HttpWire(Wire):
    """A counter of the sockets of urllib3."""

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
