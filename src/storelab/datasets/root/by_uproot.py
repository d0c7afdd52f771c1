"""Branches of a TTree by uproot's interpretation, from baskets that are there already.

May import: uproot, awkward, numpy. For what `decode` has no form for: strings, nested lists, objects.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import uproot
from uproot.interpretation.library import Awkward, NumPy
from uproot.models.TBasket import Model_TBasket
from uproot.source.chunk import Chunk
from uproot.source.cursor import Cursor

LIBRARIES = Awkward(), NumPy()


def interpret(branch: Any, found: list[Any], edges: np.ndarray) -> Any:
    """All entries of these baskets (uproot's, end to end at `edges`): numpy for plain numbers, awkward for others."""
    how, options, arrays = branch.interpretation, {"ak_add_doc": False}, {}
    library = LIBRARIES[isinstance(how, uproot.AsDtype) and not isinstance(how, uproot.AsStridedObjects)]
    # For objects: there uproot keeps what it found out in the first basket.
    context = {**branch.context, "forth": threading.local()}
    for i, b in enumerate(found):
        arrays[i] = how.basket_array(b.data, b.byte_offsets, b, branch, context, b.member("fKeylen"), library, options)
    return how.final_array(arrays, 0, int(edges[-1]), edges.tolist(), library, branch, options)


def basket(branch: Any, number: int, data: np.ndarray) -> Any:
    """uproot's basket object of these bytes, shape (n,) uint8."""
    file = branch.file
    return Model_TBasket.read(Chunk.wrap(file.source, data), Cursor(0), {"basket_num": number}, file, file, branch)


def decoder(branches: Mapping[str, Any]) -> Callable[[str, list[int], list[Any], list[int], list[np.ndarray]], Any]:
    """`foreign` of `datasets.root.reader.SelectionReader`: decodes branches that have no form there, by uproot."""

    def decode(name: str, numbers: list[int], parts: list[Any], held: list[int], wanted: list[np.ndarray]) -> Any:
        branch, edges = branches[name], np.concatenate(([0], np.cumsum(held)))
        found = [basket(branch, n, p) if isinstance(p, np.ndarray) else p for n, p in zip(numbers, parts, strict=True)]
        return interpret(branch, found, edges)[
            np.concatenate([at + w for at, w in zip(edges[:-1], wanted, strict=True)])
        ]

    return decode
