"""State files and notes with wrong content are named on one line, wherever they are read."""

import json

import pytest
from refusals import refusal
from small_plan import configured, folders

from storelab import stores
from storelab.core import records
from storelab.gang.testbed.links import Network
from storelab.stores.faults import Journal
from storelab.workloads.staging import left_over

BROKEN = ("", "{", "[]", "7", "null", '"x"', "[[]]", "\x00\x00", "[" * 9000)
KEYS = {"access_key": "a", "secret_key": "hush"}


def managed(tmp_path, kind):
    store = stores.make("d", stores.load(kind).Settings(kind=kind), tmp_path / "state")
    store.folder.mkdir(parents=True)
    return store


@pytest.fixture
def readers(tmp_path):
    """Return file -> function that reads it, a correct content, and wrong ones."""
    config = configured(name="camp", stores={"d": {"kind": "directory", "path": "/"}}, **folders(tmp_path))
    weed, garage, ceph = (managed(tmp_path / k, k) for k in ("seaweedfs", "garage", "ceph"))
    gluster, links = managed(tmp_path / "glusterfs", "glusterfs"), Network(tmp_path)
    folder, work = weed.folder, config.campaign_dir / "work"
    accounts, layout = {"accounts": [KEYS], "used": 1}, {"servers": 1, "redundancy": "none", "nodes": 2}
    return {
        folder / "accounts.json": (weed.keyring.known, accounts, [{}, {"accounts": [{}], "used": 1}]),
        folder / "root.json": (weed.root_keys, KEYS, [{"access_key": "a"}, KEYS | {"secret_key": 3}]),
        stores._note(weed): (lambda: stores.deployments(weed), {}, [{"a": {}}, {"a": {"index": "1", "changes": {}}}]),
        garage.data / "layout.json": (garage._nodes, layout, [{}, layout | {"nodes": "2"}]),
        ceph.data / "cluster.json": (ceph.cluster, {"fsid": "x"}, []),
        gluster._note: (gluster._started_by_glusterd, {"brick": ["a"]}, [{"brick": 1}]),
        folder / "faults.json": (Journal(folder).harms, {"harms": [{"act": "a", "actor": "b", "x": 1}]}, [{}]),
        work / "uploads-d.json": (lambda: left_over.left(config, "d"), {"bytes": 1}, [{"bytes": "1"}, {"accounts": 1}]),
        work / "filled-d.json": (lambda: left_over.filler(config, "d"), {"bytes": 1}, [{}]),
        tmp_path / "links.json": (links.planned, {"rates": ["1mbit"], "front_ends": []}, [{}, {"rates": "x"}]),
    }


def test_damaged_state_is_named_in_one_line(readers):
    for path, (read, right, wrong) in readers.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        records.write_json(path, right)
        read()
        for text in (*BROKEN, *map(json.dumps, wrong)):
            path.write_text(text)
            message = refusal(read)
            assert message.startswith(f"{path}: is damaged: ") and "; " in message, (path, text, message)
            assert "hush" not in message


def test_damaged_version_is_asked_again(tmp_path, monkeypatch):
    weed = managed(tmp_path, "seaweedfs")
    monkeypatch.setattr(type(weed), "program", lambda self: tmp_path)
    for number, text in enumerate(("[]", "{}", "7", '{"stamp": 1}', "\x00")):
        (weed.folder / "version.json").write_text(text)
        monkeypatch.setattr(type(weed), "ask_version", lambda self, program, number=number: str(number))
        weed.__dict__.pop("_version", None)
        assert weed._version == str(number)
