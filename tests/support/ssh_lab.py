"""Simulated hosts with OpenSSH: network namespaces with shaped links, each with its own processes, tmpfs and /tmp.

Commands of storelab run on the simulated host `head`. All hosts share the installed programs of this machine. Needs
root.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from common import BIN, environ
from managed import until
from paths import ROOT

from storelab.gang.testbed.links import Network, Plan, enter, write_hosts

PREFIX = "storelab-sh-"
FRONT_END = "10.99.0.241"
# $1: folder of the keys, mounted at /mnt; $2: size of /dev/shm; $3: configuration of sshd
HOST = """
mount --bind "$1" /mnt && mount -t tmpfs none /tmp && mount -t tmpfs -o "size=$2" none /dev/shm &&
mkdir -p /run/sshd /tmp/cache && exec /usr/sbin/sshd -D -e -f "/mnt/$3"
"""
SERVER = """
Port 22
ListenAddress {address}
HostKey /mnt/host.{number}
AuthorizedKeysFile /mnt/authorized
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
Banner /mnt/banner
SetEnv {source}XDG_CACHE_HOME=/tmp/cache
"""
CLIENT = """
Host alias1
    HostName node1
    HostKeyAlias node1
Host keyless
    HostName node1
    HostKeyAlias node1
    IdentityFile {folder}/other
Host * !keyless
    IdentityFile {folder}/key
Host *
    User root
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known
    GlobalKnownHostsFile /dev/null
"""


class Hosts:
    """Hosts `node1`, `node2`, … with sshd, and a head. options: options of ssh."""

    def __init__(self, folder: Path, count: int = 4, rate: str = "1gbit"):
        self.folder, self.plan = folder, Plan([rate] * count, [rate], PREFIX)
        self.options = ["-F", str(folder / "config")]
        self.network = Network(folder / "network")
        self.servers: dict[int, subprocess.Popen] = {}
        self.names = [f"node{n}" for n in range(1, count + 1)]

    def up(self) -> None:
        """Make the keys and the network, and start all servers."""
        for name in ("key", "other", *(f"host.{n}" for n in range(1, len(self.names) + 1))):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(self.folder / name)]
            subprocess.run(make, check=True)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized")
        (self.folder / "banner").write_text("Authorised use only.\n")
        (self.folder / "config").write_text(CLIENT.format(folder=self.folder))
        self.write_known()
        self.network.up(self.plan)
        self.hosts = write_hosts(self.folder, self.plan)
        for n in range(1, len(self.names) + 1):
            self.start(n)

    def write_known(self, **changed: str) -> None:
        """Write the file of known host keys. changed: other public keys for some hosts."""
        keys = {name: (self.folder / f"host.{n}.pub").read_text() for n, name in enumerate(self.names, 1)} | changed
        (self.folder / "known").write_text("".join(f"{name} {' '.join(k.split()[:2])}\n" for name, k in keys.items()))

    def start(self, number: int, shm: str = "500m", storelab: bool = True) -> None:
        """Start the server of a host with a /dev/shm of this size.

        storelab: True if Python can import this checkout.
        """
        space, address = list(self.plan.nodes.items())[number - 1]
        text = SERVER.format(address=address, number=number, source=f"PYTHONPATH={ROOT}/src " * storelab)
        (self.folder / f"sshd.{number}").write_text(text)
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        run = ["sh", "-c", HOST, "sh", str(self.folder), shm, f"sshd.{number}"]
        with open(self.folder / f"sshd.{number}.log", "wb") as log:
            self.servers[number] = subprocess.Popen(
                [*enter(space, f"node{number}", self.hosts), *isolated, *run], stdout=log, stderr=log
            )
        until(lambda: b"listening" in (self.folder / f"sshd.{number}.log").read_bytes(), 20, 0.1)

    def kill(self, number: int) -> None:
        """Kill all processes of a host at once, like a power failure."""
        server = self.servers.pop(number)
        server.send_signal(signal.SIGKILL)
        server.wait()

    def restart(self, number: int, shm: str = "500m", storelab: bool = True) -> None:
        self.kill(number)
        self.start(number, shm, storelab)

    def cut(self, number: int, down: bool = True) -> None:
        """Set the link of a host down or up."""
        state = "down" if down else "up"
        command = ["ip", "-n", self.plan.switch, "link", "set", f"node{number}", state]
        subprocess.run(command, check=True)

    def down(self) -> None:
        for number in list(self.servers):
            self.kill(number)
        self.network.down()

    def head(self, *command: str) -> list[str]:
        """Return the command line that runs a command on the head."""
        return [*enter(self.plan.head, os.uname().nodename, self.hosts), *command]

    def on(self, number: int, *command: str) -> str:
        """Run a command on a host, and return its output."""
        inside = ["nsenter", f"--target={self.first(number)}", "--mount", "--pid", *command]
        return subprocess.run(inside, capture_output=True, text=True, timeout=20, check=False).stdout

    def first(self, number: int) -> int:
        """Return the pid of the sshd of a host."""
        children = Path(f"/proc/{self.servers[number].pid}/task/{self.servers[number].pid}/children")
        return int(children.read_text().split()[0])

    def storelab(self, folder: Path, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess:
        return self.run(folder, str(BIN / "storelab"), *arguments, timeout=timeout)

    def run(self, folder: Path, *command: str, timeout: float = 300) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.head(*command), cwd=folder, env=environ(), capture_output=True, text=True, timeout=timeout, check=False
        )

    def begin(self, folder: Path, *command: str) -> subprocess.Popen:
        """Start a command on the head in a separate session. `os.killpg` sends it a signal like Ctrl-C."""
        pipe: Any = subprocess.PIPE
        return subprocess.Popen(
            self.head(*command), cwd=folder, env=environ(), stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    def nothing_left(self) -> bool:
        """Wait until no host has a process of an agent or client, or a file of a gang."""
        until(lambda: not any(self.on(n, "pgrep", "-f", "storelab.gang") for n in self.servers), 40, 0.3)
        time.sleep(0.2)
        return not any(self.on(n, "sh", "-c", "ls -d /dev/shm/storelab-* 2>/dev/null") for n in self.servers)
