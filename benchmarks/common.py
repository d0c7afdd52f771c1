"""What all benchmarks share: options, a temporary laboratory, interleaved repetition, the one line of JSON at the end.

Figures are {median, low, high} over n repetitions; low and high are the smallest and largest. Ratios are taken within one
repetition, so that a machine that is slow for a while is slow for both sides.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ports
import yaml

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def options(about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: at most ten minutes")
    parser.add_argument("--json", action="store_true", help="only the last line of output: one JSON object")
    return parser.parse_args()


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def figure(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def report(
    name: str, n: int, values: dict[str, list[float]], args: argparse.Namespace, missing: list[str] | None = None
) -> None:
    """Print a table (unless --json) and the JSON line."""
    figures = {key: figure(v) for key, v in values.items() if v}
    if not args.json:
        for key, f in figures.items():
            print(f"{key:24s} {f['median']:10.4g}  [{f['low']:.4g}, {f['high']:.4g}]  n = {len(values[key])}")
    out: dict[str, Any] = {"name": name, "n": n, "figures": figures}
    if missing:
        out["missing"] = missing
    print(json.dumps(out))


def environ() -> dict[str, str]:
    return dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")


@contextmanager
def laboratory(sweeps: dict[str, Any], stores: dict[str, Any] | None = None, **campaign: Any) -> Iterator[Path]:
    """A folder with config, campaign and workflow of its own; its managed stores (default: one SeaweedFS) are stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="storelab-benchmark-"))
    (folder / "campaigns").mkdir()
    for name in ("Snakefile", "rules", "paper", "notebooks", "profiles", "src"):
        (folder / name).symlink_to(ROOT / name)
    config = {
        "campaign": "bench",
        "stores": stores or {"seaweedfs": {"kind": "seaweedfs", "port": ports.block()}},
        "limits": {"stored_bytes": "50 GB"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    body = {
        "name": "bench",
        "use_stores": ["seaweedfs"],
        "repetitions": 1,
        "calibrate": False,
        "sweeps": sweeps,
    } | campaign
    (folder / "campaigns" / "bench.yaml").write_text(yaml.safe_dump(body))
    try:
        yield folder
    finally:
        storelab(folder, "down", "--all")
        shutil.rmtree(folder)


def storelab(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(BIN / "storelab"), *arguments], cwd=folder, env=environ(), check=check, capture_output=True, text=True
    )


def timed(command: list[str], cwd: Path, env: dict[str, str] | None = None) -> float:
    """Wall seconds of a command that must succeed."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=env or environ(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.monotonic() - begun
