"""Campaigns that tests share. Each is made and analysed only once for a state of the source code.

`built(name)` returns a shared folder, which tests must not change. `copied(name, folder)` returns a copy to change.
`typeset(name)` returns a shared folder that also has LaTeX files and an index of figures. `name` is one of the
synthetic campaigns below, or a sealed campaign in `results/`. The folders are in `.storelab/tests/<digest>`, where the
digest depends on the package and on the modules that make records.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from make_examples import EVENTS, LATENCY, METADATA, ONE_EACH, REFUSED
from paths import ROOT

KEPT = ROOT / ".storelab" / "tests"
MAX_KEPT = 3  # number of states of the source code whose folders are kept
TWO_STORES = ["alpha", "beta"]
SIZES = ["4 kB", "10 MB"]
FAR = "https://s3.example.org"
_COPIES = {"object_size": SIZES, "redundancy": ["default", "replica-2"]}
SYSTEMS = {  # sweeps that compare systems: rates, space, capabilities and consistency
    "put": {"workload": "put", "duration": "4 s", "axes": _COPIES | {"buckets": [1, 8]}},
    "get": {"workload": "get", "duration": "4 s", "axes": _COPIES},
    "space": {
        **{"workload": "space", "duration": "4 s"},
        "axes": {"object_size": "4 kB", "redundancy": ["default", "replica-2", "replica-3"]},
    },
    "probe": {"workload": "probe", "duration": "4 s"},
    "consistency": {"workload": "consistency", "duration": "4 s", "axes": {"clients": 2, "front_ends": 2}},
}

# Changes to `make_examples.CONFIG`, and the arguments `failed` and `invalid` of `make_examples.make`.
CAMPAIGNS: dict[str, dict[str, Any]] = {
    "example": {},  # 90 points of put, get and read_entries on one store; one of them failed
    "one_each": {"repetitions": 1, "failed": (), "sweeps": ONE_EACH},
    "two_stores": {"repetitions": 3, "failed": (), "stores_to_measure": TWO_STORES, "sweeps": ONE_EACH},
    "timed": {"sweeps": LATENCY | METADATA | EVENTS, "repetitions": 1, "failed": ()},
    "refused": {  # the store refuses half of the downloads, so that these runs are invalid, and few uploads
        "sweeps": {"refused": REFUSED, "up": {**ONE_EACH["upload"], "axes": {"object_size": "4 kB"}}},
        "invalid": ("refused",),
        "repetitions": 2,
    },
    "systems": {"stores_to_measure": TWO_STORES, "sweeps": SYSTEMS, "repetitions": 1, "failed": ()},
    "calibrated": {  # alpha is on the host of the clients, beta on another host
        "sweeps": {
            "up": {**ONE_EACH["upload"], "axes": {"object_size": SIZES, "clients": [1, 2], "front_ends": [1, 2]}},
            "entries": ONE_EACH["entries"],
        },
        "stores": {"alpha": {"kind": "seaweedfs"}, "beta": {"kind": "s3", "endpoint": [FAR, FAR.replace("s3", "s4")]}},
        **{"stores_to_measure": TWO_STORES, "calibrate": True, "repetitions": 1, "failed": ()},
    },
    "threads": {  # one client with up to 16 workers
        "sweeps": {
            name: ONE_EACH[name] | {"axes": {"object_size": SIZES, "workers": [1, 4, 16], "buckets": [1, 5]}}
            for name in ("upload", "download")
        },
        **{"stores_to_measure": TWO_STORES, "repetitions": 1, "failed": ()},
    },
}
# Campaigns that another module makes: name -> module with `write(folder)`.
MAKERS = {"several": "several", "soak": "soaked", "cells": "drawn_cells", "roles": "roles_and_parts"}
# Campaigns with only some of the tables.
TABLES = {
    "cells": ("points", "latency", "errors", "errors_over_time", "sparse", "events", "calibration"),
    "threads": ("resources", "throughput"),
}

TIMED = {"duration": "4 s"}
EVERY_WORKLOAD = {
    "upload": {"workload": "put", **TIMED, "axes": {"object_size": ["4 kB", "10 MB"], "clients": [1, 2, 4]}},
    "download": {
        "workload": "get",
        **TIMED,
        "repetitions": 3,
        "axes": {"object_size": "10 MB", "clients": [1, 2, 4], "front_ends": [1, 2, 4]},
    },
    **METADATA,
    "closed": {"workload": "get", **TIMED, "axes": {"engine": "obstore", "object_size": "4 kB", "clients": [1, 2]}},
    "open": LATENCY["open"],
    "entries": {"workload": "read_entries", **TIMED, "axes": {"entry_fraction": [100, 1, 0.1], "clients": [1, 2]}},
    "volume": {
        "workload": "read_volume",
        **TIMED,
        "axes": {"volume_fraction": [100, 1, 0.1], "engine": ["uproot-s3fs", "planned"]},
    },
    "replayed": {"workload": "replay", **TIMED, "axes": {"volume_fraction": [100, 1], "merge": ["gap", "planned"]}},
    **EVENTS,
    "space": {"workload": "space", **TIMED, "axes": {"redundancy": ["default", "replica-2"]}},
    "probes": {"workload": "probe"},
    "anomalies": {"workload": "consistency", **TIMED},
    "refused": {"workload": "get", **TIMED, "axes": {"engine": "fsspec", "object_size": "4 kB", "clients": 1}},
}
CAMPAIGNS["broad"] = {  # two stores, one failed point, a sweep whose points are invalid, a calibration
    "campaign": "broad",
    "name": "broad",
    "sweeps": EVERY_WORKLOAD,
    "stores_to_measure": TWO_STORES,
    "repetitions": 1,
    "calibrate": True,
    "failed": ("alpha/put/object_size~10MB_clients~0002_rep~001",),
    "invalid": ("refused",),
}


@functools.cache
def state() -> str:
    """Return the digest of all files that determine the content of a synthetic campaign."""
    makers = {"campaigns", "made_records", "make_examples", "example_monitor", *MAKERS.values()}
    files = [*(ROOT / "src" / "storelab").rglob("*"), *(ROOT / "tests" / "support" / f"{name}.py" for name in makers)]
    found = hashlib.sha256()
    for path in sorted(p for p in files if p.is_file() and p.suffix != ".pyc"):
        found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


def built(name: str) -> Path:
    """Return the shared folder of a campaign with `raw/` and all tables. Tests must not change it."""
    return _once(KEPT / state() / name, lambda folder: _build(name, folder))


def copied(name: str, folder: Path) -> Path:
    """Copy a campaign to `folder`, which may exist, and return the folder."""
    shutil.copytree(built(name), folder, dirs_exist_ok=True)
    return folder


def typeset(name: str) -> Path:
    """Return the shared folder of a campaign with tables, LaTeX and the index of figures. Figure files are empty."""

    def make(folder: Path) -> None:
        from storelab.analysis import latex
        from storelab.analysis.figures import write as figures

        shutil.copytree(built(name), folder, symlinks=True)
        with no_pictures():
            figures.build(folder)
        latex.build(folder, paper_dir=ROOT / "paper")

    return _once(KEPT / state() / "typeset" / name, make)


@contextlib.contextmanager
def no_pictures() -> Iterator[None]:
    """Save figures as empty files during the block. Rendering takes eight times as long as everything else."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with (
        mock.patch.object(Figure, "savefig", lambda figure, sink, **options: sink.write(b"")),
        mock.patch.object(ConstrainedLayoutEngine, "execute", lambda engine, figure: None),
    ):
        yield


def _once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder. The first process that needs it makes it."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _forget_old_states()
            begun = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
            make(begun)
            begun.rename(folder)
    return folder


def _build(name: str, folder: Path) -> None:
    import make_examples

    from storelab.analysis.tables import build

    if name in CAMPAIGNS:
        make_examples.make(folder, **CAMPAIGNS[name])
    elif name in MAKERS:
        importlib.import_module(MAKERS[name]).write(folder)
    else:
        folder.mkdir()
        (folder / "raw").symlink_to(ROOT / "results" / name / "raw")
    build.build(folder, TABLES.get(name, build.NAMES))


def _forget_old_states() -> None:
    states = sorted((p for p in KEPT.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    for old in states[:-MAX_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
