"""Engines move the bytes of a measurement. `contract` has Job, Client and Result; each engine has a module or a folder.

`common` has the code that several engines share.

May import: `stores`, `install`, `host`, `datasets`, `readplan`, `core`. The list of engines is in `core/engines.py`.
"""

import importlib
from typing import Any

from storelab.core.engines import CATALOGUE


def load(place: str) -> Any:
    """Return what `module:name` names. The module is imported only here: a client process must start fast."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def client_of(workload: str, engine: str) -> Any:
    """Return the client class of this engine for this workload. Raises KeyError if the catalogue has none."""
    return load(CATALOGUE[engine].uses[workload].client)
