"""Declare all axes.

An axis is accessible by its name (`axes.CLIENTS`). Workloads select axes in their own order, and use `replace` to
change a default. ALL has the axes by their column in tables, in the order in which verdicts list them.
"""

from dataclasses import replace

from storelab.core import engines
from storelab.core.axes import clients, distribution, mixes, roles, root_files, transfers
from storelab.core.axes.clients import *  # noqa: F403 - imports all axes by name
from storelab.core.axes.distribution import (  # noqa: F401  # noqa: F401
    APPLICATIONS,
    CLIENT_CACHE,
    DAYS,
    EXPIRED,
    HTTP_CACHE,
    KEEP,
    PATTERN,
    START_FILES,
    STRATUM0,
)
from storelab.core.axes.mixes import MIX, SIZES  # noqa: F401
from storelab.core.axes.roles import FAULT, FILL, PART  # noqa: F401
from storelab.core.axes.root_files import *  # noqa: F403
from storelab.core.axes.transfers import *  # noqa: F403
from storelab.core.model import Axis

_MODULES = (transfers, root_files, clients, mixes, distribution, distribution, roles)
ALL = {a.name: a for module in _MODULES for a in vars(module).values() if isinstance(a, Axis)}
BY_COLUMN = {a.column: a for a in ALL.values()}
DEPLOYMENT = tuple(a for a in ALL.values() if a.setting)
DEPLOYMENT_NAMES = tuple(a.name for a in DEPLOYMENT)


def engine(workloads: str | tuple[str, ...], default: str, help: str) -> Axis:
    """Return the axis `engine` for one or more workloads. Its choices are the engines that support any of them."""
    names = (workloads,) if isinstance(workloads, str) else workloads
    choices = tuple(e.name for e in engines.ALL if any(name in e.uses for name in names))
    return replace(clients.ENGINE, default=default, help=help, choices=choices)


def obeyed(workload: str, picked: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return the axes that only some engines of this workload support and that are not in `picked`.

    They are in the order of ALL.
    """
    names = {name for e in engines.engines_of(workload) for name in e.uses[workload].obeys} - {a.name for a in picked}
    return tuple(a for a in ALL.values() if a.name in names)
