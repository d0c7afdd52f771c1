"""Figures that a campaign declares, as in docs/figures.md: the plan contains them, and the paper shows them."""

import re
import shutil
import subprocess
import sys

import command_line
import pandas as pd
import pytest
import unsealed
import yaml
from matplotlib.figure import Figure
from paths import ROOT

from storelab.analysis import latex
from storelab.analysis.figures import catalogue, planned, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.tables import build
from storelab.core import figures, records
from storelab.core.errors import UserError
from storelab.workloads import WORKLOADS

PAGE = ROOT / "docs" / "figures.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
SHOWN = {name: figure for text in BLOCKS for name, figure in yaml.safe_load(text)["figures"].items()}
RENDER = Figure.savefig  # as it is outside of unit tests (conftest.py)
EMPTY = {"nothing_there": {"table": "throughput", "x": "clients", "y": "rate", "where": {"clients": ">= 99"}}}


def resolved(**figure):
    return figures.resolved({"mine": figures.Figure.model_validate(figure)}, WORKLOADS.values())


@pytest.fixture(scope="module")
def campaign(example, tmp_path_factory):
    """Return records of puts and gets whose plan has the figures of the page.

    The tables are older: their checksums are those of another plan.
    """
    folder = shutil.copytree(example, tmp_path_factory.mktemp("own") / "campaign")
    plan = records.read_json(folder / "raw" / "plan.json")
    models = {name: figures.Figure.model_validate(content) for name, content in (SHOWN | EMPTY).items()}
    records.write_json(folder / "raw" / "plan.json", plan | {"figures": figures.resolved(models, WORKLOADS.values())})
    return folder


@pytest.mark.heavy
def test_the_pages_examples_are_drawn(campaign, monkeypatch):
    write.build(campaign)
    monkeypatch.setattr(Figure, "savefig", RENDER)
    write.build(campaign, list(SHOWN))
    index = records.read_json(campaign / "figures" / "index.json")["figures"]
    assert set(SHOWN) <= set(index)
    for name in SHOWN:
        assert index[name]["own"] and (campaign / "figures" / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
        assert "n = 3 runs" in index[name]["caption"] and "bars: range" in index[name]["caption"]
    assert index["small_objects"]["caption"].startswith("What more workers bring for small objects (")
    latex.build(campaign)
    text = (campaign / "tex" / "paper.tex").read_text()
    assert "are declared by the campaign." in text and r"\Figure{small_objects}" in text


def test_only_requested_figures_with_data_are_drawn(campaign):
    write.build(campaign, ["download_by_engine", "nothing_there"])
    folder = campaign / "figures"
    content = records.read_json(folder / "nothing_there.json")
    assert (content["table"], content["empty"]) == ("throughput.csv", True)
    assert not (folder / "nothing_there.pdf").exists()
    assert not records.read_json(folder / "download_by_engine.json")["empty"]
    ended, _, err = command_line.storelab("figures", "--campaign-dir", str(campaign), "downloads")
    added = "; for a new figure of the campaign file, run `storelab run "
    assert ended == 2 and "there is no figure 'downloads'; " in err and added in err and err.count("\n") == 1
    ended, _, err = command_line.storelab("figures", "reference", "downloads")
    assert ended == 2 and "there is no figure 'downloads'; " in err and added not in err, "it is sealed"


def test_names_come_only_from_the_plan(campaign):
    plan = records.read_json(campaign / "raw" / "plan.json")
    assert {"throughput_download", "front_ends", "entries", *SHOWN} <= set(catalogue.names(plan))
    assert not {"space", "events_throughput", "latency_open", "systems", "buckets"} & set(catalogue.names(plan))
    built_in = [n for n in catalogue.names(plan) if n not in SHOWN | EMPTY]
    assert catalogue.names({k: v for k, v in plan.items() if k != "figures"}) == built_in


FOUR = {"table": "throughput", "x": "clients", "y": "throughput"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table": "throughputs"}, "did you mean 'throughput'"),
        ({"y": "rates"}, "'rates' is not a metric of throughput"),
        ({"x": "client"}, "did you mean 'clients'"),
        ({"hue": "motor"}, "'motor' is not a column of this campaign"),
        ({"where": {"workload": "gett"}}, "did you mean 'get'"),
        ({"where": {"object_size": ">= 1 parsec"}}, "figures.mine.where.object_size"),
        ({"where": {"clients": ">= ²"}}, "figures.mine.where.clients"),
    ],
)
def test_a_mistake_is_one_line(change, said):
    with pytest.raises(UserError) as error:
        resolved(**FOUR | change)
    assert said in str(error.value) and "\n" not in str(error.value) and "figures.mine" in str(error.value)


def test_axes_become_columns_and_values_are_parsed():
    found = resolved(**FOUR, where={"object_size": ">= 1 MB", "clients": "most"})["mine"]
    assert found["where"] == {"object_size_bytes": ">= 1000000", "clients": "most"} and found["panels"] == ["store"]
    assert resolved(**FOUR, where={"entry_fraction": "< 0.5"})["mine"]["where"] == {"entry_fraction_percent": "< 0.5"}


def test_a_curve_never_mixes_two_settings_and_limits_are_lines(campaign):
    table = build.read(campaign, "throughput")
    more = {"where": {"workload": "get"}, "limits": [{"at": 1250, "label": "10 Gbit/s"}]}
    fig = draw(planned.declared({"figures": resolved(**FOUR, **more)})["mine"], table)
    names = [t.get_text() for t in fig.legends[0].get_texts()]
    assert any("1 front-end" in name for name in names), "front-ends vary, and the figure does not name them"
    assert {t.get_text() for t in fig.axes[0].texts} == {"10 Gbit/s"} and fig.axes[0].get_ylim()[1] > 1250


def test_every_metric_is_a_column_of_its_table(campaign):
    for table, metrics in figures.METRICS.items():
        columns = set(build.read(campaign, table).columns)
        assert {f"{stem}_median_{unit}" for stem, unit, _ in metrics.values()} <= columns, table


def test_too_many_curves_become_panels(campaign):
    table = build.read(campaign, "throughput")
    rows = table.query("workload == 'get' and object_size_bytes == object_size_bytes.max()").head(1)
    axes = [{"workers": w, "buckets": b, "clients": c} for w in range(1, 9) for b in (1, 2) for c in (1, 2, 4)]
    many = pd.concat([rows.assign(**one) for one in axes], ignore_index=True)
    fig = draw(catalogue.FIGURES["throughput_download"], many)
    # 16 curves: eight numbers of workers in a panel for each number of buckets
    assert len(fig.axes) == 2 and len(fig.legends[0].get_texts()) == 8
    assert "2 buckets" in fig.axes[1].get_title()
    colours = [h.get_color() for h in fig.legends[0].legend_handles]
    assert len(set(map(tuple, colours))) == 8


def test_figures_that_the_plan_no_longer_has_go_and_nothing_else(campaign):
    folder = campaign / "figures"
    records.write_json(folder / "gone.json", {"table": "throughput.csv", "empty": False})
    for name in ("gone.pdf", "space.pdf", "mine.pdf"):
        (folder / name).write_text("of an older state, or somebody's own")
    write.build(campaign)
    assert not any((folder / name).exists() for name in ("gone.json", "gone.pdf", "space.pdf"))
    assert (folder / "mine.pdf").exists()


MINE = """
figures:
  {name}:
    {{table: throughput, where: {{workload: get, object_size: "< 1 MB"}}, x: clients, y: rate,
     caption: Small downloads}}
"""


def storelab(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "storelab", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_name_of_a_built_in_figure_is_refused(tmp_path):
    (tmp_path / "more.yaml").write_text(MINE.format(name="systems"))
    for command in (("check",), ("plan", "--write")):
        with_more = ("--configfile", str(tmp_path / "more.yaml"), "--set", f"results={tmp_path}")
        code, out, err = command_line.storelab(*with_more, *command)
        assert (code, out) == (2, "") and "figures.systems: " in err and "'my_systems'" in err and err.count("\n") == 1
    assert not (tmp_path / "reference").exists()


@pytest.mark.heavy
def test_from_the_campaign_file_to_the_figure_its_caption_and_latex(tmp_path):
    """With the records of a campaign that needs no program to plan it again, before it was sealed."""
    folder = tmp_path / "openlab2013-small"
    unsealed.write(ROOT / "results/openlab2013-small/raw", folder / "raw")
    (tmp_path / "more.yaml").write_text(MINE.format(name="small_downloads"))
    changed = {"results": tmp_path, "campaign": "openlab2013", "name": folder.name}
    changed |= {"scale": 0.1, "repetitions": 1, "calibrate": "false"}
    of_it = [word for name, value in changed.items() for word in ("--set", f"{name}={value}")]
    with_mine = ("--configfile", str(tmp_path / "more.yaml"), *of_it)
    steps = (("plan", "--write"), ("collect",), ("tables",), ("figures",), ("latex",))
    for done in (storelab(*with_mine, *step) for step in steps):
        assert done.returncode == 0, done.stderr
    assert (folder / "figures/small_downloads.pdf").read_bytes()[:4] == b"%PDF"
    caption = records.read_json(folder / "figures/index.json")["figures"]["small_downloads"]["caption"]
    assert caption.startswith("Small downloads (") and "Medians; n = " in caption
    text = (folder / "tex/paper.tex").read_text()
    assert r"{small_downloads}{Small downloads (" in text
