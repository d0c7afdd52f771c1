"""Several data servers behind doors: who is where, how each daemon is told so, what they say of themselves.

Each door and each data server is a node: a network namespace with an address of its own. A redirector is an xrootd with
a cmsd (the manager), a data server too; the cmsds tell each other which file is where.
"""

import contextlib
import socket
import time
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed
from storelab.install import program
from storelab.stores.base import CLEAN, DEGRADED, DOWN, Condition
from storelab.stores.faults.links import Link
from storelab.stores.managed.base import Managed
from storelab.stores.managed.daemon import within
from storelab.stores.managed.netns import INSIDE
from storelab.stores.managed.target import ASK_S
from storelab.stores.protocols.filesystems import XROOTD
from storelab.stores.xrootd import asking, conf

MOST_DOORS = 4
NODES = {"redirector": "r", "manager": "r", "proxy": "p", "server": "s", "cmsd": "s", "xrootd": "x"}
JOIN_S = 20.0  # until a redirector knows all data servers


class Cluster(Managed):
    """Part of `XRootD`: what several data servers need. `several`: whether there are such."""

    several = False
    stops: Sequence[tuple[str, ...]] = (("redirector-", "proxy-"), ("server-",))
    _asked = 1  # doors of this call of `up`

    @abstractmethod
    def address_of(self, node: str) -> str: ...

    @abstractmethod
    def spool(self, node: str) -> Path: ...

    @abstractmethod
    def root(self) -> str: ...

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
