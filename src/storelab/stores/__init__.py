"""Systems under test: a file or a folder each, with settings, class and recipe of installation (registry:
`core/stores.py`); here: the configured stores and their deployments. `managed/`: what storelab runs itself;
`protocols/`: how it speaks with stores.

May import: `install`, `host`, `core`. Client processes import this package for `protocols/`: what is slow to import
comes late.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from storelab.core import stores
from storelab.core.errors import UserError

if TYPE_CHECKING:
    from storelab.stores.base import Store


def make(name: str, settings: Any, state: Path) -> "Store":
    """The store of this name. settings: of its class's `Settings`; state: folder of all managed stores."""
    return stores.load(settings.kind)(name, settings, Path(state))


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
