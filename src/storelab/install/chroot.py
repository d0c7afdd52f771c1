"""Installing HTCondor for the testbed: a Debian 13 in a folder, since Debian 12 has no HTCondor.

debootstrap makes it from the mirror of the host's own apt sources, with the host's settings for downloads. It is built
beside its place and renamed at the end: a half-built one is never taken for a whole one. No daemon is started in it,
and the host's files are not touched.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

from storelab.core.errors import UserError
from storelab.install import Part, Progress, debian
from storelab.install.running import check_room, told

RELEASE = "trixie"
PACKAGES = ("condor", "minicondor", "python3", "procps")
ROOM = 1.5e9  # bytes of disk while it is built
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DOWNLOADS = re.compile(r"Acquire::(https?|Check-|Retries|Force|Max-|Pipeline)")  # settings of apt that go along
USER = 64999  # user that HTCondor's daemons run as: it runs no jobs of root
# Whatever ends a step, no process of it is left, nor a mount in the folder that is removed then.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def folder(tools: Path) -> Path:
    """Of the chroot."""
    return tools / f"condor-{RELEASE}"


def condor(tools: Path) -> list[Part]:
    return [
        Part(
            f"HTCondor of Debian {RELEASE} in {folder(tools)}",
            "for the testbed: 400 MB on disk, one to two minutes; root, and a Debian or a relative of it",
            lambda: present(tools),
            lambda progress: install(tools, progress),
        )
    ]


def present(tools: Path) -> bool:
    return (folder(tools) / "usr/sbin/condor_master").exists()


def install(tools: Path, progress: Progress) -> None:
    """Build the chroot.

    Raises UserError where storelab is not root, something else lies in its place, there is no debootstrap to be had, no
    Debian mirror or no room; MeasurementFailed where a step fails.
    """
    if os.geteuid() != 0:
        raise UserError("install", "a chroot is made by root alone", "run `storelab install condor` as root")
    if folder(tools).exists():
        raise UserError(
            "install",
            f"{folder(tools)} is there, and holds no HTCondor",
            "move it away: storelab removes nothing that it has not made",
        )
    if shutil.which("debootstrap") is None:
        debian.install(["debootstrap"], progress)
    url = mirror()
    tools.mkdir(parents=True, exist_ok=True)
    check_room(tools, ROOM, f"the chroot takes {ROOM / 1e9:.1f} GB while it is built")
    with tempfile.TemporaryDirectory(prefix=".condor-", dir=tools, ignore_cleanup_errors=True) as work:
        root = Path(work, "root")
        _build(root, url, progress)
        root.rename(folder(tools))


def mirror() -> str:
    """The Debian archive of the host's apt sources. Raises UserError: there is none."""
    line = "$(REPO_URI) $(ORIGIN) $(LABEL) $(COMPONENT)"
    text = told(["apt-get", "indextargets", "--format", line, "Created-By: Packages"], "apt-get", 60)
    for words in map(str.split, text.splitlines()):
        if words[1:] == ["Debian", "Debian", "main"]:
            return words[0]
    raise UserError(
        "install", "the apt sources of this machine name no Debian archive", "add one, and `apt-get update`"
    )


def _build(root: Path, url: str, progress: Progress) -> None:
    progress(f"debootstrap of {RELEASE}")
    settings = [line for line in told(["apt-config", "dump"], "apt-config", 60).splitlines() if DOWNLOADS.match(line)]
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
    told(command, "debootstrap", 1200, environ)
    (root / "etc/apt/apt.conf.d/99host").write_text("\n".join(settings) + "\n")
    policy = root / debian.POLICY.relative_to("/")
    policy.write_text(debian.FORBID)
    policy.chmod(0o755)
    inside = [*ALONE, "chroot", str(root)]
    install = ["install", "-y", "--no-install-recommends", *PACKAGES]
    for what, arguments in (("asking for", ["update"]), ("installing", install)):
        progress(f"{what} {' '.join(PACKAGES)}")
        told([*inside, "apt-get", "-q", *arguments], "apt-get in the chroot", 1200, environ)
    user = f"useradd -u {USER} -g storelab -d /tmp -M storelab"
    for command in ("apt-get clean", f"groupadd -g {USER} storelab", user, "condor_version"):
        told([*inside, *command.split()], command.split()[0], 60, environ)
