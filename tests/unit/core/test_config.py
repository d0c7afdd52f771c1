"""Configuration: layers are merged, and every mistake gets one line with its place, its value and a hint."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import NONE, refusal
from small_plan import configured

from storelab.core import config, plan, yaml_text
from storelab.core.errors import UserError
from storelab.stores import config as stores_config
from storelab.stores.s3 import Settings
from storelab.workloads import WORKLOADS

MAIN = """
campaign: small
stores:
  seaweedfs: {kind: seaweedfs}
  far: {kind: s3, endpoint: "https://s3.example.org"}
"""
CAMPAIGN = """
name: small
stores_to_measure: [seaweedfs]
repetitions: 2
calibrate: false
sweeps:
  up:
    workload: put
    duration: 2 s
    warm_up: 100 ms
    axes: {object_size: 4 kB, clients: [1, 2]}
"""
VOLUME = "sweeps.v.workload=read_volume"
MISTAKES = [  # what is set, the place, and words of the message: the value and what to write
    (["repetition=3"], "repetition", "'repetition'", "'repetitions'"),
    (["limits.object=1"], "limits.object", "'object'", "'objects'"),
    (["stores.manifests.kind=seaweedfs"], "stores.manifests", "'manifests' is the name of a file or folder"),
    (["stores.SEAL.kind=seaweedfs"], "stores.SEAL", "choose another name"),
    (["stores={ops.parquet: {kind: seaweedfs}}"], "stores.ops.parquet", "choose another name"),
    (["stores.far.endpiont=x"], "stores.far.endpiont", "'endpoint'"),
    (["stores.far.kind=s4"], "stores.far.kind", "'s4'", "seaweedfs, ceph", "s3, root, http, webhdfs"),
    (["limits.stored_bytes=4 KB"], "limits.stored_bytes", "'KB'", "'kB'"),
    (["sweeps.up.duration=10"], "sweeps.up.duration", "10 ", "10 s"),
    (["measure='yes'"], "measure", "'yes'", "true or false"),
    (["stores_to_measure=[seawedfs]"], "stores_to_measure", "'seawedfs'", "'seaweedfs'"),
    (["stores_to_measure=[]"], "stores_to_measure", "empty"),
    (["stores_to_measure=mine"], 'stores_to_measure: "mine" is not a list; write [mine]'),
    (["stores_to_measure={a: 1}"], 'stores_to_measure: {"a": 1} is not a list; write [a, b]'),
    (["stores_to_measure=null"], "stores_to_measure: has no value; write [a, b], or remove it"),
    (["sweeps.up=null"], "sweeps.up: has no keys below it; indent its keys, or remove it"),
    (["limits=null"], "limits: has no keys below it; "),
    (["sweeps=[a]"], 'sweeps: ["a"] is not a mapping of keys; write `key: value` lines below it'),
    (["sweeps.up=put"], 'sweeps.up: "put" is not a mapping of keys; '),
    (["campaign=smal"], "campaign", "'small'"),
    (["name=a/b"], "name", "'a/b'"),
    (["sweeps.up.workload=putt"], "sweeps.up.workload", "'putt'", "'put'"),
    (["sweeps.up.axes.client=1"], "sweeps.up.axes.client", "'client'", "'clients'"),
    (["sweeps.up.axes.clients=[]"], "sweeps.up.axes.clients", "no value", "use 1"),
    (["sweeps.up.axes.clients=null"], "sweeps.up.axes.clients", "no value"),
    (["sweeps.up.axes.clients=two"], "sweeps.up.axes.clients", "'two'", "whole number"),
    (["sweeps.up.axes.clients=0"], "sweeps.up.axes.clients", "0 is", "at least 1"),
    (["sweeps.up.axes.object_size=4 KB"], "sweeps.up.axes.object_size", "'KB'"),
    (["sweeps.up.axes.engine=scp"], "sweeps.up.axes.engine", "'scp'", "s5cmd"),
    (["sweeps.up.warm_up=2 s"], "sweeps.up.warm_up", "duration"),
    (
        ["sweeps.e.workload=read_entries", "sweeps.e.axes.entry_fraction=0"],
        "sweeps.e.axes.entry_fraction",
        "above 0 and up to 100",
    ),
    (
        ["sweeps.e.workload=read_entries", "sweeps.e.axes.entry_fraction=101"],
        "entry_fraction",
        "101 ",
        "above 0 and up to 100",
    ),
    ([VOLUME, "sweeps.v.axes.volume_fraction=-1"], "sweeps.v.axes.volume_fraction", "-1 ", "above 0 and up to 100"),
    (
        [VOLUME, "sweeps.v.axes.file_size=mien", "files.mine.path=a"],
        "sweeps.v.axes.file_size",
        "'mien'",
        "S, M, L, mine",
    ),
    ([VOLUME, "sweeps.v.axes={file_size: mine, codec: lz4}", "files.mine.path=a"], "sweeps.v.axes.codec", "mine "),
    (["files.mine.tree=events"], "files.mine.path", "missing", "docs/configuration.md"),
    (["files.mine.path=''"], "files.mine.path", "empty"),
    (["files.mine={path: a, tre: b}"], "files.mine.tre", "'tre'", "'tree'"),
    (["files.my file.path=a"], "files", "'my file'"),
    (["files.S.path=a"], "files", "S is a size"),
    (["release.factr=1"], "release.factr", "'factor'"),
    (["release.chunks.minimun=8 MiB"], "release.chunks.minimun", "'minimum'"),
    (["release.tree={path: a, version: [b]}"], "release.tree.version"),
    (["release.repository=Mine"], "release.repository", "'Mine'", "nightlies.example.org"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "config.yaml").write_text(MAIN)
    (tmp_path / "campaigns" / "small.yaml").write_text(CAMPAIGN)
    return tmp_path


def points(folder: Path, overrides: dict | None = None):
    return plan.make(stores_config.load(folder / "config.yaml", (), overrides or {}), WORKLOADS)


def test_layers_are_merged_and_lists_replaced(folder):
    assert len(points(folder)) == 4
    extra = folder / "extra.yaml"
    extra.write_text("sweeps: {up: {axes: {clients: [4]}}}\nlimits: {clients: 8}\n")
    loaded = stores_config.load(folder / "config.yaml", [extra], {"limits": {"clients": 9}})
    assert loaded.sweeps["up"].axes == {"object_size": "4 kB", "clients": [4]}
    assert loaded.limits.clients == 9


def test_set_parses_nested_keys_and_booleans(folder):
    assert config.parse_set(["a.b=2", "a.c=true", "d=x"]) == {"a": {"b": 2, "c": True}, "d": "x"}
    for value, measure in ((True, True), ("true", True), ("false", False), (False, False)):
        assert stores_config.load(folder / "config.yaml", (), {"measure": value}).measure is measure


def test_mistakes_get_place_value_and_hint(folder):
    wrong = []
    for given_, *words in MISTAKES:
        message = refusal(points, folder, config.parse_set(given_))
        if not all(word in message for word in words):
            wrong.append((given_, words, message))
    assert not wrong


def test_file_with_the_mistake_is_named(folder):
    campaign = folder / "campaigns" / "small.yaml"
    campaign.write_text(CAMPAIGN + "repetitons: 3\n")
    with pytest.raises(UserError, match=r"campaigns/small\.yaml: repetitons: .*'repetitions'"):
        points(folder)
    campaign.write_text(CAMPAIGN.replace("name: small", ""))
    assert refusal(points, folder).startswith(f"{campaign}: name: 'name' is missing; ")
    campaign.write_text("# later\n")
    for load in (stores_config.load, stores_config.load_rebuild):
        assert refusal(load, folder / "config.yaml").startswith(f"{campaign}: the file is empty; write `name` and")
    for text in ("a: [", "- a", "a: b: c"):
        (folder / "config.yaml").write_text(text)
        assert "config.yaml" in refusal(points, folder)


def test_rebuild_needs_no_store(folder):
    (folder / "config.yaml").write_text("campaign: small\n")
    assert stores_config.load_rebuild(folder / "config.yaml").name == "small"


def test_buckets_that_s3_allows():
    for bucket in ("abc", "a" * 63, "my.bucket-1", "1.2.3", "a.b.c.d", "xn-a", "1.2.3.4a"):
        assert Settings(kind="s3", endpoint="https://a", bucket=bucket).bucket == bucket


def test_aliases_and_merge_keys_are_read():
    assert yaml_text.parse("a: &x {b: 1}\nc: {<<: *x, d: *x}", "f")["c"] == {"b": 1, "d": {"b": 1}}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=60), st.text(alphabet="{}[]&*!?-:,#'\"|>%@` \n\tab1.~", max_size=60)))
def test_any_text_is_read_or_refused(text):
    try:
        yaml_text.parse(text, "here")
        config.parse_set([f"a={text}"])
    except UserError as error:
        assert "\n" not in str(error) and error.problem


def test_numbers_that_yaml_takes_for_others_are_refused():
    """YAML 1.1 has base 60 and base 8: `1:30` is 90, `010` is 8."""
    for text, found in (("1:30", "90"), ("010", "8"), ("-07", "-7"), ("1:30.5", "90.5")):
        for form in ("a: {}", "a: [1, {}]", "{}: a"):
            assert f"YAML reads '{text}' as {found}; " in refusal(yaml_text.parse, form.format(text), "f"), (text, form)
        assert yaml_text.parse(f"a: '{text}'", "f") == {"a": text}
    for text, value in (("0", 0), ("10", 10), ("-3", -3), ("0.5", 0.5), ("1e3", "1e3"), ("0x10", 16), ("1_000", 1000)):
        assert yaml_text.parse(f"a: {text}", "f") == {"a": value}


def test_sizes_that_would_be_another_are_refused():
    for kind, key in (("seaweedfs", "volume_size"), ("seaweedfs", "drive_size"), ("ceph", "osd_size")):
        for value in ("0 B", "1 kB"):
            message = refusal(configured, stores={"a": {"kind": kind, key: value}})
            assert f"{value} is too small; set at least 1 MiB" in message, (key, message)
        assert refusal(configured, stores={"a": {"kind": kind, key: "1 MiB"}}) == NONE
