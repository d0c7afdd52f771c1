"""A plain HTTP client: one connection, one request, one answer as it came.

No redirect is followed and nothing is tried twice. A connection is used again where the server keeps it; that the
server closed it meanwhile is seen before the request, so an idle time-out is no failure.
"""

import http.client
import select
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from storelab.workloads.probe.answers import NO, Refuted

TIMEOUT_S = 60.0
MOST_BYTES = 64_000_000  # of an answer: nothing that the probe asks for is larger


class Headers(dict[str, str]):
    """Header fields, names in lower case; of fields that come twice, the first."""

    @classmethod
    def of(cls, pairs: list[tuple[str, str]]) -> "Headers":
        out = cls()
        for name, value in pairs:
            out.setdefault(name.lower(), value)
        return out


@dataclass(frozen=True)
class Reply:
    """One answer. kept: the server left the connection open; fresh: it was opened for this request; version: 10 or
    11."""

    status: int
    headers: Headers
    body: bytes
    kept: bool
    fresh: bool
    version: int = 11
    reason: str = field(default="", compare=False)

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


class TooLong(Refuted):
    """The server sends far more than was asked."""

    answer = NO


class Cut(Refuted):
    """The connection ended before the answer did."""

    answer = NO


def _cut(status: int, got: int, said: int | None) -> str:
    return (
        f"{status} announced {said} bytes, {got} came"
        if said
        else f"{status}, and its body broke off after {got} bytes"
    )


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
        self.opened = self.requests = 0
        self._connection: http.client.HTTPConnection | None = None
        self._last = 0.0

    def _connect(self) -> http.client.HTTPConnection:
        if self.secure:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self.name, self.port, timeout=self.timeout, context=self.context
            )
        else:
            connection = http.client.HTTPConnection(self.name, self.port, timeout=self.timeout)
        connection.auto_open = 0  # a connection is opened here or nowhere
        connection.connect()
        self.opened += 1
        return connection

    def _usable(self) -> bool:
        """Whether there is a connection that the server has not closed (an idle one has nothing to read)."""
        sock = self._connection.sock if self._connection else None
        return sock is not None and not select.select([sock], [], [], 0)[0]

    def send(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        """`target`: path and query as they stand in the request line. Only what HTTP needs is added to `headers`."""
        if (wait := self._last + self.pace_s - time.monotonic()) > 0:
            time.sleep(wait)
        self._last = time.monotonic()
        fresh = not self._usable()
        if fresh:
            self.close()
            self._connection = self._connect()
        connection = self._connection
        assert connection is not None
        self.requests += 1
        try:
            try:
                connection.request(method, target, body, {"Host": self.host, **(headers or {})})
            except (BrokenPipeError, ConnectionResetError):
                if not body:  # a server that refuses need not read the body: its answer may be there all the same
                    raise
            response = connection.getresponse()
            try:
                data = response.read(MOST_BYTES + 1)
            except http.client.IncompleteRead as error:
                raise Cut(_cut(response.status, len(error.partial), None)) from None
            if len(data) > MOST_BYTES:
                raise TooLong(f"{method} answered {response.status} and more than {MOST_BYTES} bytes")
            if response.length:
                raise Cut(_cut(response.status, len(data), len(data) + response.length))
            reply = Reply(
                response.status,
                Headers.of(response.getheaders()),
                data,
                connection.sock is not None and not response.will_close,
                fresh,
                response.version,
                response.reason or "",
            )
        except BaseException:
            self.close()
            raise
        if not reply.kept:
            self.close()
        return reply

    def tls(self) -> tuple[str, str] | None:
        """(version, cipher) of the open connection; None without TLS."""
        sock = self._connection.sock if self._connection else None
        return (sock.version() or "", (sock.cipher() or ("",))[0]) if isinstance(sock, ssl.SSLSocket) else None

    def close(self) -> None:
        if self._connection:
            with suppress(OSError):
                self._connection.close()
        self._connection = None
