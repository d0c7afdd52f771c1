"""Several workloads at once: the hooks of each role's workload, asked with the role's own point, job and files.

May import: `base`, `core`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core.axes import roles as axes
from storelab.core.model import Part, Point
from storelab.core.records import TABLES
from storelab.workloads.base import Workload

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob
    from storelab.stores.base import Store

_TABLES = "|".join(name for name in TABLES if name != "monitor")  # numbered by clients
_FILE = re.compile(rf"(ops|reads|result|ledger|{_TABLES})\.(\d+)(\.parquet)?")  # that a client leaves


@dataclass(frozen=True)
class Roles(Workload):
    """`each`: the workload of each role. What an attempt makes is told by role: `Part.attempt` differs."""

    each: Mapping[str, Workload] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, each: Mapping[str, Workload]) -> "Roles":
        direction = "write" if any(w.direction == "write" for w in each.values()) else "read"
        return cls(name, axes.of((), each), "", direction=direction, each=each)

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
