"""Mixes: what their names mean, what is drawn, who gets which object, and what the records say is left. Truth comes from closed
forms, integration by hand, and a store that is a dictionary."""

import math
import random
from itertools import pairwise
from types import SimpleNamespace

import pytest
import roles_mix
import yaml

from storelab.core import plan, records
from storelab.core.axes import mixes
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.datasets.keys import WrongListing
from storelab.engines.common import mixing
from storelab.engines.common.arrivals import Poisson
from storelab.engines.obstore.population import Population
from storelab.measure import check_axes, plan_file
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads import WORKLOADS, mix
from storelab.workloads.staging import buckets, needs

EVERY = {"get": 40.0, "put": 20.0, "head": 15.0, "list": 10.0, "delete": 15.0}


def config(tmp_path, axes=None, objects=64, **more) -> Config:
    sweep = {"workload": "mix", "objects": objects, "axes": {"workers": 4, "clients": 2} | (axes or {})}
    values = {
        "campaign": "lab",
        "name": "lab",
        "results": str(tmp_path / "results"),
        "stores": {"mine": {"kind": "s3", "endpoint": "http://127.0.0.1:1"}},
        "use_stores": ["mine"],
        "calibrate": False,
        "repetitions": 1,
        "sweeps": {"it": sweep},
    }
    return Config.model_validate(values | more)


def point(tmp_path, axes=None, objects=64, **more):
    return plan.make(config(tmp_path, axes, objects, **more), WORKLOADS)[0]


def test_names_mean_what_the_campaign_declares(tmp_path):
    one = point(
        tmp_path,
        {"mix": "mine", "sizes": "site"},
        mixes={"mine": {"get": 9, "put": 1}},
        sizes={"site": {"mean": "10 kB", "sigma": 1.5}},
    )
    assert one.key == "mine/mix/mix~mine_sizes~site_clients~0002_workers~0004_rep~001"
    assert one.fixed["mix"] == {"get": 9, "put": 1, "head": 0, "list": 0, "delete": 0}
    assert one.fixed["sizes"] == {"mean": 10_000, "sigma": 1.5, "least": 1, "most": 1_000_000}
    usual = point(tmp_path, {"sizes": "1 MB"})
    assert usual.fixed["mix"] == {"get": 45, "put": 15, "head": 30, "list": 0, "delete": 10}, "as `warp mixed` has it"
    assert usual.fixed["sizes"] == {"fixed": 10**6} and "sizes~1MB" in usual.key and "mix~" not in usual.key


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"mix": "mien"}, "sweeps.it.axes.mix: no mix is called 'mien'; did you mean 'mine'?"),
        (
            {"sizes": "small"},
            "sweeps.it.axes.sizes: 'small' is no name in `sizes`, and no size; declare it, or give a size like 4 kB",
        ),
    ],
)
def test_names_that_nobody_declared(tmp_path, axes, says):
    with pytest.raises(UserError) as told:
        point(tmp_path, axes, mixes={"mine": {"get": 1}})
    assert str(told.value).startswith(says)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"mixes": {"a": {}}}, "no operation has a weight"),
        ({"mixes": {"a": {"put": 1, "delete": 2}}}, "more is deleted than put"),
        ({"mixes": {"warp": {"get": 1}}}, "warp is built in"),
        ({"sizes": {"4kB": {"fixed": "4 kB"}}}, "4kB is a size"),
        ({"sizes": {"a": {}}}, "is not one of"),
        ({"sizes": {"a": {"fixed": "1 B", "mean": "2 B", "sigma": 1}}}, "is not one of"),
        ({"sizes": {"a": {"mean": "2 B"}}}, "belong together"),
        ({"sizes": {"a": {"fixed": "2 B", "most": "3 B"}}}, "leave them out"),
        ({"sizes": {"a": {"mean": "2 kB", "sigma": 1, "most": "1 kB"}}}, "the mean is not between"),
        ({"sizes": {"a": {"fixed": "6 GB"}}}, "no single upload"),
        ({"sizes": {"a": {"histogram": {"4 kB": -1}}}}, "is no count"),
        ({"sizes": {"a": {"histogram": {"4 kB": 0}}}}, "nothing is counted"),
        ({"sizes": {"a": {"histogram": {}}}}, "0 rows"),
        ({"sizes": {"a": {"histogram": {"4 kb": 1}}}}, "did you mean 'kB'?"),
        ({"sizes": {"a": {"histogram": "nowhere.csv"}}}, "cannot be read"),
    ],
)
def test_mistakes_are_told(tmp_path, more, says):
    with pytest.raises(ValueError) as told:
        config(tmp_path, **more)
    assert says in str(told.value)


def test_a_histogram_of_a_site_is_read_from_its_table(tmp_path):
    (tmp_path / "site.csv").write_text("size,count\n# of Monday\n4000, 7\n1 MB,2\n4 kB,1\n0,5\n")
    one = point(tmp_path, {"sizes": "site"}, sizes={"site": {"histogram": str(tmp_path / "site.csv")}})
    assert one.fixed["sizes"] == {"size": [0, 4000, 10**6], "count": [5, 8, 2]}
    assert mixes.mean(one.fixed["sizes"]) == (8 * 4000 + 2 * 10**6) / 15 and mixes.largest(one.fixed["sizes"]) == 10**6
    for text in ("size;count\n1;1\n", "count,size\n1,1\n", "size,count\n1,2,3\n", "size,count\nlarge,1\n"):
        (tmp_path / "site.csv").write_text(text)
        with pytest.raises(ValueError):
            config(tmp_path, sizes={"site": {"histogram": str(tmp_path / "site.csv")}})


def test_a_name_that_means_something_else_now_is_a_difference(tmp_path):
    was = config(
        tmp_path, {"mix": "mine", "sizes": "s"}, mixes={"mine": EVERY}, sizes={"s": {"mean": "9 kB", "sigma": 1}}
    )
    points = plan.make(was, WORKLOADS)
    plan_file.write(was, points, WORKLOADS)
    (was.raw / points[0].key).mkdir(parents=True)
    (was.raw / points[0].key / "run.json").write_text("{}")
    assert plan_file.differences(was, points) == []
    now = config(
        tmp_path,
        {"mix": "mine", "sizes": "s"},
        mixes={"mine": EVERY | {"get": 41.0}},
        sizes={"s": {"mean": "9 kB", "sigma": 2}},
    )
    assert plan_file.differences(now, plan.make(now, WORKLOADS)) == [
        "sweep it: mix.get was 40.0, is 41.0",
        "sweep it: sizes.sigma was 1.0, is 2.0",
    ]
    assert yaml.safe_load((was.raw / "plan.json").read_text())["points"][0]["fixed"]["mix"] == EVERY


def test_the_mean_of_a_cut_log_normal_distribution_by_integration():
    for told in (
        {"mean": 10_000, "sigma": 1.2, "least": 100, "most": 200_000},
        {"mean": 50, "sigma": 2.0, "least": 1, "most": 5000},
        {"mean": 1000, "sigma": 0.4, "least": 0, "most": 100_000},
    ):
        mu, s = math.log(told["mean"]) - told["sigma"] ** 2 / 2, told["sigma"]
        low, high = max(told["least"] - 0.5, 1e-9), told["most"] + 0.5
        n, top, below = 40_000, 0.0, 0.0
        for i in range(n):  # over the logarithm, by midpoints
            y = math.log(low) + (i + 0.5) * (math.log(high) - math.log(low)) / n
            density = math.exp(-((y - mu) ** 2) / (2 * s * s))
            top, below = top + math.exp(y) * density, below + density
        assert mixes.mean(told) == pytest.approx(top / below, rel=1e-5)


def chi_square(seen, due) -> float:
    return sum((s - d) ** 2 / d for s, d in zip(seen, due, strict=True))


def test_sizes_are_drawn_from_their_distribution():
    rng, n = random.Random(3), 60_000
    table = mixing.Sizes({"size": [10, 20, 4000], "count": [5, 0, 15]})
    drawn = [table.draw(rng) for _ in range(n)]
    assert set(drawn) == {10, 4000} and chi_square([drawn.count(10), drawn.count(4000)], [n / 4, 3 * n / 4]) < 10.83
    told = {"mean": 10_000, "sigma": 1.2, "least": 100, "most": 200_000}
    drawn = [mixing.Sizes(told).draw(rng) for _ in range(n)]
    edges = [99.5, 1000.5, 3000.5, 6000.5, 12_000.5, 30_000.5, 80_000.5, 200_000.5]
    below = [0.5 * math.erfc(-(math.log(e) - (math.log(10_000) - 0.72)) / (1.2 * math.sqrt(2))) for e in edges]
    due = [n * (b - a) / (below[-1] - below[0]) for a, b in pairwise(below)]
    seen = [sum(a < d < b for d in drawn) for a, b in pairwise(edges)]
    assert sum(seen) == n and chi_square(seen, due) < 22.46  # 0.001 of 6 degrees of freedom
    assert sum(drawn) / n == pytest.approx(mixes.mean(told), rel=0.03)
    assert mixing.Sizes({"fixed": 7}).draw(rng) == 7


def test_operations_come_by_their_shares_in_random_order():
    shares, n = [70.5, 15, 9.3, 5, 0.2], 50_300
    deck = mixing.Deck(shares, random.Random(7))
    dealt = [deck.deal(lambda kind: True) for _ in range(n)]
    due = [s / 100 * n for s in shares]
    seen = [dealt.count(kind) for kind in range(5)]
    assert chi_square(seen, due) < 18.47 and all(abs(s - d) < 100 for s, d in zip(seen, due, strict=True))
    again = sum((s / 100) ** 2 for s in shares)
    alike = sum(a == b for a, b in pairwise(dealt)) / n
    assert abs(alike - again) < 5 * math.sqrt(again * (1 - again) / n)


def test_an_operation_that_is_not_possible_waits():
    deck = mixing.Deck([1, 1], random.Random(1))
    assert {deck.deal(lambda kind: kind == 0) for _ in range(30)} == {0}
    assert [deck.deal(lambda kind: True) for _ in range(60)].count(1) >= 40 and deck.lost == [0, 0]
    assert deck.deal(lambda kind: False) is None
    assert {deck.deal(lambda kind: kind == 0) for _ in range(5000)} == {0}
    assert deck.lost[1] > 4000 and len(deck.cards) < 3 * mixing.ROUND


def test_poisson_gaps_are_exponential():
    rate, stride, seconds = 4000.0, 2, 10
    due = Poisson(0, seconds * 10**9, rate, 0, stride, 11)
    times = [0]
    while (at := due.due()) < seconds * 10**9:
        times.append(at)
    gaps = sorted(1 - math.exp(-(b - a) / (1e9 * stride / rate)) for a, b in pairwise(times))
    n = len(gaps)
    assert abs(n - rate / stride * seconds) < 5 * math.sqrt(rate / stride * seconds)
    most = max(max((i + 1) / n - g, g - i / n) for i, g in enumerate(gaps))
    assert most * math.sqrt(n) < 1.95  # Kolmogorov-Smirnov at 0.001
    assert Poisson(0, seconds * 10**9, rate, 0, stride, 11).missed() == n
    assert Poisson(0, seconds * 10**9, rate, 0, stride, 12).missed() != n, "another seed, another process"


# --- who gets which object ----------------------------------------------------------------------------------------------------------


def population(start=20, most=30, weights=EVERY, seed=1) -> Population:
    sizes = mixing.Sizes({"size": [0, 20, 100], "count": [1, 2, 3]})
    folder = ["a/put/", "b/put/"]
    return Population(
        weights,
        sizes,
        [10 + n for n in range(start)],
        most,
        lambda n: n % 2,
        lambda n: f"{folder[n % 2]}{n:08d}",
        folder,
        random.Random(seed),
    )


class Play:
    """Many operations in flight at a store that is a dictionary; each takes effect at some moment of its flight."""

    def __init__(self, known: Population, seed: int, fails=0.0):
        self.known, self.rng, self.fails = known, random.Random(seed), fails
        self.store = {known.key(o.number): o.size for o in known.slots if o.at >= 0}
        self.flying, self.failed, self.most, self.done = [], set(), len(self.store), []

    def begin(self):
        given = self.known.give()
        if given is None:
            return
        name = None if given.op == "LIST" else self.known.key(given.number)
        others = [g for g, *_ in self.flying if g.op != "LIST" and g.number == given.number]
        if given.op in ("PUT", "DELETE"):
            assert not others, "alone with its object"
        elif given.op in ("GET", "HEAD"):
            assert not [g for g in others if g.op in ("PUT", "DELETE")] and name not in self.failed
        self.flying.append([given, name, None, False])

    def act(self, flight):
        given, name, _, _ = flight
        flight[3] = True
        if given.op == "PUT":
            self.store[name] = given.size
        elif given.op == "DELETE":
            self.store.pop(name, None)
        elif given.op == "LIST":
            folder = self.known.folder[given.place]
            keys = sorted(k for k in self.store if k.startswith(folder) and k > given.after)
            flight[2] = [(k, self.store[k]) for k in keys[:4]], len(keys) > 4
        else:
            flight[2] = self.store[name]

    def end(self, flight):
        given, name, seen, _ = flight
        failed = given.op in ("PUT", "DELETE") and self.rng.random() < self.fails
        if given.op == "LIST":
            self.known.holds(given, *seen)
        elif given.op in ("GET", "HEAD"):
            assert seen == given.size, "what was asked for is there, as it was put"
        if failed:
            self.failed.add(name)
        self.known.done(given, failed)
        self.done.append(given)

    def run(self, steps):
        for _ in range(steps):
            if len(self.flying) < 6 and self.rng.random() < 0.5:
                self.begin()
            elif self.flying:
                flight = self.rng.choice(self.flying)
                if not flight[3]:
                    self.act(flight)
                else:
                    self.flying.remove(flight)
                    self.end(flight)
            self.most = max(self.most, len(self.store))
        return self


@pytest.mark.parametrize("seed", range(4))
def test_an_honest_store_raises_no_alarm(seed):
    play = Play(population(seed=seed), seed).run(12_000)
    assert play.most <= 30 and not play.failed
    told = play.known.told()
    assert told["left"] == 0 and told["new"] > 100 and told["overwritten"] > 50 and told["lost"] == {}
    share = {op: sum(g.op == op for g in play.done) / len(play.done) for op in ("GET", "PUT", "HEAD", "LIST", "DELETE")}
    assert all(abs(share[op.upper()] - weight / 100) < 0.01 for op, weight in EVERY.items())
    deleted = [g.number for g in play.done if g.op == "DELETE"]
    assert len(set(deleted)) == len(deleted), "no name comes again"


@pytest.mark.parametrize("seed", range(3))
def test_what_failed_is_not_asked_for_and_space_stays_bounded(seed):
    play = Play(population(seed=seed), seed, fails=0.2).run(12_000)
    assert len(play.failed) > 100 and play.most <= 60


def test_a_mix_without_deletions_overwrites():
    play = Play(population(10, 10, {"get": 1.0, "put": 1.0}), 1).run(4000)
    assert play.most == 10 and play.known.told()["new"] == 0 and play.known.told()["overwritten"] > 100


def page(known: Population, place=0):
    folder = known.folder[place]
    return sorted(
        (known.key(o.number), o.size) for o in known.slots if o.at >= 0 and known.key(o.number).startswith(folder)
    )


@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        ("KeyMissing", lambda keys: keys[:3] + keys[4:]),
        ("KeyMissing", lambda keys: keys[:-1]),
        ("KeyMissing", lambda keys: []),
        ("KeyDoubled", lambda keys: [keys[0], *keys]),
        ("KeyOrder", lambda keys: [keys[1], keys[0], *keys[2:]]),
        ("KeySize", lambda keys: [*keys[:2], (keys[2][0], keys[2][1] + 1), *keys[3:]]),
        ("KeyForeign", lambda keys: [*keys, ("a/put/00000099", 1)]),
        ("KeyForeign", lambda keys: [*keys, ("a/put/00000019", 29)]),  # it lies at the other place
        ("KeyForeign", lambda keys: [("a/mine", 1), *keys]),
        ("KeyForeign", lambda keys: [("a/put/0000", 10), *keys]),
    ],
)
def test_lies_in_a_page_are_told_by_name(kind, lie):
    known = population(weights={"list": 1.0})
    given = known.give()
    given.after = ""
    known.holds(given, page(known), False)
    with pytest.raises(WrongListing) as told:
        known.holds(given, lie(page(known)), False)
    assert told.value.kind == kind


def test_a_deleted_key_that_is_listed_again():
    known = population(weights={"delete": 1.0, "put": 1.0, "list": 1.0})
    before = page(known)
    gone = None
    while gone is None or gone.place:
        gone = known.give()
        if gone.op == "DELETE":
            known.done(gone, False)
        else:
            gone = None
    while (later := known.give()).op != "LIST" or later.place:
        pass
    later.after = ""
    with pytest.raises(WrongListing) as told:
        known.holds(later, before, False)
    assert told.value.kind == "KeyDeleted" and f"{gone.number:08d}" in str(told.value)


def test_what_comes_and_goes_during_a_listing_is_no_error():
    known = population(weights={"delete": 1.0, "put": 1.0, "list": 1.0})
    while (listing := known.give()).op != "LIST" or listing.place:
        pass
    listing.after, before = "", page(known)
    for _ in range(40):
        given = known.give()
        known.done(given, False)
    known.holds(listing, before, False)
    known.holds(listing, page(known), False)


# --- around the measurement ---------------------------------------------------------------------------------------------------------


def job(clients=2) -> dict:
    return {
        "attempt": "t1",
        "accounts": 1,
        "buckets": [{"name": "b0", "prefix": ""}, {"name": "b1", "prefix": ""}],
        "scratch": "unused",
    } | {"size": clients}


def with_accounts(values: dict) -> dict:
    return values | {"buckets": [b | {"account": 0} for b in values["buckets"]]}


def test_the_objects_at_the_start_are_shared_out(tmp_path):
    one = point(tmp_path, {"sizes": "s", "buckets": 2}, 65, sizes={"s": {"histogram": {"1 kB": 1, "2 kB": 1}}})
    every = mix.population(one, with_accounts(job()))
    assert len(every) == 65 and len({(b.name, key) for b, key, *_ in every}) == 65
    assert [key for _, key, *_ in every if "/0/" in key] == [f"put/t1/0/{n:08d}" for n in range(33)]
    assert [b.name for b, key, *_ in every if "/1/" in key][:3] == ["b1", "b0", "b1"], "client 1 begins with the second"
    assert {size for *_, size in every} == {1000, 2000} and {body for *_, body, _ in every} == {0, 1, 2, 3}
    assert every == mix.population(one, with_accounts(job())), "drawn from the seed"


def test_too_few_objects_and_too_long_pages(tmp_path):
    for axes, objects, says in (
        ({}, 15, "sweeps.it.objects: 15 objects are too few"),
        ({"page_size": 1001}, 64, "a page has no 1001 keys"),
    ):
        with pytest.raises(UserError, match=says):
            WORKLOADS["mix"].possible(point(tmp_path, axes, objects))
    WORKLOADS["mix"].possible(point(tmp_path, {}, 16))


def test_poisson_arrivals_need_a_rate(tmp_path):
    store = SimpleNamespace(protocol="s3", name="mine", settings=SimpleNamespace(kind="s3"))
    with pytest.raises(UserError, match="poisson arrivals need a rate"):
        check_axes.possible(point(tmp_path, {"arrivals": "poisson"}), store)
    check_axes.possible(point(tmp_path, {"arrivals": "poisson", "arrival_rate": 10}), store)


def test_what_a_mix_takes_is_counted_before(tmp_path):
    one = point(tmp_path, {"sizes": "s"}, 100, sizes={"s": {"histogram": {"1 kB": 3, "5 kB": 1}}})
    total = needs.summarise([one], "mine")
    assert (total.staged_bytes, total.staged_objects, total.scratch_bytes) == (200_000, 100, 20_000)


class Store:
    """What a store lists and reads."""

    def __init__(self, objects):
        self.objects = objects


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "0 missing, 0 that were deleted, 0 of a wrong size, 0 foreign"),
        ({"put/t1/0/00000001": None}, "1 missing"),
        ({"put/t1/0/00000000": 1000}, "1 that were deleted"),
        ({"put/t1/0/00000002": 77}, "1 of a wrong size"),
        ({"put/t1/0/00000050": 1000}, "1 foreign"),
        ({"put/t1/0/00000003": None}, "0 missing"),  # an operation on it failed
        ({"put/t1/0/00000003": 1}, "0 of a wrong size"),
    ],
)
def test_what_is_left_is_held_against_the_records(tmp_path, monkeypatch, change, says):
    one = point(tmp_path, {"clients": 1, "sizes": "1 kB"}, 8)
    plan_of = with_accounts(job(1)) | {"scratch": str(tmp_path)}
    plan_of["buckets"] = plan_of["buckets"][:1]
    done = [  # name, op, bytes, error, in the order of their ends
        (0, "DELETE", 0, None),
        (2, "PUT", 1000, None),
        (3, "PUT", 1000, "Timeout"),
        (8, "PUT", 1000, None),
        (9, "PUT", 1000, None),
        (9, "DELETE", 0, None),
    ]
    columns = {
        "client": [0] * len(done),
        "end_ns": [10 + i for i in range(len(done))],
        "op": [op for _, op, *_ in done],
        "object": [f"put/t1/0/{n:08d}" for n, *_ in done],
        "bytes": [size for *_, size, _ in done],
        "error": [error for *_, error in done],
        "count": [1] * len(done),
    }
    records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns, sync=False)
    from storelab.datasets import payload

    files = [f.read_bytes() for f in payload.body_files(tmp_path, one.fixed["data_seed"], 1000)]
    bodies = {f"put/t1/0/{n:08d}": (n + (n == 2)) % 4 for n in (*range(1, 8), 8)}
    listed = dict.fromkeys(bodies, 1000) | change
    listed = {name: size for name, size in listed.items() if size is not None}
    monkeypatch.setattr(
        buckets, "accesses", lambda store, places: {0: SimpleNamespace(read=lambda b, key: files[bodies[key]])}
    )
    monkeypatch.setattr(buckets, "list_keys", lambda access, place, prefix: listed.items())
    left, back = WORKLOADS["mix"].after(None, one, plan_of, tmp_path)
    assert says in left["detail"] and left["ok"] == (says.startswith("0 "))
    assert back["ok"] and back["detail"].startswith(("6 of 6", "7 of 7", "5 of 5", "8 of 8"))


def test_a_changed_content_is_seen(tmp_path, monkeypatch):
    one = point(tmp_path, {"clients": 1, "sizes": "1 kB"}, 8)
    plan_of = with_accounts(job(1)) | {
        "scratch": str(tmp_path),
        "buckets": [{"name": "b0", "prefix": "", "account": 0}],
    }
    assert Bucket(**plan_of["buckets"][0]).name == "b0"
    columns = {
        "client": [0],
        "end_ns": [1],
        "op": ["GET"],
        "object": ["put/t1/0/00000001"],
        "bytes": [0],
        "error": [None],
        "count": [1],
    }
    records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns, sync=False)
    every = {key: size for _, key, _, size in mix.population(one, plan_of)}
    monkeypatch.setattr(buckets, "accesses", lambda store, places: {0: SimpleNamespace(read=lambda b, key: b"other")})
    monkeypatch.setattr(buckets, "list_keys", lambda access, place, prefix: every.items())
    left, back = WORKLOADS["mix"].after(None, one, plan_of, tmp_path)
    assert left["ok"] and not back["ok"] and back["detail"].startswith("0 of 8")


def test_a_mix_is_a_role_like_others(tmp_path):
    """At a rate that would use up objects if they did not come again."""
    role = {"workload": "mix", "objects": 40, "axes": {"mix": "mine", "workers": 2, "arrival_rate": 500}}
    sweeps = {"both": {"duration": "10 s", "roles": {"traffic": role, "up": {"workload": "put"}}}}
    settings = config(tmp_path, mixes={"mine": EVERY}).model_dump(
        include={"stores", "use_stores", "name", "campaign", "calibrate"}
    )
    whole = Config.model_validate(settings | {"mixes": {"mine": EVERY}, "repetitions": 1, "sweeps": sweeps})
    (one,) = plan.make(whole, WORKLOADS)
    traffic, _ = (part.point for part in one.parts())
    assert (
        traffic.fixed["mix"] == EVERY and traffic.fixed["sizes"] == {"fixed": 4000} and traffic.fixed["objects"] == 40
    )
    WORKLOADS["mix"].possible(traffic)
    role["axes"]["mix"] = "other"
    with pytest.raises(UserError, match=r"sweeps\.both\.roles\.traffic\.axes\.mix: no mix is called 'other'"):
        plan.make(Config.model_validate(settings | {"sweeps": sweeps}), WORKLOADS)


def test_the_benchmark_knows_other_gaps_and_shares():
    """Published values of Kolmogorov's distribution: Q(1.3581) = 0.05, Q(1.6276) = 0.01."""
    rng = random.Random(2)
    n = 40_000
    gaps = [rng.expovariate(1 / 50_000) for _ in range(n)]
    assert roles_mix.kolmogorov_smirnov(gaps, 50_000) > 0.01
    assert roles_mix.kolmogorov_smirnov(gaps, 51_500) < 1e-4, "3 % off"
    assert roles_mix.kolmogorov_smirnov([50_000] * n, 50_000) < 1e-6, "evenly spaced"
    for x, p in ((1.3581, 0.05), (1.6276, 0.01), (0.8276, 0.5)):
        # n values whose largest distance is d: the quantiles of the middle of each step, all moved aside by the rest.
        d = x / (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n))
        moved = [-math.log1p(-max(0.0, (i + 1) / n - d)) for i in range(n)]
        assert roles_mix.kolmogorov_smirnov(moved, 1.0) == pytest.approx(p, rel=0.02)
    right = ["GET"] * 50 + ["PUT"] * 15 + ["HEAD"] * 25 + ["DELETE"] * 10
    assert roles_mix.mix_error(right) == 0 and roles_mix.mix_error([*right[1:], "PUT"]) == pytest.approx(1)
    assert roles_mix.mix_error(["GET"] * 10) == 50
