"""What the modules of a folder declare with a decorator, found without importing them. May import: nothing of storelab.

`@FILE("table_noise", "noise")` above a function says: it makes `table_noise`, from what is called `noise`.
Names come from the text of the modules, so that Snakemake can ask for them fast; a module is imported when something of
it is made.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Declared:
    """One thing that a module makes: the module's dotted name, and the names of what the function takes."""

    module: str
    takes: tuple[str, ...]


class Registry:
    """The functions of a package below one decorator, by name. `decorator`: as it is written in the modules."""

    def __init__(self, package: str, decorator: str) -> None:
        self.package = package
        self._pattern = re.compile(rf"^@{decorator}\((.+)\)$", re.MULTILINE)
        self._functions: dict[str, Callable[..., Any]] = {}

    def __call__(self, name: str, *takes: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The decorator."""

        def keep(function: Callable[..., Any]) -> Callable[..., Any]:
            self._functions[name] = function
            return function

        return keep

    @cached_property
    def declared(self) -> dict[str, Declared]:
        """Name -> where it is declared, in the order of the modules' names; looked for once."""
        found = {}
        for folder in map(Path, import_module(self.package).__path__):
            for path in sorted((*folder.glob("*.py"), *folder.glob("*/*.py"))):
                parts = [p for p in path.relative_to(folder).with_suffix("").parts if p != "__init__"]
                for arguments in self._pattern.findall(path.read_text()):
                    name, *takes = ast.literal_eval(f"({arguments},)")
                    found[name] = Declared(".".join([self.package, *parts]), tuple(takes))
        return found

    def make(self, name: str, source: Mapping[str, Any]) -> Any:
        """What the function of this name gives for what it takes from `source`. Raises KeyError: not declared."""
        declared = self.declared[name]
        import_module(declared.module)
        return self._functions[name](*(source[taken] for taken in declared.takes))


class Made(Mapping[str, Any]):
    """What is known at first, and what registries make of it: each thing once, when it is first asked for."""

    def __init__(self, known: Mapping[str, Any], *registries: Registry) -> None:
        self._known = dict(known)
        self._makers = {name: registry for registry in registries for name in registry.declared}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._makers[name].make(name, self)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known | self._makers)

    def __len__(self) -> int:
        return len(self._known | self._makers)
