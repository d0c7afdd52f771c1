"""Which data server answered, where the front-end sends its clients on, as the client's own library has it: root://.

May import: what `engines` may.
"""

import socket
from collections import defaultdict
from functools import cache
from threading import Lock
from typing import Any


@cache
def here(host: str) -> bool:
    """Whether an address is one of the host (or network namespace) that this process runs on."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((host, 0))
        return True
    except OSError:  # of another host, or a name that cannot be resolved
        return False


class Answered:
    """Operations and bytes by server (host:port). Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, server: str, size: int) -> None:
        with self._lock:
            count = self._counts[server]
            count[0] += 1
            count[1] += size

    def record(self) -> list[dict[str, Any]]:
        """server, operations, bytes, and whether it is on the client's own host; by server."""
        return [
            {"server": server, "operations": n, "bytes": size, "local": here(server.rpartition(":")[0].strip("[]"))}
            for server, (n, size) in sorted(self._counts.items())
        ]


def of_open_file(file: Any) -> str:
    """The data server of an open file of XRootD's client; '' where it does not tell."""
    return str(file.get_property("DataServer") or "")


def of_read_file(fs: Any, path: str) -> str:
    """The data server that `cat_file` of fsspec-xrootd just read from: it keeps the last file open."""
    item = fs._readonly_filehandle_cache._cache.get(fs.unstrip_protocol(path))
    return of_open_file(item.handle) if item else ""
