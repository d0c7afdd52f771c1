"""Garage: configuration of its nodes, layout, and administration with a web server in its place."""

import json
import tomllib
from pathlib import Path

import pytest
from answer_server import answering
from programs import script
from refusals import check_refused, refusal

from storelab import install
from storelab.core.errors import MeasurementFailed
from storelab.stores import deployed, garage, make
from storelab.stores.base import CLEAN, DEGRADED, DOWN, NO, YES
from storelab.stores.garage import Settings

SECRET = "s" * 40
# Answers of Garage 2.5.0 to GetClusterLayout of a new node, and of a cluster of two nodes with data and a gateway.
NEW = {"version": 0, "roles": [], "parameters": {"zoneRedundancy": "maximum"}, "stagedRoleChanges": []}
FULL = {"tags": [], "capacity": 10**12, "storedPartitions": 256}
GATEWAY = {"id": "cc", "zone": "node-3", "tags": [], "capacity": None, "storedPartitions": None}
ROLES = [{"id": "aa", "zone": "node-1", **FULL}, {"id": "bb", "zone": "node-2", **FULL}, GATEWAY]
THREE = {"version": 2, "roles": ROLES}


def store(state: Path, **settings):
    return make("g", Settings(kind="garage", **settings), state)


def prepared(state: Path, **settings):
    s = store(state, **settings)
    s.prepare()
    return s


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a program of that name, which prints its version."""
    tools = tmp_path / "tools"
    script(tools / "bin" / "garage", "#!/bin/sh\necho 'garage cargo:2.5.0 [features: bundled-libs, lmdb]'\n")
    monkeypatch.setenv("STORELAB_TOOLS", str(tools))
    return tools


@pytest.fixture
def cluster():
    """Return (node, answers of its administration: {call: (status, answer)}, requests that it received)."""
    answers, asked = {"/health": (503, "no layout")}, []

    def answer(request):
        headers = request.headers.get("Authorization")
        asked.append((request.method, request.path, headers, json.loads(request.body or b"null")))
        status, body = answers.get(request.path.removeprefix("/v2/"), (404, {"code": "NoSuchCall"}))
        return status, {}, json.dumps(body).encode()

    with answering(answer) as port:
        yield garage.Node("stores.g", "node-1", "127.0.0.1", port, SECRET), answers, asked


GONE = garage.Node("stores.g", "node-2", "127.0.0.1", 1, SECRET)


# Nodes


def test_configuration_of_a_node(tmp_path, installed):
    s = prepared(tmp_path / "state", port=27000, servers=3, redundancy="replica-3", front_end_addresses=["127.0.0.5"])
    found = tomllib.loads((s.folder / "node-2.toml").read_text())
    assert found["replication_factor"] == 3 and found["disable_scrub"] is True
    node = s.data / "node-2"
    assert (found["metadata_dir"], found["data_dir"]) == (str(node / "meta"), str(node / "data"))
    assert found["rpc_bind_addr"] == found["rpc_public_addr"] == "127.0.0.1:27011"
    assert found["s3_api"] == {"api_bind_addr": "127.0.0.5:27001", "s3_region": "us-east-1"}
    assert found["admin"] == {"api_bind_addr": "127.0.0.1:27021"}
    daemon = s.daemon("node-2")
    assert daemon.argv == (str(installed / "bin" / "garage"), "-c", str(s.folder / "node-2.toml"), "server")
    assert (daemon.host, daemon.ports) == ("127.0.0.5", (27001, 27011, 27021))
    assert s.endpoint("node-2").url == "http://127.0.0.5:27001"
    assert s.version() == "2.5.0" and s.ask_version(tmp_path / "none") == ""


def test_ports_of_nodes_are_separate_and_in_the_block(tmp_path, installed):
    s = prepared(tmp_path / "state")
    ports = [port for i in range(1, 11) for port in s.daemon(f"node-{i}").ports]
    (block,) = s.ports()
    assert len(set(ports)) == 30 and set(ports) <= set(block) and max(block) < 32768


def test_secrets_are_only_in_environment_of_nodes(tmp_path, installed):
    s = prepared(tmp_path / "state")
    daemon, root = s.daemon("node-1"), s.root_keys()
    assert daemon.environ["GARAGE_ADMIN_TOKEN"] == root.secret_key
    assert len(bytes.fromhex(daemon.environ["GARAGE_RPC_SECRET"])) == 32, "as Garage wants it"
    assert s.daemon("node-2").environ == daemon.environ, "they know each other by it"
    public = " ".join(daemon.argv) + (s.folder / "node-1.toml").read_text()
    assert root.secret_key not in public and daemon.environ["GARAGE_RPC_SECRET"] not in public


def test_front_ends_beyond_nodes_are_gateways(tmp_path, installed):
    s = prepared(tmp_path / "state", servers=2)
    assert s.stages(["node-1"]) == (["node-1", "node-2"],)
    assert s.stages(["node-1", "node-2", "node-3", "node-10"]) == (["node-1", "node-2", "node-3", "node-10"],)
    (s.data / "layout.json").write_text('{"servers": 2, "redundancy": "none", "nodes": 4}')
    assert s.stages(["node-1"]) == (["node-1", "node-2", "node-3", "node-4"],), "four were one cluster once"
    assert s.data_actors() == ["node-1", "node-2"]


def test_data_of_another_layout_are_refused(tmp_path, installed):
    two, three = {"servers": 3, "redundancy": "replica-2"}, {"servers": 3, "redundancy": "replica-3"}
    for was, now, key, text in (
        ({"servers": 3}, {"servers": 2}, "servers", "3 nodes"),
        (two, three, "redundancy", "replica-2"),
    ):
        folder = tmp_path / key
        store(folder, **was).prepare()
        check_refused(f"stores.g.{key}: ", text, store(folder, **now).prepare)
        store(folder, **was).prepare()
    store(tmp_path, servers=1).prepare()
    more = store(tmp_path, servers=3)
    more.prepare()
    assert json.loads((more.data / "layout.json").read_text())["servers"] == 3, "more nodes are possible"


def test_settings_that_cannot_be_are_refused(tmp_path, installed, monkeypatch):
    for redundancy, servers in (("replica-2", 1), ("replica-3", 2)):
        message = refusal(store(tmp_path, servers=servers, redundancy=redundancy).up)
        assert message.startswith("stores.g.servers: ") and f"to {redundancy[-1]} or more" in message
    assert refusal(deployed, store(tmp_path), {"scheme": "https"}).startswith("axes.scheme: ")
    assert not (tmp_path / "g").exists()
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    monkeypatch.setattr(install, "SERVERS", ())
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: None)
    check_refused("stores.g: ", "`storelab install garage`", store(tmp_path / "state").up)
    assert not (tmp_path / "state").exists()


def test_redundancy_decides_losses_and_space(tmp_path):
    three = deployed(store(tmp_path, servers=1), {"servers": 3, "redundancy": "replica-3"})
    assert (three.settings.servers, three.tolerated_failures(), three.settings.port) == (3, 2, 26032)
    assert [
        store(tmp_path, redundancy=r, servers=3).tolerated_failures() for r in ("none", "replica-2", "replica-3")
    ] == [0, 1, 2]
    # Below three KiB an object is stored with its metadata, and has no block that waits to be removed.
    assert [store(tmp_path).retains_overwritten(size) for size in (0, 3071, 3072, 10**6)] == [False, False, True, True]


# The layout


def test_only_missing_nodes_change_the_layout():
    for names, storage, changed in (
        ("node-1 node-2 node-3", 2, []),
        ("node-1 node-2", 2, []),
        ("node-1 node-2 node-3", 3, [("cc", 10**12)]),
        ("node-1 node-2 node-3 node-4", 2, [("dd", None)]),
    ):
        ids = dict(zip(names.split(), ("aa", "bb", "cc", "dd"), strict=False))
        assert [(c["id"], c["capacity"]) for c in garage.layout_changes(THREE, ids, storage)] == changed, names


def test_joining_requests_a_layout_once(cluster):
    node, answers, asked = cluster
    answers |= {"GetClusterLayout": (200, NEW), "UpdateClusterLayout": (200, NEW), "ApplyClusterLayout": (200, {})}
    answers["GetClusterHealth"] = (200, {"status": "healthy", "storageNodesUp": 1})
    garage.join([node], {"node-1": "aa"}, ["aa@127.0.0.1:1"], 1)
    posted = [(path, body) for method, path, _, body in asked if method == "POST"]
    assert posted == [
        ("/v2/UpdateClusterLayout", {"roles": [{"id": "aa", "zone": "node-1", "capacity": 10**12, "tags": []}]}),
        ("/v2/ApplyClusterLayout", {"version": 1}),
    ]
    assert {header for _, _, header, _ in asked} == {f"Bearer {SECRET}"}
    asked.clear()
    answers["GetClusterLayout"] = (200, {"version": 1, "roles": THREE["roles"][:1]})
    garage.join([node], {"node-1": "aa"}, ["aa@127.0.0.1:1"], 1)
    assert {method for method, *_ in asked} == {"GET"}, "it is as it should be"


def test_nodes_that_do_not_find_each_other_are_named(cluster, monkeypatch):
    node, answers, asked = cluster
    monkeypatch.setattr(garage, "JOIN_TIMEOUT_S", 0.05)
    nodes, ids = ["aa@127.0.0.1:1", "bb@127.0.0.1:2"], {"node-1": "aa", "node-2": "bb"}
    for status, up in (("degraded", 2), ("healthy", 1)):
        health = {"status": status, "storageNodesUp": up}
        answers |= {"GetClusterLayout": (200, THREE), "GetClusterHealth": (200, health)}
        answers["ConnectClusterNodes"] = (200, [])
        with pytest.raises(MeasurementFailed, match=r"stores\.g: node-1, node-1 .* 0\.05 s"):
            garage.join([node, node], ids, nodes, 2)
        assert ("POST", "/v2/ConnectClusterNodes", f"Bearer {SECRET}", nodes) in asked
        asked.clear()


# The administration


def test_key_may_make_buckets(cluster):
    node, answers, asked = cluster
    answers |= {"ImportKey": (200, {}), "UpdateKey?id=SLKEY": (200, {})}
    answers["ListKeys"] = (200, [{"id": "SLKEY"}, {"id": "other"}])
    garage.allow(node, "SLKEY", "not-told", "storelab-0")
    assert [(path, body) for _, path, _, body in asked] == [
        ("/v2/ImportKey", {"accessKeyId": "SLKEY", "secretAccessKey": "not-told", "name": "storelab-0"}),
        ("/v2/UpdateKey?id=SLKEY", {"allow": {"createBucket": True}}),
    ]
    assert garage.keys_of(node) == {"SLKEY", "other"}


def test_refusals_of_the_administration_have_no_keys(cluster):
    node, answers, _ = cluster
    answers["ImportKey"] = (409, {"code": "KeyAlreadyExists"})
    message = refusal(garage.allow, node, "SLKEY", "not-told", "storelab-0")
    assert message.startswith("stores.g: ImportKey of node-1") and "HTTP 409" in message and "Exists" in message
    assert "not-told" not in message and SECRET not in message and SECRET not in repr(node)
    check_refused("stores.g: UpdateKey of node-2", "ConnectionRefused", GONE.ask, "UpdateKey?id=SLKEY", {})


def test_node_without_layout_lives(cluster):
    node, answers, _ = cluster
    for status, lives in ((503, True), (200, True), (500, False)):
        answers["/health"] = (status, "")
        assert node.lives() is lives, status
    assert not GONE.lives()


@pytest.fixture
def asked(tmp_path, cluster, monkeypatch):
    """Return a store of three nodes with data, two of which run; the first does not answer."""
    s = store(tmp_path, servers=3, redundancy="replica-3")
    monkeypatch.setattr(s, "front_ends", lambda: ["node-1", "node-2"])
    monkeypatch.setattr(s, "_admin", {"node-1": GONE, "node-2": cluster[0]}.__getitem__)
    return s


def test_condition_of_the_cluster(asked, cluster, monkeypatch):
    _, answers, _ = cluster
    for status, up, whole, waiting, state in (
        ("healthy", 3, 256, [0, None, 0], CLEAN),
        ("healthy", 3, 256, [0, 4, 3], CLEAN),
        ("degraded", 2, 0, [0, 7], DEGRADED),
        ("unavailable", 1, 0, [0], DOWN),
    ):
        health = {"status": status, "storageNodesUp": up, "partitions": 256, "partitionsAllOk": whole}
        queues = {"nodes": [{"resyncQueueLen": n} for n in waiting]}
        answers |= {"GetClusterHealth": (200, health), "GetClusterStatus": (200, queues)}
        found, blocks = asked.condition(), sum(filter(None, waiting))
        assert found.state == state
        for text in (f"node-2: {up} of 3", f"{whole} of 256", f"{blocks} blocks"):
            assert text in found.detail
    monkeypatch.setattr(asked, "front_ends", lambda: ["node-1"])
    assert asked.condition().state == DOWN


def test_administration_lists_users(asked, cluster, monkeypatch):
    _, answers, _ = cluster
    monkeypatch.setattr(asked, "front_ends", lambda: ["node-2"])
    asked.folder.mkdir(parents=True)
    own = [k["access_key"] for k in asked.make_keys(2)]
    asked.keyring.use(2)
    answers["ListKeys"] = (200, [{"id": key} for key in [*own, "another"]])
    users, keys = asked.administration()
    assert (users.answer, keys.answer) == (YES, NO) and "3 users, 2 of the 2" in users.evidence
