"""What a tree's header says: baskets and forms of its branches, kept in a file for other readers.

Parsing the header of 6000 branches takes seconds of CPU; loading this table takes hundredths. May import: numpy,
pyarrow, `datasets.root.{baskets,branches,decode}`, `core`; uproot in functions.
"""

import json
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from storelab.core import records
from storelab.datasets.root.baskets import Baskets, write
from storelab.datasets.root.branches import branches_of
from storelab.datasets.root.decode import Flat, Form, Lists, Packed, form_of_branch

VERSION = 3
COLUMNS = ("branch", "basket", "entry_start", "entry_stop", "offset", "size")


@dataclass(frozen=True)
class Header:
    """A tree: its name, number of entries, baskets, and how each branch's baskets are decoded (None: only uproot can).

    file: identity of the bytes (`{"url", "size", "etag"}` or similar): another file under the same name differs.
    """

    tree: str
    entries: int
    layout: Baskets
    forms: list[Form | None]
    file: dict[str, Any]

    @classmethod
    def of(cls, tree: Any, file: dict[str, Any]) -> "Header":
        """From an open uproot TTree. A branch without an interpretation in uproot gets no form."""
        objects = branches_of(tree)
        layout = Baskets.from_tree(objects)
        return cls(tree.name, int(tree.num_entries), layout, [_form(objects[name]) for name in layout.names], file)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all; not if the header embeds baskets, whose content would be missing."""
        if self.layout.embedded:
            return
        known = sorted({_told(f) for f in self.forms if f is not None})
        code = {told: i for i, told in enumerate(known)}
        facts = {
            "version": VERSION,
            "tree": self.tree,
            "entries": self.entries,
            "file": self.file,
            "names": self.layout.names,
            "forms": known,
            "form": [-1 if f is None else code[_told(f)] for f in self.forms],
        }
        table = pa.table({k: getattr(self.layout, k) for k in COLUMNS}).replace_schema_metadata(
            {"storelab": json.dumps(facts)}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write(table, path)

    @classmethod
    def load(cls, path: Path, file: dict[str, Any]) -> "Header | None":
        """The saved header; None if there is none of this version and this file, or if it cannot be read."""
        try:
            table = records.read_table(path)
            facts = json.loads(table.schema.metadata[b"storelab"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if facts.get("version") != VERSION or facts.get("file") != file:
            return None
        forms = [_read(told) for told in facts["forms"]]
        layout = Baskets(facts["names"], *(table[k].to_numpy() for k in COLUMNS))
        return cls(facts["tree"], facts["entries"], layout, [None if i < 0 else forms[i] for i in facts["form"]], file)


def _form(branch: Any) -> Form | None:
    try:
        return form_of_branch(branch)
    except Exception:  # noqa: BLE001 - whatever uproot cannot interpret is left to it, which will say so
        return None


def _told(form: Form) -> tuple[str, str, tuple[int, ...], int, tuple[Any, ...]]:
    base, shape = form.dtype.subdtype or (form.dtype, ())
    packed = astuple(form.packed) if form.packed else ()
    return form.kind, base.str, tuple(shape), getattr(form, "header", 0), packed


def _read(told: list[Any]) -> Form:
    kind, base, shape, header, how = told
    dtype, packed = np.dtype((base, tuple(shape))) if shape else np.dtype(base), Packed(*how) if how else None
    return Flat(dtype, packed) if kind == "flat" else Lists(dtype, header, packed)
