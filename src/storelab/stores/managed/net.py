"""Ports and small HTTP answers of daemons, without proxies and retries."""

import errno
import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing


def get(
    host: str,
    port: int,
    path: str,
    timeout: float,
    tls: bool = False,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Status and body of `GET http://host:port/path`, or of another method; tls: of https, whatever the certificate;
    timeout: in seconds.

    Raises OSError, http.client.HTTPException.
    """
    wire = http.client.HTTPConnection(host, port, timeout=timeout)
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        wire = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    with closing(wire):
        wire.request(method, path, body, headers or {})
        answer = wire.getresponse()
        return answer.status, answer.read()


def answers(host: str, port: int, path: str = "/", timeout: float = 1.0, tls: bool = False) -> bool:
    """True if `get` answers 200."""
    try:
        return get(host, port, path, timeout, tls)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def free(host: str, port: int) -> bool:
    """True if `port` can be listened at. Raises OSError where the address itself is wrong."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True
