"""Generate a ROOT file like those of ATLAS: a TTree with thousands of small branches and jagged collections.

May import: numpy, `core`; uproot, awkward in functions. The layout follows the file of J. Phys. Conf. Ser. 664 022001.
Each `extend()` writes one cluster: one basket of each branch, next to each other. `docs/sparse-reads.md` explains the
file and its limits. The same seed and the same versions of uproot and the codec give the same bytes.

`reproducible()` patches uproot 5.7.7 within a `with` block, so that it can write large and reproducible files:
1. `Tree._build_out` sums over its whole growing output several times for each branch, which takes minutes for 6000
   branches. The patch rewrites its source to use a list that keeps the totals. A test checks that the written bytes
   stay the same. A subclass or hook is not enough, because the list is a local variable of a method with 400 lines.
   5.7.7 is the newest uproot (November 2026). A newer uproot with different source raises RuntimeError. Remove the
   patch when uproot sums at most once.
2. The UUID of a file and the times of its keys differ in each run. The patch makes both constant.
The patches change the whole process, so they must not be used from several threads.
"""

import contextlib
import datetime
import hashlib
import inspect
import os
import re
import shutil
import textwrap
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from storelab.core.errors import UserError
from storelab.core.model import derive_seed

UUID = uuid.UUID(int=0x73746F72656C6162)
TIME = datetime.datetime(2015, 4, 13, 9, 0, 0)  # uproot stores naive local times
TREE = "CollectionTree"
BASENAME = "storelab.root"  # uproot writes it into the file: a constant, so that the path does not change the bytes
CODECS = ("zstd", "lz4", "zlib")
CONTAINERS = (
    "AnalysisJetsAuxDyn",
    "AntiKt4EMPFlowJetsAuxDyn",
    "AntiKt10UFOCSSKSoftDropBeta100Zcut10JetsAuxDyn",
    "BTagging_AntiKt4EMPFlowAuxDyn",
    "ElectronsAuxDyn",
    "EventInfoAuxDyn",
    "InDetTrackParticlesAuxDyn",
    "MET_Core_AnalysisMETAuxDyn",
    "MuonsAuxDyn",
    "PhotonsAuxDyn",
    "TauJetsAuxDyn",
    "TruthBosonsWithDecayParticlesAuxDyn",
)
VARIABLES = (
    "DFCommonElectronsLHTightPileupCorrection",
    "EnergyPerSampling",
    "JetConstitScaleMomentum_pt",
    "NumTrkPt500PV",
    "SumPtChargedPFOPt500PV",
    "definingParametersCovMatrixDiag",
    "ethad1",
    "eta",
    "m",
    "momentumBalanceSignificance",
    "numberOfPixelHoles",
    "phi",
    "pt",
    "ptvarcone30_Nonprompt_All_MaxWeightTTVA_pt1000",
    "topoetcone20",
    "truthParticleLink",
)


class TotalList(list):
    """A list of bytes or None that knows the sum of its lengths (`nbytes`) and how many are None (`nnone`)."""

    __slots__ = ("nbytes", "nnone")

    def __init__(self, items: Iterable[bytes | None]):
        super().__init__(items)
        self.nbytes = sum(len(x) for x in self if x is not None)
        self.nnone = sum(x is None for x in self)

    def _add(self, x: bytes | None, sign: int = 1) -> None:
        self.nnone += sign * (x is None)
        self.nbytes += sign * len(x or b"")

    def append(self, x: bytes | None) -> None:
        super().append(x)
        self._add(x)

    def extend(self, xs: Iterable[bytes | None]) -> None:
        for x in xs:
            self.append(x)

    def insert(self, i: Any, x: bytes | None) -> None:
        super().insert(i, x)
        self._add(x)

    def __setitem__(self, i: Any, x: Any) -> None:
        self._add(self[i], -1)
        super().__setitem__(i, x)
        self._add(x)


class _Clock(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime.datetime:
        return TIME


class _DateTime:
    """A replacement of the module `datetime` in uproot's writing modules, with a constant clock."""

    datetime = _Clock

    def __getattr__(self, name: str) -> Any:
        return getattr(datetime, name)


def linear_build_out() -> Callable[..., Any]:
    """Return `Tree._build_out` with running totals. Raise RuntimeError if uproot's source is different."""
    import uproot.writing._cascadetree as module

    source = textwrap.dedent(inspect.getsource(module.Tree._build_out))
    n0 = source.count("out = [None]")
    source = source.replace("out = [None]", "out = _TotalList([None])")
    source, n1 = re.subn(r"sum\(\s*len\(x\) for x in out if x is not None\s*\)", "out.nbytes", source)
    source, n2 = re.subn(r"sum\(1 if x is None else 0 for x in out\)", "out.nnone", source)
    if (n0, n1, n2) != (1, 3, 3):
        raise RuntimeError(
            f"uproot's Tree._build_out has changed (found {(n0, n1, n2)}, not (1, 3, 3)): check the patch against "
            "its source"
        )
    names = dict(vars(module), _TotalList=TotalList)
    exec(compile(source, "<storelab: uproot Tree._build_out>", "exec"), names)
    return names["_build_out"]


@contextlib.contextmanager
def reproducible(linear: bool = True) -> Iterator[Callable[[], uuid.UUID]]:
    """Patch uproot's writer during the block, and provide the `uuid_function` for `uproot.recreate`."""
    import uproot.writing._cascade
    import uproot.writing._cascadetree
    import uproot.writing.writable

    patches: list[tuple[Any, str, Any]] = [
        (module, "datetime", _DateTime())
        for module in (uproot.writing._cascade, uproot.writing._cascadetree, uproot.writing.writable)
    ]
    if linear:
        patches.append((uproot.writing._cascadetree.Tree, "_build_out", linear_build_out()))
    with contextlib.ExitStack() as restored:
        for patch in patches:
            restored.enter_context(mock.patch.object(*patch))
        yield lambda: UUID


if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Scale:
    """The size of a generated file. `bytes_per_entry`: content per entry before compression, over all branches.

    sigma: width of the log-normal distribution of branch sizes; cap: ratio of the largest to the median branch size
    (117 to 399 in real ATLAS files); collection: number of members that share a counter; named: True for branch names
    like those of ATLAS files, False for numbers; slots: number of places for baskets in the header of each branch, at
    least one more than clusters (0: one more).
    """

    entries: int
    branches: int
    clusters: int
    bytes_per_entry: float
    sigma: float = 1.9
    cap: float = 300.0
    collection: int = 10
    named: bool = False
    slots: int = 0

    @property
    def cluster_entries(self) -> int:
        return -(-self.entries // self.clusters)


# L is the file of the paper: 11918 entries in 23 clusters. Its `bytes_per_entry` and `slots` are chosen so that a
# cluster has the 32.56 MB and opening reads the 9.5 MB that the paper's Table 2 implies (docs/sparse-reads.md).
SCALES = {
    "S": Scale(entries=1000, branches=500, clusters=4, bytes_per_entry=6000.0),
    "M": Scale(entries=4000, branches=2000, clusters=8, bytes_per_entry=20_000.0, named=True),
    "L": Scale(entries=11_918, branches=5860, clusters=23, bytes_per_entry=67_700.0, named=True, slots=54),
}


@dataclass(frozen=True)
class Flat:
    """A branch with one number per entry."""

    name: str
    type: str  # dtype of numpy
    branches = 1


@dataclass(frozen=True)
class Collection:
    """A set of jagged members with a common counter; `multiplicity` is the mean number of items per entry."""

    name: str
    members: tuple[str, ...]
    multiplicity: float

    @property
    def branches(self) -> int:
        return 1 + len(self.members)

    @property
    def type(self) -> str:
        return "var * {" + ", ".join(f"{m}: float32" for m in self.members) + "}"


def most_bytes(scale: str) -> int:
    """Return an upper estimate of the bytes of a file of this scale, for any codec."""
    size = SCALES[scale]
    header = size.branches * (1000 + 20 * max(size.slots, size.clusters))
    return int(1.7 * size.entries * size.bytes_per_entry) + 2 * header


def layout(scale: Scale, seed: int) -> list[Flat | Collection]:
    """Return names, kinds and mean multiplicities of the branches, in random order to separate small ones."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(derive_seed(seed, "layout")))
    weights = np.sort(rng.lognormal(0.0, scale.sigma, scale.branches))
    weights = np.minimum(weights, scale.cap * np.median(weights))
    wanted = weights * (scale.bytes_per_entry / weights.sum())  # bytes per entry of each branch
    dtypes = np.select([wanted < 1, wanted < 3, wanted < 6], ["i1", "i4", "f4"], "jagged")
    flat, one, member = _names(scale)
    items: list[Flat | Collection] = [Flat(flat(i), str(t)) for i, t in enumerate(dtypes) if t != "jagged"]
    jagged = [i for i, t in enumerate(dtypes) if t == "jagged"]
    for n, begin in enumerate(range(0, len(jagged), scale.collection)):
        members = jagged[begin : begin + scale.collection]
        items.append(Collection(one(n), tuple(member(i) for i in members), float(1.1 * wanted[members].mean() / 4)))
    return [items[i] for i in rng.permutation(len(items))]


def _names(scale: Scale) -> tuple[Callable[[int], str], ...]:
    """Return three functions that name a flat branch, a collection, and a member of a collection by number."""
    if not scale.named:
        return (lambda i: f"v{i:04d}"), (lambda n: f"c{n:03d}"), (lambda i: f"v{i:04d}")

    def variable(i: int) -> str:
        return f"{VARIABLES[i % len(VARIABLES)]}_{i:04d}"

    def container(i: int) -> str:
        return CONTAINERS[i % len(CONTAINERS)]

    return (lambda i: f"{container(i // len(VARIABLES))}_{variable(i)}"), (lambda n: f"{container(n)}{n:03d}"), variable


class Pools:
    """A pool of random content, drawn once and sliced at pseudo-random offsets.

    Slicing is faster than drawing, and the content compresses like detector data.
    """

    SIZE = 1 << 20

    def __init__(self, seed: int):
        import numpy as np

        self.rng = rng = np.random.Generator(np.random.PCG64(derive_seed(seed, "content")))
        floats = rng.exponential(30e3, self.SIZE).astype("<f4")
        # shorter mantissa, as in files of experiments
        floats = (floats.view("<u4") & np.uint32(0xFFFFFF00)).view("<f4")
        self.pools = {
            "f4": floats,
            "i4": rng.integers(0, 65536, self.SIZE).astype("<i4"),
            "i1": rng.poisson(0.3, self.SIZE).astype("i1"),
        }

    def take(self, dtype: str, n: int) -> "np.ndarray":
        """Return `n` values, shape (n,). They repeat if n is larger than the pool."""
        pool = self.pools[dtype]
        begin = int(self.rng.integers(0, self.SIZE))
        return pool.take(range(begin, begin + n), mode="wrap") if begin + n > self.SIZE else pool[begin : begin + n]


def clusters(scale: Scale, plan: list[Flat | Collection], seed: int) -> Iterator[dict[str, Any]]:
    """Yield for each cluster the array of each branch or collection: numpy (n,) or awkward lists of records."""
    import awkward as ak
    import numpy as np

    pools = Pools(seed)
    for begin in range(0, scale.entries, scale.cluster_entries):
        n = min(scale.cluster_entries, scale.entries - begin)
        out: dict[str, Any] = {}
        for item in plan:
            if isinstance(item, Collection):
                offsets = np.zeros(n + 1, "i8")
                np.cumsum(pools.rng.poisson(item.multiplicity, n), out=offsets[1:])
                content = [ak.contents.NumpyArray(pools.take("f4", int(offsets[-1]))) for _ in item.members]
                record = ak.contents.RecordArray(content, list(item.members), length=int(offsets[-1]))
                out[item.name] = ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), record))
            else:
                out[item.name] = pools.take(item.type, n)
        yield out


def _content_bytes(item: Flat | Collection, array: Any) -> Iterator[bytes]:
    """Yield the bytes of the values of a branch or collection in a cluster, for the checksum of the content."""
    if isinstance(item, Collection):
        inner = array.layout
        yield inner.offsets.data.tobytes()
        yield from (c.data.tobytes() for c in inner.content.contents)
    else:
        yield array.tobytes()


def generate(path: Path, scale: str, seed: int, codec: str = "zstd") -> dict[str, Any]:
    """Write the file to `path` atomically, and return a description of it. One cluster is in memory at a time.

    codec: one of CODECS, at level 1. The description has the keys `tree`, `scale`, `seed`, `entries`,
    `branches` (including counters), `clusters`, `bytes`, `sha256` of the file, `content_sha256` of the values (the same
    for all codecs and their versions), `compression`, `uproot`. Raise UserError for an unknown scale or codec.
    """
    for name, value, known in (("scale", scale, SCALES), ("codec", codec, CODECS)):
        if value not in known:
            raise UserError(name, f"the ROOT file has no {name} {value!r}", f"one of: {', '.join(known)}")
    import uproot

    size = SCALES[scale]
    compression = getattr(uproot, codec.upper())(1)
    plan = layout(size, seed)
    work = path.parent / f".{path.name}.{os.getpid()}.tmp"
    work.mkdir(parents=True)
    digest = hashlib.sha256()
    try:
        with (
            reproducible() as make_uuid,
            uproot.recreate(work / BASENAME, uuid_function=make_uuid, compression=compression) as out,
        ):
            # With fewer basket slots than clusters, uproot would move the tree's header while it fills.
            tree = out.mktree(
                TREE, {i.name: i.type for i in plan}, initial_basket_capacity=max(size.slots, size.clusters + 1)
            )
            # ROOT recognises clusters only by this number. uproot has no public way to set it (a test reads it back).
            tree._cascading._metadata["fAutoFlush"] = size.cluster_entries
            for cluster in clusters(size, plan, seed):
                tree.extend(cluster)
                for item, array in zip(plan, cluster.values(), strict=True):
                    for part in _content_bytes(item, array):
                        digest.update(part)
        with (work / BASENAME).open("rb") as f:
            file_digest = hashlib.file_digest(f, "sha256").hexdigest()
            os.fsync(f.fileno())
        (work / BASENAME).replace(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return {
        "tree": TREE,
        "scale": scale,
        "seed": seed,
        "entries": size.entries,
        "branches": sum(i.branches for i in plan),
        "clusters": -(-size.entries // size.cluster_entries),
        "bytes": path.stat().st_size,
        "sha256": file_digest,
        "content_sha256": digest.hexdigest(),
        "compression": f"{codec.upper()}(1)",
        "uproot": uproot.__version__,
    }


def generate_with_side_car(path: Path, side_car: Path, scale: str, seed: int, codec: str = "zstd") -> dict[str, Any]:
    """Write the file to `path` and the table of its baskets to `side_car`; return the entry `root` of the manifest.

    The entry has the description that `generate()` returns, and as `sidecar` the file name of the table. The table must
    be in the manifest's folder.
    """
    from storelab.datasets.root import baskets

    facts = generate(path, scale, seed, codec)
    baskets.write(baskets.basket_table(path, facts["tree"]), side_car)
    return {**facts, "sidecar": side_car.name}
