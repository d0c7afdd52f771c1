"""The job of one gang, without `storelab measure` around it."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from laboratory import configured

from storelab.host import scratch
from storelab.workloads.staging import buckets, stage


def prepared(store: Any, tmp_path: Path, sweep: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Stage the data set of a sweep's first point; return a folder for its gang and the content of its job.json."""
    sweeps = {"s": {"warm_up": "100 ms", "objects": 20} | sweep}
    config, (point,) = configured(tmp_path, {"sw": {"kind": "seaweedfs"}}, sweeps, name="gang", campaign="gang")
    places = stage.buckets_of(config, store, point.axes["buckets"])
    buckets.ensure(store, config.name, places)
    with scratch.using(config.scratch):  # as `stage` does, so that the end of another gang does not remove it
        manifest = stage.ensure(config, store, point.dataset) if point.dataset else None
    folder = tmp_path / f"gang{time.monotonic_ns()}"
    folder.mkdir()
    return folder, {
        "point": asdict(point),
        "attempt": folder.name,
        "size": point.axes["clients"],
        "endpoints": [asdict(e) for e in store.endpoints(point.axes["front_ends"])],
        "buckets": [asdict(b) for b in places],
        "accounts": 1,
        "scratch": str(scratch.folder(config.scratch)),
        "scratch_base": config.scratch,
        "manifest": str(manifest.resolve()) if manifest else None,
        "lead_ns": 300_000_000,
        "timeout_ns": 20_000_000_000,
        "limits": config.limits.model_dump(mode="json"),
    }
