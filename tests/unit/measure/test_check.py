"""`storelab check` from the first rule to the last: what each refuses, by one step beyond what it lets pass."""

import os
from collections import namedtuple
from types import SimpleNamespace

import pytest

from storelab.core import plan
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.measure import check
from storelab.workloads import WORKLOADS

Usage = namedtuple("Usage", "total used free")
MB = 10**6


class Fake:
    """A store that can all, until a test takes something away."""

    def __init__(self, config, name, **changes):
        self.name, self.settings, self.state, self.managed, self.protocol = name, config.stores[name], "", False, "s3"
        self.keeps, self.tells_used, self.free, self.parts, self.buckets = True, True, None, True, None
        self.counts = {"front_ends": 4, "accounts": 4}
        self.required, self.named = 0, []
        vars(self).update(changes)

    def require(self):
        self.required += 1

    def require_drives(self):
        pass

    def ports(self):
        return []

    def bucket(self, campaign, index, account):
        self.named.append((campaign, index, account))

    def variant(self, axes):
        return {}

    def most(self, axis):
        return self.counts[axis]

    def buckets_per_account(self):
        return self.buckets

    def multipart(self):
        return self.parts

    def free_bytes(self):
        return self.free


def made(tmp_path, sweeps, store=None, **more):
    """(config, points) of a campaign at one external store."""
    told = {"campaign": "c", "name": "c", "use_stores": ["a"], "repetitions": 1, "calibrate": False}
    told |= {"results": str(tmp_path / "far" / "results"), "scratch": str(tmp_path), "state": str(tmp_path / "state")}
    told |= {"stores": {"a": {"kind": "s3", "endpoint": "http://127.0.0.1:9"} | (store or {})}, "sweeps": sweeps}
    config = Config.model_validate(told | more)
    return config, plan.make(config, WORKLOADS)


def sweep(workload="get", **axes):
    return {"s": {"workload": workload, "axes": {"engine": "obstore"} | axes}}


@pytest.fixture
def disks(monkeypatch):
    """Free bytes by folder, longest path first; all else has plenty."""
    free = {}

    def usage(path):
        found = [n for p, n in sorted(free.items(), reverse=True) if str(path).startswith(p)]
        return Usage(0, 0, found[0] if found else 10**15)

    monkeypatch.setattr(check.shutil, "disk_usage", usage)
    return free


def refused(call):
    with pytest.raises(UserError) as caught:
        call()
    return caught.value


def rights(config, points, **changes):
    check.rights(config, points, WORKLOADS, {"a": Fake(config, "a", **changes)})


def test_a_read_only_store_takes_readers_only(tmp_path):
    for workload in ("put", "delete", "space"):
        error = refused(lambda w=workload: rights(*made(tmp_path, sweep(w), {"read_only": True})))
        assert error.place == "sweeps.s" and f"workload {workload} writes, and store a is read-only" in error.problem
        rights(*made(tmp_path, sweep(workload)))
    for workload in ("get", "get_range"):
        rights(*made(tmp_path, sweep(workload), {"read_only": True}))


def test_space_wants_a_store_that_tells(tmp_path):
    error = refused(lambda: rights(*made(tmp_path, sweep("space")), tells_used=False))
    assert error.place == "sweeps.s.workload" and "asks how much space is used, and store a (kind s3)" in error.problem
    rights(*made(tmp_path, sweep("put")), tells_used=False)


@pytest.mark.parametrize("axis", ["front_ends", "accounts"])
def test_no_more_front_ends_and_accounts_than_there_are(tmp_path, axis):
    many = {"buckets": 9, "clients": 9}
    rights(*made(tmp_path, sweep(**many | {axis: 4})))
    assert (
        refused(lambda: rights(*made(tmp_path, sweep(**many | {axis: 5})))).problem == "store a (kind s3) has at most 4"
    )
    error = refused(lambda: rights(*made(tmp_path, sweep(**many | {axis: 2})), counts={"front_ends": 1, "accounts": 1}))
    assert (error.place, error.mend) == (
        f"sweeps.s.axes.{axis}",
        "list more of them in the configuration, or sweep fewer",
    )
    managed = refused(lambda: rights(*made(tmp_path, sweep(**many | {axis: 5})), managed=True))
    assert managed.mend == "sweep fewer"


def test_buckets_are_dealt_to_accounts(tmp_path):
    """The account with the most has ceil(buckets / accounts)."""
    for buckets in range(1, 13):
        for accounts in range(1, 5):
            if accounts > buckets:
                continue
            dealt = [0] * accounts
            for i in range(buckets):
                dealt[i % accounts] += 1
            one = made(tmp_path, sweep(buckets=buckets, accounts=accounts, clients=12))
            rights(*one, buckets=max(dealt))
            rights(*one, buckets=None)
            if max(dealt) > 1:
                error = refused(lambda one=one, dealt=dealt: rights(*one, buckets=max(dealt) - 1))
                assert error.place == "sweeps.s.axes.buckets"
                assert (
                    error.problem == f"an account of store a may have {max(dealt) - 1} buckets, {max(dealt)} are asked"
                )


def test_a_store_is_asked_whether_it_can_be_deployed_so(tmp_path):
    """With the axes of the point, before anything else of it is judged."""
    asked = []

    def variant(axes):
        asked.append(axes)
        raise UserError("axes.backing", "it has no memory", "sweep disk")

    config, points = made(tmp_path, sweep(front_ends=9))
    error = refused(lambda: rights(config, points, variant=variant))
    assert (error.place, error.problem, asked) == ("axes.backing", "it has no memory", [points[0].axes])


REPLICATE = {"s": {"workload": "replicate", "axes": {"stratum0": "b"}}}
TWO = {
    "a": {"kind": "s3", "endpoint": "http://127.0.0.1:9"},
    "b": {"kind": "s3", "endpoint": "http://127.0.0.1:10"},
}


def test_a_second_store_is_one_that_can_stand_beside_the_first(tmp_path):
    """Defined, of the same protocol, one that keeps objects, and not read-only."""
    for stores, changes, said in (
        (TWO, {}, ""),
        (TWO, {"protocol": "http"}, "store b (kind s3) cannot stand beside a"),
        (TWO, {"keeps": False}, "store b (kind s3) cannot stand beside a"),
        (TWO | {"b": TWO["b"] | {"read_only": True}}, {}, "store b is read-only, and a release is published to it"),
        ({"a": TWO["a"]}, {}, "no one defined the store 'b'"),
    ):
        config, points = made(tmp_path, REPLICATE, stores=stores)
        fakes = {"a": Fake(config, "a")} | ({"b": Fake(config, "b", **changes)} if "b" in stores else {})
        if not said:
            check.rights(config, points, WORKLOADS, fakes)
            continue
        error = refused(lambda c=config, p=points, f=fakes: check.rights(c, p, WORKLOADS, f))
        assert error.place == "sweeps.s.axes.stratum0" and said in error.problem, changes


def test_a_second_store_must_be_there_too(tmp_path, monkeypatch):
    """It is asked once, whatever the number of points; where none is named, nobody else is."""
    monkeypatch.setattr(check.engines, "load", lambda program: lambda: None)
    for sweeps, times in ((REPLICATE, 1), (sweep(), 0)):
        config, points = made(tmp_path, sweeps, stores=TWO, repetitions=3)
        fakes = {name: Fake(config, name) for name in TWO}
        check.programs(points, fakes)
        assert len(points) >= 3 and (fakes["a"].required, fakes["b"].required) == (1, times)


def test_each_account_has_a_bucket_and_a_client(tmp_path):
    for axes, problem in (
        ({"accounts": 3, "buckets": 3, "clients": 3}, ""),
        ({"accounts": 3, "buckets": 2, "clients": 3}, "3 accounts need as many buckets"),
        (
            {"accounts": 3, "buckets": 3, "clients": 2, "engine": "s5cmd"},
            "3 accounts need as many clients: engine s5cmd signs for one account a client",
        ),
        ({"accounts": 3, "buckets": 3, "clients": 2, "engine": "obstore"}, ""),
        ({"accounts": 4, "buckets": 3, "clients": 2, "engine": "obstore"}, "4 accounts need as many buckets"),
    ):
        if not problem:
            rights(*made(tmp_path, sweep(**axes)))
            continue
        error = refused(lambda a=axes: rights(*made(tmp_path, sweep(**a))))
        assert (error.place, error.problem) == ("sweeps.s.axes.accounts", problem)
        assert "clients" not in problem or error.mend == (
            "raise `clients` to 3, or lower `accounts`, or sweep engine obstore"
        )


def test_a_bucket_of_ones_own_is_one(tmp_path):
    own = {"bucket": "mine"}
    rights(*made(tmp_path, sweep(buckets=1), own))
    rights(*made(tmp_path, sweep(buckets=2)))
    error = refused(lambda: rights(*made(tmp_path, sweep(buckets=2), own)))
    assert (error.place, error.problem) == ("sweeps.s.axes.buckets", "store a has the one bucket 'mine'")


def test_addressing_is_one_that_the_engine_can(tmp_path):
    virtual = {"addressing": "virtual"}
    error = refused(lambda: rights(*made(tmp_path, sweep(engine="s5cmd"), virtual)))
    assert error.place == "stores.a.addressing" and error.problem.startswith("s5cmd addresses buckets by path")
    assert "set `path`" in error.mend
    rights(*made(tmp_path, sweep(engine="s5cmd"), {"addressing": "path"}))
    rights(*made(tmp_path, sweep(engine="loadgen"), virtual))


def test_the_null_server_is_for_calibrations(tmp_path):
    error = refused(lambda: rights(*made(tmp_path, sweep()), keeps=False))
    assert error.place == "sweeps.s.workload" and "get at store a (kind s3), which keeps nothing" in error.problem
    assert error.mend == "only the workload `calibrate` uses it"
    told = {"operation": "get", "engine": "obstore"}
    error = refused(lambda: rights(*made(tmp_path, sweep("calibrate", **told))))
    assert "which keeps what it is given" in error.problem and error.mend == "calibrate at one of kind `nullserver`"
    rights(*made(tmp_path, sweep("calibrate", **told)), keeps=False)


def test_a_mistake_is_told_of_the_sweep_that_has_it(tmp_path):
    """Not of the calibration that follows from it, though that is measured first."""
    null = {"stores": {"a": {"kind": "s3", "endpoint": "http://127.0.0.1:9"}}, "limits": {"connections": 5}}
    config, points = made(tmp_path, sweep(workers=6), calibrate=True, **null)
    assert points[0].workload == "calibrate"
    error = refused(lambda: check.limits(config, points))
    assert (error.place, error.problem) == ("limits.connections", "sweep s asks for 6 workers, the limit is 5")


def test_room_on_the_disk_of_the_store(tmp_path, disks):
    """64 objects of 1 MB, up to the last byte."""
    config, points = made(tmp_path, sweep(object_size="1 MB"))
    for free, able in ((64 * MB, True), (64 * MB - 1, False), (None, True)):
        stores = {"a": Fake(config, "a", free=free)}
        if able:
            check.room(config, points, stores)
        else:
            error = refused(lambda s=stores: check.room(config, points, s))
            assert (error.place, error.mend) == ("stores.a", "make room, or lower `objects`")
            assert "the data sets of campaign c take 64 MB, its disk has 64 MB free" in error.problem


def test_room_on_tmpfs(tmp_path, disks):
    """Objects of 1 MB that stay in memory: four bodies lie in files."""
    config, points = made(tmp_path, sweep("put", object_size="1 MB"))
    stores = {"a": Fake(config, "a")}
    disks[str(tmp_path / "storelab-")] = 4 * MB
    check.room(config, points, stores)
    disks[str(tmp_path / "storelab-")] = 4 * MB - 1
    error = refused(lambda: check.room(config, points, stores))
    assert error.place == "scratch" and error.problem.startswith("the clients need 4 MB of tmpfs")


def test_room_for_results(tmp_path, disks, monkeypatch):
    """100 MB, and the right to write, in the nearest folder that is there."""
    config, points = made(tmp_path, sweep("put", object_size="4 kB"))
    stores = {"a": Fake(config, "a")}
    disks |= {str(tmp_path): 100 * MB, str(tmp_path / "storelab-"): 10**12}
    asked = []
    monkeypatch.setattr(os, "access", lambda path, how: asked.append((path, how)) or True)
    check.room(config, points, stores)
    able = os.W_OK | os.X_OK
    assert (tmp_path, able) in asked and {p for p, _ in asked} == {tmp_path}, "far is not there yet, nor is state"
    (tmp_path / "far").mkdir()
    check.room(config, points, stores)
    assert (tmp_path / "far", able) in asked
    disks[str(tmp_path)] -= 1
    error = refused(lambda: check.room(config, points, stores))
    assert error.place == "results" and "has less than 100 MB free or cannot be written" in error.problem
    disks[str(tmp_path)] = 10**12
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert refused(lambda: check.room(config, points, stores)).place == "results"


def test_programs_of_the_engines_that_are_used(tmp_path, monkeypatch):
    """s5cmd stages whatever measures; of a managed store each deployment is asked once, an external one itself."""
    loaded, required = [], []
    monkeypatch.setattr(check.engines, "load", lambda program: lambda: loaded.append(program))
    monkeypatch.setattr(
        check, "changed", lambda store, axes: (f"{store.name}+{axes['front_ends']}", axes["front_ends"])
    )
    made_store = SimpleNamespace(require=lambda: required.append("asked"), require_drives=lambda: None)
    monkeypatch.setattr(
        check, "make", lambda name, settings, state: made_store if (name, settings, state) == ("a+1", 1, "") else None
    )
    config, points = made(tmp_path, sweep(engine=["obstore", "loadgen"], object_size=["4 kB", "1 MB"], front_ends=[1]))
    external = Fake(config, "a")
    check.programs(points, {"a": external})
    assert external.required == 1
    assert loaded == ["storelab.engines.loadgen.client:binary", "storelab.engines.s5cmd.client:binary"] and not required
    check.programs(points, {"a": Fake(config, "a", managed=True)})
    assert required == ["asked"]


def test_a_missing_null_server_may_be_left_out(tmp_path, monkeypatch):
    def missing():
        raise UserError("stores.a", "the program is not installed", "run `storelab install x`")

    monkeypatch.setattr(check.engines, "load", lambda program: lambda: None)
    monkeypatch.setattr(check, "make", lambda *_: SimpleNamespace(require=missing))
    config, points = made(tmp_path, sweep())
    error = refused(lambda: check.programs(points, {"a": Fake(config, "a", managed=True)}))
    assert error.mend == "run `storelab install x`"
    error = refused(lambda: check.programs(points, {"a": Fake(config, "a", managed=True, keeps=False)}))
    assert error.mend == "run `storelab install x`, or set `calibrate: false`" and error.place == "stores.a"
    assert error.problem == "the program is not installed"


def test_every_rule_is_asked_cheapest_first(tmp_path, monkeypatch, disks):
    """One mistake after the other is mended, and the next is told."""

    def missing():
        raise UserError("stores.a", "the program is not installed", "install it")

    monkeypatch.setattr(check.engines, "load", lambda program: lambda: None)
    needs = SimpleNamespace(require=missing, require_drives=lambda: None)
    monkeypatch.setattr(check, "make", lambda *_: needs)
    disks[str(tmp_path / "storelab-")] = 10
    wrong = {
        "limits": {"limits": {"clients": 1}},
        "launcher": {"clients_per_node": 1},
        "rights": {"front_ends": 9},
    }
    file = {"files": {"mine": {"path": str(tmp_path / "none.root")}}}
    reads = {"r": {"workload": "read_volume", "axes": {"scale": "mine"}}}

    def told(axes, sweeps=None, **more):
        config, points = made(tmp_path, sweep(clients=2, **axes) | (sweeps or {}), **more)
        return refused(lambda: check.everything(config, points, WORKLOADS, {"a": Fake(config, "a", managed=True)}))

    axes = wrong["launcher"] | wrong["rights"]
    assert "no such file" in told(axes, reads, **wrong["limits"], **file).problem
    assert told(axes, **wrong["limits"]).place == "limits.clients"
    assert told(axes).place == "sweeps.s.axes.clients_per_node"
    assert told(wrong["rights"]).place == "sweeps.s.axes.front_ends"
    assert told({}).problem == "the program is not installed"
    needs.require = lambda: None
    assert told({}).place == "scratch"
    disks.clear()
    config, points = made(tmp_path, sweep(clients=2))
    check.everything(config, points, WORKLOADS, {"a": Fake(config, "a", managed=True)})


def test_limits_are_of_each_store_in_words(tmp_path):
    """The data set of 64 objects of 1 MB lies in each store."""
    stores = {"stores": {n: {"kind": "s3", "endpoint": "http://127.0.0.1:9"} for n in "ab"}, "use_stores": ["a", "b"]}
    for limits, line in (
        ({"stored_bytes": "63 MB"}, "limits.stored_bytes: campaign c needs 64 MB in store a, the limit is 63 MB"),
        ({"objects": 63}, "limits.objects: campaign c needs 64 in store a, the limit is 63"),
    ):
        config, points = made(tmp_path, sweep(object_size="1 MB"), limits=limits, **stores)
        assert line in str(refused(lambda c=config, p=points: check.limits(c, p)))
    config, points = made(
        tmp_path, sweep(object_size="1 MB"), limits={"stored_bytes": "64 MB", "objects": 64}, **stores
    )
    check.limits(config, points)


def test_uploads_that_are_due_need_room(tmp_path):
    """10 objects of 1 MB a second for 5 s, 50 MB; a closed loop may end before the room does."""
    for rate, limit, fits in ((10, "50 MB", True), (10, "49 MB", False), (0, "49 MB", True)):
        asked = sweep(workload="put", object_size="1 MB", arrival_rate=rate)
        asked["s"]["duration"] = "5 s"
        config, points = made(tmp_path, asked, limits={"stored_bytes": limit})
        if fits:
            check.limits(config, points)
            continue
        told = str(refused(lambda c=config, p=points: check.limits(c, p)))
        assert (
            "limits.stored_bytes: sweep s uploads 10 objects of 1 MB a second for 5 s, and so needs 50 MB, the" in told
        )


def test_uploads_that_are_due_lie_beside_what_is_staged(tmp_path):
    """50 MB of uploads beside a data set of 64 objects of 1 MB."""
    asked = {"w": sweep(workload="put", object_size="1 MB", arrival_rate=10)["s"] | {"duration": "5 s"}}
    asked |= sweep(object_size="1 MB")
    config, points = made(tmp_path, asked, limits={"stored_bytes": "114 MB"})
    check.limits(config, points)
    config, points = made(tmp_path, asked, limits={"stored_bytes": "113 MB"})
    assert "and so needs 114 MB, the limit is 113 MB" in str(refused(lambda: check.limits(config, points)))
