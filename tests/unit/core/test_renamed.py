"""Old names of configuration keys: each still works, and prints one line with the new name."""

import pytest

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
    assert f"both `{before}` and `{new}` are given" in str(caught.value)
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
