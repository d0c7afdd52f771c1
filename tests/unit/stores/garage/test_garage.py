"""Garage without Garage: what its nodes are told, the layout, its administration (a small web server in its place), words for people."""

import json
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from storelab import install
from storelab.core.answers import NO, YES
from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import deployed, make
from storelab.stores.base import CLEAN, DEGRADED, DOWN
from storelab.stores.garage import admin
from storelab.stores.garage.settings import Settings
from storelab.stores.protocols import s3
from storelab.stores.protocols.access import StillHolds

SECRET = "s" * 40
# Answers of Garage 2.5.0 to GetClusterLayout of a new node, and of a cluster of two nodes with data and a gateway.
NEW = {"version": 0, "roles": [], "parameters": {"zoneRedundancy": "maximum"}, "stagedRoleChanges": []}
THREE = {
    "version": 2,
    "roles": [
        {"id": "aa", "zone": "node-1", "tags": [], "capacity": 1000000000000, "storedPartitions": 256},
        {"id": "bb", "zone": "node-2", "tags": [], "capacity": 1000000000000, "storedPartitions": 256},
        {"id": "cc", "zone": "node-3", "tags": [], "capacity": None, "storedPartitions": None},
    ],
}


def store(state: Path, **settings):
    return make("g", Settings(kind="garage", **settings), state)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A program of that name, which tells its version."""
    tools = tmp_path / "tools"
    (tools / "bin").mkdir(parents=True)
    (tools / "bin" / "garage").write_text("#!/bin/sh\necho 'garage cargo:2.5.0 [features: bundled-libs, lmdb]'\n")
    (tools / "bin" / "garage").chmod(0o755)
    monkeypatch.setenv("STORELAB_TOOLS", str(tools))
    return tools


@pytest.fixture
def cluster():
    """A server that answers calls of the administration as it is told: {call: (status, answer)}; it keeps what it was asked."""
    answers, asked = {"/health": (503, "no layout")}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path, self.headers.get("Authorization"), json.loads(body or "null")))
            status, answer = answers.get(self.path.removeprefix("/v2/"), (404, {"code": "NoSuchCall"}))
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        node = admin.Node("stores.g", "node-1", "127.0.0.1", server.server_port, SECRET)
        yield node, answers, asked
        server.shutdown()


# -- what nodes are told


def test_what_a_node_is_told(tmp_path, installed):
    s = store(tmp_path / "state", port=27000, servers=3, redundancy="replica-3", front_end_addresses=["127.0.0.5"])
    s.prepare()
    told = tomllib.loads((s.folder / "node-2.toml").read_text())
    assert told["replication_factor"] == 3 and told["disable_scrub"] is True
    assert told["metadata_dir"] == str(s.data / "node-2" / "meta") and told["data_dir"] == str(
        s.data / "node-2" / "data"
    )
    assert told["rpc_bind_addr"] == told["rpc_public_addr"] == "127.0.0.1:27011"
    assert told["s3_api"] == {"api_bind_addr": "127.0.0.5:27001", "s3_region": "us-east-1"}
    assert told["admin"] == {"api_bind_addr": "127.0.0.1:27021"}
    daemon = s.daemon("node-2")
    assert daemon.argv == (str(installed / "bin" / "garage"), "-c", str(s.folder / "node-2.toml"), "server")
    assert (daemon.host, daemon.ports) == ("127.0.0.5", (27001, 27011, 27021)) and s.endpoint(
        "node-2"
    ).url == "http://127.0.0.5:27001"


def test_no_two_nodes_share_a_port_and_all_lie_in_the_block(tmp_path, installed):
    s = store(tmp_path / "state")
    s.prepare()
    ports = [port for i in range(1, 11) for port in s.daemon(f"node-{i}").ports]
    (block,) = s.ports()
    assert len(set(ports)) == 30 and set(ports) <= set(block) and max(block) < 32768


def test_secrets_are_in_the_environment_of_the_nodes_alone(tmp_path, installed):
    s = store(tmp_path / "state")
    s.prepare()
    daemon, root = s.daemon("node-1"), s.root_keys()
    assert daemon.environ["GARAGE_ADMIN_TOKEN"] == root.secret_key
    assert len(bytes.fromhex(daemon.environ["GARAGE_RPC_SECRET"])) == 32, "as Garage wants it"
    assert s.daemon("node-2").environ == daemon.environ, "they know each other by it"
    told = " ".join(daemon.argv) + (s.folder / "node-1.toml").read_text()
    assert root.secret_key not in told and daemon.environ["GARAGE_RPC_SECRET"] not in told


def test_more_front_ends_than_nodes_are_gateways_which_start_again(tmp_path, installed):
    s = store(tmp_path / "state", servers=2)
    s.prepare()
    assert s.stages(["node-1"]) == (["node-1", "node-2"],)
    assert s.stages(["node-1", "node-2", "node-3", "node-10"]) == (["node-1", "node-2", "node-3", "node-10"],)
    (s.data / "layout.json").write_text(
        '{"servers": 2, "redundancy": "none", "nodes": 4}'
    )  # four were one cluster once
    assert s.stages(["node-1"]) == (["node-1", "node-2", "node-3", "node-4"],)
    assert s.data_actors() == ["node-1", "node-2"]


# -- what does not go


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        (
            {"servers": 3},
            {"servers": 2},
            r"stores\.g\.servers: the data in .* are on 3 nodes; set it to that, or give a new folder",
        ),
        (
            {"servers": 3, "redundancy": "replica-2"},
            {"servers": 3, "redundancy": "replica-3"},
            r"stores\.g\.redundancy: the data in .* were laid out for replica-2, which Garage does not change; set it back, or",
        ),
    ],
)
def test_data_that_were_laid_out_otherwise(tmp_path, installed, was, now, line):
    store(tmp_path, **was).prepare()
    with pytest.raises(UserError, match=line):
        store(tmp_path, **now).prepare()
    store(tmp_path, **was).prepare()


def test_more_nodes_are_possible(tmp_path, installed):
    store(tmp_path, servers=1).prepare()
    more = store(tmp_path, servers=3)
    more.prepare()
    assert json.loads((more.data / "layout.json").read_text())["servers"] == 3


@pytest.mark.parametrize(("redundancy", "servers"), [("replica-2", 1), ("replica-3", 2)])
def test_fewer_nodes_than_copies(tmp_path, installed, redundancy, servers):
    line = rf"stores\.g\.servers: {servers} nodes cannot hold {redundancy}; set servers to {redundancy[-1]} or more"
    with pytest.raises(UserError, match=line):
        store(tmp_path, servers=servers, redundancy=redundancy).up()
    assert not (tmp_path / "g" / "data").exists()


def test_not_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    monkeypatch.setattr(install, "SERVERS", ())
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: None)
    with pytest.raises(
        UserError, match=r"stores\.g: the program garage is not installed; run `storelab install garage`"
    ):
        store(tmp_path / "state").up()
    assert not (tmp_path / "state").exists()


def test_https_is_not_to_be_had(tmp_path):
    with pytest.raises(UserError, match=r"axes\.scheme: store g \(kind garage\) has no scheme to choose"):
        deployed(store(tmp_path), {"scheme": "https"})
    three = deployed(store(tmp_path, servers=1), {"servers": 3, "redundancy": "replica-3"})
    assert (three.settings.servers, three.bears(), three.settings.port) == (3, 2, 26032)


def test_how_many_copies_may_be_lost(tmp_path):
    assert [store(tmp_path, redundancy=r, servers=3).bears() for r in ("none", "replica-2", "replica-3")] == [0, 1, 2]


def test_the_space_of_what_is_overwritten(tmp_path):
    """Below three KiB an object lies with its metadata, and has no block that waits to be removed."""
    assert [store(tmp_path).keeps_overwritten(size) for size in (0, 3071, 3072, 10**6)] == [False, False, True, True]


def test_the_version(tmp_path, installed):
    assert store(tmp_path / "state").version() == "2.5.0"
    assert store(tmp_path / "state").ask_version(tmp_path / "none") == ""


# -- its layout


def test_the_layout_of_new_nodes():
    assert admin.layout_changes(NEW, {"node-1": "aa", "node-2": "bb", "node-3": "cc"}, 2) == [
        {"id": "aa", "zone": "node-1", "capacity": 10**12, "tags": []},
        {"id": "bb", "zone": "node-2", "capacity": 10**12, "tags": []},
        {"id": "cc", "zone": "node-3", "capacity": None, "tags": []},
    ]


@pytest.mark.parametrize(
    ("names", "storage", "changed"),
    [
        ("node-1 node-2 node-3", 2, []),
        ("node-1 node-2", 2, []),
        ("node-1 node-2 node-3", 3, [("cc", 10**12)]),
        ("node-1 node-2 node-3 node-4", 2, [("dd", None)]),
    ],
)
def test_only_what_the_layout_lacks_is_changed(names, storage, changed):
    ids = dict(zip(names.split(), ("aa", "bb", "cc", "dd"), strict=False))
    assert [(c["id"], c["capacity"]) for c in admin.layout_changes(THREE, ids, storage)] == changed


def test_joining_asks_for_a_layout_once(cluster):
    node, answers, asked = cluster
    answers |= {"GetClusterLayout": (200, NEW), "UpdateClusterLayout": (200, NEW), "ApplyClusterLayout": (200, {})}
    answers["GetClusterHealth"] = (200, {"status": "healthy", "storageNodesUp": 1})
    admin.join([node], {"node-1": "aa"}, ["aa@127.0.0.1:1"], 1)
    posted = [(path, body) for method, path, _, body in asked if method == "POST"]
    assert posted == [
        ("/v2/UpdateClusterLayout", {"roles": [{"id": "aa", "zone": "node-1", "capacity": 10**12, "tags": []}]}),
        ("/v2/ApplyClusterLayout", {"version": 1}),
    ]
    assert {told for _, _, told, _ in asked} == {f"Bearer {SECRET}"}
    asked.clear()
    answers["GetClusterLayout"] = (200, {"version": 1, "roles": THREE["roles"][:1]})
    admin.join([node], {"node-1": "aa"}, ["aa@127.0.0.1:1"], 1)
    assert {method for method, *_ in asked} == {"GET"}, "it is as it should be"


@pytest.mark.parametrize(
    "health", [{"status": "degraded", "storageNodesUp": 2}, {"status": "healthy", "storageNodesUp": 1}]
)
def test_nodes_that_do_not_find_each_other(cluster, monkeypatch, health):
    node, answers, asked = cluster
    monkeypatch.setattr(admin, "TOGETHER_S", 0.2)
    answers |= {"GetClusterLayout": (200, THREE), "GetClusterHealth": (200, health), "ConnectClusterNodes": (200, [])}
    with pytest.raises(MeasurementFailed, match=r"stores\.g: node-1, node-1 did not join the others in 0\.2 s"):
        admin.join([node, node], {"node-1": "aa", "node-2": "bb"}, ["aa@127.0.0.1:1", "bb@127.0.0.1:2"], 2)
    assert ("POST", "/v2/ConnectClusterNodes", f"Bearer {SECRET}", ["aa@127.0.0.1:1", "bb@127.0.0.1:2"]) in asked


# -- its administration


def test_a_key_may_make_buckets(cluster):
    node, answers, asked = cluster
    answers |= {
        "ImportKey": (200, {}),
        "UpdateKey?id=SLKEY": (200, {}),
        "ListKeys": (200, [{"id": "SLKEY"}, {"id": "other"}]),
    }
    admin.allow(node, "SLKEY", "not-told", "storelab-0")
    assert [(path, body) for _, path, _, body in asked] == [
        ("/v2/ImportKey", {"accessKeyId": "SLKEY", "secretAccessKey": "not-told", "name": "storelab-0"}),
        ("/v2/UpdateKey?id=SLKEY", {"allow": {"createBucket": True}}),
    ]
    assert admin.keys(node) == {"SLKEY", "other"}


def test_what_is_refused_or_not_answered_is_one_line_without_keys(cluster):
    node, answers, _ = cluster
    answers["ImportKey"] = (409, {"code": "KeyAlreadyExists"})
    with pytest.raises(
        MeasurementFailed, match=r"stores\.g: ImportKey of node-1 was refused \(HTTP 409\): .*Exists"
    ) as told:
        admin.allow(node, "SLKEY", "not-told", "storelab-0")
    assert "not-told" not in str(told.value) and SECRET not in str(told.value)
    gone = admin.Node("stores.g", "node-2", "127.0.0.1", 1, SECRET)
    with pytest.raises(MeasurementFailed, match=r"stores\.g: UpdateKey of node-2 was not answered \(ConnectionRefused"):
        gone.ask("UpdateKey?id=SLKEY", {})
    assert SECRET not in repr(node)


def test_a_node_lives_that_has_no_layout_yet(cluster):
    node, answers, _ = cluster
    assert node.lives()
    answers["/health"] = (200, "fine")
    assert node.lives()
    answers["/health"] = (500, "no")
    assert not node.lives() and not admin.Node("stores.g", "node-2", "127.0.0.1", 1, SECRET).lives()


@pytest.fixture
def asked(tmp_path, cluster, monkeypatch):
    """A store of three nodes with data, two of which run; the first does not answer."""
    s = store(tmp_path, servers=3, redundancy="replica-3")
    gone = admin.Node("stores.g", "node-1", "127.0.0.1", 1, SECRET)
    monkeypatch.setattr(s, "front_ends", lambda: ["node-1", "node-2"])
    monkeypatch.setattr(s, "_asked", {"node-1": gone, "node-2": cluster[0]}.__getitem__)
    return s


@pytest.mark.parametrize(
    ("status", "up", "whole", "waiting", "state"),
    [
        ("healthy", 3, 256, [0, None, 0], CLEAN),
        ("healthy", 3, 256, [0, 4, 3], CLEAN),
        ("degraded", 2, 0, [0, 7], DEGRADED),
        ("unavailable", 1, 0, [0], DOWN),
    ],
)
def test_what_the_cluster_says_of_itself(asked, cluster, status, up, whole, waiting, state):
    _, answers, _ = cluster
    health = {"status": status, "storageNodesUp": up, "partitions": 256, "partitionsAllOk": whole}
    answers |= {
        "GetClusterHealth": (200, health),
        "GetClusterStatus": (200, {"nodes": [{"resyncQueueLen": n} for n in waiting]}),
    }
    told = asked.condition()
    blocks = sum(filter(None, waiting))
    assert told.state == state
    assert told.detail == f"node-2: {up} of 3 nodes with data, {whole} of 256 partitions whole, {blocks} blocks queued"


def test_no_node_answers(asked, monkeypatch):
    monkeypatch.setattr(asked, "front_ends", lambda: ["node-1"])
    assert (asked.condition().state, asked.condition().detail) == (DOWN, "no node answers")


def test_what_its_administration_tells(asked, cluster, monkeypatch):
    _, answers, _ = cluster
    monkeypatch.setattr(asked, "front_ends", lambda: ["node-2"])
    own = [k["access_key"] for k in _keys(asked, 2)]
    answers["ListKeys"] = (200, [{"id": key} for key in [*own, "another"]])
    users, keys = asked.administration()
    assert (users.answer, users.evidence) == (YES, "ListKeys: 3 users, 2 of the 2 that storelab uses")
    assert keys.answer == NO


def _keys(s, n: int) -> list[dict[str, str]]:
    s.folder.mkdir(parents=True)
    keys = s.make_keys(n)
    s.note_accounts(n)
    return keys


# -- a bucket that was just emptied


class Emptied:
    """An S3 client of a store without versions that says `BucketNotEmpty` some times; `holds`: keys that it lists."""

    def __init__(self, times, holds=()):
        self.times, self.holds, self.dropped = times, holds, 0

    def delete_bucket(self, **_):
        self.times -= 1
        if self.times >= 0:
            raise ClientError({"Error": {"Code": "BucketNotEmpty"}}, "DeleteBucket")
        self.dropped += 1

    def get_paginator(self, _):
        raise ClientError({"Error": {"Code": "NotImplemented"}}, "ListObjectVersions")

    def list_objects_v2(self, **_):
        return {"Contents": [{"Key": key} for key in self.holds]}


def test_a_bucket_that_was_just_emptied_is_tried_again(monkeypatch):
    monkeypatch.setattr(s3.time, "sleep", lambda _: None)
    client = Emptied(3)
    s3.S3Access(client, "stores.g").drop_bucket("b")
    assert client.dropped == 1
    with pytest.raises(StillHolds, match=r"stores\.g: bucket b still holds theirs: it is left alone"):
        s3.S3Access(Emptied(99, ["theirs"]), "stores.g").drop_bucket("b")
    with pytest.raises(MeasurementFailed, match="BucketNotEmpty"):
        s3.S3Access(Emptied(99), "stores.g").drop_bucket("b")
