"""A node: its name and versions, the offset of its clock from the coordinator's clock, and its part of the records.

The coordinator answers datagrams, or requests on an agent's pipe, with its time. A node sends several requests and uses
the quickest answer, whose round trip bounds the error (F. Cristian, *Probabilistic clock synchronization*, Distributed
Computing 3, 1989): offset = server - (sent + received) / 2, with an error of at most half the round trip. If no
datagram is answered, the node uses the kernel's bound on the error of its clock (adjtimex(2)), provided that the clock
is disciplined. The offset is then taken as zero, with this bound. This module may import `coordinator`, `engines`,
`host` and `core`.
"""

import ctypes
import os
import platform
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.core import clock
from storelab.core.records import RunRecord
from storelab.engines.contract import ClientResult
from storelab.gang.coordinator import Launcher
from storelab.host import environment

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_name() -> str:
    """Return the name of this node in the batch system, because one machine can have several Slurm nodes."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def versions() -> dict[str, Any]:
    """Return the versions on this host of the software that takes part in a measurement."""
    return {"storelab": __version__, "python": platform.python_version(), "packages": environment.packages()}


def other_versions(about: dict[str, Any]) -> dict[str, str]:
    """Return a description of each version of a node that differs from the version on this host."""
    out = {}
    for what, here in versions().items():
        there, name = about.get(what), what
        if what == "packages" and there and there != here:
            name = next(n for n in sorted(here.keys() | there.keys()) if here.get(n) != there.get(n))
            there, here = there.get(name), here.get(name)
        if there != here:
            out[what] = f"{name} {there}, here {here}"
    return out


def add_to(run: RunRecord, launcher: Launcher, results: Sequence[ClientResult], watched: dict[str, Any]) -> None:
    """Add host, clock and monitor of each node to a record. If all clients ran on this host, add nothing.

    `host` becomes the sum over all machines, including this one if it took part. Nodes on the same machine, which have
    the same boot id, count once. `watched` is the summary of this host's monitor.
    """
    nodes = [{k: v for k, v in about.items() if k not in ("clients", "pid", "packages")} for about in launcher.about()]
    if not nodes:
        return
    machines = {about.get("boot_id"): about.get("watched") or {} for about in nodes}
    whole = dict(next(iter(machines.values())))
    for name in ("cores", "cpu_busy_s"):
        values = [m.get(name) for m in machines.values()]
        whole[name] = None if None in values else sum(values)
    run.nodes, run.host, run.coordinator = nodes, whole, watched
    run.shared_machine = BOOT_ID.read_text().strip() in machines  # a node is on the coordinator's machine
    whole["server_cpu_s"] = watched.get("server_cpu_s") if run.shared_machine else None
    whole["client_cpu_s"] = sum(r.cpu_user_s + r.cpu_system_s for r in results)


REQUESTS, WAIT_S = 12, 0.3
STA_UNSYNC = 0x40


@dataclass(frozen=True)
class Offset:
    """The offset of this host's clock.

    Attributes
    ----------
    ns
        Offset to add to this host's clock.
    error_ns
        Bound on the error of the sum; None if it is unknown.
    how
        Source of the offset: `asked` (the coordinator), `kernel` or `unknown`.
    """

    ns: int
    error_ns: int | None
    how: str

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the record."""
        return {"clock_offset_ns": self.ns, "clock_error_ns": self.error_ns, "clock_how": self.how}


class Background(socketserver.BaseServer):
    """A server that runs in a separate thread from `begin()` until `close()`."""

    def begin(self, name: str) -> None:
        self.thread = threading.Thread(target=self.serve_forever, daemon=True, name=name)
        self.thread.start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join(5)


class ClockServer(Background, socketserver.UDPServer):
    """A server that sends its time to nodes until `close()`. `hosts` are names or addresses of this machine.

    `addresses` is a list of [host, port], which nodes try in this order.
    """

    shift_ns = 0  # tests set another value to simulate a wrong clock

    def __init__(self, hosts: list[str], port: int = 0):
        super().__init__(("", port), _Answer)
        self.addresses = [[host, self.server_address[1]] for host in hosts]
        self.begin("clock")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing, because the node repeats its request."""


class _Answer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data, sender = self.request
        if len(data) == 16:
            sender.sendto(data + struct.pack("!q", clock.now_ns() + self.server.shift_ns), self.client_address)


def measure_offset(addresses: list[list], uplink: Any = None) -> Offset:
    """Return the offset to the coordinator's clock from the first address that answers, otherwise from the kernel.

    `addresses` is a list of [host, port]. If `uplink` can request the coordinator's time, it is used instead.
    """
    if ask := getattr(uplink, "server_time_ns", None):
        return min((_one_offset(ask) for _ in range(REQUESTS)), key=lambda offset: offset.error_ns or 0)
    for host, port in addresses:
        if (best := _measured_offset(host, port)) is not None:
            return best
    error_ns = kernel_error_ns()
    return Offset(0, error_ns, "unknown" if error_ns is None else "kernel")


def _one_offset(ask: Callable[[], int]) -> Offset:
    sent, there, received = clock.now_ns(), ask(), clock.now_ns()
    return Offset(there - (sent + received) // 2, (received - sent) // 2, "asked")


def _measured_offset(host: str, port: int) -> Offset | None:
    best: tuple[int, int] | None = None
    misses = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(WAIT_S)
        for _ in range(REQUESTS):
            nonce = secrets.token_bytes(16)
            try:
                sent = clock.now_ns()
                s.sendto(nonce, (host, port))
                while (answer := s.recv(64))[:16] != nonce:
                    pass  # a late answer to an earlier request
                received = clock.now_ns()
            except OSError:
                misses += 1
                if misses > 2 and best is None:
                    return None
                continue
            trip, offset = received - sent, struct.unpack("!q", answer[16:])[0] - (sent + received) // 2
            best = min(best, (trip, offset)) if best else (trip, offset)
    return Offset(best[1], best[0] // 2, "asked") if best else None


def kernel_error_ns() -> int | None:
    """Return the kernel's bound on its clock's error (`maxerror` of adjtimex); None if the clock is not disciplined."""
    buffer = (ctypes.c_long * 64)()  # struct timex: modes, offset, freq, maxerror, esterror, status, …
    failed = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(buffer)) < 0
    return None if failed or buffer[5] & STA_UNSYNC else buffer[3] * 1000
