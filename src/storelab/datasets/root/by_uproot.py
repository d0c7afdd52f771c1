"""Branches of a TTree by uproot's interpretation, from baskets that are there already.

May import: uproot, awkward, numpy. For what `decode` has no form for: strings, nested lists, objects.
"""

import threading
from collections.abc import Mapping
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


class Decoder:
    """`foreign` of `datasets.root.reader.SelectionReader`: decodes branches that have no form there, by uproot."""

    def __init__(self, branches: Mapping[str, Any]):
        self.branches = branches

    def unpack(self, name: str, numbers: list[int], parts: list[Any]) -> list[Any]:
        """uproot's objects of baskets, decompressed; those in the tree's header are objects already."""
        branch = self.branches[name]
        return [basket(branch, n, p) if isinstance(p, np.ndarray) else p for n, p in zip(numbers, parts, strict=True)]

    def __call__(
        self, name: str, numbers: list[int], parts: list[Any], held: list[int], wanted: list[np.ndarray]
    ) -> Any:
        """The array of the wanted entries; parts: bytes of the baskets, or what `unpack()` made of them."""
        edges = np.concatenate(([0], np.cumsum(held)))
        places = np.concatenate([at + w for at, w in zip(edges[:-1], wanted, strict=True)])
        return interpret(self.branches[name], self.unpack(name, numbers, parts), edges)[places]


def decoder(branches: Mapping[str, Any]) -> Decoder:
    return Decoder(branches)
