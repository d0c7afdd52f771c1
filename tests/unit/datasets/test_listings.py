"""Folders of many keys: their names, what a listing must be, staging that goes on, what the clean-up takes for storelab's."""

import itertools
from collections import Counter
from types import SimpleNamespace

import pytest

from storelab.core import plan
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.datasets import keys
from storelab.engines.common.error_classes import classify
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import many_keys, stage, upload, written


@pytest.mark.parametrize(("count", "depth"), [(1, 0), (7, 0), (10, 0), (11, 1), (250, 2), (1000, 2), (1001, 3)])
def test_names_are_distinct_in_order_and_so_deep(count, depth):
    names = [keys.name(count, depth, n) for n in range(count)]
    assert names == sorted(set(names)) and {name.count("/") for name in names} == {depth}
    for n, name in enumerate(names):
        *folders, last = name.split("/")
        assert int(last) == n and last.startswith("".join(folders)) and keys.number(count, depth, name) == n
    others = [
        "",
        "x",
        "/",
        names[-1] + "0",
        "0" + names[0],
        f"{count}",
        "-1",
        "+0",
        "\u0661",
        names[0] + "/",
        "a/" + names[0],
    ]
    assert [name for name in others if name not in names and keys.number(count, depth, name) is not None] == []


def test_a_million_keys_have_their_place():
    assert (
        keys.name(keys.MOST, 5, 427)
        == "0/0/0/4/2/000427"
        == keys.name(keys.MOST, 5, keys.number(keys.MOST, 5, "0/0/0/4/2/000427"))
    )


FOLDER = [(f"p/{keys.name(12, 1, n)}", 100) for n in range(12)]


def checked(listed) -> str | None:
    try:
        keys.check("p/", 12, 1, 100, listed)
    except keys.WrongListing as wrong:
        assert str(wrong) and classify(wrong) == (wrong.kind, 0)
        return wrong.kind
    return None


def test_a_listing_that_is_not_the_folder_is_an_error_by_name():
    assert checked(FOLDER) is None
    for i in range(12):
        assert checked(FOLDER[:i] + FOLDER[i + 1 :]) == "KeyMissing"
        assert checked([*FOLDER[:i], (FOLDER[i][0], 99), *FOLDER[i + 1 :]]) == "KeySize"
        assert checked([*FOLDER[:i], ("p/0/x", 100), *FOLDER[i:]]) == "KeyForeign"
        assert checked([*FOLDER[:i], ("q/0/00", 100), *FOLDER[i:]]) == "KeyForeign"
        for j in range(i, 12):
            assert checked([*FOLDER[: j + 1], FOLDER[i], *FOLDER[j + 1 :]]) == "KeyDoubled"
    assert checked([]) == "KeyMissing" and checked(FOLDER[:11]) == "KeyMissing"
    assert checked(itertools.cycle(FOLDER)) == "KeyDoubled", "a listing without end ends here"


def test_every_other_order_of_the_same_keys_is_told():
    for order in itertools.permutations(range(4)):
        listed = [FOLDER[i] for i in order] + FOLDER[4:]
        assert checked(listed) == (None if list(order) == sorted(order) else "KeyOrder")
        assert checked(listed[:3] + listed[4:]) == "KeyMissing", "missing counts more than order"


def planned(**axes):
    sweep = {"workload": "list", "duration": "2 s", "warm_up": "0 s", "axes": axes}
    config = {
        "campaign": "c",
        "name": "c",
        "stores": {"s": {"kind": "seaweedfs"}},
        "use_stores": ["s"],
        "calibrate": False,
    }
    return plan.make(Config.model_validate(config | {"repetitions": 1, "sweeps": {"l": sweep}}), WORKLOADS)


def test_points_with_the_same_keys_share_a_data_set():
    points = planned(keys=[50, 1000], prefix_depth=[0, 1], page_size=[10, 1000], buckets=2, clients=[1, 2])
    assert len(points) == 16
    assert Counter(p.dataset["name"] for p in points) == {
        f"keys-100B-{name}": 4 for name in ("50x2", "50x2-depth1", "1000x2", "1000x2-depth1")
    }
    sizes = {p.dataset["name"]: (p.dataset["objects"], stage.dataset_bytes(p.dataset)) for p in points}
    assert sizes["keys-100B-1000x2-depth1"] == (2000, 200_000)
    assert planned(accounts=2, buckets=2, clients=2)[0].dataset["name"] == "keys-100B-1000x2-a2"


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"keys": 10**6 + 1}, "keys: 1000001 keys are too many: at most 1000000"),
        ({"page_size": 1001}, "page_size: a page has no 1001 keys: at most 1000"),
        (
            {"keys": 1000, "prefix_depth": 3},
            "prefix_depth: 1000 keys do not fill folders 3 levels deep: at most 2, or more `keys`",
        ),
        (
            {"keys": 10, "prefix_depth": 1},
            "prefix_depth: 10 keys do not fill folders 1 levels deep: at most 0, or more `keys`",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_place(axes, says):
    (point,) = planned(**axes)
    with pytest.raises(UserError) as refused:
        WORKLOADS["list"].possible(point)
    told = refused.value
    assert f"{told.place}: {told.problem}: {told.mend}" == f"sweeps.l.axes.{says}"


def test_the_bounds_themselves_are_allowed():
    for axes in ({"keys": 10**6, "prefix_depth": 5}, {"page_size": 1}, {"page_size": 1000}, {"keys": 1}):
        WORKLOADS["list"].possible(planned(**axes)[0])


class Shelf:
    """A store that keeps what it is given, and lists it."""

    def __init__(self):
        self.objects: dict[str, int] = {}

    def keys(self, bucket: str, prefix: str = ""):
        return iter(sorted((key, size) for key, size in self.objects.items() if key.startswith(prefix)))


@pytest.fixture
def staged(monkeypatch):
    """(stage, shelf, sizes of the blocks that were uploaded): 250 keys below a prefix, blocks of 100."""
    shelf, blocks = Shelf(), []
    (point,) = planned(keys=250, prefix_depth=1)
    place = Bucket("b", "mine/", 0)

    def put(store, name, items, shown):
        blocks.append(len(items))
        for to, key, _ in items:
            shelf.objects[to.prefix + key] = 100

    monkeypatch.setattr(upload, "put_items", put)
    monkeypatch.setattr(many_keys, "BLOCK", 100)
    store = SimpleNamespace(name="s")
    return lambda: many_keys.stage(store, {0: shelf}, [place], point.dataset, None), shelf, blocks


def test_staging_goes_on_where_it_was(staged):
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


def test_a_foreign_key_and_a_lost_one_are_told(staged, monkeypatch):
    run, shelf, _ = staged
    shelf.objects["mine/data/keys-100B-250x1-depth1/keys/1/205"] = 100
    with pytest.raises(MeasurementFailed, match=r"keys/1/205 lies among the keys"):
        run()
    shelf.objects.clear()
    monkeypatch.setattr(upload, "put_items", lambda *_: None)
    with pytest.raises(MeasurementFailed, match="does not list 250 of 250 keys"):
        run()


def test_the_clean_up_knows_these_keys_and_no_others():
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
