"""ROOT files of the user's own: fetched, opened, their baskets tabled; what cannot be read is named (level 2, measuring side).

May import: uproot, fsspec (lazily), `datasets.baskets`. The file is taken as it is, and copied into the stores.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from storelab.datasets import baskets
from storelab.model import UserError

MOST_SAID = 300  # letters of a library's message


def fetch(source: str, folder: Path, place: str) -> Path:
    """A local path of the file; a URL is downloaded into `folder`, whole or not at all. Raises UserError."""
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
    except Exception as error:  # noqa: BLE001 - whatever a protocol's library throws
        raise UserError(place, f"{source} cannot be read ({_said(error)})", "check the address") from None
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MOST_SAID]


def look(path: Path, name: str, tree: str | None) -> tuple[dict[str, Any], Any]:
    """(facts of the manifest, table of baskets) of a local ROOT file. Facts as of `rootfile.generate`, and `unreadable`: branch -> reason.

    Raises UserError: no ROOT file, cut off, no such tree, several trees and none named, no branch that can be read.
    """
    import uproot

    place = f"files.{name}"
    try:
        file = uproot.open({str(path): None})
        kinds = {key.partition(";")[0]: kind for key, kind in file.classnames().items()}
    except Exception as error:  # noqa: BLE001 - uproot throws many things at what is no ROOT file
        raise UserError(f"{place}.path", f"{path.name} is no ROOT file that can be read ({_said(error)})", "give another one") from None
    with file:
        trees = sorted(k for k, v in kinds.items() if v == "TTree")
        others = sorted(k for k, v in kinds.items() if v.endswith("RNTuple"))
        chosen = tree or (trees[0] if len(trees) == 1 else None)
        if chosen is None or chosen not in trees:
            held = f"TTrees: {', '.join(trees) or 'none'}" + (f"; RNTuples, which are not read yet: {', '.join(others)}" if others else "")
            problem = f"{path.name} holds no TTree {tree!r}" if tree else f"{path.name} holds {len(trees)} TTrees and none is named"
            raise UserError(f"{place}.tree", f"{problem} ({held})", "name one of them")
        try:
            opened = file[chosen]
            table = baskets.basket_table(opened)
            unreadable = _unreadable(opened, table)
        except Exception as error:  # noqa: BLE001 - a file that is cut off or corrupt
            raise UserError(f"{place}.path", f"{path.name} is damaged ({_said(error)})", "copy it again") from None
        entries = int(opened.num_entries)
    facts = baskets.facts(table)
    if entries < 1 or facts["branches"] - facts["embedded_branches"] < 1 or len(unreadable) >= len(table["branch"].unique()):
        raise UserError(f"{place}.tree", f"{chosen} of {path.name} has no entry, or no branch that can be read", "take another tree")
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    return {
        "tree": chosen,
        "scale": name,
        "entries": entries,
        "branches": facts["branches"],
        "bytes": path.stat().st_size,
        "sha256": digest,
        "unreadable": unreadable,
        "uproot": uproot.__version__,
    }, table


def _unreadable(tree: Any, table: Any) -> dict[str, str]:
    """Branches with baskets that are left out, and why: no interpretation, first entry cannot be decoded, entries in the tree's header."""
    layout, entries = baskets.Baskets.from_table(table), int(tree.num_entries)
    held: dict[str, int] = dict.fromkeys(layout.names, 0)
    for code, n in zip(layout.branch.tolist(), (layout.entry_stop - layout.entry_start).tolist(), strict=True):
        held[layout.names[code]] += n
    out: dict[str, str] = {}
    for name, branch in tree.iteritems(recursive=True, full_paths=True):
        if not held.get(name):
            continue  # nothing to read: a parent of split branches, or all in the header
        if held[name] != entries:
            out[name] = f"{entries - held[name]} of {entries} entries lie in the header of the tree"
            continue
        try:
            branch.array(entry_start=0, entry_stop=1)
        except Exception as error:  # noqa: BLE001 - whatever uproot cannot interpret
            out[name] = _said(error)
    return out
