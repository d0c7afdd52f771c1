"""Imports point downwards, and nothing reaches over the cut between measuring and analysis."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "storelab"
MEASURING = {
    "measure",
    "monitor",
    "proc",
    "scratch",
    "stage",
    "check",
    "check_axes",
    "doctor",
    "plan_file",
    "upload",
    "uploads",
    "install",
    "testbed",
    "gang",
    "workloads",
    "engines",
    "datasets",
    "readplan",
    "rootio",
    "stores",
    "probing",
}
SHARED = {"records", "plan", "calibration", "config", "config_types", "store_settings", "environment", "model", "units", "clock"}
TOP = {"cli", "workflow", "__main__"}
LEVEL_0 = {"model", "units", "clock"}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Rooms of storelab that a module imports, also inside of functions."""
    out = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "storelab" else [f"storelab.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        out |= {n.split(".")[1] for n in names if n.startswith("storelab.")}
    return out


MODULES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports(path):
    here, there = room(path), imports(path) - {"__version__"}
    if here in TOP:
        return
    assert not there & TOP, "only the top level imports the CLI"
    if here in LEVEL_0:
        assert there <= LEVEL_0
    elif here in SHARED:
        assert there <= SHARED
    elif here in MEASURING:
        assert there <= MEASURING | SHARED, "the measuring side does not import the analysis"
    else:
        assert not there & MEASURING, "the analysis does not import the measuring side"


def test_rooms_are_not_crowded():
    assert not {str(p.relative_to(SOURCE)): n for p in MODULES if (n := len(p.read_text().splitlines())) > 320}
