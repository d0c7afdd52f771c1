"""Record which test runs which line of the package, and how long it takes; traces are kept by content of test files."""

import hashlib
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "storelab"
PLANNER = ROOT / "src" / "readplan"
UNIT = ROOT / "tests" / "unit"
SUPPORT = ROOT / "tests" / "support"
KEPT = ROOT / ".storelab" / "mutants"


def sources() -> list[Path]:
    """Return the files of both packages, sorted."""
    return [path for package in (SOURCE, PLANNER) for path in sorted(package.rglob("*.py"))]


def path_of(module: str) -> Path:
    """Return the file of a module: below src/storelab, or of the package `readplan` (`readplan/…`)."""
    return (PLANNER.parent if module.startswith("readplan/") else SOURCE) / module


def module_of(path: str | Path) -> str:
    """Return the path of a file as reports name it: below src/storelab, or below src for `readplan`."""
    return os.path.relpath(path, PLANNER.parent if Path(path).is_relative_to(PLANNER) else SOURCE)


def dotted(module: str) -> str:
    """Return the name by which Python imports a module."""
    name = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return name if module.startswith("readplan/") else f"storelab.{name}"


def digest(*paths: Path) -> str:
    """Return a digest of the content of some files, independent of their order."""
    return digest_of(*(hashlib.sha256(p.read_bytes()).hexdigest() + p.name for p in paths))


def digest_of(*texts: str) -> str:
    """Return a digest of some texts, independent of their order."""
    return hashlib.sha256("".join(sorted(texts)).encode()).hexdigest()[:24]


def ground() -> str:
    """Return the digest of everything that all unit tests depend on: the package, and the shared parts of tests."""
    shared = [*SUPPORT.glob("*.py"), ROOT / "tests" / "conftest.py", *UNIT.rglob("conftest.py")]
    return digest(*sources(), *shared)


def name(file: str) -> str:
    """Return the path of a file of unit tests as one word: `core.plan.test_plan`."""
    return ".".join((ROOT / file).relative_to(UNIT).with_suffix("").parts)


def own_campaigns(
    folder: Path,
    made: Container[str] | None = None,
    around: Callable[[str], AbstractContextManager[Any]] = nullcontext,
) -> None:
    """Have `tests/support/campaigns.py` make campaigns in this process, and keep them in `folder`.

    Campaigns that are not in `made` are copied from the folder that all tests share, if it has them. `around` encloses
    each use of a campaign, by its name.
    """
    sys.path.insert(0, str(SUPPORT))
    import campaigns

    once, shared = campaigns._once, campaigns.KEPT
    shared.mkdir(parents=True, exist_ok=True)

    def own(place: Path, make: Callable[[Path], None]) -> Path:
        campaign = f"campaign {place.relative_to(shared / campaigns.state())}"
        if made is None or campaign in made or not place.exists():
            place = folder / campaign
        with around(campaign):
            return once(place, make)

    campaigns._once = own


class Watch:
    """A pytest plugin that records each line that runs.

    A line is recorded for the test, for the running fixture of wider scope, or for the campaign that is being made.
    """

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.tests, self.running = coverage, {}, [""]
        self.fixtures: dict[str, float] = {}  # fixtures and campaigns: CPU s
        self.used: dict[str, set[str]] = defaultdict(set)  # test, fixture or campaign -> campaigns

    @contextmanager
    def booked(self, what: str) -> Iterator[None]:
        self.running.append(what)
        self.coverage.switch_context(what)
        begun, before = time.process_time(), sum(self.fixtures.values())
        try:
            yield
        finally:
            own = time.process_time() - begun - (sum(self.fixtures.values()) - before)
            if what in self.tests:
                self.tests[what]["cpu_s"] = own
            else:
                self.fixtures[what] = self.fixtures.get(what, 0.0) + own
            self.running.pop()
            self.coverage.switch_context(self.running[-1])

    @contextmanager
    def campaign(self, what: str) -> Iterator[None]:
        self.used[self.running[-1]].add(what)
        with self.booked(what):
            yield

    def campaigns(self, users: list[str]) -> set[str]:
        """Return the campaigns that these tests, fixtures or campaigns use, directly or not."""
        found = set().union(*(self.used.get(u, ()) for u in users))
        return found | self.campaigns(sorted(found)) if found else found

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Iterator[None]:
        self.tests[item.nodeid] = {"fixtures": [], "passed": True}
        wall = time.monotonic()
        with self.booked(item.nodeid):
            yield
        self.tests[item.nodeid]["wall_s"] = time.monotonic() - wall

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            yield
            return
        with self.booked(f"fixture {fixturedef.baseid}::{fixturedef.argname}"):
            yield

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


def trace(file: str, out: Path, scratch: Path) -> None:
    """Run a file of tests and save what its tests ran: out.json, and the data of coverage in out.coverage."""
    import coverage
    import pytest

    data = out.with_suffix(".coverage")
    data.unlink(missing_ok=True)
    cov = coverage.Coverage(data_file=str(data), source=[str(SOURCE), str(PLANNER)], config_file=False)
    watch = Watch(cov)
    for name in ("pytest_runtest_protocol", "pytest_fixture_setup"):
        setattr(Watch, name, pytest.hookimpl(hookwrapper=True)(getattr(Watch, name)))
    cov.start()
    own_campaigns(scratch / "campaigns", around=watch.campaign)
    status = pytest.main([*QUIET, "-m", "not root and not heavy", file], plugins=[watch])
    cov.stop()
    cov.save()
    for test, found in watch.tests.items():
        wide = watch.wide[test]
        found["fixtures"] = [*wide, *sorted(watch.campaigns([test, *wide]))]
    kept_trace = {"status": int(status), "tests": watch.tests, "fixtures": watch.fixtures}
    out.write_text(json.dumps(kept_trace))


OPTIONS = "addopts=--import-mode=importlib"
QUIET = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT), "-o", OPTIONS)


class Tests:
    """The traces of the tests of some files.

    cost: test -> CPU s; lines: module (`module_of`) -> line -> tests; ran: test -> module -> lines;
    makes: module -> line -> campaigns whose making runs it.
    """

    def __init__(self, traces: dict[str, Path]) -> None:
        """Read traces: file of tests -> file that `trace` wrote."""
        self.cost: dict[str, float] = {}
        self.wall: dict[str, float] = {}
        self.wide: dict[str, dict[str, float]] = {}  # test -> its fixtures of wider scope and campaigns, their CPU s
        self.failed: list[str] = []
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.ran: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.makes: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for file, kept in traces.items():
            self._read(file, kept)

    def _read(self, file: str, kept: Path) -> None:
        import coverage

        kept_trace = json.loads(kept.read_text())
        users = defaultdict(list)
        for test, found in kept_trace["tests"].items():
            if not found["passed"]:
                self.failed.append(test)
                continue
            self.cost[test], self.wall[test] = found["cpu_s"], found["wall_s"]
            self.wide[test] = {f: kept_trace["fixtures"].get(f, 0.0) for f in found["fixtures"]}
            users[test].append(test)
            for fixture in found["fixtures"]:
                users[fixture].append(test)
        data = coverage.CoverageData(str(kept.with_suffix(".coverage")))
        data.read()
        for path in data.measured_files():
            module = module_of(path)
            for line, contexts in data.contexts_by_lineno(path).items():
                tests = {t for c in contexts for t in users.get(c, ())}
                self.lines[module][line] |= tests
                self.makes[module][line] |= {c for c in contexts if c.startswith("campaign ")}
                for t in tests:
                    self.ran[t][module] += 1

    def of_lines(self, module: str, first: int, last: int) -> set[str]:
        return set().union(*(self.lines[module].get(n, ()) for n in range(first, last + 1)))

    def of_module(self, module: str) -> set[str]:
        return set().union(*self.lines[module].values())

    def of_files(self, files: list[str]) -> set[str]:
        return {t for t in self.cost if t.partition("::")[0] in files}

    def made(self, module: str, lines: tuple[int, int] | None) -> set[str]:
        """Return the campaigns to be made with a fault in these lines; None: in a line that runs on import."""
        if lines is None:
            return {f for wide in self.wide.values() for f in wide if f.startswith("campaign ")}
        return set().union(*(self.makes[module].get(n, ()) for n in range(lines[0], lines[1] + 1)))

    def shared(self, test: str, made: set[str]) -> dict[str, float]:
        """Return the fixtures of wider scope of a test, and those of its campaigns that have to be made."""
        return {f: s for f, s in self.wide[test].items() if f in made or not f.startswith("campaign ")}

    def chosen(
        self, tests: set[str], modules: list[str], first: set[str], made: set[str], most: int, cpu_s: float
    ) -> list[str]:
        """Return at most `most` tests and `cpu_s` seconds of them: `first`, then those that focus on the modules.

        A second case of a test function is chosen only after the first case of every other function. The result is
        ordered by file, so that fixtures of modules are made once: quick files first, quick tests first.
        """
        every = {t: sum(self.ran[t].values()) for t in tests}
        focus = {t: sum(self.ran[t][m] for m in modules) / every[t] if every[t] else 0.0 for t in tests}
        order, cases, turn = sorted(tests, key=lambda t: (t not in first, -focus[t], t)), Counter(), {}
        for test in order:
            function = test.partition("[")[0]
            turn[test], cases[function] = cases[function], cases[function] + 1
        out, total, ready = [], 0.0, set()
        for test in sorted(order, key=lambda t: (t not in first, turn[t])):
            shared = self.shared(test, made)
            cost = self.cost[test] + sum(s for f, s in shared.items() if f not in ready)
            if len(out) < most and total + cost <= cpu_s:
                out.append(test)
                total += cost
                ready |= set(shared)
        files: dict[str, float] = defaultdict(float)
        for test in out:
            files[test.partition("::")[0]] += self.cost[test] + sum(self.shared(test, made).values())
        return sorted(out, key=lambda t: (files[t.partition("::")[0]], t.partition("::")[0], self.cost[t]))

    def spent(self, tests: list[str], made: set[str]) -> Iterator[float]:
        """Yield the CPU seconds up to and with each test, with its fixtures of wider scope at their first use."""
        total, ready = 0.0, set()
        for test in tests:
            shared = self.shared(test, made)
            total += self.cost[test] + sum(s for f, s in shared.items() if f not in ready)
            ready |= set(shared)
            yield total
