"""Engine `root`: selection reads by ROOT (TTree and TTreeCache) over root:// and from local files, as a reference.

The loop over entries is in `root_loop.cpp`. It reads entry by entry and branch by branch, like an analysis. ROOT plans
its requests while it reads, so its counts cannot be compared with a plan. TFile counts the read calls, and the kernel
counts the wire bytes. The decoded data are compared after the window, see `content`. ROOT is imported only in
`root_library`.
"""

import contextlib
import os
import warnings
import zlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from storelab.core import clock
from storelab.core.errors import UserError
from storelab.datasets.root import baskets, decode
from storelab.datasets.root.baskets import by_place
from storelab.engines.common.selections import KEPT_BY_XROOTD, Done, Late, SelectionClient, not_staged
from storelab.engines.common.wire import Counts, port_wire
from storelab.engines.contract import Check, Job
from storelab.install import wheels
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.filesystems import XROOTD

# Size in bytes of the TTreeCache: one cluster of the generated file. With 100 MB, ROOT reads clusters that were not
# requested.
CACHE = 40_000_000
LATE = -1_000_000_000
COMPARED = 16  # number of branches whose content is compared after the window
AGAIN = 256_000_000  # maximum bytes of baskets that are read again for the comparison
TYPES = {
    "Bool_t": "?",
    "Char_t": "i1",
    "UChar_t": "u1",
    "Short_t": ">i2",
    "UShort_t": ">u2",
    "Int_t": ">i4",
    "UInt_t": ">u4",
    "Long64_t": ">i8",
    "ULong64_t": ">u8",
    "Float_t": ">f4",
    "Double_t": ">f8",
}


@cache
def root_library() -> Any:
    """Return the module ROOT, with the functions of root_loop.cpp in `ROOT.storelab`. The first call takes seconds."""
    for name, value in (XROOTD | {"RunForkHandler": 0}).items():
        os.environ.setdefault(f"XRD_{name.upper()}", str(value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ROOT warns that the wheel is in an alpha stage
        import ROOT

        ROOT.PyConfig.IgnoreCommandLineOptions = True
        ROOT.gROOT.SetBatch(True)
        if not ROOT.gInterpreter.Declare(files(__package__).joinpath("root_loop.cpp").read_text()):
            raise RuntimeError("engine root: ROOT's interpreter cannot compile root_loop.cpp")
    return ROOT


def root_version() -> str:
    """Return the name and version of ROOT. This imports ROOT."""
    return f"ROOT {root_library().gROOT.GetVersion()}"


class Tree:
    """A tree of an open file, and the branches to read from it.

    cache_bytes: size of the TTreeCache. There is no learning phase, because the cache knows all chosen branches from
    the first entry on. Raises OSError if the file or the tree cannot be opened, or if a branch is missing.
    """

    def __init__(self, url: str, name: str, branches: list[str], cache_bytes: int):
        root = root_library()
        self.file = root.TFile.Open(url, "READ")
        if not self.file or self.file.IsZombie():
            raise OSError(f"ROOT cannot open {url}")
        self.tree = self.file.Get(name)
        if not self.tree:
            raise OSError(f"{url} has no tree {name!r}")
        self.statistics = root.TTreePerfStats(
            "storelab", self.tree
        )  # must be made before the cache is filled; afterwards this takes minutes
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
        """Return the read calls and bytes of this file so far.

        ROOT's sums over all files count vector reads twice.
        """
        return int(self.file.GetReadCalls()), int(self.file.GetBytesRead())

    def times(self) -> tuple[float, float]:
        """Return the time in seconds spent on reading and on decompression so far."""
        return self.statistics.GetDiskTime(), self.statistics.GetUnzipTime()

    def forget(self) -> None:
        """Delete all data that were read, so that the next read is like the first one."""
        self.tree.DropBaskets()
        if cache := self.file.GetCacheRead(self.tree):
            cache.ResetCache()

    def bytes(self, offset: np.ndarray, size: np.ndarray) -> list[np.ndarray]:
        """Return ranges of the file as uint8 arrays. The ranges are ascending, shape (n,). Raises OSError."""
        vector = root_library().std.vector
        whole = _array(
            root_library().storelab.bytes(self.file, vector("long long")(offset.tolist()), vector("int")(size.tolist()))
        )
        if len(whole) != size.sum():
            raise OSError("ROOT cannot read the baskets again for the comparison")
        return np.split(whole, np.cumsum(size)[:-1])

    def values(self, number: int, entries: np.ndarray) -> np.ndarray:
        """Return the values of the `number`-th branch for these entries as stored in memory, shape (n,) uint8."""
        return _array(
            root_library().storelab.values(
                self.tree, self.branches[number], root_library().std.vector("long long")(entries.tolist())
            )
        )

    def close(self) -> None:
        self.file.Close()


def _branches(parent: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the branch, in the order of the tree, like uproot's `iteritems`."""
    for branch in parent.GetListOfBranches():
        yield f"{path}{branch.GetName()}", branch
        yield from _branches(branch, f"{path}{branch.GetName()}/")


def _array(found: Any) -> np.ndarray:
    return np.array(found, np.uint8) if len(found) else np.empty(0, np.uint8)


def installed() -> None:
    """Raise UserError if ROOT is not installed in this environment."""
    if not wheels.has("ROOT"):
        raise UserError("engine root", "ROOT is not installed in this environment", "run `storelab install root`")


class RootClient(SelectionClient):
    """A client that reads selections of TTrees with ROOT."""

    engine = "root"

    def __init__(self, job: Job):
        super().__init__(job)
        self.tree: Any = None
        self.past = np.zeros(2, "i8")  # read calls and bytes of files that were opened before
        self.read: np.ndarray | None = None  # entries of the last read

    def connect(self, root: dict[str, Any]) -> None:
        if root.get("format") == "RNTuple":  # this file has a URL; local files are checked earlier
            raise UserError(
                "axes.engine",
                f"the engine root reads only TTrees, but {root['scale']} is an RNTuple",
                "use the engine planned",
            )
        root_library()
        endpoint = self.job.endpoint
        self.url = filesystems.path(endpoint, self.bucket, self.object)
        if endpoint.protocol == "root":
            filesystems.trust(endpoint)
            self.url = f"{endpoint.url.rstrip('/')}/{self.url}"
            self.wire = port_wire(endpoint)
            self.reconnects = KEPT_BY_XROOTD
        self.settings = {
            "protocol": endpoint.protocol,
            "library": "ROOT",
            "cache_bytes": CACHE,
            "coalescing": "TTreeCache",
        }

    def version(self) -> str:
        return root_version()

    def open_file(self) -> None:
        tree = Tree(self.url, self.root["tree"], self.branches, CACHE)
        found = np.array(root_library().storelab.baskets(tree.branches)).reshape(-1, 2)
        rows, _ = self.staged.chosen(self.branches)
        # baskets in the header are not compared
        found, rows = found[found[:, 0] > 0], rows[self.staged.offset[rows] >= 0]
        if not np.array_equal(found, np.stack((self.staged.offset[rows], self.staged.size[rows]), 1)):
            tree.close()
            raise not_staged(self.key)
        self.tree = tree

    def fresh(self) -> None:
        if self.tree:
            self.past = np.add(self.past, self.tree.counts())
            self.tree.close()
            self.tree = None

    def selection(self, entries: np.ndarray) -> Done:
        library, before, times = root_library(), self.counts(), self.tree.times()
        wanted = library.std.vector("long long")(entries.tolist())
        self.tree.forget()
        begun = clock.now_ns()
        decoded = library.storelab.loop(self.tree.tree, self.tree.branches, wanted, self.latest_ns)
        took = clock.now_ns() - begun
        if decoded == LATE:
            raise Late
        if decoded < 0:
            raise OSError(f"ROOT cannot read branch {self.branches[-1 - decoded]!r} of {self.key}")
        self.read = entries
        spent = self.counts() - before
        disk, unzip = (round(1e9 * (b - a)) for a, b in zip(times, self.tree.times(), strict=True))
        rows, needed, _ = baskets.ranges(self.staged, self.branches, entries)
        rest = max(0, took - disk - unzip)
        return Done(
            len(self.branches), len(rows), decoded, needed, spent.requests, spent.asked_bytes, 0, disk, 0, unzip, rest
        )

    def counts(self) -> Counts:
        calls, size = np.add(self.past, self.tree.counts() if self.tree else (0, 0)).tolist()
        return Counts(calls, size, size, self.wire.bytes if self.wire and not self.wire.lost else None)

    def facts(self) -> dict[str, Any]:
        return {
            "counters": self.tree.counters if self.tree else None,
            "connections_lost": self.wire.lost if self.wire else None,
        }

    def checks(self) -> list[Check]:
        """Return the checks that ROOT can fail, and a comparison of the data of the last read."""
        shared = [c for c in super().checks() if c.name not in ("requests", "bytes", "crc32")]
        if self.read is None:
            return shared
        if self.tree is None:  # a read after the last successful one could not open the file
            with contextlib.suppress(Exception):
                self.open_file()
        return [*shared, self.content() if self.tree else Check("content", False, "the file could not be opened again")]

    def content(self) -> Check:
        """Compare the last read with the side-car file, and with storelab's decoder.

        ROOT reads the baskets again, and they are compared with the CRC-32 in the side-car file. For some branches, the
        values from ROOT are compared with the values that storelab decodes from the same bytes.
        """
        layout = self.staged
        rows, _, _ = baskets.ranges(layout, self.branches, self.read)
        few = rows[np.cumsum(layout.size[rows]) <= AGAIN] if len(rows) else rows
        data, compared, wrong = {}, 0, []
        for part in np.array_split(few, -(-len(few) // 500)) if len(few) else ():
            data |= zip(part.tolist(), self.tree.bytes(layout.offset[part], layout.size[part]), strict=True)
        bad = sum(zlib.crc32(content) != self.crc[row] for row, content in data.items())
        places = {layout.names[code]: rows[positions].tolist() for code, positions in baskets.by_branch(layout, rows)}
        for i in range(0, len(self.branches), max(1, len(self.branches) // COMPARED)):
            name, form = self.branches[i], _form(self.tree.branches[i])
            if form is None or not all(row in data for row in places.get(name, [-1])):
                continue
            compared += 1
            if not np.array_equal(self.tree.values(i, self.read), self._expected(form, places[name], data)):
                wrong.append(name)
        detail = (
            f"read {len(data)} of {len(rows)} baskets of the last read again, {bad} wrong; "
            f"compared all values of {compared} branches, {len(wrong)} wrong"
        )
        return Check(
            "content", not wrong and not bad and len(data) > 0, detail + (f": {', '.join(wrong[:3])}" if wrong else "")
        )

    def _expected(self, form: decode.Form, rows: list[int], data: dict[int, np.ndarray]) -> np.ndarray:
        """Return the values of the last read in these baskets as stored in memory, shape (n,) uint8."""
        edges = [(int(self.staged.entry_start[r]), int(self.staged.entry_stop[r])) for r in rows]
        wanted = [self.read[(self.read >= a) & (self.read < b)] - a for a, b in edges]
        found = decode.take(form, [decode.unpack(data[r]) for r in rows], wanted)
        return np.frombuffer((found[1] if isinstance(form, decode.Lists) else found).tobytes(), np.uint8)

    def close(self) -> None:
        self.fresh()
        super().close()


def _form(branch: Any) -> decode.Form | None:
    """Return how storelab decodes this branch, or None if only ROOT can decode it."""
    leaves = branch.GetListOfLeaves()
    if type(branch).__name__ != "TBranch" or len(leaves) != 1 or leaves[0].GetTypeName() not in TYPES:
        return None
    dtype, fixed = np.dtype(TYPES[leaves[0].GetTypeName()]), leaves[0].GetLenStatic()
    if leaves[0].GetLeafCount():
        return decode.Lists(dtype) if fixed == 1 else None
    return decode.Flat(np.dtype((dtype, (fixed,))) if fixed > 1 else dtype)
