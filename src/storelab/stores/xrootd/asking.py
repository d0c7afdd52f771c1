"""Queries to XRootD daemons in their protocol: request counts of a server, and data servers that a redirector knows.

The queries use a plain socket, because the threads of XRootD's client are unsafe in a process that forks. They use TLS
if the server requires it.
"""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree import ElementTree

from storelab.core.errors import MeasurementFailed

PROTOCOL, LOGIN, QUERY, LOCATE = 3006, 3007, 3001, 3027  # request codes kXR_… of the protocol
STATISTICS, MORE, WAIT = 1, 4000, 4005  # type of a query; status of a partial and of a delayed answer
ABLE_TLS, WANT_TLS, EXPECT_LOGIN, GO_TLS = 0x02, 0x04, 0x03, 0x40000000
STREAM = b"\0\1"
# Statistics of a server that are recorded: our name -> location in the parts `xrootd` and `link`.
COUNTS = {
    "opens": ("xrootd", "ops/open"),
    "reads": ("xrootd", "ops/rd"),
    "vector_reads": ("xrootd", "ops/rv"),
    "writes": ("xrootd", "ops/wr"),
    "redirects": ("xrootd", "rdr"),
    "waits": ("xrootd", "dly"),
    "errors": ("xrootd", "err"),
    "bytes_in": ("link", "in"),
    "bytes_out": ("link", "out"),
}


def handshake(host: str, port: int, timeout: float = 1.0) -> bool:
    """Return whether an XRootD server answers the first 20 bytes of the root:// protocol."""
    try:
        with socket.create_connection((host, port), timeout) as s:
            s.sendall(struct.pack("!5i", 0, 0, 0, 4, 2012))
            return struct.unpack("!HHi", _exactly(s, 16)[:8]) == (0, 0, 8)
    except OSError:
        return False


def _exactly(s: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        if not (more := s.recv(size - len(got))):
            raise ConnectionResetError("the connection ended")
        got += more
    return got


def _answer(s: socket.socket) -> tuple[int, bytes]:
    _, status, size = struct.unpack("!2sHi", _exactly(s, 8))
    return status, _exactly(s, size)


@contextmanager
def _session(host: str, port: int, ca_file: str | None, timeout: float) -> Iterator[socket.socket]:
    """Yield a connection after the login. `ca_file` contains the CA certificates that verify a server with TLS."""
    s = socket.create_connection((host, port), timeout)
    try:
        s.sendall(struct.pack("!5i", 0, 0, 0, 4, 2012))
        _exactly(s, 16)
        flags = ABLE_TLS | WANT_TLS if ca_file else 0
        s.sendall(struct.pack("!2sHiBB10si", STREAM, PROTOCOL, 0x511, flags, EXPECT_LOGIN, bytes(10), 0))
        _, body = _answer(s)
        if ca_file and struct.unpack("!i", body[4:8])[0] & GO_TLS:
            s = ssl.create_default_context(cafile=ca_file).wrap_socket(s, server_hostname=host)
        s.sendall(struct.pack("!2sHi8sBBBBi", STREAM, LOGIN, 0, b"storelab", 0, 0, 5, 0, 0))
        if (status := _answer(s)[0]) != 0:
            raise OSError(f"login failed ({status})")
        yield s
    finally:
        s.close()


def _request(host: str, port: int, request: bytes, ca_file: str | None, timeout: float) -> bytes:
    """Send one request, and return the whole answer. Raises MeasurementFailed if there is no answer."""
    try:
        with _session(host, port, ca_file, timeout) as s:
            s.sendall(request)
            out = b""
            while True:
                status, body = _answer(s)
                out += body
                if status == 0:
                    return out
                if status != MORE:
                    raise OSError(f"status {status}: {body[4:].decode(errors='replace').strip(chr(0))[:100]}")
    except (OSError, struct.error, IndexError) as error:
        raise MeasurementFailed(f"{host}:{port} does not answer ({error})") from None


def served(host: str, port: int, ca_file: str | None = None, timeout: float = 2.0) -> dict[str, int]:
    """Return the counts of a server since its start (`COUNTS`), and its `pid`.

    The server counts reads and writes of a client when the client has disconnected. Raises MeasurementFailed if the
    server does not answer.
    """
    request = struct.pack("!2sHHH4s8si", STREAM, QUERY, STATISTICS, 0, bytes(4), bytes(8), 1) + b"a"
    return counts(_request(host, port, request, ca_file, timeout))


def counts(text: bytes) -> dict[str, int]:
    """Return the counts in a server's statistics (XML)."""
    try:
        whole = ElementTree.fromstring(text.strip(b"\0\n "))
        parts = {part.get("id"): part for part in whole.iter("stats")}
        found = {name: int(parts[part].findtext(path) or 0) for name, (part, path) in COUNTS.items()}
        return found | {"pid": int(whole.attrib["pid"])}
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise MeasurementFailed(f"the statistics cannot be parsed ({type(error).__name__}: {error})") from None


def servers_known(host: str, port: int, ca_file: str | None = None, timeout: float = 1.0) -> list[str]:
    """Return the addresses (host:port) of the data servers to which a redirector would send clients now.

    Raises MeasurementFailed if it does not answer.
    """
    request = struct.pack("!2sHH14si", STREAM, LOCATE, 0, bytes(14), 1) + b"*"
    answer = _request(host, port, request, ca_file, timeout).decode(errors="replace").strip("\0\n ")
    # An entry is for example `Sw[::10.213.77.10]:10940`. A lower-case `s` means that the server does not answer now.
    return [place[2:].replace("[::", "").replace("]", "") for place in answer.split() if place[0] == "S"]
