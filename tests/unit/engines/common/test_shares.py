"""Shares of staged objects: each client reads or deletes those of its account, once where the point asks for it."""

import json
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

from storelab.core import plan
from storelab.core.model import Point
from storelab.core.records import write_json
from storelab.datasets import payload
from storelab.engines.common.shares import Staged, folders, staged, to_delete
from storelab.engines.common.transfers import orders
from storelab.engines.contract import Job
from storelab.stores.config import Config
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS

END = Endpoint("http://127.0.0.1:1")


def point(**sweep):
    base = {"campaign": "c", "name": "c", "use_stores": ["one"], "repetitions": 1, "calibrate": False}
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
        for clients, objects, buckets, accounts in ((1, 7, 1, 1), (3, 10, 2, 1), (4, 41, 4, 2), (5, 60, 6, 3)):
            seen = Counter()
            for job in jobs(tmp_path, access, clients, objects, buckets, accounts):
                own = staged(job)[1]
                assert {o.place.account for o in own} <= {job.account}
                seen.update(o.key for o in own)
            assert len(seen) == objects and set(seen.values()) == {1}, (access, clients)


def test_shares_are_even_and_drawn_by_the_seed(tmp_path):
    split, again = ([staged(job)[1] for job in jobs(tmp_path, "once", 2, 40, buckets=2)] for _ in range(2))
    assert [len(own) for own in split] == [20, 20]
    assert all(len({o.number for o in own}) == 2 for own in split), "both clients read from both buckets"
    assert again == split and [o.key for o in split[0]] != sorted(o.key for o in split[0])


def test_warm_clients_share_all_objects(tmp_path):
    assert [len(staged(job)[1]) for job in jobs(tmp_path, "warm", 3, 10)] == [10] * 3


def test_staged_objects_are_those_of_the_account(tmp_path):
    places = [SimpleNamespace(account=i % 2, prefix=f"{name}/") for i, name in enumerate("abc")]
    columns = {"bucket": [0, 1, 2, 1], "key": ["k0", "k1", "k2", "k3"], "body": [5, 6, 7, 8]}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"objects": columns, "more": 1}))
    for account, expected in ((0, [(0, "a/k0", 5), (2, "c/k2", 7)]), (1, [(1, "b/k1", 6), (1, "b/k3", 8)])):
        owns = lambda place, account=account: place.account == account  # noqa: E731
        job = SimpleNamespace(manifest=path, buckets=places, point=SimpleNamespace(axes={}), owns=owns)
        manifest, found = staged(job)
        assert manifest["more"] == 1 and [(s.number, s.key, s.body) for s in found] == expected
        assert all(s.place is places[s.number] for s in found)
    assert Staged(0, places[1], "x", 0).key == "b/x"


def test_deletions_are_batched_by_bucket():
    objects = [[], [(0, f"x{i}") for i in range(7)] + [(1, f"y{i}") for i in range(4)]]
    places = [SimpleNamespace(prefix="a/"), SimpleNamespace(prefix="b/")]
    job = SimpleNamespace(extra={"objects": objects}, client=1, buckets=places, point=SimpleNamespace(seed=7))
    pieces = to_delete(job, 3)
    assert sorted(len(keys) for _, keys in pieces) == [1, 1, 3, 3, 3]
    assert sorted(k for b, keys in pieces if b == 0 for k in keys) == [f"a/x{i}" for i in range(7)]
    assert sorted(k for b, keys in pieces if b == 1 for k in keys) == [f"b/y{i}" for i in range(4)]
    assert pieces == to_delete(job, 3) and [b for b, _ in pieces] != sorted(b for b, _ in pieces)
    job.client = 0
    assert to_delete(job, 3) == []


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
            assert folders(job) == wanted, (accounts, client)
