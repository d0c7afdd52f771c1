"""Installation of Debian packages on this host. Services of these packages are not started.

The Debian release determines the versions, and updates of a release only fix bugs. Records contain the exact versions.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storelab.core.errors import UserError
from storelab.host.processes import run_command
from storelab.install import Part, Progress
from storelab.install.running import command_output

# dpkg would start the service of a server package. The exit status 101 of this program prevents this.
POLICY = Path("/usr/sbin/policy-rc.d")
FORBID = "#!/bin/sh\n# storelab: services of server packages are not started\nexit 101\n"


def installed(package: str) -> bool:
    """Return whether a Debian package is installed."""
    return run_command(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", package], 60).stdout.startswith("ii")


def _root(*command: str) -> list[str]:
    """Return the command line that runs a command as root. Raises UserError if this is not possible."""
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
    command_output(command, f"apt-get {arguments[0]}", 900, environ)


def install(packages: Sequence[str], progress: Progress) -> None:
    """Install packages. Raises UserError without apt-get or root, and MeasurementFailed if apt-get fails."""
    if not shutil.which("apt-get"):
        raise UserError(
            "install",
            "there is no apt-get on this host",
            f"install these packages with the host's package manager: {' '.join(packages)}",
        )
    progress("updating the package lists of Debian")
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
    """A group of Debian packages that are installed together. `needs` is the printed size of the download."""

    names: Sequence[str]
    needs: str

    def parts(self, tools: Path) -> list[Part]:
        """Return the recipe of these packages, which do not use the tools folder."""
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
    "for the testbed: about 40 packages, 20 MB to download",
).parts
sshd = Packages(("openssh-server", "openssh-client"), "for hosts of the launcher ssh: 2 MB to download").parts
squid = Packages(("squid",), "for `http_cache: squid`: about 8 packages, 4 MB to download").parts
