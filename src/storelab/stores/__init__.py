"""The stores by kind, and their deployments (level 2, measuring side). Classes are imported when asked for: boto3 alone costs a
good part of a second. May import: `install`, `host`, `core`."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import TypeAdapter, ValidationError

from storelab.core.errors import UserError
from storelab.core.records import read_json, write_json

if TYPE_CHECKING:
    from storelab.stores.base import Store

KINDS = {
    "seaweedfs": ("storelab.stores.seaweedfs", "SeaweedFS"),
    "ceph": ("storelab.stores.ceph.store", "Ceph"),
    "versitygw": ("storelab.stores.versitygw", "Versitygw"),
    "minio": ("storelab.stores.minio", "MinIO"),
    "nginx": ("storelab.stores.nginx", "Nginx"),
    "xrootd": ("storelab.stores.xrootd", "XRootD"),
    "hdfs": ("storelab.stores.hdfs.store", "HDFS"),
    "nullserver": ("storelab.stores.nullserver", "NullServer"),
    "directory": ("storelab.stores.directory", "Directory"),
    "s3": ("storelab.stores.s3.store", "S3"),
    "root": ("storelab.stores.doors", "Root"),
    "http": ("storelab.stores.doors", "Http"),
    "webhdfs": ("storelab.stores.doors", "WebHdfs"),
}


def make(name: str, settings: Any, state: Path) -> "Store":
    """The store of this name; `settings`: its model of `store_settings.py`; `state`: folder of all managed stores."""
    if settings.kind not in KINDS:
        raise UserError(f"stores.{name}.kind", f"no store of kind {settings.kind!r}", f"one of: {', '.join(KINDS)}")
    module, cls = KINDS[settings.kind]
    return getattr(importlib.import_module(module), cls)(name, settings, Path(state))


def all_stores(config: Any) -> dict[str, "Store"]:
    """Name -> store, of every store of the configuration, in its order, each as it is configured."""
    return {name: make(name, settings, Path(config.state)) for name, settings in config.stores.items()}


def _note(state: Path, name: str) -> Path:
    return Path(state) / f"{name}.deployments.json"


def changed(store: "Store", axes: dict[str, Any]) -> tuple[str, Any]:
    """Name and settings of the deployment of `store` that the axes ask for; its own where they ask for nothing else.

    Raises UserError where the store cannot be deployed so.
    """
    changes = store.variant(axes)
    if not changes:
        return store.name, store.settings
    settings = _with(store, changes)
    return f"{store.name}+" + "+".join(f"{key}-{str(value).lower()}" for key, value in sorted(changes.items())), settings


def _with(store: "Store", changes: dict[str, Any]) -> Any:
    """The store's settings with some of them changed, each validated by its own field (the others are parsed already)."""
    for name, value in changes.items():
        field = type(store.settings).model_fields[name]
        try:
            TypeAdapter(Annotated[(field.annotation, field)]).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise UserError(
                f"axes.{name}", f"store {store.name} (kind {store.settings.kind}) has no {name} {value!r}", reason[0].lower() + reason[1:]
            ) from None
    return store.settings.model_copy(update=changes)


def deployed(store: "Store", axes: dict[str, Any]) -> "Store":
    """The deployment of `store` that the axes ask for: a store of its own, with ports, folder and data of its own.

    Which block of ports it has is noted beside the stores' folders, so that it is the same next time.
    """
    name, settings = changed(store, axes)
    if name == store.name:
        return store
    path = _note(store.state, store.name)
    known = read_json(path) if path.exists() else {}
    if name not in known:
        known[name] = {"index": 1 + max((d["index"] for d in known.values()), default=0), "changes": store.variant(axes)}
        write_json(path, known)
    return make(name, store.moved(settings, known[name]["index"]), store.state)


def deployments(store: "Store") -> list["Store"]:
    """The deployments of a store that there have been, beside the one that is configured."""
    path = _note(store.state, store.name)
    out = []
    for name, facts in (read_json(path) if path.exists() else {}).items():
        settings = store.settings.model_copy(update=facts["changes"])
        out.append(make(name, store.moved(settings, facts["index"]), store.state))
    return out


def everywhere(config: Any) -> dict[str, "Store"]:
    """Every store with its deployments: what may run, hold data, or must be suspended."""
    out = {}
    for name, store in all_stores(config).items():
        out |= {name: store} | {d.name: d for d in deployments(store)}
    return out
