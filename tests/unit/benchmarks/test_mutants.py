"""Planted faults: each kind is planted as it should be, drawn evenly, and seen or not seen by a real test."""

import json
import subprocess
import sys
import tomllib

import loadgen_mutants
import mutants
import pytest
from mutation import operators, traced

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
    """(before, after) of all faults of a kind."""
    every = [f for f in operators.faults(MODULE) if f.kind == kind]
    return {operators.difference(f.before, operators.planted(MODULE, f.number)[1], 99) for f in every}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("comparison", {("low < 0", "low <= 0"), ("low < 0", "low >= 0"), ("v > low", "v >= low"), ("v > low", "v <= low")}),
        ("operand dropped", {("not values or low < 0", "not values"), ("not values or low < 0", "low < 0")}),
        ("condition dropped", {("for v in values if v > low", "for v in values")}),
        ("removed", {("out.sort(key=abs, reverse=True)", "pass")}),
        ("keyword dropped", {("out.sort(key=abs, reverse=True)", "out.sort(reverse=True)"), ("out.sort(key=abs, reverse=True)", "out.sort(key=abs)")}),
        ("slice", {(":2", ":")}),
        ("key", {("row['a']", "row['b']"), ("row['b']", "row['a']")}),
        ("other function", {("sum(out[:2])", "mean(out[:2])")}),
        ("SQL", {("'SELECT sum(x) FROM rows WHERE a <= b'", "'SELECT max(x) FROM rows WHERE a <= b'"), ("'SELECT sum(x) FROM rows WHERE a <= b'", "'SELECT sum(x) FROM rows WHERE a < b'")}),
    ],
)  # fmt: skip
def test_kinds_of_faults(kind, expected) -> None:
    assert found(kind) == expected


def test_constants_of_numbers_but_not_of_messages() -> None:
    assert {before for before, _ in found("constant")} == {"3", "0", "2", "True"}
    assert not [f for f in operators.faults(MODULE) if "ValueError" in f.before or f.before == "'About.'"]


def test_each_fault_changes_the_module_and_nothing_else() -> None:
    """As many differing lines as one statement has."""
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


def test_what_makes_numbers_is_drawn_from() -> None:
    rooms = mutants.modules()
    assert set(rooms.values()) == set(mutants.ROOMS)
    for module in (
        "analysis/records/windows.py",
        "core/plan/sweeps.py",
        "readplan/choose.py",
        "engines/common/guard.py",
    ):
        assert module in rooms
    assert rooms["analysis/tables/noise.py"] == "verdicts" and "analysis/latex/write.py" not in rooms


@pytest.mark.heavy
def test_equivalent_faults_are_still_there() -> None:
    """Each line of the list names a fault that can be planted today."""
    for module, function, before, after in mutants.equivalents():
        source = (traced.SOURCE / module).read_text()
        like = [f for f in operators.faults(source) if f.function == function and before.strip("… ") in f.before]
        told = {operators.difference(f.before, operators.planted(source, f.number)[1]) for f in like}
        assert (before, after) in told, f"{module} {function}: {before} → {after}"


@pytest.mark.heavy
def test_a_fault_is_seen_by_the_test_that_looks() -> None:
    """Through the server: a fault that a test sees, one that the chosen test does not, a try without a fault, and an endless one."""
    source = (traced.SOURCE / "core/units.py").read_text()
    number = next(
        f.number for f in operators.faults(source) if f.function == "human_size()" and f.kind == "returns None"
    )
    test, other = (
        "tests/unit/core/test_units.py::test_human",
        "tests/unit/core/test_units.py::test_the_mend_names_the_right_unit",
    )
    about = {"kind": "fault", "module": "core/units.py", "cpu_s": 60, "wall_s": 240}
    jobs = [
        about | {"id": 0, "number": number, "tests": [test]},
        about | {"id": 1, "number": number, "tests": [other]},
        about | {"id": 2, "number": -1, "tests": [test, other]},
        about | {"id": 3, "number": number, "tests": [test], "wall_s": 0},
    ]
    done = subprocess.run(
        [sys.executable, str(mutants.SERVER), "1"], input=json.dumps(jobs), capture_output=True, text=True, check=True
    )
    told = {r["id"]: r for r in map(json.loads, done.stdout.splitlines())}
    assert [told[i]["status"] for i in range(4)] == ["killed", "survived", "survived", "time-out"]
    assert told[0]["by"].startswith(test)


def test_faults_of_loadgen_still_have_their_places():
    """The list names lines of the engine by their words: a line that changed would end the benchmark."""
    faults = tomllib.loads(loadgen_mutants.LIST.read_text())["fault"]
    assert len(faults) == 40
    for fault in faults:
        text = (loadgen_mutants.ROOT / "loadgen" / fault["file"]).read_text()
        assert loadgen_mutants.planted(text, fault) != text
