"""Define the base class of workloads: their declaration, and hooks before and after the measurement.

The hooks of the coordinator (`validate`, `before`, `after`, `observe`, `cleanup`) do nothing here. A workload overrides
the hooks that it needs.
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


ONCE = ("once", "cold")  # values of `access` for which each object is read only once, by one client
ACCESS = replace(
    axes.ACCESS,
    help="`warm`: objects are read repeatedly; `once`: each object is read once, by one client, and the "
    "run ends when all "
    "are read; `cold`: like `once`, after the store was restarted and the kernel dropped its files from memory.",
    choices=("warm", *ONCE),
)


def refuse(point: Point, *cases: tuple[str, bool, str, str]) -> None:
    """Raise UserError for the first wrong value. `cases` are (axis, whether its value is wrong, problem, hint)."""
    for axis, wrong, problem, hint in cases:
        if wrong:
            raise UserError(f"sweeps.{point.sweep}.axes.{axis}", problem, hint)


class Made(NamedTuple):
    """Objects that an attempt can write.

    Attributes
    ----------
    key
        Pattern of a complete key, relative to the bucket's prefix. If it has a group `client`, this is a client's
        number.
    least, most
        Minimum and maximum size in bytes.
    bucket
        Pattern of the bucket's name; '' for any bucket.
    """

    key: str
    least: int
    most: int
    bucket: str = ""


@dataclass(frozen=True)
class Workload(model.Workload):
    """A workload. `axes` are the declared axes, followed by additional axes that its engines support."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", (*self.axes, *axes.obeyed(self.name, self.axes)))

    def client(self, job: "Job") -> "Client":
        """Return the client of the point's engine from the catalogue. Its module is imported only here."""
        return engines.client_of(self.name, job.point.axes["engine"])(job)

    def validate(self, point: Point) -> None:
        """Raise UserError if values of the point's axes cannot be combined. It has no side effects."""

    def require(self, point: Point) -> None:
        """Raise UserError with the install command if a program that the workload starts is missing."""

    def second_store(self, point: Point) -> str:
        """Return the name of a second store that the clients use, or '' if there is none."""
        return ""

    def expected_objects(self, point: Point, attempt: str) -> list[Made]:
        """Return the objects that an attempt at the point can leave in the store.

        Only these objects are ever deleted.
        """
        return []

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Prepare the store and `job.extra` before the clients start.

        Raises UserError or MeasurementFailed.
        """

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Return checks of the store, and of the clients' Parquet files in `folder`, as fields of `contract.Check`."""
        return []

    def observe(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> dict[str, Any] | None:
        """Return observations of the store for `observed` in the record, or None."""
        return None

    def cleanup(self, job: "GangJob") -> None:
        """Stop everything that `before` started. It is called last, also after errors."""


_TABLES = "|".join(name for name in TABLES if name != "monitor")  # tables whose files are numbered by client
_FILE = re.compile(rf"(ops|reads|result|ledger|{_TABLES})\.(\d+)(\.parquet)?")  # names of files that a client writes


@dataclass(frozen=True)
class Roles(Workload):
    """The workload of a point with several roles. `each` has the workload of each role.

    The written objects are recorded separately for each role.
    """

    each: Mapping[str, Workload] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, each: Mapping[str, Workload]) -> "Roles":
        """Return the workload of a point with these roles. each: the workload of each role by its name."""
        direction = "write" if any(w.direction == "write" for w in each.values()) else "read"
        return cls(name, roles.all_axes((), each), "", direction=direction, each=each)

    def validate(self, point: Point) -> None:
        """Raise UserError if values of the axes of one role cannot be combined."""
        for part in point.parts():
            self.each[part.name].validate(part.point)

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Prepare the store for each role."""
        for part, role_job in zip(point.parts(), job.roles, strict=True):
            self.each[part.name].before(config, store, part.point, role_job)

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Return the checks of all roles. Each name begins with the name of the role."""
        out = []
        for part, role_job in zip(point.parts(), job.roles, strict=True):
            checks = self.each[part.name].after(store, part.point, role_job, files_of(part, folder))
            out += [check | {"name": f"{part.name}: {check['name']}"} for check in checks]
        return out

    def observe(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> dict[str, Any] | None:
        """Return the observations of the store by role, or None if there are none."""
        seen = {
            part.name: self.each[part.name].observe(store, part.point, role_job, files_of(part, folder))
            for part, role_job in zip(point.parts(), job.roles, strict=True)
        }
        return {name: facts for name, facts in seen.items() if facts is not None} or None

    def cleanup(self, job: "GangJob") -> None:
        """Stop everything that `before` started for the roles."""
        for each, own in zip(self.each.values(), job.roles, strict=True):
            each.cleanup(own)


def files_of(part: Part, folder: Path) -> Path:
    """Return a folder with only the files of a role's clients, numbered from 0 like those of an ordinary point."""
    role_folder = folder / "roles" / str(part.number)
    role_folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        named = _FILE.fullmatch(path.name)
        if named and int(named[2]) in part.ranks:
            link = role_folder / f"{named[1]}.{int(named[2]) - part.ranks.start}{named[3] or ''}"
            if not link.is_symlink():
                link.symlink_to(path.resolve())
    return role_folder
