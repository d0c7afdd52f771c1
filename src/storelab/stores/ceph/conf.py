"""Configuration, keys and pools of a Ceph cluster, as text and tables.

Options that differ from Ceph's defaults make the start quick, put all files into the store's folder, use only loopback,
and prevent maintenance during a point. See docs/stores.md.
"""

import base64
import secrets
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MON, OSD, MGR = 30, 40, 96  # offsets in the block of ports: monitor, OSDs (8 each), manager (4)
OSD_PORTS, MGR_PORTS = 8, 4  # an OSD uses 4 ports, and 4 other ports when it returns after it was considered dead
# Up to this number of OSDs, each has OSD_PORTS ports. If there are more, each has 4, and others below MGR on return.
WIDE_OSDS = 7
SHARDS = {"ec-2-1": (2, 1), "ec-9-3": (9, 3)}  # data and parity of erasure coding
# Copies of index pools, which are as durable as the data; and the number of copies without which I/O stops.
COPIES = {"none": 1, "replica-2": 2, "replica-3": 3, "ec-2-1": 3, "ec-9-3": 4}
MIN_COPIES = {"none": 1, "replica-2": 1, "replica-3": 2, "ec-2-1": 2, "ec-9-3": 2}
OSDS = COPIES | {name: sum(shards) for name, shards in SHARDS.items()}  # minimum number of OSDs
TOLERANCE = {
    "none": 0,
    "replica-2": 1,
    "replica-3": 2,
    "ec-2-1": 1,
    "ec-9-3": 3,
}  # OSDs that can be lost at the same time without loss of data
SHARE = {"none": 1.0, "replica-2": 2.0, "replica-3": 3.0}  # raw bytes for each stored byte
SHARE |= {name: sum(shards) / shards[0] for name, shards in SHARDS.items()}
FULL = 0.9  # fraction of an OSD's capacity; Ceph stops all writes at 0.95
HEAD = 4 << 20  # bytes at the start of an object that are overwritten in place; the rest needs garbage collection
DATA = "default.rgw.buckets.data"
POOLS = {  # pool -> placement groups; all are created in advance, because a gateway needs seconds for each
    ".rgw.root": 1,
    "default.rgw.log": 1,
    "default.rgw.control": 1,
    "default.rgw.meta": 1,
    "default.rgw.buckets.index": 8,
    DATA: 32,
    "default.rgw.buckets.non-ec": 1,  # unfinished multipart uploads
}
# Values of the text below in seconds. They control when Ceph notices a lost OSD, and when it drops a lost gateway.
TIMEOUTS = {"osd heartbeat interval": 1, "osd heartbeat grace": 4, "osd client watch timeout": 10}
ALL = "allow *"
CLASSES = ("lib*/rados-classes", "lib/*/rados-classes")  # folders of the OSD's plugins, below /usr
MONTH = 30 * 86400  # seconds; tickets and OSDs must not time out while a cluster is suspended

CONF = """[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{monitor}/0
mon initial members = a
ms bind msgr1 = false
keyring = {data}/keyring
run dir = run
crash dir = crash
log file =
log to stderr = true
err to stderr = true
# Without this option, a daemon that ends immediately may not log the reason.
log flush on exit = true
debug rocksdb = 0/5
debug rgw = 0/1
auth service ticket ttl = {month}
auth mon ticket ttl = {month}
osd pool default size = {copies}
osd pool default min size = {least}
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
# The monitor reads these options as well. It notices a hanging OSD after 4 s, and a killed OSD immediately.
osd heartbeat interval = 1
osd heartbeat grace = 4
mon osd adjust heartbeat grace = false

[mon]
admin socket = run/$name.sock
mon data = {data}/mon
mon cluster log file = log/cluster.log
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 1000
mon osd crush smoke test = false
auth allow insecure global id reclaim = false
mon data avail warn = 1
mon data avail crit = 0
mon osd min down reporters = 1
mon osd report timeout = {month}
# Every change of the maps waits for this interval. With the default of 1 s, a start takes 10 s longer.
paxos propose interval = 0.05

[mgr]
public addr = 127.0.0.1
admin socket = run/$name.sock
mgr data = {data}/mgr
mgr initial modules =

[osd]
cluster addr = 127.0.0.1
public addr = 127.0.0.1
admin socket = run/$name.sock
osd data = {data}/osd-$id
{classes}
osd objectstore = {objectstore}
memstore device bytes = {osd_size}
bluestore block size = {osd_size}
bluestore block db create = false
bluestore block wal create = false
bluestore fsck on mount = false
osd memory target = 939524096
osd max object name len = 1024
osd crush initial weight = 1
osd op thread suicide timeout = 0
# Recover as quickly as possible, and do not scrub during a point.
osd recovery sleep hdd = 0
osd recovery max active = 8
osd max backfills = 4
osd scrub min interval = 31536000
osd scrub max interval = 63072000
osd deep scrub interval = 63072000
# Killed gateways delay the creation of buckets for this time.
osd client watch timeout = 10

[client]
rgw data = run
rgw thread pool size = 64
rgw enable usage log = false
rgw run sync thread = false
rgw enable gc threads = false
rgw enable lc threads = false
rgw enable quota threads = false
rgw dynamic resharding = false
"""


def osd_ports(first: int, servers: int, number: int) -> tuple[int, int]:
    """Return the first and last port that an OSD can use, in the block that starts at `first`. It uses four of them."""
    if servers <= WIDE_OSDS:
        start = first + OSD + number * OSD_PORTS
        return start, start + OSD_PORTS - 1
    return first + OSD + number * OSD_PORTS // 2, first + MGR - 1


def class_folder(osd: Path) -> Path | None:
    """Return the folder of the OSD's plugins, which belongs to the program `osd`; None if it is at an unknown place.

    Ceph 18 of Debian looks for it relative to its working folder, which is not the root directory here.
    """
    usr = osd.parent.parent
    return next((p for pattern in CLASSES for p in sorted(usr.glob(pattern))), None)


def conf(settings: Any, fsid: str, data: str, osd: Path) -> str:
    """Return the text of `ceph.conf`.

    `data` is the path of the data relative to the store's folder, which is the working folder of Ceph's programs. `osd`
    is the path of the OSD's program.
    """
    folder = class_folder(osd)
    return CONF.format(
        fsid=fsid,
        monitor=settings.port + MON,
        data=data,
        copies=COPIES[settings.redundancy],
        least=MIN_COPIES[settings.redundancy],
        objectstore=objectstore(settings),
        osd_size=settings.osd_size,
        month=MONTH,
        classes=f"osd class dir = {folder}" if folder else "",
    )


def objectstore(settings: Any) -> str:
    """Return Ceph's name of the object store for this backing."""
    return "memstore" if settings.backing == "memory" else "bluestore"


def _key() -> str:
    """Return a new cephx key. It contains the type 1 (AES), the creation time in s and ns, the length, and 16 bytes."""
    return base64.b64encode(struct.pack("<hiih", 1, int(time.time()), 0, 16) + secrets.token_bytes(16)).decode()


def keyring(osds: int, gateways: int) -> str:
    """Return the text of a keyring with new keys of all daemons and of the administrator."""
    who: dict[str, Mapping[str, str]] = {
        "mon.": {"mon": ALL},
        "client.admin": {"mon": ALL, "osd": ALL, "mgr": ALL},
        "mgr.x": {"mon": "allow profile mgr", "osd": ALL},
    }
    who |= {f"osd.{i}": {"mon": "allow profile osd", "osd": ALL, "mgr": "allow profile osd"} for i in range(osds)}
    who |= {
        f"client.rgw.{i}": {"mon": "allow rw", "osd": "allow rwx", "mgr": "allow rw"} for i in range(1, gateways + 1)
    }
    rows = []
    for name, caps in who.items():
        rows += [f"[{name}]", f"\tkey = {_key()}", *(f'\tcaps {kind} = "{what}"' for kind, what in caps.items())]
    return "\n".join(rows) + "\n"


def first_commands(osds: Iterable[str], redundancy: str, mgr: bool, version: str) -> list[str]:
    """Return the commands for the monitor of a new cluster. `osds` contains the UUID of each OSD."""
    # Ceph 16 neither needs nor knows this option.
    confirmed = "" if version.startswith("16.") else " --yes-i-really-mean-it"
    out = [f"osd new {uuid} {i}" for i, uuid in enumerate(osds)]
    if mgr:  # the manager's balancer would move data during a point
        out += [
            f"config set mgr mgr/{what} false --force" for what in ("balancer/active", "devicehealth/enable_monitoring")
        ]
    if shards := SHARDS.get(redundancy):
        out.append(f"osd erasure-code-profile set storelab k={shards[0]} m={shards[1]} crush-failure-domain=osd")
    for pool, groups in POOLS.items():
        kind = " erasure storelab" if pool == DATA and shards else ""
        out.append(f"osd pool create {pool} {groups} {groups}{kind}{confirmed if pool[0] == '.' else ''}")
    return out + [f"osd pool application enable {pool} rgw" for pool in POOLS]
