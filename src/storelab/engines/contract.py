"""What a workload's client is: the contract between the gang and the engines.

A gang runs N client processes. Each reads its `Job`, calls `prepare()` (imports, connections, files: not measured),
joins the rendezvous, calls `run(start_ns, deadline_ns)` at the agreed start, and hands its `Result` over as files.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storelab.core.model import Point
from storelab.stores.protocols.endpoint import Bucket, Endpoint


@dataclass(frozen=True)
class Job:
    """All that one client needs, besides credentials, which stand in its environment."""

    point: Point
    client: int  # 0 … clients - 1, of its role
    endpoint: Endpoint
    buckets: list[Bucket]
    scratch: Path  # a folder of its own on tmpfs
    manifest: Path | None  # of the data set that the point reads
    attempt: str = ""  # id of this attempt: new objects are named after it
    limits: dict[str, Any] = field(default_factory=dict)  # `limits` of the configuration
    account: int = 0  # whose keys stand in its environment
    accounts: tuple[int, ...] = ()  # all that it uses in turn, where they are several: `account` is the first
    endpoints: list[Endpoint] = field(default_factory=list)  # all front-ends of the point, for clients that use several
    extra: dict[str, Any] = field(default_factory=dict)  # what the workload's `before` found out for its clients
    ledger: Path | None = None  # where the client keeps its ledger, if it keeps one: in the folder of the attempt
    rank: int = -1  # in the gang, where it is not `client`: a point may have several roles
    told: Path | None = None  # where it tells, while it works, what it has done; None: nobody wants to know

    @property
    def number(self) -> int:
        """The client's number in records."""
        return self.client if self.rank < 0 else self.rank

    @property
    def own_buckets(self) -> list[Bucket]:
        """The buckets of this client's accounts."""
        return [b for b in self.buckets if self.owns(b)]

    def owns(self, bucket: Bucket) -> bool:
        """Whether a bucket is of an account that this client uses."""
        return bucket.account in (self.accounts or (self.account,))


@dataclass(frozen=True)
class Check:
    """One check of a measured point. A check that fails makes the point fail."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class Written:
    """A file of `records.OPS` that an engine's program wrote itself.

    Its sums: objects done, objects failed, useful bytes.
    """

    file: Path
    operations: int
    errors: int
    bytes: int


@dataclass
class Result:
    """What a client leaves: columns of `records.OPS` (and `records.READS`), engine facts, checks.

    written: instead of `ops`, where the engine's program wrote them; tables: columns of further files, by their name
    in `records.TABLES`.
    """

    ops: dict[str, Any]
    reads: dict[str, Any] | None = None
    engine: dict[str, Any] = field(default_factory=dict)  # name, version, settings, requests per operation
    checks: list[Check] = field(default_factory=list)
    connections: dict[str, Any] = field(default_factory=dict)  # {"max": int, "samples": [...]}
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    written: Written | None = None


class Client(ABC):
    """One client process of a point. Times are UTC nanoseconds from `storelab.core.clock.now_ns`."""

    def __init__(self, job: Job):
        self.job = job

    @abstractmethod
    def prepare(self) -> None:
        """Everything that is not measured: imports, input files on tmpfs, connections that the workload keeps."""

    @abstractmethod
    def run(self, start_ns: int, deadline_ns: int) -> None:
        """Called at the agreed start; works until the deadline and returns soon after it. Records in memory."""

    @abstractmethod
    def result(self) -> Result:
        """After the deadline: parse, check, return. Not measured."""

    def close(self) -> None:
        """Stop and remove what is left: child processes, files in scratch. Called in any case."""
