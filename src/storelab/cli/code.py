"""Which files of the package a target of Snakemake rests on: found from the imports, never typed as a list (room `cli`).

May import: nothing of storelab. Imports inside of functions count; those for type checkers do not.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def rests_on(*modules: str) -> list[str]:
    """Files that these modules (`storelab.analysis.tables.build`) load, themselves included, and the data that lie beside them.

    Paths are relative to the working folder where they lie below it, sorted. Raises KeyError for a module that is not there.
    """
    todo, found = [_file(m) for m in modules], set()
    if None in todo:
        raise KeyError(modules[todo.index(None)])
    while todo:
        if (path := todo.pop()) is None or path in found:
            continue
        found.add(path)
        todo += [*_packages(path), *_imports(path)]
    data = {d for p in found if p.name != "__init__.py" for d in p.parent.rglob("*.csv")}
    here = Path.cwd()
    return sorted(str(p.relative_to(here) if p.is_relative_to(here) else p) for p in found | data)


def _file(module: str) -> Path | None:
    """The file of a module of storelab; None where there is none of that name."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    return next((p for p in (place / "__init__.py", place.with_suffix(".py")) if p.is_file()), None)


def _packages(path: Path) -> Iterator[Path]:
    """The `__init__.py` that Python runs before it comes to this file."""
    for folder in path.parents:
        if not folder.is_relative_to(PACKAGE):
            return
        yield folder / "__init__.py"


@cache
def _imports(path: Path) -> list[Path | None]:
    out = []
    for node in _running(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Registry":
            out += [*path.parent.glob("*.py"), *path.parent.glob("*/__init__.py")]  # its modules are found, not imported
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "storelab":
            out += [_file(f"{node.module}.{name.name}") or _file(node.module) for name in node.names]
        elif isinstance(node, ast.Import):
            out += [_file(name.name) for name in node.names if name.name.partition(".")[0] == "storelab"]
    return out


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below `if TYPE_CHECKING:`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield from _running(child)
