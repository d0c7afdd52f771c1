"""Engines: the client programs and libraries that transfer the bytes of a measurement.

`contract` defines Job, Client and Result. Each engine has a module or a folder. `common` has the code that several
engines share. The list of engines is in `core/engines.py`.

This package imports only `stores`, `install`, `host`, `datasets`, `readplan` and `core`.
"""

import importlib
from typing import Any

from storelab.core.engines import CATALOGUE


def load(place: str) -> Any:
    """Import a module and return one of its names, given as `module:name`.

    The module is imported only when it is used, because a client process must start fast.
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def client_of(workload: str, engine: str) -> Any:
    """Return the client class of this engine for this workload.

    Raises KeyError if the engine does not support the workload.
    """
    return load(CATALOGUE[engine].uses[workload].client)
