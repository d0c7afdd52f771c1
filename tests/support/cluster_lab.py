"""A laboratory whose clients run on the nodes of a testbed: its configuration, commands and processes."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ports
import pytest
import yaml
from common import BIN, environ
from managed import until
from process_table import having, read

LONG = {"long": {"workload": "put", "duration": "60 s", "axes": {"clients": 4, "workers": 1}}}
LONG_KEY = "seaweedfs/put/clients~0004_workers~0001_rep~001"


def storelab(folder: Path, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(BIN / "storelab"), *arguments], cwd=folder, env=environ(), capture_output=True, text=True, timeout=timeout
    )


def on(testbed: Path, folder: Path, *command: str, timeout: float = 300) -> subprocess.CompletedProcess:
    return storelab(folder, "testbed", "run", "--folder", str(testbed), "--", *command, timeout=timeout)


def begin(testbed: Path, folder: Path, *command: str, **variables: str) -> subprocess.Popen:
    """Start a command in a separate session. `os.killpg` sends it a signal like Ctrl-C."""
    full = [str(BIN / "storelab"), "testbed", "run", "--folder", str(testbed), "--", *command]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        full, cwd=folder, env=environ() | variables, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def snakemake(profile: str, target: str, *options: str) -> list[str]:
    """Return the command that measures a campaign and makes a target of the workflow."""
    return ["snakemake", "--profile", f"profiles/{profile}", *options, "--config", "measure=true", "--", target]


def measure(key: str) -> tuple[str, ...]:
    return str(BIN / "storelab"), "measure", key


def up(folder: Path) -> None:
    """Start a Slurm testbed with four nodes on loopback."""
    done = storelab(folder, "testbed", "up", "--folder", str(folder), "--nodes", "4", "--port", str(ports.block()))
    assert done.returncode == 0, done.stderr


def four_nodes() -> Any:
    """Return a module fixture: a Slurm testbed with four nodes, which is stopped at the end.

    Skip the module if Slurm is not installed.
    """
    if shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip("Slurm is not installed: storelab install slurm", allow_module_level=True)

    @pytest.fixture(scope="module")
    def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        folder = tmp_path_factory.mktemp("tb")
        up(folder)
        yield folder
        done = storelab(folder, "testbed", "down", "--folder", str(folder))
        assert done.returncode == 0, done.stderr
        assert not having(f"{folder}/slurm.conf")

    return testbed


def configure(folder: Path, **changes: Any) -> None:
    """Change the sweeps of the campaign and other keys of config.yaml in this folder."""
    for name, keys in (("campaigns/bench.yaml", {"sweeps"}), ("config.yaml", changes.keys() - {"sweeps"})):
        path = folder / name
        path.write_text(
            yaml.safe_dump(yaml.safe_load(path.read_text()) | {k: v for k, v in changes.items() if k in keys})
        )


def runs(folder: Path) -> dict[str, dict]:
    raw = folder / "results/bench/raw"
    return {str(p.parent.relative_to(raw)): json.loads(p.read_text()) for p in raw.rglob("run.json")}


def agent(lab: Path, number: int) -> int:
    """Wait until the agent of a node has clients, and return its process."""
    variable = f"SLURM_PROCID={number}".encode()

    def found() -> list[int]:
        pids = having("\0storelab.gang.agent\0", str(lab))
        pids = [pid for pid in pids if variable in read(Path(f"/proc/{pid}/environ")).split(b"\0")]
        return [pid for pid in pids if children(pid)]

    return until(found, 40, 0.2)[0]


def children(pid: int) -> bytes:
    """Return the pids of the child processes of a process."""
    return read(Path(f"/proc/{pid}/task/{pid}/children"))


def gone(lab: Path, within_s: float = 25) -> bool:
    """Wait until all agents and clients of this laboratory have ended."""
    scratch = yaml.safe_load((lab / "config.yaml").read_text()).get("scratch", "/gang-")
    return until(lambda: not [*having("storelab.gang", str(lab)), *having("storelab.gang", scratch)], within_s, 0.3)
