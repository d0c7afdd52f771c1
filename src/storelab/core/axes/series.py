"""The axis of sweeps that are measured in parts, one after the other (docs/soak.md). May import: `core.model`."""

from storelab.core.model import Axis

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
