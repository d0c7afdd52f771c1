"""Axes of points with roles: those of the whole point, and a role's own, which bear its name (`uploads.workers`);
and the acts of faults, by what they do to a store (their settings: `campaign/faults.py`, docs/faults.md).

May import: `core.axes.clients`, `core.axes.transfers`, `core.model`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from storelab.core.axes import clients, transfers
from storelab.core.model import OF_ROLE, Axis, Workload

NONE = "none"  # of the axis `fault`: nothing is done to the store
# What each act undoes: the harm that an earlier act did to the same actor. A restart takes a hung daemon's place, too.
UNDOES: Mapping[str, tuple[str, ...]] = {
    "resume": ("hang",),
    "restart": ("kill", "hang"),
    "return_drive": ("remove_drive",),
    "empty": ("fill",),
    "heal": ("slow", "cut"),
}
HARMS = ("kill", "hang", "remove_drive", "fill", "slow", "cut")
LOSSES = ("kill", "hang", "remove_drive", "cut")  # after these the store has one data server less
OF_A_USER = ("command",)
UPGRADE = "upgrade"  # no harm: it stays until the run is over, and is taken back behind it
ACTS = (*HARMS, *UNDOES, UPGRADE, *OF_A_USER)

# Of sweeps that are measured in parts, one after the other (docs/soak.md).
PART = Axis(
    "part",
    "int",
    0,
    "Part",
    "Number of the part of a sweep with `parts`, from 1, in their order; 0: a sweep without parts.",
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
    "What happens to the store meanwhile: `none`, or a name in the campaign's `faults`.",
    heading="Fault",
    words="{}",
    values={"none": ""},
)
FILL = Axis(
    "fill",
    "int",
    0,
    "Fill level",
    "Percent of its capacity that the store has in use when the point begins; 0: as it is.",
    minimum=0,
    heading="Full [%]",
    words="{} % full",
    values={"0": ""},
)
WHOLE = (  # of the whole point, whatever its roles
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


def of_point(faults: Iterable[str], parts: bool = False) -> tuple[Axis, ...]:
    """The axes of the whole point; `fault` may be one of these names. parts: the sweep is measured in parts."""
    known = (FAULT.default, *faults)
    axes = WHOLE if parts else tuple(axis for axis in WHOLE if axis is not PART)
    return tuple(replace(axis, choices=known) if axis is FAULT else axis for axis in axes)


def own(workload: Workload) -> tuple[Axis, ...]:
    """The axes of a workload that are a role's own."""
    return tuple(axis for axis in workload.axes if axis.name not in WHOLE_NAMES)


def named(role: str, workload: Workload) -> tuple[Axis, ...]:
    """A role's own axes as the point has them."""
    return tuple(replace(axis, name=f"{role}{OF_ROLE}{axis.name}") for axis in own(workload))


def of(faults: Iterable[str], roles: Mapping[str, Workload], parts: bool = False) -> tuple[Axis, ...]:
    """All axes of a point with these roles: name -> workload."""
    return (*of_point(faults, parts), *(axis for role, workload in roles.items() for axis in named(role, workload)))
