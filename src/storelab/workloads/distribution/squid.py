"""Run Squid in front of a store: one process on loopback, as user nobody, with limited memory and without a disk cache.

Squid ends with this process, even after kill -9. Its configuration and its log are anonymous files. Its files of shared
memory on tmpfs are removed when it is stopped. If it was killed, they are removed before the next one starts. Their
names contain the pid of this process, because other containers can use the same tmpfs and the same ports.
"""

import os
import pwd
import re
import subprocess
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import program
from storelab.stores.managed import network

ADDRESS, PORTS = "127.0.0.1", range(26500, 26600)
MEMORY_MB, LARGEST_MB = 256, 64  # memory for objects, and maximum size of a kept object
UNPRIVILEGED = "nobody"
READY_S, GRACE_S = 10.0, 5.0
NAME, SHARED = "storelab", Path("/dev/shm")  # prefix of the service name, and folder of its shared memory
COUNTERS = "/squid-internal-mgr/counters"
# Freshness that the headers of objects do not define. Data never change under their name, so they are fresh for three
# days. The manifest is fresh for a minute. Simultaneous requests for the same object are sent to the store only once.
CONFIGURATION = """http_port {address}:{port}
acl origin port {origin}
acl reading method GET HEAD
http_access allow localhost manager
http_access allow localhost origin reading
http_access deny all
cache deny manager
cache_mem {memory} MB
maximum_object_size {largest} MB
maximum_object_size_in_memory {largest} MB
memory_cache_shared off
collapsed_forwarding on
minimum_expiry_time 0 seconds
refresh_pattern /\\.cvmfs[a-z]+$ 1 0% 1 override-lastmod
refresh_pattern . 4320 0% 4320 override-lastmod
access_log none
cache_log /dev/null
cache_store_log none
logfile_rotate 0
pid_filename none
coredump_dir /
visible_hostname storelab
pinger_enable off
max_filedescriptors 4096
shutdown_lifetime 0 seconds
"""
_SHARED_FILE = re.compile(rf"{NAME}\d+p([0-9a-f]+)n([0-9a-f]+)-")  # the groups are the pid and its namespace
_LINE = re.compile(r"^([a-z_.]+) = ([0-9.]+)", re.MULTILINE)
# Name in the record -> (Squid's counter, its unit).
COUNTED = {
    "requests": ("client_http.requests", 1),
    "hits": ("client_http.hits", 1),
    "errors": ("client_http.errors", 1),
    "bytes": ("client_http.kbytes_out", 1024),
    "hit_bytes": ("client_http.hit_kbytes_out", 1024),
    "origin_requests": ("server.all.requests", 1),
    "origin_errors": ("server.all.errors", 1),
    "origin_bytes": ("server.all.kbytes_in", 1024),
}


def configuration(port: int, origin: int) -> str:
    """Return the configuration. origin: the port of the store, which is the only port that Squid may contact."""
    return CONFIGURATION.format(address=ADDRESS, port=port, origin=origin, memory=MEMORY_MB, largest=LARGEST_MB)


def parsed(text: str) -> dict[str, int]:
    """Return the counters of COUNTED from the page `counters`. Raises ValueError if one is missing."""
    found = {name: float(value) for name, value in _LINE.findall(text)}
    if missing := [name for name, _ in COUNTED.values() if name not in found]:
        raise ValueError(f"no counter {missing[0]}")
    return {ours: round(found[name] * unit) for ours, (name, unit) in COUNTED.items()}


def between(first: dict[str, int], last: dict[str, int]) -> dict[str, int]:
    """Return the counts between two readings.

    The first reading counts itself as one request that was not a hit.
    """
    out = {name: last[name] - first[name] for name in first}
    return out | {"requests": out["requests"] - 1}


def service(port: int) -> str:
    """Return the name of a Squid of this process, with which the names of its shared files begin."""
    return f"{NAME}{port}p{os.getpid():x}n{processes.pid_namespace():x}"


def remove_left() -> None:
    """Remove the shared files of every killed Squid of this container. Files of other containers are not removed."""
    for left in SHARED.glob(f"{NAME}*.shm"):
        found = _SHARED_FILE.match(left.name)
        if (
            found
            and int(found[2], 16) == processes.pid_namespace()
            and not Path("/proc", str(int(found[1], 16))).exists()
        ):
            with suppress(OSError):  # the file belongs to another user
                left.unlink()


def installed(place: str) -> Path:
    """Return the path of the program. Raises UserError with the install command.

    place: the place in the configuration, for messages.
    """
    return program("squid", "squid", place)


class Squid:
    """A running Squid for the store at this URL; its cache is empty at first.

    Raises UserError if this is not possible, or MeasurementFailed if Squid does not start.
    """

    def __init__(self, origin: str, place: str):
        self.program, self.place = installed(place), place
        parts = urlsplit(origin)
        if parts.scheme != "http":
            raise UserError(
                place, f"{parts.scheme} bypasses an HTTP cache", "set scheme to http, or http_cache to none"
            )
        port = next((port for port in PORTS if network.free(ADDRESS, port)), None)
        if port is None:
            raise UserError(place, f"all ports from {PORTS[0]} to {PORTS[-1]} are in use", "stop the other processes")
        self.port = port
        remove_left()
        self.log = os.memfd_create("squid.log")
        try:
            self.process = self._started(configuration(port, parts.port or 80))
        except BaseException:
            os.close(self.log)
            raise
        try:
            self._ready()
            self.first = self.counters()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    def _started(self, text: str) -> "subprocess.Popen[bytes]":
        """Start Squid, as user nobody if this process is root. It reads an anonymous file through /proc."""
        file = os.memfd_create("squid.conf")
        try:
            os.write(file, text.encode())
            user: dict[str, Any] = {}
            if os.geteuid() == 0:
                account = pwd.getpwnam(UNPRIVILEGED)
                user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            return subprocess.Popen(
                [str(self.program), "-N", "-d1", "-n", service(self.port), "-f", f"/proc/self/fd/{file}"],
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                pass_fds=(file,),
                cwd="/",
                env={"PATH": os.environ.get("PATH", "")},
                preexec_fn=processes.die_with_parent(),
                **user,
            )
        finally:
            os.close(file)

    def _ready(self) -> None:
        end = time.monotonic() + READY_S
        while not network.answers(ADDRESS, self.port, COUNTERS):
            if self.process.poll() is not None or time.monotonic() > end:
                raise MeasurementFailed(f"{self.place}: Squid does not answer; the end of its log: {self._log_tail()}")
            time.sleep(0.05)

    def _log_tail(self) -> str:
        lines = os.pread(self.log, 1_000_000, 0).decode(errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines if line.strip())[-300:] or "nothing"

    def counters(self) -> dict[str, int]:
        """Return the counters since Squid started. Raises MeasurementFailed if it does not answer."""
        try:
            return parsed(network.get(ADDRESS, self.port, COUNTERS, 10.0)[1].decode(errors="replace"))
        except (OSError, HTTPException, ValueError) as error:
            raise MeasurementFailed(f"{self.place}: Squid does not report its counters: {error}") from None

    def record(self) -> dict[str, Any]:
        """Return the facts for the record: version, settings, and the counts since Squid was ready."""
        facts = {"name": "squid", "version": self.version(), "memory_mb": MEMORY_MB, "largest_mb": LARGEST_MB}
        return facts | between(self.first, self.counters())

    def version(self) -> str:
        found = re.search(r"Version (\S+)", processes.run_command([self.program, "-v"]).stdout)
        return found[1] if found else ""

    def stop(self) -> None:
        """Stop Squid. It can be called repeatedly."""
        processes.stop(self.process, GRACE_S)
        for left in SHARED.glob(f"{service(self.port)}-*.shm"):
            left.unlink(missing_ok=True)
        if self.log >= 0:
            os.close(self.log)
            self.log = -1
