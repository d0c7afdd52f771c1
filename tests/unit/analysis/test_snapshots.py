"""Tables, LaTeX and figures of two synthetic campaigns, and plans of campaign files, must equal the snapshots.

The sealed campaigns are rebuilt as well; of them only the structure is checked.
"""

import hashlib
import json
import re

import command_line
import figure_data
import pandas as pd
import pytest
import snapshots
from paths import ROOT

import campaigns

NAMES = ("broad", "roles")


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_those_of_the_snapshot(name, file_regression):
    snapshots.check(file_regression, f"{name}/tables", snapshots.tables(campaigns.built(name)))


@pytest.mark.parametrize("name", NAMES)
def test_latex_is_that_of_the_snapshot(name, file_regression):
    snapshots.check(file_regression, f"{name}/tex", snapshots.tex(campaigns.typeset(name)))


@pytest.mark.parametrize("name", NAMES)
def test_figures_show_the_data_of_the_snapshot(name, file_regression, tmp_path):
    figures = figure_data.describe_campaign(campaigns.built(name), tmp_path)
    index = json.loads((campaigns.typeset(name) / "figures" / "index.json").read_text())["figures"]
    assert list(index) == list(figures)
    content = {figure: {"caption": index[figure]["caption"], **shown} for figure, shown in figures.items()}
    snapshots.check(file_regression, f"{name}/figures", content)


def test_campaign_files_plan_the_points_of_the_snapshot(file_regression, tmp_path):
    """Compare number of points and digest of their keys in order, with scale=0.1 where that plans other points."""
    found = {}
    for path in sorted((ROOT / "campaigns").glob("*.yaml")):
        for scale in ("", "scale=0.1"):
            settings = [f"campaign={path.stem}", f"results={tmp_path}", *filter(None, [scale])]
            code, out, err = command_line.storelab(*(w for s in settings for w in ("--set", s)), "plan")
            keys = [line.split()[-1] for line in out.splitlines()]
            digest = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:12]
            planned = f"{len(keys)} points, {digest}" if code == 0 else f"refused: {err.split(':')[1].strip()}"
            if planned != found.get(path.stem):
                found[f"{path.stem} {scale}".strip()] = planned
    snapshots.check(file_regression, "plans", found)


def test_differences_name_places_and_ignore_last_digits():
    now = {"a": ["1.0000001", "x"], "b": 2.0, "c": [1, 2]}
    assert list(snapshots.differences(now, {"a": ["1.0", "x"], "b": 2.0000001, "c": [1, 2]})) == []
    before = {"a": ["1.0001", "y"], "b": 2.1, "c": [1], "d": 0}
    places = [line.partition(":")[0] for line in snapshots.differences(now, before)]
    assert places == ["/a/0", "/a/1", "/b", "/c", "/d"]


# Tables of the sealed campaigns without rows, because nothing of the kind was measured.
NO_ROLES = {
    *("collections", "disturbances", "launches", "recovery", "releases", "roles", "soak", "soak_trends", "timeline"),
    *("consistency", "errors", "errors_over_time"),
}
ONLY_OBJECTS = {"capabilities", "durability", "events", "space", "sparse", "storage_lab", "table1", "table2"}
EMPTY = {"reference": NO_ROLES, "throughput2015": NO_ROLES | ONLY_OBJECTS}


@pytest.mark.heavy
@pytest.mark.parametrize("name", EMPTY)
def test_sealed_campaigns_are_rebuilt(name, tmp_path):
    folder = campaigns.typeset(name)
    assert command_line.storelab("verify", "--campaign-dir", str(folder))[0] == 0
    rows = {path.stem: len(pd.read_csv(path)) for path in (folder / "tables").glob("*.csv")}
    assert {table for table, n in rows.items() if n == 0} == EMPTY[name]
    plan = json.loads((folder / "raw" / "plan.json").read_text())
    assert rows["points"] == len(plan["points"])
    figures = figure_data.describe_campaign(folder, tmp_path)
    index = json.loads((folder / "figures" / "index.json").read_text())["figures"]
    assert list(figures) == list(index) and len(index) >= 5
    for figure, shown in figures.items():
        panels = [panel for panel in shown["panels"] if panel["series"]]
        assert panels and index[figure]["caption"], figure
        assert "nan" not in json.dumps(shown).lower(), figure
    paper = (folder / "tex" / "paper.tex").read_text()
    assert all(f"{{fig:{figure}}}" in paper for figure in index)
    code, verdict, _ = command_line.storelab("verdict", "--campaign-dir", str(folder))
    stores = {point["store"] for point in plan["points"] if point["workload"] == "get"}
    assert code in (0, 1) and stores == set(re.findall(r"^([\w-]+), ", verdict, re.MULTILINE))
