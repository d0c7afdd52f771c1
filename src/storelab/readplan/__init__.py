"""The read planner: find the requests that fetch many small ranges of an object in the least time or with fewest bytes.

It imports nothing of storelab, so that it can be used outside; it uses numpy, and in functions uproot, obstore or
fsspec. `docs/read-planner.md` explains the model, and how to use it from uproot in a few lines.
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
