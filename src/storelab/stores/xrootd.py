"""XRootD on this machine, spoken to over root:// or HTTP (XrdHttp), in a network namespace of its own.

It listens on all addresses whatever it is told, hence the namespace, hence root. The server itself runs as its
package's user; that one may not be able to reach the store's folder, so the folder is mounted where it can, visible
to it alone. See docs/stores.md.
"""

import hashlib
import ipaddress
import os
import pwd
import shutil
import socket
import struct
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import debian, program
from storelab.stores.faults.links import Link
from storelab.stores.managed import net
from storelab.stores.managed.base import Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.facts import short_name
from storelab.stores.managed.netns import INSIDE, Namespace
from storelab.stores.managed.settings import ManagedSettings
from storelab.stores.protocols.access import Access
from storelab.stores.protocols.endpoint import Endpoint

USERS = ("xrootd", "nobody")
MOUNT_POINTS = ("/var/spool/xrootd", "/mnt")  # a folder that is there and that everybody can reach
CONFIGURATION = """# at {server}
xrd.port {port}
xrd.protocol XrdHttp:{http} libXrdHttp.so
xrd.network nodnr
xrd.allow host *
all.export /
oss.localroot {root}/objects
all.adminpath {root}
all.pidpath {root}
http.desthttps no
http.selfhttps2http no
http.listingdeny no
xrootd.chksum max 2 adler32 crc32c
"""
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


def handshake(host: str, port: int, timeout: float = 1.0) -> bool:
    """True if an XRootD server answers the first 20 bytes of root://."""
    try:
        with socket.create_connection((host, port), timeout) as s:
            s.sendall(struct.pack("!5i", 0, 0, 0, 4, 2012))
            answer = b""
            while len(answer) < 16 and (more := s.recv(16 - len(answer))):
                answer += more
        return len(answer) == 16 and struct.unpack("!HHi", answer[:8]) == (0, 0, 8)
    except OSError:
        return False


class Settings(ManagedSettings):
    """An XRootD server in a network namespace of its own (it listens on all addresses); needs root."""

    kind: Literal["xrootd"]
    protocol: Literal["root", "http"] = Field("root", description="How clients talk to it: root:// or XrdHttp.")
    port: int = Field(
        10940, ge=1024, le=32000, description="Port of root:// in its namespace; XrdHttp takes the next one."
    )
    subnet: str = Field(
        "10.213.77.0/30",
        description="Two addresses of a link of its own: ours and the server's; must not be in use.",
        pattern=r"^[\d.]+/30$",
    )


class XRootD(Managed):
    Settings = Settings
    system = "XRootD"
    version_flag, version_pattern = "-v", r"v(\d\S*)"
    protocol = "root"
    front = "xrootd-"

    def __init__(self, name: str, settings: Any, state: Path):
        self.protocol = settings.protocol
        super().__init__(name, settings, state)

    @cached_property
    def namespace(self) -> Namespace:
        return Namespace(f"sl-{short_name(self.folder)}", self.settings.subnet, self.place)

    recipe = debian.Packages(
        ("xrootd-server", "xrootd-server-plugins", "iproute2"),
        "17 packages of its own, 3 MB to download, 10 MB on disk; 35 MB more to download on a bare Debian",
    ).parts

    def require(self) -> None:
        if os.geteuid() != 0:
            raise UserError(
                self.place,
                "XRootD needs root (it listens on all addresses, so it runs in a network namespace of its own)",
                "run storelab as root, or use a `root` or `http` door that is there already",
            )
        self.program()
        for name in ("ip", "mount", "setpriv"):
            program(name, "xrootd", self.place)
        self._user()

    @staticmethod
    def _user() -> pwd.struct_passwd:
        known = {user.pw_name: user for user in pwd.getpwall()}
        return next(known[name] for name in USERS if name in known)

    def moved(self, settings: Any, index: int) -> Any:
        """Each deployment has a namespace of its own, so its ports may be the same.

        Its subnet lies behind those of the earlier ones.
        """
        network = ipaddress.IPv4Network(settings.subnet, strict=False)
        return settings.model_copy(update={"subnet": f"{network.network_address + 4 * index}/30"})

    @property
    def _root(self) -> str:
        """Where the server finds its folder."""
        return next(p for p in MOUNT_POINTS if Path(p).is_dir())

    def _text(self) -> str:
        port = self.settings.port
        return CONFIGURATION.format(server=self.namespace.server, port=port, http=port + 1, root=self._root)

    def _configuration(self) -> str:
        """Name of the file; it tells the content, so that one with other settings is recognised by its command line."""
        return f"{hashlib.sha256(self._text().encode()).hexdigest()[:8]}.cfg"

    def daemon(self, name: str) -> Daemon:
        host, port = self.namespace.server, self.settings.port
        user = self._user()
        argv = (str(self.program()), "-I", "v4", "-c", f"{self._root}/{self._configuration()}")
        places = (str(self.folder / "spool"), str(self.data / "objects"), self._root)
        enter = ("/bin/sh", "-c", ENTER, "sh", *places, str(user.pw_uid), str(user.pw_gid))
        return Daemon(
            name,
            argv,
            host,
            (port, port + 1),
            lambda: handshake(host, port) and net.answers(host, port + 1, "/"),
            environ={"HOME": self._root, "TMPDIR": self._root},
            prefix=(*self.namespace.prefix, *enter),
            elsewhere=True,
        )

    def make_ready(self) -> None:
        user, spool = self._user(), self.folder / "spool"
        for folder in (spool, self.data / "objects"):
            folder.mkdir(exist_ok=True, mode=0o700)
            os.chown(folder, user.pw_uid, user.pw_gid)
        (spool / "objects").mkdir(exist_ok=True)  # the place where the data are mounted
        # What it tells clients as its address is what its host's name resolves to; name servers cannot be asked from
        # there.
        hosts = f"127.0.0.1 localhost\n{self.namespace.server} {socket.gethostname()}\n"
        for name, text in ((self._configuration(), self._text()), ("hosts", hosts)):
            if not (spool / name).exists() or (spool / name).read_text() != text:
                (spool / name).write_text(text)
                (spool / name).chmod(0o644)
        self.namespace.up()

    def link(self, actor: str, place: str) -> Link:
        return {"device": INSIDE, "namespace": self.namespace.name}

    def dismantle(self) -> None:
        if os.geteuid() == 0:
            self.namespace.down()
        spool = self.folder / "spool"
        for path in spool.iterdir() if spool.exists() else ():
            if path.name != "objects":  # sockets, logs of its own, process numbers
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def endpoint(self, name: str) -> Endpoint:
        url = f"root://{self.namespace.server}:{self.settings.port}/" if self.protocol == "root" else self._http()
        return Endpoint(url, protocol=self.protocol)

    def _http(self) -> str:
        return f"http://{self.namespace.server}:{self.settings.port + 1}"

    def access(self, account: int = 0, front_end: int = 0) -> Access:
        """Always over HTTP.

        The client of root:// has threads, which do no good in a process that starts others.
        """
        from storelab.stores.protocols.open_access import open_access

        self.endpoints(front_end + 1)
        return open_access(Endpoint(self._http(), protocol="http"), None, self.place)

    def warm_up_one(self, endpoint: Endpoint) -> None:
        super().warm_up_one(Endpoint(self._http(), protocol="http"))
        if endpoint.protocol == "root":
            done = processes.ask([sys.executable, "-c", PROBE, endpoint.url], 30)
            if done.returncode:
                raise MeasurementFailed(f"{self.place}: {endpoint.url} is not usable: {processes.words(done)}")

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {"protocol": self.protocol, "network": "a pair of virtual interfaces"}
