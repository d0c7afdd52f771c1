"""Clocks of hosts: the offset from answers of the coordinator, or the kernel's bound on the error."""

import ctypes
import socket
import struct
import threading
import time
from types import SimpleNamespace

from storelab.core import clock
from storelab.gang import nodes

S, MS = 10**9, 10**6
SILENT = ["127.0.0.1", 9]


def test_closed_clock_ends_thread_and_socket():
    server = nodes.ClockServer(["127.0.0.1"])
    assert server.thread.is_alive() and server.thread.name == "clock" and server.thread.daemon
    server.close()
    assert not server.thread.is_alive() and server.thread not in threading.enumerate()
    assert server.socket.fileno() == -1


def test_kernel_bounds_the_error_of_its_clock(monkeypatch):
    """In struct timex the fourth word is maxerror in us, the sixth the status; bit 0x40: the clock is free."""
    for status, state, found in ((0, 0, 250_000), (0, 64, None), (5, 0, 250_000), (-1, 0, None)):

        def adjtimex(reference, status=status, state=state):
            words = ctypes.cast(reference, ctypes.POINTER(ctypes.c_long * 64)).contents
            words[:7] = [0, 1, 2, 250, 4, state, 0x40]
            return status

        monkeypatch.setattr(ctypes, "CDLL", lambda *_, call=adjtimex, **__: SimpleNamespace(adjtimex=call))
        assert nodes.kernel_error_ns() == found, (status, state)


def test_offset_is_found_within_its_error():
    server = nodes.ClockServer(["127.0.0.1"])
    try:
        for shift_ns in (0, 3 * S, -40 * MS):
            server.shift_ns = shift_ns
            found = nodes.measure_offset([SILENT, *server.addresses])
            assert found.how == "asked" and found.error_ns > 0 and abs(found.ns - shift_ns) <= found.error_ns + 1
            recorded = {"clock_offset_ns": found.ns, "clock_error_ns": found.error_ns, "clock_how": "asked"}
            assert found.as_dict() == recorded
    finally:
        server.close()


def test_quickest_answer_counts_and_late_ones_are_not_mixed_up():
    """A coordinator answers the first questions late, and one twice: the offset is that of the quick answers."""
    asked = []

    def answer(sock):
        while True:
            try:
                nonce, sender = sock.recvfrom(64)
            except OSError:
                return
            asked.append(nonce)
            if len(asked) < 4:
                time.sleep(0.1)  # the offset would seem 50 ms too small
            if len(asked) == 6:
                sock.sendto(bytes(16) + struct.pack("!q", 0), sender)
            sock.sendto(nonce + struct.pack("!q", clock.now_ns() + 5 * S), sender)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        threading.Thread(target=answer, args=(sock,), daemon=True).start()
        found = nodes.measure_offset([list(sock.getsockname())])
    assert len(asked) == nodes.REQUESTS == 12 and len(set(asked)) == 12
    assert abs(found.ns - 5 * S) <= found.error_ns + 1 and found.error_ns < 50 * MS


def test_without_answer_the_kernel_decides(monkeypatch):
    monkeypatch.setattr(nodes, "WAIT_S", 0.01)
    for error, how in ((None, "unknown"), (1234, "kernel")):
        monkeypatch.setattr(nodes, "kernel_error_ns", lambda error=error: error)
        assert nodes.measure_offset([SILENT]) == nodes.Offset(0, error, how)
