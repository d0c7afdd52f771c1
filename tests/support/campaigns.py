"""Synthetic campaigns with known numbers: each is made and analysed once for each state of the source code.

`built(name)` returns a folder that all tests share and none changes; `copied(name, folder)` returns a copy to write
into. The folders are kept below `.storelab/tests/`, under a digest of the package and of the modules that make records.
"""

import fcntl
import functools
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from make_examples import EVENTS, LATENCY, METADATA, ONE_EACH
from paths import ROOT

KEPT = ROOT / ".storelab" / "tests"
MAX_KEPT = 3  # states of the source code
TWO_STORES = ["alpha", "beta"]

# Changes to `make_examples.CONFIG`, and the arguments `failed` and `invalid` of `make_examples.make`.
CAMPAIGNS: dict[str, dict[str, Any]] = {
    "example": {},  # 90 points of put, get and read_entries on one store, of which one failed
    "one_each": {"repetitions": 1, "failed": (), "sweeps": ONE_EACH},
    "two_stores": {"repetitions": 3, "failed": (), "use_stores": TWO_STORES, "sweeps": ONE_EACH},
    "timed": {"sweeps": LATENCY | METADATA | EVENTS, "repetitions": 1, "failed": ()},
}


@functools.cache
def state() -> str:
    """Return the digest of everything that decides what a synthetic campaign holds."""
    files = [*(ROOT / "src" / "storelab").rglob("*"), *(ROOT / "tests" / "support").glob("*.py")]
    found = hashlib.sha256()
    for path in sorted(p for p in files if p.is_file() and p.suffix != ".pyc"):
        found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


def built(name: str) -> Path:
    """Return the folder of a campaign with `raw/` and all tables, to read only."""
    folder = KEPT / state() / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(name, folder)
    return folder


def copied(name: str, folder: Path) -> Path:
    """Copy a campaign into `folder`, which may exist, and return it."""
    shutil.copytree(built(name), folder, dirs_exist_ok=True)
    return folder


def _build(name: str, folder: Path) -> None:
    import make_examples

    from storelab.analysis.tables import build

    _forget_old_states()
    begun = folder.with_name(f"{name}.{os.getpid()}.tmp")
    make_examples.make(begun, **CAMPAIGNS[name])
    build.build(begun)
    begun.rename(folder)


def _forget_old_states() -> None:
    states = sorted((p for p in KEPT.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    for old in states[:-MAX_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
