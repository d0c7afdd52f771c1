"""Clocks of hosts: a closed server ends its thread, and the kernel's bound on the error of its clock."""

import ctypes
import threading
from types import SimpleNamespace

from storelab.gang import clocks


def test_closed_clock_ends_thread_and_socket():
    server = clocks.Server(["127.0.0.1"])
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
        assert clocks.kernel_error_ns() == found, (status, state)
