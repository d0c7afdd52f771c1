"""Folders with Debian 13, for programs that the host's Debian has in an older version or not at all.

debootstrap creates a folder from the mirror in the host's apt sources, with the host's settings for downloads. The
folder is renamed at the end, so that an incomplete folder is not used. No daemon is started during the installation,
and the host's files are not changed.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storelab.core.errors import UserError
from storelab.install import Part, Progress, debian, tools_folder
from storelab.install.running import command_output, require_space

RELEASE = "trixie"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT_SETTINGS = re.compile(r"Acquire::(https?|Check-|Retries|Force|Max-|Pipeline)")  # settings of apt that are copied
CONDOR_USER = 64999  # user of HTCondor's daemons, which refuse to run jobs of root
# When a step ends for any reason, its processes and its mounts in the folder end too. Then the folder is removed.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# Shell script: replace the programs and libraries of the host by those of a folder, and execute a program. Only this
# program sees them. All other folders remain those of the host, with its users, hosts and processes.
ENTER = """set -e
root=$1
shift
for path in /etc/ld.so.cache /etc/alternatives /usr; do
    if [ -e "$path" ]; then mount --bind "$root$path" "$path"; fi
done
exec "$@"
"""


@dataclass(frozen=True)
class Chroot:
    """A folder with Debian 13 and some of its packages.

    Attributes
    ----------
    name
        Name for `storelab install`.
    what, needs
        Content of the folder, and the size of the download and of the folder; both are printed.
    packages
        Debian packages of the folder.
    program
        Path of a program in the folder. The folder is complete if the program exists.
    needed_bytes
        Disk space during the build.
    steps
        Commands that run in the folder at the end.
    """

    name: str
    what: str
    needs: str
    packages: Sequence[str]
    program: str
    needed_bytes: float
    steps: Sequence[str] = ()

    def parts(self, tools: Path) -> list[Part]:
        """Return the recipe of this folder."""
        return [
            Part(
                f"{self.what} of Debian {RELEASE} in {self.folder(tools)}",
                f"{self.needs}; root, and Debian or a derivative",
                lambda: self.present(tools),
                lambda progress: self.install(tools, progress),
            )
        ]

    def folder(self, tools: Path) -> Path:
        """Return the path of the folder."""
        return tools / f"{self.name}-{RELEASE}"

    def present(self, tools: Path) -> bool:
        """Return whether the folder is in the tools folder."""
        return (self.folder(tools) / self.program).exists()

    def path(self, name: str, place: str) -> Path:
        """Return the path of a program in the folder. Raises UserError if it is not installed."""
        found = self.folder(tools_folder()) / "usr/bin" / name
        if not found.exists():
            raise UserError(place, f"{self.what} is not installed", f"run `storelab install {self.name}` as root")
        return found

    def contains(self, program: Path) -> bool:
        """Return whether a program is in this folder."""
        return program.is_relative_to(self.folder(tools_folder()))

    def enter(self) -> tuple[str, ...]:
        """Return the command prefix that runs one of the programs in a separate mount namespace.

        Only root can mount. Other users get the rights of root in a user namespace, over their own files only.
        """
        users = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        return ("unshare", "--mount", *users, "/bin/sh", "-c", ENTER, "sh", str(self.folder(tools_folder())))

    def install(self, tools: Path, progress: Progress) -> None:
        """Build the folder.

        Raises UserError if storelab is not root, if the folder has other content, or if debootstrap, a Debian mirror or
        disk space is missing. Raises MeasurementFailed if a step fails.
        """
        folder = self.folder(tools)
        if os.geteuid() != 0:
            raise UserError("install", "only root can create a chroot", f"run `storelab install {self.name}` as root")
        if folder.exists():
            raise UserError(
                "install",
                f"{folder} exists but does not contain {self.what}",
                "move it to another place, because storelab does not remove files that it has not created",
            )
        if shutil.which("debootstrap") is None:
            debian.install(["debootstrap"], progress)
        url = mirror()
        tools.mkdir(parents=True, exist_ok=True)
        require_space(tools, self.needed_bytes, f"building the chroot needs {self.needed_bytes / 1e9:.1f} GB")
        with tempfile.TemporaryDirectory(prefix=f".{self.name}-", dir=tools, ignore_cleanup_errors=True) as work:
            root = Path(work, "root")
            self._build(root, url, progress)
            root.rename(folder)

    def _build(self, root: Path, url: str, progress: Progress) -> None:
        progress(f"debootstrap of {RELEASE}")
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
        command = [*ALONE, "debootstrap", "--variant=minbase", *keys, *certificates, RELEASE, str(root), url]
        command_output(command, "debootstrap", 1200, environ)
        (root / "etc/apt/apt.conf.d/99host").write_text("\n".join(settings) + "\n")
        policy = root / debian.POLICY.relative_to("/")
        policy.write_text(debian.FORBID)
        policy.chmod(0o755)
        inside = [*ALONE, "chroot", str(root)]
        install = ["install", "-y", "--no-install-recommends", *self.packages]
        for what, arguments in (("updating package lists for", ["update"]), ("installing", install)):
            progress(f"{what} {' '.join(self.packages)}")
            command_output([*inside, "apt-get", "-q", *arguments], "apt-get in the chroot", 1200, environ)
        for step in ("apt-get distclean", *self.steps):
            command_output([*inside, *step.split()], step.split()[0], 60, environ)


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


# HTCondor for the testbed, because Debian 12 has no HTCondor.
CONDOR = Chroot(
    "condor",
    "HTCondor",
    "for the testbed: 95 MB to download, 320 MB on disk, one to two minutes",
    ("condor", "minicondor", "python3", "procps"),
    "usr/sbin/condor_master",
    1.5e9,
    (
        f"groupadd -g {CONDOR_USER} storelab",
        f"useradd -u {CONDOR_USER} -g storelab -d /tmp -M storelab",
        "condor_version",
    ),
)
condor = CONDOR.parts

# Versions of stores that Debian 12 does not have.
XROOTD_5_8 = Chroot(
    "xrootd-5.8",
    "XRootD 5.8",
    "80 MB to download, 240 MB on disk, one to two minutes",
    ("xrootd-server", "xrootd-server-plugins"),
    "usr/bin/xrootd",
    1e9,
    ("xrootd -v",),
)
xrootd_5_8 = XROOTD_5_8.parts
CEPH_18 = Chroot(
    "ceph-18.2",
    "Ceph 18.2",
    "190 MB to download, 650 MB on disk, two to three minutes",
    ("ceph-mon", "ceph-mgr", "ceph-osd", "radosgw", "ceph-common"),
    "usr/bin/ceph-osd",
    2e9,
    ("radosgw --version",),
)
ceph_18 = CEPH_18.parts
