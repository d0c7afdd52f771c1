"""XRootD on this machine, accessed over root:// or HTTP (XrdHttp), in separate network namespaces.

XRootD always listens on all addresses. Therefore it needs network namespaces, and root to create them. The servers run
as the user of their package, who may have no access to the store's folder. Therefore this folder is mounted at a path
that only the servers see. A single server has all data. Several servers have parts of the data, behind a redirector or
a proxy. See docs/stores.md.
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

from storelab.core.config_types import Boolean, Text
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import chroot, debian, program
from storelab.stores.base import CLEAN, CONDITION_TIMEOUT_S, DEGRADED, DOWN, Condition
from storelab.stores.managed import network
from storelab.stores.managed.base import Managed, short_name
from storelab.stores.managed.daemon import Daemon, within
from storelab.stores.managed.network import INSIDE, Lan, Link, Namespace
from storelab.stores.managed.settings import ManagedSettings
from storelab.stores.protocols.access import Access, BucketExists, NoSuchBucket, PatientAccess
from storelab.stores.protocols.endpoint import Endpoint
from storelab.stores.protocols.filesystems import XROOTD
from storelab.stores.xrootd import asking, conf

MAX_SERVERS = 16
MAX_GATEWAYS = 4
NODES = {"redirector": "r", "manager": "r", "proxy": "p", "server": "s", "cmsd": "s", "xrootd": "x"}
JOIN_S = 20.0  # seconds until a redirector must know all data servers
USERS = ("xrootd", "nobody")
MOUNT_POINTS = ("/var/spool/xrootd", "/mnt")  # candidates for an existing folder that all users can access
# Shell script: mount the store's `spool`, its data and a list of hosts, change to another user permanently, and run a
# program. Only this program sees the mounts. XRootD's option -R is not used, because it changes only the effective
# user, so that the program could become root again.
ENTER = (
    'mount --bind "$1" "$3" && mount --bind "$2" "$3/objects" && mount --bind "$3/hosts" /etc/hosts && user=$4 '
    "group=$5 && shift 5 "
    '&& exec setpriv --reuid "$user" --regid "$group" --clear-groups -- "$@"'
)
# Python program that writes and reads one object over root://. It is a separate process, because the client starts
# threads.
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
raise SystemExit(0 if read == data else "data read back differ from what was written")
"""


class Settings(ManagedSettings):
    """An XRootD server, or several data servers behind a gateway.

    They run in separate network namespaces, because XRootD listens on all addresses. This needs root.
    """

    kind: Literal["xrootd"]
    protocol: Literal["root", "http"] = Field("root", description="Protocol of the clients: root:// or XrdHttp.")
    servers: int = Field(
        1,
        ge=1,
        le=MAX_SERVERS,
        description="Number of data servers; with 2 or more, each has its own namespace, and clients use a gateway.",
    )
    gateway: Literal["redirector", "proxy"] = Field(
        "redirector",
        description="Gateway of several data servers: a redirector sends clients on to one of them, a proxy transfers "
        "the data itself.",
    )
    jobs_on_servers: Boolean = Field(
        False,
        description="Client i runs on the host of data server i, in turn (only with launcher `local` and 2 or more "
        "servers).",
    )
    version: Text | None = Field(
        None,
        description="Version of XRootD; default: the version of this host's packages. `5.8` is XRootD 5.8 of Debian "
        "13, which `storelab install xrootd-5.8` installs in a separate folder.",
    )
    tls: Boolean = Field(False, description="Use TLS (roots://, https), with a certificate that storelab creates.")
    port: int = Field(
        10940,
        ge=1024,
        le=32000,
        description="Port of root:// in its namespace; XrdHttp uses the next one (or the same one, with several "
        "servers).",
    )
    subnet: str = Field(
        "10.213.77.0/27",
        description="Addresses of the store's network: one for this host and one per server (a /30 is enough for one "
        "server); must not be in use.",
        pattern=r"^[\d.]+/(2[4-9]|30)$",
    )


class XRootD(Managed):
    """One server, or several data servers behind gateways. `several` is True for several data servers.

    Each gateway and each data server is a node: a network namespace with its own address. Redirectors and data servers
    consist of an xrootd and a cmsd. The cmsds exchange the locations of files.
    """

    Settings = Settings
    system = "XRootD"
    version_flag, version_pattern = "-v", r"v(\d\S*)"
    protocol = "root"
    stops = (("redirector-", "proxy-"), ("server-",))
    recipe = debian.Packages(
        ("xrootd-server", "xrootd-server-plugins", "iproute2", "openssl"),
        "17 packages, 3 MB to download, 10 MB on disk; 35 MB more to download on a bare Debian",
    ).parts
    releases = {"5.8": chroot.XROOTD_5_8}  # noqa: RUF012
    _requested = 1  # number of gateways in this call of `up`

    def __init__(self, name: str, settings: Any, state: Path):
        self.protocol = settings.protocol
        self.several = settings.servers > 1
        self.front = f"{settings.gateway}-" if self.several else "xrootd-"
        self.most_front_ends = MAX_GATEWAYS if self.several else 1
        super().__init__(name, settings, state)

    @cached_property
    def namespace(self) -> Namespace:
        """The network namespace of a single server, or of the switch between several servers."""
        name = f"sl-{short_name(self.folder)}"
        if self.several:
            return Lan(name, self.settings.subnet, self.place, self.all_nodes())
        return Namespace(name, self.settings.subnet, self.place)

    def require(self) -> None:
        if self.settings.jobs_on_servers and not self.several:
            raise UserError(
                f"{self.place}.jobs_on_servers",
                "this needs several data servers behind a gateway",
                "set servers to 2 or more",
            )
        if os.geteuid() != 0:
            raise UserError(
                self.place,
                "XRootD needs root (it listens on all addresses, so it runs in a separate network namespace)",
                "run storelab as root, or use an existing endpoint with kind `root` or `http`",
            )
        for name in ("xrootd", *(["cmsd"] if self.several else [])):
            self.find_program(name)
        self.require_release()
        for name in ("ip", "mount", "setpriv", *(["openssl"] if self.settings.tls else [])):
            program(name, "xrootd", self.place)
        self._user()
        _ = self.namespace  # raises UserError for a subnet that is wrong or too small

    @staticmethod
    def _user() -> pwd.struct_passwd:
        known = {user.pw_name: user for user in pwd.getpwall()}
        return next(known[name] for name in USERS if name in known)

    def moved(self, settings: Any, index: int) -> Any:
        """Return the settings of the deployment with this index, with its own subnet.

        The ports stay the same, because each deployment has its own namespaces.
        """
        subnet = ipaddress.IPv4Network(settings.subnet, strict=False)
        first = subnet.network_address + subnet.num_addresses * index
        return settings.model_copy(update={"subnet": f"{first}/{subnet.prefixlen}"})

    # Nodes and daemons

    def node_of(self, name: str) -> str:
        """Return the node of a daemon: `r1`, `p1`, `s1` …, or `x1` for a single server."""
        kind, _, number = name.rpartition("-")
        return f"{NODES[kind]}{number}"

    def all_nodes(self) -> list[str]:
        """Return all possible nodes, so that each has the same address every time."""
        gateways = [f"{kind}{i}" for kind in "rp" for i in range(1, MAX_GATEWAYS + 1)]
        return gateways + [f"s{i}" for i in range(1, self.settings.servers + 1)]

    def servers(self) -> list[str]:
        return [f"server-{i}" for i in range(1, self.settings.servers + 1)]

    def _redirectors(self) -> int:
        """Return the number of redirectors that exist, or that this call of `up` starts."""
        if self.settings.gateway != "redirector":
            return 1
        return max([self._requested, *(self._number(n) for n in self.daemons.records() if n.startswith(self.front))])

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return the names of the daemons in the order of their start.

        The order matters, because a daemon that does not find another daemon waits for seconds before it retries.
        """
        if not self.several:
            return (front_ends,)
        numbers = [n.rpartition("-")[2] for n in front_ends] if self.settings.gateway == "redirector" else ["1"]
        redirectors, managers = ([f"{kind}-{i}" for i in numbers] for kind in ("redirector", "manager"))
        cmsds = [f"cmsd-{i}" for i in range(1, self.settings.servers + 1)]
        out = [managers, cmsds, [*self.servers(), *redirectors]]
        return out if self.settings.gateway == "redirector" else [*out, front_ends]

    @property
    def _manager_port(self) -> int:
        return self.settings.port + 1

    def text(self, node: str) -> str:
        """Return the configuration of a node's daemons."""
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
        """Return additional environment variables of a daemon. A proxy gets the timeouts of storelab's client."""
        out = {"HOME": self.root(), "TMPDIR": self.root()}
        if node.startswith("p"):
            out |= {f"XRD_{name.upper()}": str(value) for name, value in XROOTD.items()}
            out |= {"X509_CERT_DIR": f"{self.root()}/authorities"} if self.settings.tls else {}
        return out

    def health_of(self, name: str) -> bool:
        """Return whether a daemon of a cluster works."""
        kind, node = name.rpartition("-")[0], self.node_of(name)
        if kind == "manager":
            with contextlib.suppress(OSError):
                socket.create_connection((self.address_of(node), self._manager_port), 1.0).close()
                return True
            return False
        if kind == "cmsd":  # it does not listen on a port
            return (self.spool(node) / ".olb" / "olbd.admin").exists()
        return asking.handshake(self.address_of(node), self.settings.port)

    def ca_file(self) -> str | None:
        return str(self.folder / "tls" / "ca.pem") if self.settings.tls else None

    def make_accounts(self, accounts: int) -> None:
        """Wait until every redirector knows every data server."""
        names = [n for n in self.daemons.running() if n.startswith("redirector-")]
        if not within(JOIN_S, lambda: all(self._knows(n) >= self.settings.servers for n in names)):
            counts = ", ".join(f"{n} knows {self._knows(n)}" for n in names)
            raise MeasurementFailed(f"{self.place}: not all {self.settings.servers} data servers are known: {counts}")

    def _knows(self, redirector: str) -> int:
        """Return the number of data servers to which a redirector sends clients; -1 if it does not answer."""
        try:
            here = self.address_of(self.node_of(redirector))
            return len(asking.servers_known(here, self.settings.port, self.ca_file(), CONDITION_TIMEOUT_S))
        except MeasurementFailed:
            return -1

    def root(self) -> str:
        """Return the path of the store's folder in the servers' mount namespaces."""
        return next(p for p in MOUNT_POINTS if Path(p).is_dir())

    def address_of(self, node: str) -> str:
        return self.namespace.addresses[node] if isinstance(self.namespace, Lan) else self.namespace.server

    def spool(self, node: str) -> Path:
        """Return the folder that a node's daemons see at `root`."""
        return self.folder / (f"spool-{node}" if self.several else "spool")

    def objects(self, node: str) -> Path:
        """Return the folder of a node's data, which is empty for a gateway."""
        if not self.several:
            return self.data / "objects"
        return self.data / f"server-{node[1:]}" if node.startswith("s") else self.spool(node) / "objects"

    def program_of(self, version: str) -> Path:
        return self.find_program("xrootd", version)

    def _configuration(self, node: str, version: str | None = None) -> str:
        """Return the name of a configuration file. It has a hash, so that the command line shows changed settings."""
        text = self.text(node) + (version or self.settings.version or "")  # programs have the same path in all versions
        return f"{node}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.cfg"

    def daemon(self, name: str) -> Daemon:
        node, port = self.node_of(name), self.settings.port
        host, user, root = self.address_of(node), self._user(), self.root()
        version = self.versions.get(name, self.settings.version)
        binary = self.find_program("cmsd" if name.startswith(("manager-", "cmsd-")) else "xrootd", version)
        if self.release(version):  # its user may not read the tools folder
            binary = Path("/usr/bin", binary.name)
        argv = (str(binary), "-I", "v4", "-c", f"{root}/{self._configuration(node, version)}")
        places = (str(self.spool(node)), str(self.objects(node)), root)
        ids = (str(user.pw_uid), str(user.pw_gid))
        enter = (*self.enter_release(version), "/bin/sh", "-c", ENTER, "sh", *places, *ids)
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
        """Create a certificate for the addresses of all nodes, if the setting `tls` is on and there is none."""
        folder = self.folder / "tls"
        if self.settings.tls and not (folder / "ca.pem").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            nodes = self.all_nodes() if self.several else ["x1"]
            conf.make_certificate(folder, [self.address_of(node) for node in nodes], self.place)

    def make_ready(self) -> None:
        """Prepare all nodes. Stop the other form of this store (a single server or several) if it still runs."""
        strange = [n for n in self.daemons.records() if n not in self.daemon_actors()]
        if strange:
            self._stop(list(self.daemons.records()))
            self.dismantle()

    def _start(self, front_ends: int) -> None:
        self._requested = front_ends
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
        """Prepare a node's folders and the files that its daemons read."""
        user, spool = self._user(), self.spool(node)
        for folder in (spool, self.objects(node)):
            folder.mkdir(exist_ok=True, mode=0o700)
            os.chown(folder, user.pw_uid, user.pw_gid)
        (spool / "objects").mkdir(exist_ok=True)  # mount point of the data
        # The server gives clients the address of its host name. It needs a hosts file, because no name server can be
        # reached from the namespace.
        hosts = f"127.0.0.1 localhost\n{self.address_of(node)} {socket.gethostname()}\n"
        versions = (self.settings.version, *self.releases)  # daemons may be upgraded later
        files = dict.fromkeys((self._configuration(node, version) for version in versions), self.text(node))
        for name, text in (files | {"hosts": hosts}).items():
            if not (spool / name).exists() or (spool / name).read_text() != text:
                (spool / name).write_text(text)
                (spool / name).chmod(0o644)
        if self.settings.tls:
            shutil.rmtree(spool / "authorities", ignore_errors=True)  # copytree fails if links exist already
            shutil.copytree(self.folder / "tls", spool, symlinks=True, dirs_exist_ok=True)
            (spool / "server.key").chmod(0o400)
            for path in (spool, *(spool / n for n in ("server.key", "server.pem", "ca.pem", "authorities"))):
                os.chown(path, user.pw_uid, user.pw_gid)

    def dismantle(self) -> None:
        if os.geteuid() == 0:
            for form in (Namespace, Lan):  # both may exist if the settings were changed
                form(self.namespace.name, self.settings.subnet, self.place).down()
        for spool in self.folder.glob("spool*"):
            for path in spool.iterdir():
                if path.name != "objects":  # sockets, logs, pid files
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    # Access by clients

    def _url(self, node: str, protocol: str) -> str:
        port = self.settings.port + (protocol == "http" and not self.several)
        secure = "s" if self.settings.tls else ""
        return f"{protocol}{secure}://{self.address_of(node)}:{port}" + ("/" if protocol == "root" else "")

    def endpoint(self, name: str) -> Endpoint:
        return self._at(self.node_of(name), self.protocol)

    def _at(self, node: str, protocol: str) -> Endpoint:
        return Endpoint(self._url(node, protocol), ca_file=self.ca_file(), protocol=protocol)

    def access(self, account: int = 0, front_end: int = 0) -> Access:
        """Return access over HTTP, directly to the data servers.

        The root:// client is not used, because it starts threads, which are unsafe in a process that forks.
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
            done = processes.run_command([sys.executable, "-c", PROBE, endpoint.url], 30, environ)
            if done.returncode:
                raise MeasurementFailed(f"{self.place}: {endpoint.url} is not usable: {processes.words(done)}")

    def command_prefix(self, client: int) -> tuple[str, ...]:
        """Return a command prefix that enters only the network namespace of a data server."""
        if not (self.several and self.settings.jobs_on_servers):
            return ()
        server = self.servers()[client % self.settings.servers]
        space = self.namespace.space(self.node_of(server))  # type: ignore[attr-defined]
        return (str(program("nsenter", "xrootd", self.place)), f"--net=/run/netns/{space}")

    # Reports

    def data_actors(self) -> list[str]:
        return self.servers() if self.several else []

    def condition(self) -> Condition:
        """Return the condition from the data servers that the first redirector knows. Others cannot be reached."""
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

    def request_counts(self) -> dict[str, dict[str, int] | None]:
        """Return the servers' counts. They are requested in parallel, because a hanging server would delay others."""
        if not self.several:
            return {}
        if self.settings.gateway == "proxy":  # the proxy's connections stay open, so wait for the next report
            time.sleep(1.2 * conf.REPORT)
        gateways = sorted(n for n in self.daemons.records() if n.startswith(("redirector-", "proxy-")))

        def ask(name: str) -> dict[str, int] | None:
            try:
                return asking.served(self.address_of(self.node_of(name)), self.settings.port, self.ca_file())
            except MeasurementFailed:
                return None

        names = [*gateways, *self.servers()]
        with ThreadPoolExecutor(len(names)) as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def deployment(self) -> dict[str, Any]:
        facts = super().deployment() | {"protocol": self.protocol, "network": "a pair of virtual interfaces"}
        if self.several:
            facts |= {"jobs_on_servers": self.settings.jobs_on_servers}
            facts |= {
                "gateway": self.settings.gateway,
                "network": "a pair of virtual interfaces for each node, and a switch",
            }
        return facts


# Several data servers store parts of one tree. A redirector lists, creates and removes folders on only one of them, and
# waits before it creates a file. Therefore storelab accesses the data servers directly outside of measurements, like
# the tools of a site. The data servers report the changes to the redirector.

if TYPE_CHECKING:  # this module imports urllib3, which planning does not need
    from storelab.stores.protocols.files import FilesAccess


class JoinedAccess(Access):
    """Access to several data servers as one store. `ways` contains the access to each server, in order."""

    deletes_at_once = 100  # the same as FilesAccess

    def __init__(self, ways: "Sequence[FilesAccess]", place: str):
        self.ways, self.place = list(ways), place

    def _from(self, bucket: str, key: str) -> "list[FilesAccess]":
        """Return the servers in the order in which they are tried for this key. The first one gets a new file."""
        first = zlib.crc32(f"{bucket}/{key}".encode()) % len(self.ways)
        return self.ways[first:] + self.ways[:first]

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        """Return the object from the first server that has it.

        If no server has the object, raise the error of a server that did not answer, or return None.
        """
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
        """Return the servers that have this bucket. Raises NoSuchBucket if none has it."""
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
        """Create the bucket on every server."""
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
