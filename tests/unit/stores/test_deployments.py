"""What a store can and cannot do: deployments, accounts, engines and presets, refused with one line. Pure: nothing is started."""

import itertools

import pytest

from storelab.core import plan
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.measure import check
from storelab.stores import all_stores, deployed, deployments
from storelab.workloads import WORKLOADS


def config(tmp_path, axes, workload="put", store=None, limits=None):
    stores = {"one": store or {"kind": "seaweedfs"}}
    return Config.model_validate(
        {
            "campaign": "x",
            "name": "x",
            "stores": stores,
            "use_stores": ["one"],
            "state": str(tmp_path),
            "repetitions": 1,
            "calibrate": False,
            "sweeps": {"s": {"workload": workload, "axes": axes}},
            "limits": limits or {},
        }
    )


def refuse(tmp_path, axes, **more):
    conf = config(tmp_path, axes, **more)
    points = plan.make(conf, WORKLOADS)
    with pytest.raises(UserError) as caught:
        check.rights(conf, points, WORKLOADS, all_stores(conf))
    return str(caught.value)


EXTERNAL = {"kind": "s3", "endpoint": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("axes", "more", "line"),
    [
        (
            {"redundancy": "ec-2-1"},
            {},
            "axes.redundancy: store one (kind seaweedfs) has no redundancy 'ec-2-1'; input should be 'none'",
        ),
        (
            {"servers": 99},
            {},
            "axes.servers: store one (kind seaweedfs) has no servers 99; input should be less than or equal to 7",
        ),
        (
            {"servers": 3},
            {"store": EXTERNAL},
            "axes.servers: store one (kind s3) has no servers to choose; leave it out",
        ),
        ({"front_ends": 99}, {}, "sweeps.s.axes.front_ends: store one (kind seaweedfs) has at most 23; sweep fewer"),
        ({"accounts": 2}, {"store": EXTERNAL}, "has at most 1; list more of them in the configuration, or sweep fewer"),
        (
            {"accounts": 2, "clients": 2},
            {},
            "sweeps.s.axes.accounts: 2 accounts need as many buckets; raise `buckets` to 2",
        ),
        (
            {},
            {"store": {"kind": "directory", "path": "."}},
            "s5cmd speaks s3, store one (kind directory) speaks file; sweep engine `fsspec`",
        ),
        (
            {},
            {"workload": "read_entries", "store": {"kind": "nginx"}},
            "uproot-s3fs speaks s3, store one (kind nginx) speaks http; sweep engine `planned`, or leave",
        ),
        (
            {"buckets": 101},
            {"store": EXTERNAL | {"preset": "huawei-uds-1"}},
            "an account of store one may have 100 buckets, 101 are asked; sweep at most 100 buckets, or 2 `accounts`",
        ),
        (
            {"range_size": "2 MB", "object_size": "1 MB"},
            {"workload": "get_range"},
            "sweeps.s.axes.range_size: 2MB is more than the object",
        ),
        (
            {},
            {"workload": "space", "store": EXTERNAL},
            "asks how much space is used, and store one (kind s3) does not tell",
        ),
    ],
)
def test_what_a_store_cannot_do_is_refused(tmp_path, axes, more, line):
    assert line in refuse(tmp_path, axes, **more).replace("2 MB", "2MB")


def test_a_deployment_has_its_own_name_ports_and_folder_and_keeps_them(tmp_path):
    store = all_stores(config(tmp_path, {}))["one"]
    assert deployed(store, {"redundancy": "default", "servers": 0}) is store
    assert deployed(store, {"redundancy": "none", "servers": 1}) is store, "as it is configured"
    three = deployed(store, {"servers": 3, "redundancy": "replica-2"})
    secure = deployed(store, {"scheme": "https"})
    assert three.name == "one+redundancy-replica-2+servers-3" and three.folder.name == three.name
    assert secure.name == "one+tls-true" and secure.settings.tls
    assert len({store.settings.port, three.settings.port, secure.settings.port}) == 3
    assert abs(three.settings.port - secure.settings.port) >= store.port_block
    again = deployed(store, {"redundancy": "replica-2", "servers": 3})
    assert again.settings == three.settings
    assert {d.name: d.settings.port for d in deployments(store)} == {d.name: d.settings.port for d in (three, secure)}


def test_the_plan_measures_deployments_in_blocks(tmp_path):
    conf = config(tmp_path, {"redundancy": ["none", "replica-2"], "servers": 3, "clients": [1, 2, 4]})
    points = plan.make(conf, WORKLOADS)
    blocks = [p.axes["redundancy"] for p in points]
    assert len(points) == 6 and sum(a != b for a, b in itertools.pairwise(blocks)) == 1


def test_accounts_own_buckets_in_turn_and_defaults_rename_nothing(tmp_path):
    store = all_stores(config(tmp_path, {}))["one"]
    assert store.bucket("demo", 3).name == "storelab-demo-0003"
    assert store.bucket("demo", 3, 1).name == "storelab-demo-a1-0003" and store.bucket("demo", 3, 1).account == 1
    (point,) = plan.make(config(tmp_path, {"clients": 2}), WORKLOADS)
    assert point.key == "one/put/clients~0002_rep~001"
    (point,) = plan.make(config(tmp_path, {"accounts": 2, "buckets": 2, "clients": 2}, workload="get"), WORKLOADS)
    assert point.dataset["name"].endswith("-64x2a2") and point.dataset["accounts"] == 2


@pytest.mark.parametrize("kind", ["s3", "http"])
def test_a_missing_ca_file_is_told(tmp_path, kind):
    store = {
        "kind": kind,
        "endpoint": "https://door.example.org/folder"[: 24 if kind == "s3" else None],
        "ca_file": "/none.pem",
    }
    with pytest.raises(UserError, match=r"stores\.one\.ca_file: '/none\.pem' is not there; give a PEM file"):
        all_stores(config(tmp_path, {}, store=store))["one"].endpoints()


def test_a_preset_without_multipart_uploads(tmp_path):
    one = all_stores(config(tmp_path, {}, store=EXTERNAL | {"preset": "huawei-uds-1"}))["one"]
    two = all_stores(config(tmp_path, {}, store=EXTERNAL | {"preset": "huawei-uds-2"}))["one"]
    assert not one.endpoints()[0].multipart and two.endpoints()[0].multipart
