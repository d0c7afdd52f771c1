"""Planted faults that a unit test sees: a seeded sample of small changes in everything that makes or judges a number.

`mutants_killed` is the share of the faults, without those that change nothing, for which a unit test fails; a fault in
a line that no test runs counts as one that nobody saw. Those that are left stand, with place, before and after, in
`.storelab/mutants/survivors.txt` (with `--save` also in `results/mutants.survivors.txt`). mutation/equivalent.txt lists
the faults that change nothing, with the reason. `false_alarms`: so many of the same tries failed without a fault.
"""

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, options, report, run, say, sized
from mutation import operators, traced

SEED = 20150413
WORKERS = 2
MOST_TESTS, MOST_CPU_S = 40, 20.0  # of one fault
CONTROLS = 0.02  # parts of the faults: tries without one
SERVER = Path(__file__).parent / "mutation" / "server.py"
EQUIVALENT = Path(__file__).parent / "mutation" / "equivalent.txt"
ROOMS = {  # what makes or judges a number, paths below src/storelab
    "records": ("core/records.py", "core/units.py", "core/clock.py", "core/answers.py", "analysis/records/*"),
    "statistics": ("analysis/statistics/*",),
    "tables": ("analysis/tables/*", "analysis/parts/*", "analysis/sizing.py"),
    "verdicts": ("analysis/tables/verdicts/*", "analysis/tables/noise.py", "analysis/tables/scaling.py"),
    "compare": ("analysis/compare/sides.py",),
    "plan": ("core/plan/*", "core/model.py", "core/axes/*", "core/campaign/*", "measure/plan_file.py"),
    "calibration": ("core/calibration.py", "workloads/calibrate/*"),
    "readplan": ("readplan/[clmrst]*.py",),
    "decoding": ("datasets/root/[bdhprs]*.py",),
    "measuring": (
        *(
            "engines/common/[abgrw]*.py",
            "engines/common/s[eh]*.py",
            "engines/common/tally.py",
            "measure/check*.py",
            "measure/record.py",
        ),
        *("gang/clocks.py", "host/monitor.py", "workloads/reading/*", "engines/s5cmd/output.py"),
    ),
}
# They compare with what the code said before, look at pictures and pages, or start programs that see no fault.
NOT_ASKED = (
    *(
        "test_golden",
        "test_figures*",
        "test_figure_pictures",
        "test_latex",
        "test_docs",
        "test_dag",
        "test_architecture",
    ),
    *(
        "test_environments",
        "test_benchmarks",
        "test_mutants",
        "test_launchers",
        "test_stores",
        "test_store_registry",
        "test_hdfs_settings",
    ),
)
SMOKE = ("core/units.py", "tests/unit/core/test_units.py")


@dataclass
class Mutant:
    """A fault in a module; number -1: none."""

    room: str
    module: str
    fault: operators.Fault
    after: str
    tests: list[str]
    status: str = "survived"
    by: str = ""

    @property
    def place(self) -> str:
        return f"{self.module}:{self.fault.line}"

    def told(self) -> str:
        before, after = operators.difference(self.fault.before, self.after)
        return f"{self.place} {self.fault.function} ({self.fault.kind}): {before} → {after}"


def room_of(module: str) -> str | None:
    """The last room that names it: the verdicts are tables too."""
    found = [r for r, patterns in ROOMS.items() if any(fnmatch(module, p) for p in patterns)]
    return found[-1] if found else None


def modules() -> dict[str, str]:
    """Module -> room, of all that make or judge a number."""
    every = (str(p.relative_to(traced.SOURCE)) for p in sorted(traced.SOURCE.rglob("*.py")))
    return {m: room for m in every if (room := room_of(m))}


def sample(module: str, wanted: int) -> list[operators.Fault]:
    """So many faults of a module, each on a line of its own while there are such; the first of a larger sample are
    those of a smaller one.
    """
    rng = random.Random(f"{SEED} {module}")
    by_line = defaultdict(list)
    for fault in operators.faults((traced.SOURCE / module).read_text()):
        by_line[fault.line].append(fault)
    for there in by_line.values():
        rng.shuffle(there)
    lines = sorted(by_line)
    rng.shuffle(lines)
    rounds = (
        by_line[line][n]
        for n in range(max(map(len, by_line.values()), default=0))
        for line in lines
        if n < len(by_line[line])
    )
    return [fault for fault, _ in zip(rounds, range(wanted), strict=False)]


def shares(sizes: dict[str, int], every: int) -> dict[str, int]:
    """Of so many faults in all, how many each module gets: by its number of lines that bear one, by the largest
    remainder.
    """
    total = sum(sizes.values())
    exact = {m: every * n / total for m, n in sizes.items()}
    out = {m: int(e) for m, e in exact.items()}
    for m in sorted(exact, key=lambda m: (out[m] - exact[m], m))[: every - sum(out.values())]:
        out[m] += 1
    return out


def drawn(rooms: dict[str, str], every: int) -> Iterator[tuple[str, operators.Fault]]:
    found = {m: operators.faults((traced.SOURCE / m).read_text()) for m in rooms}
    for module, wanted in shares({m: len({f.line for f in fs}) for m, fs in found.items()}, every).items():
        yield from ((module, fault) for fault in sample(module, wanted))


class Server:
    """A running `mutation/server.py`; with its children it ends with the block."""

    def __enter__(self) -> "Server":
        command = ["nice", "-n", "5", sys.executable, str(SERVER), str(WORKERS)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, cwd=ROOT, **pipes)
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error:
            self.process.terminate()
        self.process.communicate()

    def results(self, jobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Of each job, as they come."""
        self.process.stdin.write(json.dumps(jobs) + "\n")
        self.process.stdin.flush()
        for _ in jobs:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"mutants: the server ended with {self.process.wait()}")
            yield json.loads(line)


def progress(what: str, results: Iterable[dict[str, Any]], every: int) -> Iterator[dict[str, Any]]:
    begun = told = time.monotonic()
    killed = 0
    for n, result in enumerate(results, 1):
        yield result
        killed += result["status"] != "survived"
        if time.monotonic() - told > 15 or n == every:
            told = time.monotonic()
            left = (told - begun) / n * (every - n) / 60
            say(
                f"mutants: {n} of {every} {what}, {left:.1f} min left"
                + (f", {killed} killed" if "faults" in what else "")
            )


def known_tests(server: Server, files: list[str]) -> traced.Tests:
    """What the files of tests run: from what was kept, else traced now."""
    traced.KEPT.mkdir(parents=True, exist_ok=True)
    ground = traced.ground()
    places = {f: traced.KEPT / f"{Path(f).stem}.{ground[:12]}.{traced.digest(ROOT / f)[:12]}.json" for f in files}
    jobs = [
        {"id": f, "kind": "trace", "file": f, "out": str(p), "cpu_s": 600, "wall_s": 900}
        for f, p in places.items()
        if not p.exists()
    ]
    for result in progress("files of tests traced", server.results(jobs), len(jobs)):
        if not places[result["id"]].exists():
            raise SystemExit(f"mutants: {result['id']} was not traced: {result['status']}")
    for old in traced.KEPT.glob("test_*"):
        if old.with_suffix(".json") not in places.values() and old.stem.split(".")[0] in {Path(f).stem for f in files}:
            old.unlink()
    return traced.Tests(places)


def asked_files() -> list[str]:
    files = (p for p in sorted((ROOT / "tests" / "unit").glob("test_*.py")))
    return [str(p.relative_to(ROOT)) for p in files if not any(fnmatch(p.stem, n) for n in NOT_ASKED)]


def choose(tests: traced.Tests, module: str, fault: operators.Fault) -> list[str]:
    """Tests that run the line.

    Of a line that runs as the module is imported: those whose file imports the module, then those that run the module,
    or, if it holds nothing but such lines, the modules that import it.
    """
    if not fault.on_import:
        return tests.chosen(tests.of_lines(module, *fault.lines), [module], set(), MOST_TESTS, MOST_CPU_S)
    direct = tests.of_files(importers(module, "tests/unit"))
    users = [module] if tests.of_module(module) else importers(module, "src/storelab")
    every = direct.union(*map(tests.of_module, users))
    return tests.chosen(every, users, direct, 4 * MOST_TESTS, MOST_CPU_S)


@cache
def importers(module: str, below: str) -> list[str]:
    """Files that import it, or the package that it is the content of; modules as paths below src/storelab."""
    name = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    names = [name, name.rpartition(".")[0]] if name.count(".") > 1 else [name]
    patterns = [
        rf"storelab\.{re.escape(n)}\b|"
        rf"from storelab\.{re.escape(n.rpartition('.')[0])} import .*\b{n.rpartition('.')[2]}\b"
        for n in names
    ]
    found = [p for p in sorted((ROOT / below).rglob("*.py")) if re.search("|".join(patterns), p.read_text())]
    where = [str(p.relative_to(traced.SOURCE if p.is_relative_to(traced.SOURCE) else ROOT)) for p in found]
    return [w for w in where if w != module]


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """(module, function, before, after) -> the reason; a line of the file is those five, with ` | ` between."""
    out = {}
    for line in EQUIVALENT.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            module, function, before, after, reason = line.split(" | ", 4)
            out[module, function, before, after] = reason
    return out


def make(server: Server, every: int, rooms: dict[str, str], files: list[str]) -> tuple[list[Mutant], traced.Tests]:
    tests = known_tests(server, files)
    for test in tests.failed:
        say(f"mutants: {test} fails or is skipped without a fault: it is not asked")
    out = []
    for module, fault in drawn(rooms, every):
        _, after = operators.planted((traced.SOURCE / module).read_text(), fault.number)
        out.append(Mutant(rooms[module], module, fault, after, choose(tests, module, fault)))
    return out, tests


class Kept:
    """Results of earlier runs, each valid while the package, the shared parts and the files of its tests stay as they
    are.
    """

    def __init__(self) -> None:
        self.file, self.ground = traced.KEPT / "results.json", traced.ground()
        kept = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.results = kept.get("results", {}) if kept.get("ground") == self.ground else {}
        self.digests: dict[str, str] = {}

    def _digest(self, test: str) -> str:
        file = test.partition("::")[0]
        return self.digests.setdefault(file, traced.digest(ROOT / file))

    def _key(self, mutant: Mutant) -> str:
        return f"{mutant.module} {mutant.fault.number}"

    def _asked(self, mutant: Mutant) -> list[list[str]]:
        return [[t, self._digest(t)] for t in sorted(mutant.tests)]

    def use(self, mutant: Mutant) -> bool:
        """Whether its result is known: killed by a test that is as it was, or survived the very same tests."""
        old = self.results.get(self._key(mutant))
        if not old:
            return False
        by = old["by"]
        same = self._digest(by) == old["digest"] if by and (ROOT / by.partition("::")[0]).exists() else False
        if not same and old["asked"] != self._asked(mutant):
            return False
        mutant.status, mutant.by = old["status"], by
        return True

    def keep(self, mutants: list[Mutant]) -> None:
        for m in mutants:
            digest = self._digest(m.by) if m.by else ""
            self.results[self._key(m)] = {"status": m.status, "by": m.by, "digest": digest, "asked": self._asked(m)}
        self.file.write_text(json.dumps({"ground": self.ground, "results": self.results}))


def job(mutant: Mutant, tests: traced.Tests, name: int) -> dict[str, Any]:
    """A fault that takes three times the CPU time of its tests, and some for the imports, is killed."""
    wide = {f: s for t in mutant.tests for f, s in tests.wide[t].items()}
    cpu_s = 20 + 3 * (sum(tests.cost[t] for t in mutant.tests) + sum(wide.values()))
    wall_s = 4 * cpu_s + 3 * sum(tests.wall[t] for t in mutant.tests)
    about = {"module": mutant.module, "number": mutant.fault.number, "tests": mutant.tests}
    return about | {"id": name, "kind": "fault", "cpu_s": cpu_s, "wall_s": wall_s}


def attempt(server: Server, mutants: list[Mutant], tests: traced.Tests, what: str, kept: "Kept | None" = None) -> None:
    """Fill in status and by, in an order of chance, so that the time left can be told."""
    jobs = [job(m, tests, i) for i, m in enumerate(mutants) if m.tests]
    random.Random(SEED).shuffle(jobs)
    for result in progress(what, server.results(jobs), len(jobs)):
        mutants[result["id"]].status, mutants[result["id"]].by = result["status"], result["by"]
        if kept:
            kept.keep([mutants[result["id"]]])


def controls(mutants: list[Mutant]) -> list[Mutant]:
    """The same tests, without a fault."""
    asked = [m for m in mutants if m.tests]
    picked = random.Random(SEED).sample(asked, min(len(asked), max(1, round(CONTROLS * len(mutants)))))
    none = operators.Fault(-1, 0, (0, 0), "", "none", "")
    return [Mutant(m.room, m.module, none, "", m.tests) for m in picked]


def write_survivors(mutants: list[Mutant], save: bool) -> None:
    left = sorted((m for m in mutants if m.status == "survived"), key=lambda m: (m.room, m.module, m.fault.line))
    lines = [f"{m.told()}{'' if m.tests else '  [no test runs it]'}" for m in left]
    for place in [traced.KEPT / "survivors.txt", *([RESULTS / "mutants.survivors.txt"] if save else [])]:
        place.write_text("\n".join([*lines, ""]))


def main() -> None:
    args = options(__doc__)
    every = sized(args, 1000, 150, 4)
    rooms, files = modules(), asked_files()
    if args.smoke:
        rooms, files = {SMOKE[0]: rooms[SMOKE[0]]}, [SMOKE[1]]
    with Server() as server:
        mutants, tests = make(server, every, rooms, files)
        kept = Kept()
        new = [m for m in mutants if not kept.use(m)]
        say(f"mutants: {len(mutants)} faults in {len(rooms)} modules, {len(mutants) - len(new)} known from before")
        attempt(server, new, tests, "faults tried", kept)
        without = controls(mutants)
        attempt(server, without, tests, "tries without a fault")
    known = equivalents()
    same = [m for m in mutants if (m.module, m.fault.function, *operators.difference(m.fault.before, m.after)) in known]
    wrong = [m for m in same if m.status != "survived"]
    counted = [m for m in mutants if m not in same or m in wrong]
    write_survivors(counted, args.save)
    for m in wrong:
        say(f"mutants: {m.told()} stands in {EQUIVALENT.name}, but {m.by or m.status} saw it")
    values: dict[str, list[float]] = {"mutants_killed": [_killed(counted)]}
    for room in ROOMS:
        values[f"mutants_killed_{room}"] = [_killed(those)] if (those := [m for m in counted if m.room == room]) else []
    values["mutants_equivalent"] = [(len(mutants) - len(counted)) / len(mutants)]
    values["false_alarms"] = [float(sum(m.status != "survived" for m in without))]
    say(
        f"mutants: {dict(Counter(m.status for m in counted))}; "
        f"{sum(not m.tests for m in counted)} in lines that no test runs"
    )
    report("mutants", len(mutants), values, args)


def _killed(mutants: list[Mutant]) -> float:
    return sum(m.status != "survived" for m in mutants) / len(mutants)


if __name__ == "__main__":
    run(main)
