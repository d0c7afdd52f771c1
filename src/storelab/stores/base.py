"""The interface of stores (systems under test) that measurements use.

A new store needs three things: one file or folder in `stores/` with its settings, class and installation recipe; one
line in `stores/__init__.py`; one test. This module may import `core` and `stores.protocols`. Client processes import
it, so it must not import pydantic, boto3 or fsspec.
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

if TYPE_CHECKING:  # boto3 and fsspec are slow to import, and client processes import this module
    from storelab.core.config_types import StrictModel
    from storelab.install import Part
    from storelab.stores.protocols.access import Access

MAX_VERSION = 200  # maximum number of characters
MAX_BUCKET_NAME = 63  # maximum length in S3
CONDITION_TIMEOUT_S = 1.0  # seconds; a store that needs longer to report its condition is considered down

# The answers in the capability table. The probe or a store's administration gives them.
# `yes`: the capability works as defined; `no`: it is missing or refused; `differs`: the store answers, but not as
# defined; `not tried`: the check was not possible (the evidence gives the reason); `error`: the check failed, so that
# nothing is known.
YES, NO, DIFFERS, NOT_TRIED, ERROR = ANSWERS = ("yes", "no", "differs", "not tried", "error")


@dataclass(frozen=True)
class AdminAnswer:
    """The result of a check with a store's administration tools.

    `answer` is one of ANSWERS. `evidence` is one line of text that supports it, without secrets.
    """

    check: str
    answer: str
    evidence: str


@dataclass
class Cooling:
    """The steps that removed a store's data from its memory.

    Attributes
    ----------
    done
        Descriptions of the steps.
    folders
        Folders on this machine that contain the store's data. A cold read must read from their disks.
    still_cached
        Fraction of the pages of these folders that the kernel still cached.
    why
        Reason if no step was possible.
    """

    done: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    still_cached: float | None = None
    why: str = ""


@dataclass
class Status:
    """The state of a store for `storelab status`. `state` is `up`, `down`, `partly` or `external`."""

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
    """The condition that a store reports: one of CONDITIONS, and one line with details."""

    state: str = UNKNOWN
    detail: str = ""


class Store(ABC):
    """The interface of a store.

    All methods raise UserError for mistakes of the user, and MeasurementFailed if a system fails. Some settings are
    also axes (`core.axes.DEPLOYMENT`). For another value of such an axis, `deployed` returns a separate store.
    """

    Settings: "ClassVar[type[StrictModel]]"  # model of the store's keys in config.yaml; `kind` is one of them
    recipe: "ClassVar[Callable[[Path], list[Part]] | None]" = None  # tools folder -> parts of the installation
    managed: bool = False
    protocol: str = "s3"  # protocol between clients and store
    port_block: int = 0  # number of ports that one deployment uses, starting at `settings.port`
    second_block: int = 0  # offset of a second block of the same length; 0 if there is none
    reports_usage: bool = False  # whether `used_bytes` returns a number
    retains_data: bool = True  # whether written data can be read again; False for the near-null server

    def __init__(self, name: str, settings: Any, state: Path):
        self.name, self.settings, self.state = name, settings, state
        self.place = f"stores.{name.partition('+')[0]}"

    @abstractmethod
    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Make at least `front_ends` front-ends usable by `accounts` accounts.

        Start missing daemons, wait until they are healthy, and warm them up. An external store is only checked. A
        second call has no effect.
        """

    def require(self) -> None:
        """Check that this store can be deployed here.

        Raises UserError if a program is missing, with the command that installs it, or if the store needs root.
        """

    def serves(self, url: str) -> bool:
        """Return whether a running daemon of this store listens at the host and port of a URL."""
        return False

    def down(self) -> list[int]:
        """Stop the daemons that storelab started, and return their pids. External stores have none."""
        return []

    def status(self) -> Status:
        """Return the state of the store. For an external store, check whether its first front-end is usable now."""
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

        The text of the server is reduced to one line of at most MAX_VERSION printable characters.
        """
        return one_line(self._version)[:MAX_VERSION]

    @cached_property
    def _version(self) -> str:
        """The version as the server reports it. It is requested only once."""
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
        """Return place in the configuration, variable, and expiry (Unix seconds) of the credentials that expire."""
        return []

    def credentials_refused(self) -> str:
        """Return why the credentials are not accepted any more; '' if they are, or if the store does not answer."""
        from storelab.stores.protocols import tokens

        return tokens.ended(self.credentials_end())

    @abstractmethod
    def deployment(self) -> dict[str, Any]:
        """Return the deployment for the records (daemons, front-ends, redundancy, backing), without secrets."""

    @abstractmethod
    def most(self, axis: str) -> int:
        """Return the largest value of the axis `front_ends` or `accounts` that this store can serve."""

    def accounts(self) -> int:
        """Return the number of accounts that exist now; their indices are 0 … n - 1."""
        return 1

    def access(self, account: int = 0, front_end: int = 0) -> "Access":
        """Return an object for access outside of measurements. It refuses to write if the store is read-only."""
        from storelab.stores.protocols import open_access
        from storelab.stores.protocols.access import PatientAccess

        endpoint = self.endpoints(front_end + 1)[front_end]
        way = open_access(endpoint, self.credentials(account), self.place, bool(self.settings.read_only))
        return PatientAccess(way)

    def bucket(self, campaign: str, index: int, account: int = 0) -> Bucket:
        """Return the campaign's bucket with this index, which belongs to `account`."""
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
        """Return the bucket name `<prefix>-<campaign>[-a<account>]-<index>`.

        Buckets of the first account have no account number in their name.
        """
        owner = f"a{account}-" if account else ""
        return f"{prefix}-{campaign.lower().replace('.', '-')}-{owner}{index:04d}"

    def on_this_host(self) -> bool:
        """Return whether the servers of the store run on this machine and so use its cores."""
        return self.managed

    def multipart(self) -> bool:
        """Return whether multipart uploads are possible (S3)."""
        return True

    def buckets_per_account(self) -> int | None:
        """Return the maximum number of buckets of an account; None if no limit is known."""
        return None

    def variant(self, axes: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that these axes change; {} for the configured deployment.

        Raises UserError if this store has no such setting.
        """
        out = {}
        for axis in DEPLOYMENT:
            if (value := axes.get(axis.name, axis.default)) == axis.default:
                continue
            if axis.setting not in type(self.settings).model_fields:
                raise UserError(
                    f"axes.{axis.name}",
                    f"store {self.name} (kind {self.settings.kind}) has no setting {axis.name}",
                    "remove this axis",
                )
            if (wanted := axis.setting_values.get(value, value)) != getattr(self.settings, axis.setting):
                out[axis.setting] = wanted
        return out

    def ports(self) -> list[range]:
        """Return the blocks of ports that the store uses on this host; [] for an external store."""
        starts = sorted({self.settings.port, self.settings.port + self.second_block}) if self.port_block else []
        return [range(start, start + self.port_block) for start in starts]

    def moved(self, settings: Any, index: int) -> Any:
        """Return the settings of the deployment with this index. Its ports follow the ports of earlier deployments."""
        return (
            settings.model_copy(update={"port": settings.port + index * self.port_block})
            if self.port_block
            else settings
        )

    def actors(self) -> dict[str, int]:
        """Return the pids, by name, of the daemons whose CPU use is recorded. Faults can kill these daemons."""
        return {}

    def request_counts(self) -> dict[str, dict[str, int] | None]:
        """Return the request counts, by name, of each server to which clients may be redirected.

        A server counts its requests since its start; the counts include its `pid`. They are None for a server that does
        not report. The result is {} if clients use only one server.
        """
        return {}

    def command_prefix(self, client: int) -> tuple[str, ...]:
        """Return the command prefix that runs this client of a gang on the host of a data server.

        It is empty if clients do not run on the data servers.
        """
        return ()

    # Faults: see docs/faults.md

    def data_actors(self) -> list[str]:
        """Return the names of the daemons or drives that store the data. In faults they are `data.0` and so on."""
        return []

    def front_actors(self, front_ends: int) -> list[str]:
        """Return the names of the first `front_ends` front-ends. In faults they are `front.0` and so on."""
        return []

    def known_actors(self, front_ends: int) -> list[str]:
        """Return the names of all possible targets of a fault. They need not be running."""
        return []

    def tolerated_failures(self) -> int:
        """Return how many of `data_actors` can be lost at the same time without loss of data."""
        return 0

    def condition(self) -> Condition:
        """Return what the store reports about its redundancy now. The call takes about one second at most."""
        return Condition()

    def repair(self) -> list[str]:
        """Undo faults that a killed storelab process left in the store, and return lines to print."""
        if not (Path(self.state).absolute() / self.name / "faults.json").exists():
            return []
        from storelab.stores import (
            faults,
        )  # imported here, because psutil is slow to import and planning does not need it

        return faults.repair(self)

    def suspend(self) -> None:
        """Pause the daemons (SIGSTOP) while another store is measured. External stores have no daemons to pause."""

    def resume(self) -> None:
        """Continue the daemons that `suspend` paused."""

    def memory_only(self) -> bool:
        """Return whether all data of the store are in memory, so that no read can be cold."""
        return False

    def data_folders(self) -> list[Path]:
        """Return the folders on this machine with the store's data; [] if the data are elsewhere or in memory."""
        return []

    def cool(self, front_ends: int = 1, accounts: int = 1) -> Cooling:
        """Remove the store's data from all caches that storelab can clear. The store stays usable as after `up`."""
        return Cooling(why="storelab did not start this store, so it can neither restart it nor drop its caches")

    def free_bytes(self) -> int | None:
        """Return the free space for data in bytes; None if it is unknown."""
        return None

    def capacity_bytes(self) -> int | None:
        """Return the space for data in the empty store in bytes; None if it is unknown or shared with others."""
        return None

    def retains_overwritten(self, size_bytes: int) -> bool:
        """Return whether the space of an overwritten object of this size stays in use until `reclaim`."""
        return False

    def used_bytes(self) -> int | None:
        """Return the raw bytes of all copies of the data, on disks or in memory; None if they are unknown."""
        return None

    def administration(self) -> "list[AdminAnswer]":
        """Return what the system's tools report about users and keys (`managed/accounts.py`); [] without such tools."""
        return []

    def reclaim(self) -> None:
        """Free the space of deleted objects, if the system frees it only on request. Measurements do not call this."""


WHOLE, RESTARTED, SILENT = "whole", "restarted", "silent"  # values of `state` of a server; see docs/records.md


class ServerRequests:
    """The number of requests that each server of a store answered in a point, from counts before and after it.

    Create the object before the clients start, and call `end` after they have stopped. `record` is None if clients use
    only one server.
    """

    def __init__(self, store: Store):
        self.store, self.before = store, store.request_counts()
        self.record: list[dict[str, Any]] | None = None

    def end(self) -> None:
        """Read the servers' counts again, and set `record` to the differences."""
        if self.before:
            after = self.store.request_counts()
            self.record = [{"name": name, **difference(was, after.get(name))} for name, was in self.before.items()]


def difference(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, Any]:
    """Return the number of requests between two counts of a server.

    If the server restarted or did not report before, the requests since its start are counted.
    """
    if after is None:
        return {"state": SILENT}
    same = before is not None and before["pid"] == after["pid"]
    counts = {name: n - (before[name] if same and before else 0) for name, n in after.items() if name != "pid"}
    return {"state": WHOLE if same else RESTARTED, **counts}
