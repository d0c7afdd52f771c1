"""Data sets of many keys: names and limits, staging that continues, keys that the clean-up knows."""

from collections import Counter
from types import SimpleNamespace

import pytest
import small_plan
from refusals import check_refused

from storelab.core.errors import MeasurementFailed
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import stage, upload, written


def planned(**axes):
    return small_plan.planned(sweeps={"l": {"workload": "list", "axes": axes}})


def test_points_with_same_keys_share_data_set():
    points = planned(keys=[50, 1000], prefix_depth=[0, 1], page_size=[10, 1000], buckets=2, clients=[1, 2])
    assert len(points) == 16
    assert Counter(p.dataset["name"] for p in points) == {
        f"keys-100B-{name}": 4 for name in ("50x2", "50x2-depth1", "1000x2", "1000x2-depth1")
    }
    sizes = {p.dataset["name"]: (p.dataset["objects"], stage.dataset_bytes(p.dataset)) for p in points}
    assert sizes["keys-100B-1000x2-depth1"] == (2000, 200_000)
    assert planned(accounts=2, buckets=2, clients=2)[0].dataset["name"] == "keys-100B-1000x2-a2"


def test_impossible_axes_are_refused_by_place():
    for axes, place, text in (
        ({"keys": 10**6 + 1}, "keys", "1000001 keys are too many; set at most 1000000"),
        ({"page_size": 1001}, "page_size", "1001 keys per page are too many; set at most 1000"),
        (
            {"keys": 1000, "prefix_depth": 3},
            "prefix_depth",
            "1000 keys are too few for 3 levels of folders; set at most 2",
        ),
        ({"keys": 10, "prefix_depth": 1}, "prefix_depth", "10 keys are too few for 1 levels of folders; set at most 0"),
    ):
        check_refused(f"sweeps.l.axes.{place}: ", text, WORKLOADS["list"].validate, *planned(**axes))
    for axes in ({"keys": 10**6, "prefix_depth": 5}, {"page_size": 1}, {"page_size": 1000}, {"keys": 1}):
        WORKLOADS["list"].validate(planned(**axes)[0])


class Shelf:
    """A store that lists the objects that it has."""

    def __init__(self):
        self.objects: dict[str, int] = {}

    def keys(self, bucket: str, prefix: str = ""):
        return iter(sorted((key, size) for key, size in self.objects.items() if key.startswith(prefix)))


@pytest.fixture
def staged(monkeypatch):
    """Return (stage, shelf, sizes of uploaded blocks) of 250 keys below a prefix, in blocks of 100."""
    shelf, blocks = Shelf(), []
    (point,) = planned(keys=250, prefix_depth=1)
    place = Bucket("b", "mine/", 0)

    def put(store, name, items, shown):
        blocks.append(len(items))
        for to, key, _ in items:
            shelf.objects[to.prefix + key] = 100

    monkeypatch.setattr(upload, "put_items", put)
    monkeypatch.setattr(stage, "BLOCK", 100)
    store = SimpleNamespace(name="s")
    return lambda: stage.stage_keys(store, {0: shelf}, [place], point.dataset, None), shelf, blocks


def test_staging_continues_where_it_stopped(staged):
    run, shelf, blocks = staged
    run()
    assert blocks == [100, 100, 50] and sorted(shelf.objects) == [
        f"mine/data/keys-100B-250x1-depth1/keys/{n // 100}/{n:03d}" for n in range(250)
    ]
    for key in sorted(shelf.objects)[7:190]:
        del shelf.objects[key]
    shelf.objects[sorted(shelf.objects)[0]] = 99  # of another size: uploaded again
    blocks.clear()
    run()
    assert blocks == [100, 84] and len(shelf.objects) == 250 and set(shelf.objects.values()) == {100}
    blocks.clear()
    run()
    assert blocks == []


def test_foreign_and_lost_keys_are_errors(staged, monkeypatch):
    run, shelf, _ = staged
    shelf.objects["mine/data/keys-100B-250x1-depth1/keys/1/205"] = 100
    with pytest.raises(MeasurementFailed, match=r"keys/1/205 is among the keys"):
        run()
    shelf.objects.clear()
    monkeypatch.setattr(upload, "put_items", lambda *_: None)
    with pytest.raises(MeasurementFailed, match="does not list 250 of 250 keys"):
        run()


def test_clean_up_knows_staged_keys_only():
    (point,) = planned(keys=250, prefix_depth=1)
    line = {"dataset": point.dataset, "bodies": [100], "buckets": [["b", "mine/"]]}
    ours = written.Written(SimpleNamespace(protocol="s3"), [line])
    folder = "mine/data/keys-100B-250x1-depth1/"
    assert all(ours("b", f"{folder}keys/{n // 100}/{n:03d}", 100) for n in range(250)) and ours(
        "b", f"{folder}.staged", 64
    )
    assert ours("b", f"{folder}keys/0/007", None)
    for bucket, key, size in (
        ("b", f"{folder}keys/0/007", 99),
        ("b", f"{folder}keys/2/250", 100),
        ("b", f"{folder}keys/007", 100),
        ("b", f"{folder}keys/", 100),
        ("other", f"{folder}keys/0/007", 100),
        ("b", f"{folder.removeprefix('mine/')}keys/0/007", 100),
    ):
        assert not ours(bucket, key, size), key
    assert len(ours.objects) == 1, "a million keys take no memory"
