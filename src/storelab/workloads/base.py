"""What a workload is to the rest: its declaration, and hooks around the measurement (room `workloads`).

Hooks of the coordinator (`possible`, `before`, `after`, `observe`, `ended`) do nothing here: a workload overrides those
that it needs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from storelab import engines
from storelab.core import axes, model
from storelab.core.axes import roles
from storelab.core.errors import UserError
from storelab.core.model import Part, Point
from storelab.core.records import TABLES

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import Client, GangJob, Job
    from storelab.stores.base import Store


ONCE = ("once", "cold")  # values of `access` with which an object is read by one client, once
ACCESS = replace(
    axes.ACCESS,
    help="`warm`: objects are read again and again; `once`: each object by one client, once, and the run ends when all "
    "are read; `cold`: the same, after the store was started anew and the kernel dropped its files from memory.",
    choices=("warm", *ONCE),
)


def refuse(point: Point, *cases: tuple[str, bool, str, str]) -> None:
    """Raise UserError for the first of these (axis, whether its value is wrong, problem, hint) that is wrong."""
    for axis, wrong, problem, hint in cases:
        if wrong:
            raise UserError(f"sweeps.{point.sweep}.axes.{axis}", problem, hint)


class Made(NamedTuple):
    """Objects that an attempt can make. key: pattern of all of a key below the bucket's prefix; its group `client`, if
    there is one, is a client's number. least, most: bytes. bucket: pattern of the bucket's name, '' for any."""

    key: str
    least: int
    most: int
    bucket: str = ""


@dataclass(frozen=True)
class Workload(model.Workload):
    """`axes` are those that the workload picks; axes that its engines obey besides come behind them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", (*self.axes, *axes.obeyed(self.name, self.axes)))

    def client(self, job: "Job") -> "Client":
        """The client of the point's engine, as the catalogue names it; loaded only now."""
        return engines.client_of(self.name, job.point.axes["engine"])(job)

    def possible(self, point: Point) -> None:
        """Raises UserError where values of the point's axes do not go together; pure."""

    def require(self, point: Point) -> None:
        """Raises UserError that says what installs a program which the workload itself starts."""

    def beside(self, point: Point) -> str:
        """Name of a second store that the clients ask, '' where there is none; pure."""
        return ""

    def makes(self, point: Point, attempt: str) -> list[Made]:
        """Which objects an attempt at the point can leave in the store: these alone are deleted behind it. Pure."""
        return []

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Before the clients start: what they need in the store, or to know (`job.extra`). Raises UserError,
        MeasurementFailed."""

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Checks of what the clients left in the store and in `folder` (their Parquet files), as `contract.Check`
        fields."""
        return []

    def observe(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> dict[str, Any] | None:
        """What is seen of the store afterwards, for `observed` of the record; None for nothing."""
        return None

    def ended(self, job: "GangJob") -> None:
        """Called last, whatever happened: what `before` started ends here."""


_TABLES = "|".join(name for name in TABLES if name != "monitor")  # numbered by clients
_FILE = re.compile(rf"(ops|reads|result|ledger|{_TABLES})\.(\d+)(\.parquet)?")  # that a client leaves


@dataclass(frozen=True)
class Roles(Workload):
    """`each`: the workload of each role. What an attempt makes is told by role: `Part.attempt` differs."""

    each: Mapping[str, Workload] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, each: Mapping[str, Workload]) -> "Roles":
        direction = "write" if any(w.direction == "write" for w in each.values()) else "read"
        return cls(name, roles.of((), each), "", direction=direction, each=each)

    def possible(self, point: Point) -> None:
        for part in point.parts():
            self.each[part.name].possible(part.point)

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        for part, own in zip(point.parts(), job.roles, strict=True):
            self.each[part.name].before(config, store, part.point, own)

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        out = []
        for part, own in zip(point.parts(), job.roles, strict=True):
            checks = self.each[part.name].after(store, part.point, own, files_of(part, folder))
            out += [check | {"name": f"{part.name}: {check['name']}"} for check in checks]
        return out

    def observe(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> dict[str, Any] | None:
        seen = {
            part.name: self.each[part.name].observe(store, part.point, own, files_of(part, folder))
            for part, own in zip(point.parts(), job.roles, strict=True)
        }
        return {name: told for name, told in seen.items() if told is not None} or None

    def ended(self, job: "GangJob") -> None:
        for each, own in zip(self.each.values(), job.roles, strict=True):
            each.ended(own)


def files_of(part: Part, folder: Path) -> Path:
    """A folder in which the files of a role's clients look as those of an ordinary point: numbered from 0, nothing
    else."""
    own = folder / "roles" / str(part.number)
    own.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        named = _FILE.fullmatch(path.name)
        if named and int(named[2]) in part.ranks:
            link = own / f"{named[1]}.{int(named[2]) - part.ranks.start}{named[3] or ''}"
            if not link.is_symlink():
                link.symlink_to(path.resolve())
    return own
