"""Tests that share processes do not disturb each other, and proxies count requests correctly."""

import struct
import subprocess
import sys

import pytest
from counting_proxy import HttpProxy, RootProxy
from paths import ROOT


@pytest.mark.heavy
def test_changes_of_unit_tests_end_before_real_tests():
    """A real test after a unit test finds the installed programs."""
    files = ("tests/unit/core/test_units.py", "tests/real/test_golang.py")
    argv = (sys.executable, "-m", "pytest", "--setup-plan", "-m", "", "-p", "no:cacheprovider", *files)
    plan = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    unit, real = plan.split(files[1], 1)
    for name in ("as_on_a_new_machine", "undrawn"):
        assert f"SETUP    M {name}" in unit and f"TEARDOWN M {name}" in unit and name not in real


def counted(proxy, sent: bytes, step: int) -> int:
    """Return the number of requests in bytes that arrive in pieces of this length."""
    count = proxy.counter()
    return sum(count(sent[i : i + step]) for i in range(0, len(sent), step))


def test_requests_are_counted_however_they_are_cut():
    """A body looks like the end of a head; others are missing or empty. root:// begins with 20 bytes."""
    put = b"PUT /a/1 HTTP/1.1\r\nContent-Length: 10\r\n\r\n01\r\n\r\n6789"
    others = b"HEAD /b/2 HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET /a/3 HTTP/1.1\r\ncontent-length:0\r\n\r\n"
    requests = ((3010, b"path"), (3025, bytes(32)), (3007, b"login"), (3013, b""), (3025, bytes(16)))
    heads = [struct.pack("!HH16si", 1, number, b"", len(data)) + data for number, data in requests]
    for step in (1, 2, 7, 1000):
        proxy = HttpProxy("127.0.0.1", 1, kind=lambda target: target.split("/")[1])
        assert counted(proxy, put + others + put, step) == 4
        assert proxy.kinds == {("PUT", "a"): 2, ("HEAD", "b"): 1, ("GET", "a"): 1}
        proxy = RootProxy("127.0.0.1", 1)
        assert counted(proxy, bytes(20) + b"".join(heads), step) == 4, "a login is not counted"
        assert proxy.kinds == {"open": 1, "readv": 2, "read": 1}
