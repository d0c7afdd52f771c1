"""The house: a room imports only rooms that stand below it, nothing reaches over the cut, nothing goes round in circles."""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from paths import ROOT

SOURCE = ROOT / "src" / "storelab"
ROOMS = (
    "cli",
    "measure",
    "gang",
    "workloads",
    "engines",
    "stores",
    "install",
    "host",
    "datasets",
    "readplan",
    "analysis",
    "core",
)
BELOW = {room: set(ROOMS[i + 1 :]) - {"analysis"} for i, room in enumerate(ROOMS)} | {
    "cli": set(ROOMS[1:]),
    "analysis": {"core"},
    "readplan": set(),
}
# Subjects, from the top: a folder of the analysis imports only those behind it.
ANALYSIS = (
    *("artefact", "papers", "explore", "report", "latex", "figures", "compare", "tables", "parts", "records"),
    "statistics",
)
MODULES = sorted(p for p in SOURCE.rglob("*.py") if p.name != "__main__.py")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


NAMES = {name_of(p): p for p in MODULES}


def imports(path: Path) -> set[str]:
    """Modules of storelab that a module imports, also inside of functions, but not those for type checkers alone."""
    out = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "storelab":
            base = node.module.removeprefix("storelab").lstrip(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".lstrip(".")
                out.add(full if full in NAMES else base)
        elif isinstance(node, ast.Import):
            out.update(a.name.removeprefix("storelab.") for a in node.names if a.name.startswith("storelab."))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # no import is inside of one, and most nodes are
                visit(child)

    visit(ast.parse(path.read_text()))
    return out - {""}


@cache
def all_imports() -> dict[str, set[str]]:
    """Of every module; found when a test asks, for each worker of pytest reads this file."""
    return {name: imports(path) for name, path in NAMES.items()}


def room(name: str) -> str:
    return name.partition(".")[0]


def test_the_rooms_are_those_of_the_plan():
    assert sorted(p.name for p in SOURCE.iterdir() if not p.name.startswith("__")) == sorted(ROOMS)


@pytest.mark.parametrize("name", [n for n in NAMES if n])
def test_no_import_climbs(name):
    others = {room(there) for there in all_imports()[name]} - {room(name)}
    assert others <= BELOW[room(name)], f"{name} imports {sorted(others - BELOW[room(name)])}"


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("analysis.") and n.split(".")[1] in ANALYSIS])
def test_no_import_climbs_in_the_analysis(name):
    here = name.split(".")[1]
    there = {i.split(".")[1] for i in all_imports()[name] if i.startswith("analysis.") and "." in i} - {here}
    assert there <= set(ANALYSIS[ANALYSIS.index(here) + 1 :])


def test_no_module_goes_round_in_circles():
    graph = defaultdict(set, {n: {i for i in there if i != n} for n, there in all_imports().items()})
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_each_room_says_what_lives_there():
    silent = [
        str(p.relative_to(SOURCE))
        for p in MODULES
        if p.name == "__init__.py" and "May import" not in (ast.get_docstring(ast.parse(p.read_text())) or "")
    ]
    assert not [s for s in silent if s != "__init__.py"], (
        "a room's __init__ says what lives there and what it may import"
    )


def test_rooms_are_not_crowded():
    assert not {str(p.relative_to(SOURCE)): n for p in MODULES if (n := len(p.read_text().splitlines())) > 320}
    folders = [SOURCE, *(d for d in SOURCE.rglob("*") if d.is_dir() and d.name != "__pycache__")]
    crowded = {str(d): n for d in folders if (n := sum(1 for e in d.iterdir() if e.name != "__pycache__")) > 18}
    assert not crowded


def test_no_line_is_longer_than_120_characters():
    long = [
        f"{name}: {len(line)}"
        for name, path in NAMES.items()
        for line in path.read_text().splitlines()
        if len(line) > 120
    ]
    assert not long


def test_docs_name_files_that_are_there():
    """A page that names a module of a house that stood once sends its reader astray."""
    root = SOURCE.parents[1]
    pages = [*root.glob("docs/**/*.md"), *root.glob("*.md"), *root.glob("paper/**/*.tex")]
    named = re.compile(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`|src/storelab/([a-z_0-9/]+(?:\.py)?)")
    gone = []
    for page in (p for p in pages if p.name not in ("CHANGELOG.md", "extending.md")):  # the latter adds files
        for found in named.finditer(page.read_text()):
            place = next(filter(None, found.groups()))
            if place.split("/")[0] in ROOMS and not (SOURCE / place).exists():
                gone.append(f"{page.relative_to(root)}: {place}")
    assert not gone


def test_docstrings_name_modules_that_are_there():
    """A `May import` of a house that stood once, and files that moved."""
    gone = []
    for name, path in NAMES.items():
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        for place in re.findall(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.py)`", about):
            if not any((folder / place).exists() for folder in (SOURCE, SOURCE.parents[1], *path.parents)):
                gone.append(f"{name}: {place}")
        said = " ".join(re.findall(r"May import:?(.*?)(?:\.\s|\Z)", " ".join(about.split())))
        for place in re.findall(r"`([a-z_0-9.]+)`", said):
            if not any(f".{known}".endswith(f".{place}") for known in NAMES):
                gone.append(f"{name}: May import {place}")
    assert not gone


# Programs that may outlive the process that starts them, and why.
OUTLIVE = {
    "stores/managed/daemons.py": "a store is up until `down`",
    "stores/hdfs/store.py": "a name space that is half made is none: `down` finds who makes it by its log",
    "gang/testbed/pool.py": "a testbed is up until `down`",
    "install/debian.py": "a file that forbids services must go again",
    "analysis/latex/typeset.py": "the analysis knows no host; LaTeX ends by itself",
}


def outliving(tree: ast.AST) -> list[int]:
    """Lines that start a program which lives on when its parent is killed."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen", "subprocess.check_output", "os.system")
        and "die_with_parent" not in ast.unparse(node)
        and "_mortal" not in ast.unparse(node)
        and (
            not isinstance(node.args[0], ast.Name) or node.args[0].id != "command" or "_mortal" not in ast.unparse(tree)
        )
    ]


def test_a_program_ends_with_the_process_that_started_it():
    """Not where storelab was killed with -9 alone: a program may hold keys, or write to a store."""
    found = {str(p.relative_to(SOURCE)): lines for p in MODULES if (lines := outliving(ast.parse(p.read_text())))}
    assert {name: found[name] for name in found if name not in OUTLIVE} == {}
    assert set(OUTLIVE) <= set(found), "an exception that is none"
    assert outliving(ast.parse("subprocess.run(['a'])")) == [1]
    assert outliving(ast.parse("subprocess.run(['a'], preexec_fn=die_with_parent())")) == []
