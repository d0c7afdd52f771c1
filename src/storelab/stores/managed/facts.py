"""What a managed store tells of itself: state, version, deployment, room and use of its disk."""

import contextlib
import os
import re
import shutil
import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_json, write_json
from storelab.host.folders import existing, filesystem
from storelab.stores.base import Status, Store
from storelab.stores.protocols.endpoint import Endpoint

if TYPE_CHECKING:
    from storelab.stores.managed.daemons import Daemons


class Facts(Store):
    """Part of every managed store. `folder`: the store's own; `data`: where its data lie."""

    folder: Path
    data: Path
    daemons: "Daemons"
    system = ""  # name for people
    front = "s3-"  # front-ends are the daemons whose names begin so, e.g. `s3-1`, `s3-2` …

    version_flag = "--version"  # of the program
    version_pattern = r"(\S+)"  # the version is the first group in what it then says

    @abstractmethod
    def program(self) -> Path:
        """The program that tells the version. Raises UserError that says `storelab install …` where it is missing."""

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        """Names of daemons in stages, in the order of their start. `front_ends`: names of these."""
        return (front_ends,)

    @abstractmethod
    def front_ends(self) -> list[str]:
        """Names of the front-ends that run."""

    @abstractmethod
    def endpoint(self, name: str) -> Endpoint:
        """How clients address this front-end."""

    def status(self) -> Status:
        pids = self.daemons.running()
        missing, there = (
            [n for stage in self.stages([f"{self.front}1"]) for n in stage if n not in pids],
            self.daemons.elsewhere(),
        )
        state = "down" if not pids else "partly" if missing else "up"
        detail = f"started on {there}" if there else f"missing: {', '.join(missing)}" if state == "partly" else ""
        try:
            version = self.version()
        except (UserError, MeasurementFailed):
            version = ""
        return Status(
            self.name,
            self.settings.kind,
            state,
            version,
            [self.endpoint(n).url for n in self.front_ends()],
            pids,
            detail,
        )

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

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(existing(self.data)).free

    def used_bytes(self) -> int | None:
        """Blocks that the data folder takes (sparse files count what is there), once the kernel has written all."""
        os.sync()
        return sum(p.lstat().st_blocks * 512 for p in self.data.rglob("*")) if self.data.exists() else None

    def version(self) -> str:
        return self._version

    @cached_property
    def _version(self) -> str:
        """Asked once for each installed program; kept in the store's folder."""
        program, note = self.program(), self.folder / "version.json"
        stamp = [str(program), program.stat().st_mtime_ns, program.stat().st_size]
        with contextlib.suppress(UserError, OSError, KeyError):
            known = read_json(note)
            if known["stamp"] == stamp:
                return known["version"]
        version = self.ask_version(program)
        if self.folder.exists():
            write_json(note, {"stamp": stamp, "version": version})
        return version

    def ask_version(self, program: Path) -> str:
        """What the program says of itself; '' where it tells none."""
        command = [program, self.version_flag]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
        found = re.search(self.version_pattern, done.stdout + done.stderr)
        return found.group(1) if found else ""
