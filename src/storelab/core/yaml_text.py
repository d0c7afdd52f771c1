"""Read YAML as users write it: a mistake is one line with its place.

Text that is not UTF-8, keys given twice, and numbers that YAML takes for others are refused. May import: `errors`.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from storelab.core.errors import UserError, shown

MAX_VALUES = 1_000_000  # of a file; a few lines of nested aliases stand for 10**9, and take minutes


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """A SafeLoader that refuses keys given twice, numbers that YAML 1.1 reads in another base, and endless aliases."""

    def __init__(self, text: str):
        super().__init__(text)
        self.values: dict[int, int] = {}  # id of a node -> values that it stands for, aliases followed

    def compose_node(self, parent: Any, index: Any) -> Any:
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.CollectionNode) and id(node) not in self.values:
            inside = (one for pair in node.value for one in (pair if isinstance(pair, tuple) else (pair,)))
            self.values[id(node)] = number = 1 + sum(self.values.get(id(one), 1) for one in inside)
            if number > MAX_VALUES:
                raise _mark(node, f"its aliases stand for {number} values", f"write at most {MAX_VALUES}")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                line, name = key.start_mark.line + 1, (key.tag, key.value)
                if name in lines:
                    raise _mark(
                        key, f"the key {shown(key.value)} is there twice, first in line {lines[name]}", "remove one"
                    )
                lines[name] = line
        return node


_OTHER_NUMBER = re.compile(r"[-+]?(?:0[0-9_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)")


def _number(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """A number, unless YAML 1.1 takes it for another one than is written: `010` for 8, `1:30` for 90."""
    construct = loader.construct_yaml_int if node.tag.endswith(":int") else loader.construct_yaml_float
    if _OTHER_NUMBER.fullmatch(node.value):
        mend = "write a time with its unit, such as 90 s" if ":" in node.value else "leave out the 0 in front"
        raise _mark(node, f"{shown(node.value)} is {construct(node)} to YAML", f"{mend}, or quote it if it is text")
    return construct(node)


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)


class _Refused(Exception):
    """What the loader refuses: line, problem, mend."""

    def __init__(self, line: int, problem: str, mend: str):
        super().__init__(problem)
        self.line, self.problem, self.mend = line, problem, mend


def _mark(where: Any, problem: str, mend: str) -> _Refused:
    return _Refused(where.start_mark.line + 1, problem, mend)


def parse(text: str, place: str, one_line: bool = False) -> Any:
    """What the text says. place: for errors; `one_line`: it has no line numbers worth telling. Raises UserError."""

    def at(line: int) -> str:
        return place if one_line else f"{place}, line {line}"

    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except _Refused as error:
        raise UserError(at(error.line), error.problem, error.mend) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(at(line), f"the character {chr(error.character)!r} is no text", "write plain text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "syntax"
        where = at(mark.line + 1) if mark else place
        raise UserError(where, f"is not YAML ({problem})", "write `key: value` lines; quote text with signs") from None
    except (ValueError, OverflowError, TypeError, AttributeError, LookupError) as error:  # of its numbers and dates
        said = str(error).partition(";")[0]
        raise UserError(place, f"holds a value that cannot be read ({said})", "quote it if it is text") from None
    except RecursionError:
        raise UserError(place, "is nested too deep", "close the brackets") from None


def read(path: Path) -> Any:
    """Return what a file holds. Raises UserError: it cannot be read, is not UTF-8, or is not YAML."""
    mend = "give the path of a YAML file"
    try:
        if path.exists() and not path.is_file():
            raise UserError(str(path), "cannot be read (it is no plain file)", mend)
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        raise UserError(shown_path(path), problem, mend) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        raise UserError(f"{path}, line {line}", problem, "save the file as UTF-8 text") from None
    return parse(text, str(path))


def shown_path(path: Path, most: int = 120) -> str:
    """A path in a message: cut where it is long."""
    text = str(path)
    return text if len(text) <= most else f"{text[: most - 1]}…"
