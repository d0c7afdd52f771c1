"""Check the limits for a production store while a client runs, and report the client's progress.

The progress is a file of 40 bytes which is rewritten in place. Writing it never waits for a disk and never raises an
error. It is only shown to users and does not change a result. This module imports only the standard library.
"""

import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

EVERY_NS = 200_000_000  # minimum time between two writes of the progress
# operations, errors, bytes, time, and the sum of these; the sum is wrong in a half-written file
_FORM = struct.Struct("<5q")
_MODULUS = 1 << 63


class Done(NamedTuple):
    """The numbers of successful and failed operations, and the useful bytes, since the start."""

    operations: int
    errors: int
    bytes: int


class ProgressWriter:
    """The writer of the progress file of one process of a client. If `path` is None, it writes nothing."""

    def __init__(self, path: Path | None):
        self.path, self._file, self._next_ns = path, -1, 0

    def note(self, now_ns: int, operations: int, errors: int, size_bytes: int) -> None:
        """Report the current totals. Most calls write nothing, because writes are at least `EVERY_NS` apart."""
        if self.path is None or now_ns < self._next_ns:
            return
        self._next_ns = now_ns + EVERY_NS
        values = (operations, errors, size_bytes, now_ns)
        with suppress(OSError, struct.error):
            if self._file < 0:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._file, _FORM.pack(*values, sum(values) % _MODULUS), 0)


def read_progress(path: Path) -> Done | None:
    """Return the last reported progress, or None if the file is missing or half written."""
    try:
        *values, total = _FORM.unpack(path.read_bytes())
    except (OSError, struct.error):
        return None
    return Done(*values[:3]) if sum(values) % _MODULUS == total else None


def gang_progress(folder: Path, before: dict[str, Done]) -> dict[str, Done]:
    """Return the last reported progress of each process of all clients that share this folder.

    before: the result of the previous call, used for files that are half written at this moment.
    """
    out = dict(before)
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith("progress.") and (done := read_progress(Path(entry.path))) is not None:
                out[entry.name] = done
    return out


def total_progress(counts: Iterable[Done]) -> Done:
    """Return the sum over all processes."""
    every = list(counts)
    return Done(*(sum(values) for values in zip(*every, strict=True))) if every else Done(0, 0, 0)


class LimitExceeded(Exception):
    """A limit of config.yaml was exceeded. The client stops at once, and the point fails with this message."""

    def because(self, messages: Iterable[str]) -> "LimitExceeded":
        """Return this error with the first message of a failed operation appended, if there is one."""
        return LimitExceeded(": ".join([str(self), *messages][:2]))


class Guard:
    """A check that one client does not exceed its share of the limits. Rates are averaged over at least one second.

    Parameters
    ----------
    limits
        Limits of the whole point, shared evenly by its clients. Each limit can be None. `throughput` is in bytes/s and
        `requests_per_s` in 1/s. `error_fraction` is checked from 50 operations and 5 errors on, so that one early error
        does not end a point. `room_bytes` is the total size that can still be stored, if the workload writes.
        `disk_bytes` is the total size that can still be uploaded, if the store does not free overwritten objects.
    clients
        Number of clients.
    kept
        Maximum stored size of this client's uploads if it overwrites objects. The first value is in bytes. The second
        one is added for each operation with unknown outcome, because its object is never overwritten. None: every
        upload is a new object.
    progress
        Progress file which receives the same totals.
    """

    SPAN_NS = 1_000_000_000

    def __init__(
        self,
        limits: dict[str, Any],
        clients: int,
        kept: tuple[int, int] | None = None,
        progress: ProgressWriter | None = None,
    ):
        share = [limits.get(k) for k in ("throughput", "requests_per_s")]
        self.throughput, self.requests = [v / clients if v else None for v in share]
        room, disk = (limits.get(k) for k in ("room_bytes", "disk_bytes"))
        self.space, self.disk = [None if v is None else v / clients for v in (room, disk)]
        self.kept, self.progress = kept, progress or ProgressWriter(None)
        self.error_fraction = limits.get("error_fraction")
        self.active = any(
            bound is not None for bound in (self.throughput, self.requests, self.space, self.disk, self.error_fraction)
        )
        self.last: tuple[int, int, int] | None = None

    def observe(self, now_ns: int, size_bytes: int, requests: int, operations: int, errors: int) -> None:
        """Check the current totals and report them as progress. now_ns is UTC. Raises LimitExceeded."""
        self.progress.note(now_ns, operations, errors, size_bytes)
        few = self.error_fraction is None or operations + errors < 50 or errors < 5
        if not few and errors > self.error_fraction * (operations + errors):
            raise LimitExceeded(
                f"{errors} of {operations + errors} operations failed, which is more than limits.error_fraction = "
                f"{self.error_fraction:g}"
            )
        stored = size_bytes if self.kept is None else min(size_bytes, self.kept[0] + errors * self.kept[1])
        if self.space is not None and stored > self.space:
            raise LimitExceeded(
                f"a client uploaded {stored / 1e6:.0f} MB, which is more than its share of {self.space / 1e6:.0f} MB "
                "of the room in the store (limits.stored_bytes, free disk)"
            )
        if self.disk is not None and size_bytes > self.disk:
            raise LimitExceeded(
                f"a client uploaded {size_bytes / 1e6:.0f} MB, more than its share of {self.disk / 1e6:.0f} MB of the "
                "free disk, and the store does not free the space of overwritten objects automatically"
            )
        if self.last is None:
            self.last = (now_ns, size_bytes, requests)
            return
        then, size0, requests0 = self.last
        if (span := now_ns - then) < self.SPAN_NS:
            return
        if self.throughput and (rate := (size_bytes - size0) * 1e9 / span) > self.throughput:
            raise LimitExceeded(
                f"a client transferred {rate / 1e6:.1f} MB/s, more than its share of {self.throughput / 1e6:.1f} MB/s "
                "of limits.throughput"
            )
        if self.requests and (rate := (requests - requests0) * 1e9 / span) > self.requests:
            raise LimitExceeded(
                f"a client sent {rate:.0f} requests/s, more than its share of {self.requests:.0f} requests/s "
                "of limits.requests_per_s"
            )
        self.last = (now_ns, size_bytes, requests)
