"""Links that points of a sweep share: measured by the first, taken by those that differ only in what is read.

May import: `core`. Kept in the campaign's folder `work/links`, by what decides a link. A doubtful one is measured
again.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import clock, records
from storelab.core.errors import UserError
from storelab.core.model import Point

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob

# Axes that change which bytes are read, or how they are asked for, and not what a request takes.
OF_READS = (
    "entry_fraction",
    "volume_fraction",
    "navigation",
    "step",
    "merge",
    "max_range_gap",
    "thrift",
    "max_amplification",
    "header",
    "access",
)
KEPT_NS = 3600 * 10**9  # an older one may be of another day


def planned(point: Point) -> bool:
    """Whether the point's clients measure their link."""
    return point.axes["engine"] == "planned" or "merge" in point.axes


def tell(config: "Config", point: Point, job: "GangJob") -> None:
    """Tell the clients the links of an earlier point, if there are; else where theirs are to be kept."""
    if planned(point):
        path = place(config, point)
        job.extra["links"] = known(path, point.axes["clients"]) or {"kept": str(path)}


def keep(point: Point, job: "GangJob", folder: Path) -> None:
    """Keep what the clients of an attempt (its folder) measured, if all did, and none came out doubtful."""
    if not (path := job.extra.get("links", {}).get("kept")):
        return
    found = [records.read_json(folder / f"result.{i}")["engine"].get("link") for i in range(point.axes["clients"])]
    if all(link and not link["doubtful"] for link in found):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        records.write_json(Path(path), {"of": point.key, "time_ns": clock.now_ns(), "links": found})


def place(config: "Config", point: Point) -> Path:
    """The file of the links of all points of the sweep that differ from this one only in `OF_READS`."""
    axes = {name: value for name, value in point.axes.items() if name not in OF_READS}
    facts = json.dumps([point.store, point.workload, point.sweep, axes, point.dataset], sort_keys=True, default=str)
    return config.campaign_dir / "work" / "links" / f"{hashlib.sha256(facts.encode()).hexdigest()[:16]}.json"


def known(path: Path, clients: int) -> dict[str, Any] | None:
    """{"of": the point that measured, "links": by client}; None if there are none, of this hour, for all clients."""
    if not path.exists():
        return None
    try:
        found = records.read_json(path)
    except UserError:
        return None
    fresh = 0 <= clock.now_ns() - found["time_ns"] <= KEPT_NS
    return {k: found[k] for k in ("of", "links")} if fresh and len(found["links"]) == clients else None
