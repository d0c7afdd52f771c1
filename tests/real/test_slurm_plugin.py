"""A campaign whose points are separate jobs: Snakemake's executor for Slurm, on a real Slurm of four slurmd."""

import importlib.util
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cluster_lab import LONG, LONG_KEY, begin, configure, four_nodes, measure, on, runs, snakemake, storelab
from common import BIN, laboratory
from managed import until
from process_table import folder_of, having, read

pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.xdist_group("testbed")]
testbed = four_nodes()
if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
    pytest.skip(
        "Snakemake's executor for Slurm is not installed: storelab install slurm-plugin", allow_module_level=True
    )

FAST = {"duration": "2 s", "warm_up": "200 ms"}
TWO = {
    "up": {"workload": "put", **FAST, "axes": {"clients": 1, "workers": 2}},
    "down": {"workload": "get", **FAST, "objects": 16, "axes": {"clients": 4, "workers": 2, "object_size": "1 MB"}},
}
LAUNCHER = {"kind": "srun", "nodes": 4, "address": "127.0.0.1", "heartbeat_timeout": "10 s"}
SECRET = "a-secret-that-stands-nowhere"


@pytest.fixture
def lab(request):
    with laboratory(getattr(request, "param", TWO)) as folder:
        configure(folder, launcher=LAUNCHER)
        yield folder


def campaign(target: str, *options: str) -> list[str]:
    return snakemake("slurm", target, *options)


def jobs(testbed: Path, lab: Path) -> list[str]:
    return on(testbed, lab, "squeue", "-h", "-o", "%A %T").stdout.split("\n")[:-1]


def has_clients(process: subprocess.Popen, lab: Path) -> None:
    until(lambda: len(processes("storelab.gang.client", lab)) >= 4 or process.poll() is not None, 90, 0.3)
    assert process.poll() is None, process.communicate()


def processes(word: str, lab: Path) -> list[int]:
    """Return agents or clients that work for this laboratory, and coordinators."""
    return [pid for pid in having(word) if folder_of(pid).startswith(str(lab))]


def test_a_campaign_of_jobs(testbed, lab):
    """Check a gang of four nodes and one of a single node.

    The store runs on the submit host, and nothing needs an allocation.
    """
    done = on(testbed, lab, *campaign("figures"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = {len(r["clients"]): r for r in runs(lab).values()}
    assert {n: len(r["nodes"]) for n, r in found.items()} == {1: 1, 4: 4} and all(
        r["launcher"] == "srun" for r in found.values()
    )
    assert {c["host"] for c in found[4]["clients"]} == {f"node{i}" for i in range(1, 5)}
    assert all(c["operations"] > 0 and c["lateness_ns"] < 500_000_000 for r in found.values() for c in r["clients"])
    assert (lab / "results/bench/figures/index.json").exists() and not jobs(testbed, lab)
    assert "down" in storelab(lab, "status").stdout


@pytest.mark.parametrize("lab", [LONG], indirect=True)
def test_slurm_shows_job_and_ctrl_c_ends_it(testbed, lab):
    process = begin(testbed, lab, *campaign("tables"), AWS_SECRET_ACCESS_KEY=SECRET, BEARER_TOKEN=SECRET)
    has_clients(process, lab)
    until(lambda: not list(lab.rglob("keys")), 60)  # the parcel, which only its owner reads, goes once the gang has met
    (job,) = jobs(testbed, lab)
    shown = on(testbed, lab, "scontrol", "show", "job", "-dd", job.split()[0]).stdout
    script = on(testbed, lab, "scontrol", "write", "batch_script", job.split()[0], "-").stdout
    assert "Licenses=storelab:1" in shown and "NumNodes=4" in shown and "storelab" in script
    files = [path for folder in (lab, testbed) for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in files if SECRET.encode() in read(path)]
    assert SECRET not in shown + script and not having(SECRET)
    # sbatch exports the environment: Slurm's controller keeps it, for its own user only.
    assert all(path.name == "environment" and path.stat().st_mode & 0o077 == 0 for path in kept), kept
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    until(lambda: not jobs(testbed, lab) and not processes("storelab.gang", lab), 30, 0.3)
    assert process.returncode != 0 and not runs(lab)


@pytest.mark.parametrize("lab", [LONG], indirect=True)
def test_campaign_continues_after_ended_job(testbed, lab):
    """Slurm ends the job. The campaign ends with an error, nothing remains, and the same command measures the point."""
    process = begin(testbed, lab, *campaign("tables"))
    has_clients(process, lab)
    (job,) = jobs(testbed, lab)
    on(testbed, lab, "scancel", job.split()[0])
    out, err = process.communicate(timeout=120)
    assert process.returncode != 0 and "SLURM status is: 'CANCELLED'" in out + err, out + err
    assert not processes("storelab.gang", lab) and not runs(lab)
    configure(lab, sweeps={"long": LONG["long"] | {"duration": "2 s"}})
    done = on(testbed, lab, *campaign("tables"))
    assert done.returncode == 0 and LONG_KEY in runs(lab), done.stdout + done.stderr


def test_refusals_of_slurm_are_reported(testbed, lab):
    begun = time.monotonic()
    done = on(testbed, lab, *campaign("tables", "--default-resources", "slurm_partition=nowhere", "mem_mb=100"))
    assert done.returncode != 0 and "invalid partition specified: nowhere" in done.stdout + done.stderr
    assert time.monotonic() - begun < 60 and not runs(lab) and not jobs(testbed, lab)


def test_more_nodes_than_there_are(testbed, lab):
    """Slurm would accept the job, and never start it."""
    configure(lab, launcher=LAUNCHER | {"nodes": 8})
    done = on(testbed, lab, str(BIN / "storelab"), "check")
    assert done.returncode == 2 and "launcher.nodes: 8 nodes are configured, but the cluster has 4" in done.stderr, (
        done.stderr
    )


def test_no_store_is_started_in_a_measuring_job(testbed, lab):
    job = " ".join(measure("seaweedfs/put/workers~0002_rep~001"))
    done = on(testbed, lab, "sbatch", "--wait", "-N1", "-o", "job.out", "--wrap", job)
    shown = (lab / "job.out").read_text()
    assert done.returncode != 0 and "stores.seaweedfs: " in shown and "a measuring job does not start stores" in shown
    assert "down" in storelab(lab, "status").stdout
