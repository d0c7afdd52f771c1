"""A mix by obstore, operation by operation, against a store in memory: it holds what the client believes."""

from collections import Counter

import obstore
import small_plan
from honest_s3 import FIRST, Object, honest_s3

from storelab.engines.common import mixing
from storelab.engines.contract import Job
from storelab.engines.obstore.mixed import ObstoreMix
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
        for n, size in enumerate(mixing.start(point, 0)):
            objects[one.key(n)] = Object(bytes(one.bodies[n % 4][:size]), {}, '"x"')
        store.asked.clear()
        tasks, kept, done = one.tasks(0), [], Counter()
        for _ in range(200):
            task = next(tasks)
            out = one.do(task, True)
            done[task.given.op] += 1
            moved = task.given.size if task.given.op in ("GET", "PUT") else 0
            assert out[:2] == (1, moved) and bool(out.first_ns) == (task.given.op == "GET"), task
            kept += [(task, out.content)] if out.content is not None else []
        methods = Counter(method for method, *_ in store.asked)
    assert len(kept) == done["GET"] == one.verify(kept)[0] and min(done.values()) > 10
    assert methods["DELETE"] == done["DELETE"] and sum(methods.values()) == 200 * one.requests()
    population = one.objects
    slots = [slot for slot in population.slots if slot.at >= 0]
    assert {key: len(thing.body) for key, thing in objects.items()} == {one.key(s.number): s.size for s in slots}
