"""Options and hooks for complete runs: tests that may run together, visible retries, and reasons of failed runs.

Without options a test that fails has failed. `--complete` is for `.ci/run`: a real test that fails runs a second time,
and the run ends with the list of those that needed it. The run fails if there are more than `MAX_FLAKY` of them, if a
test was skipped for any reason but `ALLOWED_SKIPS`, or if fewer tests passed than `--minimum-passed` says.

Tests marked `nightly` take very long. With `--nightly-since COMMIT` only those run for which something below a path
that the marker names has changed since that commit.
"""

import subprocess
from collections.abc import Generator
from typing import Any

import pytest

MAX_FLAKY = 3
# How the reasons begin that a complete run accepts; "no package": a program that no package registry has.
ALLOWED_SKIPS = ("hardware: ", "privilege: ", "data: ", "no package: ")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("storelab")
    group.addoption("--complete", action="store_true", help="One visible second try for real tests; no skipped tests.")
    group.addoption("--nightly-since", metavar="COMMIT", help="Of the tests marked nightly, run those changed since.")
    group.addoption("--minimum-passed", type=int, default=0, help="Fail if fewer tests passed.")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # xdist reads the groups in the same hook, and is tried first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Keep the tests of one file in one process; all real tests of `make test` share one, with its store."""
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
    """Check whether a test is not marked nightly, or has changed."""
    marks = list(item.iter_markers("nightly"))
    if not marks:
        return True
    paths = [path for mark in marks for path in mark.args]
    return any(name == path or name.startswith(f"{path}/") for name in _changed(config, since) for path in paths)


def _changed(config: pytest.Config, since: str) -> list[str]:
    """Return the files that differ from those of a commit. Raise UsageError for a commit that is not there."""
    if CHANGED not in config.stash:
        command = ["git", "diff", "--name-only", since, "--"]
        done = subprocess.run(command, cwd=config.rootpath, capture_output=True, text=True)
        if done.returncode:
            raise pytest.UsageError(f"--nightly-since {since}: {done.stderr.strip()}")
        config.stash[CHANGED] = done.stdout.split("\n")
    return config.stash[CHANGED]


def problems(stats: dict[str, list[Any]], minimum: int) -> tuple[list[str], list[str]]:
    """Return the lines that end a complete run, and those of them that make it fail.

    `stats` are the reports of the terminal reporter by outcome.
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
