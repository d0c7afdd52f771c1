"""A clock that a test moves. The sleeps of chosen modules move it as well, and take no time."""

from types import SimpleNamespace

import pytest

from storelab.core import clock


class FakeClock:
    """The time `ns`, which `storelab.core.clock` returns until the test ends; `sleeps` are the seconds slept so far."""

    def __init__(self, patch: pytest.MonkeyPatch, *modules: object):
        self.ns = 10**18
        self.sleeps: list[float] = []
        patch.setattr(clock, "now_ns", lambda: self.ns)
        for module in modules:
            patch.setattr(module, "time", SimpleNamespace(sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.ns += round(seconds * 1e9)
