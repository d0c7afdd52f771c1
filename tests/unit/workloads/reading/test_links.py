"""Points of a sweep share the link that the first of them measured."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from memory_transport import Memory

from storelab.core import clock
from storelab.core.model import Point
from storelab.engines.common.wire import Counts
from storelab.engines.planned.client import PlannedClient
from storelab.readplan import Link
from storelab.workloads.reading import links

LINK = Link(1e-3, 1e-5, 1e-4, 1e9, 1e8, 8, ((32768, 1e-4), (131072, 3e-4)))


def point(sweep="s", workload="read_entries", key="one", **axes):
    values = {
        "engine": "planned",
        "clients": 2,
        "scale": "S",
        "entry_fraction": 1.0,
        "thrift": 0.0,
        "transport": "default",
    }
    return Point("store", workload, values | axes, 0, key, sweep, 7, 0, dataset={"name": "root-S"})


@pytest.fixture
def config(tmp_path):
    return SimpleNamespace(campaign_dir=tmp_path)


def measured(config, tmp_path, of, found=(LINK, LINK)):
    """As the coordinator does it: a point that measures, whose clients leave these links."""
    job = {}
    links.tell(config, of, job)
    for i, link in enumerate(found):
        told = {"engine": {"link": asdict(link)} if link else {}}
        (tmp_path / f"result.{i}").write_text(json.dumps(told))
    links.keep(of, job, tmp_path)
    return job


def told(config, of):
    job = {}
    links.tell(config, of, job)
    return job.get("extra", {}).get("links")


def test_the_first_measures_and_those_that_read_otherwise_share(config, tmp_path):
    assert set(measured(config, tmp_path, point())["extra"]["links"]) == {"kept"}
    found = told(config, point(key="two", entry_fraction=50.0, thrift=3.0))
    assert found["of"] == "one" and [Link(**x).bandwidth for x in found["links"]] == [1e9, 1e9]


@pytest.mark.parametrize(
    "other",
    [{"sweep": "t"}, {"clients": 1}, {"scale": "M"}, {"transport": "http"}, {"workload": "read_volume"}],
)
def test_what_decides_a_link_is_not_shared(config, tmp_path, other):
    measured(config, tmp_path, point())
    assert set(told(config, point(**other))) == {"kept"}


def test_what_is_doubtful_or_missing_or_old_is_measured_again(config, tmp_path, monkeypatch):
    for found in ((LINK, None), (LINK, Link(**asdict(LINK) | {"doubtful": ("curve",)}))):
        measured(config, tmp_path, point(), found)
        assert set(told(config, point())) == {"kept"}
    measured(config, tmp_path, point())
    assert "links" in told(config, point())
    now = clock.now_ns()
    monkeypatch.setattr(links.clock, "now_ns", lambda: now + 2 * links.KEPT_NS)
    assert set(told(config, point())) == {"kept"}


def test_readers_that_do_not_plan_are_told_nothing(config):
    assert told(config, point(engine="uproot-s3fs")) is None
    assert told(config, point(workload="replay", engine="obstore", merge="gap")) is not None


class Counting(Memory):
    ranges = 1

    def now(self):
        return Counts(self.requests, sum(b - a for a, b in self.log), 0, None)

    def calibrated(self):
        pass


@pytest.mark.parametrize(("changed", "shared"), [({}, True), ({"parallel": 4}, False), ({"ranges": 500}, False)])
def test_a_client_takes_the_link_if_it_is_its_own(changed, shared):
    """JSON has lists for tuples; the connections are opened as if it had been measured."""
    client = object.__new__(PlannedClient)
    client.way, client.size, client.transport = "default", 4_000_000, Counting(bytes(4_000_000))
    known = json.loads(json.dumps([asdict(LINK) | {"rtt_s": 9.0}, asdict(LINK) | changed]))
    client.job = SimpleNamespace(client=1, point=point(key="two"), extra={"links": {"of": "one", "links": known}})
    client.calibrate()
    assert (client.link == LINK) == shared and client.calibration["of"] == ("one" if shared else "two")
    assert client.transport.requests == 8 if shared else client.transport.requests > 50
