"""Acts of faults, by what they do to a store: pure data, for both sides of the cut. `campaign/faults.py` has their
settings, docs/faults.md tells of each. Imports nothing.
"""

from collections.abc import Mapping

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
