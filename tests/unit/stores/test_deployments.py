"""Deployments of stores: names, ports, accounts, and unsupported settings. Nothing is started."""

import itertools
from functools import partial

from refusals import all_refused, check_refused
from small_plan import URL, configured

from storelab.core import plan
from storelab.measure import check
from storelab.stores import all_stores, deployed, deployments
from storelab.workloads import WORKLOADS


def config(tmp_path, axes, workload="put", store=None):
    stores, sweeps = {"a": store or {"kind": "seaweedfs"}}, {"s": {"workload": workload, "axes": axes}}
    return configured(stores=stores, sweeps=sweeps, state=str(tmp_path))


def rights(tmp_path, axes, **more):
    conf = config(tmp_path, axes, **more)
    check.rights(conf, plan.make(conf, WORKLOADS), WORKLOADS, all_stores(conf))


PRESET = URL | {"preset": "huawei-uds-1"}
FILES = {"kind": "directory", "path": "."}
# axes, workload and store; place of the message, and a text in it
IMPOSSIBLE = [
    ({"redundancy": "ec-2-1"}, {}, "axes.redundancy", "store a (kind seaweedfs) has no redundancy 'ec-2-1'"),
    ({"servers": 99}, {}, "axes.servers", "store a (kind seaweedfs) has no servers 99"),
    ({"servers": 3}, {"store": URL}, "axes.servers", "store a (kind s3)"),
    ({"front_ends": 99}, {}, "sweeps.s.axes.front_ends", "at most 23"),
    ({"accounts": 2}, {"store": URL}, "sweeps.s.axes.accounts", "at most 1"),
    ({}, {"store": FILES}, "sweeps.s.axes.engine", "(kind directory) uses file; use the engine `fsspec`"),
    ({}, {"workload": "read_entries", "store": {"kind": "nginx"}}, "sweeps.s.axes.engine", "`planned`"),
    ({"buckets": 101}, {"store": PRESET}, "sweeps.s.axes.buckets", "100 buckets, but the sweep needs 101"),
    ({}, {"workload": "space", "store": URL}, "sweeps.s.workload", "store a (kind s3)"),
]


def test_store_refuses_what_it_cannot_do(tmp_path):
    all_refused((f"{place}: ", text, partial(rights, **more), tmp_path, axes) for axes, more, place, text in IMPOSSIBLE)


def test_deployment_keeps_its_name_ports_and_folder(tmp_path):
    store = all_stores(config(tmp_path, {}))["a"]
    assert deployed(store, {"redundancy": "default", "servers": 0}) is store
    assert deployed(store, {"redundancy": "none", "servers": 1}) is store, "as it is configured"
    three = deployed(store, {"servers": 3, "redundancy": "replica-2"})
    secure = deployed(store, {"scheme": "https"})
    assert three.name == "a+redundancy-replica-2+servers-3" and three.folder.name == three.name
    assert secure.name == "a+tls-true" and secure.settings.tls
    assert len({store.settings.port, three.settings.port, secure.settings.port}) == 3
    assert abs(three.settings.port - secure.settings.port) >= store.port_block
    again = deployed(store, {"redundancy": "replica-2", "servers": 3})
    assert again.settings == three.settings
    assert {d.name: d.settings.port for d in deployments(store)} == {d.name: d.settings.port for d in (three, secure)}


def test_plan_measures_deployments_in_blocks(tmp_path):
    axes = {"redundancy": ["none", "replica-2"], "servers": 3, "clients": [1, 2, 4]}
    points = plan.make(config(tmp_path, axes), WORKLOADS)
    blocks = [p.axes["redundancy"] for p in points]
    assert len(points) == 6 and sum(a != b for a, b in itertools.pairwise(blocks)) == 1


def test_accounts_have_separate_buckets(tmp_path):
    store = all_stores(config(tmp_path, {}))["a"]
    assert store.bucket("demo", 3).name == "storelab-demo-0003"
    assert store.bucket("demo", 3, 1).name == "storelab-demo-a1-0003" and store.bucket("demo", 3, 1).account == 1
    (point,) = plan.make(config(tmp_path, {"clients": 2}), WORKLOADS)
    assert point.key == "a/put/clients~0002_rep~001"
    (point,) = plan.make(config(tmp_path, {"accounts": 2, "buckets": 2, "clients": 2}, workload="get"), WORKLOADS)
    assert point.dataset["name"].endswith("-64x2a2") and point.dataset["accounts"] == 2


def test_missing_ca_file_is_refused(tmp_path):
    for kind, url in (("s3", "https://door.example.org"), ("http", "https://door.example.org/folder")):
        store = {"kind": kind, "endpoint": url, "ca_file": "/none.pem"}
        made = all_stores(config(tmp_path, {}, store=store))["a"]
        check_refused("stores.a.ca_file: ", "'/none.pem'", made.endpoints)
