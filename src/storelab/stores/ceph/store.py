"""Ceph on this machine: a monitor, OSDs, up to 24 RADOS gateways that serve S3, and a manager on request.

With the backing `memory`, OSDs have all data in memory (memstore). Such a cluster is created again if it lost more OSDs
than its redundancy tolerates. With `disk` and `tmpfs`, each OSD writes to its own sparse file (bluestore), and the
cluster is never created again. `cluster.json`, next to the data, describes the cluster: fsid, port, properties that
cannot change, users, and `made` when its pools exist. See docs/stores.md.
"""

import errno
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from storelab.core.config_types import Boolean, Size, Text, at_least
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_as, write_json
from storelab.host.scratch import existing
from storelab.install import chroot, debian
from storelab.stores.base import CLEAN, CONDITION_TIMEOUT_S, DEGRADED, DOWN, NO, RECOVERING, YES, AdminAnswer, Condition
from storelab.stores.ceph import conf
from storelab.stores.ceph.admin import TCMALLOC, Admin
from storelab.stores.managed.accounts import KEYS, listed
from storelab.stores.managed.base import LOOPBACK, Managed
from storelab.stores.managed.daemon import Daemon, within
from storelab.stores.managed.settings import TLS, ListeningSettings
from storelab.stores.protocols.endpoint import Endpoint

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "ceph-mgr", "radosgw", "radosgw-admin", "monmaptool")
MIN_OSD = 10**9  # bytes; bluestore itself uses 0.3 GB
CLEAN_S, ACTIVE_S = 180.0, 60.0  # maximum waits for full redundancy, and for all data to be reachable


class Settings(ListeningSettings):
    """A Ceph that storelab starts and stops on this machine: monitor, OSDs, 1..n RADOS gateways (S3)."""

    tls: Boolean = TLS
    kind: Literal["ceph"]
    port: int = Field(
        20000,
        ge=1024,
        le=32000,
        description="First port of a block of 100 ports: gateways, then the monitor at +30, then OSDs from +40.",
    )
    backing: Literal["memory", "disk", "tmpfs"] = Field(
        "memory", description="`memory`: memstore; `disk` and `tmpfs`: bluestore in a file on that file system."
    )
    servers: int = Field(3, ge=1, le=12, description="Number of OSDs.")
    redundancy: Literal["none", "replica-2", "replica-3", "ec-2-1", "ec-9-3"] = Field(
        "replica-3",
        description="Redundancy of the pool of object data; index pools are replicated. `ec-9-3` needs 12 OSDs.",
    )
    mgr: Boolean = Field(
        False, description="Run a manager, which is needed to observe recovery; it uses 300 MB of memory."
    )
    version: Text | None = Field(
        None,
        description="Version of Ceph; default: the version of this host's packages. `18.2` is Ceph 18.2 of Debian 13, "
        "which `storelab install ceph-18.2` installs in a separate folder.",
    )
    osd_size: Annotated[Size, at_least("1 MiB")] = Field(
        "4 GB", description="Capacity of one OSD: memory of memstore, or size of bluestore's sparse file."
    )


class Ceph(Managed):
    """A Ceph cluster with RADOS gateways, on this machine."""

    Settings = Settings
    system = "Ceph"
    binary = "radosgw"
    version_pattern = r"ceph version (\S+)"
    most_front_ends = 24
    most_accounts = 32
    port_block = 100
    start_timeout = 60.0
    stops = (("s3-",), ("mgr", "osd-"), ("mon",))

    recipe = debian.Packages(
        ("ceph-mon", "ceph-mgr", "ceph-osd", "radosgw", "ceph-common"),
        "up to 96 packages, 73 MB to download, 290 MB on disk",
    ).parts
    releases = {"18.2": chroot.CEPH_18}  # noqa: RUF012
    _whole_at = -1  # epoch of the OSD map at which all placement groups were active and clean

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.admin = Admin(self.folder, self.place, self._command)
        self.osds = [f"osd-{i}" for i in range(settings.servers)]
        self.memory = settings.backing == "memory"
        self.back: list[str] = []  # OSDs that this call of `up` started

    def require(self) -> None:
        s = self.settings
        for name in PROGRAMS:
            self.find_program(name)
        self.require_release()
        self.require_servers(conf.OSDS[s.redundancy], "OSDs")
        if s.osd_size < MIN_OSD:
            raise UserError(f"{self.place}.osd_size", f"{s.osd_size} B is too small for an OSD", "set 1 GB or more")

    def _command(self, name: str) -> list[str]:
        """Return the command line of one of Ceph's programs."""
        return [*self.enter_release(), str(self.find_program(name))]

    # The cluster

    def cluster(self) -> dict[str, Any]:
        path = self.data / "cluster.json"
        hint = f"restore it, or remove {self.data}, which deletes its data"
        return read_as(path, dict[str, Any], hint) if path.exists() else {}

    def note(self, **facts: Any) -> None:
        write_json(self.data / "cluster.json", self.cluster() | facts)

    def _shape(self) -> dict[str, Any]:
        """Return the properties that a cluster cannot change."""
        s = self.settings
        return {
            "backing": "memory" if self.memory else "disk",
            "servers": s.servers,
            "redundancy": s.redundancy,
            "osd_size": s.osd_size,
            "version": s.version,
        }

    def make_ready(self) -> None:
        self.back = []
        cluster = self.cluster()
        if cluster.get("made") and not self._lost(cluster):
            self._check_shape(shape_of(cluster))
            if cluster["port"] != self.settings.port:
                self._move()
            self._write_conf(cluster["fsid"])
        else:
            self._make()

    def _lost(self, cluster: dict[str, Any]) -> bool:
        """Return whether the cluster must be created again: it was in memory, and is lost or has other properties."""
        if cluster["shape"]["backing"] != "memory":
            return False
        if shape_of(cluster) != self._shape() or cluster["port"] != self.settings.port:
            return True
        running = self.daemons.running()
        gone = [n for n in self.osds if n not in running and not self.daemons.adopt(self.daemon(n))]
        return len(gone) > conf.TOLERANCE[self.settings.redundancy]

    def _check_shape(self, was: dict[str, Any]) -> None:
        for key, value in self._shape().items():
            if value != was[key]:
                of_host = "the version of this host"  # a version that is not set
                keep = f"set it to {was[key]}" if was[key] else "leave it out"
                raise UserError(
                    f"{self.place}.{key}",
                    f"{value or of_host} is set, but {self.data} contains a cluster with {was[key] or of_host}",
                    f"{keep}, or use another `directory`, or remove that folder",
                )

    def _write_conf(self, fsid: str) -> None:
        (self.folder / "ceph.conf").write_text(
            conf.conf(self.settings, fsid, self._way(), self.find_program("ceph-osd"))
        )

    def _way(self) -> str:
        """Return the path from the store's folder to its data. Raises UserError if Ceph does not support the path."""
        way = os.path.relpath(self.data, self.folder)
        if re.search(r"[\s,;#=$\"\\]", way):
            raise UserError(
                f"{self.place}.directory",
                f"Ceph does not support the path {way}",
                "use a folder without spaces and without the characters , ; # = $",
            )
        return way

    def _wipe(self) -> None:
        """Remove all files of the cluster, but not the folder and storelab's marker in it."""
        for path in (self.data / "cluster.json", self.data / "keyring", self.data / "monmap"):
            path.unlink(missing_ok=True)
        for path in (p for pattern in ("mon", "mgr", "osd-*") for p in self.data.glob(pattern)):
            shutil.rmtree(path)

    def _make(self) -> None:
        """Stop running daemons, and create a cluster: its keys, and the stores of its monitor and OSDs."""
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
        mon, osd = (self._command(f"ceph-{kind}") for kind in ("mon", "osd"))
        make = {"mon": [*mon, "-c", self.admin.conf, "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring]}
        options = ["--monmap", monmap, "--no-mon-config"]
        make |= {
            name: [*osd, "-c", self.admin.conf, "--mkfs", "-i", str(i), "--osd-uuid", osds[i], *options]
            for i, name in enumerate(self.osds)
        }
        self.admin.run_parallel(make, self.daemons.logs)

    def _monitor(self) -> str:
        return f"v2:{LOOPBACK}:{self.settings.port + conf.MON}"

    def _check_direct(self) -> None:
        """Raise UserError without O_DIRECT, which bluestore needs. tmpfs supports it since Linux 6.6."""
        probe = self.data / ".direct"
        try:
            os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise UserError(
                f"{self.place}.backing",
                f"the file system of {self.data} does not support direct I/O, which bluestore needs",
                "use `memory` or `disk`",
            ) from None
        finally:
            probe.unlink(missing_ok=True)

    def _move(self) -> None:
        """Move the cluster to the configured ports. The monitor's map lists its port, so the map is changed."""
        self.daemons.stop()
        self.daemons.sweep()
        monmap, store = f"{self._way()}/monmap", ("-i", "a")
        self.admin.tool("ceph-mon", *store, "--extract-monmap", monmap)
        self.admin.tool("monmaptool", "--rm", "a", monmap)
        self.admin.tool("monmaptool", "--addv", "a", self._monitor(), monmap)
        self.admin.tool("ceph-mon", *store, "--inject-monmap", monmap)
        self.note(port=self.settings.port)

    # Daemons

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        return ["mon"], [*(["mgr"] if self.settings.mgr else []), *self.osds], front_ends

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the daemon with this name (`mon`, `mgr`, `osd-0`, …, `s3-1`, …)."""
        kind, _, number = name.partition("-")
        i, s, first = int(number or 0), self.settings, self.settings.port
        host, health, grace = LOOPBACK, self._health(name), 10.0
        if kind == "s3":
            host, ports, grace = self.address(i), [first + i - 1], 5.0
            tls = "ssl_certificate=tls/server.pem ssl_private_key=tls/server.key"  # in its working folder
            listen = f"ssl_endpoint={host}:{ports[0]} {tls}" if s.tls else f"endpoint={host}:{ports[0]}"
            options = ["-n", f"client.rgw.{i}", "-f", f"--admin-socket=run/client.rgw.{i}.sock"]
            options.append(f"--rgw-frontends=beast {listen} tcp_nodelay=1")  # without nodelay, a 4 kB GET takes 40 ms
        elif kind == "mon":
            ports, options = [first + conf.MON], ["-i", "a", "-f"]
        else:
            start, last = first + conf.MGR, first + conf.MGR + conf.MGR_PORTS - 1
            if kind == "osd":
                start, last = conf.osd_ports(first, s.servers, i)
            ports = list(range(start, start + (1 if kind == "mgr" else 4)))
            options = ["-i", "x" if kind == "mgr" else number, "-f"]
            options += [f"--ms-bind-port-min={start}", f"--ms-bind-port-max={last}"]
        path = self.find_program("radosgw" if kind == "s3" else f"ceph-{kind}")
        argv, tls = (str(path), "-c", self.admin.conf, *options), kind == "s3" and s.tls
        return Daemon(name, argv, host, tuple(ports), health, grace, TCMALLOC, self.enter_release(), tls=tls)

    def _health(self, name: str) -> str | Callable[[], bool]:
        if name.startswith("s3-"):
            return "/"
        if name == "mon":
            return lambda: self.admin.state("mon.a", "mon_status") == "leader"
        if name == "mgr":
            return self._mgr_works
        # healthy if it is up in the map of all daemons
        return lambda: self.admin.state(name.replace("-", "."), "status") == "active"

    def _mgr_works(self) -> bool:
        with suppress(OSError, ValueError, LookupError, TypeError):
            return bool(self.admin.ask("mgr.x", "mgr_status")["initialized"])
        return False

    def healthy(self, daemon: Daemon) -> bool:
        """Return whether a daemon is healthy. A paused OSD gets time to join again.

        Stopping the OSD would take longer, and memstore would lose its data.
        """
        return within(15 if daemon.name in self.osds else 0, lambda: daemon.healthy(3.0))

    def _keep_running(self, daemon: Daemon, stale: bool) -> bool:
        """Return whether a daemon can keep running. Healthy daemons can, because they find each other again.

        Gateways that could not reach any data are restarted, because they would delay the creation of buckets for 40 s.
        """
        blocked = len(self.back) > conf.TOLERANCE[self.settings.redundancy]
        return super()._keep_running(daemon, stale=blocked and daemon.name.startswith(self.front))

    def started(self, daemon: Daemon) -> None:
        if daemon.name == "mon" and not self.cluster()["made"]:
            self.admin.send_commands(
                conf.first_commands(self.cluster()["osds"], self.settings.redundancy, self.settings.mgr, self.version())
            )
            self.note(made=True)
        if daemon.name in self.osds:
            self.back.append(daemon.name)
            for name in self.front_ends():  # they must connect to it before they are used
                self.daemons.note(name, warm=False)

    def make_accounts(self, accounts: int) -> None:
        self.wait_clean()
        users, stamps = self.cluster()["users"], []
        for i, keys in enumerate(self.make_keys(max(accounts, len(users)))):
            stamps.append(sha256("".join(keys.values()).encode()).hexdigest()[:16])
            if stamps[i:] != users[i : i + 1]:
                self.admin.put_user(f"storelab-{i}", keys)
                self.note(users=stamps)

    def warm_up_one(self, endpoint: Endpoint) -> None:
        """Do the usual warm-up, and also create and remove a bucket.

        After a gateway was killed, this fails for 10 s, until the OSDs have dropped the watches of that gateway.
        """
        from storelab.stores.protocols import access, open_access

        super().warm_up_one(endpoint)
        way, bucket = (
            open_access(endpoint, self.credentials(), self.place),
            f"storelab-warmup-{endpoint.url.rpartition(':')[2].strip('/')}",
        )
        with suppress(access.BucketExists):
            way.make_bucket(bucket)
        way.drop_bucket(bucket)

    def groups(self, timeout: float = 2.0) -> dict[str, str]:
        """Return the state of each placement group of all pools."""
        pools = {
            name: (i, count) for i, (name, count) in enumerate(conf.POOLS.items(), 1)
        }  # in the order of their creation
        return self.admin.groups([n.replace("-", ".") for n in self.osds], pools, timeout)

    def wait_clean(self) -> None:
        """Wait until all data have all copies, but at most CLEAN_S seconds.

        Raises MeasurementFailed if some data cannot be reached.
        """
        begun = time.monotonic()
        while True:
            states = self.groups()
            asleep = {g: state for g, state in states.items() if not state.startswith("active")}
            waited = time.monotonic() - begun
            if all(state == "active+clean" for state in states.values()) or (waited > CLEAN_S and not asleep):
                return
            if asleep and waited > ACTIVE_S:
                group, state = next(iter(asleep.items()))
                raise MeasurementFailed(
                    f"{self.place}: {len(asleep)} of {len(states)} placement groups are not active after "
                    f"{ACTIVE_S:g} s, "
                    f"the first is {group} ({state or 'unknown'})"
                )
            time.sleep(0.1 if waited < 1 else 0.5)  # each query causes load on the OSDs

    def dismantle(self) -> None:
        if self.memory and self.data.exists():
            self._wipe()

    # Faults

    def data_actors(self) -> list[str]:
        return list(self.osds)

    def tolerated_failures(self) -> int:
        return conf.TOLERANCE[self.settings.redundancy]

    def timeouts(self) -> dict[str, Any]:
        return dict(conf.TIMEOUTS)

    def require_full(self, actor: str, place: str) -> None:
        if actor not in self.osds:
            raise UserError(place, f"{actor} has no separate disk that could be filled", "name an OSD")

    def fill(self, actor: str) -> str:
        """Make an OSD consider itself full, with Ceph's own command for such tests."""
        self._inject(actor, type="full", count=-1)
        return "injectfull full"

    def empty(self, actor: str) -> None:
        with suppress(OSError):  # the OSD has ended, which cleared the state
            self._inject(actor, type="none")

    def _inject(self, actor: str, **arguments: Any) -> None:
        with suppress(ValueError):  # its answer is empty
            self.admin.ask(actor.replace("-", "."), "injectfull", **arguments)

    def condition(self) -> Condition:
        """Return the condition from the monitor's count of OSDs and the states of the placement groups.

        Queries of the states cause load on the OSDs. Therefore they are sent only after the OSD map changed, until all
        groups are clean.
        """
        try:
            counters = self.admin.ask("mon.a", "perf dump", CONDITION_TIMEOUT_S)["cluster"]
            up, epoch = counters["num_osd_up"], counters["osd_epoch"]
        except (OSError, ValueError, LookupError, TypeError):
            return Condition(DOWN, "the monitor does not answer")
        osds = f"monitor: {up} of {len(self.osds)} OSDs up"
        if epoch == self._whole_at and up == len(self.osds):
            return Condition(CLEAN, f"{osds}, all groups active+clean")
        states = self.groups(CONDITION_TIMEOUT_S)
        seen = list(states.values())
        counts = ", ".join(f"{seen.count(s)} {s or 'unknown'}" for s in sorted(set(seen)))
        detail = f"{osds}; groups: {counts}"[:200]
        if all(s == "active+clean" for s in seen):
            self._whole_at = epoch if up == len(self.osds) else -1
            return Condition(CLEAN, detail)
        if not any(s.startswith("active") for s in seen):
            return Condition(DOWN, detail)
        return Condition(DEGRADED if up < len(self.osds) else RECOVERING, detail)

    # Reports

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {
            "objectstore": conf.objectstore(self.settings),
            "osd_size_bytes": self.settings.osd_size,
            "tcp_nodelay": True,
            "placement_groups": dict(conf.POOLS),
        }

    def _counters(self) -> list[dict[str, Any]] | None:
        """Return the performance counters of each OSD; None if an OSD does not answer."""
        try:
            return [self.admin.ask(n.replace("-", "."), "perf dump") for n in self.osds]
        except (OSError, ValueError):
            return None

    def used_bytes(self) -> int | None:
        """Return the raw bytes of objects on all OSDs, without bluestore's database."""
        counters = self._counters()
        group, counter = ("osd", "stat_bytes_used") if self.memory else ("bluestore", "bluestore_allocated")
        return None if counters is None else sum(d[group][counter] for d in counters)

    def free_bytes(self) -> int | None:
        """Return the free space for objects in bytes. Copies are taken into account.

        The fullest OSD and the free memory or disk of the machine limit it.
        """
        import psutil  # imported here, because it is slow to import and planning does not need it

        s, counters = self.settings, self._counters()
        full = int(s.osd_size * (1 - conf.FULL))
        if counters:
            least = min(d["osd"]["stat_bytes_avail"] for d in counters) - full
        else:
            blocks = [self.data / n / "block" for n in self.osds]
            least = s.osd_size - full - max((p.stat().st_blocks * 512 for p in blocks if p.exists()), default=0)
        machine = psutil.virtual_memory().available if self.memory else shutil.disk_usage(existing(self.data)).free
        return max(0, int(min(least * s.servers, machine) / conf.SHARE[s.redundancy]))

    def capacity_bytes(self) -> int | None:
        """Return the space for objects in bytes until OSDs are filled to FULL. Copies are taken into account."""
        s = self.settings
        return int(int(s.osd_size * conf.FULL) * s.servers / conf.SHARE[s.redundancy])

    def retains_overwritten(self, size_bytes: int) -> bool:
        """Return True for objects over 4 MiB, because only garbage collection deletes their data after the head."""
        return size_bytes > conf.HEAD

    def administration(self) -> list[AdminAnswer]:
        tool, user_names = self.admin.tool, [f"storelab-{i}" for i in range(self.accounts())]
        users = listed("radosgw-admin user list", json.loads(tool("radosgw-admin", "user", "list")), user_names)

        def keys() -> set[str]:
            return {
                k["access_key"]
                for k in json.loads(tool("radosgw-admin", "user", "info", "--uid", user_names[0]))["keys"]
            }

        before = keys()
        tool(
            "radosgw-admin",
            "key",
            "create",
            "--uid",
            user_names[0],
            "--key-type=s3",
            "--gen-access-key",
            "--gen-secret",
        )
        made = keys() - before
        for key in made:
            tool("radosgw-admin", "key", "rm", "--uid", user_names[0], "--key-type=s3", "--access-key", key)
        good = len(made) == 1 and keys() == before
        return [
            users,
            AdminAnswer(
                KEYS,
                YES if good else NO,
                f"radosgw-admin key create: {len(before)} before, {len(before) + len(made)} after",
            ),
        ]

    def reclaim(self, timeout: float = 120.0) -> None:
        """Run the garbage collection of deleted objects over 4 MiB, but at most `timeout` seconds.

        Then wait until the usage that the OSDs report once a second does not change any more.
        """
        with self.daemons.lock():
            self.admin.tool("radosgw-admin", "gc", "process", "--include-all", timeout=timeout)
        end, last = time.monotonic() + 10, self.used_bytes()
        while time.monotonic() < end:
            time.sleep(1.5)
            now = self.used_bytes()
            if now is None or last is None or abs(now - last) < 2**20:
                return
            last = now


def shape_of(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a cluster that cannot change. Clusters without a version are from this host's Ceph."""
    return {"version": None} | cluster["shape"]
