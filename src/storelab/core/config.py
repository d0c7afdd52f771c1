"""Config: typed, closed models; loading and merging; one clear line for every mistake (level 1).

Merged key by key, the last one wins, lists are replaced: config.yaml < the campaign file < further config files < --set.
`docs/configuration.md` is generated from these models (`storelab docs`) and a test holds the two in step.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

from storelab.core.config_types import Boolean, Closed, Duration, Name, Rate, Size
from storelab.core.errors import UserError
from storelab.core.figures import Figure, FigureName
from storelab.core.store_settings import KINDS, NullServer, Store

SCALES = ("S", "M", "L")  # of the generated ROOT file


class Limits(Closed):
    """Bounds that guard a store in production; `storelab check` holds the plan against them, `measure` the run."""

    stored_bytes: Size = Field("20 GB", description="Most bytes that a campaign may have in one store at a time (staged and put).")
    objects: int = Field(1_000_000, ge=1, description="Most objects staged in one store.")
    buckets: int = Field(
        100, ge=1, description="Most buckets that a campaign may make in one store (100 per account on UDS and Amazon S3)."
    )
    clients: int = Field(64, ge=1, description="Most clients of one point.")
    connections: int = Field(4096, ge=1, description="Most workers of one point over all clients.")
    throughput: Rate | None = Field(None, description="Abort a point whose clients move more than this; default: no bound.")
    requests_per_s: int | None = Field(None, ge=1, description="Abort a point that exceeds this many requests/s; default: no bound.")
    error_fraction: float | None = Field(
        None, ge=0, le=1, description="Abort a point in which a larger fraction of the operations fails; default: no bound."
    )


class Launcher(Closed):
    """How the clients of a point are started: on this host, or on the nodes of a batch system (docs/cluster.md)."""

    kind: Literal["local", "srun", "htcondor"] = Field(
        "local", description="`local`: on this host; `srun`: in a Slurm allocation; `htcondor`."
    )
    options: list[str] = Field(
        default_factory=list, description="Further options of srun; further lines of the HTCondor submit description."
    )
    universe: Literal["vanilla", "parallel"] = Field("vanilla", description="Of HTCondor: jobs that meet, or its own gang scheduling.")
    nodes: int | None = Field(
        None,
        ge=1,
        description="Most nodes of a gang; default: those of the allocation. HTCondor wants it, and a point that is a Slurm job of its own.",
    )
    python: str | None = Field(None, description="The nodes' Python with storelab; default: the path of this one.")
    setup: str | None = Field(
        None, description="Shell lines that run on each node before storelab, in a login shell: `module load …`, `export …`."
    )
    address: str | None = Field(None, description="Where nodes find this host; default: its name.")
    port: int = Field(0, ge=0, le=65535, description="UDP port of its clock (and TCP port of the post office); 0: any.")
    shared_folder: Boolean = Field(True, description="Nodes see `results`; false: they talk to a TCP port of this host.")
    clock_bound: Duration = Field("1 s", description="A node whose clock is farther off than this is refused.")
    clock_error: Duration = Field("10 ms", description="... or known with a larger error than this; the difference itself is taken off.")
    silence: Duration = Field("30 s", description="A node that has given no sign of life for so long is lost.")


class Sweep(Closed):
    """One workload over the product of its axes."""

    workload: str = Field(description="Name of the workload, see the list of workloads below.")
    axes: dict[str, Any] = Field(
        default_factory=dict, description="Axis: value or list of values; what is not named stands at its default."
    )
    scaled_axes: list[str] = Field(
        default_factory=list,
        description="Axes that the campaign's `scale` multiplies as well: whole numbers (at least 1), and the generated file (the nearest of S, M, L).",
    )
    duration: Duration = Field("10 s", description="From the agreed start to the deadline.")
    warm_up: Duration = Field("1 s", description="Cut from the begin of every window.")
    objects: int = Field(64, ge=1, description="Objects staged for `get`; every client reads them in an order of its own.")
    repetitions: int | None = Field(None, ge=1, description="Overrides the campaign's.")
    stores: list[Name] | None = Field(None, min_length=1, description="Only these of the campaign's stores; default: all of `use_stores`.")


class RootFile(Closed):
    """A ROOT file of one's own, for the workloads that read ROOT files."""

    path: str = Field(min_length=1, description="Its path, or a URL that fsspec opens (https://…, root://…); copied into the stores.")
    tree: str | None = Field(None, description="Name of the TTree or RNTuple; needed where the file holds several.")


class Campaign(Closed):
    """What is measured: lives in `campaigns/*.yaml`."""

    name: Name = Field(description="Name of the campaign and of its folder in `results/`.")
    title: str = Field("", description="Title of the paper.")
    authors: list[str] = Field(default_factory=list, description="Authors of the paper.")
    use_stores: list[Name] = Field(min_length=1, description="Stores of config.yaml to measure.")
    repetitions: int = Field(
        8, ge=1, description="Runs of each point; from 6 on, medians have 95 % intervals instead of ranges; 8 tell a difference of 5 %."
    )
    seed: int = Field(20150413, ge=0, description="Seed of order, data and selections.")
    scale: float = Field(
        1.0,
        gt=0,
        description="Factor on all durations, warm-ups and numbers of objects, and on the axes that a sweep names in `scaled_axes`.",
    )
    failure_budget: float = Field(
        0.01, ge=0, le=1, description="A run in which a larger fraction of the operations fails is invalid, and shown so."
    )
    calibrate: Boolean = Field(
        True, description="Measure before and after the campaign what its clients could do at most, see docs/calibration.md."
    )
    files: dict[Name, RootFile] = Field(
        default_factory=dict, description="Name: a ROOT file of your own; `scale` of a read may be that name, see docs/own-files.md."
    )
    sweeps: dict[str, Sweep] = Field(min_length=1, description="Name: sweep.")
    figures: dict[FigureName, Figure] = Field(default_factory=dict, description="Name: figure, see docs/figures.md.")

    @field_validator("files")
    @classmethod
    def _new_names(cls, files: dict[str, RootFile]) -> dict[str, RootFile]:
        for name in SCALES:
            if name in files:
                raise ValueError(f"{name} is a scale of the generated ROOT file; give your file another name")
        return files


class Config(Campaign):
    """The whole configuration: config.yaml with the campaign file merged over it."""

    campaign: str = Field(description="Campaign file: a name in `campaigns/`, or a path that ends in .yaml.")
    measure: Boolean = Field(
        False, description="false: only rebuild tables, figures and paper from raw records; true: measure what is missing."
    )
    stores: dict[Name, Store] = Field(min_length=1, description="Name: store (system under test).")
    limits: Limits = Field(default_factory=Limits, description="Bounds that guard the stores.")
    results: str = Field("results", description="Folder of all campaigns.")
    state: str = Field(".storelab", description="Folder for state, data and logs of managed stores; on a disk of this machine.")
    scratch: str = Field("/dev/shm", description="tmpfs for what clients read and write.")
    launcher: Launcher = Field(default_factory=Launcher, description="How clients are started.")
    gang_timeout: Duration = Field("60 s", description="How long the clients of a point wait for each other.")
    lead: Duration = Field("200 ms", description="Least time between the agreement and the start; what the agreement took is added.")

    @field_validator("stores")
    @classmethod
    def _calibrated(cls, stores: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """A campaign that is calibrated has a null server, which nobody needs to configure."""
        if not info.data.get("calibrate") or any(s.kind == "nullserver" for s in stores.values()):
            return stores
        if "nullserver" in stores:
            raise ValueError("a store of another kind is called 'nullserver'; give it another name, or set `calibrate: false`")
        return {**stores, "nullserver": NullServer(kind="nullserver")}

    @property
    def campaign_dir(self) -> Path:
        return Path(self.results) / self.name

    @property
    def raw(self) -> Path:
        return self.campaign_dir / "raw"


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` merged key by key; lists and scalars are replaced."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merge(out[key], value) if both else value
    return out


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping. Raises UserError for a missing file, broken YAML or another type."""
    try:
        text = path.read_text()
    except OSError as error:
        raise UserError(str(path), f"cannot be read ({error.strerror})", "give the path of a YAML file") from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(where, f"is not YAML ({getattr(error, 'problem', None) or 'syntax'})") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UserError(str(path), "holds no mapping of keys", "write `key: value` lines")
    return data


def parse_set(items: Iterable[str]) -> dict[str, Any]:
    """`a.b=value` (value in YAML) to a nested mapping. Raises UserError."""
    out: dict[str, Any] = {}
    for item in items:
        key, eq, text = item.partition("=")
        if not eq or not key:
            raise UserError("--set", f"{item!r} has no '='", "write --set key.key=value")
        value = yaml.safe_load(text)
        for part in reversed(key.split(".")):
            value = {part: value}
        out = merge(out, value)
    return out


def campaign_path(campaign: Any, root: Path) -> Path:
    """The campaign's file: a name is looked up in `campaigns/`. Raises UserError with the nearest names."""
    if not isinstance(campaign, str) or not campaign:
        raise UserError("campaign", f"{campaign!r} names no campaign", "give a name in campaigns/ or a path that ends in .yaml")
    path = root / campaign if campaign.endswith((".yaml", ".yml")) else root / "campaigns" / f"{campaign}.yaml"
    if not path.exists():
        known = sorted(p.stem for p in (root / "campaigns").glob("*.yaml"))
        near = difflib.get_close_matches(campaign, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise UserError("campaign", f"{campaign!r} is not there ({path})", hint)
    return path


Layers = list[tuple[str, dict[str, Any]]]


def read_layers(main: Path, extra: Iterable[Path] = (), overrides: Mapping[str, Any] | None = None) -> tuple[Layers, dict[str, Any]]:
    """The files and overrides in the order of merging, with their names, and what they merge to. Raises UserError."""
    layers: Layers = [(str(main), read_yaml(main)), *((str(p), read_yaml(p)) for p in extra), ("command line", dict(overrides or {}))]
    named = [doc["campaign"] for _, doc in layers if "campaign" in doc]
    path = campaign_path(named[-1] if named else None, main.parent)
    layers.insert(1, (str(path), read_yaml(path)))
    data: dict[str, Any] = {}
    for _, doc in layers:
        data = merge(data, doc)
    return layers, data


def load(main: Path, extra: Iterable[Path] = (), overrides: Mapping[str, Any] | None = None) -> Config:
    """Load and validate. Raises UserError that names file, key, value and mend."""
    layers, data = read_layers(main, extra, overrides)
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise explain(error, layers) from None
    for name in config.use_stores:
        if name not in config.stores:
            near = difflib.get_close_matches(name, config.stores, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"defined: {', '.join(config.stores)}"
            raise UserError(f"{layers[1][0]}: use_stores", f"no one defined the store {name!r}", hint)
    for name, sweep in config.sweeps.items():
        for store in sweep.stores or ():
            if store not in config.use_stores:
                near = difflib.get_close_matches(store, config.use_stores, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"used: {', '.join(config.use_stores)}"
                raise UserError(f"{layers[1][0]}: sweeps.{name}.stores", f"{store!r} is none of the campaign's stores", hint)
    return config


class Rebuild(BaseModel):
    """The part of the configuration that a rebuild from records needs: no store, no sweep."""

    name: Name
    measure: Boolean = False
    results: str = "results"


def load_rebuild(main: Path, extra: Iterable[Path] = (), overrides: Mapping[str, Any] | None = None) -> Rebuild:
    """Like `load`, for the analysis: records outlive the stores that they were measured on. Raises UserError."""
    layers, data = read_layers(main, extra, overrides)
    try:
        return Rebuild.model_validate(data)
    except ValidationError as error:
        raise explain(error, layers) from None


def explain(error: ValidationError, layers: Layers) -> UserError:
    """Turn pydantic's first error into one line: the file that says it, the key, the value, the mend."""
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")  # an unknown key explains a missing one
    loc = [str(p) for i, p in enumerate(first["loc"]) if not (first["loc"][0] == "stores" and i == 2)]  # i == 2: pydantic's tag
    place = f"{_origin(loc, layers)}: {'.'.join(loc)}"
    value = first.get("input")
    if first["type"] == "extra_forbidden":
        known = _siblings(first["loc"][:-1])
        near = difflib.get_close_matches(loc[-1], known, 1)
        return UserError(place, f"unknown key {loc[-1]!r}", f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
    if first["type"] == "missing":
        return UserError(place, f"{loc[-1]!r} is missing", "see docs/configuration.md")
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return UserError(
            f"{place}.kind", f"no store of kind {value.get('kind') if isinstance(value, dict) else value!r}", f"one of: {', '.join(KINDS)}"
        )
    if first["type"] == "value_error":
        problem, _, mend = str(first["ctx"]["error"]).partition("; ")
        return UserError(place, problem, mend)
    if first["type"] == "too_short":
        return UserError(place, "is empty", "give at least one")
    shown = json.dumps(value, default=str)
    return UserError(
        place,
        f"{shown if len(shown) < 80 else shown[:77] + '...'}: {first['msg'][0].lower() + first['msg'][1:]}",
        "see docs/configuration.md",
    )


def _origin(loc: list[str], layers: Layers) -> str:
    """The last layer that holds the longest part of the key path."""
    best, depth = layers[0][0], -1
    for name, doc in layers:
        node: Any = doc
        n = 0
        for part in loc:
            if not isinstance(node, dict) or part not in {str(k) for k in node}:
                break
            node, n = next(v for k, v in node.items() if str(k) == part), n + 1
        if n and n >= depth:
            best, depth = name, n
    return best


def _siblings(loc: tuple[str | int, ...]) -> list[str]:
    """Known keys of the model that pydantic's `loc` leads to."""
    models: dict[str, type[Closed]] = {"limits": Limits, "sweeps": Sweep, "files": RootFile, "figures": Figure}
    if loc[:1] == ("stores",):
        models["stores"] = KINDS[str(loc[2])]
    return list(models.get(str(loc[0]) if loc else "", Config).model_fields)
