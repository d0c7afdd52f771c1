"""`storelab install NAME`: what a store, a testbed or an engine needs. One file for each way of installing.

A recipe is a function of the tools folder that returns parts; a part knows whether it is there, says what it downloads
and needs, and installs itself. The recipe of a store, or of an engine's own program, is next to it, the others are
here; `stores/recipes.py` finds one by its name. Installing twice does nothing. Versions are pinned: Debian's by its
release, others by version and hash. May import: `host`, `core`.
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
    """One thing to install. what: for people, with the version; needs: what is downloaded, and whether root must."""

    what: str
    needs: str
    present: Callable[[], bool]
    run: Callable[[Progress], None]


SERVERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def tools_folder() -> Path:
    """Where programs go that are no Debian packages: STORELAB_TOOLS, else `storelab` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("STORELAB_TOOLS") or f"{cache}/storelab").expanduser().absolute()


def program(name: str, kind: str, place: str) -> Path:
    """Path of an installed program, looked for in the tools folder, then in PATH and where Debian keeps servers.

    kind: what installs it. place: in the configuration, for messages. Raises UserError that says `storelab install …`.
    """
    folders = [str(tools_folder() / "bin"), os.environ.get("PATH", ""), "/usr/local/bin:/usr/bin:/bin", *SERVERS]
    found = shutil.which(name, path=os.pathsep.join(filter(None, folders)))
    if not found:
        raise UserError(place, f"the program {name} is not installed", f"run `storelab install {kind}`")
    return Path(found)
