"""Workloads that read ROOT files repeatedly until the deadline: `read_volume`, `read_entries`, `replay`, `events`.

Experiment 11: "all entries; branches taken smallest to biggest until 100, 50, 1 % of the file's volume is reached".
Experiment 12: "all branches; random entries until 100, 0.1, 0.001 % of the entries" (J. Phys. Conf. Ser. 664 022001).
`read_entries` with all entries reads the same as `read_volume`. `replay` reads the ranges of a selection without ROOT,
and thus measures only the store (storage mode of these experiments).

`events` runs jobs, each with a separate file, which process events until all are stopped at the same time. Experiment
16, the storage laboratory of the HEPiX Storage Working Group (progress notes, September 2010), counted processed events
and the MB/s into the nodes. There a job had many files. Here it processes the same file repeatedly, each time with
empty caches. The CMS use case is an almost serial scan, and the ATLAS use case navigates at random.

Points of a sweep share links. The first point measures them, and points that differ only in the bytes to read use them.
They are stored in the campaign's folder `work/links`, by the properties of a link. A doubtful link is measured again.
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


# These axes are at the end of each workload's axes, so that paths of older points do not change.
BUCKETS = replace(
    axes.BUCKETS,
    help="Number of buckets, each with a copy of the file; client i reads copy i mod n. 1: all clients share one copy.",
)
LATER = (axes.CODEC, BUCKETS, axes.THRIFT, axes.AMPLIFICATION, axes.TRANSPORT, axes.ACCESS)
READER_AXES = (axes.HEADER, axes.CONNECTIONS, axes.SPLIT)  # follow the axes in LATER
READER = (
    "Reader: `uproot-s3fs`: uproot, with ranges merged over a fixed gap; `planned`: storelab's read planner and "
    "decoder; `root`: ROOT; `davix`: vector reads of davix, and storelab's decoder."
)
# Axes that change which bytes are read or how they are requested, but not the cost of a request.
READ_AXES = (
    *("entry_fraction", "volume_fraction", "navigation", "step", "merge", "max_range_gap"),
    *("thrift", "max_amplification", "header", "access"),
)
KEPT_NS = 3600 * 10**9  # maximum age of a link that is used


def measures_link(point: Point) -> bool:
    """Return True if the clients of the point measure their link."""
    return point.axes["engine"] == "planned" or "merge" in point.axes


def pass_links(config: "Config", point: Point, job: "GangJob") -> None:
    """Give the clients the links of an earlier point. If there are none, give them the path for storing their links."""
    if measures_link(point):
        path = links_file(config, point)
        job.extra["links"] = known_links(path, point.axes["clients"]) or {"kept": str(path)}


def keep_links(point: Point, job: "GangJob", folder: Path) -> None:
    """Store the links that the clients of an attempt measured, if all clients measured one and none is doubtful.

    folder: the folder of the attempt.
    """
    if not (path := job.extra.get("links", {}).get("kept")):
        return
    found = [records.read_json(folder / f"result.{i}")["engine"].get("link") for i in range(point.axes["clients"])]
    if all(link and not link["doubtful"] for link in found):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        records.write_json(Path(path), {"of": point.key, "time_ns": clock.now_ns(), "links": found})


def links_file(config: "Config", point: Point) -> Path:
    """Return the file with the links of all points of the sweep that differ from this point only in `READ_AXES`."""
    axes = {name: value for name, value in point.axes.items() if name not in READ_AXES}
    facts = json.dumps([point.store, point.workload, point.sweep, axes, point.dataset], sort_keys=True, default=str)
    return config.campaign_dir / "work" / "links" / f"{hashlib.sha256(facts.encode()).hexdigest()[:16]}.json"


def known_links(path: Path, clients: int) -> dict[str, Any] | None:
    """Return {"of": the point that measured, "links": by client}, or None without recent links for all clients."""
    if not path.exists():
        return None
    try:
        found = records.read_json(path)
    except UserError:
        return None
    fresh = 0 <= clock.now_ns() - found["time_ns"] <= KEPT_NS
    return {k: found[k] for k in ("of", "links")} if fresh and len(found["links"]) == clients else None


class Linked(Workload):
    """A workload whose clients can measure their links to the store."""

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Give the clients the links that an earlier point of the sweep measured."""
        pass_links(config, point, job)

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        keep_links(point, job, folder)
        return []


class Reading(Linked):
    """The base class of workloads that read parts of staged ROOT files."""

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Give clients of cold reads also the local folders with the store's data, to drop them from the page cache."""
        super().before(config, store, point, job)
        if point.axes["access"] != "cold":
            return
        folders = [str(store.data)] if store.managed else []  # type: ignore[attr-defined]
        if store.protocol == "file":
            folders += sorted({str(store.path / b.name) for b in job.buckets})  # type: ignore[attr-defined]
        job.extra["pages"] = [] if store.deployment()["backing"] in ("memory", "tmpfs") else folders


class Replay(Reading):
    """The workload that sends the same requests as a reader, without decoding."""

    def validate(self, point: Point) -> None:
        """Raise UserError if planned requests have a fixed gap, or requests with a fixed gap have planner options."""
        merge, planned = point.axes["merge"], point.axes["merge"] == "planned"
        hint = "set merge to gap" if planned else "set merge to planned"
        for axis in (axes.GAP,) if planned else (axes.THRIFT, axes.AMPLIFICATION):
            given = point.axes[axis.name] != axis.default
            refuse(point, (axis.name, given, f"merge {merge} has no {axis.name}", hint))


READ_VOLUME = Reading(
    "read_volume",
    (
        axes.engine("read_volume", "uproot-s3fs", READER),
        axes.FILE_SIZE,
        axes.VOLUME,
        axes.CLIENTS,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *LATER,
        *READER_AXES,
        axes.CLIENTS_PER_NODE,
        axes.ROUND_TRIP,
    ),
    "Reads of all entries of the smallest branches of a ROOT file, including decompression and deserialisation.",
    dataset="root",
)
READ_ENTRIES = Reading(
    "read_entries",
    (
        axes.engine("read_entries", "uproot-s3fs", READER),
        axes.FILE_SIZE,
        axes.ENTRIES,
        axes.VOLUME,
        axes.CLIENTS,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *LATER,
        *READER_AXES,
        axes.CLIENTS_PER_NODE,
        axes.ROUND_TRIP,
    ),
    "Reads of random entries of a ROOT file, including decompression and deserialisation.",
    dataset="root",
)
REPLAY = Replay(
    "replay",
    (
        axes.engine("replay", "obstore", "Library that transfers the bytes: obstore (S3), or fsspec (all protocols)."),
        axes.FILE_SIZE,
        axes.ENTRIES,
        axes.VOLUME,
        axes.CLIENTS,
        axes.MERGE,
        axes.GAP,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        *LATER,
        axes.CLIENTS_PER_NODE,
        axes.ROUND_TRIP,
    ),
    "Reads of the ranges of a selection of a ROOT file, without decoding.",
    dataset="root",
)


class Events(Linked):
    """The workload in which jobs read files event by event, through a cache."""

    def validate(self, point: Point) -> None:
        """Raise UserError if two jobs would share a file, or if `step` or `read_ahead` cannot be used."""
        values = point.axes
        few = f"{values['clients']} clients read one file each, but there are only {values['files']} files"
        entries = known.entries if (known := SCALES.get(values["file_size"])) else values["step"]
        short = f"file {values['file_size']} has {entries} events"
        cache, ahead = values["cache"], values["cache"] in AHEAD
        problem = f"cache {cache} reads ahead by 0 B" if ahead else f"cache {cache} does not read ahead"
        hint = "set a size, like 1 MiB" if ahead else f"leave it out, or sweep cache {' or '.join(AHEAD)}"
        refuse(
            point,
            ("files", values["clients"] > values["files"], few, "set more `files`, or fewer clients"),
            ("step", values["step"] > entries, short, "set a smaller step"),
            ("read_ahead", ahead != (values["read_ahead"] > 0), problem, hint),
        )


EVENTS = Events(
    "events",
    (
        axes.engine(
            "events",
            "fsspec",
            "How a job reads: `fsspec`: basket by basket through a file object with a `cache` (all protocols); "
            "`planned`: all baskets of a step at the same time, by the read planner.",
        ),
        axes.FILE_SIZE,
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
        axes.ROUND_TRIP,
        replace(
            ACCESS,
            help="`warm`: a job processes its file repeatedly; `once`: only once, and the run ends when "
            "all jobs are done; "
            "`cold`: like `once`, after the store was restarted and the kernel dropped its files from memory.",
        ),
    ),
    ("Event processing by jobs on separate files, which are stopped at the same time; scan or random navigation."),
    dataset="root",
)
