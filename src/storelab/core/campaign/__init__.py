"""Define the content of a campaign file: sweeps, mixes, object sizes, limits, launcher and files.

`faults.py` defines faults of a store during a run, `release.py` a nightly software release, and `claims.py` the
findings to judge.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from storelab.core import units
from storelab.core.axes import mixes
from storelab.core.campaign.claims import Claim, ClaimName
from storelab.core.campaign.faults import Act, At, FaultName
from storelab.core.campaign.release import Release
from storelab.core.config_types import (
    Bin,
    Boolean,
    Duration,
    Histogram,
    Host,
    Name,
    Once,
    Rate,
    RoleName,
    Size,
    SshHost,
    StrictModel,
    SweepName,
    Text,
    Wait,
    Window,
    given,
)
from storelab.core.errors import UserError, shown
from storelab.core.figures import Figure, FigureName

FILE_SIZES = ("S", "M", "L")  # sizes of the generated ROOT file
MAX_PARTS = 1000  # maximum number of parts of a sweep
MAX_OBJECT = 5 * 10**9  # maximum bytes of one upload without parts (Amazon S3 API reference)
FORMS = "write rows like [{front_ends: 1, clients: 3}, …], or columns like {front_ends: [1, 2], clients: [3, 6]}"


class Limits(StrictModel):
    """Limits that protect a store in production. `storelab check` checks the plan, and `measure` checks the run."""

    stored_bytes: Size = Field(
        given("20 GB"), description="Maximum bytes of a campaign in one store at a time (staged and uploaded)."
    )
    objects: int = Field(1_000_000, ge=1, description="Maximum number of objects staged in one store.")
    buckets: int = Field(
        100,
        ge=1,
        description="Maximum number of buckets that a campaign may create in one store (UDS and Amazon S3 allow 100).",
    )
    clients: int = Field(64, ge=1, description="Maximum number of clients of one point.")
    connections: int = Field(4096, ge=1, description="Maximum number of workers of one point over all clients.")
    throughput: Rate | None = Field(
        None, description="Abort a point whose clients transfer at a higher rate; default: no limit."
    )
    requests_per_s: int | None = Field(None, ge=1, description="Abort a point with more requests/s; default: no limit.")
    error_fraction: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Abort a point in which a larger fraction of the operations fails; default: no limit.",
    )


class Launcher(StrictModel):
    """The launcher of clients: on this host, on hosts over ssh, or on nodes of a batch system (docs/cluster.md)."""

    kind: Literal["local", "ssh", "srun", "htcondor"] = Field(
        "local",
        description="`local`: on this host; `ssh`: on `hosts`; `srun`: in a Slurm allocation; `htcondor`: by HTCondor.",
    )
    hosts: Annotated[list[SshHost], Once] = Field(
        default_factory=list,
        description="For ssh: hosts of the clients, each listed once: names, aliases of ssh, or `user@host`.",
    )
    options: list[str] = Field(
        default_factory=list,
        description="Additional options of ssh or srun, or lines of the HTCondor submit description.",
    )
    universe: Literal["vanilla", "parallel"] = Field(
        "vanilla",
        description="For HTCondor: independent jobs that wait for each other (`vanilla`), or "
        "its gang scheduling (`parallel`).",
    )
    nodes: int | None = Field(
        None,
        ge=1,
        description=(
            "Maximum number of nodes of a gang; default: all nodes of the allocation, or all `hosts`. Required "
            "for HTCondor, and if each point is a separate Slurm job."
        ),
    )
    python: Text | None = Field(
        None,
        description="Path of a Python with storelab on the nodes; default: the path of the running Python. For ssh, a "
        "Python of the same version without storelab is sufficient, see docs/cluster.md.",
    )
    setup: str | None = Field(
        None,
        description="Shell lines that run on each node before storelab, in a login shell: `module load …`, `export …`.",
    )
    address: Host | None = Field(None, description="Address of this host for the nodes; default: its name.")
    port: int = Field(
        0,
        ge=0,
        le=65535,
        description="UDP port of the clock, and TCP port for results without a shared folder; 0: any.",
    )
    shared_folder: Boolean = Field(
        True,
        description="Nodes have access to `results`; false: they send their results to `port` of this host. With ssh, "
        "they always send them over their connection.",
    )
    clock_bound: Wait = Field(
        given("1 s"), description="A node whose clock differs by more than this time is rejected."
    )
    clock_error: Wait = Field(
        given("10 ms"),
        description="A node whose clock difference has a larger uncertainty is rejected. The difference itself "
        "is corrected.",
    )
    heartbeat_timeout: Wait = Field(
        given("30 s"), description="A node without a heartbeat for this time counts as lost."
    )


class Role(StrictModel):
    """A group of clients of a point that run one workload at the same time as other roles, see docs/roles.md."""

    workload: str = Field(description="Name of the workload, see docs/reference/workloads.md.")
    axes: dict[str, Any] = Field(
        default_factory=dict,
        description="Axis: value or list of values. Axes of the whole point belong to the `axes` of the sweep.",
    )
    scale_axes: Annotated[list[str], Once] = Field(default_factory=list, description="As in a sweep.")
    begin: At = Field(
        "0 s",
        description="Start of its clients: time after the agreed start (`10 s`, scaled) or share of the run (`30 %`).",
    )
    end: At | None = Field(None, description="End of its clients, in the same form; default: at the deadline.")
    objects: int = Field(
        64, ge=1, description="Number of objects that are staged for the role, or created for it to delete."
    )


def _columns(value: Any) -> dict[str, list[Any]]:
    """Return the values of each axis, one for each row."""
    if isinstance(value, list):
        value = _columns_from_rows(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} is not a list of rows; {FORMS}")
    for axis, column in value.items():
        if not isinstance(axis, str) or not isinstance(column, list):
            raise ValueError(f"{shown(axis)}: {shown(column)} is not a list of values; {FORMS}")
    lengths = {axis: len(column) for axis, column in value.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{axis} {n}" for axis, n in lengths.items())
        raise ValueError(f"columns differ in length ({counts} values); give each axis the same number of values")
    if value and not next(iter(lengths.values())):
        raise ValueError(f"there are no rows; {FORMS}")
    if len(value) == 1:
        raise ValueError(f"{next(iter(value))!r} is the only axis; add another one, or write it in `axes`")
    return {axis: list(column) for axis, column in value.items()}


def _columns_from_rows(rows: list[Any]) -> dict[str, list[Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise ValueError(f"row {number} is {shown(row)}; {FORMS}")
        if set(row) != set(rows[0]):
            present = ", ".join(map(str, row)) or "nothing"
            wanted = ", ".join(map(str, rows[0]))
            raise ValueError(f"row {number} has {present}, row 1 has {wanted}; name the same axes in each row")
    if not rows or not rows[0]:
        raise ValueError(f"there are no rows; {FORMS}")
    return {axis: [row[axis] for row in rows] for axis in rows[0]}


_JSON_ROWS: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "minItems": 1, "items": {"type": "object", "minProperties": 2}},
        {"type": "object", "additionalProperties": {"type": "array", "minItems": 1}},
    ]
}
Rows = Annotated[dict[str, list[Any]], BeforeValidator(_columns), WithJsonSchema(_JSON_ROWS)]


class Sweep(StrictModel):
    """One workload, or several roles at the same time, with the values of its axes.

    All combinations of `axes` and the rows of `zip` are measured.
    """

    workload: str = Field("", description="Name of the workload; empty with `roles`. See docs/reference/workloads.md.")
    roles: dict[RoleName, Role] = Field(
        default_factory=dict, description="Roles that run at the same time, instead of `workload`; see docs/roles.md."
    )
    axes: dict[str, Any] = Field(
        default_factory=dict,
        description="Axis: value or list of values. With `roles`: axes of the whole point.",
    )
    zip: Rows = Field(
        default_factory=dict,
        description=(
            "Axes that vary together: rows (`[{front_ends: 1, clients: 3}, …]`) or columns of equal length. Their rows "
            "are combined with every point of `axes`. With `roles`, they can be axes of a role, such as "
            "`uploads.workers`."
        ),
    )
    scale_axes: Annotated[list[str], Once] = Field(
        default_factory=list,
        description=(
            "Axes that the campaign's `scale` also multiplies: whole numbers (at least 1), and the size of the "
            "generated file (the nearest of S, M, L)."
        ),
    )
    duration: Window = Field(
        given("10 s"),
        description="Time from the agreed start to the deadline. From the second attempt on, a window shorter than "
        "three operations is lengthened, up to ten times.",
    )
    warm_up: Duration = Field(given("1 s"), description="Time that is cut from the start of every window.")
    objects: int = Field(
        64, ge=1, description="Number of objects staged for `get`; every client reads them in a different order."
    )
    bins: Bin | None = Field(
        None,
        description=(
            "Records aggregate operations in bins of this length (scaled, at least 100 ms), counted from the first "
            "operation. Default: one row per operation, or bins of 100 ms if a point has more than 5 million. For the "
            "engines loadgen and obstore."
        ),
    )
    repetitions: int | None = Field(
        None, ge=1, description="Number of runs of each point; default: `repetitions` of the campaign."
    )
    parts: int | None = Field(
        None,
        ge=1,
        le=MAX_PARTS,
        description="Number of consecutive parts in which each point is measured, each with a record; see "
        "docs/soak.md.",
    )
    stores: Annotated[list[Name], Once] | None = Field(
        None,
        min_length=1,
        description="Measure only these stores of the campaign; default: all of `stores_to_measure`.",
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> "Sweep":
        if not self.workload and not self.roles:
            raise ValueError("'workload' is missing; set it, or use `roles` for several workloads")
        if self.workload and self.roles:
            raise ValueError("has both `workload` and `roles`; make the workload one of the roles")
        if self.roles and (given := sorted({"objects", "scale_axes"} & self.model_fields_set)):
            raise ValueError(f"`{given[0]}` belongs to a role if there are roles; write it in `roles.<name>`")
        return self


# A password before the host, or a parameter like X-Amz-Signature, token or authz.
_SECRET_URL = re.compile(
    r"(?is)\w[\w+.:-]*://(?:[^/?#]*:[^/?#]*@|.*[?&#][^=&]*(?:sig|token|key|pass|secret|cred|auth)[^=&]*=)"
)


class RootFile(StrictModel):
    """A ROOT file of the user, for the workloads that read ROOT files."""

    path: Text = Field(
        description="Path, or URL that fsspec opens (https://…, root://…); the file is copied into the stores."
    )
    tree: Text | None = Field(
        None, description="Name of the TTree or RNTuple; required if the file contains more than one."
    )

    @field_validator("path")
    @classmethod
    def _no_secret(cls, path: str) -> str:
        if _SECRET_URL.match(path):
            raise ValueError(
                "the URL contains a password or token, which records would include; download the file and give its path"
            )
        return path


class Mix(StrictModel):
    """Weights of mixed operations. The axis `mix` of the workload `mix` selects one by its name. See docs/mixes.md."""

    get: float = Field(0.0, ge=0, description="Downloads.")
    put: float = Field(0.0, ge=0, description="Uploads.")
    head: float = Field(0.0, ge=0, description="HEAD requests.")
    list: float = Field(0.0, ge=0, description="Requests for a page of a listing.")
    delete: float = Field(0.0, ge=0, description="Deletions: at most the weight of `put`.")

    @model_validator(mode="after")
    def _require_valid_weights(self) -> "Mix":
        if not sum(self.as_dict().values()):
            raise ValueError("all weights are 0; set at least one, e.g. `get: 90, put: 10`")
        if self.delete > self.put:
            raise ValueError(
                "`delete` is larger than `put`, so no objects would remain; set `put` to at least `delete`"
            )
        return self

    def as_dict(self) -> dict[str, float]:
        return self.model_dump()


class Sizes(StrictModel):
    """Object sizes of a mix: `fixed`, `mean` with `sigma`, or `histogram`. The axis `sizes` selects one by its name."""

    fixed: Size | None = Field(None, description="Size of all objects.")
    mean: Size | None = Field(
        None, description="Log-normal: mean of the distribution without the limits `minimum` and `maximum`."
    )
    sigma: float | None = Field(None, gt=0, le=5, description="Log-normal: standard deviation of the logarithm.")
    minimum: Size = Field(given("1 B"), description="Log-normal: minimum size; smaller sizes are drawn again.")
    maximum: Size | None = Field(
        None, description="Log-normal: maximum size; larger sizes are drawn again; default: 100 times the mean."
    )
    histogram: Histogram | None = Field(
        None, description="CSV file with the columns size,count. Sizes are in bytes, or have a unit."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Sizes":
        if [self.fixed, self.mean, self.histogram].count(None) != 2:
            raise ValueError("must have exactly one of `fixed`, `mean` with `sigma`, `histogram`; give one of them")
        if (self.mean is None) != (self.sigma is None):
            raise ValueError("`mean` and `sigma` belong together; give both")
        if self.mean is None and {"minimum", "maximum"} & self.model_fields_set:
            raise ValueError("`minimum` and `maximum` are only for a log-normal distribution; remove them")
        values = self.as_dict()
        if self.mean is not None and not values["least"] < self.mean < values["most"]:
            raise ValueError("the mean is not between `minimum` and `maximum`; change one of them")
        if mixes.largest(values) > MAX_OBJECT:
            limit = units.format_size(MAX_OBJECT)
            raise ValueError(f"objects of more than {limit} need a multipart upload; choose smaller ones")
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the values in the form that a point records."""
        if self.fixed is not None:
            return {"fixed": self.fixed}
        if self.mean is not None:
            most = mixes.MAX_RATIO * self.mean if self.maximum is None else self.maximum
            return {"mean": self.mean, "sigma": self.sigma, "least": self.minimum, "most": most}
        return dict(self.histogram or {})


def new_names(declared: dict[str, Any]) -> dict[str, Any]:
    """Return the names if none is built in or can be read as a size. Raises ValueError."""
    for name in declared:
        if name in mixes.BUILT_IN:
            raise ValueError(f"{name} is a built-in mix; choose another name")
        with suppress(UserError):
            units.parse(name, "size", "")
            raise ValueError(f"{name} can be read as a size; choose another name")
    return declared


class Campaign(StrictModel):
    """The content of a campaign file: what is measured, and how it is measured."""

    name: Name = Field(description="Name of the campaign and of its folder in `results/`.")
    title: str = Field("", description="Title of the paper.")
    authors: list[str] = Field(default_factory=list, description="Authors of the paper.")
    stores_to_measure: Annotated[list[Name], Once] = Field(
        min_length=1,
        description=("Names of the stores to measure. Set it in config.yaml, or in campaigns for particular stores."),
    )
    repetitions: int = Field(
        8,
        ge=1,
        description=(
            "Number of runs of each point. With 6 or more, medians have 95 % intervals instead of ranges; "
            "8 resolve a difference of "
            "5 %."
        ),
    )
    seed: int = Field(20150413, ge=0, lt=2**63, description="Seed of order, data and selections.")
    scale: float = Field(
        1.0,
        gt=0,
        le=1000,
        description=(
            "Factor on all durations, warm-ups and numbers of objects, and on the axes that a sweep names "
            "in `scale_axes`."
        ),
    )
    failure_budget: float = Field(
        0.01,
        ge=0,
        le=1,
        description="A run is marked as invalid if a larger fraction of its operations fails.",
    )
    give_up_after: int = Field(
        5,
        ge=1,
        description=(
            "If this number of consecutive points of a store fail with the same error, the run skips its other points. "
            "The run stops if this happens for all stores. The next run tries all points again."
        ),
    )
    calibrate: Boolean = Field(
        True,
        description="Measure the limits of the clients before and after the campaign, see docs/calibration.md.",
    )
    files: dict[Name, RootFile] = Field(
        default_factory=dict,
        description="ROOT files of the user by name. Reads select one by `file_size`, see docs/own-files.md.",
    )
    sweeps: dict[SweepName, Sweep] = Field(min_length=1, description="Measurements by name.")
    faults: dict[FaultName, Annotated[list[Act], Field(min_length=1)]] = Field(
        default_factory=dict, description="Actions on a store during a run, see docs/faults.md."
    )
    mixes: dict[Name, Mix] = Field(
        default_factory=dict, description="Weights of operations for the axis `mix`, see docs/mixes.md."
    )
    sizes: dict[Name, Sizes] = Field(
        default_factory=dict, description="Distributions of object sizes for the axis `sizes`."
    )
    release: Release | None = Field(None, description="A nightly software release, see docs/releases.md.")
    figures: dict[FigureName, Figure] = Field(default_factory=dict, description="See docs/figures.md.")
    claims: dict[ClaimName, Claim] = Field(
        default_factory=dict, description="Findings to judge with the measured data, see docs/claims.md."
    )

    @field_validator("mixes", "sizes")
    @classmethod
    def _names_of_a_mix(cls, declared: dict[str, Any]) -> dict[str, Any]:
        return new_names(declared)

    @field_validator("files")
    @classmethod
    def _new_names(cls, files: dict[str, RootFile]) -> dict[str, RootFile]:
        for name in FILE_SIZES:
            if name in files:
                raise ValueError(f"{name} is a size of the generated ROOT file; choose another name for your file")
        return files
