"""Read the state of a host and its processes from the Linux kernel at low cost. Standard library only.

Files of /proc stay open, and the netlink interface sock_diag(7) counts sockets by state. psutil needs ten times as much
CPU time. /proc/net/tcp is not used, because it has a line for every socket, including thousands in TIME_WAIT. Values
that a kernel does not report are None. No error is raised, because a monitor must not end a measurement.
"""

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TICK, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

# Numbers of TCP states (include/net/tcp_states.h), and the bit mask that selects them in a dump.
SYN_SENT, SYN_RECV, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING = 2, 3, 4, 5, 8, 9, 11
OPENING, SHUTTING = (SYN_SENT, SYN_RECV), (FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING)
REQUESTED_STATES = sum(1 << s for s in (*OPENING, *SHUTTING))
_SOCK_DIAG_BY_FAMILY, _NLMSG_ERROR, _NLMSG_DONE, _REQUEST_DUMP = 20, 2, 3, 0x301


class Cpu(NamedTuple):
    """CPU seconds of the host since boot. `busy`: all except idle and I/O wait (guests are part of user)."""

    user: float
    system: float
    busy: float


class Process(NamedTuple):
    """The state of a process: CPU seconds of all its threads since its start, resident bytes, parent and session."""

    user: float
    system: float
    rss: int
    parent: int
    session: int


class Files:
    """A set of open files of /proc, for one thread.

    At most `most` files stay open, because opening a file costs as much as reading it.
    """

    def __init__(self, most: int = 256):
        self._open: dict[str, int] = {}
        self.most = most

    def read(self, path: str, size: int = 4096) -> bytes | None:
        """Return the first `size` bytes of a file, or None if it no longer exists. A large `size` costs page faults."""
        fd = self._open.get(path)
        try:
            if fd is None:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            data = os.pread(fd, size, 0)
        except OSError:
            data = None
        if data and len(self._open) < self.most:
            self._open[path] = fd
        elif fd is not None:
            self._open.pop(path, None)
            os.close(fd)
        return data or None

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()


def cpu(files: Files) -> Cpu:
    """Return the CPU times from the first line of /proc/stat: user nice system idle iowait irq softirq steal."""
    data = files.read("/proc/stat", 512) or b"cpu 0 0 0 0 0 0 0 0\n"
    user, nice, system, _, _, irq, softirq, steal = (int(v) / TICK for v in data[: data.index(b"\n")].split()[1:9])
    return Cpu(user + nice, system + irq + softirq, user + nice + system + irq + softirq + steal)


def memory_in_use(files: Files) -> int | None:
    """Return MemTotal - MemAvailable in bytes: memory that only swapping can free.

    It includes tmpfs, not disk caches.
    """
    data = files.read("/proc/meminfo", 256)
    if not data or b"MemAvailable:" not in data:
        return None
    kib = {line[: line.index(b":")]: int(line.split()[1]) for line in data.splitlines()[:3]}
    return (kib[b"MemTotal"] - kib[b"MemAvailable"]) * 1024


def interfaces(files: Files) -> dict[str, tuple[int, int, int, int]]:
    """Return interface -> (rx_bytes, tx_bytes, rx_packets, tx_packets) in this network namespace."""
    out = {}
    for line in (files.read("/proc/net/dev", 1 << 16) or b"").splitlines()[2:]:
        name, _, numbers = line.partition(b":")
        v = numbers.split()
        out[name.strip().decode()] = (int(v[0]), int(v[8]), int(v[1]), int(v[9]))
    return out


def tcp(files: Files) -> tuple[int | None, int | None]:
    """Return (sockets in ESTABLISHED or CLOSE_WAIT, opened connections), IPv4 and IPv6, from /proc/net/snmp.

    The values are tcpCurrEstab and tcpActiveOpens of RFC 4022; the second counts since the start of this network
    namespace.
    """
    lines = [line.split() for line in (files.read("/proc/net/snmp") or b"").splitlines() if line.startswith(b"Tcp:")]
    if len(lines) != 2:
        return None, None
    return int(lines[1][lines[0].index(b"CurrEstab")]), int(lines[1][lines[0].index(b"ActiveOpens")])


def time_wait(files: Files) -> int | None:
    """Return the number of TCP sockets in TIME_WAIT, IPv4 and IPv6, from /proc/net/sockstat."""
    words = (files.read("/proc/net/sockstat") or b"").split()
    return int(words[words.index(b"tw") + 1]) if b"tw" in words else None


def changing() -> dict[int, int] | None:
    """Return state -> number of sockets for the TCP states OPENING and SHUTTING, IPv4 and IPv6; None if unknown.

    Only sockets of this network namespace count. The kernel searches its whole table, including TIME_WAIT sockets, but
    sends only the requested states. In an answer, the first byte is the address family and the second the state.
    """
    out = dict.fromkeys((*OPENING, *SHUTTING), 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as s:  # NETLINK_SOCK_DIAG
            s.settimeout(1.0)
            for family in (socket.AF_INET, socket.AF_INET6):
                request = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 0, 0, REQUESTED_STATES)
                s.send(struct.pack("=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
                _count(s, out)
    except OSError:
        return None
    return out


def _count(s: socket.socket, out: dict[int, int]) -> None:
    while True:
        data, at = s.recv(1 << 15), 0
        while at < len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                raise OSError("sock_diag refused the request")
            state = data[at + 17]
            out[state] = out.get(state, 0) + 1
            at += (length + 3) & ~3


def process(files: Files, pid: int) -> Process | None:
    """Return the state of a process, or None if it has ended.

    Fields are counted from the last bracket, because the name of a process can have brackets.
    """
    data = files.read(f"/proc/{pid}/stat")
    if not data:
        return None
    v = data[data.rindex(b")") + 2 :].split()
    return Process(int(v[11]) / TICK, int(v[12]) / TICK, int(v[21]) * PAGE, int(v[1]), int(v[3]))


def pids() -> set[int]:
    """Return the ids of all processes."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - Path is slow


def sockets(pid: int) -> int | None:
    """Return the number of open sockets of a process; None if not visible. This takes about 4 us for each open file."""
    folder, count = f"/proc/{pid}/fd", 0
    try:
        names = os.listdir(folder)  # noqa: PTH208 - Path creates an object for each
    except OSError:
        return None
    for name in names:
        with suppress(OSError):  # closed in the meantime
            count += os.readlink(f"{folder}/{name}").startswith("socket:")  # noqa: PTH115 - as above
    return count


def opened(pid: int) -> int | None:
    """Return the number of open files of a process, including sockets; None if not visible.

    From Linux 6.2 on, the size of the folder is this number; on older kernels the entries are counted.
    """
    folder = f"/proc/{pid}/fd"
    try:
        return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208 - as above
    except OSError:
        return None


def moved_bytes(pid: int) -> int:
    """Return the bytes that a process has read and written through files and sockets; 0 if not visible."""
    try:
        with open(f"/proc/{pid}/io") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith(("rchar", "wchar")))
    except OSError:
        return 0


def socket_bytes() -> int:
    """Return the bytes that were transferred over the open TCP connections of this process (tcp_info).

    These are the bytes that the peers acknowledged or sent. `moved_bytes` includes them only for programs in Go. Closed
    connections do not count.
    """
    total = 0
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - Path creates an object for each
            with suppress(OSError, struct.error):  # not a TCP socket, or closed in the meantime
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):  # noqa: PTH115 - as above
                    with socket.socket(fileno=os.dup(int(name))) as copy:
                        info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
                        total += sum(struct.unpack_from("=QQ", info, 120))  # bytes acked, bytes received
    return total


def disk_reads(pid: int) -> int | None:
    """Return the bytes that the kernel read from disks for a process (`read_bytes`); None if not visible.

    Reads from the page cache or from memory, and reads of ended child processes do not count.
    """
    with suppress(OSError, ValueError), open(f"/proc/{pid}/io") as f:
        return next((int(line.split()[1]) for line in f if line.startswith("read_bytes")), None)
    return None


def ephemeral_ports() -> int | None:
    """Return the number of ports that the kernel can use for outgoing connections; None if unknown."""
    bounds = _numbers("/proc/sys/net/ipv4/ip_local_port_range")
    return bounds[1] - bounds[0] + 1 if bounds else None


def _numbers(path: str) -> list[int]:
    """Return the integers in a file of /proc; [] if it is missing or has other content."""
    with suppress(OSError, ValueError):
        return [int(word) for word in Path(path).read_text().split()]
    return []
