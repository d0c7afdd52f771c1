"""The limits of a production store, watched while a client runs. Standard library only."""

from collections.abc import Iterable
from typing import Any


class LimitExceeded(Exception):
    """A limit of config.yaml was exceeded: the client stops at once and the point fails with this reason."""

    def because(self, messages: Iterable[str]) -> "LimitExceeded":
        """The same with the first message of an operation that failed, if there is one."""
        return LimitExceeded(": ".join([str(self), *messages][:2]))


class Guard:
    """Watches one client's share of `limits` over spans of at least one second.

    limits: `throughput` (bytes/s or None) and `requests_per_s` (or None) of the whole point, which its `clients` share
    evenly; `error_fraction` of the operations or None (checked from 50 operations and 5 errors on, so that one early
    error does not end a point); `room_bytes`: what may still be uploaded in all, if the workload writes.
    """

    SPAN_NS = 1_000_000_000

    def __init__(self, limits: dict[str, Any], clients: int):
        share = [limits.get(k) for k in ("throughput", "requests_per_s")]
        self.throughput, self.requests = [v / clients if v else None for v in share]
        self.room = limits["room_bytes"] / clients if limits.get("room_bytes") is not None else None
        self.error_fraction = limits.get("error_fraction")
        self.active = any(
            bound is not None for bound in (self.throughput, self.requests, self.room, self.error_fraction)
        )
        self.last: tuple[int, int, int] | None = None

    def observe(self, now_ns: int, size_bytes: int, requests: int, operations: int, errors: int) -> None:
        """Give running totals; now_ns: UTC. Raises LimitExceeded."""
        few = self.error_fraction is None or operations + errors < 50 or errors < 5
        if not few and errors > self.error_fraction * (operations + errors):
            raise LimitExceeded(
                f"{errors} of {operations + errors} operations failed: more than limits.error_fraction = "
                f"{self.error_fraction:g}"
            )
        if self.room is not None and size_bytes > self.room:
            raise LimitExceeded(
                f"a client uploaded {size_bytes / 1e6:.0f} MB: more than its share {self.room / 1e6:.0f} MB "
                "of the room in the store (limits.stored_bytes, free disk)"
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
