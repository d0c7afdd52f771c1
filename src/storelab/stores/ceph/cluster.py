"""The cluster behind the daemons of a Ceph of ours: made, made anew, moved to other ports, wiped.

A cluster on disk is kept for life. One in memory is made anew where more OSDs are gone than its redundancy bears.
"""

import errno
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.core.records import read_as, write_json
from storelab.install import program
from storelab.stores.ceph import conf
from storelab.stores.ceph.admin import Admin
from storelab.stores.managed.base import LOOPBACK, Managed


class CephCluster(Managed):
    """Part of `Ceph`: its cluster.

    `cluster.json` lies with the data: fsid, port, shape, stamps of users, and `made` once its pools are there.
    """

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.admin = Admin(self.folder, self.place)
        self.osds = [f"osd-{i}" for i in range(settings.servers)]
        self.memory = settings.backing == "memory"
        self.back: list[str] = []  # OSDs that this `up` started

    def cluster(self) -> dict[str, Any]:
        path = self.data / "cluster.json"
        mend = f"restore it, or remove {self.data}, with the data in it"
        return read_as(path, dict[str, Any], mend) if path.exists() else {}

    def note(self, **facts: Any) -> None:
        write_json(self.data / "cluster.json", self.cluster() | facts)

    def _shape(self) -> dict[str, Any]:
        """What a cluster keeps for life."""
        s = self.settings
        return {
            "backing": "memory" if self.memory else "disk",
            "servers": s.servers,
            "redundancy": s.redundancy,
            "osd_size": s.osd_size,
        }

    def make_ready(self) -> None:
        self.back = []
        cluster = self.cluster()
        if cluster.get("made") and not self._lost(cluster):
            self._check_shape(cluster["shape"])
            if cluster["port"] != self.settings.port:
                self._move()
            self._write_conf(cluster["fsid"])
        else:
            self._make()

    def _lost(self, cluster: dict[str, Any]) -> bool:
        """True if nobody misses this cluster: it was in memory, and that is gone, or is to be of another shape."""
        if cluster["shape"]["backing"] != "memory":
            return False
        if cluster["shape"] != self._shape() or cluster["port"] != self.settings.port:
            return True
        running = self.daemons.running()
        gone = [n for n in self.osds if n not in running and not self.daemons.adopt(self.daemon(n))]
        return len(gone) > conf.TOLERANCE[self.settings.redundancy]

    def _check_shape(self, was: dict[str, Any]) -> None:
        for key, value in self._shape().items():
            if value != was[key]:
                raise UserError(
                    f"{self.place}.{key}",
                    f"{value} asked, but the data in {self.data} are of a cluster with {was[key]}",
                    "set it back, or give another `directory`, or remove that folder",
                )

    def _write_conf(self, fsid: str) -> None:
        (self.folder / "ceph.conf").write_text(conf.conf(self.settings, fsid, self._way()))

    def _way(self) -> str:
        """From the store's folder to its data. Raises UserError where Ceph's settings cannot hold that path."""
        way = os.path.relpath(self.data, self.folder)
        if re.search(r"[\s,;#=$\"\\]", way):
            raise UserError(
                f"{self.place}.directory",
                f"Ceph takes no path like {way}",
                "give a folder without blanks and , ; # = $",
            )
        return way

    def _wipe(self) -> None:
        """Every trace of the cluster; the folder and storelab's marker in it stay."""
        for path in (self.data / "cluster.json", self.data / "keyring", self.data / "monmap"):
            path.unlink(missing_ok=True)
        for path in (p for pattern in ("mon", "mgr", "osd-*") for p in self.data.glob(pattern)):
            shutil.rmtree(path)

    def _make(self) -> None:
        """A new cluster: its keys, its monitor's and its OSDs' stores. Whatever ran here is stopped."""
        self.daemons.stop()
        self.daemons.sweep()
        self._wipe()
        if not self.memory:
            self._check_direct()
        s, fsid, osds = self.settings, str(uuid.uuid4()), [str(uuid.uuid4()) for _ in self.osds]
        self.note(made=False, fsid=fsid, osds=osds, port=s.port, shape=self._shape(), users=[])
        self._write_conf(fsid)
        for name in ("mon", "mgr", *self.osds):
            (self.data / name).mkdir(mode=0o700)
        keyring, monmap = f"{self._way()}/keyring", f"{self._way()}/monmap"
        with os.fdopen(os.open(self.folder / keyring, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
            f.write(conf.keyring(s.servers, self.most_front_ends))
        self.admin.tool("monmaptool", "--create", "--fsid", fsid, "--addv", "a", self._monitor(), monmap)
        mon, osd = (str(program(f"ceph-{kind}", "ceph", self.place)) for kind in ("mon", "osd"))
        make = {"mon": [mon, "-c", self.admin.conf, "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring]}
        own = ["--monmap", monmap, "--no-mon-config"]
        make |= {
            name: [osd, "-c", self.admin.conf, "--mkfs", "-i", str(i), "--osd-uuid", osds[i], *own]
            for i, name in enumerate(self.osds)
        }
        self.admin.together(make, self.daemons.logs)

    def _monitor(self) -> str:
        return f"v2:{LOOPBACK}:{self.settings.port + conf.MON}"

    def _check_direct(self) -> None:
        """Bluestore opens its file with O_DIRECT only, which tmpfs knows since Linux 6.6."""
        probe = self.data / ".direct"
        try:
            os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise UserError(
                f"{self.place}.backing",
                f"the file system of {self.data} knows no direct I/O, which bluestore needs",
                "use `memory` or `disk`",
            ) from None
        finally:
            probe.unlink(missing_ok=True)

    def _move(self) -> None:
        """The same cluster at other ports: the monitor has its own written down."""
        self.daemons.stop()
        self.daemons.sweep()
        monmap, store = f"{self._way()}/monmap", ("-i", "a")
        self.admin.tool("ceph-mon", *store, "--extract-monmap", monmap)
        self.admin.tool("monmaptool", "--rm", "a", monmap)
        self.admin.tool("monmaptool", "--addv", "a", self._monitor(), monmap)
        self.admin.tool("ceph-mon", *store, "--inject-monmap", monmap)
        self.note(port=self.settings.port)

    def dismantle(self) -> None:
        if self.memory and self.data.exists():
            self._wipe()
