"""The configuration with the settings of its stores, each validated by the model of its kind."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from storelab import stores
from storelab.core import config
from storelab.core.config_types import StoreName

Store = Annotated[Any, PlainValidator(stores.parse)]


class Config(config.Config):
    """The whole configuration: config.yaml, with the values of the campaign file merged into it."""

    stores: dict[StoreName, Store] = Field(
        min_length=1, description="Stores (systems under test) by name, see docs/reference/store-kinds.md."
    )

    @classmethod
    def keys_of_store(cls, kind: str) -> list[str]:
        return list(stores.load(kind).Settings.model_fields)


def load(main: Path, extra: Iterable[Path] = (), overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the validated configuration from files and overrides. A UserError names file, key, value and hint."""
    return config.load(main, extra, overrides, Config)


def load_rebuild(main: Path, extra: Iterable[Path] = (), overrides: Mapping[str, Any] | None = None) -> config.Rebuild:
    """Return the part of the configuration that a rebuild needs. Raises UserError, also for any unknown key."""
    return config.load_rebuild(main, extra, overrides, Config)
