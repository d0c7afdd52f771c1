"""The contract between the coordinator of a point, its clients, and the engines.

A gang runs N client processes. The coordinator writes one `GangJob` for all of them as `job.json`. Each client takes
its own `Job` from it, calls `prepare()` (imports, connections, files: not measured), joins the rendezvous, calls
`run(start_ns, deadline_ns)` at the agreed start, and leaves its `Result`: tables, and a `ClientResult` as
`result.<rank>`.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from storelab.core import records
from storelab.core.model import Facts, Point, accounts_of
from storelab.stores.protocols.endpoint import Bucket, Endpoint

Limits = dict[str, float | None]  # `limits` of the configuration, and what the store has room for


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
    limits: Limits = field(default_factory=dict)
    account: int = 0  # whose keys stand in its environment
    accounts: tuple[int, ...] = ()  # all that it uses in turn, where they are several: `account` is the first
    endpoints: list[Endpoint] = field(default_factory=list)  # all front-ends of the point, for clients that use several
    extra: dict[str, Any] = field(default_factory=dict)  # what the workload's `before` found out for its clients
    ledger: Path | None = None  # where the client keeps its ledger, if it keeps one: in the folder of the attempt
    rank: int = -1  # in the gang, where it is not `client`: a point may have several roles
    told: Path | None = None  # where it tells, while it works, what it has done; None: nobody wants to know
    role: str = ""
    size: int = 1  # clients of the whole gang
    timeout_ns: int = 0  # that it waits for the others
    begin_ns: int = 0  # after the start of the gang

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
class Earlier:
    """An earlier part of the series of a point, and the attempt at it that has a record."""

    part: int
    attempt: str


@dataclass
class GangJob:
    """The job of a whole gang, which is the content of `job.json`; or that of the clients of one role.

    It holds nothing secret. A point with roles has one job for each of them in `roles`. Launchers for several nodes add
    the last four fields.
    """

    point: Point
    attempt: str  # id of this attempt: new objects are named after it
    size: int  # clients
    endpoints: list[Endpoint]
    buckets: list[Bucket]
    accounts: int
    scratch: Path  # on tmpfs
    scratch_base: Path  # where nodes have a tmpfs
    manifest: Path | None  # of the data set that the point reads
    lead_ns: int
    timeout_ns: int
    limits: Limits
    tells: bool = False  # whether clients report what they have done while they work
    role: str = ""
    ranks: list[int] = field(default_factory=list)  # in the gang, of a role
    begin_ns: int = 0  # after the start of the gang, of a role
    roles: "list[GangJob]" = field(default_factory=list)
    earlier: list[Earlier] | None = None
    extra: Facts = field(default_factory=dict)  # what the workload's `before` found out for its clients
    nodes: list[list[int]] = field(default_factory=list)  # ranks by node
    clock_addresses: list[tuple[str, int]] = field(default_factory=list)  # of the coordinator's clock
    clock_bound_ns: int = 0
    silence_ns: int = 0  # after which a silent coordinator counts as lost

    @property
    def parts(self) -> "list[GangJob]":
        """The jobs of the roles in their order; of a point without roles the job itself."""
        return self.roles or [self]

    def of_rank(self, rank: int) -> "GangJob":
        """The job of the role to which a client belongs, or the job itself."""
        return next((role for role in self.roles if rank in role.ranks), self)

    def of_client(self, rank: int, folder: Path) -> Job:
        """The job of one client. folder: of the gang, where the client leaves its files."""
        own = self.of_rank(rank)
        client = rank - own.ranks[0] if own.ranks else rank
        accounts = accounts_of(client, own.point.axes.get("clients", 1), own.accounts)
        return Job(
            point=own.point,
            client=client,
            endpoint=own.endpoints[client % len(own.endpoints)],
            buckets=own.buckets,
            scratch=self.scratch / f"{self.attempt}-{rank}",
            manifest=own.manifest,
            attempt=own.attempt,
            limits=own.limits,
            account=accounts[0],
            accounts=accounts,
            endpoints=own.endpoints,
            extra=own.extra,
            rank=rank,
            ledger=folder / f"ledger.{rank}",
            told=folder / f"told.{rank}" if self.tells else None,
            role=own.role,
            size=self.size,
            timeout_ns=self.timeout_ns,
            begin_ns=own.begin_ns,
        )

    def to_json(self) -> Facts:
        out = {
            "point": self.point.to_json(),
            "attempt": self.attempt,
            "size": self.size,
            "endpoints": [asdict(endpoint) for endpoint in self.endpoints],
            "buckets": [asdict(bucket) for bucket in self.buckets],
            "accounts": self.accounts,
            "scratch": str(self.scratch),
            "scratch_base": str(self.scratch_base),
            "manifest": str(self.manifest) if self.manifest else None,
            "lead_ns": self.lead_ns,
            "timeout_ns": self.timeout_ns,
            "limits": self.limits,
        }
        if self.role:
            out |= {"role": self.role, "ranks": self.ranks, "begin_ns": self.begin_ns}
        else:
            out["tells"] = self.tells
        if self.roles:
            out["roles"] = [role.to_json() for role in self.roles]
        if self.earlier is not None:
            out["earlier"] = [asdict(one) for one in self.earlier]
        if self.extra:
            out["extra"] = self.extra
        if self.nodes:
            out["nodes"] = self.nodes
            out["clock"] = {"addresses": self.clock_addresses, "bound_ns": self.clock_bound_ns}
            out["silence_ns"] = self.silence_ns
        return out

    @classmethod
    def from_json(cls, data: Facts) -> Self:
        given = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        clock = data.get("clock", {})
        return cls(
            **given
            | {
                "point": Point.from_json(data["point"]),
                "endpoints": [Endpoint(**one) for one in data["endpoints"]],
                "buckets": [Bucket(**one) for one in data["buckets"]],
                "scratch": Path(data["scratch"]),
                "scratch_base": Path(data["scratch_base"]),
                "manifest": Path(data["manifest"]) if data["manifest"] else None,
                "roles": [cls.from_json(role) for role in data.get("roles", ())],
                "earlier": [Earlier(**one) for one in data["earlier"]] if "earlier" in data else None,
                "clock_addresses": [(host, port) for host, port in clock.get("addresses", ())],
                "clock_bound_ns": clock.get("bound_ns", 0),
            }
        )

    def write(self, folder: Path) -> None:
        """Write `job.json` into the folder of the gang."""
        records.write_json(folder / "job.json", self.to_json())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read `job.json` from the folder of the gang."""
        return cls.from_json(records.read_json(folder / "job.json"))


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


@dataclass
class ClientResult:
    """The facts of one client, which it leaves as `result.<rank>` and the record keeps. Times are UTC nanoseconds.

    A client that failed has `failure`, and its other fields as far as it came.
    """

    client: int  # its rank in the gang
    host: str
    pid: int
    clock_offset_ns: int = 0
    endpoint: str = ""  # URL of its first front-end
    role: str = ""
    t0_ns: int = 0  # agreed start of the gang
    begin_ns: int = 0  # when its role begins
    deadline_ns: int = 0
    saw_go_in_time: bool = False
    lateness_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    cpu_user_s: float = 0.0
    cpu_system_s: float = 0.0
    max_rss_bytes: int = 0
    disk_read_bytes: int | None = None
    engine: Facts = field(default_factory=dict)  # what the engine records of itself
    checks: list[Check] = field(default_factory=list)
    connections_max: int | None = None
    connections: list[Any] = field(default_factory=list)
    operations: int = 0
    errors: int = 0
    bytes: int = 0
    exit_status: int = 1
    failure: str = ""
    node: int | None = None  # its number, where the gang has several

    def to_json(self) -> Facts:
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        out["checks"] = [asdict(check) for check in self.checks]
        absent = [name for name in ("role", "failure") if not out[name]]
        if self.node is None:
            absent.append("node")
        return {name: value for name, value in out.items() if name not in absent}

    @classmethod
    def from_json(cls, data: Facts) -> Self:
        return cls(**data | {"checks": [Check(**check) for check in data.get("checks", ())]})

    @classmethod
    def read(cls, folder: Path, rank: int) -> Self:
        """Read what a client left in the folder of the gang."""
        return cls.from_json(records.read_json(folder / f"result.{rank}"))


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
