"""Minimal jobs of gangs and results of clients for tests."""

from pathlib import Path
from typing import Any

from storelab.core.model import Point
from storelab.engines.contract import ClientResult, GangJob

POINT = Point("a", "get", {"clients": 1}, 1, "a/get/rep~001", "s", 7, 1, {"duration_ns": 10**9})


def gang_job(point: Point = POINT, **changes: Any) -> GangJob:
    plain = {"attempt": "0123abcd", "size": 1, "endpoints": [], "buckets": [], "accounts": 1, "manifest": None}
    plain |= {"scratch": Path(), "scratch_base": Path(), "lead_ns": 0, "timeout_ns": 10**9, "limits": {}}
    return GangJob(point, **plain | changes)


def client_result(rank: int = 0, **changes: Any) -> ClientResult:
    return ClientResult(rank, "host", 1000 + rank, **{"exit_status": 0} | changes)
