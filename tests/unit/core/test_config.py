"""Config: merging, and one clear line for every mistake."""

from pathlib import Path

import pytest

from storelab.core import config, plan
from storelab.core.errors import UserError
from storelab.workloads import WORKLOADS

MAIN = """
campaign: small
stores:
  seaweedfs: {kind: seaweedfs}
  far: {kind: s3, endpoint: "https://s3.example.org"}
"""
CAMPAIGN = """
name: small
use_stores: [seaweedfs]
repetitions: 2
calibrate: false
sweeps:
  up:
    workload: put
    duration: 2 s
    warm_up: 100 ms
    axes: {object_size: 4 kB, clients: [1, 2]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "config.yaml").write_text(MAIN)
    (tmp_path / "campaigns" / "small.yaml").write_text(CAMPAIGN)
    return tmp_path


def points(folder: Path, **overrides):
    return plan.make(config.load(folder / "config.yaml", (), overrides), WORKLOADS)


def test_it_loads(folder):
    assert len(points(folder)) == 4


def test_layers_are_merged_key_by_key_and_lists_are_replaced(folder):
    extra = folder / "extra.yaml"
    extra.write_text("sweeps: {up: {axes: {clients: [4]}}}\nlimits: {clients: 8}\n")
    loaded = config.load(folder / "config.yaml", [extra], {"limits": {"clients": 9}})
    assert loaded.sweeps["up"].axes == {"object_size": "4 kB", "clients": [4]}
    assert loaded.limits.clients == 9


def test_set_parses_nested_keys():
    assert config.parse_set(["a.b=2", "a.c=true", "d=x"]) == {"a": {"b": 2, "c": True}, "d": "x"}


@pytest.mark.parametrize(("value", "measure"), [(True, True), ("true", True), ("false", False), (False, False)])
def test_a_boolean_may_come_as_text(folder, value, measure):
    assert config.load(folder / "config.yaml", (), {"measure": value}).measure is measure


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ({"repetition": 3}, "command line: repetition: unknown key 'repetition'; did you mean 'repetitions'?"),
        ({"limits": {"object": 1}}, "command line: limits.object: unknown key 'object'; did you mean 'objects'?"),
        (
            {"stores": {"far": {"endpiont": "x"}}},
            "command line: stores.far.endpiont: unknown key 'endpiont'; did you mean 'endpoint'?",
        ),
        (
            {"stores": {"far": {"kind": "s4"}}},
            "command line: stores.far.kind: no store of kind 's4'; one of: seaweedfs, ceph, versitygw, minio, nginx, xrootd, hdfs, glusterfs, openafs, garage, rclone, nullserver, directory, s3, root, http, webhdfs",
        ),
        (
            {"limits": {"stored_bytes": "4 KB"}},
            "command line: limits.stored_bytes: unit 'KB' of '4 KB' is not known; did you mean 'kB'?",
        ),
        (
            {"sweeps": {"up": {"duration": 10}}},
            "command line: sweeps.up.duration: 10 is not a duration with its unit; write it like 10 s, 500 ms or 2 min",
        ),
        ({"measure": "yes"}, "command line: measure: 'yes' is not a boolean; write true or false"),
        ({"use_stores": ["seawedfs"]}, "no one defined the store 'seawedfs'; did you mean 'seaweedfs'?"),
        ({"use_stores": []}, "use_stores: is empty; give at least one"),
        ({"campaign": "smal"}, "did you mean 'small'?"),
        ({"name": "a/b"}, "command line: name: 'a/b' is not a name; use letters, digits, '.' and '-'"),
        ({"sweeps": {"up": {"workload": "putt"}}}, "sweeps.up.workload: no workload 'putt'; did you mean 'put'?"),
        (
            {"sweeps": {"up": {"axes": {"client": 1}}}},
            "sweeps.up.axes.client: put has no axis 'client'; did you mean 'clients'?",
        ),
        (
            {"sweeps": {"up": {"axes": {"clients": []}}}},
            "sweeps.up.axes.clients: the sweep has no value; give one or a list, or leave it out for 1",
        ),
        ({"sweeps": {"up": {"axes": {"clients": None}}}}, "sweeps.up.axes.clients: the sweep has no value"),
        ({"sweeps": {"up": {"axes": {"clients": "two"}}}}, "sweeps.up.axes.clients: 'two' is not a whole number"),
        ({"sweeps": {"up": {"axes": {"clients": 0}}}}, "sweeps.up.axes.clients: 0 is too small; at least 1"),
        (
            {"sweeps": {"up": {"axes": {"object_size": "4 KB"}}}},
            "sweeps.up.axes.object_size: unit 'KB' of '4 KB' is not known",
        ),
        ({"sweeps": {"up": {"axes": {"engine": "scp"}}}}, "sweeps.up.axes.engine: 'scp' is not known; one of: s5cmd"),
        ({"sweeps": {"up": {"warm_up": "2 s"}}}, "sweeps.up.warm_up: leaves nothing of the duration"),
        (
            {"sweeps": {"e": {"workload": "read_entries", "axes": {"entry_fraction": 0}}}},
            "sweeps.e.axes.entry_fraction: 0 is not a percentage",
        ),
        (
            {"sweeps": {"e": {"workload": "read_entries", "axes": {"entry_fraction": 101}}}},
            "101 is not a percentage; give a number in (0, 100]",
        ),
        (
            {"sweeps": {"v": {"workload": "read_volume", "axes": {"volume_fraction": -1}}}},
            "sweeps.v.axes.volume_fraction: -1 is not a percentage; give a number in (0, 100]",
        ),
        (
            {
                "sweeps": {"v": {"workload": "read_volume", "axes": {"scale": "mien"}}},
                "files": {"mine": {"path": "a.root"}},
            },
            "sweeps.v.axes.scale: 'mien' is no scale and no name in `files`; one of: S, M, L, mine; or name your file in `files`",
        ),
        (
            {
                "sweeps": {"v": {"workload": "read_volume", "axes": {"scale": "mine", "codec": "lz4"}}},
                "files": {"mine": {"path": "a.root"}},
            },
            "sweeps.v.axes.codec: mine is a file of your own, and stays as it is packed; leave the axis out",
        ),
        (
            {"files": {"mine": {"tree": "events"}}},
            "command line: files.mine.path: 'path' is missing; see docs/configuration.md",
        ),
        (
            {"files": {"mine": {"path": ""}}},
            "command line: files.mine.path: '' is empty; give it a value",
        ),
        (
            {"release": {"factr": 1}},
            "command line: release.factr: unknown key 'factr'; did you mean 'factor'?",
        ),
        (
            {"release": {"chunks": {"minimun": "8 MiB"}}},
            "command line: release.chunks.minimun: unknown key 'minimun'; did you mean 'minimum'?",
        ),
        (
            {"release": {"tree": {"path": "a", "version": ["b"]}}},
            "command line: release.tree.version",
        ),
        (
            {"release": {"repository": "Mine"}},
            "command line: release.repository: 'Mine' is no name of a repository; write it like nightlies.example.org",
        ),
        (
            {"files": {"mine": {"path": "a", "tre": "b"}}},
            "command line: files.mine.tre: unknown key 'tre'; did you mean 'tree'?",
        ),
        ({"files": {"my file": {"path": "a"}}}, "'my file' is not a name; use letters, digits, '.' and '-'"),
        (
            {"files": {"S": {"path": "a"}}},
            "command line: files: S is a scale of the generated ROOT file; give your file another name",
        ),
    ],
)
def test_a_mistake_gets_one_line_with_place_value_and_mend(folder, overrides, line):
    with pytest.raises(UserError) as error:
        points(folder, **overrides)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_the_file_that_holds_the_mistake_is_named(folder):
    (folder / "campaigns" / "small.yaml").write_text(CAMPAIGN + "repetitons: 3\n")
    with pytest.raises(
        UserError, match=r"campaigns/small\.yaml: repetitons: unknown key 'repetitons'; did you mean 'repetitions'"
    ):
        points(folder)


@pytest.mark.parametrize("text", ["a: [", "- a", "a: b: c"])
def test_broken_yaml_is_named(folder, text):
    (folder / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=r"config\.yaml"):
        points(folder)


def test_a_rebuild_needs_no_store(folder):
    (folder / "config.yaml").write_text("campaign: small\n")
    assert config.load_rebuild(folder / "config.yaml").name == "small"
