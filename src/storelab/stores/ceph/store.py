"""Ceph on this machine: a monitor, OSDs, 1..24 RADOS gateways that speak S3, a manager where asked for.

`memory`: OSDs keep all in memory (memstore), and a cluster that lost more of them than its redundancy bears is made
anew; `disk` and `tmpfs`: each OSD writes to a sparse file of its own (bluestore). See docs/stores.md.
"""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field

from storelab.core.answers import NO, YES, Told
from storelab.core.config_types import Boolean, Size, at_least
from storelab.core.errors import UserError
from storelab.host.folders import existing
from storelab.install import debian, program
from storelab.stores.ceph import conf
from storelab.stores.ceph.admin import TCMALLOC
from storelab.stores.ceph.watching import CephWatched
from storelab.stores.managed.administration import KEYS, listed
from storelab.stores.managed.base import LOOPBACK
from storelab.stores.managed.daemon import Daemon, within
from storelab.stores.managed.settings import SecureSettings
from storelab.stores.protocols.endpoint import Endpoint

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "ceph-mgr", "radosgw", "radosgw-admin", "monmaptool")
LEAST_OSD = 10**9  # bytes; bluestore takes 0.3 GB for itself


class Settings(SecureSettings):
    """A Ceph that storelab starts and stops on this machine: monitor, OSDs, 1..n RADOS gateways (S3)."""

    kind: Literal["ceph"]
    port: int = Field(
        20000,
        ge=1024,
        le=32000,
        description="First of its ports: gateways from here, the monitor at +30, OSDs from +40, a block of 100.",
    )
    backing: Literal["memory", "disk", "tmpfs"] = Field(
        "memory", description="`memory`: memstore; `disk` and `tmpfs`: bluestore on a file there."
    )
    servers: int = Field(3, ge=1, le=12, description="OSDs.")
    redundancy: Literal["none", "replica-2", "replica-3", "ec-2-1", "ec-9-3"] = Field(
        "replica-3", description="Of the pool of object data; index pools are replicated. `ec-9-3` needs 12 OSDs."
    )
    mgr: Boolean = Field(False, description="Run a manager: needed to watch recovery; 300 MB of memory.")
    osd_size: Annotated[Size, at_least("1 MiB")] = Field(
        "4 GB", description="Room of one OSD: memory of memstore, size of bluestore's (sparse) file."
    )


class Ceph(CephWatched):
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

    def require(self) -> None:
        s = self.settings
        for name in PROGRAMS:
            program(name, "ceph", self.place)
        self.require_servers(conf.OSDS[s.redundancy], "OSDs")
        if s.osd_size < LEAST_OSD:
            raise UserError(f"{self.place}.osd_size", f"{s.osd_size} B is too small for an OSD", "give 1 GB or more")

    # Daemons

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        return ["mon"], [*(["mgr"] if self.settings.mgr else []), *self.osds], front_ends

    def daemon(self, name: str) -> Daemon:
        """How the daemon `mon`, `mgr`, `osd-0` … or `s3-1` … runs."""
        kind, _, number = name.partition("-")
        i, s, first = int(number or 0), self.settings, self.settings.port
        host, health, grace = LOOPBACK, self._health(name), 10.0
        if kind == "s3":
            host, ports, grace = self.address(i), [first + i - 1], 5.0
            tls = "ssl_certificate=tls/server.pem ssl_private_key=tls/server.key"  # in its working folder
            listen = f"ssl_endpoint={host}:{ports[0]} {tls}" if s.tls else f"endpoint={host}:{ports[0]}"
            options = ["-n", f"client.rgw.{i}", "-f", f"--admin-socket=run/client.rgw.{i}.sock"]
            options.append(f"--rgw-frontends=beast {listen} tcp_nodelay=1")  # without it a GET of 4 kB takes 40 ms
        elif kind == "mon":
            ports, options = [first + conf.MON], ["-i", "a", "-f"]
        else:
            start, last = first + conf.MGR, first + conf.MGR + conf.MGR_PORTS - 1
            if kind == "osd":
                start, last = conf.osd_ports(first, s.servers, i)
            ports = list(range(start, start + (1 if kind == "mgr" else 4)))
            options = ["-i", "x" if kind == "mgr" else number, "-f"]
            options += [f"--ms-bind-port-min={start}", f"--ms-bind-port-max={last}"]
        path = program("radosgw" if kind == "s3" else f"ceph-{kind}", "ceph", self.place)
        argv = (str(path), "-c", self.admin.conf, *options)
        return Daemon(name, argv, host, tuple(ports), health, grace, TCMALLOC, tls=kind == "s3" and s.tls)

    def _health(self, name: str) -> str | Callable[[], bool]:
        if name.startswith("s3-"):
            return "/"
        if name == "mon":
            return lambda: self.admin.state("mon.a", "mon_status") == "leader"
        if name == "mgr":
            return self._mgr_works
        return lambda: self.admin.state(name.replace("-", "."), "status") == "active"  # up in everybody's map

    def _mgr_works(self) -> bool:
        with suppress(OSError, ValueError, LookupError, TypeError):
            return bool(self.admin.ask("mgr.x", "mgr_status")["initialized"])
        return False

    def healthy(self, daemon: Daemon) -> bool:
        """An OSD that was suspended may be about to join again; stopping it would cost more, in memory its data."""
        return within(15 if daemon.name in self.osds else 0, lambda: daemon.healthy(3.0))

    def _taken_over(self, daemon: Daemon, stale: bool) -> bool:
        """Ceph's daemons find one another again by themselves, so what is healthy stays.

        But gateways whose data were all out of reach hold up the making of buckets for 40 s: started anew, they are
        there at once.
        """
        blocked = len(self.back) > conf.TOLERANCE[self.settings.redundancy]
        return super()._taken_over(daemon, stale=blocked and daemon.name.startswith(self.front))

    def started(self, daemon: Daemon) -> None:
        if daemon.name == "mon" and not self.cluster()["made"]:
            self.admin.tell(conf.first_commands(self.cluster()["osds"], self.settings.redundancy, self.settings.mgr))
            self.note(made=True)
        if daemon.name in self.osds:
            self.back.append(daemon.name)
            for name in self.front_ends():  # they must find it before they are relied on
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
        """Make and drop a bucket as well.

        Where a gateway was killed, that works only after its OSDs have given it up, 10 s later.
        """
        from storelab.stores.protocols import access
        from storelab.stores.protocols.open_access import open_access

        super().warm_up_one(endpoint)
        way, bucket = (
            open_access(endpoint, self.credentials(), self.place),
            f"storelab-warmup-{endpoint.url.rpartition(':')[2].strip('/')}",
        )
        with suppress(access.BucketExists):
            way.make_bucket(bucket)
        way.drop_bucket(bucket)

    # What it tells

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {
            "objectstore": conf.objectstore(self.settings),
            "osd_size_bytes": self.settings.osd_size,
            "tcp_nodelay": True,
            "placement_groups": dict(conf.POOLS),
        }

    def _counters(self) -> list[dict[str, Any]] | None:
        """Performance counters of each OSD; None where not all of them tell."""
        try:
            return [self.admin.ask(n.replace("-", "."), "perf dump") for n in self.osds]
        except (OSError, ValueError):
            return None

    def used_bytes(self) -> int | None:
        """Raw bytes of all OSDs that hold objects; what bluestore takes for its own database is left out."""
        told = self._counters()
        group, counter = ("osd", "stat_bytes_used") if self.memory else ("bluestore", "bluestore_allocated")
        return None if told is None else sum(d[group][counter] for d in told)

    def free_bytes(self) -> int | None:
        """Room for objects, copies taken into account: as the fullest OSD has it, and memory or disk."""
        import psutil  # here: who plans only reads the settings, and psutil is slow to import

        s, told = self.settings, self._counters()
        full = int(s.osd_size * (1 - conf.FULL))
        if told:
            least = min(d["osd"]["stat_bytes_avail"] for d in told) - full
        else:
            blocks = [self.data / n / "block" for n in self.osds]
            least = s.osd_size - full - max((p.stat().st_blocks * 512 for p in blocks if p.exists()), default=0)
        machine = psutil.virtual_memory().available if self.memory else shutil.disk_usage(existing(self.data)).free
        return max(0, int(min(least * s.servers, machine) / conf.SHARE[s.redundancy]))

    def capacity_bytes(self) -> int | None:
        """Up to FULL of its OSDs, copies taken into account."""
        s = self.settings
        return int(int(s.osd_size * conf.FULL) * s.servers / conf.SHARE[s.redundancy])

    def keeps_overwritten(self, size_bytes: int) -> bool:
        """What lies behind the first 4 MiB of an object waits in a list."""
        return size_bytes > conf.HEAD

    def administration(self) -> list[Told]:
        tool, own = self.admin.tool, [f"storelab-{i}" for i in range(self.accounts())]
        users = listed("radosgw-admin user list", json.loads(tool("radosgw-admin", "user", "list")), own)

        def keys() -> set[str]:
            return {k["access_key"] for k in json.loads(tool("radosgw-admin", "user", "info", "--uid", own[0]))["keys"]}

        before = keys()
        tool("radosgw-admin", "key", "create", "--uid", own[0], "--key-type=s3", "--gen-access-key", "--gen-secret")
        made = keys() - before
        for key in made:
            tool("radosgw-admin", "key", "rm", "--uid", own[0], "--key-type=s3", "--access-key", key)
        good = len(made) == 1 and keys() == before
        return [
            users,
            Told(
                KEYS,
                YES if good else NO,
                f"radosgw-admin key create: {len(before)} before, {len(before) + len(made)} after",
            ),
        ]

    def reclaim(self, timeout: float = 120.0) -> None:
        """Remove deleted objects over 4 MiB, which wait in a list, in `timeout` seconds at most.

        Then wait until the OSDs, who count once a second, tell no change.
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
