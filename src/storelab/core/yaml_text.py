"""Read YAML that users wrote. Errors are reported on one line with their place.

Text that is not UTF-8, duplicate keys, ambiguous numbers, and aliases that form a loop or very long values are
rejected.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from storelab.core.errors import UserError, shown

MAX_BYTES = 10_000_000  # maximum size of a file, and of its values after aliases are replaced


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """A SafeLoader that rejects duplicate keys, and numbers that YAML 1.1 reads in another base."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                line, name = key.start_mark.line + 1, (key.tag, key.value)
                if name in lines:
                    raise _mark(
                        key,
                        f"the key {shown(key.value)} occurs twice, first on line {lines[name]}",
                        "remove one of them",
                    )
                lines[name] = line
        return node


_OTHER_NUMBER = re.compile(r"[-+]?(?:0[0-9_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)")


def _number(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """Return a number. Reject it if YAML 1.1 reads another value than was written: `010` as 8, `1:30` as 90."""
    construct = loader.construct_yaml_int if node.tag.endswith(":int") else loader.construct_yaml_float
    if _OTHER_NUMBER.fullmatch(node.value):
        hint = "write a time with its unit, such as 90 s" if ":" in node.value else "omit the leading 0"
        problem = f"YAML reads {shown(node.value)} as {construct(node)}"
        raise _mark(node, problem, f"{hint}, or quote it if it is text")
    return construct(node)


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)


class _Refused(Exception):
    """The loader rejects a text, with line, problem and hint."""

    def __init__(self, line: int, problem: str, hint: str):
        super().__init__(problem)
        self.line, self.problem, self.hint = line, problem, hint


def _mark(where: Any, problem: str, hint: str) -> _Refused:
    return _Refused(where.start_mark.line + 1, problem, hint)


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of characters of a node after aliases are replaced. known: those of other nodes, by id.

    Raises _Refused if the node contains itself or is too long, because other modules copy and print the values.
    """
    if isinstance(node, yaml.ScalarNode):
        return len(node.value) + 1
    if id(node) in known:
        if not known[id(node)]:
            raise _mark(node, "an alias refers to a value that contains it", "write the value without an alias")
        return known[id(node)]
    known[id(node)] = 0  # marks a node that is being expanded
    pairs = node.value if isinstance(node, yaml.MappingNode) else [(value,) for value in node.value]
    total = 1 + sum(_expanded(value, known) for pair in pairs for value in pair)
    if total > MAX_BYTES:
        raise _mark(node, f"aliases expand to more than {MAX_BYTES // 10**6} MB", "use fewer aliases of aliases")
    known[id(node)] = total
    return total


def parse(text: str, place: str, one_line: bool = False) -> Any:
    """Return the value of a YAML text. Raises UserError.

    place: the place for errors; one_line: True to omit line numbers in errors.
    """

    def at(line: int) -> str:
        return place if one_line else f"{place}, line {line}"

    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _expanded(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except _Refused as error:
        raise UserError(at(error.line), error.problem, error.hint) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(
            at(line), f"the character {chr(error.character)!r} is not allowed in text", "write plain text"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "syntax"
        where = at(mark.line + 1) if mark else place
        problem = f"the text is not valid YAML ({problem})"
        raise UserError(where, problem, "write `key: value` lines; quote text with special characters") from None
    # raised by pyyaml for wrong numbers and dates
    except (ValueError, OverflowError, TypeError, AttributeError, LookupError) as error:
        message = str(error).partition(";")[0]
        raise UserError(place, f"a value cannot be read ({message})", "quote it if it is text") from None
    except RecursionError:
        raise UserError(place, "the text is nested too deeply", "check that all brackets are closed") from None


def read(path: Path) -> Any:
    """Return the content of a YAML file. Raises UserError if it cannot be read, is not UTF-8, or is not YAML."""
    hint = "give the path of a YAML file"
    try:
        if path.exists() and not path.is_file():
            raise UserError(str(path), "the file cannot be read because it is not a regular file", hint)
        if path.stat().st_size > MAX_BYTES:
            raise UserError(shown_path(path), f"the file is larger than {MAX_BYTES // 10**6} MB", hint)
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        problem = f"the file cannot be read ({getattr(error, 'strerror', None) or error})"
        raise UserError(shown_path(path), problem, hint) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        raise UserError(f"{path}, line {line}", problem, "save the file as UTF-8 text") from None
    return parse(text, str(path))


def shown_path(path: Path, most: int = 120) -> str:
    """Return a path for a message. A long path is cut."""
    text = str(path)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def line_of(path: Path, keys: list[str]) -> int | None:
    """Return the line of a key of a YAML file, given with the keys above it; None if the file does not have it."""
    try:
        node: Any = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return None
    line = None
    for key in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = next((pair for pair in pairs if pair[0].value == key), None)
        if found is None:
            return None
        line, node = found[0].start_mark.line + 1, found[1]
    return line
