"""Find the requests that read many small ranges of an object in the least time, or with the fewest bytes.

This package imports nothing else of storelab, so that other programs can use it. It needs numpy. Some functions also
need uproot, obstore or fsspec. `docs/read-planner.md` explains the model and how to use the planner from uproot.
"""

from typing import Any

from storelab.readplan.choose import Front, Requests, front, plan
from storelab.readplan.link import Link, measure
from storelab.readplan.transports import FsspecTransport, HttpTransport, ObstoreTransport, VectorTransport, WrongAnswer

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
        from storelab.readplan.source import PlannedSource

        return PlannedSource
    raise AttributeError(name)
