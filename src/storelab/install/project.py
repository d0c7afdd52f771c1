"""The files of a project folder (Snakefile, rules, campaigns …), and the sources that `storelab install` builds from.

They lie once: at the root of a checkout. `hatch_build.py` puts them into the wheel, as `storelab/project/`. May import:
`core`.
"""

import shutil
from pathlib import Path

from storelab.core import records
from storelab.core.errors import UserError

PACKED = Path(__file__).parents[1] / "project"  # in a wheel
CHECKOUT = Path(__file__).parents[3]
# What a project folder has; sources stay in the package.
PROJECT = ("Makefile", "Snakefile", "config.yaml", "rules", "profiles", "campaigns", "notebooks", "paper", "envs")
SOURCES = ("envs/go", "envs/hdfs")
# A new project has no records: it begins with the campaign that measures some.
FIRST = ("campaign: reference ", "campaign: demo            # a file in campaigns/: it says what is measured\n")


def shipped(name: str) -> Path:
    """A file or folder beside the package, in a wheel or a checkout; whether it is there is not looked at."""
    return (PACKED if PACKED.is_dir() else CHECKOUT) / name


def files(root: Path | None = None) -> dict[str, Path]:
    """Name -> file of a project folder: of the one at `root`, else those that come with storelab."""
    out: dict[str, Path] = {}
    for name in PROJECT:
        place = root / name if root else shipped(name)
        found = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        out |= {f"{name}/{p.relative_to(place).as_posix()}" if p != place else name: p for p in found}
    return {name: path for name, path in out.items() if not _left_out(name)}


def _left_out(name: str) -> bool:
    hidden = any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
    return hidden or name.startswith(tuple(f"{folder}/" for folder in SOURCES))


def init(folder: Path) -> list[str]:
    """Write a project folder; the names of what was written: what is there already, and the same, stays.

    Raises UserError, before anything is written, where a file of another content is in the way.
    """
    wanted = {name: (path, _content(name, path)) for name, path in files().items()}
    if "Snakefile" not in wanted:
        raise UserError(
            "init", f"{shipped('Snakefile')} is not there", "install a wheel of storelab, or a whole checkout"
        )
    new = [name for name, (_, content) in wanted.items() if not _there(folder, name, content)]
    for name in new:
        source, content = wanted[name]
        records.write_atomic(folder / name, content, sync=False)
        shutil.copymode(source, folder / name)
    return new


def _there(folder: Path, name: str, content: bytes) -> bool:
    """Whether the file is there. Raises UserError: another one is."""
    place = folder / name
    above = [p for p in place.parents if p.is_relative_to(folder)]
    taken = next((p for p in above if p.exists() and not p.is_dir()), None)
    if taken is None and not place.exists() and not place.is_symlink():
        return False
    if taken is None and place.is_file() and place.read_bytes() == content:
        return True
    raise UserError(str(taken or place), "is there already", "give a new folder: `init` writes over nothing")


def _content(name: str, path: Path) -> bytes:
    data = path.read_bytes()
    if name == "config.yaml":
        lines = data.decode().splitlines(keepends=True)
        data = "".join(FIRST[1] if line.startswith(FIRST[0]) else line for line in lines).encode()
    return data
