"""Errors are results: a store that refuses half of the requests gives tables, a figure and LaTeX, and its runs are in no median."""

import pandas as pd
import pytest
from make_examples import REFUSED, make

from storelab.analysis.figures import catalogue, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import write as latex
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build, errors


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("errors")
    up = {"workload": "put", "duration": "4 s", "axes": {"object_size": "4 kB"}}
    make(path, sweeps={"refused": REFUSED, "up": up}, invalid=("refused",), repetitions=2, calibrate=False)
    build.build(path)
    write.build(path)
    latex.build(path)
    return path


def test_errors_by_status_and_class(folder):
    t = build.read(folder, "errors")
    row = t[t["key"] == "alpha/get/rep~001"].iloc[0]
    assert (row["state"], row["op"], row["status"], row["error"], row["operations"]) == (
        "invalid",
        "GET",
        503,
        "SlowDown",
        450,
    )
    assert row["fraction"] == row["run_fraction"] == pytest.approx(450 / 901)
    assert row["first_s"] == pytest.approx(0.01) and row["last_s"] == pytest.approx(4.5)
    few = t[t["workload"] == "put"].iloc[0]
    assert (few["state"], few["operations"], few["first_s"], few["last_s"]) == ("ok", 1, 2, 2) and t[
        "run_fraction"
    ].is_monotonic_decreasing


def test_several_classes_share_the_fraction(folder):
    t = build.Tables(load(folder))["errors"]
    assert (t.groupby("key")["fraction"].sum() - t.groupby("key")["run_fraction"].first()).abs().max() < 1e-12


def test_over_time_counts_every_operation_of_the_runs_with_errors(folder):
    t = build.read(folder, "errors_over_time")
    run = t[t["key"] == "alpha/get/rep~001"]
    assert (
        run["operations"].sum() == 901
        and set(run["class"]) == {"good", "503 SlowDown"}
        and set(run["failure_budget"]) == {0.01}
    )
    assert run.pivot_table(index="second", columns="class", values="operations").loc[0].to_dict() == {
        "good": 100,
        "503 SlowDown": 100,
    }
    assert set(t[t["workload"] == "put"]["class"]) == {"good", "SlowDown"}, (
        "without an HTTP status the class stands alone"
    )


def test_labels():
    assert errors.label(503, "SlowDown") == "503 SlowDown" and errors.label(0, "ConnectTimeout") == "ConnectTimeout"
    assert errors.label(pd.NA, None) == "good" and errors.label(503, "HTTP 503") == "HTTP 503"


def test_a_campaign_that_is_refused_has_no_rate_and_still_a_paper(folder):
    assert set(build.read(folder, "throughput").query("n > 0")["workload"]) == {"put"}
    assert (build.read(folder, "points")["state"] == "invalid").sum() == 4
    numbers = build.read(folder, "numbers").set_index("name")["value"]
    assert (
        numbers["points_invalid"] == "4"
        and float(numbers["errors_worst"]) == pytest.approx(50, abs=0.1)
        and numbers["errors_commonest"] == "503 SlowDown"
    )
    tex = {p.stem: p.read_text() for p in (folder / "tex").glob("*.tex")}
    assert (
        "503 SlowDown" in tex["table_errors"]
        and "failure\\_budget" in tex["table_invalid"]
        and tex["table_invalid"].count("get/") >= 4
    )
    assert r"\HasInvalidtrue" in tex["figures"] and r"\FigErrorsOverTime" in tex["figures"]


def test_the_figure_names_runs_budget_and_classes(folder):
    table = build.read(folder, "errors_over_time")
    fig = draw(catalogue.FIGURES["errors_over_time"], table)
    said = "\n".join(
        [
            fig.get_supxlabel().replace("\n", " "),
            *(ax.get_title() for ax in fig.axes),
            *(t.get_text() for t in fig.legends[0].get_texts()),
        ]
    )
    for part in (
        "INVALID, 50 % failed",
        "alpha, get, clients 2, rep",
        "failure budget of 1 %",
        "503 SlowDown",
        "good",
        "SlowDown",
    ):
        assert part in said, part
    assert len(fig.axes) == 3, "one panel for the worst run of each group of points"
    assert "Operations that ended in each second" in catalogue.caption(catalogue.FIGURES["errors_over_time"], table)


def test_without_errors_there_is_no_figure(tmp_path):
    make(tmp_path, sweeps={"e": {"workload": "read_entries", "duration": "4 s"}}, repetitions=1, calibrate=False)
    build.build(tmp_path)
    write.build(tmp_path)
    latex.build(tmp_path)
    assert draw(catalogue.FIGURES["errors_over_time"], build.read(tmp_path, "errors_over_time")) is None
    tex = (tmp_path / "tex" / "figures.tex").read_text()
    assert r"\HasErrorsSeenfalse" in tex and r"\HasInvalidfalse" in tex


def test_a_campaign_in_which_every_run_is_invalid(tmp_path):
    make(tmp_path, sweeps={"refused": REFUSED}, invalid=("refused",), repetitions=1, calibrate=False)
    build.build(tmp_path)
    write.build(tmp_path)
    latex.build(tmp_path)
    assert "table_invalid" in {p.stem for p in (tmp_path / "tex").glob("*.tex")}
