"""Several workloads at once: the plan of sweeps with roles, what their points mean, and what is refused; pure."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from storelab import workloads
from storelab.core import model, plan, records
from storelab.core.config import Config, load
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.measure import check, check_axes, cleaning, jobs, plan_file, record
from storelab.workloads import WORKLOADS
from storelab.workloads.roles import Roles, files_of

S = 10**9
UPLOADS = {"workload": "put", "axes": {"engine": "loadgen", "object_size": "1 MB", "clients": 2, "workers": [4, 8]}}
DELETIONS = {"workload": "delete", "axes": {"workers": 40}, "begin": "30 %", "end": "36 s", "objects": 200}
READERS = {"workload": "get", "axes": {"engine": "obstore", "clients": 3}, "objects": 10}
ROLES = {"uploads": UPLOADS, "deletions": DELETIONS, "readers": READERS}


def configured(sweep=None, roles=ROLES, **more):
    told = {
        "campaign": "c",
        "name": "c",
        "use_stores": ["a"],
        "repetitions": 1,
        "calibrate": False,
        "stores": {"a": {"kind": "seaweedfs"}},
        "faults": {
            "killed": [
                {"at": "40 %", "act": "restart", "actor": "data.0"},
                {"at": "10 s", "act": "kill", "actor": "data.0"},
            ]
        },
        "sweeps": {"beside": {"duration": "60 s", "warm_up": "2 s", "roles": roles} | (sweep or {})},
    }
    return Config.model_validate(told | more)


def made(*args, **more):
    return plan.make(configured(*args, **more), WORKLOADS)


def test_each_combination_is_a_point_and_axes_bear_the_name_of_their_role():
    points = made({"axes": {"buckets": 2, "fault": ["none", "killed"]}})
    rest = "uploads.object_size~1MB_uploads.clients~0002{}_deletions.workers~0040_readers.engine~obstore_readers.clients~0003"
    head = "a/roles-beside/buckets~0002{}_uploads.engine~loadgen_" + rest + "_rep~001"
    assert {p.key for p in points} == {
        head.format(fault, workers) for fault in ("", "_fault~killed") for workers in ("", "_uploads.workers~0004")
    }
    assert {p.clients for p in points} == {6} and {p.dataset for p in points} == {None}


def test_a_role_means_what_its_workload_means_alone():
    """The plan of an ordinary sweep is the oracle: same axes, same objects, same data set."""
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


def test_ranks_are_dealt_out_in_order_and_times_counted_from_the_start():
    parts = made()[0].parts()
    assert [(p.name, p.number, [*p.ranks], p.begin_ns, p.end_ns) for p in parts] == [
        ("uploads", 0, [0, 1], 0, 60 * S),
        ("deletions", 1, [2], 18 * S, 36 * S),
        ("readers", 2, [3, 4, 5], 0, 60 * S),
    ]
    assert [p.point.fixed["duration_ns"] for p in parts] == [60 * S, 18 * S, 60 * S]
    assert [p.attempt("0123abcd") for p in parts] == ["0123abcd-0", "0123abcd-1", "0123abcd-2"]


def test_a_point_without_roles_is_its_own_part():
    own = made(sweeps={"up": {"workload": "put", "axes": {"clients": 3}, "duration": "7 s"}})[0]
    (part,) = own.parts()
    assert part.point is own and own.clients == 3 and [*part.ranks] == [0, 1, 2]
    assert (part.begin_ns, part.end_ns, part.attempt("x")) == (0, 7 * S, "x")
    assert workloads.of(own) is WORKLOADS["put"]


def test_scale_shortens_the_run_and_its_times_but_for_shares():
    roles = ROLES | {"deletions": DELETIONS | {"begin": "6 s", "end": "50 %"}}
    parts = made(roles=roles, scale=0.1)[0].parts()
    assert [(p.begin_ns, p.end_ns) for p in parts] == [(0, 6 * S), (6 * S // 10, 3 * S), (0, 6 * S)]
    assert [p.point.fixed.get("objects") for p in parts] == [None, 20, 1]


def test_acts_of_a_fault_are_part_of_the_point_in_order_of_time():
    points = made({"axes": {"fault": ["none", "killed"]}})
    acts = {p.axes["fault"]: p.fixed.get("acts") for p in points}
    assert acts["none"] is None
    assert [(a["at_ns"], a["act"]) for a in acts["killed"]] == [(10 * S, "kill"), (24 * S, "restart")]


def test_the_plan_file_tells_roles_and_their_axes():
    config = configured()
    told = plan.to_json(config, plan.make(config, WORKLOADS), WORKLOADS)
    assert list(told["workloads"]) == ["roles-beside"]
    own = told["workloads"]["roles-beside"]
    assert own["roles"] == {
        "uploads": {"workload": "put", "begin_ns": 0, "end_ns": 60 * S},
        "deletions": {"workload": "delete", "begin_ns": 18 * S, "end_ns": 36 * S},
        "readers": {"workload": "get", "begin_ns": 0, "end_ns": 60 * S},
    }
    names = [a["name"] for a in own["axes"]]
    assert "fault" in names and "uploads.workers" in names and "deletions.batch" in names and "workers" not in names
    assert {a["name"]: a["column"] for a in own["axes"]}["uploads.object_size"] == "uploads.object_size_bytes"
    back = [Point(**p) for p in json.loads(json.dumps(told))["points"]]
    assert back == plan.make(config, WORKLOADS), "a point comes back from plan.json as it was"


def test_what_is_said_of_a_point_names_its_roles():
    one = next(p for p in made() if p.axes["uploads.workers"] == 4)
    said = model.said(one, workloads.of(one))
    assert "uploads.workers=0004" in said and "deletions.engine=obstore" in said and "readers.object size=4kB" in said
    assert [word.partition(".")[0] for word in said] == ["uploads"] * 4 + ["deletions"] * 3 + ["readers"] * 3
    assert model.said(one, workloads.of(one), ("engine",)) == [
        "uploads.engine=loadgen",
        "deletions.engine=obstore",
        "readers.engine=obstore",
    ]


PUT = {"workload": "put"}
REFUSED = [
    ({}, {"up": PUT | {"end": "70 s"}}, "sweeps.beside.roles.up.end: 1 min 10 s is not within the run of 1 min 00 s"),
    ({}, {"up": PUT | {"begin": "60 s"}}, "sweeps.beside.roles.up.begin: 1 min 00 s is not within the run"),
    (
        {},
        {"up": PUT | {"begin": "9 s", "end": "5 s"}},
        "sweeps.beside.roles.up.end: ends at 5.0 s, and begins at 9.0 s",
    ),
    ({}, {"up": PUT | {"begin": "5 s", "end": "5 s"}}, "roles.up.end: ends at 5.0 s, and begins at 5.0 s"),
    ({}, {"up": PUT | {"begin": "58 s"}}, "sweeps.beside.warm_up: 2.0 s leave nothing of role up, which lasts 2.0 s"),
    ({"warm_up": "60 s"}, {"up": PUT}, "sweeps.beside.warm_up: leaves nothing of the duration"),
    (
        {},
        {"up": {"workload": "putt"}},
        "roles.up.workload: no workload 'putt' that a role may have; did you mean 'put'?",
    ),
    ({}, {"up": {"workload": "probe"}}, "roles.up.workload: no workload 'probe' that a role may have; one of: put"),
    ({}, {"up": PUT | {"axes": {"buckets": 2}}}, "sweeps.beside.roles.up.axes.buckets: buckets is of the whole point"),
    (
        {},
        {"up": PUT | {"axes": {"worker": 2}}},
        "roles.up.axes.worker: put has no axis 'worker'; did you mean 'workers'?",
    ),
    ({}, {"up": PUT | {"axes": {"workers": [2, 2]}}}, "sweeps.beside.roles.up.axes.workers: 2 is there twice"),
    ({}, {"up": PUT | {"axes": {"clients": 0}}}, "sweeps.beside.roles.up.axes.clients: 0 is too small; at least 1"),
    ({"axes": {"workers": 2}}, {"up": PUT}, "sweeps.beside.axes.workers: roles-beside has no axis 'workers'"),
    ({"axes": {"fault": "kiled"}}, {"up": PUT}, "sweeps.beside.axes.fault: 'kiled' is not known; one of: none, killed"),
    (
        {"axes": {"buckets": 9}},
        {"r": READERS | {"objects": 8}},
        "sweeps.beside.roles.r.objects: 8 objects leave some of 9",
    ),
    (
        {},
        {"d": DELETIONS | {"axes": {"clients": 201}}},
        "roles.d.objects: 200 objects for 201 clients: some have nothing",
    ),
    (
        {},
        {"d": DELETIONS | {"axes": {"arrival_rate": 12, "engine": "obstore"}}},
        "sweeps.beside.roles.d.objects: 216 are due in 18 s, and there are 200; give 216",
    ),
    (
        {},
        {"u" * 60 + str(n): PUT | {"axes": {"workers": 2}} for n in range(4)},
        "the folder of a point would have a name of",
    ),
    ({"axes": {"fault": "killed"}, "duration": "9 s"}, {"up": PUT}, "faults.killed.1.at: kill at 10 s is not within"),
]


@pytest.mark.parametrize(("sweep", "roles", "line"), REFUSED, ids=[line[:60] for _, _, line in REFUSED])
def test_what_cannot_be_is_refused_in_one_line(sweep, roles, line):
    with pytest.raises(UserError) as told:
        made(sweep, roles)
    assert line in str(told.value) and "\n" not in str(told.value)


def test_just_as_many_keys_as_an_open_loop_deletes_are_enough():
    made(roles={"d": DELETIONS | {"objects": 216, "axes": {"arrival_rate": 12}}})


FILE = """
name: c
use_stores: [a]
stores: {a: {kind: seaweedfs}}
sweeps: {s: %s}
"""
WRONG = [
    ("{roles: {up: {workload: put}}, workload: put}", "s: has a `workload` and `roles`; make the workload one of"),
    ("{duration: 1 s}", "sweeps.s: 'workload' is missing; name one, or several things at once in `roles`"),
    ("{roles: {up: {workload: put}}, objects: 3}", "`objects` is of a role where there are roles; write it in"),
    ("{roles: {up.load: {workload: put}}}", "'up.load' is no name of a role; use letters, digits and '-'"),
    ("{roles: {up: {workload: put, worker: 3}}}", "sweeps.s.roles.up.worker: unknown key 'worker'"),
    ("{roles: {up: {axes: {}}}}", "sweeps.s.roles.up.workload: 'workload' is missing"),
    ("{roles: {up: {workload: put, begin: soon}}}", "'soon' is not a duration with its unit"),
    ("{roles: {up: {workload: put, begin: 100 %}}}", "is not within the run; give less than 100 %"),
]


@pytest.mark.parametrize(("sweep", "line"), WRONG)
def test_a_wrong_campaign_file_is_one_line(tmp_path, sweep, line):
    (tmp_path / "c.yaml").write_text(FILE % sweep)
    (tmp_path / "config.yaml").write_text("campaign: c.yaml\n")
    with pytest.raises(UserError) as told:
        load(tmp_path / "config.yaml")
    assert line in str(told.value) and "c.yaml" in str(told.value), str(told.value)


def test_differences_of_a_role_are_told_by_its_name(tmp_path):
    old, new = (
        configured(roles=ROLES | {"deletions": DELETIONS | end}, results=str(tmp_path)) for end in ({}, {"end": "40 s"})
    )
    points = plan.make(old, WORKLOADS)
    plan_file.write(old, points, WORKLOADS)
    assert plan_file.up_to_date(old, points, WORKLOADS)
    for p in points:
        records.write_json(old.raw / p.key / "run.json", {})
    found = plan_file.differences(new, plan.make(new, WORKLOADS))
    assert found == ["sweep beside: roles.deletions.end_ns was 36000000000, is 40000000000"]


class Fake:
    name, state, managed, protocol, keeps, tells_used = "a", "", True, "s3", True, True

    def __init__(self, config):
        self.settings = config.stores["a"]

    def most(self, axis):
        return 2

    def variant(self, axes):
        return {}

    def buckets_per_account(self):
        return None

    def bucket(self, *numbers):
        pass

    def multipart(self):
        return True


def refused(sweep, roles, **more):
    config = configured(sweep, roles, **more)
    points = plan.make(config, WORKLOADS)
    with pytest.raises(UserError) as told:
        check.limits(config, points)
        check.rights(config, points, WORKLOADS, {"a": Fake(config)})
    return str(told.value)


def test_limits_are_those_of_all_roles_together():
    roles = {"up": PUT | {"axes": {"clients": 3, "workers": 5}}, "down": {"workload": "get", "axes": {"workers": 6}}}
    check.limits(configured(roles=roles, limits={"clients": 4, "connections": 21}), made(roles=roles))
    assert "sweep beside asks for 4 clients, the limit is 3" in refused({}, roles, limits={"clients": 3})
    assert "asks for 21 workers, the limit is 20" in refused({}, roles, limits={"connections": 20})
    size = {"object_size": "1 MB"}
    both = {"d": DELETIONS | {"axes": size}, "r": READERS | {"axes": size}}
    config = configured(roles=both, limits={"stored_bytes": "210 MB", "objects": 210})
    check.limits(config, plan.make(config, WORKLOADS))
    assert "needs 210 MB in store a" in refused({}, both, limits={"stored_bytes": "209 MB"})
    assert "needs 210 in store a" in refused({}, both, limits={"objects": 209})


def test_what_a_store_cannot_is_told_at_its_place():
    assert refused({"axes": {"front_ends": 3}}, {"up": PUT}).startswith("sweeps.beside.axes.front_ends: store a ")
    line = refused(
        {"axes": {"accounts": 2, "buckets": 2}}, {"up": PUT | {"axes": {"clients": 2}}, "down": READERS | {"axes": {}}}
    )
    assert line.startswith("sweeps.beside.axes.accounts: 2 accounts need as many clients, role down too: engine s5cmd")
    line = refused({}, {"up": PUT | {"axes": {"arrival_rate": 4}}})
    assert line.startswith("sweeps.beside.roles.up.axes.arrival_rate: engine s5cmd has no arrival_rate")
    line = refused({}, {"d": DELETIONS | {"axes": {"batch": 1001}}})
    assert line.startswith("sweeps.beside.roles.d.axes.batch: 1001 objects are more than one request may delete")
    line = refused({}, ROLES, stores={"a": {"kind": "s3", "endpoint": "http://127.0.0.1:9", "read_only": True}})
    assert line.startswith("sweeps.beside.roles.uploads: workload put writes, and store a is read-only")
    assert check_axes.place(made()[0].parts()[0].point, "workers") == "sweeps.beside.roles.uploads.axes.workers"


def client(rank, role, begin, end, **more):
    """What a client leaves, as much of it as the record asks."""
    told = {
        "name": "loadgen",
        "version": "1",
        "settings": {"workers": 4},
        "requests_per_operation": {"PUT": 1},
        "hung": 0,
    }
    return {
        "client": rank,
        "role": role,
        "t0_ns": 1000 * S,
        "begin_ns": 1000 * S + begin * S,
        "deadline_ns": 1000 * S + end * S,
        "operations": 1000,
        "errors": 0,
        "engine": told | more.pop("engine", {}),
        **more,
    }


def results(**deletions):
    return [
        *(client(rank, "uploads", 0, 60) for rank in (0, 1)),
        client(2, "deletions", 18, 36, **deletions),
        *(client(rank, "readers", 0, 60) for rank in (3, 4, 5)),
    ]


def test_the_record_tells_what_each_role_did():
    roles = record.roles_of(configured(), made()[0], results(engine={"name": "obstore"}))
    assert [(r["name"], r["workload"], r["clients"]) for r in roles] == [
        ("uploads", "put", [0, 1]),
        ("deletions", "delete", [2]),
        ("readers", "get", [3, 4, 5]),
    ]
    assert [(r["begin_ns"], r["end_ns"]) for r in roles] == [
        (1000 * S, 1060 * S),
        (1018 * S, 1036 * S),
        (1000 * S, 1060 * S),
    ]
    assert roles[1]["engine"] == {
        "name": "obstore",
        "version": "1",
        "settings": {"workers": 4},
        "requests_per_operation": {"PUT": 1},
    }
    assert roles[1]["axes"]["workers"] == 40 and roles[1]["axes"]["buckets"] == 1
    assert record.roles_of(configured(), made(sweeps={"up": PUT})[0], results()) == []


def test_a_small_role_that_fails_is_not_hidden_by_a_large_one():
    told = results(operations=0, errors=9, engine={"errors": {"Refused": "503 Slow Down"}})
    assert record.budget(configured(), told)["reason"] is None, "9 of 5009"
    reasons = [r["budget"]["reason"] for r in record.roles_of(configured(), made()[0], told)]
    assert reasons[0] is None and reasons[2] is None
    assert reasons[1].startswith("role deletions: 100 % of the operations failed") and "503 Slow Down" in reasons[1]


def test_time_held_by_what_hung_is_held_against_the_time_that_the_role_had():
    told = results(engine={"hung": 1, "hung_s": 9.0, "settings": {"workers": 5}})
    (role,) = (r for r in record.roles_of(configured(), made()[0], told) if r["name"] == "deletions")
    assert role["budget"]["hung_fraction"] == pytest.approx(9 / (5 * 18))
    assert record.budget(configured(), told)["hung_fraction"] == pytest.approx(9 / (5 * 18 + 5 * 4 * 60))


class Bucketful(Fake):
    managed = False

    def endpoints(self, front_ends):
        return []

    def bucket(self, campaign, index, account):
        from storelab.stores.protocols.endpoint import Bucket

        return Bucket(f"{campaign}-{account}-{index}", "", account)


def test_clients_share_the_limits_of_the_point(tmp_path):
    config = configured(limits={"throughput": "60 MB/s", "requests_per_s": 600}, scratch=str(tmp_path))
    one = made()[0]
    manifests = {"payload-4kB-10x1": Path("m.json")}
    own = {
        part.name: jobs.role_data(config, part, Bucketful(config), manifests, "0123abcd", one.clients)
        for part in one.parts()
    }
    assert [own[n]["limits"]["throughput"] for n in ROLES] == [20e6, 10e6, 30e6]
    assert [own[n]["limits"]["requests_per_s"] for n in ROLES] == [200, 100, 300]
    assert [own[n]["manifest"] and Path(own[n]["manifest"]).name for n in ROLES] == [None, None, "m.json"]
    assert [(own[n]["attempt"], own[n]["ranks"], own[n]["begin_ns"]) for n in ROLES] == [
        ("0123abcd-0", [0, 1], 0),
        ("0123abcd-1", [2], 18 * S),
        ("0123abcd-2", [3, 4, 5], 0),
    ]


def test_a_client_finds_its_role_by_its_rank(tmp_path):
    from storelab.gang.client import load_job

    config, one = configured(scratch=str(tmp_path)), made({"axes": {"accounts": 2, "buckets": 2}})[0]
    store, manifests = Bucketful(config), {"payload-4kB-10x2a2": tmp_path / "m.json"}
    job = jobs.of_point(config, one, store, manifests, "0123abcd")
    for role in (job, *job["roles"]):
        role["endpoints"] = [{"url": f"http://127.0.0.1:{n}", "protocol": "s3"} for n in (1, 2)]
    records.write_json(tmp_path / "job.json", job)
    found = [load_job(tmp_path, rank) for rank in range(one.clients)]
    assert [(g["role"], j.client, j.number, j.account) for j, g in found] == [
        ("uploads", 0, 0, 0),
        ("uploads", 1, 1, 1),
        ("deletions", 0, 2, 0),
        ("readers", 0, 3, 0),
        ("readers", 1, 4, 1),
        ("readers", 2, 5, 0),
    ]
    assert [g["begin_ns"] for _, g in found] == [0, 0, 18 * S, 0, 0, 0]
    assert {g["size"] for _, g in found} == {6}, "they all meet"
    assert [j.scratch.name for j, _ in found] == [f"0123abcd-{rank}" for rank in range(6)], "a folder for each"
    assert [j.endpoint.url[-1] for j, _ in found] == ["1", "2", "1", "1", "2", "1"]
    assert found[2][0].point == one.parts()[1].point and found[2][0].attempt == "0123abcd-1"


def test_hooks_of_a_role_see_its_own_files_alone(tmp_path):
    for rank in range(6):
        for name in (f"ops.{rank}.parquet", f"result.{rank}", f"ready.{rank}", f"client.{rank}.log"):
            (tmp_path / name).write_text(str(rank))
    (tmp_path / "monitor.0.parquet").touch()
    parts = made()[0].parts()
    seen = [{p.name: p.read_text() for p in files_of(part, tmp_path).iterdir()} for part in parts]
    assert seen[1] == {"ops.0.parquet": "2", "result.0": "2"}
    assert (
        seen[2]
        == {f"{kind}": str(n + 3) for n in range(3) for kind in (f"ops.{n}.parquet", f"result.{n}")}
        == {p.name: p.read_text() for p in files_of(parts[2], tmp_path).iterdir()}
    ), "twice the same"


def test_what_a_role_made_is_known_by_its_own_attempt(tmp_path):
    """Records alone, as where the notes were removed: keys of both writing roles are ours, no other."""
    config = configured(results=str(tmp_path), state=str(tmp_path / "state"))
    one = next(p for p in plan.make(config, WORKLOADS) if p.axes["uploads.workers"] == 4)
    records.write_json(config.raw / one.key / "run.json", {"point": dataclasses.asdict(one), "attempt": "0123abcd"})
    store = Bucketful(config)
    store.atomic = True
    ours = cleaning.ours(config, store)
    assert ours("b", "put/0123abcd-0/1/00000003", 10**6) and ours("b", "put/0123abcd-1/0/00000003", 4000)
    assert not ours("b", "put/0123abcd-0/1/00000003", 4000), "another size"
    assert not ours("b", "put/0123abcd-0/2/00000003", 10**6), "two clients upload"
    assert not ours("b", "put/0123abcd/0/00000003", 10**6) and not ours("b", "put/0123abcd-2/0/00000003", 4000)


def test_each_writing_client_has_its_share_of_the_room_and_its_attempt_is_noted(tmp_path, monkeypatch):
    from storelab.measure import point as measuring

    config, one = configured(scratch=str(tmp_path)), next(p for p in made() if p.axes["uploads.workers"] == 4)
    noted = []
    monkeypatch.setattr(measuring.left_over, "add", lambda *told: None)
    monkeypatch.setattr(measuring.left_over, "room", lambda *told: 999)
    monkeypatch.setattr(measuring.left_over, "disk", lambda store, size: 99 if size == 10**6 else None)
    monkeypatch.setattr(measuring.written, "note_attempt", lambda c, s, name, p, made: noted.append((name, p.workload)))
    monkeypatch.setattr(Roles, "before", lambda *told: None)
    job = jobs.of_point(config, one, Bucketful(config), {"payload-4kB-10x1": Path("m.json")}, "0123abcd")
    own = {"config": config, "point": one, "store": Bucketful(config), "workload": workloads.of(one), "job": job}
    others = {f.name: None for f in dataclasses.fields(measuring.Attempt) if f.name not in {*own, "name", "work"}}
    measuring._write_job(measuring.Attempt(**own, **others, name="0123abcd", work=tmp_path), [one])
    assert noted == [("0123abcd-0", "put"), ("0123abcd-1", "delete")]
    told = json.loads((tmp_path / "job.json").read_text())
    assert [role["limits"].get("room_bytes") for role in told["roles"]] == [666, 333, None]
    assert [role["limits"].get("disk_bytes") for role in told["roles"]] == [66, None, None]


def test_each_client_has_the_keys_of_its_own_account(tmp_path):

    class Keyed(Bucketful):
        def credentials(self, account):
            return SimpleNamespace(environ=lambda: {"AWS_ACCESS_KEY_ID": f"key-{account}"})

    config, one = configured(scratch=str(tmp_path)), made({"axes": {"accounts": 2, "buckets": 2}})[0]
    job = jobs.of_point(config, one, Keyed(config), {"payload-4kB-10x2a2": Path("m.json")}, "0123abcd")
    keys = [e["AWS_ACCESS_KEY_ID"] for e in jobs.environs(config, one, Keyed(config), job)]
    assert keys == ["key-0", "key-1", "key-0", "key-0", "key-1", "key-0"]
