"""The HTCondor pool and its chroot, as far as they go without root and without a download."""

import pytest

from storelab import install
from storelab.core.errors import MeasurementFailed, UserError
from storelab.gang.testbed.links import PREFIX, Plan
from storelab.gang.testbed.pool import Pool, configuration
from storelab.install import chroot, running


def test_only_root_builds_a_chroot(tmp_path, monkeypatch):
    monkeypatch.setattr(chroot.os, "geteuid", lambda: 1000)
    (part,) = install.parts("condor", tmp_path)
    assert not part.present() and "HTCondor of Debian trixie" in part.what
    with pytest.raises(UserError, match="a chroot is made by root alone; run `storelab install condor` as root"):
        part.run(print)


def test_what_is_in_its_place_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(chroot.os, "geteuid", lambda: 0)
    (chroot.folder(tmp_path) / "mine").mkdir(parents=True)
    with pytest.raises(UserError, match="condor-trixie is there, and holds no HTCondor; move it away"):
        chroot.install(tmp_path, print)
    assert (chroot.folder(tmp_path) / "mine").is_dir()


def test_a_build_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """Nor is a half-built chroot taken for a whole one."""
    monkeypatch.setattr(chroot.os, "geteuid", lambda: 0)
    monkeypatch.setattr(chroot.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(chroot, "mirror", lambda: "http://archive.example/debian")

    def run(command, what, *rest):
        if "debootstrap" in command:
            (tmp_path / command[-2] / "usr/sbin").mkdir(parents=True)
            (tmp_path / command[-2] / "etc/apt/apt.conf.d").mkdir(parents=True)
        if "update" in command:
            raise MeasurementFailed(f"install: {what} failed: no route")
        return 'Acquire::http::Proxy "http://proxy.example:3142";\nDir "/";\n'

    monkeypatch.setattr(chroot, "told", run)
    with pytest.raises(MeasurementFailed, match="apt-get in the chroot failed: no route"):
        chroot.install(tmp_path, lambda line: None)
    assert not list(tmp_path.iterdir()) and not chroot.present(tmp_path)


@pytest.mark.parametrize(
    ("told", "url"),
    [
        ("http://x/ubuntu/ Ubuntu Ubuntu main\n", None),
        ("http://x/sec/ Debian Debian-Security main\nhttp://x/debian/ Debian Debian main\n", "http://x/debian/"),
    ],
)
def test_the_mirror_is_the_hosts_own(monkeypatch, told, url):
    monkeypatch.setattr(chroot, "told", lambda *arguments: told)
    if url is None:
        with pytest.raises(UserError, match="name no Debian archive"):
            chroot.mirror()
    else:
        assert chroot.mirror() == url


def test_a_step_that_fails_is_told_in_its_own_words():
    with pytest.raises(MeasurementFailed, match=r"install: sh failed: E: cannot"):
        running.told(["sh", "-c", "echo noise; echo E: cannot >&2; exit 1"], "sh", 10)
    with pytest.raises(UserError, match="there is no no-such-program on this machine"):
        running.told(["no-such-program"], "it", 10)


def test_a_pool_wants_its_chroot(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    with pytest.raises(UserError, match=r"there is no HTCondor in .*; `storelab install condor` as root builds it"):
        Pool(tmp_path / "tb").up(Plan(["1mbit"], []), print)
    assert not (tmp_path / "tb").exists() and Pool(tmp_path / "tb").down() == []


def test_configuration_of_a_host(tmp_path):
    text = configuration(tmp_path, "node1", "node1", "10.99.0.1", "STARTD")
    assert (
        f"LOCAL_DIR = {tmp_path}/node1\n" in text
        and "NETWORK_HOSTNAME = node1.pool\n" in text
        and "DAEMON_LIST = MASTER STARTD\n" in text
    )


def test_two_testbeds_have_names_of_their_own():
    slurm, pool = Plan(["1mbit"], []), Plan(["1mbit"], [], "storelab-pool-")
    assert slurm.namespaces == [f"{PREFIX}switch", f"{PREFIX}head", f"{PREFIX}n1"] and not set(slurm.namespaces) & set(
        pool.namespaces
    )
    assert slurm.nodes == {f"{PREFIX}n1": "10.99.0.1"}
