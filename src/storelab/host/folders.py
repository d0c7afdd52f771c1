"""Where data lie: the file system of a folder that may not be there yet (level 2, measuring side)."""

from pathlib import Path


def existing(path: Path) -> Path:
    """The path itself or the nearest folder above it that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def filesystem(path: Path) -> str:
    """Type of the file system that holds `path`, e.g. `ext4`; `?` where the system does not tell."""
    import psutil  # here: who plans only imports the stores, and psutil is slow to import

    real = existing(path).resolve()
    fits = [p for p in psutil.disk_partitions(all=True) if real.is_relative_to(p.mountpoint)]
    return max(fits, key=lambda p: len(p.mountpoint)).fstype if fits else "?"
