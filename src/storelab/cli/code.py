"""What a target of Snakemake rests on: found from the code itself, never typed as a list (room `cli`).

May import: `core`, the names of the figures' files, and their catalogue when somebody asks for a single figure. Imports
inside of functions count, those for type checkers do not. The Snakefile is read at every start, so no name is found by
loading pandas.
"""

import ast
import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from storelab.analysis.figures import KINDS
from storelab.analysis.parts import derived
from storelab.core.errors import UserError

PACKAGE = Path(__file__).parents[1]
TABLES, FIGURES, LATEX, TYPESET, REPORT, JOINED = (
    f"storelab.analysis.{name}"
    for name in ("tables.build", "figures.write", "latex.write", "latex.typeset", "report.build", "papers.write")
)
NO_DATA = (".py", ".pyc", ".md")
SHIPPED = PACKAGE / "project"  # of a wheel: for `storelab init` and `install`, read by no module


def rests_on(*modules: str, without: Iterable[str] = ()) -> list[str]:
    """Files that these modules (`storelab.analysis.tables.build`) load, themselves included, and the data beside them.

    The modules of `without` are left out, and what is loaded through them alone. Paths are sorted, and relative to the
    working folder where they lie below it. Raises KeyError for a module that is not there.
    """
    return _closure([_existing(m) for m in modules], {_existing(m) for m in without})


def notebook_code(notebook: Path) -> list[str]:
    """Files that the code cells of a notebook load, as `rests_on`."""
    cells = [cell["source"] for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    lines = [line for source in cells for line in "".join(source).splitlines() if not line.startswith("%")]
    return _closure(_imports_of("\n".join(lines)), set())


def _closure(todo: list[Path | None], barred: set[Path]) -> list[str]:
    found: set[Path] = set()
    while todo:
        if (path := todo.pop()) is None or path in found or path in barred:
            continue
        found.add(path)
        todo += [*_packages(path), *_imports(path)]
    data = {d for folder in {p.parent for p in found} for d in _data(folder)}
    here = Path.cwd()
    return sorted(str(p.relative_to(here) if p.is_relative_to(here) else p) for p in found | data)


def constant(module: str, name: str) -> tuple[str, ...]:
    """Names that a module finds without loading anything slow: `NAMES` of the tables, `TEX` of the paper."""
    return tuple(getattr(importlib.import_module(module), name))


def figure_code(plan: Mapping[str, Any], name: str) -> list[str]:
    """Files that one figure of a campaign rests on: its own modules, and what draws every figure; not what others own.

    Raises UserError where the campaign has no figure of that name.
    """
    from storelab.analysis.figures import catalogue

    names = catalogue.names(plan)
    if name not in names:
        raise UserError("figures", f"there is no figure {name!r}", f"one of {', '.join(names)}")
    return _code_of(name, names)


def _code_of(name: str, names: Iterable[str]) -> list[str]:
    """Files that the figure of this name, one of these, rests on."""
    from storelab.analysis.figures import catalogue

    own = catalogue.modules(name)
    others = {module for other in names for module in catalogue.modules(other)} - {*own}
    return sorted({*rests_on(*own), *rests_on(FIGURES, without=others)})


def stale_figures(campaign_dir: Path, plan: Mapping[str, Any], kinds: Iterable[str] = KINDS) -> list[str]:
    """Figures of a campaign that are missing, or older than the tables or than the code that they rest on. kinds: of
    the files that each has."""
    from storelab.analysis.figures import catalogue

    tables, names = _newest((campaign_dir / "tables").glob("*.csv")), catalogue.names(plan)

    def is_stale(name: str) -> bool:
        drawn = _oldest(campaign_dir / "figures", name, kinds)
        return drawn < tables or drawn < _newest(map(Path, _code_of(name, names)))

    return [name for name in names if is_stale(name)]


def _oldest(folder: Path, name: str, kinds: Iterable[str]) -> float:
    """When a figure was drawn, Unix seconds; 0 where a file is not as it was drawn. One without data has its `.json`
    alone."""
    mark = folder / f"{name}.json"
    if not derived.is_whole(mark, kinds):
        return 0.0
    kinds = () if derived.figure(mark)["empty"] else kinds
    return min(p.stat().st_mtime for p in (mark, *(folder / f"{name}.{kind}" for kind in kinds)))


def _newest(paths: Iterable[Path]) -> float:
    return max((p.stat().st_mtime for p in paths), default=0.0)


def _existing(module: str) -> Path:
    if (path := _file(module)) is None:
        raise KeyError(module)
    return path


@cache
def _file(module: str) -> Path | None:
    """The file of a module of storelab; None where there is none of that name."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    return next((p for p in (place / "__init__.py", place.with_suffix(".py")) if p.is_file()), None)


@cache
def _packages(path: Path) -> list[Path]:
    """The `__init__.py` that Python runs before it comes to this file."""
    return [folder / "__init__.py" for folder in path.parents if folder.is_relative_to(PACKAGE)]


@cache
def _data(folder: Path) -> list[Path]:
    """What lies in a package and is no code: files of its folder, and of folders in it that hold no module."""
    inside = [d for d in folder.iterdir() if d.is_dir() and d.name != "__pycache__" and d != SHIPPED]
    below = [d for d in inside if not any(d.rglob("*.py"))]
    files = [f for place in (folder.iterdir(), *(d.rglob("*") for d in below)) for f in place]
    return [f for f in files if f.is_file() and f.suffix not in NO_DATA]


@cache
def _imports(path: Path) -> list[Path | None]:
    text = path.read_text()
    registry = [*path.parent.glob("*.py"), *path.parent.glob("*/*.py")]  # its modules are found, not imported
    marks = ("(Registry(__name__", "_FOUND = (", 'import_module(f"{__name__}.')
    return _imports_of(text) + (registry if any(mark in text for mark in marks) else [])


def _imports_of(text: str) -> list[Path | None]:
    out = []
    for node in _running(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "storelab":
            out += [_file(f"{node.module}.{name.name}") or _file(node.module) for name in node.names]
        elif isinstance(node, ast.Import):
            out += [_file(name.name) for name in node.names if name.name.partition(".")[0] == "storelab"]
    return out


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All statements but those below `if TYPE_CHECKING:`. No import is inside of an expression, and most nodes are."""
    yield node
    for child in ast.iter_child_nodes(node):
        typed = isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"
        if not (typed or isinstance(child, ast.expr)):
            yield from _running(child)
