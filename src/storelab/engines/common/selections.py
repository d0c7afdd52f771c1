"""Read selections of a ROOT file until the deadline: the common part of all engines.

Read 0 of a client includes the first opening of the file, with its time, requests and bytes. A read that is in flight
at the deadline can end within a grace period (`allowed_s`). It then counts like any other read; only its `end_ns` shows
the difference. A read that does not end in this period is dropped, and `engine["abandoned"]` records its bytes. A
failed read has a row with its error in ops, and no row in reads. Its number is not used again.
"""

import gc
import importlib.metadata
import json
from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from storelab.core import clock
from storelab.core.errors import UserError
from storelab.core.model import derive_seed
from storelab.datasets.root import baskets
from storelab.engines.common.error_classes import classify, named, words
from storelab.engines.common.guard import Guard, ProgressWriter
from storelab.engines.common.wire import Counts, ProcessWire, Wire
from storelab.engines.contract import Check, Client, Job, Result
from storelab.host.page_cache import PageCache

# A read in flight at the deadline gets 20 % of the duration more, and at least five seconds. Otherwise a short window
# on a busy machine loses its only read.
GRACE, GRACE_S = 0.2, 5.0
BACK_OFF_NS = 50_000_000
KEPT_BY_XROOTD = "kept: the XRootD client has one for the life of the process; the file is opened again"
SAMPLE_NS = 200_000_000


@dataclass
class Done:
    """One completed selection: its content, its planned requests and bytes, and the duration of its phases in ns."""

    branches: int
    baskets: int
    decoded: int  # number of entries, summed over all branches
    needed_bytes: int
    requests: int
    asked_bytes: int
    plan_ns: int
    transfer_ns: int
    verify_ns: int
    decompress_ns: int
    deserialise_ns: int


@dataclass
class Tally:
    """The sums over all completed reads, and the number of reads whose traffic differed from the plan."""

    baskets: int = 0
    entries: int = 0
    verify_ns: int = 0
    wrong_requests: int = 0
    wrong_bytes: int = 0

    def add(self, spent: Counts, done: Done) -> None:
        """Add a completed read. spent: its traffic without opening the file, which must equal the plan."""
        self.baskets += done.baskets
        self.entries += done.decoded
        self.verify_ns += done.verify_ns
        self.wrong_requests += spent.requests != done.requests
        nothing_sent = not spent.requests  # the header of the file already contained all data
        wire_ok = spent.wire_bytes is None or spent.wire_bytes > spent.body_bytes or nothing_sent
        self.wrong_bytes += not (spent.asked_bytes == spent.body_bytes == done.asked_bytes and wire_ok)

    def checks(self, reads: int, failed: list[str], messages: dict[str, str], late: int, opened: bool) -> list[Check]:
        """Return the checks of a client.

        Parameters
        ----------
        reads
            Number of completed reads.
        failed
            Error class of each failed read.
        messages
            First message of each error class.
        late
            Number of reads that were dropped after the grace period.
        opened
            True if the file was opened.
        """
        wrong = {k: failed.count(k) for k in ("ChecksumMismatch", "SideCarMismatch", "EntriesMismatch")}
        details = {k: f": {messages[k]}" if n else "" for k, n in wrong.items()}
        summary = f"{reads} completed, {len(failed)} failed"
        summary += f", {late} not completed in the grace period after the deadline" if late else ""
        kind, text = next(iter(messages.items()), ("", ""))
        summary += f"; first error {text if kind in text else f'{kind}: {text}'}" if failed else ""
        compared = (
            "the baskets are the same as in the side-car file" if opened else "not compared: the file was not opened"
        )
        crc32, entries = wrong["ChecksumMismatch"], wrong["EntriesMismatch"]
        right = f"{self.baskets} correct baskets, {crc32} reads with a wrong basket{details['ChecksumMismatch']}"
        return [
            Check("reads", reads > 0, summary),
            Check("side-car", not wrong["SideCarMismatch"], details["SideCarMismatch"][2:] or compared),
            Check("crc32", not crc32, right),
            Check("entries decoded", not entries, f"{self.entries} of all branches{details['EntriesMismatch']}"),
            Check(
                "requests",
                not self.wrong_requests,
                f"{self.wrong_requests} of {reads} reads sent requests that differ from the plan",
            ),
            Check(
                "bytes",
                not self.wrong_bytes,
                f"{self.wrong_bytes} of {reads} reads received bytes that differ from the plan",
            ),
        ]


def allowed_s(duration_s: float) -> float:
    """Return the time in seconds after the start at which every read must have ended."""
    return duration_s + max(GRACE * duration_s, GRACE_S)


class Late(Exception):
    """The grace period after the deadline has ended."""


class WrongData(Exception):
    """The received data differ from the staged data. kind: the error class in the record."""

    def __init__(self, kind: str, message: str):
        self.kind = kind
        super().__init__(message)


def as_staged(found: baskets.Baskets, staged: baskets.Baskets, crc: np.ndarray, where: str) -> None:
    """Check that the baskets of the file `where` are the same as in its side-car file.

    crc: CRC-32 of each basket in `staged`. Raises WrongData.
    """
    if found.names != staged.names or not all(
        np.array_equal(getattr(found, k), getattr(staged, k)) for k in baskets.COLUMNS
    ):
        raise not_staged(where)
    for row in found.inside:
        if found.inside_crc(row) != crc[row]:
            raise WrongData("ChecksumMismatch", f"a basket in the header of {where} differs from the staged file")


def not_staged(where: str) -> WrongData:
    """Return the error for an object whose baskets differ from those in its side-car file."""
    message = f"the baskets of {where} differ from its side-car file, so the object is not the staged file"
    return WrongData("SideCarMismatch", message)


class SelectionClient(Client):
    """A client of selection reads.

    The entries of a read depend on the point's seed, the client's number and the number of the read.
    """

    engine = ""
    opens = True  # False if the client does not open a file
    reconnects = "new for each read"  # description of its connections for cold access
    libraries: tuple[str, ...] = ()

    def __init__(self, job: Job):
        super().__init__(job)
        self.ops: list[dict[str, Any]] = []
        self.reads: list[dict[str, Any]] = []
        self.samples: list[tuple[int, int]] = []
        self.messages: dict[str, str] = {}
        self.opening: dict[str, Any] | None = None  # the first opening of the file
        self.is_open = False
        self.cold = job.point.axes.get("access") == "cold"
        self.pages: PageCache | None = None
        self.abandoned = {"reads": 0, **asdict(Counts())}
        self.tally = Tally()
        self.wire: Wire | ProcessWire | None = None  # counts the bytes of the connections, if this is possible
        self.settings: dict[str, Any] = {}
        self.latest_ns = 2**63 - 1  # end of the grace period

    def version(self) -> str:
        """Return the versions of the libraries that read the file."""
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.libraries)

    @abstractmethod
    def connect(self, root: dict[str, Any]) -> None:
        """Prepare everything that a read needs. This is not measured.

        root: the entry `root` of the manifest. Raises UserError.
        """

    @abstractmethod
    def fresh(self) -> None:
        """Close the file and, if the library allows it, the connections. This is not measured and sends nothing."""

    @abstractmethod
    def open_file(self) -> None:
        """Read the header of the file and of the tree. Raises Late, WrongData, or the errors of the libraries."""

    @abstractmethod
    def selection(self, entries: np.ndarray) -> Done:
        """Read these entries of `self.branches`. Raises the same errors as `open_file()`."""

    @abstractmethod
    def counts(self) -> Counts:
        """Return the total network traffic so far."""

    def connections(self) -> tuple[int, int, int]:
        """Return the current, maximum and total number of connections; zeros if they are unknown."""
        return (self.wire.open, self.wire.most_open, self.wire.opened) if self.wire else (0, 0, 0)

    def settle(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds for requests that are still in flight after an error, then cancel them."""

    def facts(self) -> dict[str, Any]:
        """Return additional entries for `engine` in the record."""
        return {}

    def prepare(self) -> None:
        """Prepare the selection, the side-car data and the connections.

        Raises UserError if the manifest, the ROOT file or the credentials are missing.
        """
        job, axes = self.job, self.job.point.axes
        if job.manifest is None:
            raise UserError(
                "manifest", "the workload reads a ROOT file, but the job has no manifest", "stage the data set"
            )
        manifest = json.loads(job.manifest.read_bytes())
        if not isinstance(root := manifest.get("root"), dict):
            raise UserError(str(job.manifest), "the manifest has no ROOT file", "stage the data set again")
        self.side_car = baskets.read(job.manifest.parent / root["sidecar"])
        objects = manifest["objects"]
        mine = job.client % len(objects["key"])  # each client always reads the same copy
        self.root, self.staged = root, baskets.Baskets.from_table(self.side_car)
        self.crc = self.side_car["crc32"].to_numpy()
        self.bucket = job.buckets[objects["bucket"][mine]]
        self.object = objects["key"][mine]
        self.key = f"{self.bucket.prefix}{self.object}"
        self.entries, self.size = root["entries"], root["bytes"]
        self.unreadable = root.get("unreadable", {})
        self.branches = baskets.select_branches(self.side_car, axes["volume_fraction"], self.unreadable)
        self.guard = Guard(job.limits, axes["clients"], progress=ProgressWriter(job.progress_file))
        self.duration_s = job.point.fixed.get("duration_ns", 10_000_000_000) / 1e9
        self.connect(root)
        if self.cold:
            self.pages = PageCache(job.extra.get("pages", []))
        gc.collect()
        gc.freeze()

    def run(self, start_ns: int, deadline_ns: int) -> None:
        """Read until the deadline. Raises LimitExceeded if a limit of the configuration is exceeded."""
        self.latest_ns = start_ns + int(1e9 * allowed_s((deadline_ns - start_ns) / 1e9))
        self.last = self.counts()
        number = needed = 0
        while (begin_ns := clock.now_ns()) < deadline_ns and not self.finished(number):
            if self.cold:
                self._cool(number)
                begin_ns = clock.now_ns()
            try:
                row = self._read(number)
            except Late:
                self.settle(0)
                self.abandoned = {"reads": 1, **asdict(self._spent())}
                return
            except Exception as error:  # noqa: BLE001 - network, S3, codec, format: a failed operation
                self.settle((self.latest_ns - clock.now_ns()) / 1e9)
                self._fail(error, begin_ns)
                clock.sleep_until(min(clock.now_ns() + BACK_OFF_NS, deadline_ns))
            else:
                self.reads.append(row)
                needed += row["needed_bytes"]
            now_ns = clock.now_ns()
            if not self.samples or now_ns - self.samples[-1][0] >= SAMPLE_NS:
                self.samples.append((now_ns, self.connections()[0]))
            self.guard.observe(
                now_ns, self.last.wire_bytes or needed, self.last.requests, len(self.reads), len(self.ops)
            )
            number += 1

    def finished(self, number: int) -> bool:
        """Return True if there is nothing left to read, so that the run ends before this read."""
        return False

    def _cool(self, number: int) -> None:
        """Remove the previous read from the client and, if possible, from the page cache, for cold access."""
        if number:
            self.fresh()
            self.is_open = False
        self.pages.drop()

    def check_deadline(self) -> None:
        """Raise Late if the grace period has ended."""
        if clock.now_ns() > self.latest_ns:
            raise Late

    def draw(self, number: int) -> np.ndarray:
        """Return the entries of a read, ascending, shape (k,). They depend only on point, client and read number."""
        point = self.job.point
        fraction = point.axes.get("entry_fraction", 100.0)
        return baskets.select_entries(self.entries, fraction, derive_seed(point.seed, self.job.client, number))

    def _read(self, number: int) -> dict[str, Any]:
        """Read once, and return the row for `records.READS`. Raises Late, WrongData, or the errors of the libraries."""
        entries = self.draw(number)
        begin_ns, opens = clock.now_ns(), not self.is_open
        opening = self._open() if opens else Counts()
        opened_ns = clock.now_ns()
        done = self.selection(entries)
        if self.opens and done.decoded != (wanted := len(entries) * len(self.branches)):
            raise WrongData(
                "EntriesMismatch", f"{done.decoded} entries of all branches were decoded instead of {wanted}"
            )
        end_ns, spent = clock.now_ns(), self._spent()
        self.tally.add(spent - opening, done)
        return {
            "read": number,
            "entries": len(entries),
            "branches": done.branches,
            "baskets": done.baskets,
            "needed_bytes": done.needed_bytes,
            "asked_bytes": spent.asked_bytes,
            "wire_bytes": spent.wire_bytes,
            "requests": spent.requests,
            "start_ns": begin_ns,
            "end_ns": end_ns,
            "open_ns": opened_ns - begin_ns if opens and self.opens else 0,
            "plan_ns": done.plan_ns,
            "transfer_ns": done.transfer_ns,
            "decompress_ns": done.decompress_ns,
            "deserialise_ns": done.deserialise_ns,
        }

    def _open(self) -> Counts:
        """Open the file and return its traffic."""
        before, begin_ns = self.counts(), clock.now_ns()
        self.open_file()
        # Otherwise the garbage collector repeatedly visits all branches. This causes pauses of 0.2 s that look like
        # pauses of the store.
        gc.freeze()
        opening = self.counts() - before
        self.opening = self.opening or {**asdict(opening), "ns": clock.now_ns() - begin_ns}
        self.is_open = True
        return opening

    def _spent(self) -> Counts:
        """Return the traffic since the last call. Each byte belongs to exactly one read."""
        now = self.counts()
        spent, self.last = now - self.last, now
        return spent

    def _fail(self, error: Exception, begin_ns: int) -> None:
        kind, status = classify(error)
        self.messages.setdefault(kind, named(kind, words(error)))
        spent, end_ns = self._spent(), clock.now_ns()
        row = {
            "bytes": 0,
            "wire_bytes": spent.wire_bytes,
            "requests": spent.requests,
            "start_ns": begin_ns,
            "end_ns": end_ns,
            "status": status,
            "error": kind,
        }
        self.ops.append(row)

    def result(self) -> Result:
        """Return the columns of ops and of reads, the engine facts, and the checks.

        ops has completed and failed reads, ordered by their end.
        """
        shared = ("wire_bytes", "requests", "start_ns", "end_ns")
        good = [
            {"bytes": r["needed_bytes"], **{k: r[k] for k in shared}, "status": 200, "error": None} for r in self.reads
        ]
        rows = sorted(good + self.ops, key=lambda r: r["end_ns"])
        n = len(rows)
        ops: dict[str, Any] = {
            "client": [self.job.number] * n,
            "worker": [0] * n,
            "op": ["READ"] * n,
            "object": [self.key] * n,
            "count": [1] * n,
            **{k: [r[k] for r in rows] for k in ("bytes", *shared, "status", "error")},
        }
        reads = {"client": [self.job.number] * len(self.reads)} | {
            k: [r[k] for r in self.reads] for k in (self.reads[0] if self.reads else ())
        }
        engine = {
            "name": self.engine,
            "version": self.version(),
            "settings": {**self.settings, "grace": GRACE, "grace_s": GRACE_S},
            "requests_per_operation": {"READ": "varies, counted"},
            "branches_chosen": len(self.branches),
            "branches_left_out": len(self.unreadable),
            "opening": self.opening,
            "abandoned": self.abandoned,
            "verify_ns": self.tally.verify_ns,
            **({"cold": {"connections": self.reconnects, "pages": self.pages.facts()}} if self.pages else {}),
            **self.facts(),
            "errors": self.messages,
        }
        _, most, opened = self.connections()
        return Result(ops, reads, engine, self.checks(), {"max": most, "opened": opened, "samples": self.samples})

    def checks(self) -> list[Check]:
        """Return the checks of the results, the failures and the content of the reads."""
        failed = [r["error"] for r in self.ops]
        return self.tally.checks(len(self.reads), failed, self.messages, self.abandoned["reads"], bool(self.opening))

    def close(self) -> None:
        """Restore the settings of the process that the measurement changed."""
        gc.unfreeze()
