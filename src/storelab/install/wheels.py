"""Installing Python wheels that few need, into the environment that runs. Pinned by version and hash."""

import importlib.util
import tempfile
from pathlib import Path

from storelab.install import Part, Progress
from storelab.install.running import pip

# ROOT 6.40 for CPython on Linux: one hash for each version of Python that it was built for.
ROOT = """root==0.1a12 \\
    --hash=sha256:0bffbb476896bf7a3eef680bae86e13120da9956d859b4207c7b5a056e496d66 \\
    --hash=sha256:3aec82a04f1464f663f15dd895825068f5842edbde867d8fb3f15d04d66ffad7 \\
    --hash=sha256:7dbebe69a8449e60da2c7c4977d2fd377e6f86277d7e22f0190ba2d5e17c9cfb \\
    --hash=sha256:9906c131dadb71d137c77a274d11213bde88fe8c2cc81a1ce42c2486026a062a \\
    --hash=sha256:d0d59b993b563ac4db2cc4de7950a3f346a06ec207298f9a0b222a97f1a024ca
"""

# Snakemake's executor for Slurm. Not in requirements.lock: it is loaded by every call of snakemake, and asks
# `scontrol` each time.
SLURM_PLUGIN = """snakemake-executor-plugin-slurm==2.8.0 \\
    --hash=sha256:97d931284b1452b6a7afd2f1b6d2002c278ce7a5e8f6a982dc77688817d30399 \\
    --hash=sha256:9b7fdb89261cee00a499d592f408d985ff64ae89916ece768d0506eb848ab58c
snakemake-executor-plugin-slurm-jobstep==0.6.1 \\
    --hash=sha256:0ed2feaa88d1d64f35dc66b4990f131d3f151733edece90d5e952dec0e8f7feb \\
    --hash=sha256:120e122ee1317257bd9608a2a458527ad9fe4520aa1a86109e9ce2ac322321ef
"""


def root(tools: Path) -> list[Part]:
    return [_part("ROOT", "ROOT 6.40 (wheel ROOT 0.1a12)", "some 600 MB of disk", ROOT)]


def slurm_plugin(tools: Path) -> list[Part]:
    return [
        _part(
            "snakemake_executor_plugin_slurm",
            "Snakemake's executor plugin for Slurm 2.8.0",
            "two small wheels",
            SLURM_PLUGIN,
        )
    ]


def _part(module: str, what: str, size: str, pins: str) -> Part:
    return Part(
        what,
        f"into this Python environment, {size}; no root",
        lambda: importlib.util.find_spec(module) is not None,
        lambda progress: _install(what, pins, progress),
    )


def _install(what: str, lines: str, progress: Progress) -> None:
    """Raises MeasurementFailed where pip fails; what the wheels need besides is in requirements.lock."""
    progress(f"installing {what}")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(lines)
        pins.flush()
        pip("--no-deps", "-r", pins.name)
    importlib.invalidate_caches()
