"""What `storelab install NAME` can install: a kind of store with a recipe, an engine, or a testbed."""

import importlib
from pathlib import Path

from storelab import stores
from storelab.core.errors import UserError
from storelab.install import Part

# Installable programs other than stores: name -> module and function(tools folder) -> list of parts. `root` is ROOT,
# not the kind of store of that name.
OTHERS = {
    "slurm": ("storelab.install.debian", "slurm"),
    "sshd": ("storelab.install.debian", "sshd"),
    "squid": ("storelab.install.debian", "squid"),
    "condor": ("storelab.install.debian", "condor"),
    "davix": ("storelab.engines.davix_program", "recipe"),
    "loadgen": ("storelab.install.golang", "loadgen"),
    "root": ("storelab.install.wheels", "root"),
    "slurm-plugin": ("storelab.install.wheels", "slurm_plugin"),
}


def names() -> list[str]:
    """Return the names of all that can be installed, stores first."""
    return [*(kind for kind in stores.KINDS if stores.load(kind).recipe), *OTHERS]


def parts(name: str, tools: Path) -> list[Part]:
    """Return the parts of a recipe. Raises UserError for a kind that needs no installation, or is unknown."""
    tools = Path(tools).expanduser()
    if name in OTHERS:
        module, function = OTHERS[name]
        return getattr(importlib.import_module(module), function)(tools)
    if name not in stores.KINDS:
        raise UserError("install", f"{name!r} cannot be installed", f"use one of: {', '.join(names())}")
    recipe = stores.load(name).recipe
    if recipe is None:
        raise UserError("install", f"{name} needs no installation", "`make setup` installs what it needs")
    return recipe(tools)
