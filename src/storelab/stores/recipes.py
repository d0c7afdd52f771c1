"""The list of all names that `storelab install NAME` accepts: kinds of stores, engines and testbeds."""

import importlib
from pathlib import Path

from storelab import stores
from storelab.core.errors import UserError
from storelab.install import Part

# Programs other than stores: name -> module and function, which gets the tools folder and returns a list of parts.
# `root` is the ROOT framework, not the kind of store with this name.
OTHERS = {
    "slurm": ("storelab.install.debian", "slurm"),
    "sshd": ("storelab.install.debian", "sshd"),
    "squid": ("storelab.install.debian", "squid"),
    "condor": ("storelab.install.chroot", "condor"),
    "ceph-18.2": ("storelab.install.chroot", "ceph_18"),
    "xrootd-5.8": ("storelab.install.chroot", "xrootd_5_8"),
    "davix": ("storelab.engines.davix_program", "recipe"),
    "loadgen": ("storelab.install.golang", "loadgen"),
    "root": ("storelab.install.wheels", "root"),
    "slurm-plugin": ("storelab.install.wheels", "slurm_plugin"),
}


def names() -> list[str]:
    """Return all names that can be installed, stores first."""
    return [*(kind for kind in stores.KINDS if stores.load(kind).recipe), *OTHERS]


def parts(name: str, tools: Path) -> list[Part]:
    """Return the parts of a recipe. Raises UserError if the name is unknown or needs no installation."""
    tools = Path(tools).expanduser()
    if name in OTHERS:
        module, function = OTHERS[name]
        return getattr(importlib.import_module(module), function)(tools)
    if name not in stores.KINDS:
        raise UserError("install", f"{name!r} cannot be installed", f"use one of: {', '.join(names())}")
    recipe = stores.load(name).recipe
    if recipe is None:
        raise UserError("install", f"{name} needs no installation", "leave it out; `make setup` installs its clients")
    return recipe(tools)
