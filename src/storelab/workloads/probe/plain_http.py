"""Send plain HTTP requests, one at a time over one connection, and return the unchanged answers.

This client does not follow redirects and does not retry. It uses a connection again if the server keeps it open. Before
each request, it checks whether the server has closed the connection, so that an idle timeout is not a failure.
"""

import hashlib
import http.client
import re
import select
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from storelab.core.errors import MeasurementFailed
from storelab.host import patience
from storelab.workloads.probe.answers import Refuted, demand

TIMEOUT_S = 60.0
MAX_BYTES = 64_000_000  # maximum bytes of an answer; the probe requests nothing larger
_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,80})\s*</Code>")  # error code in an answer of S3


@dataclass(frozen=True)
class Reply:
    """One answer.

    headers: `get` ignores case, and returns the first of repeated fields; version: 10 or 11.
    """

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    version: int

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    def holds(self, body: bytes) -> bool:
        """Return True if this is a whole object with exactly these bytes."""
        return self.status == 200 and self.body == body


def error_code(body: bytes) -> str:
    """Return the error code in the body of an answer of S3, or ''."""
    found = _CODE.search(body[:20_000])
    return found[1].decode() if found else ""


def status_text(reply: Reply) -> str:
    """Return status and error code as evidence. The message is omitted, because some servers repeat keys in it."""
    return f"{reply.status} {error_code(reply.body)}".strip()


def require_status(
    reply: Reply,
    what: str = "",
    status: int = 0,
    error: type[Refuted] = Refuted,
    describe: Callable[[Reply], str] = status_text,
) -> Reply:
    """Return the reply if it has this status. If `status` is 0, any status of success is accepted.

    Raises `error` with `what` and the answer.
    """
    demand(reply.status == status if status else reply.good, f"{what} answered {describe(reply)}".lstrip(), error)
    return reply


def _is_readable(sock: socket.socket) -> bool:
    """Return True if there is data to read, or if the server closed.

    (`select` does not support descriptors above 1023.)
    """
    looked = select.poll()
    looked.register(sock, select.POLLIN)
    return bool(looked.poll(0))


def md5_header(body: bytes) -> str:
    """Return the MD5 of a body in base 64, as in HTTP headers."""
    return b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


class TooLong(Refuted):
    """The server sent far more than was requested."""


class Cut(Refuted):
    """The connection ended before the answer was complete."""


class Connection:
    """Requests to one host over one connection at a time. Not thread-safe. `pace_s`: minimum time between requests.

    `send` raises OSError, ssl.SSLError and http.client.HTTPException unchanged. It raises Cut and TooLong for an
    invalid body.
    """

    def __init__(
        self, url: str, context: ssl.SSLContext | None = None, timeout: float = TIMEOUT_S, pace_s: float = 0.0
    ):
        parts = urlsplit(url)
        self.secure = parts.scheme in ("https", "swebhdfs", "davs")
        self.name, self.port = parts.hostname or "", parts.port
        shown = f"[{self.name}]" if ":" in self.name else self.name
        self.host = f"{shown}:{parts.port}" if parts.port and parts.port != (443 if self.secure else 80) else shown
        self.context, self.timeout, self.pace_s = context, timeout, pace_s
        https = partial(http.client.HTTPSConnection, context=context)
        self.kind: Callable[..., http.client.HTTPConnection] = https if self.secure else http.client.HTTPConnection
        self.opened = 0
        self._connection: http.client.HTTPConnection | None = None
        self._last = 0.0

    def _open(self) -> http.client.HTTPConnection:
        """Return the connection, or a new one if the server closed it.

        (An open idle connection has nothing to read.)
        """
        sock = self._connection.sock if self._connection else None
        if sock is None or _is_readable(sock):
            self.close()
            self._connection = connection = self.kind(self.name, self.port, timeout=self.timeout)
            connection.auto_open = 0  # connections are opened only here
            connection.connect()
            self.opened += 1
        return self._connection

    def send(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        """Send one request. `target`: path and query as in the request line. Only necessary headers are added.

        A server can close a connection at the moment when it is used again. Requests that only read are then repeated
        over a new connection (RFC 9112, 9.3.1).
        """
        opened = self.opened
        try:
            return self._sent(method, target, headers or {}, body)
        except ConnectionError:  # RemoteDisconnected of http.client is a subclass
            if method not in ("GET", "HEAD") or self.opened != opened:
                raise
        return self._sent(method, target, headers or {}, body)

    def _sent(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        if (wait := self._last + self.pace_s - time.monotonic()) > 0:
            time.sleep(wait)
        self._last = time.monotonic()
        connection = self._open()
        try:
            exchange = partial(self._exchanged, connection, method, target, headers, body)
            return patience.call(f"{method} {target}", exchange)
        except MeasurementFailed:
            self._connection = None  # its thread still reads, and holds the lock that `close` needs
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            raise TimeoutError(f"no answer within {patience.STALLED_S:.0f} s") from None
        except BaseException:
            self.close()
            raise

    def _exchanged(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Reply:
        try:
            connection.request(method, target, body, {"Host": self.host, **headers})
        except (BrokenPipeError, ConnectionResetError):
            # a server that rejects the request does not have to read the body; its answer can still be available
            if not body:
                raise
        response = connection.getresponse()
        try:
            data = response.read(MAX_BYTES + 1)
        except http.client.IncompleteRead as error:
            raise Cut(f"{response.status}, but its body ended after {len(error.partial)} bytes") from None
        if len(data) > MAX_BYTES:
            raise TooLong(f"{method} answered {response.status} and more than {MAX_BYTES} bytes")
        if response.length:
            announced = len(data) + response.length
            raise Cut(f"{response.status} announced {announced} bytes, but sent {len(data)}")
        if connection.sock is None or response.will_close:
            self.close()
        return Reply(response.status, response.headers, data, response.version)

    def tls(self) -> tuple[str, str] | None:
        """Return the version and the cipher of the open connection, or None without TLS."""
        sock = self._connection.sock if self._connection else None
        return (sock.version() or "", (sock.cipher() or ("",))[0]) if isinstance(sock, ssl.SSLSocket) else None

    def close(self) -> None:
        if self._connection:
            with suppress(OSError):
                self._connection.close()
        self._connection = None
