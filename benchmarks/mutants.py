"""Plant faults (small random changes of the code) and count those that a unit test detects.

`mutants_killed` is the share of faults for which a unit test fails, without those that change nothing. A fault in a
line that no test runs counts as survived. `.storelab/mutants/survivors.txt` lists the survivors with place, before and
after (with `--save` also `results/mutants.survivors.txt`). `.storelab/mutants/kills.jsonl` has one line for each fault,
with every test that detects it (with `--quick` only the first); `mutation/kills.py` reads it. mutation/equivalent.txt
lists the faults that change nothing, with the reason. `false_alarms`: how many of the same tries failed without a
fault.
"""

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, options, report, run, say, sized
from mutation import operators, traced

SEED = 20150413
WORKERS = 2
WORST = 10  # number of modules that the output names
MAX_TESTS, MAX_CPU_S = 40, 8.0  # for one fault
AFTER_KILL_CPU_S = 2.0  # the first tests, up to this sum, run even after one has detected the fault
CONTROLS = 0.02  # number of tries without a fault for each try with a fault
SERVER = Path(__file__).parent / "mutation" / "server.py"
EQUIVALENT = Path(__file__).parent / "mutation" / "equivalent.txt"
ROOMS = {  # paths below src/storelab, or below src for readplan; a module belongs to the last room that names it
    "engines": ("engines/*",),
    "gang": ("gang/*",),
    "workloads": ("workloads/*",),
    "stores": ("stores/*",),
    "cli": ("cli/*",),
    "install": ("install/*", "host/*"),
    "measure": ("measure/*",),
    # Modules that compute or judge numbers:
    "records": ("core/records.py", "core/units.py", "core/clock.py", "stores/base.py", "analysis/records/*"),
    "statistics": ("analysis/statistics/*",),
    "tables": ("analysis/tables/*", "analysis/parts/*", "analysis/sizing.py"),
    "verdicts": ("analysis/tables/verdicts.py", "analysis/tables/claims.py", "analysis/tables/throughput.py"),
    "compare": ("analysis/compare.py",),
    "plan": ("core/plan/*", "core/model.py", "core/axes/*", "core/campaign/*", "measure/plan_file.py"),
    "calibration": ("core/calibration.py", "workloads/calibrate.py"),
    "readplan": ("readplan/[clst]*.py",),
    "decoding": ("datasets/root/[bdhprs]*.py",),
    "measuring": (
        *(
            "engines/common/[bgw]*.py",
            *("engines/common/objects.py", "engines/common/selections.py", "engines/common/timing.py"),
            "measure/check*.py",
            "measure/record.py",
        ),
        *("gang/nodes.py", "host/monitor.py", "workloads/reading/*", "engines/s5cmd.py"),
    ),
}
NEED_SERVERS = (  # most of their lines run only with a server: not in the room `stores`
    *("stores/ceph/admin.py", "stores/ceph/store.py"),
    *("stores/hdfs/install.py", "stores/hdfs/store.py", "stores/managed/network.py"),
    *("stores/minio.py", "stores/nginx.py", "stores/nullserver.py", "stores/protocols/web*.py"),
    *("stores/versitygw.py", "stores/xrootd/store.py"),
)
# Tests that compare with earlier output, look at pictures and pages, or test the benchmarks and the tests.
EXCLUDED_TESTS = (  # paths below tests/unit
    *("analysis/test_snapshots", "analysis/figures/test_figures", "analysis/figures/test_pictures"),
    *("analysis/latex/test_latex", "cli/test_dag", "repository/test_architecture", "repository/test_docs"),
    *("repository/test_environments", "benchmarks/test_mutants", "benchmarks/test_common", "support/*"),
)
SMOKE = ("core/units.py", "tests/unit/core/test_units.py")


@dataclass
class Mutant:
    """A fault in a module, or none (number -1), with the tests to run and their result."""

    room: str
    module: str
    fault: operators.Fault
    after: str
    tests: list[str]
    status: str = "survived"
    killers: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.module}:{self.fault.line}"

    def described(self) -> str:
        before, after = operators.difference(self.fault.before, self.after)
        return f"{self.place} {self.fault.function} ({self.fault.kind}): {before} → {after}"


def room_of(module: str) -> str | None:
    """Return the last room that contains the module, or None if none of its faults is drawn."""
    if any(fnmatch(module, p) for p in NEED_SERVERS):
        return None
    found = [r for r, patterns in ROOMS.items() if any(fnmatch(module, p) for p in patterns)]
    return found[-1] if found else None


def modules() -> dict[str, str]:
    """Return the modules of all rooms: module -> room."""
    return {m: room for m in map(traced.module_of, traced.sources()) if (room := room_of(m))}


@cache
def faults(module: str) -> list[operators.Fault]:
    return operators.faults(traced.path_of(module).read_text())


def sample(module: str, wanted: int) -> list[operators.Fault]:
    """Return `wanted` faults of a module, on different lines as far as possible.

    A smaller sample is the beginning of a larger one.
    """
    rng = random.Random(f"{SEED} {module}")
    by_line = defaultdict(list)
    for fault in faults(module):
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
    """Divide `every` faults among modules in proportion to their sizes, by the largest remainder."""
    total = sum(sizes.values())
    exact = {m: every * n / total for m, n in sizes.items()}
    out = {m: int(e) for m, e in exact.items()}
    for m in sorted(exact, key=lambda m: (out[m] - exact[m], m))[: every - sum(out.values())]:
        out[m] += 1
    return out


def drawn(rooms: dict[str, str], every: int) -> Iterator[tuple[str, operators.Fault]]:
    sizes = {m: len({f.line for f in faults(m)}) for m in rooms}
    for module, wanted in shares(sizes, every).items():
        yield from ((module, fault) for fault in sample(module, wanted))


class Server:
    """A running `mutation/server.py`, which ends with the block, together with its children."""

    def __enter__(self) -> "Server":
        command = [sys.executable, str(SERVER), str(WORKERS)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, cwd=ROOT, **pipes)
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error:
            self.process.terminate()
        self.process.communicate()

    def results(self, jobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the results of jobs in the order in which they end."""
        self.process.stdin.write(json.dumps(jobs) + "\n")
        self.process.stdin.flush()
        for _ in jobs:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"mutants: the server ended with {self.process.wait()}")
            yield json.loads(line)


def progress(what: str, results: Iterable[dict[str, Any]], every: int) -> Iterator[dict[str, Any]]:
    begun = reported = time.monotonic()
    killed = 0
    for n, result in enumerate(results, 1):
        yield result
        killed += result["status"] != "survived"
        if time.monotonic() - reported > 15 or n == every:
            reported = time.monotonic()
            left = (reported - begun) / n * (every - n) / 60
            say(
                f"mutants: {n} of {every} {what}, {left:.1f} min left"
                + (f", {killed} killed" if "faults" in what else "")
            )


def known_tests(server: Server, files: list[str]) -> traced.Tests:
    """Return the lines that each test in the files runs: kept from an earlier trace, or traced now."""
    traced.KEPT.mkdir(parents=True, exist_ok=True)
    ground = traced.ground()
    places = {f: traced.KEPT / f"{traced.name(f)}-{ground[:12]}-{traced.digest(ROOT / f)[:12]}.json" for f in files}
    jobs = [
        {"id": f, "kind": "trace", "file": f, "out": str(p), "cpu_s": 900, "wall_s": 3000}
        for f, p in places.items()
        if not p.exists()
    ]
    for result in progress("files of tests traced", server.results(jobs), len(jobs)):
        if not places[result["id"]].exists():
            raise SystemExit(f"mutants: {result['id']} was not traced: {result['status']}")
    names = {traced.name(f) for f in files}
    for old in traced.KEPT.glob("*-*-*"):
        if old.with_suffix(".json") not in places.values() and old.name.partition("-")[0] in names:
            old.unlink()
    return traced.Tests(places)


def asked_files() -> list[str]:
    files = sorted(traced.UNIT.rglob("test_*.py"))
    names = {str(p.relative_to(ROOT)): str(p.relative_to(traced.UNIT).with_suffix("")) for p in files}
    return [file for file, name in names.items() if not any(fnmatch(name, n) for n in EXCLUDED_TESTS)]


def choose(tests: traced.Tests, module: str, fault: operators.Fault) -> list[str]:
    """Return tests that run the line of a fault.

    For a line that runs on import, they are the tests whose file imports the module, then those that run the module. If
    the module has only such lines, the latter are those that run the modules that import it.
    """
    made = tests.made(module, None if fault.on_import else fault.lines)
    if not fault.on_import:
        return tests.chosen(tests.of_lines(module, *fault.lines), [module], set(), made, MAX_TESTS, MAX_CPU_S)
    direct = tests.of_files(importers(module, "tests/unit"))
    users = [module] if tests.of_module(module) else importers(module, "src")
    every = direct.union(*map(tests.of_module, users))
    return tests.chosen(every, users, direct, made, 4 * MAX_TESTS, MAX_CPU_S)


@cache
def importers(module: str, below: str) -> list[str]:
    """Return the files that import a module, or the package whose content it is."""
    name = traced.dotted(module)
    names = [name, name.rpartition(".")[0]] if name.count(".") > 2 else [name]
    patterns = [
        rf"\b{re.escape(n)}\b|from {re.escape(n.rpartition('.')[0])} import .*\b{n.rpartition('.')[2]}\b" for n in names
    ]
    found = [p for p in sorted((ROOT / below).rglob("*.py")) if re.search("|".join(patterns), p.read_text())]
    where = [traced.module_of(p) if p.is_relative_to(ROOT / "src") else str(p.relative_to(ROOT)) for p in found]
    return [w for w in where if w != module]


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """Return the listed faults that change nothing: (module, function, before, after) -> reason."""
    out = {}
    for line in EQUIVALENT.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            module, function, before, after, reason = line.split(" | ", 4)
            out[module, function, before, after] = reason
    return out


def make(server: Server, every: int, rooms: dict[str, str], files: list[str]) -> tuple[list[Mutant], traced.Tests]:
    tests = known_tests(server, files)
    for test in tests.failed:
        say(f"mutants: {test} fails or is skipped without a fault: it is not used")
    out = []
    for module, fault in drawn(rooms, every):
        _, after = operators.planted(traced.path_of(module).read_text(), fault.number)
        out.append(Mutant(rooms[module], module, fault, after, choose(tests, module, fault)))
    return out, tests


class Kept:
    """Results of earlier runs, one line of JSON for each fault.

    A result is valid while the package, the shared parts and the files of its tests stay as they are.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.ground = file, traced.ground()
        lines = file.read_text().splitlines() if file.exists() else []
        found = [r for r in map(json.loads, lines) if r["ground"] == self.ground]
        self.results = {(r["module"], r["number"]): r for r in found}
        self.digests: dict[str, str] = {}

    def _digest(self, test: str) -> str:
        file = test.partition("::")[0]
        if file not in self.digests:
            self.digests[file] = traced.digest(ROOT / file) if (ROOT / file).exists() else ""
        return self.digests[file]

    def _asked(self, mutant: Mutant) -> str:
        return traced.digest_of(*(f"{t} {self._digest(t)}" for t in mutant.tests))

    def use(self, mutant: Mutant) -> bool:
        """Return whether the result is known: killed by tests that have not changed, or survived the same tests."""
        old = self.results.get((mutant.module, mutant.fault.number))
        if not old:
            return False
        killers = [k for k in old["killers"] if self._digest(k) == old["digests"][k.partition("::")[0]]]
        if not killers and old["asked"] != self._asked(mutant):
            return False
        mutant.status, mutant.killers = old["status"], killers
        return True

    def keep(self, m: Mutant) -> None:
        before, after = operators.difference(m.fault.before, m.after)
        about = {"room": m.room, "module": m.module, "line": m.fault.line, "function": m.fault.function}
        about |= {"kind": m.fault.kind, "before": before, "after": after, "status": m.status, "killers": m.killers}
        about |= {"number": m.fault.number, "tests": len(m.tests), "ground": self.ground, "asked": self._asked(m)}
        digests = {file: self._digest(file) for file in {k.partition("::")[0] for k in m.killers}}
        with self.file.open("a") as out:
            out.write(json.dumps(about | {"digests": digests}, ensure_ascii=False) + "\n")


def job(mutant: Mutant, tests: traced.Tests, name: int, first: bool) -> dict[str, Any]:
    """Return the job for the server. A fault is killed after 10 s plus twice the CPU time of its tests."""
    made = tests.made(mutant.module, None if mutant.fault.on_import else mutant.fault.lines)
    spent = list(tests.spent(mutant.tests, made))
    cpu_s = 10 + 2 * spent[-1]
    wall_s = 20 + 2 * cpu_s + 2 * sum(tests.wall[t] for t in mutant.tests)
    always = 0 if first else sum(s <= AFTER_KILL_CPU_S for s in spent)
    about = {"module": mutant.module, "number": mutant.fault.number, "tests": mutant.tests, "always": always}
    about["made"] = sorted(made & {f for t in mutant.tests for f in tests.wide[t]})
    return about | {"id": name, "kind": "fault", "cpu_s": cpu_s, "wall_s": wall_s}


def attempt(
    server: Server,
    mutants: list[Mutant],
    tests: traced.Tests,
    what: str,
    first: bool = True,
    keep: Callable[[Mutant], None] = lambda _: None,
) -> None:
    """Fill in status and killers, in a seeded order, so that an interrupted run keeps a fair sample.

    first: stop at the first test that fails.
    """
    order = random.Random(SEED).sample(range(len(mutants)), len(mutants))
    jobs = [job(mutants[i], tests, i, first) for i in order if mutants[i].tests]
    untested = [n for n, i in enumerate(order) if not mutants[i].tests]
    place = {i: n for n, i in enumerate(order)}
    for result in progress(what, server.results(jobs), len(jobs)):
        mutant = mutants[result["id"]]
        mutant.status, mutant.killers = result["status"], result["killers"]
        while untested and untested[0] < place[result["id"]]:
            keep(mutants[order[untested.pop(0)]])
        keep(mutant)
    for n in untested:
        keep(mutants[order[n]])


def controls(mutants: list[Mutant]) -> list[Mutant]:
    """Return a sample of the tries, with the same tests, but without a fault."""
    asked = [m for m in mutants if m.tests]
    picked = random.Random(SEED).sample(asked, min(len(asked), max(1, round(CONTROLS * len(mutants)))))
    none = operators.Fault(-1, 0, (0, 0), "", "none", "")
    return [Mutant(m.room, m.module, none, "", m.tests) for m in picked]


def write_survivors(mutants: list[Mutant], save: bool) -> None:
    left = sorted((m for m in mutants if m.status == "survived"), key=lambda m: (m.room, m.module, m.fault.line))
    lines = [f"{m.described()}{'' if m.tests else '  [no test runs it]'}" for m in left]
    for place in [traced.KEPT / "survivors.txt", *([RESULTS / "mutants.survivors.txt"] if save else [])]:
        place.write_text("\n".join([*lines, ""]))


def main() -> None:
    args = options(__doc__)
    every = sized(args, 1500, 150, 4)
    rooms, files = modules(), asked_files()
    if args.smoke:
        rooms, files = {SMOKE[0]: rooms[SMOKE[0]]}, [SMOKE[1]]
    with Server() as server:
        mutants, tests = make(server, every, rooms, files)
        kept = Kept(traced.KEPT / "kills.jsonl")
        new = [m for m in mutants if not kept.use(m)]
        say(f"mutants: {len(mutants)} faults in {len(rooms)} modules, {len(mutants) - len(new)} known from before")
        attempt(server, new, tests, "faults tried", args.quick, kept.keep)
        without = controls(mutants)
        attempt(server, without, tests, "tries without a fault")
    known = equivalents()
    same = [m for m in mutants if (m.module, m.fault.function, *operators.difference(m.fault.before, m.after)) in known]
    wrong = [m for m in same if m.status != "survived"]
    counted = [m for m in mutants if m not in same or m in wrong]
    write_survivors(counted, args.save)
    for m in wrong:
        say(f"mutants: {m.described()} is listed in {EQUIVALENT.name}, but {m.killers or m.status} detected it")
    values: dict[str, list[float]] = {"mutants_killed": [_killed(counted)]}
    for room in ROOMS:
        values[f"mutants_killed_{room}"] = [_killed(those)] if (those := [m for m in counted if m.room == room]) else []
    values["mutants_equivalent"] = [(len(mutants) - len(counted)) / len(mutants)]
    values["false_alarms"] = [float(sum(m.status != "survived" for m in without))]
    worst = Counter(m.module for m in counted if m.status == "survived").most_common(WORST)
    for module, left in worst:
        say(f"mutants: {left} of {sum(m.module == module for m in counted)} faults survived in {module}")
    say(
        f"mutants: {dict(Counter(m.status for m in counted))}; "
        f"{sum(not m.tests for m in counted)} in lines that no test runs"
    )
    report("mutants", len(mutants), values, args)


def _killed(mutants: list[Mutant]) -> float:
    return sum(m.status != "survived" for m in mutants) / len(mutants)


if __name__ == "__main__":
    run(main)
