"""Mixes before and after their measurement: initial objects, their space, and remaining objects in the records."""

from functools import partial
from types import SimpleNamespace

import pytest
from made_jobs import gang_job
from refusals import check_refused
from small_plan import planned

from storelab.core import records
from storelab.datasets import payload
from storelab.engines.contract import GangJob
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads import WORKLOADS, mix
from storelab.workloads.staging import buckets, stage

MIX = WORKLOADS["mix"]
EVERY = {"get": 40.0, "put": 20.0, "head": 15.0, "list": 10.0, "delete": 15.0}


def point(axes=None, objects=64, **more):
    sweep = {"workload": "mix", "objects": objects, "axes": {"workers": 4, "clients": 2} | (axes or {})}
    return planned(sweeps={"it": sweep}, **more)[0]


def job(buckets, **more) -> GangJob:
    return gang_job(attempt="t1", buckets=[Bucket(f"b{i}") for i in range(buckets)], **more)


def test_objects_at_the_start_are_shared_out():
    one = point({"sizes": "s", "buckets": 2}, 65, sizes={"s": {"histogram": {"1 kB": 1, "2 kB": 1}}})
    every = mix.population(one, job(2))
    assert len(every) == 65 and len({(b.name, key) for b, key, *_ in every}) == 65
    assert [key for _, key, *_ in every if "/0/" in key] == [f"put/t1/0/{n:08d}" for n in range(33)]
    assert [b.name for b, key, *_ in every if "/1/" in key][:3] == ["b1", "b0", "b1"], "client 1 begins with the second"
    assert {size for *_, size in every} == {1000, 2000} and {body for *_, body, _ in every} == {0, 1, 2, 3}
    assert every == mix.population(one, job(2)), "drawn from the seed"


def test_too_few_objects_and_too_long_pages_are_refused():
    MIX.validate(point({}, 16))
    for axes, objects, place in (({}, 15, "sweeps.it.objects"), ({"page_size": 1001}, 64, "sweeps.it.axes.page_size")):
        check_refused(f"{place}: ", "", MIX.validate, point(axes, objects))


def test_needs_of_a_mix_are_counted():
    one = point({"sizes": "s"}, 100, sizes={"s": {"histogram": {"1 kB": 3, "5 kB": 1}}})
    total = stage.summarise([one], "a")
    assert (total.staged_bytes, total.staged_objects, total.scratch_bytes) == (200_000, 100, 20_000)


DONE = [  # number of the object, op, bytes, error, in the order of their ends
    (0, "DELETE", 0, None),
    (2, "PUT", 1000, None),
    (3, "PUT", 1000, "Timeout"),
    (8, "PUT", 1000, None),
    (9, "PUT", 1000, None),
    (9, "DELETE", 0, None),
]


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Return a function that returns the checks of a point with 8 initial objects, and these operations and objects."""
    one = point({"clients": 1, "sizes": "1 kB"}, 8)
    bodies = [f.read_bytes() for f in payload.body_files(tmp_path, one.fixed["data_seed"], 1000)]

    def after(done, listed, content=lambda key, bodies: b"other"):
        columns = {"client": [0] * len(done), "count": [1] * len(done), "end_ns": [10 + i for i in range(len(done))]}
        columns["object"] = [f"put/t1/0/{n:08d}" for n, *_ in done]
        for at, name in enumerate(("op", "bytes", "error"), 1):
            columns[name] = [row[at] for row in done]
        records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns, sync=False)
        way = SimpleNamespace(read=lambda b, key: content(key, bodies))
        monkeypatch.setattr(buckets, "accesses", lambda store, places: {0: way})
        monkeypatch.setattr(buckets, "list_keys", lambda access, place, prefix: listed.items())
        return MIX.after(None, one, job(1, scratch=tmp_path), tmp_path)

    return after


def test_remaining_objects_are_compared_with_the_records(checked):
    there = {f"put/t1/0/{n:08d}": n for n in range(1, 9)}  # number 2 was overwritten once

    def content(key, bodies):
        return bodies[(there[key] + (there[key] == 2)) % 4]

    for number, size, found in (
        (None, None, "0 missing, 0 that were deleted, 0 of a wrong size, 0 foreign"),
        (1, None, "1 missing"),
        (0, 1000, "1 that were deleted"),
        (2, 77, "1 of a wrong size"),
        (50, 1000, "1 foreign"),
        (3, None, "0 missing"),  # an operation on it failed
        (3, 1, "0 of a wrong size"),
    ):
        listed = dict.fromkeys(there, 1000) | ({f"put/t1/0/{number:08d}": size} if number is not None else {})
        listed = {name: size for name, size in listed.items() if size is not None}
        left, back = checked(DONE, listed, content)
        assert found in left["detail"] and left["ok"] == found.startswith("0 "), (number, size)
        assert back["ok"] and back["detail"].startswith(("6 of 6", "7 of 7", "5 of 5", "8 of 8")), (number, size)


def test_changed_content_is_recognised(checked):
    left, back = checked([(1, "GET", 0, None)], {f"put/t1/0/{n:08d}": 1000 for n in range(8)})
    assert left["ok"] and not back["ok"] and back["detail"].startswith("0 of 8")


def test_mix_is_a_role_like_others():
    """Its rate would use up the objects if they were not created again."""
    role = {"workload": "mix", "objects": 40, "axes": {"mix": "mine", "workers": 2, "arrival_rate": 500}}
    sweeps = {"both": {"duration": "10 s", "roles": {"traffic": role, "up": {"workload": "put"}}}}
    (one,) = planned(mixes={"mine": EVERY}, sweeps=sweeps)
    traffic, _ = (part.point for part in one.parts())
    assert traffic.fixed["mix"] == EVERY and traffic.fixed["sizes"] == {"fixed": 4000}
    assert traffic.fixed["objects"] == 40
    MIX.validate(traffic)
    role["axes"]["mix"] = "other"
    check_refused("sweeps.both.roles.traffic.axes.mix: ", "'other'", partial(planned, sweeps=sweeps))
