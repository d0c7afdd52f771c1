"""A campaign whose points are jobs of their own: Snakemake's executor plugin for Slurm, on a real Slurm of four slurmd on this machine."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import ports
import pytest
import yaml
from common import BIN, environ, laboratory

pytestmark = [pytest.mark.real, pytest.mark.heavy]
if shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
    pytest.skip("Slurm is not installed: storelab install slurm", allow_module_level=True)
if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
    pytest.skip("Snakemake's executor for Slurm is not installed: storelab install slurm-plugin", allow_module_level=True)

FAST = {"duration": "2 s", "warm_up": "200 ms"}
TWO = {
    "up": {"workload": "put", **FAST, "axes": {"clients": 1, "workers": 2}},
    "down": {"workload": "get", **FAST, "objects": 16, "axes": {"clients": 4, "workers": 2, "object_size": "1 MB"}},
}
LONG = {"long": {"workload": "put", "duration": "60 s", "axes": {"clients": 4, "workers": 1}}}
LONG_KEY = "seaweedfs/put/clients~0004_workers~0001_rep~001"
SECRET = "a-secret-that-stands-nowhere"


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    """Four nodes on loopback."""
    folder = tmp_path_factory.mktemp("tb")
    up = [str(BIN / "storelab"), "testbed", "up", "--folder", str(folder), "--nodes", "4", "--port", str(ports.block())]
    done = subprocess.run(up, env=environ(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    yield folder
    subprocess.run([str(BIN / "storelab"), "testbed", "down", "--folder", str(folder)], env=environ(), timeout=120, check=True)


@pytest.fixture
def lab(request):
    with laboratory(getattr(request, "param", TWO)) as folder:
        path = folder / "config.yaml"
        launcher = {"kind": "srun", "nodes": 4, "address": "127.0.0.1", "silence": "10 s"}
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"launcher": launcher}))
        yield folder


def command(testbed: Path, *words: str) -> list[str]:
    return [str(BIN / "storelab"), "testbed", "run", "--folder", str(testbed), "--", *words]


def campaign(testbed: Path, target: str, *options: str) -> list[str]:
    return command(testbed, "snakemake", "--profile", "profiles/slurm", *options, "--config", "measure=true", "--", target)


def run(lab: Path, words: list[str], **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(words, cwd=lab, env=environ() | variables, capture_output=True, text=True, timeout=300)


def begin(lab: Path, words: list[str], **variables: str) -> subprocess.Popen:
    out = (lab / "out").open("w")
    return subprocess.Popen(words, cwd=lab, env=environ() | variables, stdout=out, stderr=out, start_new_session=True)


def jobs(testbed: Path, lab: Path) -> list[str]:
    return run(lab, command(testbed, "squeue", "-h", "-o", "%A %T")).stdout.split("\n")[:-1]


def until(true, seconds: float):
    """What `true` gives as soon as it gives something."""
    limit = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < limit, f"not within {seconds} s"
        time.sleep(0.3)
    return found


def processes(word: str, lab: Path) -> list[int]:
    """Agents or clients that work for this laboratory, and coordinators."""
    out = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words, where = (path / "cmdline").read_text(), str((path / "cwd").readlink())
        except OSError:
            continue
        if word in words and where.startswith(str(lab)):
            out.append(int(path.name))
    return out


def runs(lab: Path) -> dict[str, dict]:
    raw = lab / "results/bench/raw"
    return {str(p.parent.relative_to(raw)): json.loads(p.read_text()) for p in raw.rglob("run.json")}


def test_a_campaign_of_jobs(testbed, lab):
    """A gang of four nodes and one of a single node; the store lives on the submit host, and nothing needs an allocation."""
    done = run(lab, campaign(testbed, "figures"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = {len(r["clients"]): r for r in runs(lab).values()}
    assert {n: len(r["nodes"]) for n, r in found.items()} == {1: 1, 4: 4} and all(r["launcher"] == "srun" for r in found.values())
    assert {c["host"] for c in found[4]["clients"]} == {f"node{i}" for i in range(1, 5)}
    assert all(c["operations"] > 0 and c["lateness_ns"] < 200_000_000 for r in found.values() for c in r["clients"])
    assert (lab / "results/bench/figures/index.json").exists() and not jobs(testbed, lab)
    assert "down" in run(lab, [str(BIN / "storelab"), "status"]).stdout


@pytest.mark.parametrize("lab", [LONG], indirect=True)
def test_what_slurm_shows_of_a_job_and_ctrl_c(testbed, lab):
    process = begin(lab, campaign(testbed, "tables"), AWS_SECRET_ACCESS_KEY=SECRET, BEARER_TOKEN=SECRET)
    until(lambda: len(processes("storelab.gang.client", lab)) >= 4 or process.poll() is not None, 90)
    assert process.poll() is None, (lab / "out").read_text()
    (job,) = jobs(testbed, lab)
    shown = run(lab, command(testbed, "scontrol", "show", "job", "-dd", job.split()[0])).stdout
    script = run(lab, command(testbed, "scontrol", "write", "batch_script", job.split()[0], "-")).stdout
    assert "Licenses=storelab:1" in shown and "NumNodes=4" in shown and "storelab" in script
    told = [path for path in Path("/proc").glob("[0-9]*/cmdline") if SECRET.encode() in _read(path)]
    kept = [path for folder in (lab, testbed) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in _read(path)]
    assert SECRET not in shown + script and not told
    # sbatch exports the environment: Slurm's controller keeps it, for its own user alone.
    assert all(path.name == "environment" and path.stat().st_mode & 0o077 == 0 for path in kept), kept
    os.killpg(process.pid, signal.SIGINT)
    process.wait(60)
    until(lambda: not jobs(testbed, lab) and not processes("storelab.gang", lab), 30)
    assert process.returncode != 0 and not runs(lab)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("lab", [LONG], indirect=True)
def test_a_job_that_is_ended_and_the_campaign_that_goes_on(testbed, lab):
    """Slurm ends it. The campaign ends with an error, nothing is left, and the same command measures the point."""
    process = begin(lab, campaign(testbed, "tables"))
    until(lambda: len(processes("storelab.gang.client", lab)) >= 4 or process.poll() is not None, 90)
    (job,) = jobs(testbed, lab)
    run(lab, command(testbed, "scancel", job.split()[0]))
    process.wait(120)
    text = (lab / "out").read_text()
    assert process.returncode != 0 and "SLURM status is: 'CANCELLED'" in text, text
    assert not processes("storelab.gang", lab) and not runs(lab)
    path = lab / "campaigns/bench.yaml"
    path.write_text(path.read_text().replace("60 s", "2 s"))
    done = run(lab, campaign(testbed, "tables"))
    assert done.returncode == 0 and LONG_KEY in runs(lab), done.stdout + done.stderr


@pytest.mark.parametrize("lab", [LONG], indirect=True)
def test_a_walltime_that_is_too_short(testbed, lab):
    resources = ("mpi=srun", "cpus_per_task=1", "slurm_extra=--exclusive", "runtime=1")
    done = run(lab, campaign(testbed, "tables", "--set-resources", *(f"measure:{r}" for r in resources)))
    reason = "of walltime left, the point takes 120 s"
    assert done.returncode != 0 and f"1 of 1 points failed, the first is {LONG_KEY}" in done.stderr and reason in done.stderr, done.stderr
    assert reason in json.loads((lab / "results/bench/raw" / LONG_KEY / "failed.json").read_text())["reason"] and not runs(lab)


def test_what_slurm_refuses(testbed, lab):
    begun = time.monotonic()
    done = run(lab, campaign(testbed, "tables", "--default-resources", "slurm_partition=nowhere", "mem_mb=100"))
    assert done.returncode != 0 and "invalid partition specified: nowhere" in done.stdout + done.stderr
    assert time.monotonic() - begun < 60 and not runs(lab) and not jobs(testbed, lab)


def test_more_nodes_than_there_are(testbed, lab):
    """Slurm would take the job, and never start it."""
    path = lab / "config.yaml"
    path.write_text(path.read_text().replace("nodes: 4", "nodes: 8"))
    done = run(lab, command(testbed, str(BIN / "storelab"), "check"))
    assert done.returncode == 2 and "launcher.nodes: 8 nodes are asked, the cluster has 4" in done.stderr, done.stderr


def test_no_store_is_started_in_a_measuring_job(testbed, lab):
    words = ["sbatch", "--wait", "-N1", "-o", "job.out", "--wrap", f"{BIN}/storelab measure seaweedfs/put/workers~0002_rep~001"]
    done = run(lab, command(testbed, *words))
    told = (lab / "job.out").read_text()
    assert done.returncode != 0 and "stores.seaweedfs: " in told and "no store is started in a measuring job" in told
    assert "down" in run(lab, [str(BIN / "storelab"), "status"]).stdout
