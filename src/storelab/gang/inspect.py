"""`storelab doctor --nodes`: every node of the allocation looks at itself, one table of all (level 3, measuring side).

On a node: `python -m storelab.gang.inspect FOLDER`, which reads `ask.json` there and leaves `node.<number>`.
"""

import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab import __version__, environment, proc
from storelab.config import Config
from storelab.gang import clocks, keys, launchers, remote
from storelab.gang.rendezvous import Folder
from storelab.model import UserError

WAIT_S = 90
COLUMNS = ("host", "python", "storelab", "s5cmd", "endpoint", "tmpfs", "open files", "clock", "link", "problem")


def look(folder: Path, number: int) -> None:
    """What this node says of itself."""
    place = Folder(folder)
    ask = place.get("ask.json") or {}
    about: dict[str, Any] = {
        "host": os.environ.get("SLURMD_NODENAME") or platform.node(),
        "python": platform.python_version(),
        "storelab": __version__,
        "packages": environment.packages(),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    try:
        from storelab.engines import s5cmd

        about["s5cmd"] = str(s5cmd.binary())
    except UserError as error:
        about["s5cmd_missing"] = str(error)
    about["endpoints"] = {url: _reach(url) for url in ask["endpoints"]}
    scratch = Path(ask["scratch"])
    about["tmpfs_free"] = shutil.disk_usage(scratch).free if scratch.is_dir() else None
    offset = clocks.measure(ask["clock"])
    about |= {"clock_offset_ns": offset.ns, "clock_error_ns": offset.error_ns, "clock_how": offset.how}
    about["link_bits_per_s"] = max((s for nic in proc.interfaces(proc.Files(0)) if (s := proc.link_speed(nic))), default=None)
    place.put(f"node.{number}", about)


def _reach(url: str) -> str:
    """'' where something answers at the URL's port, else why not."""
    parts = urlsplit(url)
    ports = {"https": 443, "http": 80, "root": 1094}
    try:
        with socket.create_connection((parts.hostname or "", parts.port or ports.get(parts.scheme, 80)), timeout=5):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def nodes(config: Config, stores: dict[str, Any]) -> list[dict[str, str]]:
    """A row of COLUMNS for each node of the allocation; `problem` is '' where it is fit. Raises UserError: no allocation, or no answer."""
    if config.launcher.kind != "srun":
        raise UserError(
            "doctor --nodes", f"looks at the nodes by srun, and launcher.kind is {config.launcher.kind}", "set launcher.kind: srun"
        )
    count = launchers.most_nodes(config)
    base = Path(config.results)
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".doctor-", dir=base)).resolve()
    server = clocks.Server(remote.host_names(config.launcher.address), config.launcher.port)
    try:
        urls = [e.url for name in config.use_stores for e in _endpoints(stores[name]) if "://" in e.url and not e.url.startswith("file")]
        Folder(folder).put("ask.json", {"endpoints": urls, "scratch": config.scratch, "clock": server.addresses})
        python = config.launcher.python or sys.executable
        step = ["srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--mem=0", "--overlap", "--input=none"]
        command = [*step, *config.launcher.options, python, "-m", "storelab.gang.inspect", str(folder)]
        try:
            done = subprocess.run(command, env=keys.clean(os.environ), capture_output=True, text=True, timeout=WAIT_S, check=False)
            words = " ".join(done.stderr.split())[-200:]
        except subprocess.TimeoutExpired:
            words = f"nothing within {WAIT_S} s"
        found = {n: Folder(folder).get(f"node.{n}") or {} for n in range(count)}
        return [_row(n, about, words) for n, about in found.items()]
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


def _endpoints(store: Any) -> list[Any]:
    try:
        return store.endpoints(1)
    except Exception:  # noqa: BLE001 - a managed store that is down has none
        return []


def _row(number: int, about: dict[str, Any], words: str) -> dict[str, str]:
    if not about:
        told = f": {words}" if words else ""
        return dict.fromkeys(COLUMNS, "-") | {
            "host": f"node {number}",
            "problem": f"left no answer in the results folder: not shared?{told}",
        }
    problems = []
    here = {"python": platform.python_version(), "storelab": __version__, "packages": environment.packages()}
    for what, value in here.items():
        if about[what] != value:
            problems.append(f"other {what}: {remote.difference(what, about[what], value)}")
    if "s5cmd_missing" in about:
        problems.append("no s5cmd")
    closed = {url: why for url, why in about["endpoints"].items() if why}
    problems += [f"{url}: {why}" for url, why in closed.items()]
    if about["tmpfs_free"] is None:
        problems.append("no scratch folder")
    error = about["clock_error_ns"]
    return {
        "host": about["host"],
        "python": about["python"],
        "storelab": about["storelab"],
        "s5cmd": "missing" if "s5cmd_missing" in about else "there",
        "endpoint": f"{len(about['endpoints']) - len(closed)} of {len(about['endpoints'])}",
        "tmpfs": "-" if about["tmpfs_free"] is None else f"{about['tmpfs_free'] / 1e9:.1f} GB",
        "open files": str(about["open_files"]),
        "clock": "unknown" if error is None else f"{about['clock_offset_ns'] / 1e6:+.2f} ± {error / 1e6:.2f} ms",
        "link": "unknown" if about["link_bits_per_s"] is None else f"{about['link_bits_per_s'] / 1e9:g} Gbit/s",
        "problem": "; ".join(problems),
    }


if __name__ == "__main__":
    look(Path(sys.argv[1]), int(os.environ["SLURM_PROCID"]))
