"""What every store (system under test) offers to the measuring side.

A store is one file or folder here, with its settings, its class and the recipe of its installation; one line in
`stores/__init__.py`; one test. May import: `core`, `stores.protocols`. Client processes import this module: no
pydantic, boto3 or fsspec.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from storelab.core.axes import DEPLOYMENT
from storelab.core.errors import UserError
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint

if TYPE_CHECKING:  # boto3 and fsspec are slow to import, and client processes read this module
    from storelab.core.config_types import Closed
    from storelab.install import Part
    from storelab.stores.protocols.access import Access

MOST_BUCKET_NAME = 63  # characters, of S3
ASK_S = 1.0  # a store that does not answer its condition for so long is down

# The words of the capability table: what the probe, and a store's own administration, answer to a question.
# `yes`: it works as its definition says; `no`: it is not there, or refused; `differs`: it answers, but not so;
# `not tried`: it could not be asked (the evidence says why); `error`: the question itself failed, nothing is known.
YES, NO, DIFFERS, NOT_TRIED, ERROR = ANSWERS = ("yes", "no", "differs", "not tried", "error")


@dataclass(frozen=True)
class Told:
    """What a store's administration says. answer: one of ANSWERS; evidence: one line to check, nothing secret."""

    check: str
    answer: str
    evidence: str


@dataclass
class Cooling:
    """What took a store's data out of its memory. done: in words; folders: of its data on this machine, in which disk
    reads are looked for; still_cached: part of their places that the kernel still held; why: nothing could be done."""

    done: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    still_cached: float | None = None
    why: str = ""


@dataclass
class Status:
    """State of a store for `storelab status`: `up`, `down`, `partly` or `external`."""

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
    """What a store says of itself, in one of five words, and in its own (one line)."""

    state: str = UNKNOWN
    detail: str = ""


class Store(ABC):
    """Interface of a store. All methods raise UserError for a person's mistake, MeasurementFailed for a failing system.

    Settings that are axes too (`core.axes.DEPLOYMENT`) make a deployment: a store of its own beside this one, see
    `deployed`.
    """

    Settings: "ClassVar[type[Closed]]"  # model of the store's keys in config.yaml; `kind` is one of them
    recipe: "ClassVar[Callable[[Path], list[Part]] | None]" = None  # tools folder -> what `storelab install` installs
    managed: bool = False
    protocol: str = "s3"  # what clients speak to it
    port_block: int = 0  # ports that one deployment takes, from `settings.port` on
    second_block: int = 0  # offset of as many further ports that it takes; 0: none
    tells_used: bool = False  # whether `used_bytes` has an answer
    keeps: bool = True  # whether what is written can be read again: not at the null server

    def __init__(self, name: str, settings: Any, state: Path):
        self.name, self.settings, self.state = name, settings, state
        self.place = f"stores.{name.partition('+')[0]}"

    @abstractmethod
    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Make at least `front_ends` front-ends usable by `accounts` accounts: start what is missing, wait until
        healthy, warm up.

        Idempotent. External stores are only looked at.
        """

    def require(self) -> None:
        """Check that this store can be deployed here.

        Raises UserError that says what installs a missing program, or that root must run it.
        """

    def down(self) -> list[int]:
        """Stop what storelab started; returns the pids stopped. Idempotent; does nothing for external stores."""
        return []

    def status(self) -> Status:
        """Of an external store: whether its first front-end is usable now."""
        try:
            self.up()
            version, detail = self.version(), "usable"
        except UserError as error:
            version, detail = "", f"{error.problem}; {error.mend}" if error.mend else error.problem
        try:
            urls = [end.url for end in self.endpoints(self.most("front_ends"))]
        except UserError:
            urls = []
        return Status(self.name, self.settings.kind, "external", version, urls, {}, detail)

    def version(self) -> str:
        """Version as the system itself tells it, '' where it tells none or cannot be reached."""
        return self._version

    @cached_property
    def _version(self) -> str:
        """Asked once."""
        return ""

    @abstractmethod
    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        """The first `front_ends` front-ends. Raises UserError where there are fewer."""

    def credentials(self, account: int = 0) -> Credentials | None:
        """Keys of an account, from 0; None where the protocol knows no keys.

        Raises UserError where there is no such account.
        """
        return None

    def credentials_end(self) -> list[tuple[str, str, float]]:
        """(place in the configuration, variable, when it ends in seconds of UTC) of credentials that tell their end."""
        return []

    @abstractmethod
    def deployment(self) -> dict[str, Any]:
        """What is deployed (daemons, front-ends, redundancy, backing), for the records. Nothing secret."""

    @abstractmethod
    def most(self, axis: str) -> int:
        """The largest value of the axis `front_ends` or `accounts` that this store can serve."""

    def accounts(self) -> int:
        """Accounts that there are now: 0 … n - 1."""
        return 1

    def access(self, account: int = 0, front_end: int = 0) -> "Access":
        """Way into the store outside of measurements; writes are refused where the store is read-only."""
        from storelab.stores.protocols import open_access
        from storelab.stores.protocols.access import PatientAccess

        endpoint = self.endpoints(front_end + 1)[front_end]
        way = open_access(endpoint, self.credentials(account), self.place, bool(self.settings.read_only))
        return PatientAccess(way)

    def bucket(self, campaign: str, index: int, account: int = 0) -> Bucket:
        """Name of the campaign's `index`-th bucket, which is of `account`."""
        external = hasattr(self.settings, "prefix")
        own = self.bucket_name(self.settings.prefix if external else "storelab", campaign, index, account)
        if self.protocol == "s3" and len(own) > MOST_BUCKET_NAME:
            raise UserError(
                f"{self.place}.prefix" if external else "name",
                f"the bucket name {own!r} is longer than {MOST_BUCKET_NAME} characters",
                f"shorten {'`prefix` or ' if external else ''}the campaign's name",
            )
        return Bucket(own, "", account)

    @staticmethod
    def bucket_name(prefix: str, campaign: str, index: int, account: int = 0) -> str:
        """`<prefix>-<campaign>[-a<account>]-<index>`; the first account's stand without its number."""
        owner = f"a{account}-" if account else ""
        return f"{prefix}-{campaign.lower().replace('.', '-')}-{owner}{index:04d}"

    def on_this_host(self) -> bool:
        """Whether the store works with this machine's cores, whatever address its clients use."""
        return self.managed

    def multipart(self) -> bool:
        """Whether uploads in parts are possible (S3)."""
        return True

    def buckets_per_account(self) -> int | None:
        """The most buckets that an account may have; None where no bound is known."""
        return None

    def variant(self, axes: dict[str, Any]) -> dict[str, Any]:
        """The settings that these axes change, {} for the deployment as configured.

        Raises UserError where this store has none such.
        """
        out = {}
        for axis in DEPLOYMENT:
            if (value := axes.get(axis.name, axis.default)) == axis.default:
                continue
            if axis.setting not in type(self.settings).model_fields:
                raise UserError(
                    f"axes.{axis.name}",
                    f"store {self.name} (kind {self.settings.kind}) has no {axis.name} to choose",
                    "leave it out",
                )
            if (wanted := axis.setting_values.get(value, value)) != getattr(self.settings, axis.setting):
                out[axis.setting] = wanted
        return out

    def ports(self) -> list[range]:
        """The blocks of ports that it takes on this host; none of an external store."""
        starts = sorted({self.settings.port, self.settings.port + self.second_block}) if self.port_block else []
        return [range(start, start + self.port_block) for start in starts]

    def moved(self, settings: Any, index: int) -> Any:
        """Settings of this store's `index`-th deployment: its block of ports lies behind those of the earlier ones."""
        return (
            settings.model_copy(update={"port": settings.port + index * self.port_block})
            if self.port_block
            else settings
        )

    def actors(self) -> dict[str, int]:
        """Daemons by name with their pid: whose CPU is recorded, who can be killed in fault tests."""
        return {}

    def answered(self) -> dict[str, dict[str, int] | None]:
        """What each server that clients may be sent to has answered since its start, by its own count: name -> counts,
        among them the `pid` that counts; None of one that does not tell. {} where clients meet one server only."""
        return {}

    def beside(self, client: int) -> tuple[str, ...]:
        """Command that enters the host of a data server, and becomes what follows: where client i of a gang runs, if
        jobs run on the data's own nodes. () where clients have hosts of their own."""
        return ()

    # Faults: see docs/faults.md

    def data_actors(self) -> list[str]:
        """What faults call `data.0`, `data.1` …: the daemons or drives that hold the data."""
        return []

    def front_actors(self, front_ends: int) -> list[str]:
        """What faults call `front.0` …: the front-ends, where there are so many."""
        return []

    def known_actors(self, front_ends: int) -> list[str]:
        """All names that an act may be done to, whether they run or not."""
        return []

    def bears(self) -> int:
        """How many of `data_actors` may be lost at once without loss of data."""
        return 0

    def condition(self) -> Condition:
        """What the store says of its own redundancy now; cheap, and never longer than about a second."""
        return Condition()

    def mend(self) -> list[str]:
        """Take back what faults of a storelab that was killed left behind; returns lines for people. Idempotent."""
        if not (Path(self.state).absolute() / self.name / "faults.json").exists():
            return []
        from storelab.stores import faults  # here: planning needs no psutil, which is slow to import

        return faults.mend(self)

    def suspend(self) -> None:
        """Stop the daemons' CPU (SIGSTOP) while another store is measured. Idempotent; nothing for external stores."""

    def resume(self) -> None:
        """Undo `suspend`. Idempotent."""

    def memory_only(self) -> bool:
        """Whether all its data lie in memory: no read of it is ever cold."""
        return False

    def data_folders(self) -> list[Path]:
        """Folders of this machine with its data; none where they are elsewhere, or in memory."""
        return []

    def cool(self, front_ends: int = 1, accounts: int = 1) -> Cooling:
        """Take its data out of all memory that storelab can reach; it is as usable afterwards as after `up`."""
        return Cooling(why="storelab did not start this store: it can neither start it anew nor drop what it holds")

    def free_bytes(self) -> int | None:
        """Room left for data, None where it cannot be asked."""
        return None

    def capacity_bytes(self) -> int | None:
        """Room for data in the empty store, of which `free_bytes` is left; None where it is not known, or shared with
        others."""
        return None

    def keeps_overwritten(self, size_bytes: int) -> bool:
        """Whether the space of an object of this size, when it is overwritten, comes back with `reclaim` only."""
        return False

    def used_bytes(self) -> int | None:
        """Raw bytes of all copies of the data, on disks or in memory; None where that cannot be asked."""
        return None

    def administration(self) -> "list[Told]":
        """What the system's own tools tell of users and keys (`managed/accounts.py`); [] where it has none."""
        return []

    def reclaim(self) -> None:
        """Give back the space of deleted objects where the system wants to be told; outside of every measurement."""


WHOLE, RESTARTED, SILENT = "whole", "restarted", "silent"  # `state` of a server; see docs/records.md


class Answered:
    """What each server of a store answered in a point, by the servers' own counts before and after it.

    Made before the clients start; `end` is called when they have left. record: None where clients meet one server only.
    """

    def __init__(self, store: Store):
        self.store, self.before = store, store.answered()
        self.record: list[dict[str, Any]] | None = None

    def end(self) -> None:
        if self.before:
            after = self.store.answered()
            self.record = [{"name": name, **difference(was, after.get(name))} for name, was in self.before.items()]


def difference(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, Any]:
    """What a server answered meanwhile. One that began anew, or did not tell before, counts from its own start on."""
    if after is None:
        return {"state": SILENT}
    same = before is not None and before["pid"] == after["pid"]
    counts = {name: n - (before[name] if same and before else 0) for name, n in after.items() if name != "pid"}
    return {"state": WHOLE if same else RESTARTED, **counts}
