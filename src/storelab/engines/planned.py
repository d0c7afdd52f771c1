"""Engine `planned`: selection reads by the read planner and the decoder of storelab's own (level 2, measuring side).

May import: `selections`, `transports`, `readplan`, `rootio`, uproot (to read a header). The link is measured in `prepare`, through the
connections that will read: the record has it as `link`, and its requests and bytes as `calibration`.
"""

import contextlib
import time
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np

from storelab.datasets import baskets
from storelab.engines import transports
from storelab.engines.selections import GRACE, Done, SelectionClient, WrongData
from storelab.engines.wire import Counts
from storelab.readplan import measure
from storelab.rootio.header import COLUMNS, Header
from storelab.rootio.pages import PageReader, Pages
from storelab.rootio.reader import SelectionReader, Spent
from storelab.workloads.base import Job

PARALLEL = 64


class PlannedBase(SelectionClient):
    """Common part with `replay`: the transport, its calibration, the wishes."""

    library = "obstore"

    def __init__(self, job: Job):
        super().__init__(job)
        axes = job.point.axes
        self.wishes: dict[str, Any] = {"thrift": float(axes["thrift"])}
        if axes["max_amplification"]:
            self.wishes["max_amplification"] = float(axes["max_amplification"])
        self.calibration: dict[str, Any] | None = None

    def connect(self, root: dict[str, Any]) -> None:
        self.root = root
        timeout_s = max(5.0, self.duration_s * (1 + GRACE))
        self.transport, self.versions = transports.make(self.job.endpoint, self.bucket, self.object, self.library, PARALLEL, timeout_s)
        self.settings = {"retries": 0, "parallel": PARALLEL, "timeout_s": timeout_s, "library": self.library, **self.wishes}
        self.staged, self.crc = baskets.Baskets.from_table(self.side_car), self.side_car["crc32"].to_numpy()

    def calibrate(self) -> None:
        """Raises what the transport raises: the first read tells it as its error."""
        before, begun = self.transport.now(), time.perf_counter()
        self.link = measure(self.transport, self.size)
        self.calibration = {"seconds": time.perf_counter() - begun, **asdict(self.transport.now() - before)}

    def counts(self) -> Counts:
        return self.transport.now()

    def connections(self) -> tuple[int, int, int]:
        wire = self.transport.wire
        return (wire.open, wire.most_open, wire.opened) if wire else (0, 0, 0)

    def facts(self) -> dict[str, Any]:
        wire = self.transport.wire
        known = {"link": self.link.facts(), "calibration": self.calibration} if self.calibration else {}
        return {"libraries": self.versions, "connections_lost": wire.lost if wire else None, **known}

    def verify(self, rows: np.ndarray, data: list[np.ndarray]) -> None:
        """Raises WrongData for the first basket with another CRC-32 than the side-car's."""
        self.hurry()
        offset = self.staged.offset[rows].tolist()
        for i, (crc, part) in enumerate(zip(self.crc[rows].tolist(), data, strict=True)):
            if zlib.crc32(part) != crc:
                raise WrongData("ChecksumMismatch", f"the basket at {offset[i]} of {self.key} is not the one that was staged")


class PlannedClient(PlannedBase):
    engine = "planned"
    libraries = ("uproot", "numpy", "cramjam")

    def connect(self, root: dict[str, Any]) -> None:
        super().connect(root)
        with contextlib.suppress(Exception):  # what is wrong is an error of the first read
            self.calibrate()

    def open_file(self) -> None:
        """By uproot, through the transport; then only branches that are no numbers, nor lists of them, need uproot any more."""
        import uproot

        from storelab.readplan.source import PlannedSource

        url = f"s3://{self.bucket.name}/{self.key}"
        options = {"handler": PlannedSource, "transport": self.transport, "num_bytes": self.size, "object_cache": None, "array_cache": None}
        tree = uproot.open({url: None}, **options)[self.root["tree"]]
        if self.calibration is None:
            self.calibrate()
        if self.root.get("format") == "RNTuple":
            pages = Pages.of(tree)
            self.as_staged(pages.layout)
            self.reader = PageReader(pages, self.entries, self.transport, self.link, inspect=self.verify, **self.wishes)
        else:
            header = Header.of(tree, {"key": self.key})
            self.as_staged(header.layout)
            foreign = self.by_uproot(tree, header)
            self.reader = SelectionReader(header, self.transport, self.link, inspect=self.verify, foreign=foreign, **self.wishes)
        self.reader.check(self.branches)

    def as_staged(self, found: baskets.Baskets) -> None:
        """Hold what the file tells against the side-car. Raises WrongData."""
        staged = self.staged
        if found.names != staged.names or not all(np.array_equal(getattr(found, k), getattr(staged, k)) for k in COLUMNS):
            raise WrongData(
                "SideCarMismatch", f"the baskets of {self.key} are not those of its side-car: the object is not the staged file"
            )
        for row in found.inside:
            if found.inside_crc(row) != self.crc[row]:
                raise WrongData("ChecksumMismatch", f"a basket in the header of {self.key} is not the one that was staged")

    def by_uproot(self, tree: Any, header: Header) -> Any:
        """The decoder of branches that have no form here; None where there are none."""
        missing = [b for b in self.branches if header.forms[header.layout.names.index(b)] is None] if None in header.forms else []
        if not missing:
            return None
        from storelab.engines.uproot_reader import decoder

        return decoder({name: tree[name] for name in missing})

    def selection(self, entries: np.ndarray) -> Done:
        spent, seen = Spent(), set()
        for name, _ in self.reader.read(self.branches, entries, spent):
            seen.add(name)
        wanted = len(entries) * len(self.branches)
        if spent.decoded != wanted:
            raise WrongData("EntriesMismatch", f"{spent.decoded} entries decoded over all branches, {wanted} wanted")
        times = (spent.plan_s, spent.transfer_s, spent.inspect_s, spent.decompress_s, spent.deserialise_s)
        ns = (max(1, round(t * 1e9)) for t in times)
        return Done(len(seen), spent.baskets, spent.decoded, spent.needed_bytes, spent.requests, spent.asked_bytes, *ns)
