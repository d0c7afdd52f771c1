"""The configuration of Ceph: pools for twelve OSDs, ports, time-outs. Nothing is started."""

import itertools
from pathlib import Path

import pytest
from fault_stores import store
from refusals import check_refused

from storelab.stores.ceph import conf
from storelab.stores.ceph.store import Ceph, shape_of


def test_nine_and_three_shards_need_twelve_osds():
    commands = conf.first_commands([f"uuid-{i}" for i in range(12)], "ec-9-3", False, "16.2.15")
    assert "osd erasure-code-profile set storelab k=9 m=3 crush-failure-domain=osd" in commands
    pools = [line for line in commands if line.startswith("osd pool create")]
    assert [line for line in pools if "erasure" in line] == [f"osd pool create {conf.DATA} 32 32 erasure storelab"]
    assert (conf.OSDS["ec-9-3"], conf.TOLERANCE["ec-9-3"], conf.SHARE["ec-9-3"]) == (12, 3, pytest.approx(4 / 3))
    assert conf.COPIES["ec-9-3"] > conf.TOLERANCE["ec-9-3"], "the index survives what the data survive"
    assert (conf.OSDS["ec-2-1"], conf.SHARE["ec-2-1"]) == (3, 1.5)
    assert not any("erasure" in line for line in conf.first_commands(["u"] * 3, "replica-3", False, "16.2.15"))


def test_ports_of_osds_are_separate_and_below_the_manager():
    for servers in range(1, 13):
        spans = [conf.osd_ports(1000, servers, i) for i in range(servers)]
        taken = [{first + n for n in range(4)} for first, _ in spans]
        assert all(not a & b for a, b in itertools.combinations(taken, 2)), servers
        assert all(max(own) <= last < 1000 + conf.MGR for own, (_, last) in zip(taken, spans, strict=True)), servers
        assert spans[0][0] == 1000 + conf.OSD


def test_recorded_time_outs_are_configured(tmp_path):
    assert store("ceph", tmp_path).timeouts()["osd heartbeat grace"] == 4
    missing = [key for key, value in conf.TIMEOUTS.items() if f"{key} = {value}\n" not in conf.CONF]
    assert not missing, missing


def test_new_versions_confirm_names_with_a_dot():
    """Ceph 18 refuses the pool `.rgw.root` without the option, which Ceph 16 does not know."""
    for version, confirmed in (("16.2.15", []), ("18.2.7", [".rgw.root"])):
        commands = conf.first_commands(["u"] * 3, "replica-3", False, version)
        assert [line.split()[3] for line in commands if "--yes-i-really-mean-it" in line] == confirmed


def test_plugins_belong_to_the_program(tmp_path):
    """Ceph 18 of Debian looks for them below its working folder."""
    osd = tmp_path / "usr/bin/ceph-osd"
    assert conf.class_folder(osd) is None
    settings = store("ceph", tmp_path).settings
    assert "osd class dir" not in conf.conf(settings, "id", "data", osd)
    for place in ("lib/x86_64-linux-gnu", "lib64"):
        (tmp_path / "usr" / place / "rados-classes").mkdir(parents=True)
        assert f"osd class dir = {tmp_path}/usr/{place}/rados-classes\n" in conf.conf(settings, "id", "data", osd)


def test_programs_of_a_version_run_with_its_libraries(tmp_path, monkeypatch):
    monkeypatch.setattr(Ceph, "find_program", lambda self, name, version=None: Path("/usr/bin", name))
    old, new = (store("ceph", tmp_path, **given) for given in ({}, {"version": "18.2"}))
    assert old._command("ceph") == ["/usr/bin/ceph"]
    assert new._command("ceph") == [*Ceph.releases["18.2"].enter(), "/usr/bin/ceph"]


def test_cluster_on_disk_keeps_its_version(tmp_path):
    """A cluster that Ceph 18 has opened cannot be used by Ceph 16."""
    old, new = (store("ceph", tmp_path, backing="disk", **given) for given in ({}, {"version": "18.2"}))
    was = old._shape()
    assert shape_of({"shape": {key: value for key, value in was.items() if key != "version"}}) == was
    check_refused("stores.ceph.version: 18.2 is set", "leave it out", new._check_shape, was)
    check_refused("stores.ceph.version: the version of this host", "set it to 18.2", old._check_shape, new._shape())
    old._check_shape(was)
