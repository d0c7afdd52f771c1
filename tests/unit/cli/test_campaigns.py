"""The campaign that a command works on: by name, file or folder; by an argument or the older options."""

import json

import click
import pytest
from laboratory import in_process

from storelab.cli import Settings, analysis, campaigns, cli, compare
from storelab.cli.campaigns import find
from storelab.core.errors import UserError

STORE = {"kind": "directory", "path": "/tmp"}
SWEEP = {"workload": "put", "axes": {"engine": "fsspec", "object_size": "1 kB"}, "duration": "1 s", "warm_up": "0 s"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Enter a project with the campaign files one, two (its name is other) and broken; results of one, other, old."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "config.yaml").write_text(json.dumps({"campaign": "one", "stores": {"here": STORE}}))
    for file, name in (("one", "one"), ("two", "other")):
        text = {"name": name, "stores_to_measure": ["here"], "calibrate": False, "sweeps": {"up": SWEEP}}
        (tmp_path / "campaigns" / f"{file}.yaml").write_text(json.dumps(text))
    (tmp_path / "campaigns" / "broken.yaml").write_text("name: [")
    for name in ("one", "other", "old"):
        (tmp_path / "results" / name / "raw").mkdir(parents=True)
    return tmp_path


def refused(call, *words: str) -> str:
    with pytest.raises(UserError) as raised:
        call()
    line = str(raised.value)
    assert "\n" not in line and all(word in line for word in words), line
    return line


@pytest.mark.parametrize(
    ("text", "folder", "file"),
    [
        ("one", "results/one", "one"),
        ("two", "results/other", "two"),
        ("one.yaml", "results/one", "one"),
        ("campaigns/two.yaml", "results/other", "campaigns/two.yaml"),
        ("other", "results/other", "two"),
        ("results/other/", "results/other", "two"),
        ("old", "results/old", None),
        ("results/old", "results/old", None),
    ],
)
def test_campaign_is_found_by_name_file_and_folder(project, text, folder, file):
    found = find(Settings(), text)
    assert found.folder.as_posix() == folder
    assert (found.overrides or {}).get("campaign") == file
    if file:
        assert Settings().choosing(found.required_overrides()).load().campaign_dir.as_posix() == folder
    else:
        refused(found.required_overrides, "campaign old", "no file in campaigns/")


def test_folder_at_another_path_is_its_campaign(project, tmp_path):
    (tmp_path / "far" / "one" / "raw").mkdir(parents=True)
    for text in ("far/one", str(tmp_path / "far" / "one")):
        assert Settings().choosing(find(Settings(), text).required_overrides()).load().campaign_dir.samefile("far/one")
    (tmp_path / "kept" / "raw").mkdir(parents=True)
    assert find(Settings(), "kept").folder.as_posix() == "kept"


def test_compare_prefers_kept_run_to_campaign(project, monkeypatch):
    """A kept run is a folder with records. Another folder with the name of a campaign does not hide it."""
    monkeypatch.setattr("storelab.analysis.compare.read", lambda text, results, store: text)
    assert compare._side(Settings(), "two:here") == "results/other:here"
    (project / "two").mkdir()
    assert compare._side(Settings(), "two:here") == "results/other:here"
    (project / "two" / "raw").mkdir()
    assert compare._side(Settings(), "two:here") == "two:here"


def test_unknown_campaign_is_one_line_with_near_names(project):
    refused(lambda: find(Settings(), "onee"), "there is no campaign 'onee'", "did you mean 'one'?")
    refused(lambda: find(Settings(), "xyz"), "one of broken, old, one, other, two")
    refused(lambda: find(Settings(), "onee.yaml"), "there is no campaign file 'onee.yaml'", "'one'")
    refused(lambda: find(Settings(), "campaigns/one"), "no folder 'campaigns/one'", "give the name only: one")
    refused(lambda: find(Settings(), "results/two"), "two has no records in results/two", "`storelab run two`")
    refused(lambda: find(Settings(), "results/onee"), "no folder 'results/onee'", "'one'")
    refused(lambda: find(Settings(), "./config.yaml/"), "./config.yaml/", "is not a campaign")
    (project / "results" / "papers").mkdir()
    for text in ("", "papers", "a\nb", "../../etc"):
        refused(lambda text=text: find(Settings(), text))
    for number in range(campaigns.MAX_NAMES):
        (project / "results" / f"more{number}" / "raw").mkdir(parents=True)
    assert len(refused(lambda: find(Settings(), "xyz"), "one of the 17 in campaigns/ and results/")) < 120


def test_name_of_two_campaigns_is_refused(project):
    (project / "results" / "two" / "raw").mkdir(parents=True)
    refused(lambda: find(Settings(), "two"), "results/other", "give campaigns/two.yaml or results/two")
    assert find(Settings(), "campaigns/two.yaml").folder.name == "other"
    assert find(Settings(), "results/two").folder.name == "two"
    assert find(Settings(set_=("name=mine",)), "two").folder.name == "mine"


def test_fault_in_another_campaign_file_does_not_matter(project):
    assert find(Settings(), "other").overrides == {"campaign": "two", "results": "results"}
    refused(lambda: find(Settings(), "broken"), "campaigns/broken.yaml")


def test_commands_take_the_campaign_first(project):
    for arguments in (["two"], ["results/other"], ["two.yaml"]):
        code, out, err = in_process(project, "plan", *arguments, "--json")
        assert code == 0 and json.loads(out)["campaign"] == "other", err
    assert json.loads(in_process(project, "--set", "campaign=two", "plan", "--json")[1])["campaign"] == "other"
    assert json.loads(in_process(project, "plan", "--json")[1])["campaign"] == "one"
    key = json.loads(in_process(project, "plan", "two", "--json")[1])["points"][0]["key"]
    assert in_process(project, "measure", "two", f"{key}x")[2].count("campaign 'other'") == 1
    assert in_process(project, "measure", f"{key}x")[2].count("campaign 'one'") == 1
    for words in ((), ("one", key, key)):
        assert in_process(project, "measure", *words)[0] == 2


def test_campaign_given_twice_is_refused(project):
    for arguments in (
        ("--set", "campaign=two", "plan", "one"),
        ("--set", "campaign=two", "verify", "one"),
        ("verify", "--campaign-dir", "results/one", "two"),
    ):
        code, out, err = in_process(project, *arguments)
        assert code == 2 and not out and "leave one of them out" in err and err.count("\n") == 1, err


def test_no_campaign_and_no_configuration_is_one_line(tmp_path):
    code, _, err = in_process(tmp_path, "verify")
    assert code == 2 and "none is given, and there is no config.yaml here" in err


def test_folder_without_a_project_is_reported(tmp_path):
    for words, place in ((("verify", "one"), "no config.yaml here"), (("doctor",), "config.yaml: does not exist")):
        code, _, err = in_process(tmp_path, *words)
        assert code == 2 and place in err and "`storelab init FOLDER`" in err and err.count("\n") == 1, err


def test_file_with_the_name_of_the_folder_comes_first(project):
    """A copy of a campaign file, made to change it, still has the name of the original."""
    (project / "campaigns" / "a-copy.yaml").write_bytes((project / "campaigns" / "one.yaml").read_bytes())
    assert find(Settings(), "results/one").overrides["campaign"] == "one"


def test_part_of_a_campaign_is_refused(project):
    refused(lambda: find(Settings(), "results/one/raw"), "results/one/raw: is a part of a campaign", "give results/one")


def names_of(*words: str) -> tuple[str, list[str]]:
    """Return the folder and the names that `storelab figures` gets."""
    outer = cli.make_context("storelab", [*words[: words.index("figures")], "figures"])
    outer.obj = Settings(**outer.params)
    ctx = analysis.figures.make_context("figures", list(words[words.index("figures") + 1 :]), parent=outer)
    return ctx.params["campaign_dir"].as_posix(), list(ctx.params["names"])


def test_names_of_figures_follow_the_campaign(project):
    expected = "results/other", ["entries", "volume"]
    assert names_of("figures", "two", "entries", "volume") == expected
    assert names_of("figures", "--campaign-dir", "results/other", "entries", "volume") == expected
    assert names_of("--set", "campaign=two", "figures", "entries", "volume") == expected
    assert names_of("figures", "entries", "--campaign-dir", "results/other", "volume") == expected
    assert names_of("figures", "results/other") == ("results/other", [])
    assert names_of("figures") == ("results/one", [])


def test_names_of_campaigns_are_completed(project):
    ctx = click.Context(cli)
    found = campaigns.complete(ctx, cli.params[0], "o")
    assert [item.value for item in found] == ["old", "one", "other"]
    assert [item.type for item in campaigns.complete(ctx, cli.params[0], "results/")] == ["dir"]
