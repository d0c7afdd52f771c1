"""Payload objects: incompressible, determined by the seed, with several distinct bodies in turn. May import: `core`.

Object i of a data set has body i mod BODIES. A body is the byte stream of PCG64 seeded by (seed, size, body index).
"""

import fcntl
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core import folders
from storelab.core.model import derive_seed

BODIES = 4
_CHUNK = 16 * 2**20


def body_files(scratch: Path, seed: int, size: int) -> list[Path]:
    """Paths of the BODIES files of `size` bytes. Missing ones are made; all clients of a host share them."""
    folder = scratch / "bodies"
    folders.private(folder, "scratch")
    paths = [folder / f"{seed}-{size}-{i}" for i in range(BODIES)]
    if all(p.exists() for p in paths):
        return paths
    import numpy as np

    with folders.lock_file(folder / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for i, path in enumerate(paths):
            if path.exists():
                continue
            rng = np.random.Generator(np.random.PCG64(derive_seed(seed, size, i)))
            temporary = path.with_suffix(".tmp")
            with open(temporary, "wb") as f:
                for begin in range(0, size, _CHUNK):
                    f.write(rng.bytes(min(_CHUNK, size - begin)))
            os.replace(temporary, path)
    return paths


def body_sums(paths: list[Path]) -> list[dict[str, Any]]:
    """[{size in bytes, sha256}] of body files."""
    out = []
    for path in paths:
        with open(path, "rb") as f:
            out.append({"size": path.stat().st_size, "sha256": hashlib.file_digest(f, "sha256").hexdigest()})
    return out


def objects(dataset: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns of the manifest, shape (n,) each: key (without the bucket's prefix), bucket index, body index."""
    n, buckets = dataset["objects"], dataset["buckets"]
    return {
        "key": [f"data/{dataset['name']}/{i:07d}" for i in range(n)],
        "bucket": [i % buckets for i in range(n)],
        "body": [i % BODIES for i in range(n)],
    }
