"""What a managed store tells of itself: folders, front-ends, state, version, deployment, use of its disk."""

import contextlib
import hashlib
import os
import re
import shutil
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_as, write_json
from storelab.host import processes
from storelab.host.folders import existing, filesystem
from storelab.install import program
from storelab.stores.base import Status, Store
from storelab.stores.managed.daemon import Daemon, environment
from storelab.stores.protocols.endpoint import Endpoint

if TYPE_CHECKING:
    from storelab.stores.managed.daemons import Daemons


SHARED = Path("/dev/shm")  # memory that outlives processes


class Facts(Store):
    """Part of every managed store. folder: the store's own; data: where its data lie."""

    managed = True
    tells_used = True
    system = ""  # name for people
    binary = ""  # program that tells the version; named after the kind unless said here
    installed_by = ""  # name for `storelab install`; the kind unless said here
    version_flag = "--version"  # of the program
    version_pattern = r"(\S+)"  # the version is the first group in what the program then says
    front = "s3-"  # front-ends are the daemons whose names begin so, e.g. `s3-1`, `s3-2` …
    most_front_ends = 1
    most_accounts = 1

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.folder = Path(state).absolute() / name
        self.data = self._data_folder()

    def _data_folder(self) -> Path:
        s = self.settings
        if s.directory:
            suffix = self.name.partition("+")[2]  # deployments of one store do not share their data
            return Path(s.directory).expanduser().absolute() / suffix
        if s.backing == "tmpfs":
            return SHARED / f"storelab-{os.getuid()}-stores" / (f"{short_name(self.folder)}-{self.name}")
        return self.folder / "data"

    @cached_property
    def daemons(self) -> "Daemons":
        return self.daemons_of(self.folder)

    def daemons_of(self, folder: Path) -> "Daemons":
        """The daemons that are recorded in a store's folder."""
        from storelab.stores.managed.daemons import Daemons  # here: planning needs no psutil, which is slow to import

        return Daemons(folder, self.place)

    def program(self) -> Path:
        """The program that tells the version. Raises UserError that says `storelab install …` where it is missing."""
        kind = self.settings.kind
        return program(self.binary or kind, self.installed_by or kind, self.place)

    @abstractmethod
    def daemon(self, name: str) -> Daemon:
        """How this daemon runs."""

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        """Names of daemons in stages, in the order of their start. front_ends: names of the front-ends."""
        return (front_ends,)

    def _number(self, name: str) -> int:
        return int(name.removeprefix(self.front))

    def front_ends(self) -> list[str]:
        """Names of the front-ends that run."""
        return sorted((n for n in self.daemons.running() if n.startswith(self.front)), key=self._number)

    def address(self, front_end: int) -> str:
        """The address that the front-end of this number (from 1) listens on."""
        several = self.settings.front_end_addresses
        return several[(front_end - 1) % len(several)] if several else self.settings.address

    def endpoint(self, name: str) -> Endpoint:
        """How clients address this front-end."""
        daemon = self.daemon(name)
        ca_file = str(self.folder / "tls" / "ca.pem") if daemon.tls else None
        host = getattr(self.settings, "advertise", None) or daemon.host
        url = f"{'https' if daemon.tls else 'http'}://{host}:{daemon.ports[0]}"
        return Endpoint(url, ca_file=ca_file, protocol=self.protocol)

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        names = self.front_ends()
        if len(names) < front_ends:
            raise UserError(self.place, f"{front_ends} front-ends asked, {len(names)} run", "run `storelab up`")
        return [self.endpoint(n) for n in names[:front_ends]]

    def most(self, axis: str) -> int:
        return {"front_ends": self.most_front_ends, "accounts": self.most_accounts}[axis]

    def actors(self) -> dict[str, int]:
        """Daemons that run, and their workers."""
        return self.daemons.everyone()

    def status(self) -> Status:
        pids, there = self.daemons.running(), self.daemons.elsewhere()
        missing = [n for stage in self.stages([f"{self.front}1"]) for n in stage if n not in pids]
        state = "down" if not pids else "partly" if missing else "up"
        detail = f"started on {there}" if there else f"missing: {', '.join(missing)}" if state == "partly" else ""
        try:
            version = self.version()
        except (UserError, MeasurementFailed):
            version = ""
        urls = [self.endpoint(n).url for n in self.front_ends()]
        return Status(self.name, self.settings.kind, state, version, urls, pids, detail)

    def deployment(self) -> dict[str, Any]:
        """System, version, daemons by kind (name before the last '-'), front-ends, redundancy, backing and so on."""
        names = list(self.daemons.running())
        kinds = [n.rpartition("-")[0] or n for n in names]
        return {
            "system": self.system,
            "version": self.version(),
            "daemons": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
            "front_ends": len(self.front_ends()),
            "servers": getattr(self.settings, "servers", 1),
            "redundancy": getattr(self.settings, "redundancy", "none"),
            "backing": "memory" if self.settings.backing == "memory" else filesystem(self.data),
            "tls": bool(getattr(self.settings, "tls", False)),
            "accounts": self.accounts(),
        }

    def memory_only(self) -> bool:
        return self.settings.backing == "memory" or filesystem(self.data) == "tmpfs"

    def data_folders(self) -> list[Path]:
        return [self.data] if not self.memory_only() and not self.daemons.elsewhere() and self.data.exists() else []

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(existing(self.data)).free

    def used_bytes(self) -> int | None:
        """Blocks that the data folder takes (sparse files count what is there), once the kernel has written all."""
        os.sync()
        return sum(p.lstat().st_blocks * 512 for p in self.data.rglob("*")) if self.data.exists() else None

    @cached_property
    def _version(self) -> str:
        """Asked once for each installed program; kept in the store's folder."""
        program, note = self.program(), self.folder / "version.json"
        stamp = [str(program), program.stat().st_mtime_ns, program.stat().st_size]
        with contextlib.suppress(UserError):
            known = read_as(note, dict[str, Any], "")
            if known.get("stamp") == stamp and isinstance(known.get("version"), str):
                return known["version"]
        version = self.ask_version(program)
        if self.folder.exists():
            write_json(note, {"stamp": stamp, "version": version})
        return version

    def ask_version(self, program: Path) -> str:
        """What the program says of itself; '' where it tells none."""
        done = processes.ask([program, self.version_flag], 30, environment(self.folder, {}))
        found = re.search(self.version_pattern, done.stdout + done.stderr)
        return found.group(1) if found else ""


def short_name(folder: Path) -> str:
    """A short name that is this folder's alone, the same at every call: for namespaces and for folders on tmpfs."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:8]
