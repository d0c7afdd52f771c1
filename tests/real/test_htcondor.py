"""Gangs on a real HTCondor pool: head and four nodes on this machine, from the chroot (needs root)."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import cluster_lab
import ports
import pytest
from cluster_lab import LONG, LONG_KEY, begin, children, measure, on, runs, snakemake, storelab
from common import BIN, environ, laboratory
from managed import until
from process_table import command_lines, having

from storelab import install
from storelab.gang.testbed.pool import PREFIX, Pool
from storelab.install import chroot

pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.root, pytest.mark.xdist_group("testbed")]
if os.geteuid() != 0:
    pytest.skip("privilege: the namespaces of the pool need root", allow_module_level=True)
if not chroot.CONDOR.present(install.tools_folder()):
    pytest.skip("the chroot is not built: storelab install condor builds it", allow_module_level=True)

HEAD, FRONT_END = "10.99.0.254", "10.99.0.241"
PUT = {"workload": "put", "duration": "2 s", "warm_up": "200 ms"}
HELD = ["periodic_hold = JobStatus == 2", 'periodic_hold_reason = "over its quota"']


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Start four nodes and one front-end; check that nothing of them remains."""
    if Path(f"/run/netns/{PREFIX}head").exists():
        pytest.skip("another pool is up on this machine")
    folder = tmp_path_factory.mktemp("pool")
    done = storelab(folder, "testbed", "up", "--htcondor", "--folder", str(folder), "--nodes", "4", "--front-ends", "1")
    assert done.returncode == 0, done.stderr
    yield folder
    done = storelab(folder, "testbed", "down", "--folder", str(folder))
    assert "removed 6 namespaces" in done.stdout
    assert not of(folder) and not list(Path("/run/netns").glob(f"{PREFIX}*"))
    assert str(chroot.CONDOR.folder(install.tools_folder())) not in Path("/proc/self/mounts").read_text()


def of(folder: Path) -> list[int]:
    """Return the processes that were started with a file of the folder."""
    return [*{*having(f"{folder}/"), *having(f"{folder}/", file="environ")}]


@pytest.fixture
def lab(pool):
    """Yield a laboratory whose gangs have up to four nodes of the pool; check at the end that the queue is empty."""
    with laboratory(LONG, {"seaweedfs": {"kind": "seaweedfs", "port": ports.block(), "address": FRONT_END}}) as folder:
        configure(folder)
        yield folder
    done = on(pool, pool, "condor_q", "-af", "ClusterId", "JobStatus")
    assert done.returncode == 0 and not done.stdout.strip()


def configure(folder: Path, sweeps: dict | None = None, gang_timeout: str = "60 s", **launcher) -> None:
    settings = {"kind": "htcondor", "nodes": 4, "address": HEAD, "heartbeat_timeout": "8 s"} | launcher
    cluster_lab.configure(
        folder, launcher=settings, gang_timeout=gang_timeout, **({"sweeps": sweeps} if sweeps else {})
    )


def hosts(folder: Path) -> set[str]:
    (run,) = runs(folder).values()
    return {c["host"] for c in run["clients"]}


def agents(folder: Path) -> dict[int, int]:
    """Return the process of the agent of each node whose clients have started."""
    lines = {pid: line.decode(errors="replace").split("\0") for pid, line in command_lines().items()}
    found = [pid for pid in having("\0storelab.gang.agent\0", str(folder)) if pid in lines and children(pid)]
    return {int(lines[pid][lines[pid].index("storelab.gang.agent") + 2]): pid for pid in found}


def all_began(folder: Path, nodes: int) -> dict[int, int]:
    until(lambda: len(agents(folder)) >= nodes, 120, 0.2)
    time.sleep(2)
    return agents(folder)


def no_client_left(folder: Path) -> None:
    until(lambda: not having(f"storelab-{chroot.CONDOR_USER}/gang-") and not agents(folder), 30, 0.3)


def test_a_pool_that_does_not_come_up_leaves_nothing(tmp_path):
    """The folder is not a chroot; then an `up` is killed, and `down` cleans up."""
    if Path(f"/run/netns/{PREFIX}head").exists():
        pytest.skip("another pool is up on this machine")
    broken = chroot.CONDOR.folder(tmp_path / "tools") / "usr/sbin/condor_master"
    broken.parent.mkdir(parents=True)
    broken.touch()
    command = [str(BIN / "storelab"), "testbed", "up", "--htcondor", "--folder", str(tmp_path / "tb"), "--nodes", "2"]
    variables = environ() | {"STORELAB_TOOLS": str(tmp_path / "tools")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and re.search(r"testbed: \w+ ended \(", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert not of(tmp_path / "tb") and not list(Path("/run/netns").glob(f"{PREFIX}*"))
    process = subprocess.Popen(command, env=environ(), stderr=subprocess.DEVNULL)
    until((tmp_path / "tb/node1/first.pid").exists, 20)
    process.kill()
    process.wait()
    storelab(tmp_path, "testbed", "down", "--folder", str(tmp_path / "tb"))
    assert not of(tmp_path / "tb") and not list(Path("/run/netns").glob(f"{PREFIX}*"))


def test_a_campaign_of_vanilla_gangs(pool, lab):
    """One and four nodes, and two of four; each client runs on its node, though one slot has room for all."""
    configure(lab, {"up": PUT | {"axes": {"clients": [1, 8], "workers": 2, "clients_per_node": [0, 4]}}})
    done = on(pool, lab, *snakemake("htcondor", "tables"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = runs(lab)
    assert len(found) == 4
    for key, run in found.items():
        clients = run["clients"]
        nodes = -(-len(clients) // 4) if "per_node~0004" in key else min(4, len(clients))
        assert run["launcher"] == "htcondor" and len({c["host"] for c in clients}) == nodes == len(run["nodes"])
        assert {c["host"] for c in clients} <= {f"node{i}" for i in range(1, 5)}
        assert all(c["lateness_ns"] < 200_000_000 and c["operations"] > 0 for c in clients)


def test_the_doctor_looks_at_every_machine(pool, lab):
    done = on(pool, lab, "storelab", "doctor", "--nodes")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines()[1:5]]
    assert sorted(rows) == ["node1", "node2", "node3", "node4"] and "seaweedfs: is down" in done.stdout
    configure(lab, gang_timeout="15 s", nodes=5)
    done = on(pool, lab, "storelab", "doctor", "--nodes")
    assert done.returncode == 2 and "the pool has 4 suitable machines for the 5 jobs" in done.stdout, done


def test_the_parallel_universe(pool, lab):
    configure(lab, {"up": PUT | {"axes": {"clients": 4, "workers": 2}}}, universe="parallel")
    done = on(pool, lab, *measure("seaweedfs/put/clients~0004_workers~0002_rep~001"))
    assert done.returncode == 0 and hosts(lab) == {f"node{i}" for i in range(1, 5)}, done.stderr


def test_no_folder_is_shared(pool, lab):
    """The agents receive the address of the relay and a token; HTCondor runs them in its own scratch folder."""
    sweeps = {"up": PUT | {"axes": {"clients": 2, "workers": 2}}}
    configure(lab, sweeps, shared_folder=False, options=["getenv = PYTHONPATH"])
    done = on(pool, lab, *measure("seaweedfs/put/clients~0002_workers~0002_rep~001"))
    assert done.returncode == 0 and len(hosts(lab)) == 2, done.stderr
    shown = ("Arguments", "ShouldTransferFiles", "TransferInput")
    jobs = on(pool, lab, "condor_history", "-limit", "2", "-af", *shown).stdout.splitlines()
    assert len(jobs) == 2
    assert all("https://" in j and " YES " in j and j.endswith("ticket") and str(lab) not in j for j in jobs)


def test_slots_that_come_late_are_waited_for(pool, lab):
    """One of two nodes is busy for a while with something else."""
    options = ['requirements = Machine == "node1.pool" || Machine == "node2.pool"', "request_cpus = 4"]
    configure(lab, {"up": PUT | {"axes": {"clients": 2, "workers": 2}}}, options=options)
    busy = ["executable = /bin/sleep", "arguments = 20", "transfer_executable = false", "request_cpus = 14"]
    (lab / "busy.sub").write_text("\n".join([*busy, 'requirements = Machine == "node1.pool"', "queue\n"]))
    assert on(pool, lab, "condor_submit", "busy.sub").returncode == 0
    until(lambda: "2" in on(pool, lab, "condor_q", "-af", "JobStatus").stdout, 20, 0.2)
    since = time.monotonic()
    done = on(pool, lab, *measure("seaweedfs/put/clients~0002_workers~0002_rep~001"))
    assert done.returncode == 0 and hosts(lab) == {"node1", "node2"} and time.monotonic() - since > 15, done.stderr


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        (
            ["request_cpus = 64"],
            r"4 of 4 nodes did not join within 8 s \(missing.* 3\); jobs .*3 still wait for a slot",
        ),
        (['requirements = Machine == "node1.pool"'], "the pool has 1 suitable machines for the 4 jobs"),
        (["requirements = ((("], r"condor_status: .*invalid constraint.* \(constraint: "),
        (["universe = nonsense"], r"condor_submit: .*nonsense"),
        (
            {"python": "/no/such/python"},
            r"job \d+\.0 \(node 0\) ended with status 127 .*/such/python: not found",
        ),
        (HELD, r"job \d+\.\d \(node \d\) is held: over its quota"),
    ],
    ids=("no such slots", "too few machines", "bad requirements", "refused", "no Python on the nodes", "held"),
)
def test_gang_that_cannot_begin_is_named(pool, lab, launcher, message):
    """`launcher`: settings, or options only."""
    configure(lab, gang_timeout="8 s", **(launcher if isinstance(launcher, dict) else {"options": launcher}))
    done = on(pool, lab, *measure(LONG_KEY))
    assert done.returncode == 1 and re.search(message, done.stderr), done.stderr
    assert json.loads((lab / "results/bench/raw" / LONG_KEY / "failed.json").read_text())["reason"] and not runs(lab)


@pytest.mark.parametrize("universe", ["vanilla", "parallel"])
def test_an_agent_that_dies_fails_the_point(pool, lab, universe):
    configure(lab, universe=universe)
    process = begin(pool, lab, *measure(LONG_KEY))
    os.kill(all_began(lab, 4)[2], signal.SIGKILL)
    since = time.monotonic()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1 and time.monotonic() - since < 45, err
    assert "ended by signal 9" in err or "no heartbeat" in err, err
    assert not runs(lab)
    no_client_left(lab)


def test_ctrl_c_removes_the_jobs(pool, lab):
    process = begin(pool, lab, *measure(LONG_KEY))
    all_began(lab, 4)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    no_client_left(lab)
    assert not on(pool, pool, "condor_q", "-af", "ClusterId").stdout.strip()


def test_scheduler_can_be_away_for_a_while(pool, lab):
    """The master starts it again, and it finds its jobs again."""
    configure(lab, {"up": PUT | {"duration": "12 s", "axes": {"clients": 2, "workers": 1}}})
    process = begin(pool, lab, *measure("seaweedfs/put/clients~0002_workers~0001_rep~001"))
    all_began(lab, 2)
    (schedd,) = [pid for pid in of(pool) if Path(f"/proc/{pid}/comm").read_text().startswith("condor_schedd")]
    os.kill(schedd, signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0 and len(runs(lab)) == 1, err


def test_a_node_lost_in_the_middle(pool, lab):
    """A node dies during a point, which fails; the next gang of three avoids it, although the pool lists it."""
    process = begin(pool, lab, *measure(LONG_KEY))
    all_began(lab, 4)
    os.kill(Pool(pool).pids()["node3"], signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    lost = r"node 2 \(node3\) is lost: it has sent no heartbeat for 8 s"
    assert process.returncode == 1 and re.search(lost, err), err
    no_client_left(lab)
    configure(lab, {"up": PUT | {"axes": {"clients": 3, "workers": 2}}})
    done = on(pool, lab, *measure("seaweedfs/put/clients~0003_workers~0002_rep~001"))
    assert done.returncode == 0 and hosts(lab) == {"node1", "node2", "node4"}, done.stderr
    back = storelab(pool, "testbed", "up", "--htcondor", "--folder", str(pool))
    assert back.returncode == 2 and "a testbed is up in" in back.stderr
