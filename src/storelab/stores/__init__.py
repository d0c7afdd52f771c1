"""Stores, the systems under test. Each has one file or folder with its settings, class and installation recipe.

This module has the registry of the kinds of stores, and returns the configured stores and their deployments. `managed/`
is the base of stores that storelab runs, `protocols/` accesses stores, and `config.py` is the configuration with the
settings of the stores.

This package may import `install`, `host` and `core`. Client processes import it for `protocols/`. Therefore modules
that are slow to import are imported inside functions.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from storelab.core.errors import UserError

if TYPE_CHECKING:
    from storelab.core.config_types import StrictModel
    from storelab.stores.base import Store

# Kind -> module and class, which is imported when a store of the kind is configured. storelab runs stores whose kind is
# named after a product. Stores whose kind is named after a protocol (`s3`, `root`, `http`, `webhdfs`) or `directory`
# exist already. `stores/base.py` defines the interface of the classes.
KINDS = {
    "seaweedfs": "storelab.stores.seaweedfs:SeaweedFS",
    "ceph": "storelab.stores.ceph.store:Ceph",
    "versitygw": "storelab.stores.versitygw:Versitygw",
    "minio": "storelab.stores.minio:MinIO",
    "nginx": "storelab.stores.nginx:Nginx",
    "xrootd": "storelab.stores.xrootd.store:XRootD",
    "hdfs": "storelab.stores.hdfs.store:HDFS",
    "glusterfs": "storelab.stores.glusterfs:GlusterFS",
    "openafs": "storelab.stores.openafs:OpenAFS",
    "garage": "storelab.stores.garage:Garage",
    "rclone": "storelab.stores.rclone:Rclone",
    "nullserver": "storelab.stores.nullserver:NullServer",
    "directory": "storelab.stores.external:Directory",
    "s3": "storelab.stores.s3:S3",
    "root": "storelab.stores.external:Root",
    "http": "storelab.stores.external:Http",
    "webhdfs": "storelab.stores.external:WebHdfs",
}


def load(kind: str) -> "type[Store]":
    """Return the class of a kind. Raises UserError if the kind is not in the registry."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError("stores", f"unknown kind of store {kind!r}", f"use one of: {', '.join(KINDS)}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name)


def has_ceiling(kind: str) -> bool:
    """Return whether the maximum rate of the S3 clients, which the calibration measures, applies to this kind."""
    store = load(kind)
    return store.protocol == "s3" and store.retains_data


def parse(given: Any) -> "StrictModel":
    """Return a store's settings, validated by the model of its kind. Validated settings are returned unchanged.

    Raises ValueError for an unknown kind, and ValidationError for wrong settings.
    """
    from storelab.core.config_types import StoreEntry, StrictModel

    if isinstance(given, StrictModel):
        return given
    if isinstance(given, StoreEntry):
        given = given.model_dump()
    kind = given.get("kind") if isinstance(given, Mapping) else given
    try:
        return load(kind).Settings.model_validate(given)
    except UserError as error:
        raise ValueError(f"{error.problem}; {error.hint}") from None


def make(name: str, settings: Any, state: Path) -> "Store":
    """Return the store of this name.

    Parameters
    ----------
    name
        Name of the store.
    settings
        The store's keys in the configuration, or validated settings.
    state
        Folder of all managed stores.
    """
    kind = load(settings.kind)
    return kind(name, parse(settings), Path(state))


def all_stores(config: Any) -> dict[str, "Store"]:
    """Return every configured store by name, in the order of the configuration."""
    return {name: make(name, settings, Path(config.state)) for name, settings in config.stores.items()}


def _note(store: "Store") -> Path:
    return Path(store.state) / f"{store.name}.deployments.json"


@dataclass
class _Deployment:
    """An entry of `deployments.json`."""

    index: int
    changes: dict[str, Any]


def _noted(store: "Store") -> dict[str, Any]:
    """Return index and changed settings of every deployment that was ever made, by name."""
    from storelab.core.records import read_as

    hint = "restore it, or remove it together with the deployments' folders next to it"
    return read_as(_note(store), dict[str, _Deployment], hint) if _note(store).exists() else {}


def changed(store: "Store", axes: dict[str, Any]) -> tuple[str, Any]:
    """Return name and settings of the deployment of `store` for these axes.

    They are the store's own name and settings if the axes change nothing.

    Raises UserError if the store cannot be deployed in this way.
    """
    changes = store.variant(axes)
    if not changes:
        return store.name, store.settings
    settings = _with(store, changes)
    return f"{store.name}+" + "+".join(
        f"{key}-{str(value).lower()}" for key, value in sorted(changes.items())
    ), settings


def _with(store: "Store", changes: dict[str, Any]) -> Any:
    """Return the store's settings with these changes. Raises UserError if a changed value is not valid."""
    from pydantic import TypeAdapter, ValidationError

    for name, value in changes.items():
        field = type(store.settings).model_fields[name]
        try:
            TypeAdapter(Annotated[(field.annotation, field)]).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise UserError(
                f"axes.{name}",
                f"store {store.name} (kind {store.settings.kind}) has no {name} {value!r}",
                reason[0].lower() + reason[1:],
            ) from None
    return store.settings.model_copy(update=changes)


def deployed(store: "Store", axes: dict[str, Any]) -> "Store":
    """Return the deployment of `store` for these axes, a separate store with its own ports, folder and data.

    A file next to the stores' folders records the index of the deployment, so that it gets the same ports every time.
    """
    name, settings = changed(store, axes)
    if name == store.name:
        return store
    from storelab.core.records import write_json

    known = _noted(store)
    if name not in known:
        known[name] = {
            "index": 1 + max((d["index"] for d in known.values()), default=0),
            "changes": store.variant(axes),
        }
        write_json(_note(store), known)
    return make(name, store.moved(settings, known[name]["index"]), store.state)


def deployments(store: "Store") -> list["Store"]:
    """Return the recorded deployments of a store, without the deployment that is configured."""
    return [
        make(name, store.moved(store.settings.model_copy(update=facts["changes"]), facts["index"]), store.state)
        for name, facts in _noted(store).items()
    ]


def everywhere(config: Any) -> dict[str, "Store"]:
    """Return all configured stores and their recorded deployments by name. Any of them can be running or have data."""
    return {d.name: d for store in all_stores(config).values() for d in (store, *deployments(store))}
