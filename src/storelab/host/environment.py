"""The environment as the machine tells it, for every record and for the paper's appendix.

May import: `core`.
"""

import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.core.engines import PACKAGES
from storelab.host.processes import ask


@cache
def packages() -> dict[str, str]:
    """Versions of the packages that take part in a measurement; what is not installed is left out."""
    out = {}
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def git_commit() -> str:
    """Commit of the checkout that the package runs from, `-dirty` when it differs; '' outside of a checkout: the
    environment of a wheel may lie in a repository of something else."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return ""
    describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    # The checkout may be of another user, which git refuses otherwise. A program that it names is not started.
    own = ["-c", f"safe.directory={root}", "-c", "core.fsmonitor=false"]
    done = ask(["git", *own, "-C", root, *describe], 10)
    return "" if done.returncode else done.stdout.strip()


def capture() -> dict[str, Any]:
    """Versions, kernel, CPU, memory. No host name, user or path: those stay out of published records."""
    return {
        "storelab": __version__,
        "git_commit": git_commit(),
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
