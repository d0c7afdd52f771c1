"""The package `readplan` is separate: its wheel, its page, what it imports, and its deprecated name."""

import doctest
import json
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from paths import ROOT

import readplan

PACKAGE = ROOT / "src/readplan"
SAVINGS = json.loads((ROOT / "benchmarks/results/sparse.quick.json").read_text())["figures"]


def python(code: str, *options: str) -> str:
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_planner_needs_only_numpy():
    code = "import sys, readplan; print(*sorted({m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names))"
    found = set(python(code).split())
    assert {"numpy", "readplan"} <= found
    assert not found & {"storelab", "uproot", "obstore", "fsspec", "urllib3", "pyarrow", "pandas"}
    (needed,) = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["dependencies"]
    assert Requirement(needed).name == "numpy"


def test_package_has_its_public_names_only():
    assert {name for name in readplan.__all__ if getattr(readplan, name).__name__ == name} == {*readplan.__all__}
    with pytest.raises(AttributeError, match="Plan"):
        _ = readplan.Plan


def test_storelab_accepts_the_version_of_this_checkout():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = (Requirement(text) for text in project["dependencies"] if text.startswith("readplan"))
    assert wanted.specifier.contains(readplan.__version__)
    assert (PACKAGE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_wheel_has_all_modules_and_types(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PACKAGE, check=True, capture_output=True)
    (wheel,) = tmp_path.glob(f"readplan-{readplan.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = next(archive.read(n).decode() for n in archive.namelist() if n.endswith("METADATA"))
    assert inside == {f"readplan/{p.name}" for p in PACKAGE.glob("*.py")} | {"readplan/py.typed"}
    assert "Requires-Dist: numpy" in metadata and "# readplan" in metadata


def test_page_shows_what_happens():
    assert doctest.testfile(str(PACKAGE / "README.md"), module_relative=False) == (0, 9)


def test_page_has_measured_savings():
    page = (PACKAGE / "README.md").read_text()
    rows = re.findall(r"^\| .*entries \| ([\d.]+) \| ([\d.]+) \|$", page, flags=re.MULTILINE)
    names = [
        ("volume1_0ms_vs_uproot", "volume1_vs_uproot_20ms"),
        ("volume50_12_0ms_vs_uproot", "volume50_12_20ms_vs_uproot"),
        ("all_12_0ms_vs_uproot", "all_12_20ms_vs_uproot"),
    ]
    assert rows == [tuple(f"{SAVINGS[name]['median']:.1f}" for name in row) for row in names]
    for name, form in [
        ("volume1_20ms_amplification", "transfers {:.0f} times the needed bytes"),
        ("volume1_20ms_bounded_amplification", "`max_amplification=3`, {:.1f} times"),
        ("shared_link_vs_uproot", "read {:.1f} times as many selections"),
    ]:
        assert form.format(SAVINGS[name]["median"]) in " ".join(page.split())


def test_old_name_works_with_a_warning():
    code = "from storelab import readplan; print(readplan.plan.__module__); from storelab.readplan import Link"
    assert python(code, "-W", "ignore").split() == ["readplan.choose"]
    with pytest.raises(subprocess.CalledProcessError):
        python(code, "-W", "error::DeprecationWarning")
