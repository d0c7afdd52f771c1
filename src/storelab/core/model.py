"""The words of the house as frozen dataclasses (room `core`; standard library, `units` and `errors` only).

A *point* is a store, a workload, the value of every axis of that workload, and `rep`; its `key` is the path below
`results/<campaign>/raw/`. Both sides of the cut (measuring and analysis) rest on these types.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from storelab.core import units
from storelab.core.errors import UserError, shown

MOST_INT, MOST_SIZE = 10**9, 10**15  # of an axis
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\Z")
PLAN_SCHEMA = 1
Facts = dict[str, Any]  # a JSON object; docs/records.md lists its keys
PREFIX = "roles-"  # before the name of a sweep with roles: its workload
OF_ROLE = "."  # between a role's name and its axis: `uploads.workers`


@dataclass(frozen=True)
class Axis:
    """One axis of a workload, and all that is known of it: `core/axes.py` declares each once.

    kind: `int`, `size` (bytes), `percent` (0 < value <= 100), `text`, or `place` (one of `choices`, or a size; without
    choices, a name that the campaign declares, or a size).
    `default` is left out of paths, so that a new axis renames no old point. `minimum` bounds numbers; `choices` bound
    `text`.
    """

    name: str
    kind: str
    default: Any
    label: str
    help: str
    minimum: int = 1
    choices: tuple[str, ...] = ()
    # How it reads, see `analysis/parts/words.py`. heading: over a column; words: of a value, with `{}` for it (a size
    # with its unit; counted where there is a `noun`: `2 clients`); values: those that read otherwise, '' for no word
    # at all.
    heading: str = ""
    words: str = ""
    noun: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    # What it is to others. setting: of a store, which this axis changes and so makes a deployment (`setting_values`:
    # what its values become); ceiling: a point and its calibration must agree on it; load: how hard, over what and in
    # which requests a store was asked, so that points which differ here alone tell of one limit; curve: speeds along
    # it make a scaling curve with a knee; told: a verdict says it always.
    setting: str = ""
    setting_values: Mapping[str, Any] = field(default_factory=dict)
    ceiling: bool = False
    load: bool = False
    curve: bool = False
    told: bool = False

    def declared(self) -> dict[str, Any]:
        """What `plan.json` keeps of it: the values that it may have, and its column in tables."""
        kept = ("name", "kind", "default", "label", "help", "minimum", "choices", "column")
        return {name: getattr(self, name) for name in kept}

    @property
    def column(self) -> str:
        """Name of the axis in tables: the unit is part of it."""
        return {"size": f"{self.name}_bytes", "percent": f"{self.name}_percent"}.get(self.kind, self.name)

    def parse(self, value: Any, place: str) -> Any:
        """Return the typed value (int bytes for `size`). Raises UserError with the place."""
        if self.kind == "size":
            size = units.parse(value, "size", place)
            if size < self.minimum:
                raise UserError(place, f"{shown(value)} is too small", f"at least {self.minimum} B")
            if size > MOST_SIZE:
                raise UserError(place, f"{shown(value)} is too large", f"at most {units.format_size(MOST_SIZE)}")
            return size
        if self.kind == "int":
            if isinstance(value, bool) or not isinstance(value, int):
                raise UserError(place, f"{shown(value)} is not a whole number", f"give an integer from {self.minimum}")
            if value < self.minimum:
                raise UserError(place, f"{shown(value)} is too small", f"at least {self.minimum}")
            if value > MOST_INT:
                raise UserError(place, f"{shown(value)} is too large", f"at most {MOST_INT}")
            return value
        if self.kind == "percent":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100:
                raise UserError(place, f"{shown(value)} is not a percentage", "give a number in (0, 100]")
            return float(value)
        text = str(value)
        if self.kind == "place" and text not in self.choices:
            try:
                return units.format_size(units.parse(value, "size", place)).replace(" ", "")
            except UserError:
                if not self.choices and NAME.match(text):
                    return text  # of what the campaign declares
                raise UserError(
                    place, f"{shown(text)} is no place", f"one of: {', '.join(self.choices)}, or a size like 1 MB"
                ) from None
        if self.choices and text not in self.choices:
            raise UserError(place, f"{shown(text)} is not known", f"one of: {', '.join(self.choices)}")
        return text

    def text(self, value: Any) -> str:
        """The value as it stands in a path: `[A-Za-z0-9.-]`, integers padded to four digits."""
        if self.kind == "size":
            return units.format_size(value).replace(" ", "")
        if self.kind == "int":
            return f"{value:04d}"
        if self.kind == "percent":
            return f"{value:g}"
        return str(value)


@dataclass(frozen=True)
class Workload:
    """What a workload declares to the plan: its axes in one order, the data set that it reads, what moves."""

    name: str
    axes: tuple[Axis, ...]
    help: str
    dataset: str | None = None  # `payload`, `root` or None: nothing is staged
    direction: str = "read"  # `read` or `write`: a read-only store refuses the latter
    # What not every store can: `used_bytes`; `second_account`: client 0 gets its keys too; what the plan gives:
    # `objects`, `release`.
    needs: tuple[str, ...] = ()
    finishes: bool = False  # it ends when its work is done: its duration is the longest that it may take

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    def covers(self, kind: str) -> bool:
        """Return whether it says something about stores of this kind."""
        return True


@dataclass(frozen=True)
class Point:
    """One point of the plan. `axes` holds every axis, defaults too; `fixed` what is no axis (durations in ns).

    `fixed["roles"]`, where it does several things at once: name, workload, begin_ns, end_ns, shares (axes of the point
    that the workload has too), fixed (its own), and dataset where it reads one, of each role in order.
    """

    store: str
    workload: str
    axes: dict[str, Any]
    rep: int
    key: str
    sweep: str
    seed: int
    order: int
    fixed: dict[str, Any] = field(default_factory=dict)
    dataset: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As `plan.json`, `job.json` and the records have it; its values are not copied."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)

    def identity(self) -> dict[str, Any]:
        """Store, workload, axes and rep: a record is this point's if and only if these agree."""
        return {"store": self.store, "workload": self.workload, "axes": self.axes, "rep": self.rep}

    @property
    def clients(self) -> int:
        """Clients of its gang, over all roles."""
        return sum(len(part.ranks) for part in self.parts())

    def parts(self) -> "list[Part]":
        """Its roles in their order; of a point without roles itself, as the one part without a name."""
        told = self.fixed.get("roles")
        if told is None:
            return [Part("", 0, self, 0, self.fixed.get("duration_ns", 0), range(self.axes.get("clients", 1)))]
        out: list[Part] = []
        for number, role in enumerate(told):
            name, begin, end = role["name"], role["begin_ns"], role["end_ns"]
            head = f"{name}{OF_ROLE}"
            own = {axis.removeprefix(head): v for axis, v in self.axes.items() if axis.startswith(head)}
            fixed: dict[str, Any] = {k: self.fixed[k] for k in ("warm_up_ns", "data_seed", "bin_ns") if k in self.fixed}
            fixed |= {"duration_ns": end - begin}
            point = replace(
                self,
                workload=role["workload"],
                axes={axis: self.axes[axis] for axis in role["shares"]} | own,
                sweep=f"{self.sweep}.roles.{name}",
                seed=derive_seed(self.seed, name),
                fixed=fixed | role["fixed"],
                dataset=role.get("dataset"),
            )
            first = out[-1].ranks.stop if out else 0
            out.append(Part(name, number, point, begin, end, range(first, first + own["clients"])))
        return out


@dataclass(frozen=True)
class Part:
    """A role of a point: its own point (an ordinary one of its workload, with plain axes; `sweep` is the place of the
    role in the configuration), when it begins and ends after the start, the ranks of its clients in the gang."""

    name: str
    number: int
    point: Point
    begin_ns: int
    end_ns: int
    ranks: range

    def attempt(self, attempt: str) -> str:
        """Its own id of an attempt at the whole point: no two roles make the same keys."""
        return f"{attempt}-{self.number}" if self.name else attempt


@dataclass
class Plan:
    """The plan of a campaign: the content of `plan.json`, which is all that the analysis needs to know of it.

    Fields that are None are left out of the file. Older plans lack some fields.
    """

    campaign: Facts  # name, title and the settings of the whole campaign
    stores: dict[str, Facts]  # settings, without anything secret
    limits: Facts
    workloads: dict[str, Facts]  # name -> help, axes as `Axis.declared`, and roles where it has some
    points: list[Point]
    schema: int = PLAN_SCHEMA
    figures: Facts | None = None  # of the campaign itself
    claims: Facts | None = None
    together: Facts | None = None  # sweep -> axes and rows that go together
    software: dict[str, str] | None = None  # package -> version, of those that measure
    file: str | None = None  # the campaign file

    def to_json(self) -> Facts:
        out = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        return {"schema": self.schema, **out, "points": [point.to_json() for point in self.points]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a plan. Raises KeyError, TypeError: it is damaged."""
        given = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        return cls(**given | {"points": [Point.from_json(point) for point in data["points"]]})


def point_key(store: str, workload: Workload, axes: dict[str, Any], rep: int) -> str:
    """`<store>/<workload>/<axis~value_axis~value…_rep~n>`; axes that stand at their default are left out."""
    parts = [f"{a.name}~{a.text(axes[a.name])}" for a in workload.axes if axes[a.name] != a.default]
    return f"{store}/{workload.name}/{'_'.join([*parts, f'rep~{rep:03d}'])}"


def accounts_of(client: int, clients: int, accounts: int) -> tuple[int, ...]:
    """The accounts that a client uses, in turn: i mod n; where there are more accounts than clients, every c-th from
    the i-th on, so that each account has one client."""
    return tuple(range(client % accounts, accounts, clients))


SAID_ALWAYS = ("engine", "object_size", "scale")  # axes that people are told even at their default: with what, of what


def said(point: Point, workload: Workload, names: Collection[str] | None = None) -> list[str]:
    """Axes of a point for people, `engine=s5cmd`: those off their default, engine and size always; or only `names`."""
    axes = [a for a in workload.axes if a.name in point.axes]
    plain = {a.name: a.name.rpartition(OF_ROLE)[2] for a in axes}  # of a role: without its name
    wanted = [
        a
        for a in axes
        if (plain[a.name] in names if names else plain[a.name] in SAID_ALWAYS or point.axes[a.name] != a.default)
    ]
    first = sorted(wanted, key=lambda a: OF_ROLE not in a.name and plain[a.name] not in SAID_ALWAYS)  # roles whole
    return [f"{a.name.replace('_', ' ')}={a.text(point.axes[a.name])}" for a in first]


def derive_seed(*parts: Any) -> int:
    """A 63-bit seed that depends on all parts and on nothing else (SHA-256 of their text)."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
