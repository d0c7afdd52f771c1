"""`storelab install NAME`: what a managed store needs, by kind (level 2, measuring side). One file for each way of installing.

Every kind has a function that returns its parts; a part knows whether it is there, says what it downloads and needs, and
installs itself. Installing twice does nothing. May import: `host`, `core`. Versions are pinned: Debian's by its release, others by version and hash.
"""

import importlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storelab.core.errors import UserError

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """what: for people, with the version; needs: what is downloaded, and whether root is needed."""

    what: str
    needs: str
    present: Callable[[], bool]
    run: Callable[[Progress], None]


# kind -> module and function(tools folder) -> list of parts
KINDS = {
    "ceph": ("storelab.install.debian", "ceph"),
    "nginx": ("storelab.install.debian", "nginx"),
    "xrootd": ("storelab.install.debian", "xrootd"),
    "slurm": ("storelab.install.debian", "slurm"),
    "condor": ("storelab.install.chroot", "condor"),
    "versitygw": ("storelab.install.golang", "versitygw"),
    "minio": ("storelab.install.golang", "minio"),
    "loadgen": ("storelab.install.golang", "loadgen"),
    "root": ("storelab.install.wheels", "root"),
    "slurm-plugin": ("storelab.install.wheels", "slurm_plugin"),
    "hdfs": ("storelab.stores.hdfs.recipe", "hdfs"),
}


def tools_folder() -> Path:
    """Where programs go that are no Debian packages: STORELAB_TOOLS, else `storelab` in the user's cache folder."""
    chosen = os.environ.get("STORELAB_TOOLS")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(chosen or f"{cache}/storelab").expanduser().absolute()


def parts(kind: str, tools: Path) -> list[Part]:
    """Raises UserError for a kind that needs no installation, or is unknown."""
    if kind == "seaweedfs":
        raise UserError("install", "seaweedfs comes with `make setup`", "there is nothing to install")
    if kind not in KINDS:
        raise UserError("install", f"no store {kind!r} to install", f"one of: {', '.join(KINDS)}")
    module, function = KINDS[kind]
    return getattr(importlib.import_module(module), function)(Path(tools).expanduser())


def program(name: str, kind: str, place: str, folder: Path | None = None) -> Path:
    """Path of an installed program, looked for in `folder`, then in PATH and where Debian keeps servers.

    Raises UserError that says `storelab install …`.
    """
    search = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    found = (shutil.which(name, path=str(folder)) if folder else None) or shutil.which(name) or shutil.which(name, path=search)
    if not found:
        raise UserError(place, f"the program {name} is not installed", f"run `storelab install {kind}`")
    return Path(found)
