"""A laboratory whose clients run on the nodes of a testbed: its configuration, commands in it, who of it still runs."""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ports
import yaml
from common import BIN, environ

LONG = {"long": {"workload": "put", "duration": "60 s", "axes": {"clients": 4, "workers": 1}}}
LONG_KEY = "seaweedfs/put/clients~0004_workers~0001_rep~001"


def storelab(folder: Path, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(BIN / "storelab"), *arguments], cwd=folder, env=environ(), capture_output=True, text=True, timeout=timeout
    )


def on(testbed: Path, folder: Path, *command: str, timeout: float = 300) -> subprocess.CompletedProcess:
    return storelab(folder, "testbed", "run", "--folder", str(testbed), "--", *command, timeout=timeout)


def begin(testbed: Path, folder: Path, *command: str, **variables: str) -> subprocess.Popen:
    """In a session of its own: Ctrl-C is a signal to all of it (`os.killpg`)."""
    full = [str(BIN / "storelab"), "testbed", "run", "--folder", str(testbed), "--", *command]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        full, cwd=folder, env=environ() | variables, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def measure(key: str) -> tuple[str, ...]:
    return str(BIN / "storelab"), "measure", key


def up(folder: Path) -> None:
    """A Slurm of four nodes on loopback."""
    done = storelab(folder, "testbed", "up", "--folder", str(folder), "--nodes", "4", "--port", str(ports.block()))
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def four_nodes(folder: Path) -> Iterator[Path]:
    """Up, and down again with all that belongs to it."""
    up(folder)
    yield folder
    done = storelab(folder, "testbed", "down", "--folder", str(folder))
    assert done.returncode == 0, done.stderr
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if started_in(p, folder)]


def configure(folder: Path, **changes: Any) -> None:
    """Other sweeps for its campaign, and whatever else for its config.yaml."""
    for name, keys in (("campaigns/bench.yaml", {"sweeps"}), ("config.yaml", changes.keys() - {"sweeps"})):
        path = folder / name
        path.write_text(
            yaml.safe_dump(yaml.safe_load(path.read_text()) | {k: v for k, v in changes.items() if k in keys})
        )


def started_in(cmdline: Path, folder: Path) -> bool:
    try:
        return f"{folder}/slurm.conf".encode() in cmdline.read_bytes()
    except OSError:
        return False


def runs(folder: Path) -> dict[str, dict]:
    raw = folder / "results/bench/raw"
    return {str(p.parent.relative_to(raw)): json.loads(p.read_text()) for p in raw.rglob("run.json")}


def agent(lab: Path, number: int) -> int:
    """pid of a node's agent, as soon as it has clients."""
    limit = time.monotonic() + 40
    while time.monotonic() < limit:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"storelab.gang.agent" in words and any(str(lab).encode() in w for w in words):
                pid = int(path.parent.name)
                try:
                    variables = (path.parent / "environ").read_bytes().split(b"\0")
                    children = (path.parent / "task" / str(pid) / "children").read_text()
                except OSError:
                    continue
                if f"SLURM_PROCID={number}".encode() in variables and children:
                    return pid
        time.sleep(0.2)
    raise AssertionError("no agent came")


def gone(lab: Path, within_s: float = 25) -> bool:
    """No agent and no client of this laboratory runs any more."""
    scratch = yaml.safe_load((lab / "config.yaml").read_text()).get("scratch", "/gang-")
    limit = time.monotonic() + within_s
    while time.monotonic() < limit:
        if not any(_client_of(p, lab, scratch) for p in Path("/proc").glob("[0-9]*/cmdline")):
            return True
        time.sleep(0.3)
    return False


def _client_of(cmdline: Path, lab: Path, scratch: str) -> bool:
    try:
        text = cmdline.read_bytes()
        return b"storelab.gang" in text and (str(lab).encode() in text or scratch.encode() in text)
    except OSError:
        return False
