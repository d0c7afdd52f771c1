"""Systems under test: a file or a folder each, with settings, class and recipe of installation. Here: the registry of
their kinds, the configured stores and their deployments. `managed/`: what storelab runs itself; `protocols/`: how it
speaks with stores; `config.py`: the configuration with the settings of its stores.

May import: `install`, `host`, `core`. Client processes import this package for `protocols/`: what is slow to import
comes late.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from storelab.core.errors import UserError

if TYPE_CHECKING:
    from storelab.core.config_types import Closed
    from storelab.stores.base import Store

# Kind -> module and class, which is imported when a store of the kind is configured. A kind that is named after a
# product is one that storelab runs itself; one that is named after a protocol (`s3`, `root`, `http`, `webhdfs`), and
# `directory`, is there already. See `stores/base.py` for what the class says.
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
    """Return the class of a kind. Raises UserError for one that is not in the registry."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError("stores", f"no store of kind {kind!r}", f"one of: {', '.join(KINDS)}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name)


def has_ceiling(kind: str) -> bool:
    """Return whether the S3 clients' ceiling, measured against the near-null server, holds for such a store."""
    store = load(kind)
    return store.protocol == "s3" and store.keeps


def parse(given: Any) -> "Closed":
    """Return a store's settings, as the model of its kind reads them; those that were read before pass.

    Raises ValueError for a kind that is not known, and that model's own ValidationError.
    """
    from storelab.core.config_types import Closed, StoreEntry

    if isinstance(given, Closed):
        return given
    if isinstance(given, StoreEntry):
        given = given.model_dump()
    kind = given.get("kind") if isinstance(given, Mapping) else given
    try:
        return load(kind).Settings.model_validate(given)
    except UserError as error:
        raise ValueError(f"{error.problem}; {error.mend}") from None


def make(name: str, settings: Any, state: Path) -> "Store":
    """Return the store of this name. settings: its keys, or of its class's `Settings`; state: folder of all managed
    stores."""
    kind = load(settings.kind)
    return kind(name, parse(settings), Path(state))


def all_stores(config: Any) -> dict[str, "Store"]:
    """Name -> store, of every store of the configuration, in its order, each as it is configured."""
    return {name: make(name, settings, Path(config.state)) for name, settings in config.stores.items()}


def _note(store: "Store") -> Path:
    return Path(store.state) / f"{store.name}.deployments.json"


@dataclass
class _Deployment:
    """An entry of `deployments.json`."""

    index: int
    changes: dict[str, Any]


def _noted(store: "Store") -> dict[str, Any]:
    """Name of each deployment that there has been -> its index and what it changes."""
    from storelab.core.records import read_as

    mend = "restore it, or remove it with the folders of these deployments next to it"
    return read_as(_note(store), dict[str, _Deployment], mend) if _note(store).exists() else {}


def changed(store: "Store", axes: dict[str, Any]) -> tuple[str, Any]:
    """Name and settings of the deployment of `store` that the axes ask for; its own where they ask for nothing else.

    Raises UserError where the store cannot be deployed so.
    """
    changes = store.variant(axes)
    if not changes:
        return store.name, store.settings
    settings = _with(store, changes)
    return f"{store.name}+" + "+".join(
        f"{key}-{str(value).lower()}" for key, value in sorted(changes.items())
    ), settings


def _with(store: "Store", changes: dict[str, Any]) -> Any:
    """The store's settings with some of them changed, each validated by its own field (the rest is parsed)."""
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
    """The deployment of `store` that the axes ask for: a store of its own, with ports, folder and data of its own.

    Which block of ports it has is noted beside the stores' folders, so that it is the same next time.
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
    """The deployments of a store that there have been, beside the one that is configured."""
    return [
        make(name, store.moved(store.settings.model_copy(update=facts["changes"]), facts["index"]), store.state)
        for name, facts in _noted(store).items()
    ]


def everywhere(config: Any) -> dict[str, "Store"]:
    """Every store with its deployments: what may run, hold data, or must be suspended."""
    return {d.name: d for store in all_stores(config).values() for d in (store, *deployments(store))}
