"""Check ratios of two groups of runs, two sides, and the command.

The ratios are compared with SciPy's exact test. Other tests check the wording, groups with too few runs, and the ratio
of all points.
"""

import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from make_examples import make

from storelab.analysis import compare
from storelab.analysis.parts import derived
from storelab.analysis.statistics import ratios
from storelab.analysis.tables import build
from storelab.cli import compare as command
from storelab.core.errors import UserError

SWEEPS = {
    "upload": {"workload": "put", "duration": "4 s", "axes": {"object_size": ["4 kB", "10 MB"], "clients": [1, 2]}},
    "download": {"workload": "get", "duration": "4 s", "axes": {"object_size": "4 kB", "clients": 1}},
}


def test_coverage_of_moses():
    assert ratios.moses(4, 4) == (1, pytest.approx(1 - 2 / 70))
    assert ratios.moses(3, 3) == (0, 0.0)
    assert ratios.moses(8, 8)[1] == pytest.approx(0.95, abs=0.001)
    k, coverage = ratios.moses(30, 40)
    assert coverage == pytest.approx(0.95, abs=0.001)
    assert k == pytest.approx(600 - 1.96 * math.sqrt(1200 * 71 / 12), abs=3)


def test_the_whole_counts_repetitions():
    points = [{r: 100 * i * (1 + 0.001 * r) for r in range(1, 7)} for i in (1, 2, 3)]
    faster = [{r: v * 1.1 for r, v in p.items()} for p in points]
    r = ratios.overall_ratio(points, faster)
    assert (r.n_a, r.n_b, r.verdict) == (6, 6, "faster") and r.ratio == pytest.approx(1.1)
    assert ratios.overall_ratio(points, points).verdict == "undecided"
    del faster[0][3], faster[1][5]  # lost runs shift nothing
    assert ratios.overall_ratio(points, faster).ratio == pytest.approx(1.1, rel=0.001)
    two = ratios.overall_ratio([{1: 1.0, 2: 1.0}], [{1: 2.0, 2: 2.0}])
    assert two.verdict == "undecided" and "2 against 2 repetitions are too few" in two.reason
    assert ratios.overall_ratio([{1: 0.0}], [{1: 1.0}]).reason == "no comparable point"


def change_points(folder, factor, day: str | None = None) -> None:
    """Multiply the rates in points.csv by the result of `factor` for the table, and date the runs."""
    path = folder / "tables" / "points.csv"
    points = pd.read_csv(path)
    rates = [c for c in points if c.startswith("overlap_") and c.endswith("_per_s")]
    points[rates] = points[rates].mul(pd.Series(factor(points), index=points.index), axis=0)
    if day:
        points["started"] = day + points["started"].str[10:]
    points.to_csv(path, index=False)
    derived.write_sums(folder, ["points"])


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """Return a folder with the campaigns `one` and `half`.

    `one` has the stores alpha and beta with 4 runs. `half` has gamma's part with 4 runs, half as fast, and its tables
    are written.
    """
    folder = tmp_path_factory.mktemp("results")
    make(folder / "one", failed=(), repetitions=4, sweeps=SWEEPS, stores_to_measure=["alpha", "beta"])
    make(folder / "half", failed=(), repetitions=4, sweeps=SWEEPS)
    build.build(folder / "half", ["points", "environment"])
    change_points(folder / "half", lambda points: 0.5)
    return folder


def run(*arguments: str):
    return CliRunner().invoke(command.compare, list(map(str, arguments)))


def test_a_campaign_against_itself_is_undecided(campaigns, tmp_path):
    one, files = campaigns / "one", ("--csv", tmp_path / "t.csv", "--latex", tmp_path / "t.tex")
    result = run(one, one, *files, "--fail-on", "slower")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "t.csv")
    assert set(table["verdict"]) == {"undecided"} and len(table) == 2 * 5 + 1  # points, and the whole
    assert "no newer tables" in result.output and "at most 5 % differ only by chance" in result.output
    text = (tmp_path / "t.tex").read_text()
    assert r"\begin{longtable}" in text and text.count("undecided") == 11
    assert not (campaigns / "one" / "tables").exists(), "compare writes nothing into a campaign"


def test_slower_side_fails_on_request(campaigns, tmp_path):
    one, half = f"{campaigns / 'one'}:alpha", campaigns / "half"
    result = run(one, half, "--csv", tmp_path / "t.csv")
    assert result.exit_code == 0 and "points.csv" in result.output
    table = pd.read_csv(tmp_path / "t.csv")
    assert set(table["verdict"]) == {"slower"}
    assert table["ratio"].to_numpy() == pytest.approx(0.5, rel=0.1)
    assert set(table["metric"]) == {"rate", "throughput", "speed"}
    assert set(table.loc[table["metric"] == "throughput", "object_size_bytes"]) == {10_000_000}
    assert run(one, half, "--fail-on", "slower").exit_code == 1
    assert run(one, half, "--fail-on", "slower-overall", "--margin", 60).exit_code == 0
    assert run(half, one, "--fail-on", "slower").exit_code == 0


def changed(source, target, factors, day: str):
    """Make a copy of a campaign with tables, measured on another day. factors: of the rates of its points, in turn."""

    def of_point(points):
        group = points.groupby(["workload", "object_size_bytes", "workers"], dropna=False).ngroup()
        return np.resize(factors, group.max() + 1)[group]

    change_points(shutil.copytree(source, target), of_point, day)
    return target


@pytest.fixture(scope="module")
def many_points(tmp_path_factory):
    """Return a campaign of 40 points with 6 runs each and its tables; all runs of a point scatter by some percent."""
    folder = tmp_path_factory.mktemp("results") / "first"
    axes = {"object_size": "4 kB", "workers": list(range(1, 21))}
    sweeps = {w: {"workload": w, "duration": "4 s", "axes": axes} for w in ("put", "get")}
    make(folder, failed=(), repetitions=6, sweeps=sweeps)
    build.build(folder, ["points", "environment"])
    change_points(folder, lambda points: np.exp(np.random.default_rng(5).normal(0, 0.03, len(points))))
    return folder


@pytest.mark.heavy
def test_correction_removes_chance_differences(many_points, tmp_path):
    """One point of 40 is 10 % slower: by itself it is detected, with p = 2 / 924 = 0.002; among 40 it is not."""
    other = changed(many_points, tmp_path / "other", [0.9] + [1.0] * 39, "2026-11-01")
    output = run(many_points, other, "--csv", tmp_path / "t.csv", "--latex", tmp_path / "t.tex", "--fail-on", "slower")
    assert output.exit_code == 0, output.output
    table = pd.read_csv(tmp_path / "t.csv")
    (row,) = table[(table["verdict"] == "slower") & (table["workload"] != "all")].to_dict("records")
    assert row["verdict_corrected"] == "undecided" and row["p"] == pytest.approx(2 / math.comb(12, 6))
    assert row["p_corrected"] == pytest.approx(40 * row["p"])
    assert "Corrected for 40 rows" in output.output and "(slower)" in output.output
    assert "undecided (slower)" in (tmp_path / "t.tex").read_text()


@pytest.mark.heavy
def test_many_true_differences_stay(many_points, tmp_path):
    other = changed(many_points, tmp_path / "other", [0.8] * 10 + [1.0] * 30, "2026-11-01")
    output = run(many_points, other, "--csv", tmp_path / "t.csv", "--fail-on", "slower")
    table = pd.read_csv(tmp_path / "t.csv").query("workload != 'all'")
    assert output.exit_code == 1 and (table["verdict_corrected"] == "slower").sum() == 10


def test_other_days_are_warned_of_and_widen_the_intervals(many_points, tmp_path):
    """All points are 3 % slower on another day: different, until two more days show that days differ by as much."""
    other = changed(many_points, tmp_path / "other", [0.97], "2026-11-02")
    days = [
        changed(many_points, tmp_path / f"day{i}", [f], f"2026-11-0{i}") for i, f in ((3, 1.0), (4, 1.03), (5, 0.98))
    ]
    alone = run(many_points, other, "--csv", tmp_path / "t.csv", "--fail-on", "slower-overall")
    assert alone.exit_code == 1 and "B on 2026-11-02, and the variation between days is not known" in alone.output
    named = [word for day in days for word in ("--days", day)]
    known = run(many_points, other, *named, "--csv", tmp_path / "d.csv", "--fail-on", "slower")
    assert known.exit_code == 0 and "from 3 campaigns" in known.output and "Warning" not in known.output
    before, after = (pd.read_csv(tmp_path / f"{name}.csv").iloc[-1] for name in "td")
    scatter = np.std(np.log([1.0, 1.03, 0.98]), ddof=1)
    assert math.log(after["high"] / after["ratio"]) == pytest.approx(4.302653 * math.sqrt(2) * scatter, rel=1e-5)
    assert after["ratio"] == before["ratio"] and before["high"] < 1 < after["high"]
    assert "Warning" not in run(many_points, many_points).output
    one_day = run(many_points, other, "--days", days[0])
    assert isinstance(one_day.exception, UserError) and "only one campaign" in str(one_day.exception)


def test_two_stores_of_one_campaign(campaigns):
    result = run(campaigns / "one", "--stores", "alpha,beta")
    assert result.exit_code == 0 and "A: alpha of" in result.output and "B: beta of" in result.output
    assert result.output == run(campaigns / "one", campaigns / "one", "--stores", "alpha,beta").output


def test_single_point_is_the_whole(tmp_path):
    make(tmp_path, failed=(), repetitions=3, sweeps={"download": SWEEPS["download"]})
    table, _ = compare.compare(*[compare.read(str(tmp_path), tmp_path.cwd)] * 2)
    assert len(table) == 2 and table["reason"].nunique() == 1 and "3 against 3 runs" in table["reason"].iloc[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{}/nowhere", "{}/one"], "is not a measured campaign"),
        (["{}/one:delta", "{}/half"], "one:delta: is not a store with a run in this campaign; use one of: alpha, beta"),
        (["{}/one"], "add B, or compare"),
        (["{}/one", "--stores", "alpha"], "'alpha' does not name two stores"),
        (["{}/one:alpha", "{}/probes"], "has no run with a rate"),
        (["{}/half", "{}/reads"], "have no comparable point"),
        (["{}/half", "{}/other"], "have no store in common"),
    ],
)
def test_bad_input_prints_one_line(campaigns, arguments, said):
    if not (campaigns / "probes").exists():
        for name, workload in (("probes", "probe"), ("reads", "read_entries")):
            sweep = {"workload": workload, "duration": "4 s"}
            make(campaigns / name, failed=(), repetitions=1, sweeps={name: sweep})
        stores = {n: {"kind": "s3", "endpoint": "https://s3.example.org"} for n in ("gamma", "delta")}
        make(
            campaigns / "other",
            failed=(),
            repetitions=1,
            sweeps=SWEEPS,
            stores_to_measure=["gamma", "delta"],
            stores=stores,
        )
    result = run(*(a.format(campaigns) for a in arguments))
    assert isinstance(result.exception, UserError) and re.search(re.escape(said), str(result.exception)), result.output
    assert "\n" not in str(result.exception)
