"""Files of a project folder (Snakefile, rules, campaigns …), and sources for `storelab install`.

These files are at the root of a checkout. `hatch_build.py` copies them into the wheel as `storelab/project/`. This
module may import `core`.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from storelab.core import records
from storelab.core.errors import UserError, shown

PACKED = Path(__file__).parents[1] / "project"  # folder of these files in a wheel
CHECKOUT = Path(__file__).parents[3]
# Content of a project folder. It does not include the sources for `storelab install`.
PROJECT = (
    *("Makefile", "Snakefile", "config.yaml", "config.schema.json"),
    *("rules", "profiles", "campaigns", "notebooks", "paper", "envs"),
)
SOURCES = ("envs/go", "envs/hdfs")
# A new project has no records. Therefore its first campaign is one that measures.
FIRST = ("campaign: reference ", "campaign: demo            # a file in campaigns/: it says what is measured\n")

# Files of a new project that the checkout has in another form.
README = """# {name}: a project of storelab

| to do | command |
|---|---|
| check this machine | `storelab doctor` |
| measure the demonstration, and build its paper | `make demo` |
| measure your own store | add it to `config.yaml`, then `make measure CAMPAIGN=site` |
| build a paper again from its records | `make paper CAMPAIGN=site` |

`config.yaml` has the stores and limits, `campaigns/` what is measured, `results/<campaign>/raw/` the
records. Commit these three; everything else can be made again. `storelab --help` lists all commands.
"""
IGNORED = """/.venv/
/.storelab/
/.snakemake/
/results/*/*
!/results/*/raw/
!/results/*/links.yaml
__pycache__/
.ipynb_checkpoints/
*.tmp
"""


def shipped(name: str) -> Path:
    """Return the path of a file or folder that belongs to storelab, in a wheel or a checkout. It may not exist."""
    return (PACKED if PACKED.is_dir() else CHECKOUT) / name


def files(root: Path | None = None) -> dict[str, Path]:
    """Return the files of the project folder `root` by name; by default, only those that belong to storelab."""
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
    """Write a project folder, and return the names of the written files. Identical existing files are kept.

    Raises UserError before anything is written: if a file with different content exists, if the folder belongs to a
    checkout, or if it has other files and is not yet a project.
    """
    wanted: dict[str, tuple[Path | None, bytes]] = {
        name: (path, _content(name, path)) for name, path in files().items()
    }
    if "Snakefile" not in wanted:
        raise UserError(
            "init", f"{shipped('Snakefile')} does not exist", "install a wheel of storelab, or use a complete checkout"
        )
    readme = README.format(name=folder.resolve().name).encode()
    wanted |= {"README.md": (None, readme), ".gitignore": (None, IGNORED.encode())}
    _refuse_other_purpose(folder, wanted)
    new = [name for name, (_, content) in wanted.items() if not _exists_unchanged(folder, name, content)]
    for name in new:
        source, content = wanted[name]
        records.write_atomic(folder / name, content, sync=False)
        if source:
            shutil.copymode(source, folder / name)
    return new


def _refuse_other_purpose(folder: Path, wanted: Iterable[str]) -> None:
    """Raise UserError if the folder belongs to a checkout, or has files and is not a project."""
    place = folder.resolve()
    if checkout := next((p for p in (place, *place.parents) if (p / "src/storelab/__init__.py").exists()), None):
        hint = f"use the checkout, which is a project folder ({checkout}), or name a folder outside of it"
        raise UserError(str(folder), "belongs to a checkout of storelab", hint)
    if not folder.is_dir() or (folder / "Snakefile").exists():
        return
    top = {name.partition("/")[0] for name in wanted}
    other = sorted(p.name for p in folder.iterdir() if p.name not in top and not p.name.startswith("."))
    if other:
        count = f" and {len(other) - 1} more" if len(other) > 1 else ""
        problem = f"has other files: {shown(other[0])}{count}"
        raise UserError(str(folder), problem, "name a new or empty folder")


def _exists_unchanged(folder: Path, name: str, content: bytes) -> bool:
    """Return whether the file exists. Raises UserError if it has different content."""
    place = folder / name
    above = [p for p in place.parents if p.is_relative_to(folder)]
    taken = next((p for p in above if p.exists() and not p.is_dir()), None)
    if taken is None and not place.exists() and not place.is_symlink():
        return False
    if taken is None and place.is_file() and place.read_bytes() == content:
        return True
    raise UserError(str(taken or place), "already exists", "use a new folder, because `init` does not overwrite files")


def _content(name: str, path: Path) -> bytes:
    data = path.read_bytes()
    if name == "config.yaml":
        lines = data.decode().splitlines(keepends=True)
        data = "".join(FIRST[1] if line.startswith(FIRST[0]) else line for line in lines).encode()
    return data
