"""Workloads that read ROOT files repeatedly until the deadline: `read_volume`, `read_entries`, `replay`, `events`.

Experiment 11: "all entries; branches taken smallest to biggest until 100, 50, 1 % of the file's volume is reached".
Experiment 12: "all branches; random entries until 100, 0.1, 0.001 % of the entries" (J. Phys. Conf. Ser. 664 022001).
`read_entries` with all entries reads the same as `read_volume`. `replay` reads the ranges of a selection without ROOT,
which shows what the store can do (storage mode of these experiments).

`events`: jobs, each on its own file, process events until they are stopped together. In experiment 16, the storage
laboratory of the HEPiX Storage Working Group (progress notes, September 2010), processed events and the MB/s into the
nodes were counted. There a job had many files; here it processes the same one repeatedly, each time with empty caches.
Its CMS use case is an almost serial scan; its ATLAS use case navigates at random.

Points of a sweep share links: the first one measures them, and those that differ only in the bytes to read use them.
They are stored in the campaign's folder `work/links`, by the properties of a link. A doubtful one is measured again.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes, clock, records
from storelab.core.axes import AHEAD
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets.root.generated import SCALES
from storelab.workloads.base import ACCESS, Workload, refuse

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob
    from storelab.stores.base import Store


# These are at the end of each workload's axes, so that paths of older points stay unchanged.
BUCKETS = replace(
    axes.BUCKETS, help="Buckets with a copy of the file each; client i reads copy i mod n. 1: shared by all."
)
LATER = (axes.CODEC, BUCKETS, axes.THRIFT, axes.AMPLIFICATION, axes.TRANSPORT, axes.ACCESS)
READER_AXES = (axes.HEADER, axes.CONNECTIONS, axes.SPLIT)  # after these
READER = (
    "Reader and protocol: `uproot-s3fs` merges over a fixed gap; `planned`: storelab's read planner and "
    "decoder; `root`: ROOT itself; `davix`: davix's vector reads, and storelab's decoder."
)
# Axes that change which bytes are read, or how they are requested, but not the cost of a request.
READ_AXES = (
    *("entry_fraction", "volume_fraction", "navigation", "step", "merge", "max_range_gap"),
    *("thrift", "max_amplification", "header", "access"),
)
KEPT_NS = 3600 * 10**9  # maximum age of a link


def measures_link(point: Point) -> bool:
    """Return True if the point's clients measure their link."""
    return point.axes["engine"] == "planned" or "merge" in point.axes


def pass_links(config: "Config", point: Point, job: "GangJob") -> None:
    """Give the clients the links of an earlier point if there are any, otherwise the path for their own."""
    if measures_link(point):
        path = links_file(config, point)
        job.extra["links"] = known_links(path, point.axes["clients"]) or {"kept": str(path)}


def keep_links(point: Point, job: "GangJob", folder: Path) -> None:
    """Keep the links that the clients of an attempt (its folder) measured, if all did and none is doubtful."""
    if not (path := job.extra.get("links", {}).get("kept")):
        return
    found = [records.read_json(folder / f"result.{i}")["engine"].get("link") for i in range(point.axes["clients"])]
    if all(link and not link["doubtful"] for link in found):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        records.write_json(Path(path), {"of": point.key, "time_ns": clock.now_ns(), "links": found})


def links_file(config: "Config", point: Point) -> Path:
    """Return the file with the links of all points of the sweep that differ from this one only in `READ_AXES`."""
    axes = {name: value for name, value in point.axes.items() if name not in READ_AXES}
    facts = json.dumps([point.store, point.workload, point.sweep, axes, point.dataset], sort_keys=True, default=str)
    return config.campaign_dir / "work" / "links" / f"{hashlib.sha256(facts.encode()).hexdigest()[:16]}.json"


def known_links(path: Path, clients: int) -> dict[str, Any] | None:
    """Return {"of": the point that measured, "links": by client}; None without recent links for all clients."""
    if not path.exists():
        return None
    try:
        found = records.read_json(path)
    except UserError:
        return None
    fresh = 0 <= clock.now_ns() - found["time_ns"] <= KEPT_NS
    return {k: found[k] for k in ("of", "links")} if fresh and len(found["links"]) == clients else None


class Linked(Workload):
    """A workload whose clients may measure their links to the store."""

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Give the clients the links that an earlier point of the sweep measured."""
        pass_links(config, point, job)

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        keep_links(point, job, folder)
        return []


class Reading(Linked):
    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Give clients of cold reads also the local folders with the store's data, which they drop from the cache."""
        super().before(config, store, point, job)
        if point.axes["access"] != "cold":
            return
        folders = [str(store.data)] if store.managed else []  # type: ignore[attr-defined]
        if store.protocol == "file":
            folders += sorted({str(store.path / b.name) for b in job.buckets})  # type: ignore[attr-defined]
        job.extra["pages"] = [] if store.deployment()["backing"] in ("memory", "tmpfs") else folders


class Replay(Reading):
    def validate(self, point: Point) -> None:
        """Raise UserError: planned requests have no fixed gap, a fixed gap has neither thrift nor bound."""
        merge, planned = point.axes["merge"], point.axes["merge"] == "planned"
        hint = "sweep merge gap" if planned else "sweep merge planned"
        for axis in (axes.GAP,) if planned else (axes.THRIFT, axes.AMPLIFICATION):
            given = point.axes[axis.name] != axis.default
            refuse(point, (axis.name, given, f"merge {merge} has no {axis.name}", hint))


READ_VOLUME = Reading(
    "read_volume",
    (
        axes.engine("read_volume", "uproot-s3fs", READER),
        axes.SCALE,
        axes.VOLUME,
        axes.CLIENTS,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *LATER,
        *READER_AXES,
        axes.CLIENTS_PER_NODE,
    ),
    "All entries of the smallest branches of a ROOT file: opened, planned, transferred, decompressed, deserialised.",
    dataset="root",
)
READ_ENTRIES = Reading(
    "read_entries",
    (
        axes.engine("read_entries", "uproot-s3fs", READER),
        axes.SCALE,
        axes.ENTRIES,
        axes.VOLUME,
        axes.CLIENTS,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *LATER,
        *READER_AXES,
        axes.CLIENTS_PER_NODE,
    ),
    "Random entries of a ROOT file: opened, planned, transferred, decompressed, deserialised.",
    dataset="root",
)
REPLAY = Replay(
    "replay",
    (
        axes.engine("replay", "obstore", "Library that moves the bytes: obstore (S3), or fsspec (all protocols)."),
        axes.SCALE,
        axes.ENTRIES,
        axes.VOLUME,
        axes.CLIENTS,
        axes.MERGE,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *LATER,
        axes.CLIENTS_PER_NODE,
    ),
    "The ranges of a selection of a ROOT file, replayed: nothing is decoded.",
    dataset="root",
)


class Events(Linked):
    def validate(self, point: Point) -> None:
        """Raise UserError: each job needs its own file; a read-ahead needs a cache that has one."""
        values = point.axes
        few = f"{values['clients']} clients read one file each, but there are {values['files']}"
        entries = known.entries if (known := SCALES.get(values["scale"])) else values["step"]
        short = f"file {values['scale']} has {entries} events"
        cache, ahead = values["cache"], values["cache"] in AHEAD
        problem = f"cache {cache} reads ahead by 0 B" if ahead else f"cache {cache} does not read ahead"
        hint = "give a size, like 1 MiB" if ahead else f"leave it out, or sweep cache {' or '.join(AHEAD)}"
        refuse(
            point,
            ("files", values["clients"] > values["files"], few, "raise `files`, or sweep fewer clients"),
            ("step", values["step"] > entries, short, "make the step smaller"),
            ("read_ahead", ahead != (values["read_ahead"] > 0), problem, hint),
        )


EVENTS = Events(
    "events",
    (
        axes.engine(
            "events",
            "fsspec",
            "How a job reads: `fsspec`, basket by basket through a file object with a `cache` (all protocols); "
            "`planned`: each step's baskets at once, by the read planner.",
        ),
        axes.SCALE,
        axes.NAVIGATION,
        axes.STEP,
        axes.VOLUME,
        axes.CLIENTS,
        axes.FILES,
        axes.CACHE,
        axes.READ_AHEAD,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        axes.CODEC,
        axes.THRIFT,
        axes.AMPLIFICATION,
        axes.CLIENTS_PER_NODE,
        replace(
            ACCESS,
            help="`warm`: a job processes its file repeatedly; `once`: once, and the run ends when all jobs are done; "
            "`cold`: like `once`, after the store was restarted and the kernel dropped its files from memory.",
        ),
    ),
    (
        "Jobs on separate files, stopped together: events processed, and bytes moved for each; scan or random "
        "navigation."
    ),
    dataset="root",
)
