"""Ports and small HTTP answers of daemons, without proxies and retries."""

import errno
import http.client
import socket
import ssl


def get(host: str, port: int, path: str, timeout: float) -> tuple[int, bytes]:
    """Status and body of `GET http://host:port/path`. Raises OSError, http.client.HTTPException."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def speaks_tls(host: str, port: int, path: str = "/", timeout: float = 1.0) -> bool:
    """True if `GET https://host:port/path` answers 200, whatever its certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def answers(host: str, port: int, path: str = "/", timeout: float = 1.0) -> bool:
    """True if `GET http://host:port/path` answers 200."""
    try:
        return get(host, port, path, timeout)[0] == 200
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
