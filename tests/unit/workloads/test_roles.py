"""Several workloads at the same time, without a store: plan, refusals, jobs and records of points with roles."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import small_plan
from made_jobs import client_result
from refusals import NONE, all_refused, refusal
from store_on_paper import StoreOnPaper

from storelab import workloads
from storelab.core import model, plan, records
from storelab.core.model import Point
from storelab.measure import check, deployment, jobs, plan_file, record
from storelab.stores.config import load
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.base import files_of
from storelab.workloads.staging import written

S = 10**9
UPLOADS = {"workload": "put", "axes": {"engine": "loadgen", "object_size": "1 MB", "clients": 2, "workers": [4, 8]}}
DELETIONS = {"workload": "delete", "axes": {"workers": 40}, "begin": "30 %", "end": "36 s", "objects": 200}
READERS = {"workload": "get", "axes": {"engine": "obstore", "clients": 3}, "objects": 10}
ROLES = {"uploads": UPLOADS, "deletions": DELETIONS, "readers": READERS}
KILL = {"at": "10 s", "act": "kill", "actor": "data.0"}
KILLED = [{"at": "40 %", "act": "restart", "actor": "data.0"}, KILL]


def configured(sweep=None, roles=ROLES, **more):
    sweep = {"duration": "60 s", "warm_up": "2 s", "roles": roles} | (sweep or {})
    return small_plan.configured(**{"sweeps": {"both": sweep}, "faults": {"killed": KILLED}} | more)


def made(*args, **more):
    return plan.make(configured(*args, **more), WORKLOADS)


@pytest.fixture(scope="module")
def first():
    """Return the point of the default sweep whose uploads have 4 workers."""
    return next(p for p in made() if p.axes["uploads.workers"] == 4)


def test_combinations_are_points_with_axes_by_role():
    points = made({"axes": {"buckets": 2, "fault": ["none", "killed"]}})
    uploads = "_uploads.engine~loadgen_uploads.object_size~1MB_uploads.clients~0002"
    others = "_deletions.workers~0040_readers.engine~obstore_readers.clients~0003_rep~001"
    assert {p.key for p in points} == {
        f"a/roles-both/buckets~0002{fault}{uploads}{workers}{others}"
        for fault in ("", "_fault~killed")
        for workers in ("", "_uploads.workers~0004")
    }
    assert {p.clients for p in points} == {6} and {p.dataset for p in points} == {None}


def test_role_has_the_meaning_of_its_workload():
    """An ordinary sweep has the same axes, the same objects and the same data set."""
    first = next(p for p in made({"axes": {"buckets": 2}}) if p.axes["uploads.workers"] == 4)
    alone = {name: {k: v for k, v in role.items() if k not in ("begin", "end")} for name, role in ROLES.items()}
    for role in alone.values():
        role["axes"] = role["axes"] | {"buckets": 2} | ({"workers": 4} if role is alone["uploads"] else {})
    config = configured(sweeps=alone)
    ordinary = {p.sweep: p for p in plan.make(config, WORKLOADS)}
    for part in first.parts():
        other = ordinary[part.name]
        assert (part.point.workload, part.point.axes, part.point.dataset) == (other.workload, other.axes, other.dataset)
        assert part.point.fixed.get("objects") == other.fixed.get("objects")
    seeds = [first.seed, *(part.point.seed for part in first.parts())]
    assert len(set(seeds)) == 4 and len({p.seed for p in made()}) == 2


def test_roles_have_ranks_in_order_and_times_from_the_start():
    parts = made()[0].parts()
    assert [(p.name, p.number, [*p.ranks], p.begin_ns, p.end_ns) for p in parts] == [
        ("uploads", 0, [0, 1], 0, 60 * S),
        ("deletions", 1, [2], 18 * S, 36 * S),
        ("readers", 2, [3, 4, 5], 0, 60 * S),
    ]
    assert [p.point.fixed["duration_ns"] for p in parts] == [60 * S, 18 * S, 60 * S]
    assert [p.attempt("0123abcd") for p in parts] == ["0123abcd-0", "0123abcd-1", "0123abcd-2"]


def test_point_without_roles_is_its_own_part():
    own = made(sweeps={"up": {"workload": "put", "axes": {"clients": 3}, "duration": "7 s"}})[0]
    (part,) = own.parts()
    assert part.point is own and own.clients == 3 and [*part.ranks] == [0, 1, 2]
    assert (part.begin_ns, part.end_ns, part.attempt("x")) == (0, 7 * S, "x")
    assert workloads.workload_of(own) is WORKLOADS["put"]


def test_scale_shortens_times_but_not_shares():
    roles = ROLES | {"deletions": DELETIONS | {"begin": "6 s", "end": "50 %"}}
    parts = made(roles=roles, scale=0.1)[0].parts()
    assert [(p.begin_ns, p.end_ns) for p in parts] == [(0, 6 * S), (6 * S // 10, 3 * S), (0, 6 * S)]
    assert [p.point.fixed.get("objects") for p in parts] == [None, 20, 1]


def test_acts_of_a_fault_are_ordered_by_time():
    points = made({"axes": {"fault": ["none", "killed"]}})
    acts = {p.axes["fault"]: p.fixed.get("acts") for p in points}
    assert acts["none"] is None
    assert [(a["at_ns"], a["act"]) for a in acts["killed"]] == [(10 * S, "kill"), (24 * S, "restart")]


def test_plan_file_has_roles_and_their_axes():
    config = configured()
    points = plan.make(config, WORKLOADS)
    written = plan.to_json(config, points, WORKLOADS)
    (own,) = written["workloads"].values()
    assert list(written["workloads"]) == ["roles-both"]
    assert own["roles"] == {
        "uploads": {"workload": "put", "begin_ns": 0, "end_ns": 60 * S},
        "deletions": {"workload": "delete", "begin_ns": 18 * S, "end_ns": 36 * S},
        "readers": {"workload": "get", "begin_ns": 0, "end_ns": 60 * S},
    }
    columns = {a["name"]: a["column"] for a in own["axes"]}
    assert {"fault", "uploads.workers", "deletions.batch"} <= columns.keys() and "workers" not in columns
    assert columns["uploads.object_size"] == "uploads.object_size_bytes"
    assert [Point(**p) for p in json.loads(json.dumps(written))["points"]] == points


def test_description_of_a_point_names_its_roles(first):
    words = model.axis_texts(first, workloads.workload_of(first))
    assert {"uploads.workers=0004", "deletions.engine=obstore", "readers.object size=4kB"} <= set(words)
    assert [word.partition(".")[0] for word in words] == ["uploads"] * 4 + ["deletions"] * 3 + ["readers"] * 3
    engines = ["uploads.engine=loadgen", "deletions.engine=obstore", "readers.engine=obstore"]
    assert model.axis_texts(first, workloads.workload_of(first), ("engine",)) == engines


PUT = {"workload": "put"}
REFUSED = [  # settings of the sweep, roles, place of the error below `sweeps.both`, part of its message
    ({}, {"up": PUT | {"end": "70 s"}}, "roles.up.end", "1 min 10 s"),
    ({}, {"up": PUT | {"begin": "60 s"}}, "roles.up.begin", "1 min 00 s"),
    ({}, {"up": PUT | {"begin": "9 s", "end": "5 s"}}, "roles.up.end", "5.0 s"),
    ({}, {"up": PUT | {"begin": "5 s", "end": "5 s"}}, "roles.up.end", "5.0 s"),
    ({}, {"up": PUT | {"begin": "58 s"}}, "warm_up", "2.0 s"),
    ({"warm_up": "60 s"}, {"up": PUT}, "warm_up", "duration"),
    ({}, {"up": {"workload": "putt"}}, "roles.up.workload", "did you mean 'put'?"),
    ({}, {"up": {"workload": "probe"}}, "roles.up.workload", "one of: put"),
    ({}, {"up": PUT | {"axes": {"buckets": 2}}}, "roles.up.axes.buckets", "whole point"),
    ({}, {"up": PUT | {"axes": {"worker": 2}}}, "roles.up.axes.worker", "did you mean 'workers'?"),
    ({}, {"up": PUT | {"axes": {"workers": [2, 2]}}}, "roles.up.axes.workers", "2 is listed twice"),
    ({}, {"up": PUT | {"axes": {"clients": 0}}}, "roles.up.axes.clients", "at least 1"),
    ({"axes": {"workers": 2}}, {"up": PUT}, "axes.workers", "roles-both"),
    ({"axes": {"fault": "kiled"}}, {"up": PUT}, "axes.fault", "none, killed"),
    (
        {"axes": {"buckets": 9}},
        {"r": READERS | {"objects": 8}},
        "roles.r.objects",
        "8 objects are too few for 9 buckets",
    ),
    ({}, {"d": DELETIONS | {"axes": {"clients": 201}}}, "roles.d.objects", "200 objects are too few for 201 clients"),
    ({}, {"d": DELETIONS | {"axes": {"arrival_rate": 12, "engine": "obstore"}}}, "roles.d.objects", "set at least 216"),
    ({}, {"u" * 60 + str(n): PUT | {"axes": {"workers": 2}} for n in range(4)}, "", "the name of a point's folder"),
    ({"axes": {"fault": "killed"}, "duration": "9 s"}, {"up": PUT}, "faults.killed.1.at", "kill at 10 s"),
]


def test_impossible_roles_are_refused_at_their_place():
    made(roles={"d": DELETIONS | {"objects": 216, "axes": {"arrival_rate": 12}}})  # a key for each deletion
    places = [place if place.startswith("faults") else f"sweeps.both.{place}".rstrip(".") for *_, place, _ in REFUSED]
    all_refused(
        (f"{place}: ", words, made, sweep, roles)
        for place, (sweep, roles, _, words) in zip(places, REFUSED, strict=True)
    )


FILE = """
name: c
stores_to_measure: [a]
stores: {a: {kind: seaweedfs}}
sweeps: {s: %s}
"""
WRONG = [  # a sweep, place of the error, part of its message
    ("{roles: {up: {workload: put}}, workload: put}", "sweeps.s", "`roles`"),
    ("{duration: 1 s}", "sweeps.s", "'workload' is missing"),
    ("{roles: {up: {workload: put}}, objects: 3}", "sweeps.s", "`objects`"),
    ("{roles: {up.load: {workload: put}}}", "sweeps.s", "'up.load'"),
    ("{roles: {up: {workload: put, worker: 3}}}", "sweeps.s.roles.up.worker", "unknown key 'worker'"),
    ("{roles: {up: {axes: {}}}}", "sweeps.s.roles.up.workload", "'workload' is missing"),
    ("{roles: {up: {workload: put, begin: soon}}}", "sweeps.s.roles.up.begin", "'soon'"),
    ("{roles: {up: {workload: put, begin: 100 %}}}", "sweeps.s.roles.up.begin", "100 %"),
]


def test_wrong_campaign_file_is_one_line(tmp_path):
    (tmp_path / "config.yaml").write_text("campaign: c.yaml\n")
    for sweep, place, words in WRONG:
        (tmp_path / "c.yaml").write_text(FILE % sweep)
        message = refusal(load, tmp_path / "config.yaml")
        assert place in message and words in message and "c.yaml" in message, message


def test_differences_of_a_role_have_its_name(tmp_path):
    old, new = (
        configured(roles=ROLES | {"deletions": DELETIONS | end}, results=str(tmp_path)) for end in ({}, {"end": "40 s"})
    )
    points = plan.make(old, WORKLOADS)
    plan_file.write(old, points, WORKLOADS)
    assert plan_file.up_to_date(old, points, WORKLOADS)
    for p in points:
        records.write_json(old.raw / p.key / "run.json", {})
    found = plan_file.differences(new, plan.make(new, WORKLOADS))
    assert found == ["sweep both: roles.deletions.end_ns was 36000000000, is 40000000000"]


def refused(sweep, roles, **more):
    config = configured(sweep, roles, **more)
    points = plan.make(config, WORKLOADS)
    store = StoreOnPaper(config, managed=True, counts={"front_ends": 2, "accounts": 2})
    found = (refusal(check.limits, config, points), refusal(check.rights, config, points, WORKLOADS, {"a": store}))
    return next(message for message in found if message != NONE)


def test_limits_hold_for_all_roles_together():
    roles = {"up": PUT | {"axes": {"clients": 3, "workers": 5}}, "down": {"workload": "get", "axes": {"workers": 6}}}
    check.limits(configured(roles=roles, limits={"clients": 4, "connections": 21}), made(roles=roles))
    size = {"object_size": "1 MB"}
    both = {"d": DELETIONS | {"axes": size}, "r": READERS | {"axes": size}}
    config = configured(roles=both, limits={"stored_bytes": "210 MB", "objects": 210})
    check.limits(config, plan.make(config, WORKLOADS))
    for own, limits, words in (
        (roles, {"clients": 3}, "sweep both needs 4 clients, but the limit is 3"),
        (roles, {"connections": 20}, "needs 21 workers, but the limit is 20"),
        (both, {"stored_bytes": "209 MB"}, "needs 210 MB in store a"),
        (both, {"objects": 209}, "needs 210 in store a"),
    ):
        assert words in refused({}, own, limits=limits)


def test_limits_of_a_store_are_reported_at_their_place(first):
    read_only = {"a": {"kind": "s3", "endpoint": "http://127.0.0.1:9", "read_only": True}}
    two = {"up": PUT | {"axes": {"clients": 2}}, "down": READERS | {"axes": {}}}
    for sweep, roles, place, words, more in (
        ({"axes": {"front_ends": 3}}, {"up": PUT}, "axes.front_ends", "store a", {}),
        ({"axes": {"accounts": 2, "buckets": 2}}, two, "axes.accounts", "role down too: a client of engine s5cmd", {}),
        ({}, {"up": PUT | {"axes": {"arrival_rate": 4}}}, "roles.up.axes.arrival_rate", "engine s5cmd", {}),
        ({}, {"d": DELETIONS | {"axes": {"batch": 1001}}}, "roles.d.axes.batch", "1001 objects", {}),
        ({}, ROLES, "roles.uploads", "read-only", {"stores": read_only}),
    ):
        message = refused(sweep, roles, **more)
        assert message.startswith(f"sweeps.both.{place}: ") and words in message, message
    assert check.place(first.parts()[0].point, "workers") == "sweeps.both.roles.uploads.axes.workers"


def client(rank, role, begin, end, **more):
    """Return the results of a client, as far as the record uses them."""
    engine = {"name": "loadgen", "version": "1", "settings": {"workers": 4}}
    engine |= {"requests_per_operation": {"PUT": 1}, "hung": 0} | more.pop("engine", {})
    times = {"t0_ns": 1000 * S, "begin_ns": (1000 + begin) * S, "deadline_ns": (1000 + end) * S}
    counts = {"operations": 1000, "errors": 0}
    return client_result(rank, role=role, engine=engine, **times | counts | more)


def results(**deletions):
    return [
        *(client(rank, "uploads", 0, 60) for rank in (0, 1)),
        client(2, "deletions", 18, 36, **deletions),
        *(client(rank, "readers", 0, 60) for rank in (3, 4, 5)),
    ]


def test_record_has_what_each_role_did(first):
    roles = record.roles_of(configured(), first, results(engine={"name": "obstore"}))
    assert [(r.name, r.workload, r.clients, r.begin_ns, r.end_ns) for r in roles] == [
        ("uploads", "put", [0, 1], 1000 * S, 1060 * S),
        ("deletions", "delete", [2], 1018 * S, 1036 * S),
        ("readers", "get", [3, 4, 5], 1000 * S, 1060 * S),
    ]
    engine = {"version": "1", "settings": {"workers": 4}, "requests_per_operation": {"PUT": 1}}
    assert roles[1].engine == engine | {"name": "obstore"}
    assert roles[1].axes["workers"] == 40 and roles[1].axes["buckets"] == 1
    assert record.roles_of(configured(), made(sweeps={"up": PUT})[0], results()) == []


def test_failed_small_role_is_not_hidden(first):
    left = results(operations=0, errors=9, engine={"errors": {"Refused": "503 Slow Down"}})
    assert record.budget(configured(), left).reason is None, "9 of 5009"
    reasons = [r.budget.reason for r in record.roles_of(configured(), first, left)]
    assert reasons[0] is None and reasons[2] is None
    assert all(words in reasons[1] for words in ("role deletions", "100 %", "503 Slow Down"))


def test_hung_time_is_a_share_of_the_time_of_the_role(first):
    left = results(engine={"hung": 1, "hung_s": 9.0, "settings": {"workers": 5}})
    (role,) = (r for r in record.roles_of(configured(), first, left) if r.name == "deletions")
    assert role.budget.hung_fraction == pytest.approx(9 / (5 * 18))
    assert record.budget(configured(), left).hung_fraction == pytest.approx(9 / (5 * 18 + 5 * 4 * 60))


class Bucketful(StoreOnPaper):
    atomic = True

    def endpoints(self, front_ends):
        return []

    def bucket(self, campaign, index, account):
        return Bucket(f"{campaign}-{account}-{index}", "", account)

    def credentials(self, account):
        return SimpleNamespace(environ=lambda: {"AWS_ACCESS_KEY_ID": f"key-{account}"})


def test_clients_share_the_limits_of_the_point(tmp_path, first):
    config = configured(limits={"throughput": "60 MB/s", "requests_per_s": 600}, scratch=str(tmp_path))
    manifests, store = {"payload-4kB-10x1": Path("m.json")}, Bucketful(config)
    own = jobs.job_of_point(config, [first], first, store, manifests, "0123abcd").roles
    assert [job.limits["throughput"] for job in own] == [20e6, 10e6, 30e6]
    assert [job.limits["requests_per_s"] for job in own] == [200, 100, 300]
    assert [job.manifest and job.manifest.name for job in own] == [None, None, "m.json"]
    assert [(job.attempt, job.ranks, job.begin_ns) for job in own] == [
        ("0123abcd-0", [0, 1], 0),
        ("0123abcd-1", [2], 18 * S),
        ("0123abcd-2", [3, 4, 5], 0),
    ]


@pytest.fixture
def shared(tmp_path):
    """Return (config, point, store, manifests) of roles with two accounts."""
    config, one = configured(scratch=str(tmp_path)), made({"axes": {"accounts": 2, "buckets": 2}})[0]
    return config, one, Bucketful(config), {"payload-4kB-10x2a2": tmp_path / "m.json"}


def test_client_finds_its_role_by_its_rank(tmp_path, shared):
    from storelab.gang.client import load_job

    config, one, store, manifests = shared
    job = jobs.job_of_point(config, [one], one, store, manifests, "0123abcd")
    for role in (job, *job.roles):
        role.endpoints = [Endpoint(f"http://127.0.0.1:{n}") for n in (1, 2)]
    job.write(tmp_path)
    found = [load_job(tmp_path, rank) for rank in range(one.clients)]
    assert [j.role for j in found] == ["uploads"] * 2 + ["deletions"] + ["readers"] * 3
    assert [(j.client, j.number) for j in found] == [*zip((0, 1, 0, 0, 1, 2), range(6), strict=True)]
    assert [j.account for j in found] == [0, 1, 0, 0, 1, 0]
    assert [j.begin_ns for j in found] == [0, 0, 18 * S, 0, 0, 0]
    assert {j.size for j in found} == {6}, "they all meet"
    assert [j.scratch.name for j in found] == [f"0123abcd-{rank}" for rank in range(6)], "a folder for each"
    assert [j.endpoint.url[-1] for j in found] == ["1", "2", "1", "1", "2", "1"]
    assert found[2].point == one.parts()[1].point and found[2].attempt == "0123abcd-1"


def test_hooks_see_only_files_of_their_role(tmp_path, first):
    for rank in range(6):
        for name in (f"ops.{rank}.parquet", f"result.{rank}", f"ready.{rank}", f"client.{rank}.log"):
            (tmp_path / name).write_text(str(rank))
    (tmp_path / "monitor.0.parquet").touch()
    for _ in range(2):
        _, deletions, readers = [
            {p.name: p.read_text() for p in files_of(part, tmp_path).iterdir()} for part in first.parts()
        ]
        assert deletions == {"ops.0.parquet": "2", "result.0": "2"}
        assert readers == {name: str(n + 3) for n in range(3) for name in (f"ops.{n}.parquet", f"result.{n}")}


def test_objects_of_a_role_are_known_by_its_attempt(tmp_path, first):
    config = configured(results=str(tmp_path), state=str(tmp_path / "state"))
    store = Bucketful(config)
    for part in first.parts():
        name = part.attempt("0123abcd")
        if made := workloads.workload_of(part.point).expected_objects(part.point, name):
            written.note_attempt(config, store, name, part.point, made)
    ours = written.noted(config, store)
    assert ours("b", "put/0123abcd-0/1/00000003", 10**6) and ours("b", "put/0123abcd-1/0/00000003", 4000)
    assert not ours("b", "put/0123abcd-0/1/00000003", 4000), "another size"
    assert not ours("b", "put/0123abcd-0/2/00000003", 10**6), "two clients upload"
    assert not ours("b", "put/0123abcd/0/00000003", 10**6) and not ours("b", "put/0123abcd-2/0/00000003", 4000)


def test_writing_clients_share_the_space(tmp_path, monkeypatch, first):
    config = configured(scratch=str(tmp_path))
    noted = []
    monkeypatch.setattr(deployment.left_over, "add", lambda *_: None)
    monkeypatch.setattr(deployment.left_over, "free_space", lambda *_: 999)
    monkeypatch.setattr(deployment.left_over, "disk", lambda store, size: 99 if size == 10**6 else None)
    monkeypatch.setattr(
        deployment.written, "note_attempt", lambda c, s, name, p, made: noted.append((name, p.workload))
    )
    store = Bucketful(config)
    job = jobs.job_of_point(config, [first], first, store, {"payload-4kB-10x1": Path("m.json")}, "0123abcd")
    deployment.note_uploads(config, [first], first, store, job)
    assert noted == [("0123abcd-0", "put"), ("0123abcd-1", "delete")]
    assert [role.limits.get("room_bytes") for role in job.roles] == [666, 333, None]
    assert [role.limits.get("disk_bytes") for role in job.roles] == [66, None, None]


def test_clients_have_keys_of_their_account(shared):
    config, one, store, manifests = shared
    job = jobs.job_of_point(config, [one], one, store, manifests, "0123abcd")
    keys = [e["AWS_ACCESS_KEY_ID"] for e in jobs.environs(config, one, store, job)]
    assert keys == ["key-0", "key-1", "key-0", "key-0", "key-1", "key-0"]
