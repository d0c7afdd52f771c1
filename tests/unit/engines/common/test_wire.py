"""Bytes on the wire: each is counted once, also when sockets close, and the end of a connection is not counted."""

import select
import socket
import struct
import threading

import pytest
from memory_transport import Memory

from storelab.engines.common.wire import Counts, ProcessWire, Wire, port_wire
from storelab.engines.planned import Counted
from storelab.stores.protocols.endpoint import Endpoint

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="hardware: TCP_INFO exists on Linux only")


def receive(sock: socket.socket, size: int) -> None:
    while size:
        size -= len(sock.recv(size))


def served(wire: Wire, size: int) -> tuple[socket.socket, socket.socket]:
    """Return a socket of `wire` that received `size` bytes, and the server's end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = wire.factory((socket.AF_INET, socket.SOCK_STREAM, 0, "", listener.getsockname()))
        sock.setblocking(True)
        sock.connect(listener.getsockname())
        peer, _ = listener.accept()
    sender = threading.Thread(target=peer.sendall, args=(b"x" * size,))
    sender.start()
    receive(sock, size)
    sender.join()
    return sock, peer


def test_bytes_stay_when_the_server_closes():
    for reset in (False, True):
        wire = Wire()
        sock, peer = served(wire, 1_000_003)
        if reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        assert select.select([sock], [], [], 30)[0], "the end of the connection arrives"
        assert (wire.bytes, wire.open, wire.opened) == (1_000_003, 1, 1), reset
        for _ in range(2):
            sock.close()
            assert (wire.bytes, wire.open) == (1_000_003, 0), reset


def test_open_and_closed_sockets_are_summed():
    wire = Wire()
    one, peer = served(wire, 1000)
    two, other = served(wire, 30)
    assert (wire.bytes, wire.most_open) == (1030, 2)
    two.close()
    peer.sendall(b"yy")
    assert one.recv(2) == b"yy" and (wire.bytes, wire.open, wire.most_open) == (1032, 1, 2)
    for sock in (one, peer, other):
        sock.close()
    assert wire.bytes == 1032


def test_unconnected_socket_counts_nothing():
    wire = Wire()
    wire.factory((socket.AF_INET, socket.SOCK_STREAM, 0)).close()
    assert (wire.bytes, wire.opened) == (0, 1)


def test_differences_of_counts():
    assert Counts(5, 50, 40, 60) - Counts(2, 20, 10, 15) == Counts(3, 30, 30, 45)
    assert (Counts(5, 50, 40, None) - Counts()).wire_bytes is None


def test_aiohttp_has_the_option_for_its_retry():
    import aiohttp

    assert "_retry_connection" in aiohttp.ClientSession.ATTRS, "look for another way in s3fs_counted"


def test_connections_of_a_process_are_counted():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = ProcessWire(listener.getsockname()[1])
        pairs = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(3)]
        try:
            for i, (mine, theirs) in enumerate(pairs):
                theirs.sendall(b"x" * 1000 * (i + 1))
                receive(mine, 1000 * (i + 1))
            assert wire.bytes == 6000 and (wire.open, wire.most_open, wire.opened, wire.lost) == (3, 3, 3, 0)
            later = ProcessWire(listener.getsockname()[1])
            assert later.bytes == 0, "it counts from when it was made"
            pairs[0][0].close()
            assert wire.bytes == 6000 and (wire.open, wire.most_open, wire.opened, wire.lost) == (2, 3, 3, 1)
        finally:
            for sock in (sock for pair in pairs for sock in pair):
                sock.close()


def test_connections_are_counted_by_their_port():
    """Use the port in the URL, else that of the scheme; None if the bytes come from elsewhere or over no network."""
    for url, protocol, port in (
        *(("http://h", "s3", 80), ("https://h", "s3", 443), ("https://h:9443", "http", 9443)),
        *(("root://h", "root", 1094), ("roots://h", "root", 1094)),
        *(("http://h", "webhdfs", None), ("file:///x", "file", None)),
    ):
        found = port_wire(Endpoint(url, protocol=protocol))
        assert (found.port if found else None) == port, url


def test_only_calibration_may_ask_for_bytes_twice():
    """obstore joins overlapping ranges, as those of a calibration of a small object are: that is not a redirection."""

    class Line:
        bytes, lost = 0, 0

    line = Line()
    counted = Counted(Memory(b"x" * 1000), line, {"obstore": "1"})
    counted.fetch([0, 0], [500, 500])
    line.bytes = 600  # came once
    assert counted.now().wire_bytes is None
    counted.calibrated()
    assert counted.now().wire_bytes == 600
    counted.fetch([0], [400])
    line.bytes = 1050
    assert counted.now().wire_bytes == 1050
    counted.fetch([0], [900])
    line.bytes = 1250  # an answer's head, and no body
    assert counted.now().wire_bytes is None
