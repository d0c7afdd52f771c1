"""Define the contract between the coordinator of a point, its clients, and the engines.

A gang runs N client processes. The coordinator writes one `GangJob` for all clients into `job.json`. Each client takes
its `Job` from this file and calls `prepare()`, which imports libraries, connects and makes files. This is not measured.
The client then waits for the other clients, and calls `run(start_ns, deadline_ns)` at the agreed start. Its `Result` is
stored as tables, and as a `ClientResult` in `result.<rank>`.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from storelab.core import records
from storelab.core.model import JsonObject, Point, accounts_of
from storelab.stores.protocols.endpoint import Bucket, Endpoint

Limits = dict[str, float | None]  # `limits` of the configuration, and the free space in the store


@dataclass(frozen=True)
class Job:
    """Everything that one client needs, except the credentials, which are in the environment."""

    point: Point
    client: int  # 0 … clients - 1 within its role
    endpoint: Endpoint
    buckets: list[Bucket]
    scratch: Path  # this client's folder on tmpfs
    manifest: Path | None  # manifest of the data set that the point reads
    attempt: str = ""  # id of this attempt; the names of new objects contain it
    limits: Limits = field(default_factory=dict)
    account: int = 0  # account whose keys are in the client's environment
    accounts: tuple[int, ...] = ()  # all accounts, if the client uses several in turn; `account` is the first one
    endpoints: list[Endpoint] = field(default_factory=list)  # all front-ends of the point, for clients that use several
    extra: dict[str, Any] = field(default_factory=dict)  # values that the workload's `before` collected for its clients
    ledger: Path | None = None  # path of the client's ledger in the folder of the attempt, if the client writes one
    rank: int = -1  # rank in the gang, if it differs from `client` because the point has several roles
    progress_file: Path | None = None  # file which the client rewrites with its progress; None: no progress is reported
    role: str = ""
    size: int = 1  # number of clients of the whole gang
    timeout_ns: int = 0  # maximum wait for the other clients
    begin_ns: int = 0  # delay of this client after the start of the gang

    @property
    def number(self) -> int:
        """The client's number in records."""
        return self.client if self.rank < 0 else self.rank

    @property
    def account_buckets(self) -> list[Bucket]:
        """The buckets of this client's accounts."""
        return [b for b in self.buckets if self.owns(b)]

    def owns(self, bucket: Bucket) -> bool:
        """Return True if the bucket belongs to an account of this client."""
        return bucket.account in (self.accounts or (self.account,))


@dataclass(frozen=True)
class Earlier:
    """An earlier point of the same series, and its recorded attempt."""

    part: int
    attempt: str


@dataclass
class GangJob:
    """The content of `job.json`: the job of a whole gang, or of the clients of one role.

    It contains no secrets. A point with roles has one job for each role in `roles`. The last four fields are set by
    launchers that start clients on several nodes.
    """

    point: Point
    attempt: str  # id of this attempt; the names of new objects contain it
    size: int  # number of clients
    endpoints: list[Endpoint]
    buckets: list[Bucket]
    accounts: int
    scratch: Path  # on tmpfs
    scratch_base: Path  # folder on the nodes that is on tmpfs
    manifest: Path | None  # manifest of the data set that the point reads
    lead_ns: int
    timeout_ns: int
    limits: Limits
    reports_progress: bool = False  # clients report their progress while they work
    role: str = ""
    ranks: list[int] = field(default_factory=list)  # ranks in the gang, for the job of a role
    begin_ns: int = 0  # delay after the start of the gang, for the job of a role
    roles: "list[GangJob]" = field(default_factory=list)
    earlier: list[Earlier] | None = None
    extra: JsonObject = field(default_factory=dict)  # values that the workload's `before` collected for its clients
    nodes: list[list[int]] = field(default_factory=list)  # ranks of the clients of each node
    clock_addresses: list[tuple[str, int]] = field(default_factory=list)  # addresses of the coordinator's clock
    clock_bound_ns: int = 0
    silence_ns: int = 0  # time without a message after which the coordinator counts as lost

    @property
    def parts(self) -> "list[GangJob]":
        """The jobs of the roles in their order; for a point without roles, the job itself."""
        return self.roles or [self]

    def job_of_rank(self, rank: int) -> "GangJob":
        """Return the job of the role to which a client belongs. If there are no roles, return this job."""
        return next((role for role in self.roles if rank in role.ranks), self)

    def job_of_client(self, rank: int, folder: Path) -> Job:
        """Return the job of one client. folder: the folder of the gang, where the client writes its files."""
        role_job = self.job_of_rank(rank)
        client = rank - role_job.ranks[0] if role_job.ranks else rank
        accounts = accounts_of(client, role_job.point.axes.get("clients", 1), role_job.accounts)
        return Job(
            point=role_job.point,
            client=client,
            endpoint=role_job.endpoints[client % len(role_job.endpoints)],
            buckets=role_job.buckets,
            scratch=self.scratch / f"{self.attempt}-{rank}",
            manifest=role_job.manifest,
            attempt=role_job.attempt,
            limits=role_job.limits,
            account=accounts[0],
            accounts=accounts,
            endpoints=role_job.endpoints,
            extra=role_job.extra,
            rank=rank,
            ledger=folder / f"ledger.{rank}",
            progress_file=folder / f"progress.{rank}" if self.reports_progress else None,
            role=role_job.role,
            size=self.size,
            timeout_ns=self.timeout_ns,
            begin_ns=role_job.begin_ns,
        )

    def to_json(self) -> JsonObject:
        """Return the job as values for JSON."""
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
            out["reports_progress"] = self.reports_progress
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
    def from_json(cls, data: JsonObject) -> Self:
        """Return the job whose `to_json()` gave this data."""
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
    """One check of a measured point. If a check fails, the point fails."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class Written:
    """A file of `records.OPS` that the program of an engine wrote itself, with its totals.

    The totals are the numbers of successful and failed objects, and the useful bytes.
    """

    file: Path
    operations: int
    errors: int
    bytes: int


@dataclass
class Result:
    """The results of one client: columns of `records.OPS` (and `records.READS`), engine facts, and checks.

    `written` replaces `ops` if the program of the engine wrote the file itself. `tables` has the columns of further
    files, by their name in `records.TABLES`.
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
    """The results of one client that are stored in `result.<rank>` and copied into the record. Times are UTC in ns.

    If a client failed, `failure` has the reason. Fields that were not yet known at that time are empty.
    """

    client: int  # rank of the client in the gang
    host: str
    pid: int
    clock_offset_ns: int = 0
    endpoint: str = ""  # URL of the first front-end
    role: str = ""
    t0_ns: int = 0  # agreed start of the gang
    begin_ns: int = 0  # start of the client's role
    deadline_ns: int = 0
    saw_go_in_time: bool = False
    lateness_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    cpu_user_s: float = 0.0
    cpu_system_s: float = 0.0
    max_rss_bytes: int = 0
    disk_read_bytes: int | None = None
    engine: JsonObject = field(default_factory=dict)  # further values that the engine records
    checks: list[Check] = field(default_factory=list)
    connections_max: int | None = None
    connections: list[Any] = field(default_factory=list)
    operations: int = 0
    errors: int = 0
    bytes: int = 0
    exit_status: int = 1
    failure: str = ""
    node: int | None = None  # number of the node, if the gang has several nodes

    def to_json(self) -> JsonObject:
        """Return the result as values for JSON, without optional values that are empty."""
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        out["checks"] = [asdict(check) for check in self.checks]
        absent = [name for name in ("role", "failure") if not out[name]]
        if self.node is None:
            absent.append("node")
        return {name: value for name, value in out.items() if name not in absent}

    @classmethod
    def from_json(cls, data: JsonObject) -> Self:
        """Return the result whose `to_json()` gave this data."""
        return cls(**data | {"checks": [Check(**check) for check in data.get("checks", ())]})

    @classmethod
    def read(cls, folder: Path, rank: int) -> Self:
        """Return the result that a client wrote into the folder of the gang."""
        return cls.from_json(records.read_json(folder / f"result.{rank}"))


class Client(ABC):
    """One client process of a point. Times are UTC in ns, from `storelab.core.clock.now_ns`."""

    def __init__(self, job: Job):
        self.job = job

    @abstractmethod
    def prepare(self) -> None:
        """Do everything that is not measured: import libraries, write input files to tmpfs, and open connections."""

    @abstractmethod
    def run(self, start_ns: int, deadline_ns: int) -> None:
        """Work from the agreed start until the deadline, and return soon after it. Results stay in memory."""

    @abstractmethod
    def result(self) -> Result:
        """Parse and check the results after the deadline, and return them. This is not measured."""

    def close(self) -> None:
        """Stop child processes, and remove files in the scratch folder. It is always called, also after errors."""
