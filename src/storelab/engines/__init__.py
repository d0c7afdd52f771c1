"""Engines: what moves the bytes. `contract` has Job, Client and Result; each engine has a module or a folder.

`common` has what several engines share.

May import: `stores`, `install`, `host`, `datasets`, `readplan`, `core`. Which engines there are: `core/engines.py`.
"""

import importlib
from typing import Any

from storelab.core.engines import CATALOGUE


def load(place: str) -> Any:
    """What `module:name` of the catalogue names; the module is imported only now: a client process must start fast."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def client_of(workload: str, engine: str) -> Any:
    """The class of the client of this engine in this workload. Raises KeyError where the catalogue has none."""
    return load(CATALOGUE[engine].uses[workload].client)
