"""Pytest hooks that print the tests with the most CPU time at the end of a run with `--durations`.

On busy machines, wall time includes waiting. The CPU time includes the fixtures of a test, and child processes that it
waited for. It does not include daemons that outlive their parent.
"""

import os
from collections.abc import Generator
from typing import Any

import pytest

NAME = "cpu_s"  # name of the property in the last report of a test
BEGUN = pytest.StashKey[float]()


def spent() -> float:
    """Return the CPU seconds of this process and its ended children, user and system."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[BEGUN] = spent()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    try:
        return (yield)
    finally:
        item.user_properties.append((NAME, spent() - item.stash.get(BEGUN, spent())))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    most = config.getoption("durations")
    if most is None:
        return
    reports = [r for kind in terminalreporter.stats.values() for r in kind if getattr(r, "when", "") == "teardown"]
    found = sorted(((dict(r.user_properties).get(NAME, 0.0), r.nodeid) for r in reports), reverse=True)
    terminalreporter.section(f"CPU seconds, {sum(s for s, _ in found):.0f} in {len(found)} tests")
    for seconds, name in found[: most or None]:
        terminalreporter.write_line(f"{seconds:7.1f}s {name}")
