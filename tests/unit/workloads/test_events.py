"""Steps of jobs through files, and copies of a file that jobs share."""

from types import SimpleNamespace

import numpy as np
import pytest
import small_plan
from refusals import refusal

from storelab.datasets.root import generated
from storelab.workloads.reading.events import step_of
from storelab.workloads.staging import stage

TINY = generated.Scale(entries=103, branches=30, clusters=3, bytes_per_entry=400.0)


def test_scan_starts_again_at_end_of_file():
    assert [step_of("scan", 103, 50, 1, n) for n in range(5)] == [(0, 50), (50, 100), (100, 103), (0, 50), (50, 100)]
    assert [step_of("scan", 100, 50, 1, n) for n in range(3)] == [(0, 50), (50, 100), (0, 50)]
    assert step_of("scan", 7, 7, 1, 12) == (0, 7)


def test_random_steps_are_even_and_repeatable():
    found, same, other = ([step_of("random", 103, 5, seed, n) for n in range(4000)] for seed in (42, 42, 43))
    assert found == same != other
    firsts = np.array([a for a, _ in found])
    assert {b - a for a, b in found} == {5} and firsts.min() == 0 and firsts.max() == 98
    assert (np.diff(firsts) < 0).mean() == pytest.approx(0.5, abs=0.05), "in no order"
    assert abs(np.bincount(firsts) - 4000 / 99).max() < 6 * np.sqrt(4000 / 99)
    assert step_of("random", 9, 9, 1, 0) == (0, 9)


def planned(**axes):
    return small_plan.planned(sweeps={"e": {"workload": "events", "axes": axes}})


def test_points_share_copies_in_one_bucket(tmp_path, monkeypatch):
    points = planned(clients=[1, 4], files=4, step=20)
    assert {p.dataset["name"] for p in points} == {"root-S-4files"}
    dataset, one = points[0].dataset, planned()[0].dataset
    assert dataset["buckets"] == 1 and dataset["files"] == 4 and stage.root_copies(dataset) == 4
    same = {"name": "root-S", "kind": "root", "scale": "S", "buckets": 1, "seed": dataset["seed"]}
    assert one == same, "the data set of the other reads"
    assert stage.dataset_bytes(dataset) == 4 * stage.dataset_bytes(one)
    summary = stage.summarise(points, "a")
    assert summary.staged_objects == 4 and summary.buckets == 1
    monkeypatch.setitem(generated.SCALES, "S", TINY)
    scratch, store, bucket = (SimpleNamespace(**d) for d in ({"scratch": str(tmp_path)}, {"name": "sw"}, {"name": "b"}))
    bucket.prefix = ""
    manifest, files = stage._root(scratch, store, dataset, [bucket], tmp_path / "m")
    objects = manifest["objects"]
    assert objects["key"] == [f"data/root-S-4files/events-{i:04d}.root" for i in range(4)] and len(files) == 1
    assert objects["bucket"] == [0] * 4 and objects["body"] == [0] * 4


def test_empty_step_is_refused():
    assert "axes.step: 0 " in refusal(planned, step=0)
