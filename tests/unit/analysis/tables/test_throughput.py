"""throughput.csv: medians of rates over runs, and the classes of operations that the text quotes."""

import pandas as pd
from throughput_rows import spread

from campaigns import built
from storelab.analysis.tables import build, points, throughput


def test_medians_over_runs():
    table = build.read(built("example"), "throughput").query("workload == 'put' and front_ends == 1")
    row = table.query("object_size_bytes == 4000 and clients == 1").iloc[0]
    assert (row["n"], row["interval"], row["coverage_percent"]) == (3, "range", 75)
    assert [row[f"rate_{part}_per_s"] for part in ("median", "low", "high")] == [100, 99, 101]
    assert row["errors"] == 3 and row["reps_failed"] == 0
    short = table.query("object_size_bytes == 10_000_000 and clients == 4").iloc[0]
    assert (short["n"], short["reps_planned"], short["reps_failed"]) == (2, 3, 1)


def test_window_of_a_group_is_that_of_most_runs():
    runs = points.rated(build.read(built("example"), "points").query("workload == 'put' and state == 'ok'"))
    runs["duration_s"] = runs["rep"].map({1: 4.0}).fillna(11.2)  # the window was extended after the first repetition
    made = throughput.table(runs, ["store", "workload", "object_size_bytes", "clients", "front_ends"])
    assert made["duration_s"][made["n"] == 3].unique().tolist() == [11.2]


def test_text_quotes_best_group_of_each_class():
    large = throughput.groups.LARGE
    base = {"store": "alpha", "workload": "get", "n": 6, "interval": "x"}
    groups = [(large, 100.0, "obstore"), (large * 2, 90.0, "s5cmd")]
    rows = []
    for size, rate, engine in groups:
        rates = spread("throughput", "mb_per_s", rate) | spread("rate", "per_s", rate)
        rows.append(base | {"object_size_bytes": size, "engine": engine} | rates)
    table = pd.DataFrame(rows).astype({"object_size_bytes": "Int64"})
    names = [n for n, of in throughput.CLASSES.items() if of.workload == "get" and of.large]
    assert names and all(len(throughput.rows_of_class(table, n)) == 2 for n in names), "LARGE itself is large"
    content = {name: value for name, value, _ in throughput.numbers(table)}
    for name in names:
        assert (content[f"best_{name}"], content[f"best_{name}_spread"]) == (100.0, "100 [90, 110]")
        assert content[f"best_{name}_store"] == "alpha"
    small = [n for n, of in throughput.CLASSES.items() if of.large is False]
    assert small and not any(f"best_{n}" in content for n in small)


def test_unsteady_runs_are_counted_by_shape():
    one, other = throughput.steadiness.UNSTEADY[:2]
    assert throughput.unsteady(pd.Series(["steady", one, other, one])) == f"{one} 2, {other} 1"
