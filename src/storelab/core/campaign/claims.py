"""Define claims: findings that measured data can test.

storelab's list of findings from 2010-2015 and the claims of a campaign have the same form, see docs/claims.md. `Claim`
is the content of a file. `resolved` checks it against axes, tables and campaigns, and returns the form in plan.json.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from storelab.core import figures
from storelab.core.config_types import Name, Once, Scalar, Scalars, StrictModel, Text
from storelab.core.figures import COLUMNS, EVERYWHERE, METRICS, Names
from storelab.core.model import OF_ROLE, Axis

LINK_DEMAND = "link_demand_ratio"  # capacity of the clients' links over that of the front-ends' links
LINK_USED = "link_used_percent"  # transferred bytes of a run, as a percentage of the capacity of its links
# Table: name of a metric in a claim -> column of a run.
MEASURED: dict[str, dict[str, str]] = {
    table: {name: f"{stem}_{unit}" for name, (stem, unit, _) in metrics.items()} for table, metrics in METRICS.items()
}
for _table in ("throughput", "sparse"):
    MEASURED[_table] |= {"link_used": LINK_USED}
MEASURED["sparse"] |= {"clusters": "clusters_per_read"}
MEASURED |= {
    "traffic": {"spread": "spread_percent"},
    "recovery": {
        "pause": "pause_s",
        "service": "service_s",
        "noticed": "noticed_s",
        "whole_after": "whole_after_s",
        "degraded": "degraded_ratio",
        "rebuilding": "rebuilding_ratio",
    },
}
# Table: quantity that a claim can count -> columns whose sum is the number of attempts. Without columns, each run is
# one attempt.
COUNTED: dict[str, dict[str, tuple[str, ...]]] = {
    "throughput": {"errors": ("operations", "errors")},
    "roles": {"errors": ("operations", "errors")},
    "recovery": {"failed_operations": ()},
    "consistency": {"anomalies": ("tried",)},
    "durability": dict.fromkeys(("lost", "corrupted", "stale", "resurrected", "wrong", "unreadable"), ("read",)),
    "releases": {"behind": ("published_days",)},
}
CAPABILITIES = "capabilities"
TABLE_COLUMNS = {  # columns of each table, in addition to the axes
    **COLUMNS,
    "roles": ("role", "does", "phase"),
    "recovery": ("role", "does", "beyond_redundancy"),
    "durability": ("when",),
    "consistency": ("scenario", "front_end"),
    CAPABILITIES: ("topic", "check"),
}
TABLES = tuple(dict.fromkeys((*MEASURED, *COUNTED, CAPABILITIES)))
EXTREMES = ("least", "most")
EACH = "each"  # all compared values, in ascending order
PART = re.compile(r"most / (\d+)")  # a fraction of the largest value for which this fraction was measured too
STORE: Final = "store"  # possible subjects of a claim
ROOT_FILE: Final = "file"
BY_SPEED = ("worst", "best")  # the compared values with the lowest and the highest median
NEEDS = {  # rule -> keys that it requires in addition to `rule`
    "slope": ("metric", "along", "bound"),
    "ratio": ("metric", "along", "values", "bound"),
    "level": ("metric", "bound"),
    "count": ("metric", "bound"),
    "order": ("metric", "along", "values"),
    "shape": ("metric", "along", "shapes"),
    "answer": ("answers",),
}
KEYS = ("metric", "along", "values", "shapes", "answers", "bound")  # keys that only some rules use
OPTIONAL = {"level": ("along",), "answer": ("along",)}
ALONG_ONLY = ("slope", "shape")  # rules that judge a whole curve


class Published(StrictModel):
    """A published number: a row of the tables of published numbers, or a value for a user's claim."""

    value: float | None = Field(None, description="The number.")
    unit: str = Field("", description="Unit of the number; default: the unit of the table.")
    table: str = Field("", description="Name of a table of published numbers; only for storelab's own list of claims.")
    column: str = Field("value", description="Column of the table.")
    rows: dict[str, Scalar] = Field(default_factory=dict, description="Column and value that select one row.")
    over: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Column and value that select a second row; the number of the first row is divided by its number.",
    )

    @model_validator(mode="after")
    def _one_place(self) -> "Published":
        if (self.value is None) == (not self.table):
            raise ValueError("must have exactly one of `value` and `table`; give one of them")
        return self


class Claim(StrictModel):
    """A finding with the query that tests it and the rule that judges it, see docs/claims.md."""

    statement: Text = Field(description="The finding, in a plain sentence.")
    source: Text = Field(description="Source of the finding.")
    published: Published | None = Field(None, description="The published number, if there is one.")
    campaigns: Annotated[list[Name], Once] = Field(
        default_factory=list, description="Campaigns that measure the data. They are shown if nothing was measured."
    )
    table: str = Field(
        description=f"Table in `tables/` with the data: {', '.join(TABLES)}.", json_schema_extra={"enum": [*TABLES]}
    )
    where: dict[str, Scalars] = Field(
        default_factory=dict,
        description=(
            "Column and a value, a list, a bound like `>= 1 MB`, or `least` or `most` (at each value of `along`). Only "
            "matching rows are used."
        ),
    )
    metric: str = Field("", description="Quantity to compare: a metric or a count of the table.")
    along: str = Field("", description="Column along which values are compared: an axis, `store`, `workload` …")
    values: list[Scalar] = Field(
        default_factory=list,
        description=(
            "Values of `along`. For `ratio`: the base, and the value that is divided by it; for `order`: "
            "from the lowest to the "
            "highest, or `each`. Possible are also `least`, `most`, `most / 4` (a quarter of `most`), "
            "`worst` and `best`."
        ),
    )
    may_differ: Names = Field(
        default_factory=list, description="Columns that change together with `along` and may therefore differ."
    )
    about: Literal["store", "file"] = Field(
        STORE,
        description=(
            "Subject of the claim: each `store` with its deployment, or the `file` that is read, in any store. "
        ),
    )
    reach: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Column and its minimum value; a measurement with a smaller value is not judged.",
    )
    or_link_demand: float | None = Field(
        None,
        gt=0,
        description=(
            "A measurement is also judged, whatever its values of `reach`, if the links of its clients have together "
            "at least this multiple of the capacity of the front-ends' links."
        ),
    )
    below_link: float | None = Field(
        None,
        gt=0,
        le=100,
        description=(
            "For `slope` and `shape`: ignore the values of `along` at which more than this percentage of the known "
            "link capacity was used. Along the front-ends, their own links are not counted."
        ),
    )
    rule: Literal["slope", "ratio", "level", "count", "order", "shape", "answer"] = Field(
        description="Rule by which the data are judged."
    )
    at_least: float | None = Field(None, description="The finding is confirmed by this value and larger values.")
    at_most: float | None = Field(None, description="The finding is confirmed by this value and smaller values.")
    min_attempts: int = Field(
        100, ge=1, description="For `count`: minimum number of attempts for a count of 0 to be judged."
    )
    shapes: Names = Field(
        default_factory=list,
        description="For `shape`: one or several of `knee`, `peak`, `still rising`, `bending` and `not rising`.",
    )
    answers: Names = Field(
        default_factory=list,
        description="For `answer`: the answer of each system. With `along: store`: answers that must all occur.",
    )

    @model_validator(mode="after")
    def _matches_rule(self) -> "Claim":
        given = {k: getattr(self, k) for k in KEYS[:-1]} | {"bound": self.at_least is not None or None}
        if self.at_most is not None:
            if given["bound"]:
                raise ValueError("both `at_least` and `at_most` are set; remove one of them")
            given["bound"] = True
        for key in KEYS:
            label = "`at_least` or `at_most`" if key == "bound" else f"`{key}`"
            if key in NEEDS[self.rule] and not given[key]:
                raise ValueError(f"the rule `{self.rule}` needs {label}; add it")
            if given[key] and key not in (*NEEDS[self.rule], *OPTIONAL.get(self.rule, ())):
                raise ValueError(f"the rule `{self.rule}` does not use {label}; remove it")
        if self.rule == "ratio" and len(self.values) != 2:
            raise ValueError(
                f"the rule `ratio` needs two values, not {len(self.values)}; give the base, and the value "
                "that is divided by it"
            )
        if self.rule == "order" and len(self.values) < 2 and self.values != [EACH]:
            raise ValueError("the rule `order` needs at least two values; add one, or write `each`")
        if self.below_link is not None and self.rule not in ALONG_ONLY:
            raise ValueError(f"the rule `{self.rule}` does not use `below_link`; remove it")
        if self.rule == "ratio" and (self.at_least or self.at_most or 0.0) <= 0:
            raise ValueError("the bound of a ratio is not above 0; set a larger bound")
        return self


def _claim_name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", value):
        raise ValueError(f"{value!r} is not a valid claim name; use small letters, digits and '_' between words")
    return value


_JSON_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9]*(_[a-z0-9]+)*$"}
ClaimName = Annotated[str, BeforeValidator(_claim_name), WithJsonSchema(_JSON_NAME)]
SHAPES = ("knee", "peak", "still rising", "bending", "not rising")


def resolved(claims: Mapping[str, Claim], axes: Mapping[str, Axis], workloads: Collection[str] = ()) -> dict[str, Any]:
    """Return the claims in the form of plan.json: with columns instead of axes, and with parsed values.

    Parameters
    ----------
    claims
        The claims by name.
    axes
        The axes that claims can use, also of a role as `<role>.<axis>`.
    workloads
        The workloads that claims can use; default: all.

    Raises
    ------
    UserError
        A table, metric, column, shape or workload is unknown.
    """
    return {name: _resolved(f"claims.{name}", claim, axes, workloads) for name, claim in claims.items()}


def _resolved(place: str, claim: Claim, axes: Mapping[str, Axis], workloads: Collection[str]) -> dict[str, Any]:
    table = figures.known(f"{place}.table", claim.table, TABLES, "table of claims")
    known: Mapping[str, Mapping[str, Any]] = MEASURED
    if claim.rule == "count":
        known = COUNTED
    elif claim.rule == "answer":
        known = {table: {}} if table == CAPABILITIES else {}
    which = [t for t in TABLES if t in known] or [CAPABILITIES]
    figures.known(f"{place}.table", table, which, f"table of the rule `{claim.rule}`")
    if claim.metric:
        figures.known(f"{place}.metric", claim.metric, known[table], f"metric of {table}")
    plain = (*EVERYWHERE, *TABLE_COLUMNS.get(table, ()))

    def axis(name: str) -> Axis | None:
        axis_name = name.rpartition(OF_ROLE)[2] if not workloads else name  # without a campaign, the axis of any role
        return axes.get(name) or axes.get(axis_name)

    def column(key: str, name: str) -> str:
        if name not in plain and (known_axis := axis(name)):
            role, dot, _ = name.rpartition(OF_ROLE)
            return known_axis.column if name in axes else f"{role}{dot}{known_axis.column}"
        return figures.known(f"{place}.{key}", name, [*plain, *axes], "column of this table and campaign")

    def parsed(name: str, at: str, value: Any) -> Any:
        if name == "workload" and workloads:
            return figures.known(at, value, workloads, "workload of this campaign")
        known_axis = None if name in plain else axis(name)
        return figures.bounded(known_axis, value, at) if known_axis else value

    where = {}
    for name, value in claim.where.items():
        values = [parsed(name, f"{place}.where.{name}", v) for v in (value if isinstance(value, list) else [value])]
        where[column("where", name)] = values if isinstance(value, list) else values[0]
    for shape in claim.shapes:
        figures.known(f"{place}.shapes", shape, SHAPES, "shape")
    values = [v if is_named(v) else parsed(claim.along, f"{place}.values", v) for v in claim.values]
    return claim.model_dump(mode="json") | {
        "along": column("along", claim.along) if claim.along else "",
        "values": values,
        "may_differ": [column("may_differ", name) for name in claim.may_differ],
        "where": where,
        "reach": {column("reach", name): parsed(name, f"{place}.reach.{name}", v) for name, v in claim.reach.items()},
    }


def is_named(value: Any) -> bool:
    """Return True for a value of `along` that depends on the measurement, such as `worst`, `most / 4` or `each`."""
    return isinstance(value, str) and (value in (*BY_SPEED, EACH) or bool(PART.fullmatch(value)))
