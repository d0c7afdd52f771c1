"""A plain HTTP client: one connection, one request, one answer as it came.

It follows no redirect and tries nothing twice. It uses a connection again where the server keeps it open, and looks
before each request whether the server has closed it, so an idle time-out is no failure.
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
MOST_BYTES = 64_000_000  # of an answer: nothing that the probe asks for is larger
_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,80})\s*</Code>")  # in the errors of S3


@dataclass(frozen=True)
class Reply:
    """One answer. headers: `get` ignores upper and lower case, and gives the first of fields that come twice; version:
    10 or 11."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    version: int

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    def holds(self, body: bytes) -> bool:
        """Whether this is a whole object with exactly these bytes."""
        return self.status == 200 and self.body == body


def error_code(body: bytes) -> str:
    """The error code in the body of an answer of S3, '' where there is none."""
    found = _CODE.search(body[:20_000])
    return found[1].decode() if found else ""


def said(reply: Reply) -> str:
    """Status and error code, for evidence. Never the message: some servers repeat keys in it."""
    return f"{reply.status} {error_code(reply.body)}".strip()


def answered(
    reply: Reply,
    what: str = "",
    status: int = 0,
    error: type[Refuted] = Refuted,
    told: Callable[[Reply], str] = said,
) -> Reply:
    """The reply itself where it has this status, or (0) tells of success. Raises `error`: `what` answered otherwise."""
    demand(reply.status == status if status else reply.good, f"{what} answered {told(reply)}".lstrip(), error)
    return reply


def _speaks(sock: socket.socket) -> bool:
    """Whether there is something to read, or the other side is gone. `select` knows no file beyond the 1024th."""
    looked = select.poll()
    looked.register(sock, select.POLLIN)
    return bool(looked.poll(0))


def md5_header(body: bytes) -> str:
    """The MD5 of a body as HTTP sends it, in base 64."""
    return b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


class TooLong(Refuted):
    """The server sends far more than was asked."""


class Cut(Refuted):
    """The connection ended before the answer did."""


class Connection:
    """Requests to one host over one connection at a time; not thread-safe. `pace_s`: shortest time between two
    requests.

    `send` raises OSError, ssl.SSLError, http.client.HTTPException, as they come; Cut, TooLong for a body that is none.
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
        """The connection, or a new one where the server closed it (an idle one has nothing to read)."""
        sock = self._connection.sock if self._connection else None
        if sock is None or _speaks(sock):
            self.close()
            self._connection = connection = self.kind(self.name, self.port, timeout=self.timeout)
            connection.auto_open = 0  # a connection is opened here or nowhere
            connection.connect()
            self.opened += 1
        return self._connection

    def send(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        """`target`: path and query as they stand in the request line. Only what HTTP needs is added to `headers`.

        A server may close a kept connection just when it is used again: what only reads is then asked once more, over
        a new one (RFC 9112, 9.3.1)."""
        opened = self.opened
        try:
            return self._sent(method, target, headers or {}, body)
        except ConnectionError:  # http.client's RemoteDisconnected is one
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
            self._connection = None  # its thread still reads, and holds what `close` waits for
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
            if not body:  # a server that refuses need not read the body: its answer may be there all the same
                raise
        response = connection.getresponse()
        try:
            data = response.read(MOST_BYTES + 1)
        except http.client.IncompleteRead as error:
            raise Cut(f"{response.status}, and its body broke off after {len(error.partial)} bytes") from None
        if len(data) > MOST_BYTES:
            raise TooLong(f"{method} answered {response.status} and more than {MOST_BYTES} bytes")
        if response.length:
            said = len(data) + response.length
            raise Cut(f"{response.status} announced {said} bytes, {len(data)} came")
        if connection.sock is None or response.will_close:
            self.close()
        return Reply(response.status, response.headers, data, response.version)

    def tls(self) -> tuple[str, str] | None:
        """(version, cipher) of the open connection; None without TLS."""
        sock = self._connection.sock if self._connection else None
        return (sock.version() or "", (sock.cipher() or ("",))[0]) if isinstance(sock, ssl.SSLSocket) else None

    def close(self) -> None:
        if self._connection:
            with suppress(OSError):
                self._connection.close()
        self._connection = None
