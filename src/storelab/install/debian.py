"""Installing Debian packages. Services that they bring are not started.

Pinned by the release: Debian 12 fixes bugs and changes no versions; records bear the exact version that measured.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storelab.core.errors import UserError
from storelab.host.processes import ask
from storelab.install import Part, Progress
from storelab.install.running import told

# A server package would start its service where an init system runs; dpkg asks this program first, and 101 forbids it.
POLICY = Path("/usr/sbin/policy-rc.d")
FORBID = "#!/bin/sh\n# storelab: services of server packages are not started\nexit 101\n"


def installed(package: str) -> bool:
    return ask(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", package], 60).stdout.startswith("ii")


def _root(*command: str) -> list[str]:
    """The command as root. Raises UserError where that is not possible."""
    if os.geteuid() == 0:
        return list(command)
    if shutil.which("sudo"):
        return ["sudo", *command]
    raise UserError("install", "Debian packages need root", f"run as root: {' '.join(command)}")


def _apt(*arguments: str) -> None:
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    command = _root("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120", *arguments)
    if command[0] == "sudo":
        command[1:1] = ["env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"]
    told(command, f"apt-get {arguments[0]}", 900, environ)


def install(packages: Sequence[str], progress: Progress) -> None:
    """Raises UserError without apt-get or root, MeasurementFailed where apt-get fails."""
    if not shutil.which("apt-get"):
        raise UserError(
            "install", "there is no apt-get on this machine", f"install with its own packages: {' '.join(packages)}"
        )
    progress("asking Debian's archive for its lists")
    _apt("update")
    forbidden = POLICY.exists()
    if not forbidden:
        subprocess.run(_root("tee", str(POLICY)), input=FORBID.encode(), stdout=subprocess.DEVNULL, check=True)
        subprocess.run(_root("chmod", "755", str(POLICY)), check=True)
    try:
        progress(f"installing {' '.join(packages)}")
        _apt("install", "--no-install-recommends", *packages)
    finally:
        if not forbidden:
            subprocess.run(_root("rm", "-f", str(POLICY)), check=True)


@dataclass(frozen=True)
class Packages:
    """Debian packages that are installed together. needs: what is downloaded, for people."""

    names: Sequence[str]
    needs: str

    def parts(self, tools: Path) -> list[Part]:
        """The recipe of what these packages bring; nothing of them lies in the tools folder."""
        return [
            Part(
                f"Debian packages {', '.join(self.names)}",
                f"{self.needs}; root or sudo",
                lambda: all(map(installed, self.names)),
                lambda progress: install(self.names, progress),
            )
        ]


slurm = Packages(
    ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "iproute2", "iperf3"),
    "for the testbed: some 40 packages, 20 MB to download",
).parts
squid = Packages(("squid",), "for `http_cache: squid`: some 8 packages, 4 MB to download").parts
