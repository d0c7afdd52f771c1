"""Operations that hang, in imagined records: in every table, in latencies as lower bounds, never in a rate or a median."""

import re

import numpy as np
import pandas as pd
import pytest
from make_examples import T0, S, make

from storelab.analysis.latex.latency import latencies
from storelab.analysis.records.campaign import load
from storelab.analysis.statistics import quantiles
from storelab.analysis.tables import build, latency
from storelab.core import evidence, records
from storelab.engines.common import bins

START = T0 + 10 * S  # agreed start; the overlap window is 1 s to 4 s after it, the drain ends at 9 s
MS = 1_000_000


@pytest.fixture
def one(tmp_path):
    """`one(columns, facts, axes, head)`: the tables of a campaign of one point of 4 s with one client of 8 workers."""

    def write(columns: dict, facts: dict | None = None, axes: dict | None = None, **head) -> build.Tables:
        chosen = {"engine": "obstore", "workers": 8} | (axes or {})
        sweep = {"workload": "get", "duration": "4 s", "axes": chosen}
        make(tmp_path, sweeps={"d": sweep}, repetitions=1, calibrate=False)
        folder = next((tmp_path / "raw").rglob("run.json")).parent
        n = len(columns["end_ns"])
        ops = {"client": [0] * n, "op": ["GET"] * n, "count": [1] * n, "bytes": [1] * n} | columns
        records.write_table(folder / "ops.0.parquet", records.OPS, ops)
        run = records.read_json(folder / "run.json") | head
        run["clients"][0]["engine"] = facts or {}
        records.finish(folder, run)
        evidence.write_sums(tmp_path / "raw")
        return build.Tables(load(tmp_path))

    return write


def flows(busy: list[int], hung: list[int]) -> dict:
    """One worker that ends an operation of `busy` ms after another from 1 s on, and operations of others that begin at
    `hung` (ms after the start) and are given up at 9 s."""
    ends = START + S + np.cumsum(busy) * MS
    starts = ends - np.array(busy) * MS
    gone = START + np.array(hung, dtype=np.int64) * MS
    n, m = len(busy), len(hung)
    return {
        "start_ns": [*(starts + 1), *gone],
        "end_ns": [*(ends + 1), *[START + 9 * S] * m],
        "error": [None] * n + ["Hung"] * m,
        "bytes": [1] * n + [0] * m,
        "status": [200] * n + [0] * m,
    }


def test_seven_of_eight_workers_hang(one):
    """Nothing of the record may read as a good run: 300 operations of 10 ms, and 7 that began in the warm-up."""
    reason = "7 operations hung"
    t = one(
        flows([10] * 299, [500] * 7),
        {"hung": 7, "hung_s": 24.5, "not_begun": 0},
        valid=False,
        budget={"reason": reason},
    )
    (point,) = t["points"].to_dict("records")
    assert (point["state"], point["reason"], point["errors"], point["hung"]) == ("invalid", reason, 7, 7)
    assert point["operations"] == 299 and point["overlap_rate_per_s"] == pytest.approx(299 / 3)
    assert point["tail_s"] == 0, "giving up is no completion"
    (row,) = t["errors"].to_dict("records")
    assert (row["error"], row["operations"], row["first_s"], row["latency_p50_ms"]) == ("Hung", 7, 9.0, 8500.0)
    assert point["latency_lower_bounds"] == "latency_p99, latency_max" and point["latency_p50_ms"] == pytest.approx(10)
    assert point["latency_p99_ms"] == 8500, "304 of 306: one of the seven"
    numbers = t["numbers"].set_index("name")["value"]
    assert (numbers["hung"], numbers["hung_runs"]) == (7, 1) and "hung_unknown" in numbers
    assert t["latency"].empty, "in no median"


def brute(ended, bounds, level):
    """Rank by rank over a list, with what never ended behind all that did."""
    need = level * (len(ended) + len(bounds))
    for i, value in enumerate(sorted(ended)):
        if i + 1 >= need - 1e-9:
            return value, False
    return next(v for i, v in enumerate(sorted([*ended, *bounds])) if i + 1 >= need - 1e-9), True


@pytest.mark.parametrize("seed", range(20))
def test_quantiles_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    ended, bounds = rng.integers(1, 50, rng.integers(0, 300)), rng.integers(1, 90, rng.integers(1, 40))
    values, least = quantiles.with_bounds(
        pd.Series(ended).value_counts(), pd.Series(bounds).value_counts(), latency.LEVELS
    )
    assert list(zip(values, least, strict=True)) == [brute(ended, bounds, p) for p in latency.LEVELS]


def test_lower_bounds_in_a_valid_run_are_told_in_the_table_and_in_latex(one):
    """1 of 999 hangs: p50 to p99 are known, of p99.9 only that it is no less than the longest that ended."""
    busy = [2] * 990 + [5] * 8
    t = one(flows(busy, [3990]), {"hung": 1, "hung_s": 0.01, "not_begun": 0})
    (row,) = t["latency"].to_dict("records")
    assert row["lower_bounds"] == "latency_max" and row["latency_max_median_ms"] == 5010
    assert pd.isna(row["latency_p999_median_ms"]), "999 operations are too few"
    assert (row["operations"], row["failed"], row["hung"]) == (998, 0, 1)
    assert [row[f"latency_{n}_median_ms"] for n in ("p50", "p90", "p99")] == pytest.approx([2, 2, 2], rel=1e-5)
    text = latencies(t["latency"])
    assert len(re.findall(r"\\geq\$ ?5", text)) == 1 and "operations hung" in text


def test_p999_is_a_bound_where_its_tail_hangs(one):
    t = one(flows([2] * 1400, [3990, 3000]), {"hung": 2, "hung_s": 1.01})
    (row,) = t["latency"].to_dict("records")
    assert row["lower_bounds"] == "latency_p999, latency_max" and row["latency_p999_median_ms"] == 5010
    assert row["latency_max_median_ms"] == 6000 and row["latency_p99_median_ms"] == pytest.approx(2, rel=1e-5)


def test_ttfb_is_null_where_its_own_tail_is_missing(one):
    columns = flows([10] * 200, [2000] * 5)
    first = [begin + 3 * MS for begin in columns["start_ns"][:200]]
    t = one(columns | {"first_byte_ns": first + [None] * 5}, {"hung": 5, "hung_s": 10.0})
    (row,) = t["latency"].to_dict("records")
    assert row["ttfb_p50_median_ms"] == pytest.approx(3) and pd.isna(row["ttfb_p99_median_ms"])


def test_bins_that_hang(one):
    """5000 operations of 1 ms as bins, and 100 that hung since 4 s before they were given up."""
    ended = bins.binned(
        START,
        [START + S + i * 1000 * 500 for i in range(5000)],
        [START + S + i * 1000 * 500 + MS for i in range(5000)],
        "GET",
        sums={"bytes": 1},
    )
    gone = bins.binned(START, [START + 5 * S] * 100, [START + 9 * S] * 100, "GET", ["Hung"] * 100, sums={"bytes": 0})
    both = {name: [*ended[name], *gone[name]] for name in ended}
    t = one({"client": [0] * len(both["end_ns"])} | both, {"hung": 100, "hung_s": 1.0})
    (row,) = t["latency"].to_dict("records")
    assert row["hung"] == 100 and row["operations"] == 5000 and row["lower_bounds"].split(", ")[0] == "latency_p99"
    assert row["latency_p50_median_ms"] == pytest.approx(1, rel=0.02)
    assert 4000 / 1.0404 < row["latency_p99_median_ms"] <= 4000, "never more than is known"
    assert t["points"]["tail_s"][0] < 0.1 and t["points"]["hung"][0] == 100


def test_what_never_began_in_an_open_loop_waited_until_the_deadline(one):
    """100 a second are due over 4 s; the last 100 never began. In the window of 3 s that is a third: of p50 (150th of
    300) and TTFB nothing is missing, p90 is the 30th longest that was due last: 29 steps of 10 ms before the end."""
    due = START + S + np.arange(1, 201) * 10 * MS
    ops = {"start_ns": due + MS, "intended_ns": due, "end_ns": due + 5 * MS, "first_byte_ns": due + 2 * MS}
    t = one(ops, {"hung": 0, "hung_s": 0.0, "not_begun": 100}, {"arrival_rate": 100})
    (row,) = t["latency"].to_dict("records")
    assert (row["not_begun"], row["hung"], row["lower_bounds"]) == (100, 0, "latency_p90, latency_p99, latency_max")
    assert row["latency_p50_median_ms"] == 5 and row["ttfb_p50_median_ms"] == 2 and pd.isna(row["ttfb_p99_median_ms"])
    assert row["latency_max_median_ms"] == 990
    waits = sorted([5.0] * 200 + [10.0 * i for i in range(100)])
    assert row["latency_p90_median_ms"] == waits[269] and row["completed_percent"] == pytest.approx(100 * 200 / 300)


@pytest.mark.parametrize(
    ("engine", "facts", "hung", "cut_off"),
    [
        ("obstore", {"cut_off": 3}, 3, None),
        ("loadgen", {"cut_off": 0, "hung": 2}, 2, None),
        pytest.param("s5cmd", {"cut_off": 3, "hung": None}, None, 3, marks=pytest.mark.heavy),
        ("s5cmd", {"cut_off": 3}, None, 3),
        pytest.param("planned", {}, None, None, marks=pytest.mark.heavy),
    ],
)
def test_records_of_every_age_say_what_they_know(one, engine, facts, hung, cut_off):
    t = one(flows([10] * 299, []), facts, engine={"name": engine, "version": "1", "settings": {}})
    (point,) = t["points"].to_dict("records")
    assert [None if pd.isna(point[c]) else point[c] for c in ("hung", "cut_off")] == [hung, cut_off]
    assert t["numbers"].set_index("name")["value"]["hung_unknown"] == int(bool(cut_off))


def pause(*longest: tuple[int, int]) -> dict:
    lengths = [length for _, length in longest]
    told = {"count": len(lengths), "sum_ns": sum(lengths), "longest_ns": max(lengths, default=0)}
    return {"pauses": told | {"longest": [list(p) for p in longest]}}


def test_a_pause_of_the_client_is_told(one):
    """Of 400 operations of 2 ms, 4 took 50 ms; in three of them the client stood still, and twice where all was fast."""
    busy = [2] * 100 + [50] + [2] * 100 + [50] * 3 + [2] * 196
    columns = flows(busy, [])
    slow = [i for i, length in enumerate(busy) if length == 50]
    stood = [(int(columns["start_ns"][i]) + 5 * MS, 40 * MS) for i in slow[1:]]
    fast = [(int(columns["start_ns"][i]), MS) for i in (10, 250)]
    t = one(columns, pause(*stood, *fast))
    (point,) = t["points"].to_dict("records")
    assert (point["pauses_ms"], point["pause_longest_ms"]) == (122, 40)
    (row,) = t["latency"].to_dict("records")
    assert row["paused_percent"] == 75 and row["latency_p99_median_ms"] == pytest.approx(2, rel=1e-5)
    assert "stood still" in latencies(t["latency"]) and "dagger" in latencies(t["latency"])
    assert t["numbers"].set_index("name")["value"]["paused"] == 0, "below 100 ms"


@pytest.mark.parametrize(
    ("facts", "percent", "longest"), [(pause(), 0, 0), ({}, None, None), (pause((0, 200 * MS)), 0, 200)]
)
def test_a_run_without_pauses_is_not_accused(one, facts, percent, longest):
    t = one(flows([2] * 100 + [50] + [2] * 100, []), facts)
    (row,), (point,) = t["latency"].to_dict("records"), t["points"].to_dict("records")
    seen = [None if pd.isna(v) else v for v in (row["paused_percent"], point["pause_longest_ms"])]
    assert seen == [percent, longest] and "dagger" not in latencies(t["latency"])
    said = t["numbers"].set_index("name")["value"].get("paused")
    assert said == (None if longest is None else longest == 200), "no number of what nobody watched"
