"""Points of a sweep share the link that the first of them measured, for an hour."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_clock import FakeClock
from made_jobs import gang_job
from memory_transport import Memory

from readplan import Link
from storelab.core.model import Point
from storelab.engines.common.wire import Counts
from storelab.engines.planned import PlannedClient
from storelab.workloads import WORKLOADS
from storelab.workloads.reading import workloads

S = 10**9
LINK = Link(1e-3, 1e-5, 1e-4, 1e9, 1e8, 8, ((32768, 1e-4), (131072, 3e-4)))
AXES = {
    "engine": "planned",
    "clients": 2,
    "file_size": "S",
    "entry_fraction": 1.0,
    "thrift": 0.0,
    "transport": "default",
}


def point(sweep="s", workload="read_entries", key="one", **axes):
    return Point("store", workload, AXES | axes, 0, key, sweep, 7, 0, dataset={"name": "root-S"})


@pytest.fixture
def config(tmp_path):
    return SimpleNamespace(campaign_dir=tmp_path)


def of_job(config, of):
    """Return the entries about links in the job of a point."""
    job = gang_job()
    workloads.pass_links(config, of, job)
    return job.extra.get("links")


def measured(config, of, found=(LINK, LINK)):
    """Run a point like the coordinator: it measures, and its clients leave these links."""
    job = gang_job()
    workloads.pass_links(config, of, job)
    for i, link in enumerate(found):
        engine = {"link": asdict(link)} if link else {}
        (config.campaign_dir / f"result.{i}").write_text(json.dumps({"engine": engine}))
    workloads.keep_links(of, job, config.campaign_dir)
    return job


def test_points_that_read_otherwise_share_the_link(config):
    assert set(measured(config, point()).extra["links"]) == {"kept"}
    found = of_job(config, point(key="two", entry_fraction=50.0, thrift=3.0))
    assert found["of"] == "one" and [Link(**x).bandwidth for x in found["links"]] == [1e9, 1e9]
    for other in (
        {"sweep": "t"},
        {"clients": 1},
        {"file_size": "M"},
        {"transport": "http"},
        {"workload": "read_volume"},
    ):
        assert set(of_job(config, point(**other))) == {"kept"}, other


def test_only_axes_of_what_is_read_do_not_decide_a_link():
    config = SimpleNamespace(campaign_dir=Path("c"))
    free = "entry_fraction volume_fraction navigation step merge max_range_gap thrift max_amplification header access"
    seen = set()
    for name in ("read_entries", "read_volume", "replay", "events"):
        axes = {a.name: a.default for a in WORKLOADS[name].axes}
        place = workloads.links_file(config, Point("a", name, axes, 0, "k", "s", 7, 0))
        assert place.parent.parts == ("c", "work", "links")
        for axis in axes:
            other = workloads.links_file(config, Point("a", name, axes | {axis: "other"}, 0, "k", "s", 7, 0))
            assert (other == place) == (axis in free.split()), axis
            seen.add(axis)
    assert set(free.split()) <= seen


def test_doubtful_or_missing_link_is_measured_again(config):
    for found in ((LINK, None), (LINK, Link(**asdict(LINK) | {"doubtful": ("curve",)}))):
        measured(config, point(), found)
        assert set(of_job(config, point())) == {"kept"}
    job = measured(config, point())
    assert of_job(config, point())["of"] == "one"
    Path(job.extra["links"]["kept"]).write_text("{")
    assert set(of_job(config, point())) == {"kept"}


def test_link_is_valid_for_an_hour(config, monkeypatch):
    clock = FakeClock(monkeypatch)
    measured(config, point())
    kept = clock.ns
    for age, valid in ((0, True), (3600 * S, True), (3600 * S + 1, False), (-S, False)):
        clock.ns = kept + age
        assert ("links" in of_job(config, point())) == valid, age


def test_other_readers_have_no_links(config, tmp_path):
    assert of_job(config, point(engine="uproot-s3fs")) is None
    assert of_job(config, point(workload="replay", engine="obstore", merge="gap")) is not None
    for extra in ({}, {"pages": []}, {"links": {"of": "x", "links": []}}):
        workloads.keep_links(point(), gang_job(extra=extra), tmp_path)
        assert list(tmp_path.iterdir()) == []


class Counting(Memory):
    ranges = 1

    def now(self):
        return Counts(self.requests, sum(b - a for a, b in self.log), 0, None)

    def calibrated(self):
        pass


def test_client_takes_the_link_of_its_own_transport():
    """JSON has lists for tuples; the connections are opened as if the client had measured."""
    for changed, shared in (({}, True), ({"parallel": 4}, False), ({"ranges": 500}, False)):
        client = object.__new__(PlannedClient)
        client.way, client.size, client.transport = "default", 4_000_000, Counting(bytes(4_000_000))
        known = json.loads(json.dumps([asdict(LINK) | {"rtt_s": 9.0}, asdict(LINK) | changed]))
        client.job = SimpleNamespace(client=1, point=point(key="two"), extra={"links": {"of": "one", "links": known}})
        client.calibrate()
        assert (client.link == LINK) == shared and client.calibration["of"] == ("one" if shared else "two"), changed
        assert client.transport.requests == 8 if shared else client.transport.requests > 50, changed
