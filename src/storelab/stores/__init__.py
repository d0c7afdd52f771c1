"""The stores by kind (level 2, measuring side). Classes are imported when asked for: boto3 alone costs a good part of a second."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.model import UserError

if TYPE_CHECKING:
    from storelab.stores.base import Store

KINDS = {"seaweedfs": ("storelab.stores.seaweedfs", "SeaweedFS"), "s3": ("storelab.stores.s3", "S3")}


def make(name: str, settings: Any, state: Path) -> "Store":
    """The store of this name; `settings`: its model of `config.py`; `state`: folder of all managed stores."""
    if settings.kind not in KINDS:
        raise UserError(f"stores.{name}.kind", f"no store of kind {settings.kind!r}", f"one of: {', '.join(KINDS)}")
    module, cls = KINDS[settings.kind]
    return getattr(importlib.import_module(module), cls)(name, settings, Path(state))


def all_stores(config: Any) -> dict[str, "Store"]:
    """Name -> store, of every store of the configuration, in its order."""
    return {name: make(name, settings, Path(config.state)) for name, settings in config.stores.items()}
