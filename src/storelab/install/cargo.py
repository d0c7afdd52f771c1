"""The build of Rust programs from crates, as an ordinary user, with the Cargo of this host.

A program is pinned by its version and by the hash of its crate. The crate contains a Cargo.lock with the hashes of all
other crates (`--locked`). Compiled files (some GB) are removed when the build ends, unless CARGO_TARGET_DIR is set.
Crates stay in Cargo's folder. The binary and its stamp stay in `<tools>/bin`. This module may import `host` and `core`.
"""

import contextlib
import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_json, write_json
from storelab.host.processes import run_command
from storelab.install import Part, Progress
from storelab.install.running import build_once, command_output, run

HOME = "~/.cargo"  # default folder of Cargo and its crates


@dataclass(frozen=True)
class Program:
    """A Rust program that is built from crates.

    Attributes
    ----------
    kind
        Name of the store, the crate and the binary.
    version, sha256
        Version and hash of the crate.
    features
        Features that replace the default features.
    least
        Minimum version of Cargo.
    tools
        Further programs that the build needs, each with its Debian package.
    needs
        Requirements, which are printed.
    room
        Disk space in bytes during the build.
    """

    kind: str
    version: str
    sha256: str
    features: tuple[str, ...]
    least: tuple[int, ...]
    tools: tuple[tuple[str, str], ...]
    needs: str
    needed_bytes: float

    def parts(self, tools: Path) -> list[Part]:
        """Return the recipe of this program."""
        return [
            Part(
                f"{self.kind} {self.version}, built from source",
                self.needs,
                lambda: present(self, tools),
                lambda progress: install(self, tools, progress),
            )
        ]


def _requirements(program: Program) -> dict[str, str]:
    return {"crate": program.kind, "version": program.version, "sha256": program.sha256} | {
        "features": " ".join(program.features)
    }


def _binary(program: Program, tools: Path) -> Path:
    return tools / "bin" / program.kind


def present(program: Program, tools: Path) -> bool:
    """Return whether the binary exists, and its stamp shows that it was built from the current pins."""
    binary = _binary(program, tools)
    with contextlib.suppress(UserError, OSError):
        return read_json(binary.with_suffix(".json")) == _requirements(program) | {"bytes": binary.stat().st_size}
    return False


def _home() -> Path:
    return Path(os.environ.get("CARGO_HOME") or HOME).expanduser()


def numbers(version: str) -> tuple[int, ...]:
    """Return the version in a text as numbers: (1, 85, 0) for `cargo 1.85.0 (d73d2caf9 2024-12-31)`.

    Return () if the text has no version.
    """
    found = re.match(r"(?:cargo )?(\d+)\.(\d+)\.(\d+)(?=\s|\Z)", version)
    return tuple(map(int, found.groups())) if found else ()


def cargo_of(program: Program) -> Path:
    """Return the path of Cargo from PATH or from Rust's default folder.

    Raises UserError if it is missing or too old, or if another program that the build needs is missing.
    """
    least, home = ".".join(map(str, program.least)), _home() / "bin"
    hint = f"install Rust {least} or newer"
    found = list(filter(None, (shutil.which("cargo", path=path) for path in (os.environ.get("PATH", ""), str(home)))))
    if not found:
        raise UserError("install", f"there is no cargo in PATH or {home} to build {program.kind}", hint)
    versions = {path: numbers(command_output([path, "--version"], "cargo --version", 60)) for path in found}
    fit = [path for path, version in versions.items() if version >= program.least]
    if not fit:
        has = ".".join(map(str, versions[found[0]])) or "unknown"
        raise UserError("install", f"{found[0]} has version {has}, but {program.kind} needs {least}", hint)
    if missing := [package for name, package in program.tools if not shutil.which(name)]:
        hint = f"apt-get install {' '.join(missing)}, or similar on another system"
        raise UserError("install", f"the build of {program.kind} needs {' and '.join(missing)}", hint)
    return Path(fit[0])


def install(program: Program, tools: Path, progress: Progress) -> None:
    """Build and install a program. If the build fails, nothing is installed.

    Raises UserError without Cargo, with too little disk space, or if the tools folder is not writable, and
    MeasurementFailed if Cargo fails.
    """
    cargo = cargo_of(program)
    there = partial(present, program, tools)
    build_once(
        program.kind,
        program.needed_bytes,
        tools,
        progress,
        there,
        lambda scratch: _build(program, cargo, tools, scratch, progress),
    )


def _build(program: Program, cargo: Path, tools: Path, scratch: Path, progress: Progress) -> None:
    binary, temporary = _binary(program, tools), tools / "bin" / f".{program.kind}.{os.getpid()}"
    progress(f"downloading and building with {cargo}")
    environ = {"CARGO_TARGET_DIR": str(scratch / "target")} | os.environ
    # rustc is in the same folder as cargo
    environ["PATH"] = os.pathsep.join(filter(None, [str(cargo.parent), os.environ.get("PATH", "")]))
    command = [str(cargo), "install", program.kind, "--version", f"={program.version}", "--locked", "--no-track"]
    command += ["--no-default-features", "--features", ",".join(program.features), "--root", str(temporary)]
    try:
        run(command, scratch, environ, scratch / "build.log", progress)
        _check(program, temporary / "bin" / program.kind)
        (temporary / "bin" / program.kind).replace(binary)
        write_json(binary.with_suffix(".json"), _requirements(program) | {"bytes": binary.stat().st_size})
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check(program: Program, binary: Path) -> None:
    """Raise MeasurementFailed if the binary was not built from the pinned crate, or does not run."""
    crates = _home().glob(f"registry/cache/*/{program.kind}-{program.version}.crate")
    if program.sha256 not in {hashlib.sha256(path.read_bytes()).hexdigest() for path in crates}:
        raise MeasurementFailed(f"install: {program.kind} {program.version} is not the crate that storelab pins")
    done = run_command([binary, "--version"], 60)
    if done.returncode or program.version not in done.stdout + done.stderr:
        raise MeasurementFailed(
            f"install: the built {program.kind} does not have version {program.version}, or does not run on this host"
        )
    with binary.open("rb") as f:
        os.fsync(f.fileno())
