"""Counting on the wire: every byte once, also when sockets close, and not one for the end of a connection."""

import socket
import struct
import threading
import time

import pytest
from memory_transport import Memory

from storelab.engines.common.error_classes import classify
from storelab.engines.common.selections import WrongData
from storelab.engines.common.wire import Counts, ProcessWire, Wire
from storelab.engines.planned.counted import Counted

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="TCP_INFO is Linux's")


def served(
    wire: Wire, size: int, reset: bool = False, keep: bool = False
) -> tuple[socket.socket, socket.socket | None]:
    """A socket of `wire` that a server sent `size` bytes to, and then closed (or not)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = wire.factory((socket.AF_INET, socket.SOCK_STREAM, 0, "", listener.getsockname()))
        sock.setblocking(True)
        sock.connect(listener.getsockname())
        peer, _ = listener.accept()
    sender = threading.Thread(target=peer.sendall, args=(b"x" * size,))
    sender.start()
    left = size
    while left:
        left -= len(sock.recv(left))
    sender.join()
    if keep:
        return sock, peer
    if reset:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    time.sleep(0.02)
    return sock, None


@pytest.mark.parametrize("reset", [False, True])
def test_closed_by_the_server(reset):
    wire = Wire()
    sock, _ = served(wire, 1_000_003, reset=reset)
    assert (wire.bytes, wire.open, wire.opened) == (1_000_003, 1, 1)
    sock.close()
    assert (wire.bytes, wire.open) == (1_000_003, 0)
    sock.close()
    assert wire.bytes == 1_000_003


def test_open_and_closed_sockets_are_summed():
    wire = Wire()
    one, peer = served(wire, 1000, keep=True)
    two, other = served(wire, 30, keep=True)
    assert (wire.bytes, wire.most_open) == (1030, 2)
    two.close()
    peer.sendall(b"yy")
    assert one.recv(2) == b"yy" and (wire.bytes, wire.open, wire.most_open) == (1032, 1, 2)
    for sock in (one, peer, other):
        sock.close()
    assert wire.bytes == 1032


def test_a_socket_that_never_connected_counts_nothing():
    wire = Wire()
    wire.factory((socket.AF_INET, socket.SOCK_STREAM, 0)).close()
    assert (wire.bytes, wire.opened) == (0, 1)


def test_differences():
    assert Counts(5, 50, 40, 60) - Counts(2, 20, 10, 15) == Counts(3, 30, 30, 45)
    assert (Counts(5, 50, 40, None) - Counts()).wire_bytes is None


def test_aiohttp_still_has_the_switch_for_its_silent_second_try():
    import aiohttp

    assert "_retry_connection" in aiohttp.ClientSession.ATTRS, (
        "aiohttp has changed: look for another way in s3fs_counted"
    )


def test_classes_of_errors():
    class Answer(Exception):
        response = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}  # noqa: RUF012

    translated = OSError("busy")
    translated.__cause__ = Answer()
    assert classify(translated) == ("SlowDown", 503)
    assert classify(WrongData("ChecksumMismatch", "…")) == ("ChecksumMismatch", 0)
    assert classify(TimeoutError()) == ("TimeoutError", 0)


def test_connections_of_a_process_are_counted_while_they_are_open():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = ProcessWire(listener.getsockname()[1])
        pairs = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(3)]
        try:
            for i, (mine, theirs) in enumerate(pairs):
                theirs.sendall(b"x" * 1000 * (i + 1))
                _all(mine, 1000 * (i + 1))
            assert wire.bytes == 6000 and (wire.open, wire.most_open, wire.opened, wire.lost) == (3, 3, 3, 0)
            later = ProcessWire(listener.getsockname()[1])
            assert later.bytes == 0, "from when it was made"
            pairs[0][0].close()
            assert wire.bytes == 6000 and (wire.open, wire.most_open, wire.opened, wire.lost) == (2, 3, 3, 1)
        finally:
            for pair in pairs:
                for one in pair:
                    one.close()


def _all(sock: socket.socket, size: int) -> None:
    while size:
        size -= len(sock.recv(size))


def test_a_calibration_may_ask_for_bytes_twice_and_a_read_may_not_get_them_elsewhere():
    """obstore joins ranges that overlap, as those of a calibration of a small object do: that is no redirection, and a redirection still is."""

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
