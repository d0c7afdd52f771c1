"""`storelab install NAME`: what a store, a testbed or an engine needs. One file for each way of installing.

A recipe is a function of the tools folder that returns parts; a part knows whether it is there, says what it downloads
and needs, and installs itself. The recipe of a store, or of an engine's own program, lives with it, the others here.
Installing twice does nothing. Versions are pinned: Debian's by its release, others by version and hash. May import:
`host`, `core`.
"""

import importlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storelab.core import stores
from storelab.core.errors import UserError

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """One thing to install. what: for people, with the version; needs: what is downloaded, and whether root must."""

    what: str
    needs: str
    present: Callable[[], bool]
    run: Callable[[Progress], None]


# What is installed besides stores: name -> module and function(tools folder) -> list of parts. `root` is ROOT, not the
# kind of store of that name.
OTHERS = {
    "slurm": ("storelab.install.debian", "slurm"),
    "squid": ("storelab.install.debian", "squid"),
    "condor": ("storelab.install.chroot", "condor"),
    "davix": ("storelab.engines.davix_program", "recipe"),
    "loadgen": ("storelab.install.golang", "loadgen"),
    "root": ("storelab.install.wheels", "root"),
    "slurm-plugin": ("storelab.install.wheels", "slurm_plugin"),
}


SERVERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def tools_folder() -> Path:
    """Where programs go that are no Debian packages: STORELAB_TOOLS, else `storelab` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("STORELAB_TOOLS") or f"{cache}/storelab").expanduser().absolute()


def parts(kind: str, tools: Path) -> list[Part]:
    """Raises UserError for a kind that needs no installation, or is unknown."""
    tools = Path(tools).expanduser()
    if kind in OTHERS:
        module, function = OTHERS[kind]
        return getattr(importlib.import_module(module), function)(tools)
    if kind not in stores.KINDS:
        known = [*(k for k in stores.KINDS if stores.load(k).recipe), *OTHERS]
        raise UserError("install", f"no store {kind!r} to install", f"one of: {', '.join(known)}")
    recipe = stores.load(kind).recipe
    if recipe is None:
        raise UserError("install", f"there is nothing to install for {kind}", "what it needs comes with `make setup`")
    return recipe(tools)


def program(name: str, kind: str, place: str) -> Path:
    """Path of an installed program, looked for in the tools folder, then in PATH and where Debian keeps servers.

    kind: what installs it. place: in the configuration, for messages. Raises UserError that says `storelab install …`.
    """
    folders = [str(tools_folder() / "bin"), os.environ.get("PATH", ""), "/usr/local/bin:/usr/bin:/bin", *SERVERS]
    found = shutil.which(name, path=os.pathsep.join(filter(None, folders)))
    if not found:
        raise UserError(place, f"the program {name} is not installed", f"run `storelab install {kind}`")
    return Path(found)
