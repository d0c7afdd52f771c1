"""Make the job of a gang without `storelab measure`."""

import time
from pathlib import Path
from typing import Any

from laboratory import configured

from storelab.engines.contract import GangJob
from storelab.host import scratch
from storelab.workloads.staging import buckets, stage


def prepared(store: Any, tmp_path: Path, sweep: dict[str, Any]) -> tuple[Path, GangJob]:
    """Stage the data set of the first point of a sweep. Return a folder for its gang, and its job."""
    sweeps = {"s": {"warm_up": "100 ms", "objects": 20} | sweep}
    config, (point,) = configured(tmp_path, {"sw": {"kind": "seaweedfs"}}, sweeps, name="gang", campaign="gang")
    places = stage.buckets_of(config, store, point.axes["buckets"])
    buckets.ensure(store, config.name, places)
    with scratch.using(config.scratch):  # like `stage`, because the end of another gang would remove the folder
        manifest = stage.ensure(config, store, point.dataset) if point.dataset else None
    folder = tmp_path / f"gang{time.monotonic_ns()}"
    folder.mkdir()
    return folder, GangJob(
        point=point,
        attempt=folder.name,
        size=point.axes["clients"],
        endpoints=store.endpoints(point.axes["front_ends"]),
        buckets=places,
        accounts=1,
        scratch=scratch.folder(config.scratch),
        scratch_base=Path(config.scratch),
        manifest=manifest.resolve() if manifest else None,
        lead_ns=300_000_000,
        timeout_ns=20_000_000_000,
        limits=config.limits.model_dump(mode="json"),
    )
