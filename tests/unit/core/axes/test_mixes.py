"""Names of mixes and sizes: what a campaign declares, what is refused, and the mean of a distribution."""

import math
import os
from functools import partial

import pytest
import yaml
from refusals import check_refused
from small_plan import URL, configured

from storelab.core import plan
from storelab.core.axes import mixes
from storelab.measure import plan_file
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

EVERY = {"get": 40.0, "put": 20.0, "head": 15.0, "list": 10.0, "delete": 15.0}


def config(tmp_path, axes=None, **more) -> Config:
    sweep = {"workload": "mix", "objects": 64, "axes": {"workers": 4, "clients": 2} | (axes or {})}
    return configured(results=str(tmp_path / "results"), stores={"a": URL}, sweeps={"it": sweep}, **more)


def point(tmp_path, axes=None, **more):
    return plan.make(config(tmp_path, axes, **more), WORKLOADS)[0]


def test_names_mean_what_the_campaign_declares(tmp_path):
    declared = {"mixes": {"mine": {"get": 9, "put": 1}}, "sizes": {"site": {"mean": "10 kB", "sigma": 1.5}}}
    one = point(tmp_path, {"mix": "mine", "sizes": "site"}, **declared)
    assert one.key == "a/mix/mix~mine_sizes~site_clients~0002_workers~0004_rep~001"
    assert one.fixed["mix"] == {"get": 9, "put": 1, "head": 0, "list": 0, "delete": 0}
    assert one.fixed["sizes"] == {"mean": 10_000, "sigma": 1.5, "least": 1, "most": 1_000_000}
    usual = point(tmp_path, {"sizes": "1 MB"})
    assert usual.fixed["mix"] == {"get": 45, "put": 15, "head": 30, "list": 0, "delete": 10}, "the same as `warp mixed`"
    assert usual.fixed["sizes"] == {"fixed": 10**6} and "sizes~1MB" in usual.key and "mix~" not in usual.key


def test_undeclared_names_are_refused(tmp_path):
    make = partial(point, tmp_path, mixes={"mine": {"get": 1}})
    for axis, value, word in (("mix", "mien", "'mine'"), ("sizes", "small", "'small'")):
        check_refused(f"sweeps.it.axes.{axis}: ", word, make, {axis: value})


def test_wrong_declarations_are_refused(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    for key, value, words in (
        ("mixes", {"a": {}}, "all weights are 0"),
        ("mixes", {"a": {"put": 1, "delete": 2}}, "`delete` is larger than `put`"),
        ("mixes", {"warp": {"get": 1}}, "built-in mix"),
        ("sizes", {"4kB": {"fixed": "4 kB"}}, "can be read as a size"),
        ("sizes", {"a": {}}, "exactly one of"),
        ("sizes", {"a": {"fixed": "1 B", "mean": "2 B", "sigma": 1}}, "exactly one of"),
        ("sizes", {"a": {"mean": "2 B"}}, "together"),
        ("sizes", {"a": {"fixed": "2 B", "maximum": "3 B"}}, "remove them"),
        ("sizes", {"a": {"mean": "2 kB", "sigma": 1, "maximum": "1 kB"}}, "mean"),
        ("sizes", {"a": {"fixed": "6 GB"}}, "upload"),
        ("sizes", {"a": {"histogram": {"4 kB": -1}}}, "count"),
        ("sizes", {"a": {"histogram": {"4 kB": 0}}}, "all counts are 0"),
        ("sizes", {"a": {"histogram": {}}}, "0 rows"),
        ("sizes", {"a": {"histogram": {"4 kb": 1}}}, "'kB'"),
        ("sizes", {"a": {"histogram": "nowhere.csv"}}, "nowhere.csv"),
        ("sizes", {"a": {"histogram": "/dev/zero"}}, "not a regular file"),
        ("sizes", {"a": {"histogram": str(pipe)}}, "not a regular file"),
        ("sizes", {"a": {"histogram": {"size": [1, 2], "count": [1]}}}, "of the same length"),
        ("sizes", {"a": {"histogram": {"size": [1], "count": [-1]}}}, "-1"),
        ("sizes", {"a": {"histogram": {"size": [-1], "count": [1]}}}, "-1"),
        ("sizes", {"a": {"histogram": {"size": [], "count": []}}}, "0 rows"),
    ):
        with pytest.raises(ValueError) as refused:
            config(tmp_path, **{key: value})
        assert words in str(refused.value) and next(iter(value)) in str(refused.value), (value, str(refused.value))


def test_histogram_of_a_site_is_read_from_its_table(tmp_path):
    table = tmp_path / "site.csv"
    table.write_text("size,count\n# of Monday\n4000, 7\n1 MB,2\n4 kB,1\n0,5\n")
    declared = {"sizes": {"site": {"histogram": str(table)}}}
    one = point(tmp_path, {"sizes": "site"}, **declared)
    assert one.fixed["sizes"] == {"size": [0, 4000, 10**6], "count": [5, 8, 2]}
    assert mixes.mean(one.fixed["sizes"]) == (8 * 4000 + 2 * 10**6) / 15 and mixes.largest(one.fixed["sizes"]) == 10**6
    for text in ("size;count\n1;1\n", "count,size\n1,1\n", "size,count\n1,2,3\n", "size,count\nlarge,1\n"):
        table.write_text(text)
        with pytest.raises(ValueError):
            config(tmp_path, **declared)


def test_changed_meaning_of_a_name_is_a_difference(tmp_path):
    def declared(get, sigma):
        sizes = {"s": {"mean": "9 kB", "sigma": sigma}}
        return config(tmp_path, {"mix": "mine", "sizes": "s"}, mixes={"mine": EVERY | {"get": get}}, sizes=sizes)

    was, now = declared(40.0, 1), declared(41.0, 2)
    points = plan.make(was, WORKLOADS)
    plan_file.write(was, points, WORKLOADS)
    (was.raw / points[0].key).mkdir(parents=True)
    (was.raw / points[0].key / "run.json").write_text("{}")
    assert plan_file.differences(was, points) == []
    assert plan_file.differences(now, plan.make(now, WORKLOADS)) == [
        "sweep it: mix.get was 40.0, is 41.0",
        "sweep it: sizes.sigma was 1.0, is 2.0",
    ]
    assert yaml.safe_load((was.raw / "plan.json").read_text())["points"][0]["fixed"]["mix"] == EVERY


def test_mean_of_a_cut_log_normal_distribution_by_integration():
    for cut in (
        {"mean": 10_000, "sigma": 1.2, "least": 100, "most": 200_000},
        {"mean": 50, "sigma": 2.0, "least": 1, "most": 5000},
        {"mean": 1000, "sigma": 0.4, "least": 0, "most": 100_000},
    ):
        mu, s = math.log(cut["mean"]) - cut["sigma"] ** 2 / 2, cut["sigma"]
        low, high = max(cut["least"] - 0.5, 1e-9), cut["most"] + 0.5
        n, top, below = 40_000, 0.0, 0.0
        for i in range(n):  # over the logarithm, by midpoints
            y = math.log(low) + (i + 0.5) * (math.log(high) - math.log(low)) / n
            density = math.exp(-((y - mu) ** 2) / (2 * s * s))
            top, below = top + math.exp(y) * density, below + density
        assert mixes.mean(cut) == pytest.approx(top / below, rel=1e-5)
