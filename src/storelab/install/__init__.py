"""Installation of the software of stores, testbeds and engines for `storelab install NAME`.

There is one module for each method of installation. A recipe is a function that gets the tools folder and returns
parts. A part can check whether it is installed, describe its download and requirements, and install itself. The recipe
of a store or engine is in the module of this store or engine; all other recipes are in this package.
`stores/recipes.py` finds a recipe by its name. Installed parts are not installed again. Versions are pinned: Debian
packages by the release, others by version and hash. This package may import `host` and `core`.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storelab.core.errors import UserError

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """A part of a recipe. `what` is its name with the version, and `needs` its requirements; both are printed."""

    what: str
    needs: str
    present: Callable[[], bool]
    run: Callable[[Progress], None]


SERVERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def tools_folder() -> Path:
    """Return the folder of installed programs: STORELAB_TOOLS, or `storelab` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("STORELAB_TOOLS") or f"{cache}/storelab").expanduser().absolute()


def program(name: str, kind: str, place: str) -> Path:
    """Return the path of an installed program, from the tools folder, PATH, or Debian's folders of servers.

    `kind` is the recipe that installs the program. `place` is for messages. Raises UserError if it is not installed.
    """
    folders = [str(tools_folder() / "bin"), os.environ.get("PATH", ""), "/usr/local/bin:/usr/bin:/bin", *SERVERS]
    found = shutil.which(name, path=os.pathsep.join(filter(None, folders)))
    if not found:
        raise UserError(place, f"the program {name} is not installed", f"run `storelab install {kind}`")
    return Path(found)
