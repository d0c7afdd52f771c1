"""Check the YAML blocks of docs/stores in config.yaml: every campaign measures the store that a page names."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from paths import ROOT

from storelab.cli import cli, workflow
from storelab.core import config, plan
from storelab.stores import config as stores_config
from storelab.workloads import WORKLOADS

CAMPAIGNS = {p.stem: yaml.safe_load(p.read_text()) for p in sorted((ROOT / "campaigns").glob("*.yaml"))}
FEWER = {"repetitions": 1, "calibrate": False}
DEMO = {"campaign": "demo"}


def blocks() -> dict[str, list[dict]]:
    """Return the YAML blocks of each page."""
    fenced = re.compile(r"^```yaml\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
    pages = sorted((ROOT / "docs/stores").glob("*.md"))
    return {page.stem: [yaml.safe_load(text) for text in fenced.findall(page.read_text())] for page in pages}


WHOLE = {page: [block for block in found if "stores" in block] for page, found in blocks().items()}


def configured(folder: Path, block: dict) -> Path:
    """Write the shipped config.yaml with a block in it, as its page says."""
    folder.mkdir(exist_ok=True)
    (folder / "campaigns").symlink_to(ROOT / "campaigns")
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text())
    files = {"files": {"mine": {"path": "/data/mine.root"}}}  # for the campaign own-file
    main = folder / "config.yaml"
    main.write_text(yaml.safe_dump(shipped | block | files | {"stores": shipped["stores"] | block["stores"]}))
    return main


@pytest.fixture
def main(tmp_path):
    """Return config.yaml with the first block of the page on S3, which names the store `mine`."""
    return configured(tmp_path / "s3", WHOLE["s3"][0])


def test_campaigns_measure_the_named_store(tmp_path):
    """Campaigns with `stores_to_measure` measure these stores, and the message names those that they leave out."""
    wrong = []
    for page, found in WHOLE.items():
        for number, block in enumerate(found):
            wanted = block["stores_to_measure"]
            main = configured(tmp_path / f"{page}-{number}", block)
            for campaign, text in CAMPAIGNS.items():
                points = plan.make(stores_config.load(main, (), {"campaign": campaign} | FEWER), WORKLOADS)
                measured = {p.store for p in points}
                left_out = set(wanted) - measured
                message = config.overruled(main, (), {"campaign": campaign})
                named = {f"campaigns/{campaign}.yaml: ", f" {main}; ", *left_out} if left_out else set()
                if (
                    not set(wanted) <= set(block["stores"])
                    or ("stores_to_measure" not in text and measured != set(wanted))
                    or (message is not None) != bool(left_out)
                    or not all(part in (message or "") for part in named)
                ):
                    wrong.append((page, number, campaign, message))
    assert not wrong
    assert WHOLE.keys() >= {"s3", "gateways", "directory", "seaweedfs", "ceph"} and sum(map(len, WHOLE.values())) > 5


def test_partial_blocks_are_settings_of_the_first_store():
    parts = [(page, block) for page, found in blocks().items() for block in found if "stores" not in block]
    assert len(parts) >= 2
    for page, settings in parts:
        ((name, store),) = WHOLE[page][0]["stores"].items()
        stores = {"stores": {name: store | settings}, "stores_to_measure": [name], "campaign": "x", "name": "x"}
        stores_config.Config.model_validate(stores | {"sweeps": {"s": {"workload": "get"}}})


def test_stores_named_for_this_run_are_measured(main):
    more = main.with_name("more.yaml")
    more.write_text("stores_to_measure: [mine]\n")
    for extra, over in (((), DEMO | {"stores_to_measure": ["mine"]}), ((more,), DEMO)):
        assert stores_config.load(main, extra, over).stores_to_measure == ["mine"]
        assert config.overruled(main, extra, over) is None


def test_wrong_overruled_stores_stop_nothing(main):
    text = main.read_text()
    for value, reported in (("mine", True), ("[mine, 7]", True), ("null", False), ("[]", False)):
        main.write_text(re.sub(r"(?m)^stores_to_measure:\n(- .*\n)+", f"stores_to_measure: {value}\n", text))
        message = config.overruled(main, (), DEMO)
        assert ("mine" in message) if reported else message is None, value


def test_overruled_stores_are_reported_once(main, tmp_path, capsys):
    for command in ("plan", "check"):
        words = ["--config", str(main), "--set", "campaign=demo", "--set", f"results={tmp_path}", command]
        assert CliRunner().invoke(cli, words).stderr.count("campaigns/demo.yaml: ") == 1, command
    over = DEMO | {"measure": True, "results": str(tmp_path), "state": str(tmp_path / "state")}
    workflow.prepare(over, main)
    assert capsys.readouterr().err.count("campaigns/demo.yaml: ") == 1
    workflow.prepare(over | {"campaign": "site"}, main)
    assert "stores_to_measure" not in capsys.readouterr().err


def test_steps_of_the_tutorial_fit_into_config(tmp_path):
    """The blocks are inserted into the text of config.yaml, as the tutorial says."""
    page = (ROOT / "docs/tutorials/own-endpoint.md").read_text()
    store, chosen = re.findall(r"^```yaml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)[:2]
    text = (ROOT / "config.yaml").read_text()
    assert text.count("\nstores:\n") == 1 and text.count("\nstores_to_measure: [seaweedfs]") == 1
    text = text.replace("\nstores:\n", f"\nstores:\n{store}").replace(
        "\nstores_to_measure: [seaweedfs]", f"\n{chosen.strip()}"
    )
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "campaigns").symlink_to(ROOT / "campaigns")
    loaded = stores_config.load(tmp_path / "config.yaml", (), {"campaign": "site"} | FEWER)
    assert {p.store for p in plan.make(loaded, WORKLOADS)} == {"mine"} and len(loaded.stores) > 5
