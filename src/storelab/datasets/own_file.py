"""Use ROOT files of the user: download and open them, list their baskets, and find branches that cannot be read.

The files are copied into the stores without changes. May import: numpy, uproot and fsspec in functions,
`datasets.root`, `core`.
"""

import contextlib
import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError, error_text, shown
from storelab.datasets.root import baskets
from storelab.datasets.root.baskets import branches_of

Step = Callable[[int], None]  # progress: called before each branch with the number of branches
TREES = ("TTree", "TNtuple", "TNtupleD")
BLOCK = 2**20  # bytes of one request of a download
_HEAD = 64  # bytes: magic, version, begin and end of the content
_LARGE = 1_000_000  # from this version on, positions have 8 bytes


def fetch(source: str, folder: Path, place: str, max_bytes: int | None = None) -> Path:
    """Return the local path of a file. If `source` is a URL, download it into `folder`, completely or not at all.

    place: configuration key for errors; max_bytes: maximum size of a download. Raise UserError if the file cannot be
    read.
    """
    findable(source, place)
    if "://" not in source:
        return Path(source).expanduser().resolve()
    import fsspec

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / hashlib.sha256(source.encode()).hexdigest()[:16]
    if target.exists():
        return target
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        with fsspec.open(source, "rb", expand=False) as remote, temporary.open("wb") as local:
            while part := remote.read(BLOCK):
                local.write(part)
                if max_bytes is not None and local.tell() > max_bytes:
                    problem = f"{source} is larger than `limits.stored_bytes` ({max_bytes} B)"
                    raise UserError(place, problem, "check the address, or raise the limit")
        temporary.replace(target)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - a protocol's library may raise anything
        raise UserError(
            place,
            f"{source} cannot be read ({error_text(error)})",
            "check the address, and that `scratch` has room for the file",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
    return target


def findable(source: str, place: str) -> None:
    """Raise UserError if a local file does not exist, or if the protocol of a URL is not supported."""
    if "://" not in source:
        if not Path(source).expanduser().is_file():
            raise UserError(place, f"{source}: no such file", "give the path of a ROOT file, or a URL")
        return
    import fsspec

    protocol = source.partition("://")[0]
    try:
        fsspec.get_filesystem_class(protocol or "none")
    except (ValueError, ImportError) as error:
        problem = f"protocol {shown(protocol)} cannot be read ({error_text(error)})"
        raise UserError(place, problem, "write a path, or a URL that begins with https:// or root://") from None


def require_complete(path: Path, place: str) -> None:
    """Raise UserError if a file is not a ROOT file, or shorter than its header declares."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not size:
        raise UserError(place, f"{path.name} is empty (0 bytes)", "give another file")
    if head[:4] != b"root":
        raise UserError(place, f"{path.name} is not a ROOT file: it does not begin with 'root'", "give another file")
    if len(head) < _HEAD:
        raise UserError(
            place, f"{path.name} is truncated ({size} bytes, less than the head of a file)", "copy it again"
        )
    version, end = struct.unpack_from(">i", head, 4)[0], struct.unpack_from(">i", head, 12)[0]
    if version >= _LARGE:
        end = struct.unpack_from(">q", head, 12)[0]
    if size < end:
        raise UserError(place, f"{path.name} is truncated ({size} of {end} bytes)", "copy it again")


def _damaged(name: str, path: Path, what: str, error: Exception) -> UserError:
    reason = error_text(error).replace(str(path), path.name)
    if "algorithm: b'CS'" in reason or "packed by b'CS'" in reason:
        problem = f"{path.name} is packed by the codec CS of ROOT 3 and before, which uproot does not support"
        return UserError(f"files.{name}.path", problem, "pack it by a newer codec: `hadd -f101 new.root old.root`")
    return UserError(f"files.{name}.path", f"{path.name} is damaged: {what} cannot be read ({reason})", "copy it again")


@contextlib.contextmanager
def opened(path: Path, name: str, tree: str | None) -> Iterator[tuple[Any, str, str]]:
    """Open a tree of a local ROOT file with uproot, and provide (tree, name, `TTree` or `RNTuple`).

    Raise UserError if the file is not a ROOT file, incomplete or damaged; if the tree is missing or has no entries; or
    if there are several trees and none is named.
    """
    import uproot

    require_complete(path, f"files.{name}.path")
    try:
        file = uproot.open({str(path): None})
        kinds = dict(file.iterclassnames(cycle=True))
    except Exception as error:  # noqa: BLE001 - uproot raises many classes
        raise _damaged(name, path, "the list of its contents", error) from None
    with file:
        chosen, kind = _choose(kinds, path.name, tree, f"files.{name}.tree")
        if kind == "RNTuple":
            _released(file, chosen, path, f"files.{name}.tree")
        try:
            held = file[chosen]
            entries = int(held.num_entries)
        except Exception as error:  # noqa: BLE001 - a corrupt file
            raise _damaged(name, path, chosen, error) from None
        if entries < 1:
            raise UserError(f"files.{name}.tree", f"{chosen} of {path.name} has no entries", "choose another tree")
        yield held, chosen, kind


def _released(file: Any, chosen: str, path: Path, place: str) -> None:
    """Raise UserError if the format of an RNTuple is older than 1.0."""
    class_name, epoch = file.classname_of(chosen), None
    with contextlib.suppress(Exception):  # damage is reported separately
        epoch = file[chosen].member("fVersionEpoch")
    if "Experimental" in class_name or epoch == 0:
        problem = f"{chosen} of {path.name} is an RNTuple of a format before 1.0 ({class_name}), unknown to uproot"
        raise UserError(place, problem, "write it again by ROOT 6.34 or later")


def look(path: Path, name: str, tree: str | None, step: Step | None = None) -> tuple[dict[str, Any], Any]:
    """Inspect a local ROOT file. Return its description for the manifest, and the table of its baskets.

    step: called before each branch with the number of branches. The description has the keys that
    `root.generated.generate` returns, `format` (TTree or RNTuple), and `unreadable` (branch -> reason). Raise UserError
    for the same errors as `opened()`, and if the file is damaged or no branch can be read.
    """
    import uproot

    with opened(path, name, tree) as (held, chosen, kind):
        entries = int(held.num_entries)
        try:
            table, unreadable = _tree(held, path, step) if kind == "TTree" else _ntuple(held, path, step)
        except Exception as error:  # noqa: BLE001 - a corrupt file
            raise _damaged(name, path, chosen, error) from None
    # Remove folders of this machine from the reasons.
    unreadable = {branch: why.replace(str(path), path.name) for branch, why in unreadable.items()}
    if not (known := set(table["branch"].unique().to_pylist())) - set(unreadable):
        reason = next((f": {branch}: {why}" for branch, why in unreadable.items()), "")
        problem = f"none of its {len(known)} branches can be read{reason}" if known else "it has no branch with data"
        raise UserError(f"files.{name}.tree", f"{chosen} of {path.name}: {problem}", "choose another tree")
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


def check(dataset: dict[str, Any]) -> str | None:
    """Check the file of a planned data set. Return `TTree` or `RNTuple`, or None for a URL, which is not checked.

    Raise UserError if the file is missing, damaged, or has no suitable tree.
    """
    if "://" in dataset["file"]:
        return None
    path = fetch(dataset["file"], Path(), f"files.{dataset['scale']}.path")
    with opened(path, dataset["scale"], dataset["tree"]) as (_, _, kind):
        return kind


def unchanged(dataset: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Return True if the manifest has the same file and tree as the data set.

    Raise UserError if the size of the file has changed since it was staged.
    """
    before, path = manifest["dataset"], Path(dataset["file"]).expanduser()
    if (before.get("file"), before.get("tree")) != (dataset["file"], dataset["tree"]):
        return False
    if path.is_file() and path.stat().st_size != manifest["root"]["bytes"]:
        problem = f"{path.name} has {path.stat().st_size} B, but had {manifest['root']['bytes']} B when it was staged"
        raise UserError(f"files.{dataset['scale']}.path", problem, "give the changed file another name in `files`")
    return True


def _choose(kinds: dict[str, str], file: str, tree: str | None, place: str) -> tuple[str, str]:
    """Return (name, `TTree` or `RNTuple`) of the tree named `tree`, or of the only tree in the file.

    kinds: key with cycle -> class, the newest cycle of a name first. Raise UserError if the tree is missing or
    ambiguous.
    """
    known: dict[str, str] = {}
    for key, class_name in kinds.items():
        if class_name in TREES or class_name.endswith("RNTuple"):
            kind = "TTree" if class_name in TREES else "RNTuple"
            known.setdefault(key.rpartition(";")[0], kind)
            known[key] = kind
    names = sorted(n for n in known if ";" not in n)
    chosen = names[0] if tree is None and len(names) == 1 else (tree or "").strip("/")
    if chosen in known:
        return chosen, known[chosen]
    held = f"it has: {', '.join(names)}" if names else "it has none"
    problem = (
        f"{file} has no TTree or RNTuple {tree!r}"
        if tree
        else f"{file} has {len(names)} TTrees and RNTuples, but none is named"
    )
    raise UserError(place, f"{problem} ({held})", "name one of them" if names else "choose another file")


def _ntuple(ntuple: Any, path: Path, step: Step | None) -> tuple[Any, dict[str, str]]:
    """Return the table of the pages, and the reason for each field that cannot be read."""
    from storelab.datasets.root.pages import Pages
    from storelab.datasets.root.trial import pages_tried

    pages, entries = Pages.of(ntuple), int(ntuple.num_entries)
    unreadable = pages_tried(pages, entries, path, step)
    return baskets.table_of(pages.layout, path, ntuple.name, entries), unreadable


def _tree(tree: Any, path: Path, step: Step | None) -> tuple[Any, dict[str, str]]:
    """Return the table of the baskets, and the reason for each branch that cannot be read."""
    from storelab.datasets.root.trial import tried

    objects = branches_of(tree)
    layout = baskets.Baskets.from_tree(objects)
    unreadable = tried(tree, objects, layout, path, step)
    return baskets.table_of(layout, path, tree.name, int(tree.num_entries)), unreadable
