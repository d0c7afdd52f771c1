"""Errors are results: they have tables, a figure and LaTeX, and the runs that they make invalid are in no median."""

import math
from collections import Counter
from types import SimpleNamespace

import drawn_cells
import pandas as pd
import pytest
from drawn_texts import texts
from make_examples import REFUSED, S, make
from tex_files import TexFiles

from campaigns import built
from storelab.analysis import latex
from storelab.analysis.figures import catalogue, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.tables import build, errors
from storelab.core.campaign import Campaign as Settings


@pytest.fixture(scope="module")
def folder():
    return built("refused")


def test_labels():
    found = [errors.label(503, "SlowDown"), errors.label(0, "Timeout"), errors.label(pd.NA, None)]
    assert [*found, errors.label(503, "HTTP 503")] == ["503 SlowDown", "Timeout", "good", "HTTP 503"]


def test_refusing_store_has_no_rate_and_still_a_paper(folder):
    assert set(build.read(folder, "throughput").query("n > 0")["workload"]) == {"put"}
    assert (build.read(folder, "points")["state"] == "invalid").sum() == 4
    numbers = build.read(folder, "numbers").set_index("name")["value"]
    assert (numbers["points_invalid"], numbers["errors_told"]) == ("4", "two kinds, most often 503 SlowDown")
    assert float(numbers["errors_worst"]) == pytest.approx(50, abs=0.1)
    tex = TexFiles("refused", "errors_over_time")
    assert "503 SlowDown" in tex["table_errors"] and tex["table_invalid"].count("get/") >= 4
    assert "failure\\_budget" in tex["table_invalid"]
    assert r"invalid; Table~\ref{tab:invalid} lists them" in tex["paper"] and "by class and over time" in tex["paper"]


def test_figure_names_runs_budget_and_classes(folder):
    table = build.read(folder, "errors_over_time")
    fig = draw(catalogue.FIGURES["errors_over_time"], table)
    shown = texts(fig).replace("\n", " ")
    for part in ("INVALID, 50 % failed", "alpha, get, clients 2, rep", "failure budget of 1 %", "503 SlowDown", "good"):
        assert part in shown, part
    assert len(fig.axes) == 3, "one panel for the worst run of each group of points"
    assert "Operations that ended in each second" in catalogue.caption(catalogue.FIGURES["errors_over_time"], table)


def test_campaign_of_invalid_runs_has_a_paper(tmp_path):
    make(tmp_path, sweeps={"refused": REFUSED}, invalid=("refused",), repetitions=1, calibrate=False)
    build.build(tmp_path)
    write.build(tmp_path)
    latex.build(tmp_path)
    assert "table_invalid" in {p.stem for p in (tmp_path / "tex").glob("*.tex")}


def test_failure_budget_is_the_documented_default():
    """A campaign without a budget has the documented one, 1 %."""
    assert errors.budget(SimpleNamespace(plan={"campaign": {}})) == Settings.model_fields["failure_budget"].default
    assert errors.budget(SimpleNamespace(plan={"campaign": {"failure_budget": 0.2}})) == 0.2


def test_numbers_of_errors():
    """The worst run's store and workload; the class with the most operations over all runs."""
    found = {"store": ["b", "a", "a"], "workload": ["put", "get", "get"], "run_fraction": [0.5, 0.2, 0.2]}
    found |= {"status": [404, 503, 503], "error": ["NoSuchKey", "SlowDown", "SlowDown"], "operations": [7, 4, 5]}
    rows = {"state": ["ok", "invalid", "invalid", "ok"], "errors": [7, 4, 5, 0], "operations": [7, 16, 20, 3]}
    campaign = SimpleNamespace(plan={"campaign": {"failure_budget": 0.03}})
    content = {name: value for name, value, _ in errors.numbers(campaign, pd.DataFrame(rows), pd.DataFrame(found))}
    assert content == {
        **{"failure_budget": 3.0, "points_invalid": 2, "errors_all": 16, "errors_runs": 3, "errors_worst": 50.0},
        **{"errors_worst_store": "b", "errors_worst_workload": "put"},
        **{"errors_told": "two kinds, most often 503 SlowDown"},
    }


# Every cell of a drawn campaign, by plain loops


def test_every_cell_of_errors():
    found = {(r["key"], r["status"], r["error"]): r for r in drawn_cells.table("errors").to_dict("records")}
    assert len(found) == len(drawn_cells.table("errors"))
    expected = {}
    for key, run in drawn_cells.runs().items():
        every, bad = sum(op["count"] for op in run.every), [op for op in run.every if op["error"]]
        whole = sum(op["count"] for op in bad)
        for what in {(op["status"] or 0, op["error"]) for op in bad}:
            mine = [op for op in bad if (op["status"] or 0, op["error"]) == what]
            ends = [(op["end_ns"] - run.start) / S for op in mine]
            took = sorted(op["end_ns"] - (op.get("intended_ns") or op["start_ns"]) for op in mine if op["start_ns"])
            count = sum(op["count"] for op in mine)
            expected[(key, *what)] = {
                **{"state": run.state, "rep": run.point.rep, "op": run.point.workload.upper(), "operations": count},
                **{"fraction": count / every, "run_fraction": whole / every, "first_s": min(ends), "last_s": max(ends)},
                **{"latency_p50_ms": took[math.ceil(len(took) / 2) - 1] / 1e6 if took else None, "store": "alpha"},
            }
    assert set(found) == set(expected) and len(expected) > 40
    for place, cells in expected.items():
        drawn_cells.check(found[place], cells, place)
    worst = sorted((-e["run_fraction"], key, -e["operations"], *what) for (key, *what), e in expected.items())
    assert list(found) == [(key, *what) for _, key, _, *what in worst], "the worst one is first"


def test_every_cell_of_errors_over_time():
    expected = Counter()
    for key, run in drawn_cells.runs().items():
        for op in run.every if any(op["error"] for op in run.every) else ():
            result = (
                {503: "503 SlowDown", 404: "404 NoSuchKey"}.get(op["status"], op["error"]) if op["error"] else "good"
            )
            if (passed := op["end_ns"] - run.start) > 0:
                expected[key, (passed - 1) // S, result] += op["count"]
    table = drawn_cells.table("errors_over_time")
    found = {(r["key"], r["second"], r["class"]): r for r in table.to_dict("records")}
    assert set(found) == set(expected) and len(found) == len(table)
    for place, row in found.items():
        run = drawn_cells.runs()[row["key"]]
        result = (row["operations"], row["state"], row["workload"], row["failure_budget"], row["shared_host"])
        assert result == (expected[place], run.state, run.point.workload, 0.01, False), place
