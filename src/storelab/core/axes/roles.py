"""Declare the axes of points with roles, and the actions of faults.

Some axes belong to the whole point. The others belong to one role, whose name is their prefix (`uploads.workers`). The
actions are listed by their effect on a store. `campaign/faults.py` and docs/faults.md explain their settings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from storelab.core.axes import clients, transfers
from storelab.core.model import OF_ROLE, Axis, Workload

NONE = "none"  # value of the axis `fault`: the store is not disturbed
# For each action that ends a fault: the actions whose effect on the same actor it ends. A restart also replaces a
# daemon that hangs.
UNDOES: Mapping[str, tuple[str, ...]] = {
    "resume": ("hang",),
    "restart": ("kill", "hang"),
    "return_drive": ("remove_drive",),
    "empty": ("fill",),
    "heal": ("slow", "cut"),
}
HARMS = ("kill", "hang", "remove_drive", "fill", "slow", "cut")
LOSSES = ("kill", "hang", "remove_drive", "cut")  # each makes one data server unavailable
USER_ACTS = ("command",)
UPGRADE = "upgrade"  # not a fault: it lasts until the end of the run, and is then reverted
ACTS = (*HARMS, *UNDOES, UPGRADE, *USER_ACTS)

# Axis of sweeps that are measured in consecutive parts (docs/soak.md).
PART = Axis(
    "part",
    "int",
    0,
    "Part",
    "Number of the part of a sweep with `parts`, from 1; 0: a sweep without parts.",
    minimum=0,
    heading="Part",
    words="part {}",
    values={"0": ""},
)
FAULT = Axis(
    "fault",
    "text",
    "none",
    "Fault",
    "Fault of the store during the run: `none`, or a name in the campaign's `faults`.",
    heading="Fault",
    words="{}",
    values={"none": ""},
)
FILL = Axis(
    "fill",
    "int",
    0,
    "Fill level",
    "Percentage of its capacity that the store uses at the start of the point; 0: unchanged.",
    minimum=0,
    heading="Full [%]",
    words="{} % full",
    values={"0": ""},
)
WHOLE = (  # axes of the whole point, for all roles
    transfers.BUCKETS,
    transfers.FRONT_ENDS,
    transfers.ACCOUNTS,
    clients.REDUNDANCY,
    clients.SERVERS,
    clients.BACKING,
    clients.SCHEME,
    clients.CLIENTS_PER_NODE,
    FAULT,
    FILL,
    PART,
)
WHOLE_NAMES = tuple(axis.name for axis in WHOLE)


def point_axes(faults: Iterable[str], parts: bool = False) -> tuple[Axis, ...]:
    """Return the axes of the whole point.

    faults: allowed values of `fault`; parts: True if the sweep is measured in parts.
    """
    known = (FAULT.default, *faults)
    axes = WHOLE if parts else tuple(axis for axis in WHOLE if axis is not PART)
    return tuple(replace(axis, choices=known) if axis is FAULT else axis for axis in axes)


def role_axes(workload: Workload) -> tuple[Axis, ...]:
    """Return the axes of a workload that each role has separately."""
    return tuple(axis for axis in workload.axes if axis.name not in WHOLE_NAMES)


def named(role: str, workload: Workload) -> tuple[Axis, ...]:
    """Return the axes of a role with the names that they have in the point."""
    return tuple(replace(axis, name=f"{role}{OF_ROLE}{axis.name}") for axis in role_axes(workload))


def all_axes(faults: Iterable[str], roles: Mapping[str, Workload], parts: bool = False) -> tuple[Axis, ...]:
    """Return all axes of a point with these roles (name -> workload)."""
    return (*point_axes(faults, parts), *(axis for role, workload in roles.items() for axis in named(role, workload)))
