"""The HTCondor pool of a testbed: the parts that need neither root nor a download."""

from refusals import refusal

from storelab.gang.testbed.links import PREFIX, Plan
from storelab.gang.testbed.pool import Pool, configuration


def test_pool_needs_its_chroot(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    assert "`storelab install condor`" in refusal(Pool(tmp_path / "tb").up, Plan(["1mbit"], []), print)
    assert not (tmp_path / "tb").exists() and Pool(tmp_path / "tb").down() == []


def test_configuration_of_a_host(tmp_path):
    lines = configuration(tmp_path, "node1", "node1", "10.99.0.1", "STARTD").splitlines()
    wanted = {f"LOCAL_DIR = {tmp_path}/node1", "NETWORK_HOSTNAME = node1.pool", "DAEMON_LIST = MASTER STARTD"}
    assert wanted <= set(lines)


def test_testbeds_have_separate_namespaces():
    slurm, pool = Plan(["1mbit"], []), Plan(["1mbit"], [], "storelab-pool-")
    assert slurm.namespaces == [f"{PREFIX}switch", f"{PREFIX}head", f"{PREFIX}n1"]
    assert not set(slurm.namespaces) & set(pool.namespaces)
    assert slurm.nodes == {f"{PREFIX}n1": "10.99.0.1"}
