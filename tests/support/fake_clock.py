"""A clock that tests set. Sleeps of the given modules advance it and take no time."""

from types import SimpleNamespace

import pytest

from storelab.core import clock


class FakeClock:
    """A clock whose time `ns` is returned by `storelab.core.clock` until the test ends.

    sleeps: seconds of each sleep.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *modules: object):
        self.ns = 10**18
        self.sleeps: list[float] = []
        patch.setattr(clock, "now_ns", lambda: self.ns)
        for module in modules:
            patch.setattr(module, "time", SimpleNamespace(sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.ns += round(seconds * 1e9)
