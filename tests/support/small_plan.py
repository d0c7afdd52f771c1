"""Make small campaigns: a configuration with one sweep at one store, and its points."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core import axes, plan
from storelab.core.model import Point
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS
from storelab.workloads.base import Workload

CAMPAIGN: dict[str, Any] = {
    **{"campaign": "c", "name": "c", "stores_to_measure": ["a"], "repetitions": 1, "calibrate": False},
    **{"stores": {"a": {"kind": "seaweedfs"}}, "sweeps": {"s": {"workload": "put"}}},
}
URL = {"kind": "s3", "endpoint": "http://127.0.0.1:9"}  # an external store that gets no requests
# `put` has the axis `part`, because a part uses the objects of earlier parts.
WITH_PARTS = {**WORKLOADS, "put": dataclasses.replace(WORKLOADS["put"], axes=(*WORKLOADS["put"].axes, axes.PART))}


def folders(path: Path) -> dict[str, str]:
    """Return the configuration keys of all folders, with folders below this path."""
    return {"results": str(path / "results"), "state": str(path / "state"), "scratch": str(path)}


def configured(**changes: Any) -> Config:
    """Return the configuration with these values."""
    return Config.model_validate(CAMPAIGN | changes)


def planned(known: Mapping[str, Workload] = WORKLOADS, **changes: Any) -> list[Point]:
    """Return the points of the configuration."""
    return plan.make(configured(**changes), known)
