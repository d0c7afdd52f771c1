"""Models of what a campaign file says: sweeps, mixes of operations and sizes of objects, limits, launcher, files.

`faults.py`: what is done to a store in a run; `release.py`: a nightly software release; `claims.py`: findings that are
judged. May import: `axes`, `config_types`, `errors`, `figures`, `units`.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from storelab.core import units
from storelab.core.axes import mixes
from storelab.core.campaign.claims import Claim, ClaimName
from storelab.core.campaign.faults import Act, At, FaultName
from storelab.core.campaign.release import Release
from storelab.core.config_types import (
    Bin,
    Boolean,
    Closed,
    Duration,
    Histogram,
    Host,
    Name,
    Once,
    Rate,
    RoleName,
    Size,
    SweepName,
    Text,
    Wait,
    Window,
    given,
)
from storelab.core.errors import UserError, shown
from storelab.core.figures import Figure, FigureName

SCALES = ("S", "M", "L")  # of the generated ROOT file
MOST_PARTS = 1000  # of a sweep
MOST_OBJECT = 5 * 10**9  # bytes of one upload that is not in parts (Amazon S3 API reference)
FORMS = "write rows like [{front_ends: 1, clients: 3}, …], or columns like {front_ends: [1, 2], clients: [3, 6]}"


class Limits(Closed):
    """Bounds that guard a store in production; `storelab check` holds the plan against them, `measure` the run."""

    stored_bytes: Size = Field(
        given("20 GB"), description="Most bytes that a campaign may have in one store at a time (staged and put)."
    )
    objects: int = Field(1_000_000, ge=1, description="Most objects staged in one store.")
    buckets: int = Field(
        100,
        ge=1,
        description="Most buckets that a campaign may make in one store (100 per account on UDS and Amazon S3).",
    )
    clients: int = Field(64, ge=1, description="Most clients of one point.")
    connections: int = Field(4096, ge=1, description="Most workers of one point over all clients.")
    throughput: Rate | None = Field(
        None, description="Abort a point whose clients move more than this; default: no bound."
    )
    requests_per_s: int | None = Field(
        None, ge=1, description="Abort a point that exceeds this many requests/s; default: no bound."
    )
    error_fraction: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Abort a point in which a larger fraction of the operations fails; default: no bound.",
    )


class Launcher(Closed):
    """How the clients of a point are started: on this host, or on the nodes of a batch system (docs/cluster.md)."""

    kind: Literal["local", "srun", "htcondor"] = Field(
        "local", description="`local`: on this host; `srun`: in a Slurm allocation; `htcondor`."
    )
    options: list[str] = Field(
        default_factory=list, description="Further options of srun; further lines of the HTCondor submit description."
    )
    universe: Literal["vanilla", "parallel"] = Field(
        "vanilla", description="Of HTCondor: jobs that meet, or its own gang scheduling."
    )
    nodes: int | None = Field(
        None,
        ge=1,
        description=(
            "Most nodes of a gang; default: those of the allocation. HTCondor wants it, and a point that is "
            "a Slurm job of its own."
        ),
    )
    python: Text | None = Field(None, description="The nodes' Python with storelab; default: the path of this one.")
    setup: str | None = Field(
        None,
        description="Shell lines that run on each node before storelab, in a login shell: `module load …`, `export …`.",
    )
    address: Host | None = Field(None, description="Where nodes find this host; default: its name.")
    port: int = Field(0, ge=0, le=65535, description="UDP port of its clock (and TCP port of the post office); 0: any.")
    shared_folder: Boolean = Field(
        True, description="Nodes see `results`; false: they talk to a TCP port of this host."
    )
    clock_bound: Wait = Field(given("1 s"), description="A node whose clock is farther off than this is refused.")
    clock_error: Wait = Field(
        given("10 ms"), description="... or known with a larger error than this; the difference itself is taken off."
    )
    silence: Wait = Field(given("30 s"), description="A node that has given no sign of life for so long is lost.")


class Role(Closed):
    """What some clients of a point do beside those of other roles, see docs/roles.md."""

    workload: str = Field(description="Name of its workload, see the list of workloads below.")
    axes: dict[str, Any] = Field(
        default_factory=dict,
        description="Axis: value or list of values. Axes of the whole point stand in those of the sweep.",
    )
    scaled_axes: Annotated[list[str], Once] = Field(default_factory=list, description="As those of a sweep.")
    begin: At = Field(
        "0 s",
        description="When its clients begin: from the agreed start (`10 s`, scaled), or a share of the run (`30 %`).",
    )
    end: At | None = Field(None, description="When they end, likewise; default: at the deadline.")
    objects: int = Field(64, ge=1, description="Objects staged for it, or made for it to delete.")


def _columns(value: Any) -> dict[str, list[Any]]:
    """Axis -> its value in each row."""
    if isinstance(value, list):
        value = _of_rows(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} gives no rows; {FORMS}")
    for axis, column in value.items():
        if not isinstance(axis, str) or not isinstance(column, list):
            raise ValueError(f"{shown(axis)}: {shown(column)} is no column; {FORMS}")
    lengths = {axis: len(column) for axis, column in value.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{axis} {n}" for axis, n in lengths.items())
        raise ValueError(f"rows differ in length ({told} values); give each axis as many values")
    if value and not next(iter(lengths.values())):
        raise ValueError(f"has no row; {FORMS}")
    if len(value) == 1:
        raise ValueError(f"{next(iter(value))!r} goes with no other axis; name another one, or write it in `axes`")
    return {axis: list(column) for axis, column in value.items()}


def _of_rows(rows: list[Any]) -> dict[str, list[Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise ValueError(f"row {number} is {shown(row)}; {FORMS}")
        if set(row) != set(rows[0]):
            told = ", ".join(map(str, row)) or "nothing"
            wanted = ", ".join(map(str, rows[0]))
            raise ValueError(f"row {number} gives {told}, row 1 {wanted}; name the same axes in each row")
    if not rows or not rows[0]:
        raise ValueError(f"has no row; {FORMS}")
    return {axis: [row[axis] for row in rows] for axis in rows[0]}


Together = Annotated[dict[str, list[Any]], BeforeValidator(_columns)]


class Sweep(Closed):
    """One workload, or several roles at once, over the product of their axes, and of the rows of `together`."""

    workload: str = Field("", description="Name of the workload, see the list of workloads below; none with `roles`.")
    roles: dict[RoleName, Role] = Field(
        default_factory=dict, description="Name: role. All of them at once, instead of `workload`; see docs/roles.md."
    )
    axes: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "Axis: value or list of values; what is not named stands at its default. With `roles`: those of the whole "
            "point."
        ),
    )
    together: Together = Field(
        default_factory=dict,
        description=(
            "Axes that go together: rows (`[{front_ends: 1, clients: 3}, …]`) or columns of equal length; their rows "
            "are multiplied with `axes`. With `roles` also theirs, as `uploads.workers`."
        ),
    )
    scaled_axes: Annotated[list[str], Once] = Field(
        default_factory=list,
        description=(
            "Axes that the campaign's `scale` multiplies as well: whole numbers (at least 1), and the "
            "generated file (the nearest of S, M, L)."
        ),
    )
    duration: Window = Field(
        given("10 s"),
        description="From the agreed start to the deadline. From the second repetition on, a window that is shorter "
        "than three operations is lengthened, up to ten times.",
    )
    warm_up: Duration = Field(given("1 s"), description="Cut from the begin of every window.")
    objects: int = Field(
        64, ge=1, description="Objects staged for `get`; every client reads them in an order of its own."
    )
    bins: Bin | None = Field(
        None,
        description=(
            "Records hold operations as bins of this length (scaled, at least 100 ms) from the first one on; default: "
            "each by itself, beyond 5 million of a point as bins of 100 ms. For engines loadgen and obstore."
        ),
    )
    repetitions: int | None = Field(None, ge=1, description="Overrides the campaign's.")
    parts: int | None = Field(
        None,
        ge=1,
        le=MOST_PARTS,
        description="Measures each point in so many parts, one after the other, each with a record; see docs/soak.md.",
    )
    stores: Annotated[list[Name], Once] | None = Field(
        None, min_length=1, description="Only these of the campaign's stores; default: all of `use_stores`."
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> "Sweep":
        if not self.workload and not self.roles:
            raise ValueError("'workload' is missing; name one, or several things at once in `roles`")
        if self.workload and self.roles:
            raise ValueError("has a `workload` and `roles`; make the workload one of the roles")
        if self.roles and (given := sorted({"objects", "scaled_axes"} & self.model_fields_set)):
            raise ValueError(f"`{given[0]}` is of a role where there are roles; write it in `roles.<name>`")
        return self


# A password before the host, or a parameter such as X-Amz-Signature, token, authz.
_SECRET_URL = re.compile(
    r"(?is)\w[\w+.:-]*://(?:[^/?#]*:[^/?#]*@|.*[?&#][^=&]*(?:sig|token|key|pass|secret|cred|auth)[^=&]*=)"
)


class RootFile(Closed):
    """A ROOT file of one's own, for the workloads that read ROOT files."""

    path: Text = Field(
        description="Its path, or a URL that fsspec opens (https://…, root://…); copied into the stores."
    )
    tree: Text | None = Field(None, description="Name of the TTree or RNTuple; needed where the file holds several.")

    @field_validator("path")
    @classmethod
    def _no_secret(cls, path: str) -> str:
        if _SECRET_URL.match(path):
            raise ValueError(
                "the URL holds a password or a token, which records would keep; download the file and give its path"
            )
        return path


class Mix(Closed):
    """Weights of operations that clients mix; the axis `mix` of the workload `mix` names them. See docs/mixes.md."""

    get: float = Field(0.0, ge=0, description="Downloads.")
    put: float = Field(0.0, ge=0, description="Uploads.")
    head: float = Field(0.0, ge=0, description="HEAD requests.")
    list: float = Field(0.0, ge=0, description="Pages of a listing.")
    delete: float = Field(0.0, ge=0, description="Deletions: at most as many as uploads.")

    @model_validator(mode="after")
    def _goes_on(self) -> "Mix":
        if not sum(self.told().values()):
            raise ValueError("no operation has a weight; give one, e.g. `get: 90, put: 10`")
        if self.delete > self.put:
            raise ValueError("more is deleted than put, so that nothing would be left; let `put` be at least `delete`")
        return self

    def told(self) -> dict[str, float]:
        return self.model_dump()


class Sizes(Closed):
    """How long the objects of a mix are: `fixed`, `mean` with `sigma`, or `histogram`; the axis `sizes` names it."""

    fixed: Size | None = Field(None, description="All are so long.")
    mean: Size | None = Field(None, description="Log-normal: the mean, before it is cut at `least` and `most`.")
    sigma: float | None = Field(None, gt=0, le=5, description="Log-normal: standard deviation of the logarithm.")
    least: Size = Field(given("1 B"), description="Log-normal: shorter ones are drawn again.")
    most: Size | None = Field(None, description="Log-normal: longer ones are drawn again; default: 100 times the mean.")
    histogram: Histogram | None = Field(
        None, description="Mapping of size to count, or a CSV file with the columns size,count (bytes, or with unit)."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Sizes":
        if [self.fixed, self.mean, self.histogram].count(None) != 2:
            raise ValueError("is not one of `fixed`, `mean` with `sigma`, `histogram`; give one of them")
        if (self.mean is None) != (self.sigma is None):
            raise ValueError("`mean` and `sigma` belong together; give both")
        if self.mean is None and {"least", "most"} & self.model_fields_set:
            raise ValueError("`least` and `most` bound a log-normal distribution; leave them out")
        told = self.told()
        if self.mean is not None and not told["least"] < self.mean < told["most"]:
            raise ValueError("the mean is not between `least` and `most`; move them")
        if mixes.largest(told) > MOST_OBJECT:
            raise ValueError(f"objects of more than {units.format_size(MOST_OBJECT)} are no single upload; bound them")
        return self

    def told(self) -> dict[str, Any]:
        """As a point keeps it."""
        if self.fixed is not None:
            return {"fixed": self.fixed}
        if self.mean is not None:
            most = mixes.MOST_TIMES * self.mean if self.most is None else self.most
            return {"mean": self.mean, "sigma": self.sigma, "least": self.least, "most": most}
        return dict(self.histogram or {})


def new_names(declared: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for a name that is built in, or that reads as a size."""
    for name in declared:
        if name in mixes.BUILT_IN:
            raise ValueError(f"{name} is built in; give your mix another name")
        with suppress(UserError):
            units.parse(name, "size", "")
            raise ValueError(f"{name} is a size; give it another name")
    return declared


class Campaign(Closed):
    """What is measured: lives in `campaigns/*.yaml`."""

    name: Name = Field(description="Name of the campaign and of its folder in `results/`.")
    title: str = Field("", description="Title of the paper.")
    authors: list[str] = Field(default_factory=list, description="Authors of the paper.")
    use_stores: Annotated[list[Name], Once] = Field(
        min_length=1,
        description=(
            "Stores to measure: in config.yaml for the campaigns that are meant for any store, or in the campaign."
        ),
    )
    repetitions: int = Field(
        8,
        ge=1,
        description=(
            "Runs of each point; from 6 on, medians have 95 % intervals instead of ranges; 8 tell a difference of 5 %."
        ),
    )
    seed: int = Field(20150413, ge=0, lt=2**63, description="Seed of order, data and selections.")
    scale: float = Field(
        1.0,
        gt=0,
        le=1000,
        description=(
            "Factor on all durations, warm-ups and numbers of objects, and on the axes that a sweep names "
            "in `scaled_axes`."
        ),
    )
    failure_budget: float = Field(
        0.01,
        ge=0,
        le=1,
        description="A run in which a larger fraction of the operations fails is invalid, and shown so.",
    )
    give_up_after: int = Field(
        5,
        ge=1,
        description=(
            "After so many points in a row that fail alike, a run tries no other point of that store; it stops when no "
            "store is left. The next run tries all of them again."
        ),
    )
    calibrate: Boolean = Field(
        True,
        description="Measure before and after the campaign what its clients could do at most, see docs/calibration.md.",
    )
    files: dict[Name, RootFile] = Field(
        default_factory=dict,
        description="Name: a ROOT file of your own; `scale` of a read may be that name, see docs/own-files.md.",
    )
    sweeps: dict[SweepName, Sweep] = Field(min_length=1, description="Name: sweep.")
    faults: dict[FaultName, Annotated[list[Act], Field(min_length=1)]] = Field(
        default_factory=dict, description="Name: acts on a store in the middle of a run, see docs/faults.md."
    )
    mixes: dict[Name, Mix] = Field(
        default_factory=dict, description="Name: weights of operations, see docs/mixes.md; the axis `mix` names one."
    )
    sizes: dict[Name, Sizes] = Field(
        default_factory=dict, description="Name: a distribution of object sizes; the axis `sizes` names one."
    )
    release: Release | None = Field(None, description="A nightly software release, see docs/releases.md.")
    figures: dict[FigureName, Figure] = Field(default_factory=dict, description="Name: figure, see docs/figures.md.")
    claims: dict[ClaimName, Claim] = Field(
        default_factory=dict, description="Name: a claim of your own, judged with the findings, see docs/claims.md."
    )

    @field_validator("mixes", "sizes")
    @classmethod
    def _names_of_a_mix(cls, declared: dict[str, Any]) -> dict[str, Any]:
        return new_names(declared)

    @field_validator("files")
    @classmethod
    def _new_names(cls, files: dict[str, RootFile]) -> dict[str, RootFile]:
        for name in SCALES:
            if name in files:
                raise ValueError(f"{name} is a scale of the generated ROOT file; give your file another name")
        return files
