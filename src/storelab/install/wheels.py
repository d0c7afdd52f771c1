"""Installing Python wheels that few need, into the environment that runs (level 2, measuring side). Pinned by version and hash."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from storelab.install import Part, Progress
from storelab.model import MeasurementFailed

# ROOT 6.40 for CPython on Linux: one hash for each version of Python that it was built for.
ROOT = """root==0.1a12 \\
    --hash=sha256:0bffbb476896bf7a3eef680bae86e13120da9956d859b4207c7b5a056e496d66 \\
    --hash=sha256:3aec82a04f1464f663f15dd895825068f5842edbde867d8fb3f15d04d66ffad7 \\
    --hash=sha256:7dbebe69a8449e60da2c7c4977d2fd377e6f86277d7e22f0190ba2d5e17c9cfb \\
    --hash=sha256:9906c131dadb71d137c77a274d11213bde88fe8c2cc81a1ce42c2486026a062a \\
    --hash=sha256:d0d59b993b563ac4db2cc4de7950a3f346a06ec207298f9a0b222a97f1a024ca
"""


def root(tools: Path) -> list[Part]:
    needs = "into this Python environment, some 600 MB of disk; no root"
    return [Part("ROOT 6.40 (wheel ROOT 0.1a12)", needs, lambda: importlib.util.find_spec("ROOT") is not None, _root)]


def _root(progress: Progress) -> None:
    """Raises MeasurementFailed where pip fails; what it needs besides (numpy) is there."""
    progress("installing the wheel ROOT 0.1a12")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(ROOT)
        pins.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", pins.name]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise MeasurementFailed(f"install: pip failed: {' '.join(done.stderr.split())[-300:]}")
    importlib.invalidate_caches()
