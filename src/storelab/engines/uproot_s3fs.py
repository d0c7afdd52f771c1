"""Engine `uproot-s3fs`: selection reads of a ROOT file until the deadline, timed by phase, counted to the byte (level 2).

May import: `uproot_reader`, `s3fs_counted`, `datasets.baskets`. Read 0 of a client is its first access: it opens the file, and bears
the opening's time, requests and bytes. A read under way at the deadline may end within a grace of 20 % of the duration and
is then a read like any other (its `end_ns` tells); else it is left out, and `engine["abandoned"]` has its bytes.
A failed read is a row of ops with its error and no row of reads; its number is not given again.
"""

import contextlib
import gc
import importlib.metadata
import itertools
import json
import math
from dataclasses import asdict
from typing import Any

from storelab import clock
from storelab.datasets import baskets
from storelab.engines import s3fs_counted
from storelab.engines.errors import classify
from storelab.engines.guard import Guard
from storelab.engines.s3fs_counted import Counts
from storelab.engines.uproot_reader import Late, Reader
from storelab.model import UserError, derive_seed
from storelab.workloads.base import Check, Client, Job, Result

POOL = 64
GRACE = 0.2
BACK_OFF_NS = 50_000_000
SAMPLE_NS = 200_000_000
LIBRARIES = ("uproot", "s3fs", "fsspec", "awkward", "aiobotocore", "aiohttp", "numpy", "cramjam")


class UprootClient(Client):
    """One client: draws entries anew for each read, from the point's seed, its own number and the number of the read."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.counter = s3fs_counted.Counter()
        self.ops: list[dict[str, Any]] = []
        self.reads: list[dict[str, Any]] = []
        self.samples: list[tuple[int, int]] = []
        self.messages: dict[str, str] = {}
        self.opening: dict[str, Any] | None = None
        self.abandoned = {"reads": 0, **asdict(Counts())}
        self.tally = dict.fromkeys(("baskets", "entries", "verify_ns", "wrong requests", "wrong bytes"), 0)
        self.fs: s3fs_counted.OnceFileSystem | None = None

    def prepare(self) -> None:
        """Selection, side-car, file system; sends nothing. Raises UserError: no manifest, no ROOT file in it, no credentials."""
        job, axes = self.job, self.job.point.axes
        if job.manifest is None:
            raise UserError("manifest", "the workload reads a ROOT file, and the job names no manifest", "stage the data set")
        manifest = json.loads(job.manifest.read_bytes())
        if not isinstance(root := manifest.get("root"), dict):
            raise UserError(str(job.manifest), "describes no ROOT file", "stage the data set again")
        side_car = baskets.read(job.manifest.parent / root["sidecar"])
        objects = manifest["objects"]
        mine = job.client % len(objects["key"])  # of several copies, each client keeps to one
        bucket = job.buckets[objects["bucket"][mine]]
        self.entries, self.key = root["entries"], f"{bucket.prefix}{objects['key'][mine]}"
        self.branches = baskets.select_branches(side_car, axes["volume_fraction"])
        self.guard = Guard(job.limits, axes["clients"])
        duration_s = job.point.fixed.get("duration_ns", 10_000_000_000) / 1e9
        self.settings = s3fs_counted.settings(job.endpoint, POOL, max(5, math.ceil(duration_s * (1 + GRACE))))
        self.fs = s3fs_counted.filesystem(job.endpoint, self.counter, self.settings)
        self.reader = Reader(self.fs, f"s3://{bucket.name}/{self.key}", root["tree"], side_car, self.branches, axes["max_range_gap"])
        gc.collect()
        gc.freeze()

    def run(self, start_ns: int, deadline_ns: int) -> None:
        """Read until the deadline. Raises LimitExceeded where a limit of the configuration is passed."""
        self.fs.latest_ns = latest_ns = deadline_ns + int(GRACE * (deadline_ns - start_ns))
        self.last = self.counter.now()
        number = needed = 0
        while (begin_ns := clock.now_ns()) < deadline_ns:
            try:
                row = self._read(number)
            except Late:
                self.reader.settle(0)
                self.abandoned = {"reads": 1, **asdict(self._spent())}
                return
            except Exception as error:  # noqa: BLE001 - whatever fails (network, S3, codec, format) is a failed operation
                self.reader.settle((latest_ns - clock.now_ns()) / 1e9)
                self._fail(error, begin_ns)
                clock.sleep_until(min(clock.now_ns() + BACK_OFF_NS, deadline_ns))
            else:
                self.reads.append(row)
                needed += row["needed_bytes"]
            now_ns = clock.now_ns()
            if not self.samples or now_ns - self.samples[-1][0] >= SAMPLE_NS:
                self.samples.append((now_ns, self.counter.wire.open))
            self.guard.observe(now_ns, self.last.wire_bytes or needed, self.last.requests, len(self.reads), len(self.ops))
            number += 1

    def _read(self, number: int) -> dict[str, Any]:
        """One read; its row of `records.READS`. Raises Late, WrongData, or what uproot and s3fs raise."""
        point, reader = self.job.point, self.reader
        entries = baskets.select_entries(self.entries, point.axes["entry_fraction"], derive_seed(point.seed, self.job.client, number))
        opening, stamps = Counts(), [clock.now_ns()]
        if reader.file is None:
            opening = self._open()
        stamps.append(clock.now_ns())
        rows, needed, ranges = reader.plan(entries)
        stamps.append(clock.now_ns())
        chunks = reader.transfer(ranges)
        stamps.append(clock.now_ns())
        reader.verify(rows, chunks)
        stamps.append(clock.now_ns())
        data = reader.decompress(rows, chunks)
        stamps.append(clock.now_ns())
        branches, decoded = reader.deserialise(rows, data, entries)
        stamps.append(clock.now_ns())
        spent = self._spent()
        self._compare(spent - opening, ranges)
        opened, plan, transfer, verify, decompress, deserialise = (b - a for a, b in itertools.pairwise(stamps))
        for name, n in (("baskets", len(rows)), ("entries", decoded), ("verify_ns", verify)):
            self.tally[name] += n
        return {
            "read": number,
            "entries": len(entries),
            "branches": branches,
            "baskets": len(rows),
            "needed_bytes": needed,
            "asked_bytes": spent.asked_bytes,
            "wire_bytes": spent.wire_bytes,
            "requests": spent.requests,
            "start_ns": stamps[0],
            "end_ns": stamps[-1],
            "open_ns": opened if opening.requests else 0,
            "plan_ns": plan,
            "transfer_ns": transfer,
            "decompress_ns": decompress,
            "deserialise_ns": deserialise,
        }

    def _open(self) -> Counts:
        """Open the file; what that took on the network."""
        before, begin_ns = self.counter.now(), clock.now_ns()
        self.reader.open()
        # Else Python's garbage collector walks all branches again and again: pauses of 0.2 s that look like the store's.
        gc.freeze()
        opening = self.counter.now() - before
        self.opening = {**asdict(opening), "ns": clock.now_ns() - begin_ns}
        return opening

    def _spent(self) -> Counts:
        """What the counters rose by since this was last asked: nothing is counted twice, nothing falls between two reads."""
        now = self.counter.now()
        spent, self.last = now - self.last, now
        return spent

    def _compare(self, spent: Counts, ranges: list[tuple[int, int]]) -> None:
        """The counters against the plan: one request per merged range, asked and answered in full."""
        starts, stops = baskets.merge_pairs(ranges, self.job.point.axes["max_range_gap"])
        planned = int((stops - starts).sum())
        self.tally["wrong requests"] += spent.requests != len(starts)
        wire_ok = spent.wire_bytes is None or spent.wire_bytes > spent.body_bytes
        self.tally["wrong bytes"] += not (spent.asked_bytes == spent.body_bytes == planned and wire_ok)

    def _fail(self, error: Exception, begin_ns: int) -> None:
        kind, status = classify(error)
        self.messages.setdefault(kind, " ".join(str(error).split())[:300])
        spent, end_ns = self._spent(), clock.now_ns()
        row = {"bytes": 0, "wire_bytes": spent.wire_bytes, "requests": spent.requests, "start_ns": begin_ns, "end_ns": end_ns}
        self.ops.append({**row, "status": status, "error": kind})

    def result(self) -> Result:
        """Columns of ops (completed reads and failed ones, by their end) and of reads, facts of the engine, checks."""
        shared = ("wire_bytes", "requests", "start_ns", "end_ns")
        good = [{"bytes": r["needed_bytes"], **{k: r[k] for k in shared}, "status": 200, "error": None} for r in self.reads]
        rows = sorted(good + self.ops, key=lambda r: r["end_ns"])
        n = len(rows)
        ops: dict[str, Any] = {
            "client": [self.job.client] * n,
            "worker": [0] * n,
            "op": ["READ"] * n,
            "object": [self.key] * n,
            "count": [1] * n,
        }
        ops |= {k: [r[k] for r in rows] for k in ("bytes", *shared, "status", "error")}
        reads = {"client": [self.job.client] * len(self.reads)} | {
            k: [r[k] for r in self.reads] for k in (self.reads[0] if self.reads else ())
        }
        versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
        engine = {
            "name": "uproot-s3fs",
            "version": ", ".join(f"{k} {v}" for k, v in versions.items()),
            "settings": {
                **self.settings,
                "max_range_gap_bytes": self.job.point.axes["max_range_gap"],
                "coalescing": "uproot",
                "grace": GRACE,
            },
            "requests_per_operation": {"READ": "varies, counted"},
            "branches_chosen": len(self.branches),
            "opening": self.opening,
            "abandoned": self.abandoned,
            "verify_ns": self.tally["verify_ns"],
            "statuses": {str(k): v for k, v in sorted(self.counter.statuses.items())},
            "errors": self.messages,
        }
        connections = {"max": self.counter.wire.most_open, "opened": self.counter.wire.opened, "samples": self.samples}
        return Result(ops, reads, engine, self._checks(), connections)

    def _checks(self) -> list[Check]:
        kinds, tally, n = [r["error"] for r in self.ops], self.tally, len(self.reads)
        wrong = {k: kinds.count(k) for k in ("ChecksumMismatch", "SideCarMismatch", "EntriesMismatch")}
        first = next(iter(self.messages.items()), ("", ""))
        late = f", {self.abandoned['reads']} not done in the grace after the deadline" if self.abandoned["reads"] else ""
        said = {k: f": {self.messages[k]}" if v else "" for k, v in wrong.items()}
        return [
            Check("reads", n > 0, f"{n} completed, {len(kinds)} failed{late}" + (f"; first error {first[0]}: {first[1]}" if kinds else "")),
            Check(
                "side-car",
                not wrong["SideCarMismatch"],
                "uproot's baskets are those of the side-car"
                if self.reader.layout
                else said["SideCarMismatch"][2:] or "not compared: the file was not opened",
            ),
            Check(
                "crc32",
                not wrong["ChecksumMismatch"],
                f"{tally['baskets']} baskets right, {wrong['ChecksumMismatch']} reads with a wrong one{said['ChecksumMismatch']}",
            ),
            Check("entries decoded", not wrong["EntriesMismatch"], f"{tally['entries']} of all branches{said['EntriesMismatch']}"),
            Check(
                "requests",
                not tally["wrong requests"],
                f"{tally['wrong requests']} of {n} reads sent other than one request per merged range",
            ),
            Check("bytes", not tally["wrong bytes"], f"{tally['wrong bytes']} of {n} reads got other than what the plan asks for"),
        ]

    def close(self) -> None:
        if self.fs is not None:
            with contextlib.suppress(OSError):
                s3fs_counted.disconnect(self.fs)
            self.fs = None
            gc.unfreeze()
