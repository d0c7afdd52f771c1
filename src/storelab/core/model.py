"""Define the basic terms of storelab as frozen dataclasses. Measuring and analysis both use these types.

A *point* is a store, a workload, the value of every axis of that workload, and `rep`. Its `key` is its path below
`results/<campaign>/raw/`.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

from storelab.core import units
from storelab.core.errors import UserError, shown

MAX_INT, MAX_SIZE = 10**9, 10**15  # maximum values of an axis
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\Z")
PLAN_SCHEMA = 1
JsonObject = dict[str, Any]  # a JSON object; docs/records.md lists its keys
PREFIX = "roles-"  # the workload of a sweep with roles is this text and the name of the sweep
OF_ROLE = "."  # separates the name of a role from its axis: `uploads.workers`
Layout = Literal["article", "conference", "evaluations"]  # layouts of a paper about several campaigns
# layout -> name of its file in `tex/`, and of its PDF
PAPERS: dict[str, str] = {layout: "paper" if layout == "article" else layout for layout in get_args(Layout)}


@dataclass(frozen=True)
class Axis:
    """One axis of a workload with all its properties. `core/axes` declares each axis once.

    Attributes
    ----------
    kind
        `int`, `size` (bytes), `percent` (0 < value <= 100), `text`, or `place`. A `place` is one of `choices` or a
        size; without choices, it is a size or a name that the campaign declares.
    default
        Value that is omitted from paths, so that a new axis does not rename existing points.
    minimum
        Minimum of a number.
    choices
        Allowed values of a `text`.
    """

    name: str
    kind: str
    default: Any
    label: str
    help: str
    minimum: int = 1
    choices: tuple[str, ...] = ()
    # Labels, see `analysis/parts/labels.py`. heading: heading of a column; words: template of a value, in which `{}` is
    # replaced by the value (a size has its unit; with a `noun`, it is counted: `2 clients`); values: texts of special
    # values, '' to omit the value.
    heading: str = ""
    words: str = ""
    noun: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    # Meaning for other modules. setting: the setting of a store that this axis changes, which makes it another
    # deployment (`setting_values`: value of the axis -> value of the setting). ceiling: a point and its calibration
    # must have the same value. load: only the load on the store changes, so points that differ only in this axis have
    # the same limit. curve: throughput along this axis is a scaling curve with a knee. always_shown: a verdict always
    # shows it.
    setting: str = ""
    setting_values: Mapping[str, Any] = field(default_factory=dict)
    ceiling: bool = False
    load: bool = False
    curve: bool = False
    always_shown: bool = False

    def declared(self) -> dict[str, Any]:
        """Return the properties that `plan.json` stores: the allowed values and the column in tables."""
        kept = ("name", "kind", "default", "label", "help", "minimum", "choices", "column")
        return {name: getattr(self, name) for name in kept}

    @property
    def column(self) -> str:
        """Return the name of the axis in tables, which includes the unit."""
        return {"size": f"{self.name}_bytes", "percent": f"{self.name}_percent"}.get(self.kind, self.name)

    def parse(self, value: Any, place: str) -> Any:
        """Return the typed value (for `size`: bytes as an integer). Raises UserError with the place."""
        if self.kind == "size":
            size = units.parse(value, "size", place)
            if size < self.minimum:
                raise UserError(place, f"{shown(value)} is too small", f"give at least {self.minimum} B")
            if size > MAX_SIZE:
                raise UserError(place, f"{shown(value)} is too large", f"give at most {units.format_size(MAX_SIZE)}")
            return size
        if self.kind == "int":
            if isinstance(value, bool) or not isinstance(value, int):
                raise UserError(
                    place, f"{shown(value)} is not a whole number", f"give an integer of at least {self.minimum}"
                )
            if value < self.minimum:
                raise UserError(place, f"{shown(value)} is too small", f"give at least {self.minimum}")
            if value > MAX_INT:
                raise UserError(place, f"{shown(value)} is too large", f"give at most {MAX_INT}")
            return value
        if self.kind == "percent":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100:
                raise UserError(place, f"{shown(value)} is not a percentage", "give a number above 0 and up to 100")
            return float(value)
        text = str(value)
        if self.kind == "place" and text not in self.choices:
            try:
                return units.format_size(units.parse(value, "size", place)).replace(" ", "")
            except UserError:
                if not self.choices and NAME.match(text):
                    return text  # a name that the campaign declares
                raise UserError(
                    place,
                    f"{shown(text)} is not a possible value",
                    f"give one of: {', '.join(self.choices)}, or a size like 1 MB",
                ) from None
        if self.choices and text not in self.choices:
            raise UserError(place, f"{shown(text)} is not known", f"give one of: {', '.join(self.choices)}")
        return text

    def text(self, value: Any) -> str:
        """Return the value as part of a path, with the characters `[A-Za-z0-9.-]`.

        Integers are padded to four digits.
        """
        if self.kind == "size":
            return units.format_size(value).replace(" ", "")
        if self.kind == "int":
            return f"{value:04d}"
        if self.kind == "percent":
            return f"{value:g}"
        return str(value)


@dataclass(frozen=True)
class Workload:
    """The declaration of a workload for the plan: its ordered axes, its data set, and the direction of transfers."""

    name: str
    axes: tuple[Axis, ...]
    help: str
    dataset: str | None = None  # `payload`, `root`, or None if nothing is staged
    direction: str = "read"  # `read` or `write`; a read-only store rejects `write`
    # Requirements that some stores do not fulfil: `used_bytes`, and `second_account` (client 0 also gets its keys).
    # Values that the plan provides: `objects`, `release`.
    needs: tuple[str, ...] = ()
    finishes: bool = False  # True if it ends when its work is done; its duration is then the maximum

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    def covers(self, kind: str) -> bool:
        """Return True if the workload applies to stores of this kind."""
        return True


@dataclass(frozen=True)
class Point:
    """One point of the plan. `axes` has every axis, including defaults. `fixed` has other parameters (durations in ns).

    For a point with several roles, `fixed["roles"]` lists the roles in order. Each has name, workload, begin_ns,
    end_ns, shares (axes of the point that its workload also has), fixed (parameters of the role), and dataset if it
    reads one.
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
        """Return the form in `plan.json`, `job.json` and the records. Values are not copied."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)

    def identity(self) -> dict[str, Any]:
        """Return store, workload, axes and rep. A record belongs to this point if and only if these are equal."""
        return {"store": self.store, "workload": self.workload, "axes": self.axes, "rep": self.rep}

    @property
    def clients(self) -> int:
        """Return the number of clients of the point's gang, for all roles together."""
        return sum(len(part.ranks) for part in self.parts())

    def parts(self) -> "list[Part]":
        """Return the roles in their order; for a point without roles, return one part without a name."""
        roles = self.fixed.get("roles")
        if roles is None:
            return [Part("", 0, self, 0, self.fixed.get("duration_ns", 0), range(self.axes.get("clients", 1)))]
        out: list[Part] = []
        for number, role in enumerate(roles):
            name, begin, end = role["name"], role["begin_ns"], role["end_ns"]
            head = f"{name}{OF_ROLE}"
            role_axes = {axis.removeprefix(head): v for axis, v in self.axes.items() if axis.startswith(head)}
            fixed: dict[str, Any] = {k: self.fixed[k] for k in ("warm_up_ns", "data_seed", "bin_ns") if k in self.fixed}
            fixed |= {"duration_ns": end - begin}
            point = replace(
                self,
                workload=role["workload"],
                axes={axis: self.axes[axis] for axis in role["shares"]} | role_axes,
                sweep=f"{self.sweep}.roles.{name}",
                seed=derive_seed(self.seed, name),
                fixed=fixed | role["fixed"],
                dataset=role.get("dataset"),
            )
            first = out[-1].ranks.stop if out else 0
            out.append(Part(name, number, point, begin, end, range(first, first + role_axes["clients"])))
        return out


@dataclass(frozen=True)
class Part:
    """A role of a point.

    Attributes
    ----------
    point
        An ordinary point of the role's workload, with the axes of the role. Its `sweep` is the path of the role in the
        configuration.
    begin_ns, end_ns
        Times after the start.
    ranks
        Ranks of the role's clients in the gang.
    """

    name: str
    number: int
    point: Point
    begin_ns: int
    end_ns: int
    ranks: range

    def attempt(self, attempt: str) -> str:
        """Return the role's id of an attempt at the whole point, so that different roles never create the same keys."""
        return f"{attempt}-{self.number}" if self.name else attempt


@dataclass
class Plan:
    """The plan of a campaign: the content of `plan.json`, with everything that the analysis needs about the campaign.

    Fields that are None are omitted from the file. Older plans lack some fields.
    """

    campaign: JsonObject  # name, title and the settings of the whole campaign
    stores: dict[str, JsonObject]  # settings without secrets
    limits: JsonObject
    workloads: dict[str, JsonObject]  # name -> help, axes as `Axis.declared`, and roles if it has any
    points: list[Point]
    schema: int = PLAN_SCHEMA
    figures: JsonObject | None = None  # figures that the campaign declares
    claims: JsonObject | None = None
    together: JsonObject | None = None  # for each sweep: the axes that vary together, and their rows
    software: dict[str, str] | None = None  # version of each package that measures
    file: str | None = None  # name of the campaign file

    def to_json(self) -> JsonObject:
        out = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        return {"schema": self.schema, **out, "points": [point.to_json() for point in self.points]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return a plan from the content of a file. Raises KeyError or TypeError if it is damaged."""
        given = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        return cls(**given | {"points": [Point.from_json(point) for point in data["points"]]})


def point_key(store: str, workload: Workload, axes: dict[str, Any], rep: int) -> str:
    """Return `<store>/<workload>/<axis~value_axis~value…_rep~n>`; axes at their default are omitted."""
    parts = [f"{a.name}~{a.text(axes[a.name])}" for a in workload.axes if axes[a.name] != a.default]
    return f"{store}/{workload.name}/{'_'.join([*parts, f'rep~{rep:03d}'])}"


def accounts_of(client: int, clients: int, accounts: int) -> tuple[int, ...]:
    """Return the accounts that a client uses in turn.

    Client i uses account i mod n. If there are more accounts than clients (c), it uses every c-th account, starting
    with the i-th, so that each account has one client.
    """
    return tuple(range(client % accounts, accounts, clients))


ALWAYS_SHOWN = ("engine", "object_size", "file_size")  # axes that are shown even at their default


def axis_texts(point: Point, workload: Workload, names: Collection[str] | None = None) -> list[str]:
    """Return axes of a point for display, such as `engine=s5cmd`.

    These are the axes that do not have their default value, and those in `ALWAYS_SHOWN`. With `names`, only these axes
    are returned.
    """
    axes = [a for a in workload.axes if a.name in point.axes]
    plain = {a.name: a.name.rpartition(OF_ROLE)[2] for a in axes}  # without the name of the role
    wanted = [
        a
        for a in axes
        if (plain[a.name] in names if names else plain[a.name] in ALWAYS_SHOWN or point.axes[a.name] != a.default)
    ]
    # Axes of roles come first, so that the axes of one role stay together.
    first = sorted(wanted, key=lambda a: OF_ROLE not in a.name and plain[a.name] not in ALWAYS_SHOWN)
    return [f"{a.name.replace('_', ' ')}={a.text(point.axes[a.name])}" for a in first]


def derive_seed(*parts: Any) -> int:
    """Return a 63-bit seed that depends only on the given parts (SHA-256 of their text)."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
