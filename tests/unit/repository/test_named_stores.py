"""The store that a page of docs/stores names is the one that is measured: each of its YAML blocks, in config.yaml, with each campaign."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from paths import ROOT

from storelab.cli import cli, workflow
from storelab.core import config, plan
from storelab.workloads import WORKLOADS

CAMPAIGNS = sorted(p.stem for p in (ROOT / "campaigns").glob("*.yaml"))
# Campaigns that are about certain stores: the demonstration, a comparison, a sealed campaign, a testbed. They name them.
OF_THEIR_OWN = {
    name for name in CAMPAIGNS if "use_stores" in yaml.safe_load((ROOT / f"campaigns/{name}.yaml").read_text())
}
BLOCKS = [
    (f"{page.stem}-{i}", yaml.safe_load(text))
    for page in sorted((ROOT / "docs/stores").glob("*.md"))
    for i, text in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL))
]
WHOLE = [(name, block) for name, block in BLOCKS if "stores" in block]


def configured(folder: Path, block: dict) -> Path:
    """config.yaml as it ships, with the block written into it as its page says."""
    (folder / "campaigns").symlink_to(ROOT / "campaigns")
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text())
    files = {"files": {"mine": {"path": "/data/mine.root"}}}  # for the campaign own-file
    main = folder / "config.yaml"
    main.write_text(yaml.safe_dump(shipped | block | files | {"stores": shipped["stores"] | block["stores"]}))
    return main


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("block", [pytest.param(b, id=n) for n, b in WHOLE])
def test_the_store_that_is_named_is_measured_or_the_override_is_said(block, campaign, tmp_path):
    files = (configured(tmp_path, block), (), {"campaign": campaign})
    used = config.load(*files)
    measured = {p.store for p in plan.make(used, WORKLOADS)} - {"nullserver"}
    said = config.overruled(*files)
    assert set(block["use_stores"]) <= set(block["stores"])
    if campaign not in OF_THEIR_OWN:
        assert measured == set(block["use_stores"]) and said is None
    elif left := [name for name in block["use_stores"] if name not in measured]:
        assert f"campaigns/{campaign}.yaml: measures its own stores" in said and "\n" not in said
        assert f"not {', '.join(left)} of {tmp_path}/config.yaml" in said
    else:
        assert said is None


def test_the_lines_of_a_page_belong_to_its_first_store():
    """Blocks that are no whole configuration are settings of the store above them."""
    first = {name.rpartition("-")[0]: block for name, block in reversed(WHOLE)}
    parts = [(name.rpartition("-")[0], block) for name, block in BLOCKS if "stores" not in block]
    assert len(parts) >= 2
    for page, settings in parts:
        ((name, store),) = first[page]["stores"].items()
        stores = {"stores": {name: store | settings}, "use_stores": [name], "campaign": "x", "name": "x"}
        config.Config.model_validate(stores | {"sweeps": {"s": {"workload": "get"}}})


def test_every_page_of_a_store_that_is_external_has_a_block():
    assert {name.rpartition("-")[0] for name, _ in WHOLE} >= {"s3", "doors", "directory", "seaweedfs", "ceph"}


def test_stores_that_somebody_names_for_this_run_are_measured_without_a_word(tmp_path):
    main = configured(tmp_path, dict(WHOLE)["s3-0"])
    over = {"campaign": "demo", "use_stores": ["mine"]}
    assert config.load(main, (), over).use_stores == ["mine"] and config.overruled(main, (), over) is None
    more = tmp_path / "more.yaml"
    more.write_text("use_stores: [mine]\n")
    assert config.load(main, (more,), {"campaign": "demo"}).use_stores == ["mine"]
    assert config.overruled(main, (more,), {"campaign": "demo"}) is None


@pytest.mark.parametrize("value", ["mine", "[mine, 7]", "null", "[]"])
def test_what_is_overruled_need_not_be_right(value, tmp_path):
    """The campaign's stores win: a wrong value of config.yaml is told, it stops nothing."""
    main = configured(tmp_path, dict(WHOLE)["s3-0"])
    main.write_text(re.sub(r"(?m)^use_stores:\n(- .*\n)+", f"use_stores: {value}\n", main.read_text()))
    said = config.overruled(main, (), {"campaign": "demo"})
    assert ("mine" in said) if "mine" in value else said is None


@pytest.mark.parametrize("command", ["plan", "check"])
def test_plan_and_check_say_it(command, tmp_path, monkeypatch):
    block = dict(WHOLE)["s3-0"]
    main = configured(tmp_path, block)
    done = CliRunner().invoke(
        cli, ["--config", str(main), "--set", "campaign=demo", "--set", f"results={tmp_path}", command]
    )
    assert "measures its own stores, seaweedfs, not mine of" in done.stderr


def test_measuring_says_it_once(tmp_path, capsys):
    main = configured(tmp_path, dict(WHOLE)["s3-0"])
    over = {"campaign": "demo", "measure": True, "results": str(tmp_path), "state": str(tmp_path / "state")}
    workflow.prepare(over, main)
    assert capsys.readouterr().err.count("measures its own stores, seaweedfs, not mine of") == 1
    workflow.prepare(over | {"campaign": "site"}, main)
    assert "measures its own" not in capsys.readouterr().err
