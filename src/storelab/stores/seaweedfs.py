"""SeaweedFS on this machine: master, volume servers, filer and up to 23 S3 front-ends, one process each.

Only the front-ends require keys. Therefore only they listen on `address`, and the other daemons on loopback. The
daemons start in stages, because a daemon that does not find its master waits several seconds before it retries. See
docs/stores.md.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from storelab.core.config_types import Boolean, Size, Text, at_least
from storelab.core.errors import MeasurementFailed
from storelab.host import processes
from storelab.install import wheels
from storelab.stores.base import CLEAN, CONDITION_TIMEOUT_S, DEGRADED, DOWN, NO, NOT_TRIED, AdminAnswer, Condition
from storelab.stores.managed import network
from storelab.stores.managed.accounts import KEYS, TOOL_S, USERS
from storelab.stores.managed.base import LOOPBACK, Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.settings import DRIVE_SIZE, TLS, DriveSize, ListeningSettings

FIRST_VOLUME, FIRST_S3 = 2, 9  # offsets in the block of ports
ACCOUNTS = 32  # identities in the static file that the front-ends read when they start
REPLICATION = {"none": "000", "replica-2": "010", "replica-3": "020"}  # copies in other racks of the only data centre
GARBAGE = 0.0001  # a vacuum rewrites volumes with at least this fraction of deleted bytes
LAST = "/.storelab-last-deletion"  # path of a file in the filer
# SeaweedFS must vacuum only when `reclaim` requests it, not during a point. The first option is the interval between
# automatic vacuums in seconds. Versions before 4.48 have a garbage threshold instead, which no volume can reach.
NO_VACUUM, NO_VACUUM_BEFORE = "-vacuumIntervalSeconds=100000000", "-garbageThreshold=1"
# Configuration files in the working folder, which have priority over a system-wide /etc/seaweedfs. They also switch
# automatic maintenance off, so that it does not run during a point.
TOML = {
    "security.toml": "# nothing: loopback only\n",
    "master.toml": (
        '[master.maintenance]\nscripts = ""\nsleep_minutes = 100000\n\n[master.volume_growth]\ncopy_1 = '
        "{growth}\ncopy_2 = {growth}\ncopy_3 = {growth}\n"
    ),
    "filer.toml": '[leveldb2]\nenabled = true\ndir = "{data}/filer"\n',
}


class Settings(ListeningSettings):
    """A SeaweedFS that storelab starts and stops on this machine: master, volume servers, filer, 1..n S3 front-ends."""

    tls: Boolean = TLS
    drive_size: DriveSize = DRIVE_SIZE
    kind: Literal["seaweedfs"]
    port: int = Field(
        18300,
        ge=1024,
        le=22000,
        description="First port of a block of 32 ports; the gRPC ports are 10000 higher.",
    )
    servers: int = Field(1, ge=1, le=7, description="Number of volume servers, each in a separate rack.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field(
        "none", description="Copies of every object, in other racks."
    )
    version: Text | None = Field(
        None,
        description="Version of the program; default: the version in storelab's environment. `storelab install "
        "seaweedfs` installs another version.",
    )
    volume_size: Annotated[Size, at_least("1 MiB")] = Field(
        "1 GB", description="Size limit of one volume; a bucket uses at least one volume."
    )
    max_volumes: int = Field(
        6500,
        ge=8,
        description=(
            "Maximum number of volumes of a volume server. A volume uses two open files, and space as it fills."
        ),
    )
    volumes_per_bucket: int = Field(
        3,
        ge=1,
        le=7,
        description="Number of volumes to which a new bucket writes; one if `max_volumes` is below 400.",
    )


class SeaweedFS(Managed):
    """A SeaweedFS cluster with S3 gateways, on this machine."""

    Settings = Settings
    system = "SeaweedFS"
    version_flag, version_pattern = "version", r"\d+GB (\S+)"
    most_front_ends = 23
    most_accounts = ACCOUNTS
    port_block = 32
    second_block = 10000  # gRPC
    recipe = wheels.seaweedfs
    stops = (("s3-",), ("filer",), ("volume-", "master"))

    def require(self) -> None:
        self.program()
        self.require_servers(1 + int(REPLICATION[self.settings.redundancy][1]), "volume servers")

    def program(self) -> Path:
        return self.program_of(self.settings.version or "")

    def program_of(self, version: str) -> Path:
        return wheels.seaweedfs_program(self.place, version)

    def _volumes(self) -> list[str]:
        return [f"volume-{i}" for i in range(1, self.settings.servers + 1)]

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        return ["master"], [*self._volumes(), "filer"], front_ends

    def _port(self, name: str) -> int:
        kind, _, number = name.partition("-")
        offset = {"master": 0, "filer": 1, "volume": FIRST_VOLUME - 1, "s3": FIRST_S3 - 1}[kind]
        return self.settings.port + offset + int(number or 0)

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the daemon with this name (`master`, `filer`, `volume-1`, …, `s3-1`, …)."""
        s, port = self.settings, self._port(name)
        version = self.versions.get(name, s.version or "")
        vacuum = NO_VACUUM_BEFORE if version in wheels.SEAWEEDFS else NO_VACUUM
        master, filer = (f"{LOOPBACK}:{self._port(n)}" for n in ("master", "filer"))
        host = self.address(self._number(name)) if name.startswith("s3-") else LOOPBACK
        kind = name.partition("-")[0]
        options = {
            "master": (
                f"-peers=none -volumeSizeLimitMB={max(1, s.volume_size // 2**20)} -telemetry=false "
                f"{vacuum} -defaultReplication={REPLICATION[s.redundancy]}"
            ),
            "volume": f"-master={master} -max={s.max_volumes} -preStopSeconds=0 -rack={name}",
            "filer": f"-master={master} -localSocket=run/filer.sock",
            "s3": (
                f"-filer={filer} -localSocket=run/{name}.sock -iam=false -autoCreateBucket=false "
                "-allowDeleteBucketNotEmpty=false -port.iceberg=0 -port.lance=0"
            ),
        }[kind].split()
        paths = {
            "master": [f"-mdir={self.data}/master"],
            "volume": [f"-dir={self.data}/{name}"],
            "s3": [f"-config={self.folder}/s3.json"],
        }
        options += paths.get(kind, [])
        if kind == "s3" and s.tls:
            options += [f"-cert.file={self.folder}/tls/server.pem", f"-key.file={self.folder}/tls/server.key"]
        argv = (
            str(self.program_of(version)),
            "-logtostderr=true",
            kind,
            f"-ip={host}",
            f"-ip.bind={host}",
            f"-port={port}",
            *options,
        )
        # The filer does not end on SIGTERM. A kill is safe after this time, because the kernel has its writes.
        grace = 0.5 if kind in ("filer", "s3") else 10.0
        health = "/cluster/healthz" if kind == "master" else "/healthz"
        return Daemon(name, argv, host, (port, port + self.second_block), health, grace, tls=kind == "s3" and s.tls)

    def make_ready(self) -> None:
        for folder in ("master", "filer", *self._volumes()):
            (self.data / folder).mkdir(exist_ok=True, mode=0o700)
        growth = max(1, min(self.settings.volumes_per_bucket, self.settings.max_volumes // 200))
        for name, text in TOML.items():
            (self.folder / name).write_text(text.format(growth=growth, data=self.data) if "{" in text else text)
        path = self.folder / "s3.json"
        if path.exists() and len(self.keyring.known()) >= ACCOUNTS:
            return
        # An action without a bucket is valid for all buckets. Only the first account has such actions. The others are
        # limited to bucket names with their account number (see Store.bucket_name).
        acts = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = [
            {
                "name": f"storelab-{i}",
                "credentials": [{"accessKey": k["access_key"], "secretKey": k["secret_key"]}],
                "actions": acts if i == 0 else [f"{act}:storelab-*-a{i}-*" for act in acts],
            }
            for i, k in enumerate(self.make_keys(ACCOUNTS))
        ]
        temporary = self.folder / f".s3.json.{os.getpid()}"
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            json.dump({"identities": identities}, f)
        temporary.replace(path)

    def healthy(self, daemon: Daemon) -> bool:
        # A deadlocked master still passes its health check. /dir/status needs the lock of the topology, so it detects
        # the deadlock.
        locked = daemon.name == "master" and not network.answers(daemon.host, daemon.ports[0], "/dir/status", 3.0)
        return daemon.healthy(3.0) and not locked

    def started(self, daemon: Daemon) -> None:
        """Restart the master if it would refuse all writes for about 20 s after its start.

        This happens on busy machines because of a race: the master resumes its state and is elected before it listens
        for the election. A restart is quick, and no other daemon depends on the master yet.
        """
        for _ in range(8):
            if daemon.name != "master" or b"warming up" not in self._ask("master", "/dir/assign", 5.0)[1]:
                return
            self.daemons.stop(["master"])
            self.daemons.start(daemon)
            self.daemons.wait_healthy(daemon)

    def make_accounts(self, accounts: int) -> None:
        """Wait until the master knows all racks, because copies are written to other racks."""
        end = time.monotonic() + 20
        while self.settings.servers > 1:
            status = json.loads(self._ask("master", "/dir/status", 5.0)[1])
            racks = [r for dc in status["Topology"].get("DataCenters") or [] for r in dc.get("Racks") or []]
            if len(racks) >= self.settings.servers:
                return
            if time.monotonic() > end:
                raise MeasurementFailed(
                    f"{self.place}: {len(racks)} of {self.settings.servers} volume servers joined the master"
                )
            time.sleep(0.05)

    # Faults

    def data_actors(self) -> list[str]:
        return self._volumes()

    def tolerated_failures(self) -> int:
        return int(REPLICATION[self.settings.redundancy][1])

    def drive_folder(self, actor: str) -> Path | None:
        return self.data / actor if actor in self._volumes() else None

    def condition(self) -> Condition:
        """Return the condition from the master's topology: volume servers, and volumes with too few copies."""
        try:
            topology = json.loads(self._ask("master", "/dir/status", CONDITION_TIMEOUT_S)[1])["Topology"]
        except (MeasurementFailed, ValueError, LookupError):
            return Condition(DOWN, "the master does not answer")
        racks = [r for dc in topology.get("DataCenters") or [] for r in dc.get("Racks") or []]
        nodes = [n for r in racks for n in r.get("DataNodes") or []]
        copies = Counter(volume for n in nodes for volume in volumes_of(n.get("VolumeIds") or ""))
        short = sum(count <= self.tolerated_failures() for count in copies.values())
        servers = self.settings.servers
        detail = f"master: {len(nodes)} of {servers} volume servers, {short} of {len(copies)} volumes lack copies"
        return Condition(DOWN if not nodes else DEGRADED if short or len(nodes) < servers else CLEAN, detail)

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {
            "volume_size_bytes": self.settings.volume_size,
            "max_volumes": self.settings.max_volumes,
        }

    def administration(self) -> list[AdminAnswer]:
        """Return the check of the users that `weed shell` lists.

        storelab gives the front-ends their users in a static file (`weed s3 -config`), so the list does not show them.
        """
        master, filer = (f"{LOOPBACK}:{self._port(name)}" for name in ("master", "filer"))
        done = processes.run_command(
            [self.program(), "shell", f"-master={master}", f"-filer={filer}"],
            TOOL_S,
            feed="s3.user.list\n",
            cwd=self.folder,
        )
        if done.returncode:
            raise MeasurementFailed(f"{self.place}: `weed shell` does not list users: {processes.words(done)}")
        found = json.loads(done.stdout[done.stdout.index("[") : done.stdout.rindex("]") + 1])
        return [
            AdminAnswer(
                USERS,
                NO,
                f"s3.user.list of weed shell: {len(found)} users; users in the static file of the front-ends are not "
                "listed",
            ),
            AdminAnswer(KEYS, NOT_TRIED, "the static file can list several keys of a user; storelab writes one key"),
        ]

    def retains_overwritten(self, size_bytes: int) -> bool:
        """Return True, because volumes are append-only."""
        return True

    def reclaim(self, timeout: float = 180.0) -> None:
        """Vacuum until no volume has more than 0.02 % of deleted bytes, but at most `timeout` seconds.

        Volumes learn of deletions with a delay. With thousands of volumes, one round takes minutes. A timeout is not an
        error, because a later call continues the work.
        """
        end = time.monotonic() + timeout
        try:
            with self.daemons.lock():
                self._pass_on_deletions(end)
                self._vacuum(end)
        except MeasurementFailed:
            if time.monotonic() < end:
                raise

    def _vacuum(self, end: float) -> None:
        """Vacuum until two checks in a row find no volume to rewrite, or until the time `end`.

        The volume of the filer's log always has a few deleted bytes, which the threshold tolerates.
        """
        clean = 0
        while clean < 2 and time.monotonic() < end:
            self._ask("master", f"/vol/vacuum?garbageThreshold={GARBAGE}", max(1.0, end - time.monotonic()))
            listed = [json.loads(self._ask(name, "/status", 10.0)[1]).get("Volumes") or [] for name in self._volumes()]
            dirty = any(v.get("DeletedByteCount", 0) > 2 * GARBAGE * v["Size"] for volumes in listed for v in volumes)
            clean = 0 if dirty else clean + 1
            time.sleep(0.5)

    def _pass_on_deletions(self, end: float) -> None:
        """Wait until the volumes know of all deletions so far, or until the time `end`.

        The filer forwards deletions in order, about once a second. This method writes a small file and deletes it. When
        the volume has deleted this file, all earlier deletions are done. If the store is full and does not accept the
        file, the method returns immediately.
        """

        def file(query: str = "", method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
            return self._ask("filer", LAST + query, max(1.0, end - time.monotonic()), method, body)

        if file(method="PUT", body=b"the last deletion")[0] != 201:
            return
        metadata = json.loads(file("?metadata=true")[1])
        file(method="DELETE")
        files = [chunk["file_id"] for chunk in metadata.get("chunks") or []]
        while time.monotonic() < end:  # a volume server without the file asks the others
            if all(self._ask(name, f"/{known}", 60.0)[0] == 404 for name in self._volumes() for known in files):
                return
            time.sleep(0.1)

    def _ask(
        self, name: str, path: str, timeout: float, method: str = "GET", body: bytes | None = None
    ) -> tuple[int, bytes]:
        try:
            return network.get(LOOPBACK, self._port(name), path, timeout, method=method, body=body)
        except OSError as error:
            problem = f"{self.place}: {name} does not answer {path.partition('?')[0]} ({error})"
            raise MeasurementFailed(problem) from None


def volumes_of(text: str) -> list[int]:
    """Return the numbers in the master's list of a server's volumes, such as `1-3 7`; [] if the list is abbreviated."""
    out: list[int] = []
    for word in text.split():
        first, _, last = word.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return []
        out += range(int(first), int(last or first) + 1)
    return out
