"""The entry loop of ROOT (C++, in loop.cpp), and what it needs of a tree; ROOT is imported here and nowhere else.

A TTree with a TTreeCache of the chosen branches and of the counters of their lists; entry by entry, branch by branch,
as an analysis reads.
"""

import os
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from storelab.datasets.root.branches import by_place
from storelab.stores.protocols.filesystems import XROOTD


@cache
def library() -> Any:
    """The module ROOT, with the functions of loop.cpp in `ROOT.storelab`; seconds of CPU at the first call."""
    for name, value in (XROOTD | {"RunForkHandler": 0}).items():
        os.environ.setdefault(f"XRD_{name.upper()}", str(value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is an alpha stage
        import ROOT

        ROOT.PyConfig.IgnoreCommandLineOptions = True
        ROOT.gROOT.SetBatch(True)
        if not ROOT.gInterpreter.Declare(files(__package__).joinpath("loop.cpp").read_text()):
            raise RuntimeError("ROOT's interpreter does not compile the entry loop")
    return ROOT


def version() -> str:
    return f"ROOT {library().gROOT.GetVersion()}"


class Tree:
    """A tree of an open file, and the branches to read from it. Raises OSError where the file or the tree cannot be
    opened, or lacks a branch.

    cache_bytes: of the TTreeCache; the learning phase is left out, all chosen branches are in it from the first entry
    on.
    """

    def __init__(self, url: str, name: str, branches: list[str], cache_bytes: int):
        root = library()
        self.file = root.TFile.Open(url, "READ")
        if not self.file or self.file.IsZombie():
            raise OSError(f"ROOT cannot open {url}")
        self.tree = self.file.Get(name)
        if not self.tree:
            raise OSError(f"{url} has no tree {name!r}")
        self.statistics = root.TTreePerfStats(
            "storelab", self.tree
        )  # before the cache is filled: afterwards it costs minutes
        self.tree.SetCacheSize(cache_bytes)
        self.branches, self.counters = root.std.vector("TBranch*")(), 0
        counters, known = {}, by_place(_branches(self.tree))
        for branch in branches:
            if (found := known.get(branch)) is None:
                raise OSError(f"ROOT finds no branch {branch!r} in {name}")
            self.branches.push_back(found)
            self.tree.AddBranchToCache(found, True)
            for leaf in found.GetListOfLeaves():
                if counter := leaf.GetLeafCount():
                    counters[counter.GetBranch().GetName()] = counter.GetBranch()
        for name in counters.keys() - set(branches):
            self.tree.AddBranchToCache(counters[name], True)
            self.counters += 1
        self.tree.StopCacheLearningPhase()

    def counts(self) -> tuple[int, int]:
        """Read calls and bytes of the file so far (ROOT's own sums over all files count vector reads twice)."""
        return int(self.file.GetReadCalls()), int(self.file.GetBytesRead())

    def times(self) -> tuple[float, float]:
        """Seconds in reading and in decompression so far."""
        return self.statistics.GetDiskTime(), self.statistics.GetUnzipTime()

    def forget(self) -> None:
        """What was read before is not kept: the next read begins like the first."""
        self.tree.DropBaskets()
        if cache := self.file.GetCacheRead(self.tree):
            cache.ResetCache()

    def bytes(self, offset: np.ndarray, size: np.ndarray) -> list[np.ndarray]:
        """Ranges of the file, ascending, shape (n,): each shape (size,) uint8. Raises OSError where it cannot read."""
        vector = library().std.vector
        whole = _array(
            library().storelab.bytes(self.file, vector("long long")(offset.tolist()), vector("int")(size.tolist()))
        )
        if len(whole) != size.sum():
            raise OSError("ROOT cannot read the baskets again")
        return np.split(whole, np.cumsum(size)[:-1])

    def values(self, number: int, entries: np.ndarray) -> np.ndarray:
        """Of the `number`-th branch, as they lie in memory, shape (n,) uint8."""
        return _array(
            library().storelab.values(
                self.tree, self.branches[number], library().std.vector("long long")(entries.tolist())
            )
        )

    def close(self) -> None:
        self.file.Close()


def _branches(parent: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, branch) in the order of the tree, as uproot's `iteritems`."""
    for branch in parent.GetListOfBranches():
        yield f"{path}{branch.GetName()}", branch
        yield from _branches(branch, f"{path}{branch.GetName()}/")


def _array(found: Any) -> np.ndarray:
    return np.array(found, np.uint8) if len(found) else np.empty(0, np.uint8)
