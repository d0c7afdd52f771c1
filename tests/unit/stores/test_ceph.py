"""The configuration of Ceph: pools for twelve OSDs, ports, time-outs. Nothing is started."""

import itertools

import pytest
from fault_stores import store

from storelab.stores.ceph import conf


def test_nine_and_three_shards_need_twelve_osds():
    commands = conf.first_commands([f"uuid-{i}" for i in range(12)], "ec-9-3", False)
    assert "osd erasure-code-profile set storelab k=9 m=3 crush-failure-domain=osd" in commands
    pools = [line for line in commands if line.startswith("osd pool create")]
    assert [line for line in pools if "erasure" in line] == [f"osd pool create {conf.DATA} 32 32 erasure storelab"]
    assert (conf.OSDS["ec-9-3"], conf.TOLERANCE["ec-9-3"], conf.SHARE["ec-9-3"]) == (12, 3, pytest.approx(4 / 3))
    assert conf.COPIES["ec-9-3"] > conf.TOLERANCE["ec-9-3"], "the index survives what the data survive"
    assert (conf.OSDS["ec-2-1"], conf.SHARE["ec-2-1"]) == (3, 1.5)
    assert not any("erasure" in line for line in conf.first_commands(["u"] * 3, "replica-3", False))


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
