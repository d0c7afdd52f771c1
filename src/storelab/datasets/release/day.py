"""A day of a release, as it lies in its folder: the objects that are new, in the order in which they are to be sent.

May import: `names`, `errors`.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from storelab.core.errors import UserError
from storelab.datasets.release import names

FILE = "day.json"


class Item(NamedTuple):
    """An object. kind: data, chunk, catalog, reflog or manifest."""

    key: str  # with the repository
    bytes: int
    kind: str


@dataclass(frozen=True)
class Day:
    """A whole day. facts: `day.json` without its objects."""

    folder: Path
    facts: dict[str, Any]

    @property
    def n(self) -> int:
        return int(self.facts["day"])

    def objects(self) -> Iterator[Item]:
        """All objects, in their order; one at a time is in memory."""
        with open(self.folder / FILE, encoding="utf-8") as file:
            for line in file:
                if line.startswith("["):
                    yield Item(*json.loads(line.rstrip(",\n")))

    def path(self, item: Item) -> Path:
        """The file with the bytes of an object."""
        return self.folder / item.key.partition("/")[2]


def write(folder: Path, facts: dict[str, Any], objects: Iterable[Item]) -> None:
    """`day.json`: the facts, then one object a line."""
    with open(folder / FILE, "w", encoding="utf-8") as file:
        file.write(json.dumps(facts, ensure_ascii=True)[:-1] + ', "objects": [')
        for i, item in enumerate(objects):
            file.write((",\n" if i else "\n") + json.dumps(list(item)))
        file.write("\n]}\n")
        file.flush()
        os.fsync(file.fileno())


def folder_of(folder: Path, n: int) -> Path:
    return folder / f"day-{n:04d}"


def read(folder: Path) -> Day:
    """Raises UserError where the folder holds no whole day."""
    try:
        with open(folder / FILE, encoding="utf-8") as file:
            head = file.readline()
        facts = json.loads(head.rstrip("\n") + "]}")
    except (OSError, ValueError):
        raise UserError(
            folder.name, "holds no whole day of a release", "make it again, or name another folder"
        ) from None
    del facts["objects"]
    return Day(folder, facts)


def kind_of(name: str) -> str:
    """Of an object by its name."""
    return names.KINDS[name[40:]]
