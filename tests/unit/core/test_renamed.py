"""Old names of configuration keys and axes: each still works, and prints one line with the new name."""

import json

import pytest
from paths import ROOT

from storelab.analysis.records.campaign import load
from storelab.core import config, renamed
from storelab.core.errors import UserError

SWEEP = "name: x\nstores_to_measure: [a]\nsweeps: {s: {workload: put}}\n"


def nested(path: str, value):
    """Return the document with this value at the path; `*` is a key `any`."""
    for part in reversed(path.split(".")):
        value = {part.replace("*", "any"): value}
    return value


def at(document, path: str):
    for part in path.split("."):
        document = document[part.replace("*", "any")]
    return document


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Forget which lines this process has printed."""
    monkeypatch.setattr(renamed, "_reported", set())


@pytest.fixture
def main(tmp_path):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "x.yaml").write_text(SWEEP)
    (tmp_path / "config.yaml").write_text("campaign: x\nstores: {a: {kind: seaweedfs}}\n")
    return tmp_path / "config.yaml"


@pytest.mark.parametrize(("old", "new"), renamed.KEYS.items())
def test_old_key_works_and_prints_one_line(old, new, main, capsys):
    layers, merged = config.read_layers(main, (), nested(old, "value"))
    name = ".".join([*old.split(".")[:-1], new])
    assert at(layers[-1][1], name) == at(merged, name) == "value"
    before = old.split(".")[-1]
    line = f"storelab: command line: {old.replace('*', 'any')}: the name `{before}` is deprecated; write `{new}`\n"
    assert capsys.readouterr().err == line
    config.read_layers(main, (), nested(old, "value"))
    assert capsys.readouterr() == ("", ""), "the second use prints nothing"


@pytest.mark.parametrize(("old", "new"), renamed.KEYS.items())
def test_old_and_new_key_are_refused(old, new, main):
    path, _, before = old.rpartition(".")
    both = {before: 1, new: 2}
    with pytest.raises(UserError) as caught:
        config.read_layers(main, (), nested(path, both) if path else both)
    assert "\n" not in str(caught.value)
    assert f"`{before}` and `{new}` are names of the same key" in str(caught.value)
    assert str(caught.value).endswith(f"remove `{before}`")


def test_old_keys_of_all_files_are_read(main, capsys):
    (main.parent / "campaigns" / "x.yaml").write_text(SWEEP.replace("stores_to_measure", "use_stores"))
    main.write_text(main.read_text() + "lead: 1 s\n")
    extra = main.parent / "extra.yaml"
    extra.write_text("sweeps: {s: {together: [{clients: 1, buckets: 2}]}}\n")
    loaded = config.load(main, [extra], config.parse_set(["launcher.silence=7 s"]))
    assert loaded.stores_to_measure == ["a"]
    assert (loaded.start_delay, loaded.launcher.heartbeat_timeout) == (10**9, 7 * 10**9)
    assert loaded.sweeps["s"].zip == {"clients": [1], "buckets": [2]}
    assert len(capsys.readouterr().err.splitlines()) == 4


def test_keys_in_other_places_stay(capsys):
    document = {"lead": {"lead": 1}, "stores": {"door": {"kind": "s3"}}, "sweeps": [{"together": 1}], "claims": None}
    changed = renamed.current(document, "a.yaml")
    assert changed == {"start_delay": {"lead": 1}} | {k: document[k] for k in ("stores", "claims")} | {
        "sweeps": [{"zip": 1}]
    }
    capsys.readouterr()
    assert renamed.current({"use_stores": []}) == {"stores_to_measure": []}
    assert capsys.readouterr().err == "", "without a place, nothing is printed"


@pytest.mark.parametrize("path", renamed.NAMING_AXES)
@pytest.mark.parametrize(("old", "new"), renamed.AXES.items())
def test_old_axis_works_and_prints_one_line(path, old, new, capsys):
    place = path.replace("*", "any")
    for value, expected in (
        ({old: ["S"], "clients": [1]}, {new: ["S"], "clients": [1]}),
        ([old, "clients"], [new, "clients"]),
        ([{old: "S"}], [{new: "S"}]),
        (old, new),
    ):
        assert at(renamed.current(nested(path, value), "a.yaml"), path) == expected
    line = f": the name `{old}` is deprecated; write `{new}`\n"
    printed = capsys.readouterr().err
    assert printed.startswith(f"storelab: a.yaml: {place}") and printed.endswith(line) and printed.count("\n") == 1


def test_old_axis_of_a_role_works(capsys):
    assert renamed.current({"sweeps": {"s": {"zip": {"up.scale": ["S"]}}}}, "a.yaml") == {
        "sweeps": {"s": {"zip": {"up.file_size": ["S"]}}}
    }
    assert "`up.scale` is deprecated; write `up.file_size`" in capsys.readouterr().err


def test_campaign_factor_and_values_keep_their_name(capsys):
    document = {
        "scale": 0.1,
        "files": {"scale": {"path": "a"}},
        "stores": {"scale": {"kind": "s3"}},
        "sweeps": {"scale": {"stores": ["scale"], "axes": {"file_size": "scale"}, "zip": {"a": ["scale"]}}},
        "claims": {"scale": {"values": ["scale"], "where": {"store": "scale"}}},
    }
    assert renamed.current(document, "a.yaml") == document
    assert capsys.readouterr().err == ""


def test_sealed_plans_and_records_have_new_axes():
    raw = ROOT / "tests" / "data" / "examples" / "raw"
    before = json.loads((raw / "plan.json").read_text())
    campaign = load(raw.parent)
    assert [p["key"] for p in campaign.points] == [p["key"] for p in before["points"]]
    found = [p["axes"]["file_size"] for p in campaign.points if "file_size" in p["axes"]]
    assert found == [p["axes"]["scale"] for p in before["points"] if "scale" in p["axes"]] != []
    declared = [axis for workload in campaign.plan["workloads"].values() for axis in workload["axes"]]
    assert ("file_size", "file_size") in {(axis["name"], axis["column"]) for axis in declared}
    names = {name for run in campaign.runs.values() for name in run["point"]["axes"]}
    assert "file_size" in names and not names & renamed.AXES.keys()


def test_plans_have_new_names_of_keys_and_axes():
    plan = {
        "points": [{"key": "scale~M", "axes": {"scale": "M", "reads.scale": "S"}}],
        "stores": {"x": {"kind": "xrootd", "door": "proxy"}},
        "together": {"s": {"axes": ["scale", "clients"], "rows": [["S", 1]]}},
        "figures": {"f": {"x": "scale", "where": {"scale": "S"}, "title": "scale"}},
        "claims": {"c": {"says": "So.", "along": "scale", "apart": ["reads.scale"]}},
    }
    assert renamed.of_plan(plan) == {
        "points": [{"key": "scale~M", "axes": {"file_size": "M", "reads.file_size": "S"}}],
        "stores": {"x": {"kind": "xrootd", "gateway": "proxy"}},
        "together": {"s": {"axes": ["file_size", "clients"], "rows": [["S", 1]]}},
        "figures": {"f": {"x": "file_size", "where": {"file_size": "S"}, "title": "scale"}},
        "claims": {"c": {"statement": "So.", "along": "file_size", "may_differ": ["reads.file_size"]}},
    }


@pytest.mark.parametrize("damaged", [None, 1, "x", [], {"point": 1}, {"point": {"axes": 1}}, {"roles": [1]}])
def test_damaged_records_stay(damaged):
    assert renamed.of_run(damaged) == damaged
