"""The tests themselves: unit and real ones run in one process (`pytest`, heavy ones in `.ci/run`), and must not disturb each other."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_file_has_a_name_of_its_own():
    """Two of one name in different folders are one module to pytest, which then collects neither."""
    names = Counter(p.name for p in (ROOT / "tests").rglob("*.py") if p.name != "conftest.py")
    names.update(p.name for p in (ROOT / "benchmarks").glob("*.py"))
    assert not [name for name, count in names.items() if count > 1]


def test_what_unit_tests_change_ends_before_a_real_test():
    """A real test that runs behind a unit test would not find what is installed."""
    files = ("tests/unit/test_units.py", "tests/real/test_golang.py")
    argv = (sys.executable, "-m", "pytest", "--setup-plan", "-m", "", "-p", "no:cacheprovider", *files)
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    unit, real = said.split(files[1], 1)
    for name in ("as_on_a_new_machine", "undrawn"):
        assert f"SETUP    M {name}" in unit and f"TEARDOWN M {name}" in unit and name not in real
