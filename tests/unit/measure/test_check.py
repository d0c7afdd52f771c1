"""The rules of `storelab check`: each refuses the first value beyond what it accepts."""

import os
import socket
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusals import NONE, check_refused, refusal
from small_plan import URL, configured
from store_on_paper import StoreOnPaper

from storelab import install
from storelab.core import plan
from storelab.core.errors import UserError
from storelab.measure import check, distance
from storelab.stores import all_stores
from storelab.stores.protocols.endpoint import Endpoint
from storelab.workloads import WORKLOADS

Usage = namedtuple("Usage", "total used free")
MB = 10**6


def made(tmp_path, sweeps, store=None, **more):
    """Return (config, points) of a campaign at one external store."""
    folders = {"results": str(tmp_path / "far/results"), "scratch": str(tmp_path), "state": str(tmp_path / "state")}
    config = configured(**{"stores": {"a": URL | (store or {})}, "sweeps": sweeps} | folders | more)
    return config, plan.make(config, WORKLOADS)


def sweep(workload="get", **axes):
    return {"s": {"workload": workload, "axes": {"engine": "obstore"} | axes}}


@pytest.fixture
def disks(monkeypatch):
    """Set the free bytes by folder, longest path first; all other folders have plenty."""
    free = {}

    def usage(path):
        found = [n for p, n in sorted(free.items(), reverse=True) if str(path).startswith(p)]
        return Usage(0, 0, found[0] if found else 10**15)

    monkeypatch.setattr(check.shutil, "disk_usage", usage)
    return free


def rights(campaign, **changes):
    """Return how `check.rights` refuses a campaign at a fake store."""
    config, points = campaign
    return refusal(check.rights, config, points, WORKLOADS, {"a": StoreOnPaper(config, "a", **changes)})


def accounts(accounts, buckets, clients, engine="obstore"):
    return sweep(accounts=accounts, buckets=buckets, clients=clients, engine=engine)


WRITERS, MINE, VIRTUAL = ("put", "delete", "space"), {"bucket": "mine"}, {"addressing": "virtual"}
CALIBRATION = sweep("calibrate", operation="get")
RULES = [  # sweep, settings of the store, facts of the store, begin of the message, a text in it
    *((sweep(w), {"read_only": True}, {}, f"sweeps.s: workload {w} writes", "") for w in WRITERS),
    *((sweep(w), {}, {}, "", NONE) for w in WRITERS),
    *((sweep(w), {"read_only": True}, {}, "", NONE) for w in ("get", "get_range")),
    (sweep("space"), {}, {"reports_usage": False}, "sweeps.s.workload: space needs", ""),
    (sweep("put"), {}, {"reports_usage": False}, "", NONE),
    (sweep(buckets=1), MINE, {}, "", NONE),
    (sweep(buckets=2), {}, {}, "", NONE),
    (sweep(buckets=2), MINE, {}, "sweeps.s.axes.buckets: ", "'mine'"),
    (sweep(engine="s5cmd"), VIRTUAL, {}, "stores.a.addressing: s5cmd", "`path`"),
    (sweep(engine="s5cmd"), {"addressing": "path"}, {}, "", NONE),
    (sweep(engine="loadgen"), VIRTUAL, {}, "", NONE),
    (sweep(), {}, {"retains_data": False}, "sweeps.s.workload: get at store a (kind s3)", "`calibrate`"),
    (CALIBRATION, {}, {}, "sweeps.s.workload: ", "`nullserver`"),
    (CALIBRATION, {}, {"retains_data": False}, "", NONE),
    (accounts(3, 3, 3), {}, {}, "", NONE),
    (accounts(3, 2, 3), {}, {}, "sweeps.s.axes.accounts: 3 accounts need at least 3 buckets", ""),
    (accounts(3, 3, 2, "s5cmd"), {}, {}, "sweeps.s.axes.accounts: 3 accounts need at least 3 clients", ""),
    (accounts(3, 3, 2), {}, {}, "", NONE),
    (accounts(4, 3, 2), {}, {}, "sweeps.s.axes.accounts: 4 accounts need at least 4 buckets", ""),
]


def test_stores_refuse_what_they_cannot_do(tmp_path):
    for sweeps, settings, facts, begin, text in RULES:
        config, points = made(tmp_path, sweeps, settings)
        check_refused(begin, text, check.rights, config, points, WORKLOADS, {"a": StoreOnPaper(config, **facts)})


def test_engines_that_cannot_use_the_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://user:secret@proxy.test:3128")
    here, there = {"proxy": "environment"}, {"endpoint": "http://s3.site.test"}
    for engine, settings, refused in (
        ("obstore", here | there, False),
        ("s5cmd", here | there, False),
        ("loadgen", here | there, True),
        ("davix", here | there, True),
        ("loadgen", there, False),
        ("loadgen", here, False),  # on loopback there is no proxy
    ):
        campaign = made(tmp_path, sweep(engine=engine), settings)
        ends = [Endpoint(**{"url": campaign[0].stores["a"].endpoint, "proxy": settings.get("proxy", "none")})]
        message = rights(campaign, endpoints=lambda count, ends=ends: ends)
        assert message.startswith("stores.a.proxy: ") == refused, (engine, settings, message)
        assert refused or message == NONE
        assert "secret" not in message


def test_only_managed_stores_without_redirections_become_distant(tmp_path, monkeypatch):
    far = made(tmp_path, sweep(round_trip_ms=20))
    for facts, refused in (
        ({}, "its distance cannot be changed"),
        ({"managed": True}, ""),
        ({"managed": True, "protocol": "webhdfs"}, "no proxy can delay"),
        ({"managed": True, "protocol": "file"}, "no proxy can delay"),
        ({"managed": True, "protocol": "root", "several": True}, "no proxy can delay"),
        ({"managed": True, "protocol": "root"}, ""),
    ):
        config, points = far
        message = refusal(distance.require, points[0], StoreOnPaper(config, "a", **facts), "here")
        assert message.startswith("here: ") and refused in message if refused else message == NONE, (facts, message)
    assert rights(far).startswith("sweeps.s.axes.round_trip_ms: store a is not managed")
    assert rights(made(tmp_path, sweep(round_trip_ms=0))) == NONE
    monkeypatch.setattr(install, "tools_folder", lambda: tmp_path / "empty")
    monkeypatch.setenv("PATH", "")
    config, points = far
    message = refusal(check.programs, points, {"a": StoreOnPaper(config, "a")})
    assert message.startswith("sweeps.s.axes.round_trip_ms: the program linkproxy is not installed")


def test_front_ends_and_accounts_within_those_of_store(tmp_path):
    for axis in ("front_ends", "accounts"):
        axes = {"buckets": 9, "clients": 9}
        assert rights(made(tmp_path, sweep(**axes | {axis: 4}))) == NONE
        five, two = (made(tmp_path, sweep(**axes | {axis: n})) for n in (5, 2))
        assert rights(five).startswith(f"sweeps.s.axes.{axis}: ") and "at most 4" in rights(five)
        assert "in the configuration" in rights(two, counts={"front_ends": 1, "accounts": 1})
        assert "in the configuration" not in rights(five, managed=True), "storelab decides how many there are"


def test_buckets_are_dealt_to_accounts(tmp_path):
    """The account with most buckets has ceil(buckets / accounts)."""
    for buckets in range(1, 13):
        for accounts in range(1, min(buckets, 4) + 1):
            dealt = [0] * accounts
            for i in range(buckets):
                dealt[i % accounts] += 1
            one, most = made(tmp_path, sweep(buckets=buckets, accounts=accounts, clients=12)), max(dealt)
            assert rights(one, buckets=most) == rights(one, buckets=None) == NONE
            if most > 1:
                message = rights(one, buckets=most - 1)
                assert message.startswith("sweeps.s.axes.buckets: "), message
                assert f"{most - 1} buckets, but the sweep needs {most}" in message


def test_deployment_is_checked_before_other_axes(tmp_path):
    asked = []

    def variant(axes):
        asked.append(axes)
        raise UserError("axes.backing", "it has no memory", "sweep disk")

    config, points = made(tmp_path, sweep(front_ends=9))
    assert rights((config, points), variant=variant).startswith("axes.backing: it has no memory")
    assert asked == [points[0].axes]


REPLICATE = {"s": {"workload": "replicate", "axes": {"stratum0": "b"}}}
TWO = {"a": URL, "b": URL | {"endpoint": "http://127.0.0.1:10"}}


def test_second_store_is_defined_writable_and_alike(tmp_path):
    for stores, changes, expected in (
        (TWO, {}, NONE),
        (TWO, {"protocol": "http"}, "store b (kind s3)"),
        (TWO, {"retains_data": False}, "store b (kind s3)"),
        (TWO | {"b": TWO["b"] | {"read_only": True}}, {}, "store b is read-only"),
        ({"a": URL}, {}, "'b'"),
    ):
        config, points = made(tmp_path, REPLICATE, stores=stores)
        papers = {name: StoreOnPaper(config, name, **changes if name == "b" else {}) for name in stores}
        check_refused("sweeps.s.axes.stratum0: ", expected, check.rights, config, points, WORKLOADS, papers)


def test_second_store_is_required_once(tmp_path, monkeypatch):
    monkeypatch.setattr(check.engines, "load", lambda program: lambda: None)
    for sweeps, times in ((REPLICATE, 1), (sweep(), 0)):
        config, points = made(tmp_path, sweeps, stores=TWO, repetitions=3)
        fakes = {name: StoreOnPaper(config, name) for name in TWO}
        check.programs(points, fakes)
        assert len(points) >= 3 and (fakes["a"].required, fakes["b"].required) == (1, times)


def test_limit_names_the_sweep_and_not_its_calibration(tmp_path):
    config, points = made(tmp_path, sweep(workers=6), calibrate=True, limits={"connections": 5})
    assert points[0].workload == "calibrate"
    message = refusal(check.limits, config, points)
    assert message.startswith("limits.connections: sweep s needs 6 workers, but the limit is 5"), message


def test_data_sets_fit_on_the_disk_of_the_store(tmp_path, disks):
    """The limit holds 64 objects of 1 MB, to the last byte."""
    config, points = made(tmp_path, sweep(object_size="1 MB"))
    for free, able in ((64 * MB, True), (64 * MB - 1, False), (None, True)):
        message = refusal(check.require_space, config, points, {"a": StoreOnPaper(config, "a", free=free)})
        assert message == NONE if able else message.startswith("stores.a: ") and "64 MB" in message, free


def test_bodies_fit_on_tmpfs(tmp_path, disks):
    """Objects stay in memory; only four bodies of 1 MB are files."""
    config, points = made(tmp_path, sweep("put", object_size="1 MB"))
    stores = {"a": StoreOnPaper(config, "a")}
    disks[str(tmp_path / "storelab-")] = 4 * MB
    check.require_space(config, points, stores)
    disks[str(tmp_path / "storelab-")] = 4 * MB - 1
    check_refused("scratch: ", "4 MB", check.require_space, config, points, stores)


def test_results_folder_is_writable_and_has_100_mb(tmp_path, disks, monkeypatch):
    """Check the nearest folder that exists."""
    config, points = made(tmp_path, sweep("put", object_size="4 kB"))
    stores = {"a": StoreOnPaper(config, "a")}
    disks |= {str(tmp_path): 100 * MB, str(tmp_path / "storelab-"): 10**12}
    asked = []
    monkeypatch.setattr(os, "access", lambda path, how: asked.append((path, how)) or True)
    check.require_space(config, points, stores)
    able = os.W_OK | os.X_OK
    assert (tmp_path, able) in asked and {p for p, _ in asked} == {tmp_path}, "neither `far` nor `state` exists yet"
    (tmp_path / "far").mkdir()
    check.require_space(config, points, stores)
    assert (tmp_path / "far", able) in asked
    disks[str(tmp_path)] -= 1
    assert refusal(check.require_space, config, points, stores).startswith("results: ")
    disks[str(tmp_path)] = 10**12
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert refusal(check.require_space, config, points, stores).startswith("results: ")


@pytest.mark.parametrize(
    ("folder", "key"),
    [
        ("results", "results"),
        ("results/{name}/status", "results"),
        ("state", "state"),
        ("state/{name}.campaign.users", "state"),
        (".snakemake", "run"),
        (".snakemake/log", "run"),
    ],
)
def test_run_needs_write_permission(tmp_path, monkeypatch, folder, key):
    monkeypatch.chdir(tmp_path)
    config = made(tmp_path, sweep("put", object_size="4 kB"), state="state", results="results")[0]
    path = Path(folder.format(name=config.name))
    path.mkdir(parents=True)
    check.writable(config)
    monkeypatch.setattr(os, "access", lambda asked, how: asked != path.absolute())
    message = refusal(check.writable, config)
    assert message.startswith(f"{key}: '") and "cannot be written; get write permission" in message


def test_programs_of_used_engines_are_required(tmp_path, monkeypatch):
    """s5cmd stages for every engine; each deployment of a managed store is asked once, an external store itself."""
    loaded, required = [], []
    monkeypatch.setattr(check.engines, "load", lambda program: lambda: loaded.append(program))
    changed = lambda store, axes: (f"{store.name}+{axes['front_ends']}", axes["front_ends"])  # noqa: E731
    monkeypatch.setattr(check, "changed", changed)
    store = SimpleNamespace(require=lambda: required.append("asked"), drives=SimpleNamespace(require=lambda: None))
    monkeypatch.setattr(check, "make", lambda *given: store if given == ("a+1", 1, "") else None)
    config, points = made(tmp_path, sweep(engine=["obstore", "loadgen"], object_size=["4 kB", "1 MB"], front_ends=[1]))
    external = StoreOnPaper(config, "a")
    check.programs(points, {"a": external})
    assert external.required == 1
    assert loaded == ["storelab.engines.loadgen:binary", "storelab.engines.s5cmd:binary"] and not required
    check.programs(points, {"a": StoreOnPaper(config, "a", managed=True)})
    assert required == ["asked"]


def missing():
    raise UserError("stores.a", "the program is not installed", "run `storelab install x`")


def test_missing_null_server_may_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(check.engines, "load", lambda program: lambda: None)
    monkeypatch.setattr(check, "make", lambda *_: SimpleNamespace(require=missing))
    config, points = made(tmp_path, sweep())
    for retains_data in (True, False):
        message = refusal(
            check.programs, points, {"a": StoreOnPaper(config, "a", managed=True, retains_data=retains_data)}
        )
        assert message.startswith("stores.a: the program is not installed; run `storelab install x`")
        assert ("`calibrate: false`" in message) is not retains_data


def test_rules_are_applied_cheapest_first(tmp_path, monkeypatch, disks):
    """Correct one mistake after the other: the next is reported."""
    monkeypatch.setattr(check.engines, "load", lambda program: lambda: None)
    needs = SimpleNamespace(require=missing, drives=SimpleNamespace(require=lambda: None))
    monkeypatch.setattr(check, "make", lambda *_: needs)
    disks[str(tmp_path / "storelab-")] = 10
    limits, nodes, rights = {"limits": {"clients": 1}}, {"clients_per_node": 1}, {"front_ends": 9}
    file = {"files": {"mine": {"path": str(tmp_path / "none.root")}}}
    reads = {"r": {"workload": "read_volume", "axes": {"file_size": "mine"}}}

    def message(axes, sweeps=None, **more):
        config, points = made(tmp_path, sweep(clients=2, **axes) | (sweeps or {}), **more)
        return refusal(check.everything, config, points, WORKLOADS, {"a": StoreOnPaper(config, "a", managed=True)})

    assert message(nodes | rights, reads, **limits, **file).startswith("files.mine.path: ")
    assert message(nodes | rights, **limits).startswith("limits.clients: ")
    assert message(nodes | rights).startswith("sweeps.s.axes.clients_per_node: ")
    assert message(rights).startswith("sweeps.s.axes.front_ends: ")
    assert message({}).startswith("stores.a: the program")
    needs.require = lambda: None
    assert message({}).startswith("scratch: ")
    disks.clear()
    assert message({}) == NONE


def test_limits_of_data_hold_for_each_store(tmp_path):
    """The data set of 64 objects of 1 MB is in each store."""
    stores = {"stores": dict.fromkeys("ab", URL), "stores_to_measure": ["a", "b"]}

    def message(**limits):
        return refusal(check.limits, *made(tmp_path, sweep(object_size="1 MB"), limits=limits, **stores))

    assert message(stored_bytes="63 MB").startswith("limits.stored_bytes: campaign c needs 64 MB in store a")
    assert message(objects=63).startswith("limits.objects: campaign c needs 64 in store a")
    assert message(stored_bytes="64 MB", objects=64) == NONE


def test_uploads_at_a_rate_are_within_stored_bytes(tmp_path):
    """10 objects of 1 MB a second for 5 s: 50 MB. A closed loop may end before the room does."""
    for rate, staged, limit, expected in (
        (10, False, 50, NONE),
        (10, False, 49, "50 MB"),
        (0, False, 49, NONE),
        (10, True, 114, NONE),  # and a data set of 64 objects of 1 MB
        (10, True, 113, "114 MB"),
    ):
        asked = {"w": sweep("put", object_size="1 MB", arrival_rate=rate)["s"] | {"duration": "5 s"}}
        asked |= sweep(object_size="1 MB") if staged else {}
        campaign = made(tmp_path, asked, limits={"stored_bytes": f"{limit} MB"})
        check_refused("limits.stored_bytes: sweep w", expected, check.limits, *campaign)


def test_port_in_use_is_refused_before_any_point(tmp_path, port_block):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier test may still close
        taken.bind(("127.0.0.1", port_block))
        taken.listen()
        for more, words in (({}, f"port {port_block} is in use"), ({"address": "127.0.0.2"}, NONE)):
            kind = {"kind": "seaweedfs", "port": port_block} | more
            config = configured(state=str(tmp_path), stores={"a": kind}, stores_to_measure=["a"])
            points = plan.make(config, WORKLOADS)
            assert words in refusal(check.free_ports, points, all_stores(config))
    assert refusal(check.free_ports, points, all_stores(config)) == NONE


def test_addresses_and_folders_of_managed_stores(tmp_path):
    kind, other = {"kind": "seaweedfs"}, {"kind": "seaweedfs", "port": 21000}
    data = str(tmp_path / "data")

    def places(**settings):
        config = configured(state=str(tmp_path), stores=settings)
        return refusal(check.places, all_stores(config))

    check_refused("", NONE, check.places, all_stores(configured(state=str(tmp_path), stores={"a": kind, "b": other})))
    for host in ("192.0.2.1", "no-such-host.invalid", "2001:db8::1"):
        for key, value in (("address", host), ("front_end_addresses", ["127.0.0.1", host])):
            message = places(a=kind | {key: value})
            assert message.startswith(f"stores.a.{key}: this machine cannot listen on {host} ("), message
    for second in (data, f"{data}/", f"{data}/inside", str(tmp_path)):
        message = places(a=kind | {"directory": data}, b=other | {"directory": second})
        assert message.startswith("stores.b.directory: ") and "overlaps with the folder of store a" in message, second
    assert places(a=kind | {"directory": data}, b=other | {"directory": f"{data}2"}) == NONE
    (tmp_path / "link").symlink_to(data)
    assert "folder of store a;" in places(a=kind | {"directory": data}, b=other | {"directory": str(tmp_path / "link")})


def test_protocols_of_files_are_known():
    for url, message in (
        ("zzz://host/file.root", "files.mine.path: protocol 'zzz' cannot be read (ValueError"),
        ("://x", "files.mine.path: protocol '' cannot be read"),
        ("https://host/file.root", NONE),
        ("/nowhere/file.root", "no such file"),
    ):
        assert message in refusal(check.named_files, configured(files={"mine": {"path": url}})), url


def test_workers_fit_into_the_limit_of_open_files(tmp_path, monkeypatch):
    for hard, workers, refused in ((128, 200, True), (128, 32, False), (463, 200, True), (464, 200, False)):
        monkeypatch.setattr(check.resource, "getrlimit", lambda _, hard=hard: (64, hard))
        config, points = made(tmp_path, sweep(workers=workers))
        message = refusal(check.open_files, config, points)
        found = f"a client of {workers} workers opens up to {64 + 2 * workers} files, but this shell allows only {hard}"
        assert (
            message.startswith(f"sweeps.s: {found}; raise the limit (ulimit -Hn 464)") if refused else message == NONE
        )
    monkeypatch.setattr(check.resource, "getrlimit", lambda _: (64, check.resource.RLIM_INFINITY))
    assert refusal(check.open_files, *made(tmp_path, sweep(workers=10_000))) == NONE
