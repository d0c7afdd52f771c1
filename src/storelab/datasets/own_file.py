"""The user's own ROOT files: fetched, opened, and their baskets listed; it names what cannot be read.

May import: numpy, uproot and fsspec in functions, `datasets.root`, `core`. A file is copied into the stores unchanged.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.datasets.root.branches import branches_of

MOST_SAID = 300  # characters of a library's message


def fetch(source: str, folder: Path, place: str) -> Path:
    """A local path of the file; a URL is downloaded into `folder`, whole or not at all.

    place: configuration key, for errors. Raises UserError.
    """
    if "://" not in source:
        path = Path(source).expanduser()
        if not path.is_file():
            raise UserError(place, f"{source}: no such file", "give the path of a ROOT file, or a URL")
        return path.resolve()
    import fsspec

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / hashlib.sha256(source.encode()).hexdigest()[:16]
    if target.exists():
        return target
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        with fsspec.open(source, "rb") as remote, temporary.open("wb") as local:
            shutil.copyfileobj(remote, local, 16 * 2**20)
        temporary.replace(target)
    except Exception as error:  # noqa: BLE001 - a protocol's library may raise anything
        raise UserError(
            place,
            f"{source} cannot be read ({_said(error)})",
            "check the address, and that `scratch` has room for the file",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MOST_SAID]


@contextlib.contextmanager
def opened(path: Path, name: str, tree: str | None) -> Iterator[tuple[Any, str, str]]:
    """(uproot's file, name of the tree, `TTree` or `RNTuple`) of a local ROOT file.

    Raises UserError: no ROOT file, cut off, no such tree, or several and none named.
    """
    import uproot

    place = f"files.{name}"
    try:
        file = uproot.open({str(path): None})
        kinds = {key.partition(";")[0]: kind for key, kind in file.classnames().items()}
    except Exception as error:  # noqa: BLE001 - uproot raises many things if it is no ROOT file
        raise UserError(
            f"{place}.path", f"{path.name} is no ROOT file that can be read ({_said(error)})", "give another one"
        ) from None
    with file:
        if path.stat().st_size < file.file.fEND:
            missing = f"{file.file.fEND - path.stat().st_size} of {file.file.fEND} bytes are missing at its end"
            raise UserError(f"{place}.path", f"{path.name} is cut off ({missing})", "copy it again")
        chosen = _choose(kinds, path.name, tree, f"{place}.tree")
        yield file, chosen, "TTree" if kinds[chosen.partition(";")[0]] == "TTree" else "RNTuple"


def look(path: Path, name: str, tree: str | None) -> tuple[dict[str, Any], Any]:
    """(facts of the manifest, table of baskets) of a local ROOT file.

    Facts: as of `root.generated.generate`, `format` (TTree or RNTuple), and `unreadable`: branch -> reason. Raises
    UserError: as `opened()`, damaged, no branch that can be read.
    """
    import uproot

    with opened(path, name, tree) as (file, chosen, kind):
        try:
            held = file[chosen]
            table, unreadable = _tree(held, path) if kind == "TTree" else _ntuple(held, path)
            entries = int(held.num_entries)
        except Exception as error:  # noqa: BLE001 - a corrupt file
            raise UserError(f"files.{name}.path", f"{path.name} is damaged ({_said(error)})", "copy it again") from None
    if entries < 1 or not set(table["branch"].unique().to_pylist()) - set(unreadable):
        raise UserError(
            f"files.{name}.tree",
            f"{chosen} of {path.name} has no entry, or no branch that can be read",
            "take another tree",
        )
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    return {
        "tree": chosen,
        "format": kind,
        "scale": name,
        "entries": entries,
        "branches": baskets.facts(table)["branches"],
        "bytes": path.stat().st_size,
        "sha256": digest,
        "unreadable": unreadable,
        "uproot": uproot.__version__,
    }, table


def check(dataset: dict[str, Any]) -> None:
    """Raises UserError if the file of a planned data set is missing or wrong; files behind a URL are not checked."""
    if "://" in dataset["file"]:
        return
    path = fetch(dataset["file"], Path(), f"files.{dataset['scale']}.path")
    with opened(path, dataset["scale"], dataset["tree"]):
        pass


def unchanged(dataset: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Whether the manifest describes the file that the data set names now.

    Raises UserError if the file's size has changed since it was staged.
    """
    before, path = manifest["dataset"], Path(dataset["file"]).expanduser()
    if (before.get("file"), before.get("tree")) != (dataset["file"], dataset["tree"]):
        return False
    if path.is_file() and path.stat().st_size != manifest["root"]["bytes"]:
        problem = f"{path.name} has {path.stat().st_size} B, and had {manifest['root']['bytes']} B when it was staged"
        raise UserError(f"files.{dataset['scale']}.path", problem, "give the changed file another name in `files`")
    return True


def _choose(kinds: dict[str, str], file: str, tree: str | None, place: str) -> str:
    """The named tree, or the only one. Raises UserError."""
    known = sorted(k for k, v in kinds.items() if v == "TTree" or v.endswith("RNTuple"))
    if tree is None and len(known) == 1:
        return known[0]
    if tree is not None and tree.partition(";")[0] in known:
        return tree
    held = f"it has: {', '.join(known)}" if known else "it has none"
    problem = (
        f"{file} holds no TTree or RNTuple {tree!r}"
        if tree
        else f"{file} holds {len(known)} TTrees and RNTuples, and none is named"
    )
    raise UserError(place, f"{problem} ({held})", "name one of them" if known else "take another file")


def _ntuple(ntuple: Any, path: Path) -> tuple[Any, dict[str, str]]:
    """(table of the pages, field -> why it is left out). The first and the last entry of each field are decoded."""
    from storelab.datasets.root.pages import Pages

    pages, entries = Pages.of(ntuple), int(ntuple.num_entries)
    out, fields = dict(pages.unreadable), {f.name: f for f in ntuple.fields}
    for name in pages.layout.names:
        if name not in out and (reason := _tried(fields[name], entries, path)):
            out[name] = reason
    return baskets.table_of(pages.layout, path, ntuple.name, entries), out


def _tried(branch: Any, entries: int, path: Path) -> str | None:
    """Why the first or the last entry of a branch or field cannot be decoded; None if they can.

    Errors in between are errors of the read that meets them.
    """
    try:
        for at in {0, entries - 1}:
            branch.array(entry_start=at, entry_stop=at + 1)
    except Exception as error:  # noqa: BLE001 - whatever uproot cannot interpret
        return _said(error).replace(str(path), path.name)
    return None


def _tree(tree: Any, path: Path) -> tuple[Any, dict[str, str]]:
    """(table of the baskets, branch -> why it is left out). Parents of split branches hold nothing: no rows."""
    from uproot.interpretation.grouped import AsGrouped
    from uproot.interpretation.jagged import AsJagged

    layout, entries, out = baskets.Baskets.from_tree(tree), int(tree.num_entries), {}
    table = baskets.table_of(layout, path, tree.name, entries)
    held = np.bincount(layout.branch, layout.entry_stop - layout.entry_start, len(layout.names)).astype("i8").tolist()
    branches = branches_of(tree)
    for name, n in zip(layout.names, held, strict=True):
        branch = branches[name]
        if not n and branch.branches:
            continue
        if n != entries:
            out[name] = f"baskets of {n} of {entries} entries can be found"
        elif reason := _tried(branch, entries, path):
            out[name] = reason
        elif isinstance(branch.interpretation, AsGrouped):
            out[name] = "groups other branches, which are read themselves"
        elif isinstance(branch.interpretation, AsJagged) and branch.basket(0).byte_offsets is None:
            out[name] = (
                "its baskets do not tell where their entries begin, and the baskets of its counter would be read too"
            )
    return table, out
