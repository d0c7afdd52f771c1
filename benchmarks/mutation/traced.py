"""Which test runs which line of the package, and how long it takes: kept by content, so that only changed files run
anew.
"""

import hashlib
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "storelab"
KEPT = ROOT / ".storelab" / "mutants"


def digest(*paths: Path) -> str:
    """Of the content of some files, whatever their order."""
    found = sorted(hashlib.sha256(p.read_bytes()).hexdigest() + p.name for p in paths)
    return hashlib.sha256("".join(found).encode()).hexdigest()[:24]


def ground() -> str:
    """What every unit test stands on: the package, and what tests share."""
    shared = [
        *(ROOT / "tests" / "support").glob("*.py"),
        ROOT / "tests" / "conftest.py",
        ROOT / "tests" / "unit" / "conftest.py",
    ]
    return digest(*SOURCE.rglob("*.py"), *shared)


class Watch:
    """A plugin of pytest: lines that run are booked on the test, or on the fixture of wider scope that runs."""

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.tests, self.fixtures, self.running = coverage, {}, {}, [""]

    def _begin(self, what: str) -> float:
        self.running.append(what)
        self.coverage.switch_context(what)
        return time.process_time()

    def _end(self) -> None:
        self.running.pop()
        self.coverage.switch_context(self.running[-1])

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Iterator[None]:
        begun, wall = self._begin(item.nodeid), time.monotonic()
        before = sum(self.fixtures.values())
        self.tests[item.nodeid] = {"fixtures": [], "passed": True}
        yield
        own = time.process_time() - begun - (sum(self.fixtures.values()) - before)
        self.tests[item.nodeid] |= {"cpu_s": own, "wall_s": time.monotonic() - wall}
        self._end()

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            yield
            return
        name = f"fixture {fixturedef.baseid}::{fixturedef.argname}"
        begun = self._begin(name)
        before = sum(self.fixtures.values())
        yield
        inner = sum(self.fixtures.values()) - before
        self.fixtures[name] = self.fixtures.get(name, 0.0) + time.process_time() - begun - inner
        self._end()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.wide = {
            item.nodeid: [
                f"fixture {d.baseid}::{d.argname}"
                for defs in item._fixtureinfo.name2fixturedefs.values()
                for d in defs
                if d.scope != "function"
            ]
            for item in items
        }

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed or report.skipped:
            self.tests[report.nodeid]["passed"] = False


def trace(file: str, out: Path) -> None:
    """Run a file of tests and keep what its tests ran: out.json and the data of coverage, out.coverage."""
    import coverage
    import pytest

    data = out.with_suffix(".coverage")
    data.unlink(missing_ok=True)
    cov = coverage.Coverage(data_file=str(data), source=[str(SOURCE)], config_file=False)
    watch = Watch(cov)
    for name in ("pytest_runtest_protocol", "pytest_fixture_setup"):
        setattr(Watch, name, pytest.hookimpl(hookwrapper=True)(getattr(Watch, name)))
    cov.start()
    status = pytest.main([*QUIET, "-m", "not root and not heavy", file], plugins=[watch])
    cov.stop()
    cov.save()
    for test, found in watch.tests.items():
        found["fixtures"] = watch.wide[test]
    told = {"status": int(status), "tests": watch.tests, "fixtures": watch.fixtures}
    out.write_text(json.dumps(told))


QUIET = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT), "-o", "addopts=")


class Tests:
    """What is known of the tests of some files.

    cost: test -> CPU s; lines: module (path below src/storelab) -> line -> tests; ran: test -> module -> lines."""

    def __init__(self, traces: dict[str, Path]) -> None:
        """traces: file of tests -> what `trace` kept."""
        self.cost: dict[str, float] = {}
        self.wall: dict[str, float] = {}
        self.wide: dict[str, dict[str, float]] = {}  # test -> its fixtures of wider scope, their CPU s
        self.failed: list[str] = []
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.ran: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for file, kept in traces.items():
            self._read(file, kept)

    def _read(self, file: str, kept: Path) -> None:
        import coverage

        told = json.loads(kept.read_text())
        users = defaultdict(list)
        for test, found in told["tests"].items():
            if not found["passed"]:
                self.failed.append(test)
                continue
            self.cost[test], self.wall[test] = found["cpu_s"], found["wall_s"]
            self.wide[test] = {f: told["fixtures"].get(f, 0.0) for f in found["fixtures"]}
            users[test].append(test)
            for fixture in found["fixtures"]:
                users[fixture].append(test)
        data = coverage.CoverageData(str(kept.with_suffix(".coverage")))
        data.read()
        for path in data.measured_files():
            module = os.path.relpath(path, SOURCE)
            for line, contexts in data.contexts_by_lineno(path).items():
                tests = {t for c in contexts for t in users.get(c, ())}
                self.lines[module][line] |= tests
                for t in tests:
                    self.ran[t][module] += 1

    def of_lines(self, module: str, first: int, last: int) -> set[str]:
        return set().union(*(self.lines[module].get(n, ()) for n in range(first, last + 1)))

    def of_module(self, module: str) -> set[str]:
        return set().union(*self.lines[module].values())

    def of_files(self, files: list[str]) -> set[str]:
        return {t for t in self.cost if t.partition("::")[0] in files}

    def chosen(self, tests: set[str], modules: list[str], first: set[str], most: int, cpu_s: float) -> list[str]:
        """`first`, then those of the tests that look most at the modules, at most so many and so long; quickest first.
        Of a function with many cases, a second one comes only after the first of every other."""
        every = {t: sum(self.ran[t].values()) for t in tests}
        focus = {t: sum(self.ran[t][m] for m in modules) / every[t] if every[t] else 0.0 for t in tests}
        order, cases, turn = sorted(tests, key=lambda t: (t not in first, -focus[t], t)), Counter(), {}
        for test in order:
            function = test.partition("[")[0]
            turn[test], cases[function] = cases[function], cases[function] + 1
        out, spent, ready = [], 0.0, set()
        for test in sorted(order, key=lambda t: (t not in first, turn[t])):
            cost = self.cost[test] + sum(s for f, s in self.wide[test].items() if f not in ready)
            if len(out) < most and spent + cost <= cpu_s:
                out.append(test)
                spent += cost
                ready |= set(self.wide[test])
        return sorted(out, key=lambda t: self.cost[t] + sum(self.wide[t].values()))
