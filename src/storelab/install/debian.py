"""Installation of Debian packages, and of a chroot with HTCondor. Services of these packages are not started.

The Debian release determines the versions, and updates of a release only fix bugs. Records contain the exact versions.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storelab.core.errors import UserError
from storelab.host.processes import run_command
from storelab.install import Part, Progress
from storelab.install.running import command_output, require_space

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


# HTCondor for the testbed is installed in a folder with Debian 13, because Debian 12 has no HTCondor. debootstrap
# creates it from the mirror in the host's apt sources, with the host's settings for downloads. The folder is renamed at
# the end, so that an incomplete folder is not used. No daemon is started in it, and the host's files are not changed.
CONDOR_RELEASE = "trixie"
CONDOR_PACKAGES = ("condor", "minicondor", "python3", "procps")
CONDOR_ROOM = 1.5e9  # disk space in bytes during the build
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT_SETTINGS = re.compile(r"Acquire::(https?|Check-|Retries|Force|Max-|Pipeline)")  # settings of apt that are copied
CONDOR_USER = 64999  # user of HTCondor's daemons, which refuse to run jobs of root
# When a step ends for any reason, its processes and its mounts in the folder end too. Then the folder is removed.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def condor_folder(tools: Path) -> Path:
    """Return the folder of the chroot."""
    return tools / f"condor-{CONDOR_RELEASE}"


def condor(tools: Path) -> list[Part]:
    """Return the recipe of HTCondor for the testbed."""
    return [
        Part(
            f"HTCondor of Debian {CONDOR_RELEASE} in {condor_folder(tools)}",
            "for the testbed: 400 MB on disk, one to two minutes; root, and Debian or a derivative",
            lambda: condor_present(tools),
            lambda progress: install_condor(tools, progress),
        )
    ]


def condor_present(tools: Path) -> bool:
    """Return whether HTCondor is in the tools folder."""
    return (condor_folder(tools) / "usr/sbin/condor_master").exists()


def install_condor(tools: Path, progress: Progress) -> None:
    """Build the chroot.

    Raises UserError if storelab is not root, if the folder has other content, or if debootstrap, a Debian mirror or
    disk space is missing. Raises MeasurementFailed if a step fails.
    """
    if os.geteuid() != 0:
        raise UserError("install", "only root can create a chroot", "run `storelab install condor` as root")
    if condor_folder(tools).exists():
        raise UserError(
            "install",
            f"{condor_folder(tools)} exists but does not contain HTCondor",
            "move it to another place, because storelab does not remove files that it has not created",
        )
    if shutil.which("debootstrap") is None:
        install(["debootstrap"], progress)
    url = mirror()
    tools.mkdir(parents=True, exist_ok=True)
    require_space(tools, CONDOR_ROOM, f"building the chroot needs {CONDOR_ROOM / 1e9:.1f} GB")
    with tempfile.TemporaryDirectory(prefix=".condor-", dir=tools, ignore_cleanup_errors=True) as work:
        root = Path(work, "root")
        _build_chroot(root, url, progress)
        root.rename(condor_folder(tools))


def mirror() -> str:
    """Return the URL of the Debian archive in the host's apt sources. Raises UserError if there is none."""
    line = "$(REPO_URI) $(ORIGIN) $(LABEL) $(COMPONENT)"
    text = command_output(["apt-get", "indextargets", "--format", line, "Created-By: Packages"], "apt-get", 60)
    for words in map(str.split, text.splitlines()):
        if words[1:] == ["Debian", "Debian", "main"]:
            return words[0]
    raise UserError(
        "install", "the apt sources of this host contain no Debian archive", "add one, and run `apt-get update`"
    )


def _build_chroot(root: Path, url: str, progress: Progress) -> None:
    progress(f"debootstrap of {CONDOR_RELEASE}")
    settings = [
        line
        for line in command_output(["apt-config", "dump"], "apt-config", 60).splitlines()
        if APT_SETTINGS.match(line)
    ]
    proxies = {}
    for scheme in ("http", "https"):
        found = [line.split('"')[1] for line in settings if line.startswith(f"Acquire::{scheme}::Proxy ")]
        proxies |= {f"{scheme}_proxy": found[0]} if found and found[0] not in ("", "DIRECT") else {}
    environ = (
        proxies
        | os.environ
        | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    )
    keys = [f"--keyring={KEYRING}"] if KEYRING.exists() else []
    certificates = ["--include=ca-certificates"] if url.startswith("https:") else []
    command = [*ALONE, "debootstrap", "--variant=minbase", *keys, *certificates, CONDOR_RELEASE, str(root), url]
    command_output(command, "debootstrap", 1200, environ)
    (root / "etc/apt/apt.conf.d/99host").write_text("\n".join(settings) + "\n")
    policy = root / POLICY.relative_to("/")
    policy.write_text(FORBID)
    policy.chmod(0o755)
    inside = [*ALONE, "chroot", str(root)]
    install = ["install", "-y", "--no-install-recommends", *CONDOR_PACKAGES]
    for what, arguments in (("updating package lists for", ["update"]), ("installing", install)):
        progress(f"{what} {' '.join(CONDOR_PACKAGES)}")
        command_output([*inside, "apt-get", "-q", *arguments], "apt-get in the chroot", 1200, environ)
    user = f"useradd -u {CONDOR_USER} -g storelab -d /tmp -M storelab"
    for command in ("apt-get clean", f"groupadd -g {CONDOR_USER} storelab", user, "condor_version"):
        command_output([*inside, *command.split()], command.split()[0], 60, environ)
