"""XRootD on this machine, spoken to over root:// or HTTP (XrdHttp), in network namespaces of its own.

It listens on all addresses whatever it is told, hence the namespaces, hence root. The servers themselves run as their
package's user; that one may not be able to reach the store's folder, so the folder is mounted where it can, visible
to it alone. One server has all the data; several have parts of them, and clients come in by a redirector or a proxy
See docs/stores.md.
"""

import contextlib
import hashlib
import ipaddress
import os
import pwd
import shutil
import socket
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from storelab.core.config_types import Boolean
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import debian, program
from storelab.stores.base import ASK_S, CLEAN, DEGRADED, DOWN, Condition
from storelab.stores.managed import network
from storelab.stores.managed.base import Managed, short_name
from storelab.stores.managed.daemon import Daemon, within
from storelab.stores.managed.network import INSIDE, Lan, Link, Namespace
from storelab.stores.managed.settings import ManagedSettings
from storelab.stores.protocols.access import Access, BucketExists, NoSuchBucket, PatientAccess
from storelab.stores.protocols.endpoint import Endpoint
from storelab.stores.protocols.filesystems import XROOTD
from storelab.stores.xrootd import asking, conf

MOST_SERVERS = 16
MOST_DOORS = 4
NODES = {"redirector": "r", "manager": "r", "proxy": "p", "server": "s", "cmsd": "s", "xrootd": "x"}
JOIN_S = 20.0  # until a redirector knows all data servers
USERS = ("xrootd", "nobody")
MOUNT_POINTS = ("/var/spool/xrootd", "/mnt")  # a folder that is there and that everybody can reach
# Shell: mount the store's `spool`, in it its data, and a list of hosts; seen by what follows alone, and gone with it.
# Then stop being root for good: XRootD's own option -R changes the effective user only, and could be root again at any
# time.
ENTER = (
    'mount --bind "$1" "$3" && mount --bind "$2" "$3/objects" && mount --bind "$3/hosts" /etc/hosts && user=$4 '
    "group=$5 && shift 5 "
    '&& exec setpriv --reuid "$user" --regid "$group" --clear-groups -- "$@"'
)
# One object written and read over root://, in a process of its own: the client's threads are not wanted in this one.
PROBE = """
import sys
from XRootD import client
from XRootD.client.env import EnvPutInt
from XRootD.client.flags import OpenFlags
for name, value in (("ConnectionWindow", 5), ("ConnectionRetry", 1), ("RequestTimeout", 10)):
    EnvPutInt(name, value)
url, path, data = sys.argv[1], "/storelab-warmup/warm-root", b"warm"
def ask(answer):
    if not answer[0].ok:
        raise SystemExit(answer[0].message.strip())
    return answer[1]
f = client.File()
ask(f.open(url + path, OpenFlags.DELETE)); ask(f.write(data)); ask(f.close())
g = client.File()
ask(g.open(url + path, OpenFlags.READ)); read = ask(g.read()); ask(g.close())
raise SystemExit(0 if read == data else "what was written is not read back")
"""


class Settings(ManagedSettings):
    """An XRootD server, or a redirector with several data servers, in network namespaces of its own (it listens on
    all addresses); needs root."""

    kind: Literal["xrootd"]
    protocol: Literal["root", "http"] = Field("root", description="How clients talk to it: root:// or XrdHttp.")
    servers: int = Field(
        1,
        ge=1,
        le=MOST_SERVERS,
        description="Data servers; from 2 on each has a namespace of its own, and clients come in by a door.",
    )
    door: Literal["redirector", "proxy"] = Field(
        "redirector",
        description="Of several data servers: a redirector sends clients on to one of them, a proxy moves the data "
        "itself.",
    )
    jobs_on_servers: Boolean = Field(
        False,
        description="Client i runs on the host of data server i, in turn (launcher `local`, servers of 2 or more).",
    )
    tls: Boolean = Field(False, description="Speak TLS (roots://, https), with a certificate of storelab's own.")
    port: int = Field(
        10940,
        ge=1024,
        le=32000,
        description="Port of root:// in its namespace; XrdHttp takes the next one (the same one, of several servers).",
    )
    subnet: str = Field(
        "10.213.77.0/27",
        description="Addresses of a network of its own: ours and the servers' (a /30 is enough for one server); must "
        "not be in use.",
        pattern=r"^[\d.]+/(2[4-9]|30)$",
    )


class XRootD(Managed):
    """One server, or several data servers behind doors. `several`: whether there are such.

    Each door and each data server is a node: a network namespace with an address of its own. A redirector is an xrootd
    with a cmsd (the manager), a data server too; the cmsds tell each other which file is where.
    """

    Settings = Settings
    system = "XRootD"
    version_flag, version_pattern = "-v", r"v(\d\S*)"
    protocol = "root"
    stops = (("redirector-", "proxy-"), ("server-",))
    recipe = debian.Packages(
        ("xrootd-server", "xrootd-server-plugins", "iproute2", "openssl"),
        "17 packages of its own, 3 MB to download, 10 MB on disk; 35 MB more to download on a bare Debian",
    ).parts
    _asked = 1  # doors of this call of `up`

    def __init__(self, name: str, settings: Any, state: Path):
        self.protocol = settings.protocol
        self.several = settings.servers > 1
        self.front = f"{settings.door}-" if self.several else "xrootd-"
        self.most_front_ends = MOST_DOORS if self.several else 1
        super().__init__(name, settings, state)

    @cached_property
    def namespace(self) -> Namespace:
        """Of one server, or of the switch between several."""
        name = f"sl-{short_name(self.folder)}"
        if self.several:
            return Lan(name, self.settings.subnet, self.place, self.all_nodes())
        return Namespace(name, self.settings.subnet, self.place)

    def require(self) -> None:
        if self.settings.jobs_on_servers and not self.several:
            raise UserError(
                f"{self.place}.jobs_on_servers", "there is one data server, and no door", "set servers to 2 or more"
            )
        if os.geteuid() != 0:
            raise UserError(
                self.place,
                "XRootD needs root (it listens on all addresses, so it runs in a network namespace of its own)",
                "run storelab as root, or use a `root` or `http` door that is there already",
            )
        self.program()
        commands = ["ip", "mount", "setpriv", *(["cmsd"] if self.several else [])]
        for name in commands + (["openssl"] if self.settings.tls else []):
            program(name, "xrootd", self.place)
        self._user()
        _ = self.namespace  # whether the subnet is one, and large enough

    @staticmethod
    def _user() -> pwd.struct_passwd:
        known = {user.pw_name: user for user in pwd.getpwall()}
        return next(known[name] for name in USERS if name in known)

    def moved(self, settings: Any, index: int) -> Any:
        """Each deployment has namespaces of its own, so its ports may be the same.

        Its subnet lies behind those of the earlier ones.
        """
        own = ipaddress.IPv4Network(settings.subnet, strict=False)
        first = own.network_address + own.num_addresses * index
        return settings.model_copy(update={"subnet": f"{first}/{own.prefixlen}"})

    # Nodes and daemons

    def node_of(self, name: str) -> str:
        """The node of a daemon: `r1`, `p1`, `s1` …, `x1` of the one server."""
        kind, _, number = name.rpartition("-")
        return f"{NODES[kind]}{number}"

    def all_nodes(self) -> list[str]:
        """All that there may be, so that each has the same address every time."""
        doors = [f"{kind}{i}" for kind in "rp" for i in range(1, MOST_DOORS + 1)]
        return doors + [f"s{i}" for i in range(1, self.settings.servers + 1)]

    def servers(self) -> list[str]:
        return [f"server-{i}" for i in range(1, self.settings.servers + 1)]

    def _redirectors(self) -> int:
        """How many there are, or are to be now."""
        if self.settings.door != "redirector":
            return 1
        return max([self._asked, *(self._number(n) for n in self.daemons.records() if n.startswith(self.front))])

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        """One that finds whom it needs missing waits for seconds before it tries again."""
        if not self.several:
            return (front_ends,)
        numbers = [n.rpartition("-")[2] for n in front_ends] if self.settings.door == "redirector" else ["1"]
        redirectors, managers = ([f"{kind}-{i}" for i in numbers] for kind in ("redirector", "manager"))
        cmsds = [f"cmsd-{i}" for i in range(1, self.settings.servers + 1)]
        out = [managers, cmsds, [*self.servers(), *redirectors]]
        return out if self.settings.door == "redirector" else [*out, front_ends]

    @property
    def _manager_port(self) -> int:
        return self.settings.port + 1

    def text(self, node: str) -> str:
        """The configuration of a node's daemons."""
        s, here, root = self.settings, self.address_of(node), self.root()
        if node.startswith("r"):
            return conf.redirector(node, here, s.port, self._manager_port, root, s.tls)
        if node.startswith("s"):
            managers = [f"{self.address_of(f'r{i + 1}')}:{self._manager_port}" for i in range(self._redirectors())]
            return conf.server(node, here, s.port, managers, root, s.tls)
        if node.startswith("p"):
            return conf.proxy(node, here, s.port, f"{self.address_of('r1')}:{s.port}", root, s.tls)
        return conf.single(here, s.port, root, s.tls)

    def environ_of(self, node: str) -> dict[str, str]:
        """What a daemon needs besides; a proxy is a client too, and waits no longer than ours."""
        out = {"HOME": self.root(), "TMPDIR": self.root()}
        if node.startswith("p"):
            out |= {f"XRD_{name.upper()}": str(value) for name, value in XROOTD.items()}
            out |= {"X509_CERT_DIR": f"{self.root()}/authorities"} if self.settings.tls else {}
        return out

    def health_of(self, name: str) -> bool:
        """Whether a daemon of several does its work."""
        kind, node = name.rpartition("-")[0], self.node_of(name)
        if kind == "manager":
            with contextlib.suppress(OSError):
                socket.create_connection((self.address_of(node), self._manager_port), 1.0).close()
                return True
            return False
        if kind == "cmsd":  # it listens at no port
            return (self.spool(node) / ".olb" / "olbd.admin").exists()
        return asking.handshake(self.address_of(node), self.settings.port)

    def ca_file(self) -> str | None:
        return str(self.folder / "tls" / "ca.pem") if self.settings.tls else None

    def make_accounts(self, accounts: int) -> None:
        """Wait until every redirector would send clients to every data server."""
        names = [n for n in self.daemons.running() if n.startswith("redirector-")]
        if not within(JOIN_S, lambda: all(self._knows(n) >= self.settings.servers for n in names)):
            told = ", ".join(f"{n} knows {self._knows(n)}" for n in names)
            raise MeasurementFailed(f"{self.place}: of {self.settings.servers} data servers {told}")

    def _knows(self, redirector: str) -> int:
        """How many data servers a redirector would send clients to; -1 where it does not answer."""
        try:
            here = self.address_of(self.node_of(redirector))
            return len(asking.servers_known(here, self.settings.port, self.ca_file(), ASK_S))
        except MeasurementFailed:
            return -1

    def root(self) -> str:
        """Where the servers find their folders."""
        return next(p for p in MOUNT_POINTS if Path(p).is_dir())

    def address_of(self, node: str) -> str:
        return self.namespace.addresses[node] if isinstance(self.namespace, Lan) else self.namespace.server

    def spool(self, node: str) -> Path:
        """What a node's daemons see at `root`."""
        return self.folder / (f"spool-{node}" if self.several else "spool")

    def objects(self, node: str) -> Path:
        """A node's data; an empty folder of a door."""
        if not self.several:
            return self.data / "objects"
        return self.data / f"server-{node[1:]}" if node.startswith("s") else self.spool(node) / "objects"

    def _configuration(self, node: str) -> str:
        """Name of the file; it tells the content, so that one with other settings is recognised by its command line."""
        return f"{node}-{hashlib.sha256(self.text(node).encode()).hexdigest()[:8]}.cfg"

    def daemon(self, name: str) -> Daemon:
        node, port = self.node_of(name), self.settings.port
        host, user, root = self.address_of(node), self._user(), self.root()
        binary = self.program()
        if name.startswith(("manager-", "cmsd-")):
            binary = program("cmsd", "xrootd", self.place)
        argv = (str(binary), "-I", "v4", "-c", f"{root}/{self._configuration(node)}")
        places = (str(self.spool(node)), str(self.objects(node)), root)
        enter = ("/bin/sh", "-c", ENTER, "sh", *places, str(user.pw_uid), str(user.pw_gid))
        space, tls = self.namespace, self.settings.tls
        return Daemon(
            name,
            argv,
            host,
            (port,) if self.several else (port, port + 1),
            (lambda: self.health_of(name))
            if self.several
            else (lambda: asking.handshake(host, port) and network.answers(host, port + 1, "/", tls=tls)),
            environ=self.environ_of(node),
            prefix=(*(space.enter(node) if isinstance(space, Lan) else space.prefix), *enter),
            elsewhere=True,
        )

    def make_certificate(self) -> None:
        """For the addresses of all nodes, once, where the setting `tls` wants one."""
        folder = self.folder / "tls"
        if self.settings.tls and not (folder / "ca.pem").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            nodes = self.all_nodes() if self.several else ["x1"]
            conf.make_certificate(folder, [self.address_of(node) for node in nodes], self.place)

    def make_ready(self) -> None:
        """Stop what is of another form of this store: one server, or several."""
        strange = [n for n in self.daemons.records() if n not in self.daemon_actors()]
        if strange:
            self._stop(list(self.daemons.records()))
            self.dismantle()

    def _start(self, front_ends: int) -> None:
        self._asked = front_ends
        fronts = {*self.front_ends(), *self.front_actors(front_ends)}
        names = [n for stage in self.stages(sorted(fronts, key=self._number)) for n in stage]
        nodes = list(dict.fromkeys(map(self.node_of, names)))
        for node in nodes:
            self._ready(node)
        if isinstance(self.namespace, Lan):
            self.namespace.attach(nodes)
        else:
            self.namespace.up()
        super()._start(front_ends)

    def _ready(self, node: str) -> None:
        """Its folders, and what its daemons read."""
        user, spool = self._user(), self.spool(node)
        for folder in (spool, self.objects(node)):
            folder.mkdir(exist_ok=True, mode=0o700)
            os.chown(folder, user.pw_uid, user.pw_gid)
        (spool / "objects").mkdir(exist_ok=True)  # the place where the data are mounted
        # What it tells clients as its address is what its host's name resolves to; name servers cannot be asked from
        # there.
        hosts = f"127.0.0.1 localhost\n{self.address_of(node)} {socket.gethostname()}\n"
        for name, text in ((self._configuration(node), self.text(node)), ("hosts", hosts)):
            if not (spool / name).exists() or (spool / name).read_text() != text:
                (spool / name).write_text(text)
                (spool / name).chmod(0o644)
        if self.settings.tls:
            shutil.rmtree(spool / "authorities", ignore_errors=True)  # links in it would be in the way
            shutil.copytree(self.folder / "tls", spool, symlinks=True, dirs_exist_ok=True)
            (spool / "server.key").chmod(0o400)
            for path in (spool, *(spool / n for n in ("server.key", "server.pem", "ca.pem", "authorities"))):
                os.chown(path, user.pw_uid, user.pw_gid)

    def dismantle(self) -> None:
        if os.geteuid() == 0:
            for form in (Namespace, Lan):  # either may be there, where the settings were changed
                form(self.namespace.name, self.settings.subnet, self.place).down()
        for spool in self.folder.glob("spool*"):
            for path in spool.iterdir():
                if path.name != "objects":  # sockets, logs of its own, process numbers
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    # How clients come to it

    def _url(self, node: str, protocol: str) -> str:
        port = self.settings.port + (protocol == "http" and not self.several)
        secure = "s" if self.settings.tls else ""
        return f"{protocol}{secure}://{self.address_of(node)}:{port}" + ("/" if protocol == "root" else "")

    def endpoint(self, name: str) -> Endpoint:
        return self._at(self.node_of(name), self.protocol)

    def _at(self, node: str, protocol: str) -> Endpoint:
        return Endpoint(self._url(node, protocol), ca_file=self.ca_file(), protocol=protocol)

    def access(self, account: int = 0, front_end: int = 0) -> Access:
        """Always over HTTP, and to the data servers themselves.

        The client of root:// has threads, which do no good in a process that starts others.
        """
        self.endpoints(front_end + 1)
        return self._way()

    def _way(self) -> Access:
        from storelab.stores.protocols.files import FilesAccess

        nodes = [self.node_of(n) for n in self.servers()] if self.several else ["x1"]
        ways = [FilesAccess(self._at(node, "http"), self.place) for node in nodes]
        return PatientAccess(JoinedAccess(ways, self.place) if self.several else ways[0])

    def warm_up_one(self, endpoint: Endpoint) -> None:
        if self.several:
            with contextlib.suppress(BucketExists):
                self._way().make_bucket("storelab-warmup")
        if endpoint.protocol == "http" or not self.several:
            super().warm_up_one(endpoint if endpoint.protocol == "http" else self._at("x1", "http"))
        if endpoint.protocol == "root":
            environ = dict(os.environ) | ({"X509_CERT_FILE": endpoint.ca_file} if endpoint.ca_file else {})
            done = processes.ask([sys.executable, "-c", PROBE, endpoint.url], 30, environ)
            if done.returncode:
                raise MeasurementFailed(f"{self.place}: {endpoint.url} is not usable: {processes.words(done)}")

    def beside(self, client: int) -> tuple[str, ...]:
        """Not by `ip netns exec`: a client needs no mounts of its own."""
        if not (self.several and self.settings.jobs_on_servers):
            return ()
        server = self.servers()[client % self.settings.servers]
        space = self.namespace.space(self.node_of(server))  # type: ignore[attr-defined]
        return (str(program("nsenter", "xrootd", self.place)), f"--net=/run/netns/{space}")

    # What they say of themselves

    def data_actors(self) -> list[str]:
        return self.servers() if self.several else []

    def condition(self) -> Condition:
        """As the first redirector has it: a file of a data server that it does not know is out of reach."""
        if not self.several:
            return super().condition()
        known, wanted = self._knows("redirector-1"), self.settings.servers
        if known < 0:
            return Condition(DOWN, "the redirector does not answer")
        detail = f"redirector: {known} of {wanted} data servers"
        return Condition(DOWN if not known else DEGRADED if known < wanted else CLEAN, detail)

    def timeouts(self) -> dict[str, Any]:
        return conf.timeouts() if self.several else {}

    def link(self, actor: str, place: str) -> Link:
        if not self.several:
            return {"device": INSIDE, "namespace": self.namespace.name}  # type: ignore[attr-defined]
        return {"device": INSIDE, "namespace": self.namespace.space(self.node_of(actor))}  # type: ignore[attr-defined]

    def answered(self) -> dict[str, dict[str, int] | None]:
        """By their own count, all at once: one that hangs takes no time from the others."""
        if not self.several:
            return {}
        if self.settings.door == "proxy":  # its connections stay
            time.sleep(1.2 * conf.REPORT)
        doors = sorted(n for n in self.daemons.records() if n.startswith(("redirector-", "proxy-")))

        def ask(name: str) -> dict[str, int] | None:
            try:
                return asking.served(self.address_of(self.node_of(name)), self.settings.port, self.ca_file())
            except MeasurementFailed:
                return None

        names = [*doors, *self.servers()]
        with ThreadPoolExecutor(len(names)) as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def deployment(self) -> dict[str, Any]:
        told = super().deployment() | {"protocol": self.protocol, "network": "a pair of virtual interfaces"}
        if self.several:
            told |= {"jobs_on_servers": self.settings.jobs_on_servers}
            told |= {"door": self.settings.door, "network": "a pair of virtual interfaces for each node, and a switch"}
        return told


# Several data servers hold parts of one tree. A redirector lists, makes and removes folders on one of them only, and
# waits before it makes a file. So storelab goes to the data servers themselves outside of every measurement, as a
# site's own tools do; the redirector learns of it from them.

if TYPE_CHECKING:  # it loads urllib3, which planning does not need
    from storelab.stores.protocols.files import FilesAccess


class JoinedAccess(Access):
    """ways: into each data server, in the order of their numbers."""

    deletes_at_once = 100  # as of FilesAccess

    def __init__(self, ways: "Sequence[FilesAccess]", place: str):
        self.ways, self.place = list(ways), place

    def _from(self, bucket: str, key: str) -> "list[FilesAccess]":
        """The servers in the order in which this key's are tried: a new file goes to the first."""
        first = zlib.crc32(f"{bucket}/{key}".encode()) % len(self.ways)
        return self.ways[first:] + self.ways[:first]

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        """What any server has. Raises the error of one that does not answer only where no other one has it."""
        trouble: UserError | MeasurementFailed | None = None
        without = 0
        for way in self._from(bucket, key):
            try:
                if (data := way.read(bucket, key, most)) is not None:
                    return data
            except NoSuchBucket:
                without += 1
            except (UserError, MeasurementFailed) as error:
                trouble = error
        if trouble:
            raise trouble
        if without == len(self.ways):
            raise NoSuchBucket(bucket, self.place)
        return None

    def write(self, bucket: str, key: str, data: bytes) -> None:
        ways = self._from(bucket, key)
        next((way for way in ways if way.holds(bucket, key)), ways[0]).write(bucket, key, data)

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        seen: set[str] = set()
        for way in self._with(bucket):
            for key, size in way.keys(bucket, prefix):
                if key not in seen:
                    seen.add(key)
                    yield key, size

    def _with(self, bucket: str) -> "list[FilesAccess]":
        """The servers that have this bucket. Raises NoSuchBucket where none has."""
        found = [way for way in self.ways if way.holds(bucket)]
        if not found:
            raise NoSuchBucket(bucket, self.place)
        return found

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        for way in self.ways:
            way.delete(bucket, keys)

    def bucket_names(self) -> list[str]:
        return sorted({name for way in self.ways for name in way.bucket_names()})

    def prefixes(self, bucket: str, above: str) -> list[str]:
        return sorted({found for way in self._with(bucket) for found in way.prefixes(bucket, above)})

    def make_bucket(self, bucket: str) -> None:
        """On every server."""
        there = 0
        for way in self.ways:
            try:
                way.make_bucket(bucket)
            except BucketExists:
                there += 1
        if there == len(self.ways):
            raise BucketExists(bucket)

    def drop_bucket(self, bucket: str) -> None:
        for way in self.ways:
            if way.holds(bucket):
                way.drop_bucket(bucket)
