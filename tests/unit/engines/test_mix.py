"""A mix by obstore, operation by operation, with a store in memory, whose content must equal the client's view."""

import random
from collections import Counter

import obstore
import pytest
import small_plan
from honest_s3 import FIRST, Object, honest_s3

from storelab.datasets.payload import WrongListing
from storelab.engines.common import objects
from storelab.engines.common import objects as mixing
from storelab.engines.contract import Job
from storelab.engines.obstore.mix import ObstoreMix, Population
from storelab.stores.protocols.endpoint import Bucket, Endpoint

EVERY = {"get": 40.0, "put": 20.0, "head": 15.0, "list": 10.0, "delete": 15.0}


def test_mix_changes_the_store_as_it_believes(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", FIRST.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", FIRST.secret_key)
    sweep = {"workload": "mix", "objects": 40, "axes": {"mix": "mine", "workers": 2, "engine": "obstore", "clients": 1}}
    (point,) = small_plan.planned(mixes={"mine": EVERY}, sweeps={"s": sweep})
    with honest_s3("any signature") as (url, store):
        one = ObstoreMix(Job(point, 0, Endpoint(url), [Bucket("b", "p/")], tmp_path / "client", None, "a1b2"))
        one.obstore = obstore
        one.prepare_tasks()
        one.open()
        objects = store.buckets["b"].objects
        for n, size in enumerate(mixing.sizes_at_start(point, 0)):
            objects[one.key(n)] = Object(bytes(one.bodies[n % 4][:size]), {}, '"x"')
        store.received.clear()
        tasks, kept, done = one.tasks(0), [], Counter()
        for _ in range(200):
            task = next(tasks)
            out = one.do(task, True)
            done[task.given.op] += 1
            moved = task.given.size if task.given.op in ("GET", "PUT") else 0
            assert out[:2] == (1, moved) and bool(out.first_ns) == (task.given.op == "GET"), task
            kept += [(task, out.content)] if out.content is not None else []
        methods = Counter(method for method, *_ in store.received)
    assert len(kept) == done["GET"] == one.verify(kept)[0] and min(done.values()) > 10
    assert methods["DELETE"] == done["DELETE"] and sum(methods.values()) == 200 * one.requests()
    population = one.objects
    slots = [slot for slot in population.slots if slot.at >= 0]
    assert {key: len(thing.body) for key, thing in objects.items()} == {one.key(s.number): s.size for s in slots}


def population(start=20, most=30, weights=EVERY, seed=1) -> Population:
    sizes = objects.Sizes({"size": [0, 20, 100], "count": [1, 2, 3]})
    folder, first = ["a/put/", "b/put/"], [10 + n for n in range(start)]
    key = lambda n: f"{folder[n % 2]}{n:08d}"  # noqa: E731
    return Population(weights, sizes, first, most, lambda n: n % 2, key, folder, random.Random(seed))


class Play:
    """Run many operations at a store that is a dictionary; each takes effect at some time before its answer."""

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
            assert not others, "no other operation has its object"
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
            assert seen == given.size, "the requested object exists with the uploaded content"
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


def test_honest_store_raises_no_error():
    for seed in range(4):
        play = Play(population(seed=seed), seed).run(12_000)
        assert play.most <= 30 and not play.failed
        counts = play.known.as_dict()
        assert counts["left"] == 0 and counts["new"] > 100 and counts["overwritten"] > 50 and counts["lost"] == {}
        for op, weight in EVERY.items():
            assert abs(sum(g.op == op.upper() for g in play.done) / len(play.done) - weight / 100) < 0.01, (op, seed)
        deleted = [g.number for g in play.done if g.op == "DELETE"]
        assert len(set(deleted)) == len(deleted), "no name is used twice"


def test_failed_objects_are_avoided_and_space_is_bounded():
    for seed in range(3):
        play = Play(population(seed=seed), seed, fails=0.2).run(12_000)
        assert len(play.failed) > 100 and play.most <= 60


def test_mix_without_deletions_overwrites():
    play = Play(population(10, 10, {"get": 1.0, "put": 1.0}), 1).run(4000)
    counts = play.known.as_dict()
    assert play.most == 10 and counts["new"] == 0 and counts["overwritten"] > 100


def page(known: Population, place=0):
    there = {known.key(o.number): o.size for o in known.slots if o.at >= 0}
    return sorted((key, size) for key, size in there.items() if key.startswith(known.folder[place]))


def test_wrong_pages_are_recognised():
    for kind, wrong in (
        ("KeyMissing", lambda keys: keys[:3] + keys[4:]),
        ("KeyMissing", lambda keys: keys[:-1]),
        ("KeyMissing", lambda keys: []),
        ("KeyDoubled", lambda keys: [keys[0], *keys]),
        ("KeyOrder", lambda keys: [keys[1], keys[0], *keys[2:]]),
        ("KeySize", lambda keys: [*keys[:2], (keys[2][0], keys[2][1] + 1), *keys[3:]]),
        ("KeyForeign", lambda keys: [*keys, ("a/put/00000099", 1)]),
        ("KeyForeign", lambda keys: [*keys, ("a/put/00000019", 29)]),  # it is at the other place
        ("KeyForeign", lambda keys: [("a/mine", 1), *keys]),
        ("KeyForeign", lambda keys: [("a/put/0000", 10), *keys]),
    ):
        known = population(weights={"list": 1.0})
        given = known.give()
        given.after = ""
        known.holds(given, page(known), False)
        with pytest.raises(WrongListing) as caught:
            known.holds(given, wrong(page(known)), False)
        assert caught.value.kind == kind, wrong(page(known))


def test_deleted_key_may_not_be_listed_again():
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
    with pytest.raises(WrongListing) as caught:
        known.holds(later, before, False)
    assert caught.value.kind == "KeyDeleted" and f"{gone.number:08d}" in str(caught.value)


def test_changes_during_a_listing_are_right():
    known = population(weights={"delete": 1.0, "put": 1.0, "list": 1.0})
    while (listing := known.give()).op != "LIST" or listing.place:
        pass
    listing.after, before = "", page(known)
    for _ in range(40):
        given = known.give()
        known.done(given, False)
    known.holds(listing, before, False)
    known.holds(listing, page(known), False)
