"""Decode branches of a TTree with uproot, from baskets that are already in memory.

May import: uproot, awkward, numpy, `datasets.root.decode`. It is used for branches that `decode` cannot decode:
strings, nested lists, objects. Packed numbers are always decoded by `decode`, because uproot reads them wrongly.
"""

import threading
from collections.abc import Mapping
from typing import Any

import awkward as ak
import numpy as np
import uproot
from uproot.interpretation.library import Awkward, NumPy
from uproot.models.TBasket import Model_TBasket
from uproot.source.chunk import Chunk
from uproot.source.cursor import Cursor

from storelab.datasets.root import decode

LIBRARIES = Awkward(), NumPy()


def how(branch: Any) -> Any:
    """Return the form of a branch of packed numbers, or uproot's interpretation of another branch.

    Raise uproot's errors.
    """
    return decode.packed_form(branch) or branch.interpretation


def interpret(branch: Any, found: list[Any], edges: np.ndarray) -> Any:
    """Return all entries of these baskets as a numpy array (numbers) or an awkward array (other types).

    found: consecutive baskets of uproot; edges: their borders in entries. Raise decode.Broken if the number of entries
    in a basket differs from the declared one.
    """
    if form := decode.packed_form(branch):
        return _packed(form, found)
    how, options, arrays = branch.interpretation, {"ak_add_doc": False}, {}
    library = LIBRARIES[isinstance(how, uproot.AsDtype) and not isinstance(how, uproot.AsStridedObjects)]
    # For objects: uproot keeps the structure that it found in the first basket.
    context = {**branch.context, "forth": threading.local()}
    for i, b in enumerate(found):
        arrays[i] = how.basket_array(b.data, b.byte_offsets, b, branch, context, b.member("fKeylen"), library, options)
        if len(arrays[i]) != b.num_entries:
            raise decode.Broken(f"uproot finds {len(arrays[i])} entries in a basket of {b.num_entries}")
    return how.final_array(arrays, 0, int(edges[-1]), edges.tolist(), library, branch, options)


def _packed(form: decode.Form, found: list[Any]) -> Any:
    contents = [decode.embedded(b) for b in found]
    array = decode.take(form, contents, [range(c.entries) for c in contents])
    return ak.unflatten(ak.Array(array[1]), np.diff(array[0])) if isinstance(array, tuple) else array


def basket(branch: Any, number: int, data: np.ndarray) -> Any:
    """Return uproot's basket object of these bytes, shape (n,) uint8."""
    file = branch.file
    return Model_TBasket.read(Chunk.wrap(file.source, data), Cursor(0), {"basket_num": number}, file, file, branch)


class Decoder:
    """A decoder of branches without a form by uproot: the argument `foreign` of `SelectionReader`."""

    def __init__(self, branches: Mapping[str, Any]):
        self.branches = branches

    def unpack(self, name: str, numbers: list[int], parts: list[Any]) -> list[Any]:
        """Return decompressed baskets as uproot's objects. Baskets from the tree's header are such objects already."""
        branch = self.branches[name]
        return [basket(branch, n, p) if isinstance(p, np.ndarray) else p for n, p in zip(numbers, parts, strict=True)]

    def __call__(
        self, name: str, numbers: list[int], parts: list[Any], held: list[int], wanted: list[np.ndarray]
    ) -> Any:
        """Return the array of the wanted entries. parts: bytes of the baskets, or the result of `unpack()`."""
        edges = np.concatenate(([0], np.cumsum(held)))
        places = np.concatenate([at + w for at, w in zip(edges[:-1], wanted, strict=True)])
        return self.array(name, self.unpack(name, numbers, parts), edges)[places]

    def array(self, name: str, found: list[Any], edges: np.ndarray) -> Any:
        return interpret(self.branches[name], found, edges)
