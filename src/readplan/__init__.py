"""Find the requests that read many small ranges of an object in the least time, or with the fewest bytes.

This is a separate package, which imports nothing of storelab. It needs numpy. Transports and `PlannedSource` import
uproot, obstore, fsspec or urllib3 when they are used. `README.md` shows the first steps; storelab's page "The read
planner" explains the model.
"""

from typing import Any

from readplan.choose import Front, Requests, front, plan
from readplan.link import Link, measure
from readplan.transports import FsspecTransport, HttpTransport, ObstoreTransport, VectorTransport, WrongAnswer

__version__ = "0.1.0"
__all__ = [
    "Front",
    "FsspecTransport",
    "HttpTransport",
    "Link",
    "ObstoreTransport",
    "PlannedSource",
    "Requests",
    "VectorTransport",
    "WrongAnswer",
    "front",
    "measure",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name == "PlannedSource":  # needs uproot
        from readplan.source import PlannedSource

        return PlannedSource
    raise AttributeError(name)
