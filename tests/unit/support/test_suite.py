"""The tests themselves: unit and real ones run in one process (`pytest`, heavy ones in `.ci/run`), and must not disturb each other. What
real ones count with counts right.
"""

import struct
import subprocess
import sys

import pytest
from counting_proxy import HttpProxy, RootProxy
from paths import ROOT


@pytest.mark.heavy
def test_what_unit_tests_change_ends_before_a_real_test():
    """A real test that runs behind a unit test would not find what is installed."""
    files = ("tests/unit/core/test_units.py", "tests/real/test_golang.py")
    argv = (sys.executable, "-m", "pytest", "--setup-plan", "-m", "", "-p", "no:cacheprovider", *files)
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    unit, real = said.split(files[1], 1)
    for name in ("as_on_a_new_machine", "undrawn"):
        assert f"SETUP    M {name}" in unit and f"TEARDOWN M {name}" in unit and name not in real


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_requests_with_bodies_are_counted_however_they_are_cut(step):
    """A body that looks like the end of a head, none, an empty one; of root:// 20 bytes before the first request, and one that nobody counts."""
    proxy = HttpProxy("127.0.0.1", 1, kind=lambda target: target.split("/")[1])
    put = b"PUT /a/1 HTTP/1.1\r\nContent-Length: 10\r\n\r\n01\r\n\r\n6789"
    said = put + b"HEAD /b/2 HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET /a/3 HTTP/1.1\r\ncontent-length:0\r\n\r\n" + put
    told = proxy.counter()
    assert sum(told(said[i : i + step]) for i in range(0, len(said), step)) == 4
    assert proxy.kinds == {("PUT", "a"): 2, ("HEAD", "b"): 1, ("GET", "a"): 1}
    proxy = RootProxy("127.0.0.1", 1)
    requests = ((3010, b"path"), (3025, bytes(32)), (3007, b"login"), (3013, b""), (3025, bytes(16)))
    said = bytes(20) + b"".join(struct.pack("!HH16si", 1, number, b"", len(d)) + d for number, d in requests)
    told = proxy.counter()
    assert sum(told(said[i : i + step]) for i in range(0, len(said), step)) == 4
    assert proxy.kinds == {"open": 1, "readv": 2, "read": 1}
