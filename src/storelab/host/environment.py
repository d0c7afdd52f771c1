"""Describe the environment for records and for the paper's appendix: versions, kernel, CPU, memory, and links."""

import json
import os
import platform
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.core import records
from storelab.core.engines import PACKAGES
from storelab.core.redaction import without_tokens
from storelab.host.processes import die_with_parent, run_command

INTERFACES = Path("/sys/class/net")
PLACES = "/usr/sbin:/sbin"  # folders of `tc` and `ip`; the PATH of a user may not have them
# Hardware interfaces and their bonds have one of these files; veth, bridges and tunnels do not.
REAL = ("device", "bonding")
# Files of a checkout that determine what is measured. Configuration is not listed, because `plan.json` has it.
CODE = ("src", "loadgen", "rules", "profiles", "Snakefile")
MAX_CHANGES = 1_000_000  # maximum size in bytes of changes that are kept in records
GIT_S = 10  # time limit in seconds for all git commands of one call


@cache
def packages() -> dict[str, str]:
    """Return the versions of the installed packages that affect a measurement."""
    out = {}
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out


def cpu_model() -> str:
    """Return the model name of the CPU."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Checkout:
    """The state of a checkout: its commit with `-dirty` if CODE was changed, and the changes as a text for `git apply`.

    `problem` is the reason why the changes are not kept.
    """

    commit: str
    changes: str = ""
    sha256: str = ""
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the values for the environment of a record."""
        about = {"sha256": self.sha256, "not_kept": self.problem}
        changes = {name: value for name, value in about.items() if value}
        return {"git_commit": self.commit} | ({"git_changes": changes} if changes else {})


def _root() -> Path | None:
    """Return the folder of the git checkout that contains the package, or None.

    Parent folders are not searched, because they may be another repository.
    """
    root = Path(__file__).resolve().parents[3]
    return root if (root / ".git").exists() else None


def _git(root: Path, *words: str | bytes, until: float | None = None, feed: bytes = b"") -> bytes | None:
    """Return the output of git, or None if it failed, is missing, or ran until the time `until` (monotonic)."""
    # Without safe.directory, git refuses a checkout of another user. The other options, --no-ext-diff and --no-textconv
    # prevent that git starts programs from the configuration of that checkout.
    options = ["-c", f"safe.directory={root}", "-c", "core.fsmonitor=false", "-c", "core.bigFileThreshold=4m"]
    limit_s = GIT_S if until is None else max(0.0, until - time.monotonic())
    command = ["git", "--no-optional-locks", *options, "-C", str(root), *words]
    # Not `run_command`, because its text mode changes line ends.
    main = threading.current_thread() is threading.main_thread()
    try:
        done = subprocess.run(
            command,
            input=feed,
            capture_output=True,
            timeout=limit_s,
            preexec_fn=die_with_parent() if main else None,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # `diff --no-index` returns 1 for files that differ
    return done.stdout if done.returncode == 0 or (done.returncode == 1 and "--no-index" in words) else None


def checkout() -> Checkout:
    """Return the commit and the changes of the checkout that contains the package.

    Outside of a checkout, the commit is empty. The result is cached, because a running process does not load changed
    code.
    """
    root = _root()
    return _checkout(root) if root else Checkout("")


@cache
def _checkout(root: Path) -> Checkout:
    described = _git(root, "describe", "--always", "--abbrev=12", "--exclude=*")
    if described is None:
        return Checkout("")
    commit, dirty = (name := described.decode().strip()), f"{name}-dirty"
    until = time.monotonic() + GIT_S
    status = _git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--", *CODE)
    if not status:
        return Checkout(commit) if status == b"" else Checkout(dirty, problem="`git status` failed or took too long")
    new = [line[3:] for line in status.split(b"\0") if line.startswith(b"?? ")]
    diff: tuple[str, ...] = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--full-index")
    parts = [_git(root, *diff, "HEAD", "--", *CODE, until=until)]
    parts += [_git(root, *diff, "--no-index", "--", "/dev/null", path, until=until) for path in new]
    if None in parts:
        return Checkout(dirty, problem="`git diff` failed or took too long")
    changes = b"".join(part or b"" for part in parts)
    if len(changes) > MAX_CHANGES:
        limit = f"more than {MAX_CHANGES / 1e6:g} MB"
        problem = f"they have {len(changes) / 1e6:.1f} MB, {limit}"
        return Checkout(dirty, sha256=records.sha256_of(changes), problem=problem)
    text = without_tokens(changes.decode(errors="replace"))
    return Checkout(dirty, text, records.sha256_of(text.encode()))


def unknown_commits(commits: Iterable[str]) -> list[str]:
    """Return the commits of records that are missing in the checkout.

    Return [] outside of a checkout, without git, and in a shallow clone, because it lacks older commits.
    """
    root, names = _root(), sorted({name.removesuffix("-dirty") for name in commits} - {""})
    if not root or not names or _git(root, "rev-parse", "--is-shallow-repository") != b"false\n":
        return []
    asked = "".join(f"{name}^{{commit}}\n" for name in names)
    lines = (_git(root, "cat-file", "--batch-check", feed=asked.encode()) or b"").decode().splitlines()
    return [name for name, line in zip(names, lines, strict=False) if line.endswith(" missing")]


def capture() -> dict[str, Any]:
    """Return versions, kernel, CPU and memory, but no host name, user or path, because records are published."""
    return {
        "storelab": __version__,
        **checkout().to_json(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "platform": _distribution(),
        "cpu_model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "packages": packages(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()


def link_speeds() -> dict[str, int]:
    """Return interface -> speed in bits/s, from its `tbf` rate limit or its driver.

    Interfaces of unknown speed are omitted. No error is raised, because a monitor must not end a measurement.
    """
    names = [path.name for path in INTERFACES.iterdir()] if INTERFACES.is_dir() else []
    known = {name: speed for name in names if (speed := _driver_speed(name))}
    for rule in _listed("tc", "qdisc", "show"):
        with suppress(KeyError, TypeError, ValueError):  # older programs write rates as text
            if rule["kind"] == "tbf" and rule["root"] and rule["dev"] != "lo":
                bits = 8 * int(rule["options"]["rate"])
                known[rule["dev"]] = min(bits, known.get(rule["dev"], bits))
    return known


def link_speeds_of(hosts: Sequence[str]) -> list[int | None]:
    """Return the speed in bits/s of the local interface with the address of each host; None for other hosts."""
    interfaces = {
        address["local"]: link["ifname"]
        for link in _listed("ip", "addr", "show")
        for address in link.get("addr_info", ())
        if "local" in address
    }
    known = link_speeds()
    return [known.get(interfaces.get(_address(host), "")) for host in hosts]


def _address(host: str) -> str:
    with suppress(OSError, UnicodeError):
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    return ""


def _driver_speed(interface: str) -> int | None:
    folder = INTERFACES / interface
    with suppress(OSError, ValueError):
        if any((folder / kind).exists() for kind in REAL) and (speed := int((folder / "speed").read_text())) > 0:
            return speed * 10**6
    return None


def _listed(program: str, *words: str) -> list[Mapping[str, Any]]:
    """Return the output of `tc` or `ip`, or [] if the program is missing or fails."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{PLACES}")
    done = run_command([path or program, "-j", *words], 5)
    with suppress(ValueError, TypeError):
        return [entry for entry in json.loads(done.stdout) if isinstance(entry, dict)]
    return []
