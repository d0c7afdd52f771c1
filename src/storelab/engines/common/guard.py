"""The limits of a production store, watched while a client runs. Imports nothing of storelab but `told`."""

from collections.abc import Iterable
from typing import Any

from storelab.engines.common.told import Teller


class LimitExceeded(Exception):
    """A limit of config.yaml was exceeded: the client stops at once and the point fails with this reason."""

    def because(self, messages: Iterable[str]) -> "LimitExceeded":
        """The same with the first message of an operation that failed, if there is one."""
        return LimitExceeded(": ".join([str(self), *messages][:2]))


class Guard:
    """Watches one client's share of `limits` over spans of at least one second.

    limits: `throughput` (bytes/s or None) and `requests_per_s` (or None) of the whole point, which its `clients` share
    evenly; `error_fraction` of the operations or None (checked from 50 operations and 5 errors on, so that one early
    error does not end a point); `room_bytes`: what may still be stored in all, if the workload writes; `disk_bytes`:
    what may still be uploaded in all, where the store keeps the space of what is overwritten.

    kept: what this client's uploads come to at most, however often it overwrites: bytes, and bytes more for each
    operation of unknown outcome, whose object is left alone. None: every upload is a new object.

    told: whom the totals are told, too.
    """

    SPAN_NS = 1_000_000_000

    def __init__(
        self,
        limits: dict[str, Any],
        clients: int,
        kept: tuple[int, int] | None = None,
        told: Teller | None = None,
    ):
        share = [limits.get(k) for k in ("throughput", "requests_per_s")]
        self.throughput, self.requests = [v / clients if v else None for v in share]
        room, disk = (limits.get(k) for k in ("room_bytes", "disk_bytes"))
        self.room, self.disk = [None if v is None else v / clients for v in (room, disk)]
        self.kept, self.told = kept, told or Teller(None)
        self.error_fraction = limits.get("error_fraction")
        self.active = any(
            bound is not None for bound in (self.throughput, self.requests, self.room, self.disk, self.error_fraction)
        )
        self.last: tuple[int, int, int] | None = None

    def observe(self, now_ns: int, size_bytes: int, requests: int, operations: int, errors: int) -> None:
        """Give running totals; now_ns: UTC. Raises LimitExceeded."""
        self.told.note(now_ns, operations, errors, size_bytes)
        few = self.error_fraction is None or operations + errors < 50 or errors < 5
        if not few and errors > self.error_fraction * (operations + errors):
            raise LimitExceeded(
                f"{errors} of {operations + errors} operations failed: more than limits.error_fraction = "
                f"{self.error_fraction:g}"
            )
        stored = size_bytes if self.kept is None else min(size_bytes, self.kept[0] + errors * self.kept[1])
        if self.room is not None and stored > self.room:
            raise LimitExceeded(
                f"a client uploaded {stored / 1e6:.0f} MB: more than its share {self.room / 1e6:.0f} MB "
                "of the room in the store (limits.stored_bytes, free disk)"
            )
        if self.disk is not None and size_bytes > self.disk:
            raise LimitExceeded(
                f"a client uploaded {size_bytes / 1e6:.0f} MB: more than its share {self.disk / 1e6:.0f} MB of the "
                "free disk, and the store gives no space of overwritten objects back before it is told to"
            )
        if self.last is None:
            self.last = (now_ns, size_bytes, requests)
            return
        then, size0, requests0 = self.last
        if (span := now_ns - then) < self.SPAN_NS:
            return
        if self.throughput and (rate := (size_bytes - size0) * 1e9 / span) > self.throughput:
            raise LimitExceeded(
                f"a client moved {rate / 1e6:.1f} MB/s: more than its share {self.throughput / 1e6:.1f} MB/s of "
                "limits.throughput"
            )
        if self.requests and (rate := (requests - requests0) * 1e9 / span) > self.requests:
            raise LimitExceeded(
                f"a client sent {rate:.0f} requests/s: more than its share {self.requests:.0f} of limits.requests_per_s"
            )
        self.last = (now_ns, size_bytes, requests)
