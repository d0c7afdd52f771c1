"""Load, merge and validate the configuration. Every error is reported on one line.

Sources are merged key by key in this order, and later ones override earlier ones: config.yaml, the campaign file,
further configuration files, `--set`. Lists are replaced. `docs/configuration.md` is generated from these models by
`storelab docs`, and a test checks it.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

from storelab.core import renamed, yaml_text
from storelab.core.campaign import Campaign, Launcher, Limits, Mix, Role, RootFile, Sizes, Sweep
from storelab.core.campaign.claims import Claim, Published
from storelab.core.campaign.faults import Act
from storelab.core.campaign.release import Chunks, Release, Tree
from storelab.core.config_types import Boolean, Duration, FolderPath, Name, StoreEntry, StoreName, Wait, given
from storelab.core.errors import NO_PROJECT, UserError, nearest, require_known, shown
from storelab.core.figures import Figure
from storelab.core.model import Layout


class Config(Campaign):
    """The whole configuration: config.yaml, merged with the campaign file.

    The entries of `stores` are not validated here; `stores/config.py` validates them.
    """

    campaign: str = Field(description="Campaign file: a name in `campaigns/`, or a path that ends in .yaml.")
    measure: Boolean = Field(
        False,
        description="false: rebuild tables, figures and paper from raw records; true: also measure missing points.",
    )
    stores: dict[StoreName, StoreEntry] = Field(
        min_length=1, description="Stores (systems under test) by name, see docs/reference/store-kinds.md."
    )
    limits: Limits = Field(default_factory=Limits, description="Limits that protect the stores.")
    results: FolderPath = Field("results", description="Folder with the results of all campaigns.")
    layout: Layout = Field(
        "article",
        description="Layout of a paper about several campaigns: one column, two columns, or the paper about the "
        "evaluations of 2010 to 2015; see docs/paper.md.",
    )
    state: FolderPath = Field(
        ".storelab", description="Folder for state, data and logs of managed stores, on a local disk of this host."
    )
    scratch: FolderPath = Field("/dev/shm", description="Folder on tmpfs for files that clients read and write.")
    drop_caches: Boolean = Field(
        False,
        description=(
            "Before cold accesses, drop the whole page cache of this host (needs root, and slows all "
            "programs) instead of "
            "only the pages of the store, see docs/cold.md."
        ),
    )
    launcher: Launcher = Field(default_factory=Launcher, description="How clients are started.")
    gang_timeout: Wait = Field(
        given("60 s"), description="Maximum time for which the clients of a point wait for each other."
    )
    start_delay: Duration = Field(
        given("200 ms"),
        description="Minimum time between the agreement on the start and the start.",
    )

    @field_validator("stores", mode="before")
    @classmethod
    def _calibrated(cls, configured: Any, info: ValidationInfo) -> Any:
        """Add the null server to a campaign with calibration, unless the user has configured one."""
        if not info.data.get("calibrate") or not isinstance(configured, dict) or not configured:
            return configured
        if any(_kind(entry) == "nullserver" for entry in configured.values()):
            return configured
        if "nullserver" in configured:
            raise ValueError("a store of another kind has the name 'nullserver'; rename it, or set `calibrate: false`")
        return {**configured, "nullserver": {"kind": "nullserver"}}

    @classmethod
    def keys_of_store(cls, kind: str) -> list[str]:
        """Return the keys that a store of this kind can have, as far as this class knows them."""
        return ["kind"]

    @property
    def campaign_dir(self) -> Path:
        return Path(self.results) / self.name

    @property
    def raw(self) -> Path:
        return self.campaign_dir / "raw"


def _kind(entry: Any) -> Any:
    return entry.get("kind") if isinstance(entry, Mapping) else getattr(entry, "kind", None)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` merged key by key; lists and scalars are replaced."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merge(out[key], value) if both else value
    return out


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping. Raises UserError for a missing file, broken YAML or another type."""
    data = yaml_text.read(path)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UserError(str(path), "the file is not a mapping of keys", "write `key: value` lines")
    return data


def parse_set(items: Iterable[str]) -> dict[str, Any]:
    """Convert `a.b=value` (value in YAML) to a nested mapping. Raises UserError."""
    out: dict[str, Any] = {}
    for item in items:
        key, eq, text = item.partition("=")
        if not eq or not key:
            raise UserError("--set", f"{item!r} has no '='", "write --set key.key=value")
        parts = key.split(".")
        if not all(parts):
            raise UserError("--set", f"{shown(key)} is not a valid key", "write --set key.key=value")
        value = yaml_text.parse(text, f"--set {key}", one_line=True)
        for part in reversed(parts):
            value = {part: value}
        out = merge(out, value)
    return out


def campaign_path(campaign: Any, root: Path) -> Path:
    """Return the path of the campaign's file. A name is looked up in `campaigns/`.

    Raises UserError with similar names.
    """
    if not isinstance(campaign, str) or not campaign:
        raise UserError(
            "campaign", f"{campaign!r} is not a campaign", "give a name in campaigns/ or a path that ends in .yaml"
        )
    path = root / campaign if campaign.endswith((".yaml", ".yml")) else root / "campaigns" / f"{campaign}.yaml"
    if not path.exists():
        known = names_of_campaigns(root)
        raise UserError(
            "campaign",
            f"{shown(campaign)} does not exist ({path.parent if path.parent.is_dir() else root})",
            nearest(campaign, known),
        )
    return path


def names_of_campaigns(root: Path) -> list[str]:
    """Return the names of the campaign files in the folder next to config.yaml."""
    return sorted(p.stem for p in (root / "campaigns").glob("*.yaml"))


MAX_SHOWN = 80  # maximum number of characters of a value or a key in a message
SECRET = {"token", "secret", "secret_key", "password", "key", "access_key"}  # keys whose values must not be shown
Layers = list[tuple[str, dict[str, Any]]]
Model = TypeVar("Model", bound=BaseModel)
ConfigT = TypeVar("ConfigT", bound=Config)


def read_layers(
    main: Path, extra: Iterable[Path] = (), overrides: Mapping[str, Any] | None = None
) -> tuple[Layers, dict[str, Any]]:
    """Return the configuration files and overrides in the order of merging, and the merged mapping.

    Raises UserError.
    """
    if main.name == "config.yaml" and not main.exists():
        raise UserError(str(main), "does not exist", NO_PROJECT)
    layers: Layers = [
        (str(main), read_yaml(main)),
        *((str(p), read_yaml(p)) for p in extra),
        ("command line", dict(overrides or {})),
    ]
    layers = [(name, renamed.current(doc, name)) for name, doc in layers]
    named = [doc["campaign"] for _, doc in layers if "campaign" in doc]
    path = campaign_path(named[-1] if named else None, main.parent)
    layers.insert(1, (str(path), renamed.current(read_yaml(path), str(path))))
    return layers, merged(layers)


def merged(layers: Layers) -> dict[str, Any]:
    """Return the layers merged into one mapping."""
    return functools.reduce(merge, (doc for _, doc in layers), {})


def load(
    main: Path,
    extra: Iterable[Path] = (),
    overrides: Mapping[str, Any] | None = None,
    model: type[ConfigT] = Config,  # type: ignore[assignment]
) -> ConfigT:
    """Load the configuration, and validate it by this model. Raises UserError with file, key, value and hint."""
    config, layers = _validated(model, main, extra, overrides)
    used = config.stores_to_measure
    for name in used:
        problem = f"the store {name!r} is not defined"
        require_known(
            f"{_origin(['stores_to_measure'], layers)}: stores_to_measure", name, config.stores, problem, "defined:"
        )
    for name, sweep in config.sweeps.items():
        for store in sweep.stores or ():
            problem = f"{store!r} is not one of the campaign's stores"
            place = f"sweeps.{name}.stores"
            require_known(f"{_origin(place.split('.'), layers)}: {place}", store, used, problem, "used:")
    for name, claim in config.claims.items():
        for campaign in claim.campaigns:
            place = f"claims.{name}.campaigns"
            known, problem = names_of_campaigns(main.parent), f"the campaign {campaign!r} does not exist"
            require_known(f"{_origin(place.split('.'), layers)}: {place}", campaign, known, problem, "one of:")
    return config


def overruled(main: Path, extra: Iterable[Path] = (), overrides: Mapping[str, Any] | None = None) -> str | None:
    """Return a warning if the campaign file sets `stores_to_measure`, and skips a store listed in config.yaml.

    Return None otherwise. Also return None if a further file or the command line sets `stores_to_measure`, because this
    is deliberate.
    """
    (main_name, here), (campaign, there), *others = read_layers(main, extra, overrides)[0]
    mine, theirs = here.get("stores_to_measure") or [], there.get("stores_to_measure") or []
    mine = [str(name) for name in mine] if isinstance(mine, list) else [str(mine)]
    left = [name for name in mine if name not in (theirs or mine)]
    if not left or any("stores_to_measure" in doc for _, doc in others):
        return None
    return (
        f"{campaign}: the campaign measures {', '.join(theirs)}, not {', '.join(left)} from {main_name}; "
        f"to measure {'it' if len(left) == 1 else 'them'}, choose a campaign without stores_to_measure, "
        f"or set stores_to_measure=[{','.join(mine)}]"
    )


class Rebuild(BaseModel):
    """The part of the configuration that a rebuild from records needs, without stores and sweeps."""

    name: Name
    measure: Boolean = False
    results: FolderPath = "results"
    layout: Layout = "article"


def load_rebuild(
    main: Path,
    extra: Iterable[Path] = (),
    overrides: Mapping[str, Any] | None = None,
    model: type[Config] = Config,
) -> Rebuild:
    """Load the configuration for the analysis, which does not need the stores of the records.

    Raises UserError also for unknown keys, because a misspelt `mesure=true` would otherwise only rebuild.
    """
    light, layers = _validated(Rebuild, main, extra, overrides)
    try:
        model.model_validate(merged(layers))
    except ValidationError as error:
        if any(e["type"] == "extra_forbidden" for e in error.errors()):
            raise explain(error, layers, model) from None
    return light


def _validated(model: type[Model], *files: Any) -> tuple[Model, Layers]:
    """Return the configuration as an instance of this model, and its layers. files: the arguments of `read_layers`."""
    layers, data = read_layers(*files)
    try:
        return model.model_validate(data), layers
    except ValidationError as error:
        raise explain(error, layers, model) from None


def explain(error: ValidationError, layers: Layers, model: type[BaseModel]) -> UserError:
    """Convert the first error of pydantic to a UserError with the file, the key, the value and a hint."""
    # report an unknown key first, because it can explain a missing key
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    loc = [str(p) for p in first["loc"] if p != "[key]"]
    place = f"{_origin(loc, layers)}: {'.'.join(part if len(part) <= MAX_SHOWN else part[:20] + '…' for part in loc)}"
    if first["type"] == "extra_forbidden":
        line = yaml_text.line_of(Path(_origin(loc, layers)), loc)
        problem = f"unknown key {shown(loc[-1])}{f' in line {line}' if line else ''}"
        return UserError(place, problem, nearest(loc[-1], _siblings(loc[:-1], layers, model)))
    if first["type"] == "missing":
        campaign, content = layers[1]
        if len(loc) == 1 and loc[0] in Campaign.model_fields:
            if not content:
                return UserError(campaign, "the file is empty", "write `name` and `sweeps`, see docs/own-campaign.md")
            place = f"{campaign}: {loc[0]}"
        return UserError(place, f"{loc[-1]!r} is missing", "see docs/configuration.md")
    if first["type"] == "value_error":
        problem, _, hint = str(first["ctx"]["error"]).partition("; ")
        return UserError(f"{place}.kind" if loc[0] == "stores" and len(first["loc"]) == 2 else place, problem, hint)
    if first["type"] == "too_short":
        return UserError(place, "the list or mapping is empty", "give at least one")
    value = json.dumps(first.get("input"), default=str)
    value = "this" if set(loc) & SECRET else value if len(value) < MAX_SHOWN else value[: MAX_SHOWN - 3] + "..."
    if first["type"] in ("model_type", "dict_type"):
        if first["input"] is None:
            return UserError(place, "has no keys below it", "indent its keys, or remove it")
        return UserError(place, f"{value} is not a mapping of keys", "write `key: value` lines below it")
    if first["type"] == "list_type":
        if first["input"] is None:
            return UserError(place, "has no value", "write [a, b], or remove it")
        short = isinstance(first["input"], str) and len(first["input"]) < MAX_SHOWN and value != "this"
        return UserError(place, f"{value} is not a list", f"write [{first['input']}]" if short else "write [a, b]")
    return UserError(
        place,
        f"{value}: {first['msg'][0].lower() + first['msg'][1:]}",
        "see docs/configuration.md",
    )


def _origin(loc: list[str], layers: Layers) -> str:
    """Return the name of the last layer that contains the longest part of the key path."""
    name, doc = max(reversed(layers), key=lambda layer: _depth(layer[1], loc))
    return name if _depth(doc, loc) else layers[0][0]


def _depth(doc: Any, loc: list[str]) -> int:
    """Return the number of keys of the path that the document contains."""
    inside = {str(key): value for key, value in doc.items()} if isinstance(doc, dict) else {}
    return 1 + _depth(inside[loc[0]], loc[1:]) if loc and loc[0] in inside else 0


def _siblings(loc: list[str], layers: Layers, model: type[BaseModel]) -> list[str]:
    """Return the known keys of the model at `loc`, the path in a pydantic error."""
    if loc[:1] == ["stores"] and issubclass(model, Config):
        return model.keys_of_store(merged(layers)["stores"][loc[1]]["kind"])
    models: dict[str, type[BaseModel]] = {"limits": Limits, "sweeps": Sweep, "files": RootFile, "figures": Figure}
    models |= {"faults": Act, "mixes": Mix, "sizes": Sizes, "claims": Published if "published" in loc[2:] else Claim}
    parts: dict[str, type[BaseModel]] = {"chunks": Chunks, "tree": Tree}
    models["release"] = parts.get(loc[1] if len(loc) > 1 else "", Release)
    if loc[:1] == ["sweeps"] and loc[2:3] == ["roles"]:
        models["sweeps"] = Role
    return list(models.get(loc[0] if loc else "", Config).model_fields)
