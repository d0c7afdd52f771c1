"""The interface of stores (systems under test), as the measuring side uses it.

A store consists of one file or folder in `stores/`, with its settings, its class and its installation recipe; one line
in `stores/__init__.py`; and one test. May import: `core`, `stores.protocols`. Client processes import this module, so
it must not import pydantic, boto3 or fsspec.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from storelab.core.axes import DEPLOYMENT
from storelab.core.errors import UserError, one_line
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint

if TYPE_CHECKING:  # boto3 and fsspec are slow to import, and client processes read this module
    from storelab.core.config_types import StrictModel
    from storelab.install import Part
    from storelab.stores.protocols.access import Access

MAX_VERSION = 200  # characters
MAX_BUCKET_NAME = 63  # characters, in S3
CONDITION_TIMEOUT_S = 1.0  # seconds; a store that takes longer to report its condition is down

# The answers in the capability table, by the probe or by a store's administration.
# `yes`: it works as defined; `no`: it is missing or refused; `differs`: the store answers, but not as defined;
# `not tried`: the check was not possible (the evidence gives the reason); `error`: the check failed, nothing is known.
YES, NO, DIFFERS, NOT_TRIED, ERROR = ANSWERS = ("yes", "no", "differs", "not tried", "error")


@dataclass(frozen=True)
class AdminAnswer:
    """A report of a store's administration. answer: one of ANSWERS; evidence: one line to check, without secrets."""

    check: str
    answer: str
    evidence: str


@dataclass
class Cooling:
    """The steps that removed a store's data from its memory.

    done: the steps, in words; folders: folders of its data on this machine, where disk reads are expected;
    still_cached: fraction of their pages that the kernel still cached; why: the reason if nothing could be done.
    """

    done: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    still_cached: float | None = None
    why: str = ""


@dataclass
class Status:
    """The state of a store for `storelab status`: `up`, `down`, `partly` or `external`."""

    name: str
    kind: str
    state: str
    version: str = ""
    endpoints: list[str] = field(default_factory=list)
    pids: dict[str, int] = field(default_factory=dict)
    detail: str = ""


CLEAN, DEGRADED, RECOVERING, DOWN, UNKNOWN = CONDITIONS = ("clean", "degraded", "recovering", "down", "unknown")


@dataclass(frozen=True)
class Condition:
    """The condition that a store reports: one of five states, and one line in the store's words."""

    state: str = UNKNOWN
    detail: str = ""


class Store(ABC):
    """Interface of a store.

    All methods raise UserError for mistakes of the user, MeasurementFailed for a failing system.
    A setting that is also an axis (`core.axes.DEPLOYMENT`) defines a deployment: a separate store next to this one, see
    `deployed`.
    """

    Settings: "ClassVar[type[StrictModel]]"  # model of the store's keys in config.yaml; `kind` is one of them
    recipe: "ClassVar[Callable[[Path], list[Part]] | None]" = None  # tools folder -> what `storelab install` installs
    managed: bool = False
    protocol: str = "s3"  # between the clients and the store
    port_block: int = 0  # number of ports that one deployment uses, from `settings.port` on
    second_block: int = 0  # offset of a second block of the same length; 0: none
    reports_usage: bool = False  # whether `used_bytes` has an answer
    retains_data: bool = True  # whether written data can be read again: False for the null server

    def __init__(self, name: str, settings: Any, state: Path):
        self.name, self.settings, self.state = name, settings, state
        self.place = f"stores.{name.partition('+')[0]}"

    @abstractmethod
    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Make at least `front_ends` front-ends usable by `accounts` accounts.

        Start what is missing, wait until it is healthy, warm up. Idempotent. External stores are only checked.
        """

    def require(self) -> None:
        """Check that this store can be deployed here.

        Raises UserError if a program is missing, with the command that installs it, or if root must run the store.
        """

    def serves(self, url: str) -> bool:
        """Return whether a running daemon of this store listens at the host and port of a URL."""
        return False

    def down(self) -> list[int]:
        """Stop what storelab started and return the stopped pids. Idempotent; does nothing for external stores."""
        return []

    def status(self) -> Status:
        """Return the state of the store; for an external store, check if its first front-end is usable now."""
        try:
            self.up()
            version, detail = self.version(), "usable"
        except UserError as error:
            version, detail = "", f"{error.problem}; {error.hint}" if error.hint else error.problem
        try:
            urls = [end.url for end in self.endpoints(self.most("front_ends"))]
        except UserError:
            urls = []
        return Status(self.name, self.settings.kind, "external", version, urls, {}, detail)

    def version(self) -> str:
        """Return the version that the system reports; '' if it reports none or cannot be reached.

        A server may send any text: the version has one line of at most MAX_VERSION printable characters.
        """
        return one_line(self._version)[:MAX_VERSION]

    @cached_property
    def _version(self) -> str:
        """The version, requested once."""
        return ""

    @abstractmethod
    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        """Return the first `front_ends` front-ends. Raises UserError if there are fewer."""

    def credentials(self, account: int = 0) -> Credentials | None:
        """Return the keys of an account, counted from 0; None if the protocol has no keys.

        Raises UserError if the account does not exist.
        """
        return None

    def credentials_end(self) -> list[tuple[str, str, float]]:
        """Return the credentials with a known expiry: (place in the configuration, variable, expiry in UTC seconds)."""
        return []

    @abstractmethod
    def deployment(self) -> dict[str, Any]:
        """Describe the deployment for the records (daemons, front-ends, redundancy, backing), without secrets."""

    @abstractmethod
    def most(self, axis: str) -> int:
        """Return the largest value of the axis `front_ends` or `accounts` that this store can serve."""

    def accounts(self) -> int:
        """Return the number of accounts that exist now; their indices are 0 … n - 1."""
        return 1

    def access(self, account: int = 0, front_end: int = 0) -> "Access":
        """Return access to the store outside of measurements; it refuses to write if the store is read-only."""
        from storelab.stores.protocols import open_access
        from storelab.stores.protocols.access import PatientAccess

        endpoint = self.endpoints(front_end + 1)[front_end]
        way = open_access(endpoint, self.credentials(account), self.place, bool(self.settings.read_only))
        return PatientAccess(way)

    def bucket(self, campaign: str, index: int, account: int = 0) -> Bucket:
        """Return the campaign's `index`-th bucket, which belongs to `account`."""
        external = hasattr(self.settings, "prefix")
        name = self.bucket_name(self.settings.prefix if external else "storelab", campaign, index, account)
        if self.protocol == "s3" and len(name) > MAX_BUCKET_NAME:
            raise UserError(
                f"{self.place}.prefix" if external else "name",
                f"the bucket name {name!r} is longer than {MAX_BUCKET_NAME} characters",
                f"shorten {'`prefix` or ' if external else ''}the campaign's name",
            )
        return Bucket(name, "", account)

    @staticmethod
    def bucket_name(prefix: str, campaign: str, index: int, account: int = 0) -> str:
        """Return `<prefix>-<campaign>[-a<account>]-<index>`; the first account's buckets have no account number."""
        owner = f"a{account}-" if account else ""
        return f"{prefix}-{campaign.lower().replace('.', '-')}-{owner}{index:04d}"

    def on_this_host(self) -> bool:
        """Return whether the store uses this machine's cores, at any address."""
        return self.managed

    def multipart(self) -> bool:
        """Return whether multipart uploads are possible (S3)."""
        return True

    def buckets_per_account(self) -> int | None:
        """Return the maximum number of buckets of an account; None if no limit is known."""
        return None

    def variant(self, axes: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that these axes change; {} for the deployment as configured.

        Raises UserError if this store has no such setting.
        """
        out = {}
        for axis in DEPLOYMENT:
            if (value := axes.get(axis.name, axis.default)) == axis.default:
                continue
            if axis.setting not in type(self.settings).model_fields:
                raise UserError(
                    f"axes.{axis.name}",
                    f"store {self.name} (kind {self.settings.kind}) has no {axis.name} to choose",
                    "remove it",
                )
            if (wanted := axis.setting_values.get(value, value)) != getattr(self.settings, axis.setting):
                out[axis.setting] = wanted
        return out

    def ports(self) -> list[range]:
        """Return the blocks of ports that the store uses on this host; [] for an external store."""
        starts = sorted({self.settings.port, self.settings.port + self.second_block}) if self.port_block else []
        return [range(start, start + self.port_block) for start in starts]

    def moved(self, settings: Any, index: int) -> Any:
        """Return the settings of this store's `index`-th deployment, with its ports after those of the earlier ones."""
        return (
            settings.model_copy(update={"port": settings.port + index * self.port_block})
            if self.port_block
            else settings
        )

    def actors(self) -> dict[str, int]:
        """Return name -> pid of the daemons whose CPU use is recorded and which fault tests can kill."""
        return {}

    def request_counts(self) -> dict[str, dict[str, int] | None]:
        """Return name -> request counts since its start, for each server that clients may be sent to.

        The counts are the server's; they include its `pid`. None for a server that does not report; {} if clients use
        one server only.
        """
        return {}

    def command_prefix(self, client: int) -> tuple[str, ...]:
        """Return the command prefix that runs client `client` of a gang on the host of a data server.

        () if clients do not run on the data servers.
        """
        return ()

    # Faults: see docs/faults.md

    def data_actors(self) -> list[str]:
        """Return the daemons or drives that hold the data; faults call them `data.0`, `data.1` and so on."""
        return []

    def front_actors(self, front_ends: int) -> list[str]:
        """Return the first `front_ends` front-ends; faults call them `front.0` and so on."""
        return []

    def known_actors(self, front_ends: int) -> list[str]:
        """Return the names of all possible targets of a fault, running or not."""
        return []

    def tolerated_failures(self) -> int:
        """Return how many of `data_actors` can be lost at the same time without loss of data."""
        return 0

    def condition(self) -> Condition:
        """Return the store's own report of its redundancy now, within about a second."""
        return Condition()

    def repair(self) -> list[str]:
        """Repair what faults of a killed storelab left behind; return lines to print. Idempotent."""
        if not (Path(self.state).absolute() / self.name / "faults.json").exists():
            return []
        from storelab.stores import faults  # here: planning needs no psutil, which is slow to import

        return faults.repair(self)

    def suspend(self) -> None:
        """Stop the daemons' CPU (SIGSTOP) while another store is measured. Idempotent; nothing for external stores."""

    def resume(self) -> None:
        """Undo `suspend`. Idempotent."""

    def memory_only(self) -> bool:
        """Return whether all its data are in memory, so that no read can be cold."""
        return False

    def data_folders(self) -> list[Path]:
        """Return the folders on this machine that hold its data; [] if the data are elsewhere or in memory."""
        return []

    def cool(self, front_ends: int = 1, accounts: int = 1) -> Cooling:
        """Remove its data from all memory that storelab can reach; the store stays as usable as after `up`."""
        return Cooling(why="storelab did not start this store, so it can neither restart it nor drop its caches")

    def free_bytes(self) -> int | None:
        """Return the free space for data; None if it is unknown."""
        return None

    def capacity_bytes(self) -> int | None:
        """Return the space for data in the empty store, in bytes; None if it is unknown or shared with others."""
        return None

    def retains_overwritten(self, size_bytes: int) -> bool:
        """Return whether overwriting an object of this size frees its old space only with `reclaim`."""
        return False

    def used_bytes(self) -> int | None:
        """Return the raw bytes of all copies of the data, on disks or in memory; None if unknown."""
        return None

    def administration(self) -> "list[AdminAnswer]":
        """Return the reports of the system's tools on users and keys (`managed/accounts.py`); [] if it has none."""
        return []

    def reclaim(self) -> None:
        """Free the space of deleted objects if the system does so on request only; never during a measurement."""


WHOLE, RESTARTED, SILENT = "whole", "restarted", "silent"  # `state` of a server; see docs/records.md


class ServerRequests:
    """The requests that each server of a store answered in a point, by the servers' own counts before and after it.

    Create it before the clients start; call `end` after they have stopped. record: None if clients use one server only.
    """

    def __init__(self, store: Store):
        self.store, self.before = store, store.request_counts()
        self.record: list[dict[str, Any]] | None = None

    def end(self) -> None:
        """Read the counts of the servers again, and set `record` to the differences."""
        if self.before:
            after = self.store.request_counts()
            self.record = [{"name": name, **difference(was, after.get(name))} for name, was in self.before.items()]


def difference(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, Any]:
    """Return what a server answered between two counts, or since its start if it restarted or did not report before."""
    if after is None:
        return {"state": SILENT}
    same = before is not None and before["pid"] == after["pid"]
    counts = {name: n - (before[name] if same and before else 0) for name, n in after.items() if name != "pid"}
    return {"state": WHOLE if same else RESTARTED, **counts}
