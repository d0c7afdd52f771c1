"""Pytest options and hooks for complete runs: groups of tests, visible retries, and reasons of failed runs.

Failed tests are repeated only with `--complete`, the option of `.ci/run`. It repeats each failed real test once, and
lists the repeated tests at the end. The run fails if more than `MAX_FLAKY` tests were repeated, if a test was skipped
for a reason that is not in `ALLOWED_SKIPS`, or if fewer tests passed than `--minimum-passed` requires.

Tests marked `nightly` take very long. With `--nightly-since COMMIT`, they run only if a file below one of the paths in
the mark has changed since that commit.
"""

import subprocess
from collections.abc import Generator
from typing import Any

import pytest

MAX_FLAKY = 3
# Prefixes of the reasons that a complete run accepts. "no package": no package registry has the program.
ALLOWED_SKIPS = ("hardware: ", "privilege: ", "data: ", "no package: ")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("storelab")
    group.addoption("--complete", action="store_true", help="One visible second try for real tests; no skipped tests.")
    group.addoption("--nightly-since", metavar="COMMIT", help="Of the tests marked nightly, run those changed since.")
    group.addoption("--minimum-passed", type=int, default=0, help="Fail if fewer tests passed.")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the same hook of xdist, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Put the tests of a file into one group, and all real tests of `make test` into one group with one store."""
    second_try = config.getoption("--complete")
    since = config.getoption("--nightly-since")
    if since and (left_out := [item for item in items if not _due(item, config, since)]):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            smoke = item.get_closest_marker("real") and not item.get_closest_marker("heavy")
            group = "real" if smoke else item.path.relative_to(config.rootpath).as_posix()
            item.add_marker(pytest.mark.xdist_group(group))
        if second_try and item.get_closest_marker("real"):
            item.add_marker(pytest.mark.flaky(reruns=1))
    return (yield)


def _due(item: pytest.Item, config: pytest.Config, since: str) -> bool:
    """Return True if a test is not marked nightly, or if one of its paths has changed."""
    marks = list(item.iter_markers("nightly"))
    if not marks:
        return True
    paths = [path for mark in marks for path in mark.args]
    return any(name == path or name.startswith(f"{path}/") for name in _changed(config, since) for path in paths)


def _changed(config: pytest.Config, since: str) -> list[str]:
    """Return the files that have changed since a commit. Raise UsageError if the commit does not exist."""
    if CHANGED not in config.stash:
        command = ["git", "diff", "--name-only", since, "--"]
        done = subprocess.run(command, cwd=config.rootpath, capture_output=True, text=True)
        if done.returncode:
            raise pytest.UsageError(f"--nightly-since {since}: {done.stderr.strip()}")
        config.stash[CHANGED] = done.stdout.split("\n")
    return config.stash[CHANGED]


def problems(stats: dict[str, list[Any]], minimum: int) -> tuple[list[str], list[str]]:
    """Return the lines to print at the end of a complete run, and the lines with reasons of its failure.

    stats: outcome -> reports of the terminal reporter.
    """
    flaky = sorted({report.nodeid.partition("@")[0] for report in stats.get("rerun", [])})
    skips = sorted({_reason(report) for report in stats.get("skipped", [])})
    passed = len([report for report in stats.get("passed", []) if report.when == "call"])
    fatal = [f"SKIPPED: {reason}" for reason in skips if not reason.startswith(ALLOWED_SKIPS)]
    if len(flaky) > MAX_FLAKY:
        fatal.append(f"{len(flaky)} tests needed a second try; at most {MAX_FLAKY} may")
    if passed < minimum:
        fatal.append(f"{passed} tests passed; at least {minimum} must (.ci/minimum)")
    return [f"FLAKY: {', '.join(flaky) or 'none'}", *fatal], fatal


def _reason(report: Any) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if hasattr(config, "workerinput") or reporter is None:
        return
    complete = config.getoption("--complete")
    stats = reporter.stats if complete else {"passed": reporter.stats.get("passed", [])}
    lines, fatal = problems(stats, config.getoption("--minimum-passed"))
    config.stash[LINES] = lines if complete else fatal
    if fatal and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


LINES = pytest.StashKey[list[str]]()
CHANGED = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if lines := config.stash.get(LINES, []):
        terminalreporter.section("complete run")
        for line in lines:
            terminalreporter.write_line(line)
