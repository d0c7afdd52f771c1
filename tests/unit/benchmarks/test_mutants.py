"""Test `benchmarks/mutants.py`: how faults are planted and drawn, which tests detect them, and what is kept."""

import json
import subprocess
import sys
import tomllib

import loadgen_mutants
import mutants
import pytest
from mutation import kills, operators, traced

import campaigns
from storelab.core import units

MODULE = '''
"""About."""
import os

LIMIT = 3


def kept(values: list[int], low: int = 0) -> int | None:
    """The sum of those above low."""
    if not values or low < 0:
        raise ValueError(f"{len(values)} values, from {low}")
    out = [v for v in values if v > low]
    out.sort(key=abs, reverse=True)
    return sum(out[:2]) + row["a"] - row["b"]


QUERY = "SELECT sum(x) FROM rows WHERE a <= b"
'''


def found(kind: str) -> set[tuple[str, str]]:
    """Return (before, after) of all faults of a kind."""
    every = [f for f in operators.faults(MODULE) if f.kind == kind]
    return {operators.difference(f.before, operators.planted(MODULE, f.number)[1], 99) for f in every}


SORT = "out.sort(key=abs, reverse=True)"
QUERY = "'SELECT sum(x) FROM rows WHERE a <= b'"
KINDS = {
    "comparison": {("low < 0", "low <= 0"), ("low < 0", "low >= 0"), ("v > low", "v >= low"), ("v > low", "v <= low")},
    "operand dropped": {("not values or low < 0", "not values"), ("not values or low < 0", "low < 0")},
    "condition dropped": {("for v in values if v > low", "for v in values")},
    "removed": {(SORT, "pass")},
    "keyword dropped": {(SORT, "out.sort(reverse=True)"), (SORT, "out.sort(key=abs)")},
    "slice": {(":2", ":")},
    "key": {("row['a']", "row['b']"), ("row['b']", "row['a']")},
    "other function": {("sum(out[:2])", "mean(out[:2])")},
    "SQL": {(QUERY, QUERY.replace("sum", "max")), (QUERY, QUERY.replace("<=", "<"))},
}


def test_each_kind_of_fault_changes_what_it_names() -> None:
    for kind, expected in KINDS.items():
        assert found(kind) == expected, kind


def test_constants_in_messages_get_no_fault() -> None:
    assert {before for before, _ in found("constant")} == {"3", "0", "2", "True"}
    assert not [f for f in operators.faults(MODULE) if "ValueError" in f.before or f.before == "'About.'"]


def test_fault_changes_one_line_of_the_module() -> None:
    plain = operators.ast.unparse(operators.ast.parse(MODULE)).splitlines()
    for fault in operators.faults(MODULE):
        changed = operators.ast.unparse(operators.planted(MODULE, fault.number)[0]).splitlines()
        assert sum(a != b for a, b in zip(plain, changed, strict=True)) == 1, fault


def test_lines_of_a_compound_statement_are_its_head() -> None:
    lines = {f.before: f.lines for f in operators.faults(MODULE)}
    assert lines["low < 0"] == (10, 10) and lines["v > low"] == (12, 12) and lines["3"] == (5, 5)


def test_shares_are_whole_and_fair() -> None:
    assert mutants.shares({"a": 70, "b": 20, "c": 10}, 10) == {"a": 7, "b": 2, "c": 1}
    some = mutants.shares({"a": 1, "b": 1, "c": 1}, 10)
    assert sum(some.values()) == 10 and set(some.values()) == {3, 4}


def test_a_larger_sample_begins_with_the_smaller_one() -> None:
    small, large = (mutants.sample("core/units.py", n) for n in (5, 20))
    assert large[:5] == small and len({f.line for f in small}) == 5 and len({f.number for f in large}) == 20


def test_modules_are_in_the_last_room_that_names_them() -> None:
    rooms = mutants.modules()
    assert set(rooms.values()) == set(mutants.ROOMS)
    expected = {
        "analysis/records/windows.py": "records",
        "analysis/tables/throughput.py": "verdicts",
        "cli/analysis.py": "cli",
    }
    expected |= {"engines/common/guard.py": "measuring", "engines/common/ledger.py": "engines"}
    assert {m: rooms.get(m) for m in expected} == expected
    assert not {"analysis/latex/__init__.py", *mutants.NEED_SERVERS} & set(rooms)


def test_files_are_asked_by_path() -> None:
    files = mutants.asked_files()
    assert "tests/unit/core/test_units.py" in files and not [f for f in files if "support/" in f or "snapshots" in f]
    assert traced.name("tests/unit/core/test_units.py") == "core.test_units"


@pytest.fixture
def traces() -> traced.Tests:
    """Return the traces of four tests: one is slow, two use a fixture of 3 s, one of these a campaign of 5 s."""
    tests = traced.Tests({})
    tests.cost = {"a.py::x": 0.5, "a.py::y": 0.1, "b.py::x": 0.2, "b.py::dear": 9.0}
    tests.wide = {"a.py::x": {"fixture f": 3.0, "campaign c": 5.0}, "a.py::y": {"fixture f": 3.0}}
    tests.wide |= {"b.py::x": {}, "b.py::dear": {}}
    tests.ran.update({t: {"m.py": 1} for t in tests.cost})
    tests.makes["m.py"][7] = {"campaign c"}
    return tests


def test_chosen_tests_fit_the_limit_file_by_file(traces) -> None:
    """Count a campaign only if making it runs the fault."""
    every, order = set(traces.cost), ["b.py::x", "a.py::y", "a.py::x"]
    assert traces.chosen(every, ["m.py"], set(), set(), 40, 8.0) == order
    assert list(traces.spent(order, set())) == pytest.approx([0.2, 3.3, 3.8])
    assert traces.chosen(every, ["m.py"], {"b.py::x"}, set(), 1, 8.0) == ["b.py::x"]
    assert traces.made("m.py", (8, 9)) == set() and traces.made("other.py", None) == {"campaign c"}
    made = traces.made("m.py", (6, 7))
    assert made == {"campaign c"} and traces.chosen(every, ["m.py"], set(), made, 40, 8.0) == order[:2]


def test_campaigns_with_a_fault_are_separate(tmp_path, monkeypatch) -> None:
    """Use a shared campaign if making it does not run the fault; otherwise make one in the folder of the process."""
    monkeypatch.setattr(campaigns, "_once", lambda folder, make: folder)
    monkeypatch.setattr(campaigns, "KEPT", tmp_path / "kept")
    shared = tmp_path / "kept" / campaigns.state()
    for name in ("plain", "faulty"):
        (shared / name).mkdir(parents=True)
    traced.own_campaigns(tmp_path / "own", {"campaign faulty"})
    own = tmp_path / "own"
    assert campaigns.built("plain") == shared / "plain"
    assert [campaigns.built(n) for n in ("faulty", "absent")] == [own / "campaign faulty", own / "campaign absent"]


KILLER = "tests/unit/core/test_units.py::test_human"


def mutant(number: int = 7, **known) -> mutants.Mutant:
    fault = operators.Fault(number, number, (number, number), "f()", "constant", str(number))
    return mutants.Mutant("records", "core/units.py", fault, "x", [KILLER], **known)


def test_results_stay_valid_while_files_do_not_change(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(traced, "ground", lambda: "ground")
    file, again = tmp_path / "kills.jsonl", mutant()
    mutants.Kept(file).keep(mutant(status="killed", killers=[KILLER]))
    assert mutants.Kept(file).use(again) and (again.status, again.killers) == ("killed", [KILLER])
    kept = mutants.Kept(file)
    kept.digests["tests/unit/core/test_units.py"] = "changed"
    assert not kept.use(mutant()), "the file of the killer changed"
    monkeypatch.setattr(traced, "ground", lambda: "other")
    assert not mutants.Kept(file).use(mutant()), "the package changed"


def test_two_samples_are_compared_fault_by_fault(tmp_path, capsys) -> None:
    """One of three faults is lost, one was never detected, one is only in the first sample."""
    for name, results in (
        ("before", [("killed", ["t::a[1]", "t::a[2]"]), ("survived", []), ("killed", ["t::a[1]", "t::b"])]),
        ("after", [("survived", []), ("survived", [])]),
    ):
        for n, (status, killers) in enumerate(results):
            mutants.Kept(tmp_path / name).keep(mutant(n, status=status, killers=killers))
    before, after = (kills.read(tmp_path / n) for n in ("before", "after"))
    assert kills.only(before) == {"t::a": ["core/units.py:0 f() (constant): 0 → x"]}
    assert kills.rooms(before) == {"records": (2, 3), "all": (2, 3)}
    assert [r["number"] for r in kills.lost(before, after)] == [0]
    kills.main(["compare", str(tmp_path / "before"), str(tmp_path / "after")])
    assert "before: 1 of 2 killed, 0.5000\nafter: 0 of 2 killed" in capsys.readouterr().out


@pytest.mark.heavy
def test_equivalent_faults_are_still_there() -> None:
    """Find each line of the list among the faults that can be planted today."""
    for module, function, before, after in mutants.equivalents():
        source = traced.path_of(module).read_text()
        like = [f for f in operators.faults(source) if f.function == function and before.strip("… ") in f.before]
        found = {operators.difference(f.before, operators.planted(source, f.number)[1]) for f in like}
        assert (before, after) in found, f"{module} {function}: {before} → {after}"


@pytest.mark.parametrize("size", [1000, 2000])
def test_sizes_are_shown(size) -> None:
    """Detect the fault that the next test plants."""
    assert units.human_size(size)


@pytest.mark.heavy
def test_server_names_the_tests_that_see_a_fault() -> None:
    """Try a fault with all tests until one detects it, with one that does not, without a fault, and without time."""
    every = operators.faults(traced.path_of("core/units.py").read_text())
    number = next(f.number for f in every if f.function == "human_size()" and f.kind == "returns None")
    file = "tests/unit/benchmarks/test_mutants.py"
    see = [f"{file}::test_sizes_are_shown[{n}]" for n in (1000, 2000)]
    other = [f"{file}::test_shares_are_whole_and_fair"]
    about = {"kind": "fault", "module": "core/units.py", "cpu_s": 60, "wall_s": 240, "made": []}
    cases = [(number, see + other, 3), (number, see + other, 0), (number, other, 0), (-1, see + other, 0)]
    jobs = [about | {"number": n, "tests": tests, "always": always} for n, tests, always in cases]
    jobs.append(about | {"number": number, "tests": see, "always": 0, "wall_s": 0})
    words = json.dumps([j | {"id": i} for i, j in enumerate(jobs)])
    server = [sys.executable, str(mutants.SERVER), "1"]
    done = subprocess.run(server, input=words, capture_output=True, text=True, check=True)
    results = {r["id"]: r for r in map(json.loads, done.stdout.splitlines())}
    assert [results[i]["status"] for i in range(5)] == ["killed", "killed", "survived", "survived", "time-out"]
    assert [results[i]["killers"] for i in range(4)] == [see, see[:1], [], []]


def test_faults_of_loadgen_still_have_their_places():
    """Find each line that the list quotes: one that changed would end the benchmark."""
    faults = tomllib.loads(loadgen_mutants.LIST.read_text())["fault"]
    assert len(faults) == 40
    for fault in faults:
        text = (loadgen_mutants.ROOT / "loadgen" / fault["file"]).read_text()
        assert loadgen_mutants.planted(text, fault) != text
