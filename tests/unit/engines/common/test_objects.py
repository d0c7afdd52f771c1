"""Objects that clients read, delete and mix: shares by account, single use if the point requires it; sizes, cards."""

import json
import math
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from storelab.core import plan
from storelab.core.axes import mixes
from storelab.core.model import Point
from storelab.core.records import write_json
from storelab.datasets import payload
from storelab.engines.common import objects
from storelab.engines.common.objects import Staged, deletions, key_folders, staged_objects
from storelab.engines.common.transfers import orders
from storelab.engines.contract import Job
from storelab.stores.config import Config
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS

END = Endpoint("http://127.0.0.1:1")


def point(**sweep):
    base = {"campaign": "c", "name": "c", "stores_to_measure": ["one"], "repetitions": 1, "calibrate": False}
    base |= {"stores": {"one": {"kind": "s3", "endpoint": END.url}}, "sweeps": {"a": sweep}}
    (one,) = plan.make(Config.model_validate(base), WORKLOADS)
    return one


def jobs(tmp_path, access, clients, objects, buckets=1, accounts=1, **axes) -> list[Job]:
    """Return the jobs of all clients of one point of `get`."""
    asked = {"access": access, "clients": clients, "buckets": buckets, "accounts": accounts, "engine": "obstore"}
    one = point(workload="get", objects=objects, axes=asked | axes)
    places = [Bucket(f"b{i}", "", i % accounts) for i in range(buckets)]
    dataset = {"name": "d", "objects": objects, "buckets": buckets, "seed": 1, "object_size": 10}
    path = tmp_path / "m.json"
    write_json(path, {"dataset": dataset, "objects": payload.objects(dataset), "bodies": []})
    return [Job(one, i, END, places, tmp_path / str(i), path, account=i % accounts) for i in range(clients)]


def test_each_object_is_read_by_one_client_once(tmp_path):
    for access in ("once", "cold"):
        for clients, number, buckets, accounts in ((1, 7, 1, 1), (3, 10, 2, 1), (4, 41, 4, 2), (5, 60, 6, 3)):
            seen = Counter()
            for job in jobs(tmp_path, access, clients, number, buckets, accounts):
                own = staged_objects(job)[1]
                assert {o.place.account for o in own} <= {job.account}
                seen.update(o.key for o in own)
            assert len(seen) == number and set(seen.values()) == {1}, (access, clients)


def test_shares_are_even_and_drawn_by_the_seed(tmp_path):
    split, again = ([staged_objects(job)[1] for job in jobs(tmp_path, "once", 2, 40, buckets=2)] for _ in range(2))
    assert [len(own) for own in split] == [20, 20]
    assert all(len({o.number for o in own}) == 2 for own in split), "both clients read from both buckets"
    assert again == split and [o.key for o in split[0]] != sorted(o.key for o in split[0])


def test_warm_clients_share_all_objects(tmp_path):
    assert [len(staged_objects(job)[1]) for job in jobs(tmp_path, "warm", 3, 10)] == [10] * 3


def test_staged_objects_are_those_of_the_account(tmp_path):
    places = [SimpleNamespace(account=i % 2, prefix=f"{name}/") for i, name in enumerate("abc")]
    columns = {"bucket": [0, 1, 2, 1], "key": ["k0", "k1", "k2", "k3"], "body": [5, 6, 7, 8]}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"objects": columns, "more": 1}))
    for account, expected in ((0, [(0, "a/k0", 5), (2, "c/k2", 7)]), (1, [(1, "b/k1", 6), (1, "b/k3", 8)])):
        owns = lambda place, account=account: place.account == account  # noqa: E731
        job = SimpleNamespace(manifest=path, buckets=places, point=SimpleNamespace(axes={}), owns=owns)
        manifest, found = staged_objects(job)
        assert manifest["more"] == 1 and [(s.number, s.key, s.body) for s in found] == expected
        assert all(s.place is places[s.number] for s in found)
    assert Staged(0, places[1], "x", 0).key == "b/x"


def test_deletions_are_batched_by_bucket():
    objects = [[], [(0, f"x{i}") for i in range(7)] + [(1, f"y{i}") for i in range(4)]]
    places = [SimpleNamespace(prefix="a/"), SimpleNamespace(prefix="b/")]
    job = SimpleNamespace(extra={"objects": objects}, client=1, buckets=places, point=SimpleNamespace(seed=7))
    pieces = deletions(job, 3)
    assert sorted(len(keys) for _, keys in pieces) == [1, 1, 3, 3, 3]
    assert sorted(k for b, keys in pieces if b == 0 for k in keys) == [f"a/x{i}" for i in range(7)]
    assert sorted(k for b, keys in pieces if b == 1 for k in keys) == [f"b/y{i}" for i in range(4)]
    assert pieces == deletions(job, 3) and [b for b, _ in pieces] != sorted(b for b, _ in pieces)
    job.client = 0
    assert deletions(job, 3) == []


def test_orders_end_when_each_is_read_once():
    endless = orders([1, 2, 3], random.Random(1))
    assert Counter(next(endless) for _ in range(9)) == {1: 3, 2: 3, 3: 3}
    assert list(orders([3, 1, 2], random.Random(1), once=True)) == [3, 1, 2]


def test_workers_of_obstore_share_objects_of_client(tmp_path):
    for workers in (1, 3, 8):
        seen = Counter()
        for job in jobs(tmp_path, "cold", 2, 21, workers=workers):
            client = WORKLOADS["get"].client(job)
            client.paths = ["b0/"]
            client.prepare_tasks()
            seen.update(task.path for w in range(workers) for task in client.tasks(w))
        assert len(seen) == 21 and set(seen.values()) == {1}, workers


def test_cold_events_end_with_their_file(tmp_path):
    cold = point(workload="events", axes={"access": "cold", "step": 50})
    first = Job(cold, 0, END, [Bucket("b", "", 0)], tmp_path, None)
    warm = replace(first, point=point(workload="events"))
    for job, ends in ((first, [False, False, False, True]), (warm, [False] * 4)):
        client = WORKLOADS["events"].client(job)
        client.step, client.entries = 50, 120
        assert [client.finished(n) for n in range(4)] == ends and client.cold is False


def test_client_begins_with_different_folders(tmp_path):
    """A client uses the folders of its accounts; client c begins with the c-th of them, and goes round."""
    point, manifest = Point("a", "list", {"clients": 8}, 1, "k", "s", 5, 0), tmp_path / "m.json"
    manifest.write_text(json.dumps({"dataset": {"name": "keys-x"}, "clients": {"name": "wrong"}, "objects": {}}))
    places = [Bucket(f"b{i}", f"p{i}/", i % 2) for i in range(6)]
    for accounts, own in (((0,), [0, 2, 4]), ((1,), [1, 3, 5]), ((0, 1), [0, 1, 2, 3, 4, 5])):
        for client in range(7):
            first = client % len(own)
            wanted = [(i, f"p{i}/data/keys-x/keys/") for i in own[first:] + own[:first]]
            job = Job(point, client, Endpoint("http://h", "s3"), places, tmp_path, manifest, accounts=accounts)
            assert key_folders(job) == wanted, (accounts, client)


def chi_square(seen, due) -> float:
    return sum((s - d) ** 2 / d for s, d in zip(seen, due, strict=True))


def test_sizes_come_from_their_distribution():
    rng, n = random.Random(3), 60_000
    table = objects.Sizes({"size": [10, 20, 4000], "count": [5, 0, 15]})
    drawn = [table.draw(rng) for _ in range(n)]
    assert set(drawn) == {10, 4000} and chi_square([drawn.count(10), drawn.count(4000)], [n / 4, 3 * n / 4]) < 10.83
    cut = {"mean": 10_000, "sigma": 1.2, "least": 100, "most": 200_000}
    drawn = [objects.Sizes(cut).draw(rng) for _ in range(n)]
    edges = [99.5, 1000.5, 3000.5, 6000.5, 12_000.5, 30_000.5, 80_000.5, 200_000.5]
    below = [0.5 * math.erfc(-(math.log(e) - (math.log(10_000) - 0.72)) / (1.2 * math.sqrt(2))) for e in edges]
    due = [n * (b - a) / (below[-1] - below[0]) for a, b in pairwise(below)]
    seen = [sum(a < d < b for d in drawn) for a, b in pairwise(edges)]
    assert sum(seen) == n and chi_square(seen, due) < 22.46  # 0.001 of 6 degrees of freedom
    assert sum(drawn) / n == pytest.approx(mixes.mean(cut), rel=0.03)
    assert objects.Sizes({"fixed": 7}).draw(rng) == 7


def test_operations_come_by_their_shares_in_random_order():
    shares, n = [70.5, 15, 9.3, 5, 0.2], 50_300
    deck = objects.Deck(shares, random.Random(7))
    dealt = [deck.deal(lambda kind: True) for _ in range(n)]
    due = [s / 100 * n for s in shares]
    seen = [dealt.count(kind) for kind in range(5)]
    assert chi_square(seen, due) < 18.47 and all(abs(s - d) < 100 for s, d in zip(seen, due, strict=True))
    again = sum((s / 100) ** 2 for s in shares)
    same = sum(a == b for a, b in pairwise(dealt)) / n
    assert abs(same - again) < 5 * math.sqrt(again * (1 - again) / n)


def test_impossible_operation_waits():
    deck = objects.Deck([1, 1], random.Random(1))
    assert {deck.deal(lambda kind: kind == 0) for _ in range(30)} == {0}
    assert [deck.deal(lambda kind: True) for _ in range(60)].count(1) >= 40 and deck.lost == [0, 0]
    assert deck.deal(lambda kind: False) is None
    assert {deck.deal(lambda kind: kind == 0) for _ in range(5000)} == {0}
    assert deck.lost[1] > 4000 and len(deck.cards) < 3 * objects.ROUND
