"""Shared parts of tests of stores and engines: campaigns, buckets, ended processes, commands and records."""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import in_process as in_process

from storelab import install
from storelab.core import plan
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.install import golang
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets


def _no_xrootd() -> str:
    """Return the reason why XRootD cannot run here; '' if it can."""
    if os.geteuid() != 0:
        return "privilege: needs root for the network namespace of XRootD"
    if not shutil.which("ip"):
        return "the program ip makes XRootD's network namespace, and is not installed: apt-get install iproute2"
    return "" if shutil.which("xrootd") else "XRootD is not installed: storelab install xrootd"


# Marks of tests that need more than `make setup` installs. The reason names what is missing, and how to install it.
LOADGEN_IS_BUILT = golang.present(golang.LOADGEN, install.tools_folder())
NO_LOADGEN = "storelab's programs in Go are not built: storelab install loadgen"
needs_loadgen = pytest.mark.skipif(not LOADGEN_IS_BUILT, reason=NO_LOADGEN)
LONG_BUILDS = ("garage", "warp")  # programs that take many minutes to build; .ci/run does not need them
nightly_garage = pytest.mark.nightly(
    "src/storelab/stores/garage.py", "src/storelab/install/cargo.py", "tests/real/test_garage.py"
)
NO_GO = "Go is not installed: there is no program go in PATH"
needs_xrootd = (pytest.mark.root, pytest.mark.skipif(bool(_no_xrootd()), reason=_no_xrootd()))


def missing(look: Callable[[], Any]) -> str:
    """Return the message of the error that `look` raises; '' if it raises none and the program can be used."""
    try:
        look()
    except UserError as error:
        return str(error)
    return ""


def skip_without_loadgen() -> None:
    """Skip the test if the Go programs are not built."""
    if not LOADGEN_IS_BUILT:
        pytest.skip(NO_LOADGEN)


def configured(folder: Path, stores: dict[str, Any], sweeps: dict[str, Any], **more: Any) -> tuple[Config, list[Point]]:
    """Return the configuration of a campaign below `folder` and its points. more: other keys of the configuration."""
    base = {"campaign": "lab", "name": "lab", "repetitions": 1, "calibrate": False, "stores_to_measure": [*stores]}
    base |= {key: str(folder / key) for key in ("results", "state")} | {"stores": stores, "sweeps": sweeps}
    config = Config.model_validate(base | more)
    return config, plan.make(config, WORKLOADS)


def bucket_for(store, campaign: str, index: int = 0, account: int = 0):
    """Make and mark a bucket of the campaign, and return it."""
    bucket = store.bucket(campaign, index, account)
    buckets.ensure(store, campaign, [bucket])
    return bucket


def anything(bucket: str, key: str, size: int | None) -> bool:
    """Accept every object as one of the campaign, in tests that write other objects into their buckets."""
    return True


def gone(pids) -> bool:
    """Return True if these processes have ended, even if their parents did not wait for them."""
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return False
    return True


def holds(measured, protocol):
    """Check the content that every record of the engine fsspec must have."""
    for point, record, rows in measured:
        size = point.axes.get("range_size") or point.axes["object_size"]
        assert rows and {r["error"] for r in rows} == {None} and {r["bytes"] for r in rows} == {size}
        assert all(r["start_ns"] < min(r["end_ns"], record["deadline_ns"]) for r in rows)
        assert {r["client"] for r in rows} == set(range(point.axes["clients"]))
        assert {r["worker"] for r in rows} <= set(range(point.axes["workers"]))
        assert record["engine"]["name"] == "fsspec" and record["engine"]["settings"]["protocol"] == protocol
        assert all(c["ok"] for c in record["checks"])
