"""Ceph with twelve OSDs: nine shards of data, three of parity; their ports. Nothing is started."""

import itertools

import pytest

from storelab.stores.ceph import conf


def test_nine_and_three_need_twelve_and_bear_the_loss_of_three():
    told = conf.first_commands([f"uuid-{i}" for i in range(12)], "ec-9-3", False)
    assert "osd erasure-code-profile set storelab k=9 m=3 crush-failure-domain=osd" in told
    pools = [line for line in told if line.startswith("osd pool create")]
    assert [line for line in pools if "erasure" in line] == [f"osd pool create {conf.DATA} 32 32 erasure storelab"]
    assert (conf.OSDS["ec-9-3"], conf.TOLERANCE["ec-9-3"], conf.SHARE["ec-9-3"]) == (12, 3, pytest.approx(4 / 3))
    assert conf.COPIES["ec-9-3"] > conf.TOLERANCE["ec-9-3"], "the index outlives what the data outlive"
    assert (conf.OSDS["ec-2-1"], conf.SHARE["ec-2-1"]) == (3, 1.5)


def test_without_erasure_coding_no_pool_has_it():
    assert not any("erasure" in line for line in conf.first_commands(["u"] * 3, "replica-3", False))


@pytest.mark.parametrize("servers", range(1, 13))
def test_ports_of_osds_are_apart_at_their_start_and_below_the_manager(servers):
    spans = [conf.osd_ports(1000, servers, i) for i in range(servers)]
    taken = [{first + n for n in range(4)} for first, _ in spans]
    assert all(not a & b for a, b in itertools.combinations(taken, 2))
    assert all(max(own) <= last < 1000 + conf.MGR for own, (_, last) in zip(taken, spans, strict=True))
    assert spans[0][0] == 1000 + conf.OSD
