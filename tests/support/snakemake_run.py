"""Run Snakemake in a copy of the checkout."""

import subprocess
from pathlib import Path

from common import BIN, environ


def snakemake(folder: Path, *arguments: str, **kwargs) -> subprocess.CompletedProcess:
    command = [str(BIN / "snakemake"), "--profile", "profiles/local", *arguments]
    return subprocess.run(command, cwd=folder, env=environ(), capture_output=True, text=True, timeout=300, **kwargs)
