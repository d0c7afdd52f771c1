"""Systems side by side: tables of space, capabilities and consistency, their figures and LaTeX, from imagined records."""

import pandas as pd
import pytest
from make_examples import make

from storelab.analysis import capabilities_page
from storelab.analysis.figures import catalogue, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import write as latex
from storelab.analysis.tables import build

RAW = {"object_size": ["4 kB", "10 MB"], "redundancy": ["default", "replica-2"]}
SWEEPS = {
    "put": {"workload": "put", "duration": "4 s", "axes": RAW | {"buckets": [1, 8]}},
    "get": {"workload": "get", "duration": "4 s", "axes": RAW},
    "space": {
        "workload": "space",
        "duration": "4 s",
        "axes": {"object_size": "4 kB", "redundancy": ["default", "replica-2", "replica-3"]},
    },
    "probe": {"workload": "probe", "duration": "4 s"},
    "consistency": {"workload": "consistency", "duration": "4 s", "axes": {"clients": 2, "front_ends": 2}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("systems")
    make(path, use_stores=["alpha", "beta"], sweeps=SWEEPS, repetitions=3)
    build.build(path)
    write.build(path)
    latex.build(path)
    return path


def test_space_counts_raw_bytes_for_each_byte_stored(folder):
    table = build.read(folder, "space").query("store == 'alpha'").set_index("redundancy")
    for redundancy, copies in (("default", 1), ("replica-2", 2), ("replica-3", 3)):
        row = table.loc[redundancy]
        assert row["raw_per_byte_after_put_median_ratio"] == pytest.approx(copies)
        assert row["raw_per_byte_after_delete_median_ratio"] == pytest.approx(copies / 10, rel=1e-3)
        assert row["raw_per_byte_after_reclaim_median_ratio"] == 0 and row["n"] == 3 and row["objects"] == 102


def test_what_is_no_rate_is_in_no_table_of_rates(folder):
    assert set(build.read(folder, "throughput")["workload"]) == {"put", "get"}


def test_systems_stand_side_by_side(folder):
    fig = draw(catalogue.FIGURES["systems"], build.read(folder, "throughput"))
    names = [t.get_text() for t in fig.axes[0].get_yticklabels()]
    assert names == ["beta, replica-2", "beta", "alpha, replica-2", "alpha"], (
        "deployments as configured bear the store's name alone"
    )
    assert len(fig.axes) == 4 and "n = 3 runs" in fig.get_supxlabel()
    tex = (folder / "tex" / "table_systems.tex").read_text()
    assert "alpha, replica-2 & s5cmd" in tex and "Uploads 4 kB" in tex.replace("~", " ").replace(r"\\{}", " ")


def test_buckets_have_a_figure_and_front_ends_have_none(folder):
    throughput = build.read(folder, "throughput")
    assert draw(catalogue.FIGURES["front_ends"], throughput) is None
    fig = draw(catalogue.FIGURES["buckets"], throughput)
    assert [ax.get_xlabel() for ax in fig.axes] == ["Buckets"] * len(
        fig.axes
    ) and "alpha, replica-2, uploads of 4 kB" in {ax.get_title() for ax in fig.axes}


def test_front_ends_on_shared_cores_say_that_they_cannot_tell(tmp_path):
    sweeps = {
        "d": {
            "workload": "get",
            "duration": "4 s",
            "axes": {"object_size": "10 MB", "clients": [1, 2], "front_ends": [1, 2]},
        }
    }
    make(tmp_path, sweeps=sweeps)
    build.build(tmp_path, ["throughput"])
    table = build.read(tmp_path, "throughput")
    fig = draw(catalogue.FIGURES["front_ends"], table)
    assert "it cannot tell" in fig.get_supxlabel().replace("\n", " ") and "cannot tell" in catalogue.caption(
        catalogue.FIGURES["front_ends"], table
    )


def test_the_papers_tables(folder):
    capabilities = (folder / "tex" / "table_capabilities.tex").read_text()
    assert "multi range 2 & \\textbf{differs} & yes" in capabilities and "single range & yes & yes" in capabilities
    evidence = (folder / "tex" / "table_evidence.tex").read_text()
    assert "no word of it" in evidence and "\\&" in evidence and "single range" not in evidence
    consistency = (folder / "tex" / "table_consistency.tex").read_text()
    assert "0 of 600" in consistency and "another front-end & 0 of 300" in consistency
    assert "sections/systems" in (folder / "tex" / "sections.tex").read_text()
    table = build.read(folder, "consistency")
    assert table["fraction_upper95"].max() < 0.011 and table["errors"].sum() == 12 and pd.notna(table["tried"]).all()


def test_the_page_of_the_docs(folder):
    text = capabilities_page.page(build.read(folder, "capabilities"), "example", "results/example")
    assert "| multi range 2 | **differs** | yes |" in text and "| | alpha | beta |" in text
    assert "| alpha | multi range 2 | differs | 206 with the first range only & no word of it |" in text
