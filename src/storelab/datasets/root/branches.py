"""Branches of a tree by their place in it: a name for each, also where several have the same one.

A branch is called by its full path (`a/b` where split). Of several with one path, the first in the tree keeps it, the
others follow as `path#2`, `path#3` …: neither a dictionary of paths nor `tree[path]` tells them apart.
"""

from collections.abc import Iterable
from typing import Any


def by_place(found: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Name -> branch of (path, branch) in the order of the tree; no name is given twice."""
    pairs = list(found)
    taken, times, out = {path for path, _ in pairs}, dict[str, int](), dict[str, Any]()
    for path, branch in pairs:
        name = path
        while name in out or (name != path and name in taken):
            times[path] = times.get(path, 1) + 1
            name = f"{path}#{times[path]}"
        out[name] = branch
    return out


def branches_of(tree: Any) -> dict[str, Any]:
    """Name -> branch of uproot's TTree, parents before what they hold."""
    return by_place(tree.iteritems(recursive=True, full_paths=True))
