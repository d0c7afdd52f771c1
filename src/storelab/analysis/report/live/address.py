"""Address of the live page: the socket that listens, the token, and the URL.

This module does not import the web server, so that `storelab live` can print the address before this slow import.
"""

import errno
import ipaddress
import platform
import secrets
import socket

from storelab.core.errors import UserError

ANY = ("0.0.0.0", "::")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def token_for(host: str) -> str:
    """Return a new token for the URL of the page, or an empty string if only this machine can reach the address."""
    return "" if is_loopback(host) else secrets.token_urlsafe(18)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises UserError if the port is in use, or if the address is not valid."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        raise _refused(error, host, port) from None


def _refused(error: Exception, host: str, port: int) -> UserError:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return UserError("--port", f"{port} is in use on {host}", "choose another port, or 0 for any free one")
    if number == errno.EACCES:
        return UserError("--port", f"{port} requires privileges", "choose a port above 1023")
    return UserError("--address", f"{host!r} is not an address of this machine", "choose one that `ip address` lists")


def url(host: str, listening: socket.socket, token: str) -> str:
    """Return the URL of the page."""
    name = platform.node() if host in ANY else host
    return f"http://{f'[{name}]' if ':' in name else name}:{listening.getsockname()[1]}/{f'{token}/' if token else ''}"
