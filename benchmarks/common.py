"""Parts that all benchmarks share: options, a temporary laboratory, the line of JSON at the end, and the saved result.

Figures are {median, low, high} over n repetitions; low and high are the smallest and largest value. Both sides of a
ratio are measured in the same repetition, so that a slow phase of the machine affects both.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ports
import yaml

from storelab.core.errors import UserError
from storelab.core.records import write_json
from storelab.host import environment
from storelab.stores import load, make

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BIN = Path(sys.executable).parent


def options(about: str) -> argparse.Namespace:
    """Parse the options that every benchmark has. End the program if they contradict each other."""
    parser = argparse.ArgumentParser(description=about)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer repetitions: at most ten minutes")
    size.add_argument(
        "--smoke", action="store_true", help="the smallest size that runs all code; its numbers mean nothing"
    )
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results")
    args = parser.parse_args()
    if args.smoke and args.save:
        parser.error("--smoke and --save: numbers of a smoke run mean nothing; use --quick to save a short run")
    return args


def run(main: Callable[[], None]) -> None:
    """Call a benchmark's `main`. Print a UserError (for example a missing program) on one line; exit with code 2.

    SIGTERM raises an exception, so that the benchmark stops its servers.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except UserError as error:
        say(f"{Path(sys.argv[0]).stem}: {error}")
        sys.exit(2)


def absent(programs: Sequence[str]) -> list[str]:
    """Return the programs that are neither in PATH nor in Debian's folders for servers."""
    places = f"{environ()['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
    return [name for name in programs if not shutil.which(name, path=places)]


def sized(args: argparse.Namespace, full: Any, quick: Any, smoke: Any) -> Any:
    """Return the value for the size that the options select."""
    return smoke if args.smoke else quick if args.quick else full


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def figure(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def report(
    name: str,
    n: int,
    values: dict[str, list[float]],
    args: argparse.Namespace,
    missing: Sequence[str] | None = None,
    servers: Sequence[str] = (),
) -> None:
    """Print a table (unless --json) and the JSON line; save it with --save.

    missing: figures that could not be measured, with the reason; servers: kinds of the stores that were used.
    """
    figures = {key: figure(v) | {"n": len(v)} for key, v in values.items() if v}
    if not args.json:
        for key, f in figures.items():
            print(f"{key:24s} {f['median']:10.4g}  [{f['low']:.4g}, {f['high']:.4g}]  n = {f['n']}")
    out: dict[str, Any] = {"name": name, "n": n, "figures": figures}
    if missing:
        out["missing"] = list(missing)
    if args.save:
        keep(out, args.quick, versions(servers))
    print(json.dumps(out))


def versions(servers: Sequence[str]) -> dict[str, str]:
    """Return kind -> version, as reported by the installed programs. Kinds that are not installed are left out."""
    out = {}
    with tempfile.TemporaryDirectory() as state:
        for kind in servers:
            with suppress(UserError):
                out[kind] = make(kind, load(kind).Settings(kind=kind), Path(state)).version()
    return out


def keep(out: dict[str, Any], quick: bool, servers: dict[str, str], folder: Path = RESULTS) -> None:
    """Write benchmarks/results/<name>[.quick].json: the JSON line with machine, date, commit and versions."""
    about = environment.capture()
    facts = {key: about[key] for key in ("kernel", "cpu_model", "usable_cores", "memory_bytes", "python", "packages")}
    facts |= {"commit": about["git_commit"], "date": datetime.now(UTC).strftime("%Y-%m-%d"), "servers": servers}
    folder.mkdir(exist_ok=True)
    write_json(folder / f"{out['name']}{'.quick' if quick else ''}.json", out | {"quick": quick} | facts)


def environ() -> dict[str, str]:
    return dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")


@contextmanager
def laboratory(sweeps: dict[str, Any], stores: dict[str, Any] | None = None, **campaign: Any) -> Iterator[Path]:
    """Yield a temporary folder with a configuration, a campaign and the workflow.

    Stop its managed stores (default: one SeaweedFS) at the end, and remove the folder.
    """
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
        "stores_to_measure": ["seaweedfs"],
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
    """Return the wall time of a command in seconds. End the program if the command fails."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=env or environ(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.monotonic() - begun
