"""Edges of what makes a number: short windows, choices between shapes, what the paper quotes; against counts made here."""

import itertools
import math
import statistics
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from make_examples import make
from scipy import special, stats

from storelab.analysis.records import windows
from storelab.analysis.records.campaign import Campaign, load
from storelab.analysis.statistics import knees, medians, ratios, steadiness
from storelab.analysis.tables import build, calibration, errors, events, latency, numbers, points
from storelab.analysis.tables.systems import space
from storelab.core import records

S = 10**9


def campaign_of(tmp_path, ends, begins=(0,), stops=(10 * S,), warm_up=S, deadline=10 * S, failed=()):
    """A campaign of one run with an operation that ends at each of these times; begins, stops: of its clients."""
    clients = [{"start_ns": b, "end_ns": e} for b, e in zip(begins, stops, strict=True)]
    rows = {
        "client": [0] * len(ends),
        "op": ["GET"] * len(ends),
        "count": [1] * len(ends),
        "bytes": [10**6] * len(ends),
    }
    rows["error"] = ["SlowDown" if e in failed else None for e in ends]
    records.write_table(tmp_path / "raw" / "k" / "ops.0.parquet", records.OPS, rows | {"end_ns": ends})
    run = {"schema": 3, "start_ns": 1, "deadline_ns": deadline, "clients": clients, "files": {"ops.0.parquet": {}}}
    run["point"] = {"fixed": {"warm_up_ns": warm_up}, "axes": {"clients": 1}}
    return Campaign(tmp_path, {"points": [], "workloads": {}, "stores": {}}, {"k": run}, {})


# Windows


def test_windows_and_tails_shorter_than_a_second(tmp_path):
    """0.4 s between the warm-up and the end; the last operation ends 0.3 s later."""
    found = windows.operations(
        campaign_of(tmp_path, [S, S + S // 5, S + S // 2, S + 7 * S // 10], stops=(14 * S // 10,), begins=(1,))
    )
    row = found.loc["k"]
    assert row["overlap_length_s"] == pytest.approx(0.4, abs=1e-6) and row["tail_s"] == pytest.approx(0.3)
    assert row["overlap_operations"] == 1 and row["overlap_rate_per_s"] == pytest.approx(1 / 0.4, rel=1e-6)
    assert row["overlap_throughput_mb_per_s"] == pytest.approx(1 / 0.4, rel=1e-6)


def test_a_client_that_begins_when_another_has_ended_leaves_no_window(tmp_path):
    found = windows.operations(campaign_of(tmp_path, [2 * S, 6 * S], begins=(1, 5 * S), stops=(4 * S, 9 * S)))
    row = found.loc["k"]
    assert row["overlap_length_s"] == 0 and row["overlap_operations"] == 0 and math.isnan(row["overlap_rate_per_s"])
    assert math.isnan(row["overlap_throughput_mb_per_s"]) and row["steadiness"] == "too short"
    assert row["first_done_length_s"] == pytest.approx(4) and row["first_done_operations"] == 1
    assert row["tail_s"] == pytest.approx(2), "from the first end to the last operation"


def test_no_tail_where_all_was_over_before(tmp_path):
    row = windows.operations(campaign_of(tmp_path, [2 * S, 3 * S])).loc["k"]
    assert row["tail_s"] == 0 and row["last_done_length_s"] == pytest.approx(3) and row["last_done_operations"] == 2


def test_good_and_failed_operations_of_each_window(tmp_path):
    """Warm-up until 1 s, the client ends at 4 s; of each kind another number in each part."""
    good = [S // 2, 2 * S, 3 * S, 4 * S, 5 * S]
    bad = [S // 4, S // 3, S, 2 * S + 1, 5 * S + 1, 5 * S + 2, 6 * S]
    row = windows.operations(campaign_of(tmp_path, good + bad, stops=(4 * S,), failed=bad)).loc["k"]
    assert [row[f"{w}_operations"] for w in ("overlap", "first_done", "last_done")] == [3, 4, 5]
    assert [row[f"{w}_errors"] for w in ("overlap", "first_done", "last_done")] == [1, 4, 7]
    assert [row[f"{w}_bytes"] for w in ("overlap", "first_done", "last_done")] == [3e6, 4e6, 5e6]
    assert (row["operations"], row["errors"]) == (5, 7) and row["tail_s"] == pytest.approx(2), (
        "failed ones are a tail too"
    )
    assert row["last_done_rate_per_s"] == pytest.approx(5 / 6) and row["first_done_rate_per_s"] == pytest.approx(1)


# Statistics


def test_of_the_shapes_that_are_told_the_one_with_the_least_information_criterion_is_named():
    """n log(rest / n) + parameters * log n (Bayes); a line has 2, a step 3 (its place), a swing 4 (its period)."""
    rng, n = np.random.default_rng(5), 40
    t = (np.arange(n) + 0.5) / n
    for _ in range(20):
        y = 1 + 0.3 * rng.random() * t + 0.3 * (t > rng.random()) + 0.05 * rng.normal(size=n)
        z = y / y.mean() - 1

        def rest(*columns, z=z):
            design = np.column_stack([np.ones(n), *columns])
            return float(((z - design @ np.linalg.lstsq(design, z, rcond=None)[0]) ** 2).sum())

        periods = np.arange(1.5, 10.01, 0.5)
        least = {
            steadiness.DRIFTING: (2, rest(t)),
            steadiness.SHIFTED: (3, min(rest(t > k / n) for k in range(5, 36))),
            steadiness.SWINGING: (4, min(rest(np.sin(2 * np.pi * p * t), np.cos(2 * np.pi * p * t)) for p in periods)),
        }
        found = steadiness.fits(y)
        for name, (parameters, left) in least.items():
            assert found[name][2] == pytest.approx(n * math.log(left / n) + parameters * math.log(n)), name


def test_the_peaks_interval_with_few_runs_at_the_top():
    """Two runs at the highest value, nine elsewhere: two means differ with the variance 1/2 + 1/9 of one run's."""
    seen = set()
    for seed, scatter in itertools.product(range(30), (0.02, 0.08)):
        rng = np.random.default_rng(seed)
        values, speeds, many = [1, 2, 4, 8, 16, 32], [100, 200, 400, 800, 720, 300], [9, 9, 9, 2, 9, 9]
        x, y = np.repeat(values, many).astype(float), np.repeat(speeds, many) * np.exp(rng.normal(0, scatter, 47))
        found = knees.fit(x, y)
        if found.shape != knees.PEAK:
            continue
        groups = [np.log(y[x == v]) for v in values]
        means, df = [g.mean() for g in groups], 47 - 6
        pooled, top = sum(((g - g.mean()) ** 2).sum() for g in groups) / df, int(np.argmax(means))
        bound = [stats.t.ppf(0.975, df) * math.sqrt(pooled * (1 / len(g) + 1 / len(groups[top]))) for g in groups]
        may = [i for i in range(6) if means[top] - means[i] <= bound[i]]
        seen.add(tuple(may))
        assert (found.knee.low, found.knee.high) == (values[max(may[0] - 1, 0)], values[min(may[-1] + 1, 5)])
    assert len(seen) > 1, "the neighbour is in some of the intervals"


@pytest.mark.parametrize("n", [6, 7, 8, 12, 20])
def test_coverage_of_the_interval_of_normal_runs(n):
    """By drawing: 400 000 samples; low and high as `summarise` gives them, the true median is 0."""
    rng, draws = np.random.default_rng(n), 400_000
    x = np.sort(rng.normal(size=(draws, n)), axis=1)
    one = medians.summarise(np.arange(n, dtype=float))
    (k_low, part_low), (k_high, part_high) = (divmod(v, 1) for v in (one.low, one.high))

    def at(k, part):
        k = int(k)
        return x[:, k] if not part else (1 - part) * x[:, k] + part * x[:, k + 1]

    inside = np.mean((at(k_low, part_low) <= 0) & (at(k_high, part_high) >= 0))
    assert medians.coverage(n) == pytest.approx(inside, abs=0.002)
    outer, inner = (1 - 2 * special.bdtr(int(k_low) + more, n, 0.5) for more in (0, 1))
    assert inner <= medians.coverage(n) <= outer, "it lies between two ranks"


# Whole campaigns


def test_building_says_which_tables_it_wrote(tmp_path):
    make(tmp_path, repetitions=1, failed=(), sweeps={"g": {"workload": "get", "duration": "4 s"}}, calibrate=False)
    made = build.build(tmp_path)
    assert sorted(made) == sorted((tmp_path / "tables").glob("*.csv")) and {p.stem for p in made} == set(build.NAMES)
    ceilings = build.Tables(load(tmp_path))["points"]
    assert str(ceilings["ceiling_rate_per_s"].dtype) == "Float64" and ceilings["ceiling_rate_per_s"].isna().all()


# What the paper quotes


def run_rows(**columns):
    n = len(next(iter(columns.values())))
    base = {
        **{"workload": "get", "state": "ok", "store": "a", "tries": 1, "operations": 5, "errors": 0, "hung": 0},
        **{"cut_off": 0, "pause_longest_ms": 0.0, "last_done_bytes": 10, "steadiness": "steady", "shared_host": False},
        **{"nodes": 1, "clients": 1, "duration_s": 4.0, "warm_up_s": 1.0, "other_cpu_percent": 0.0},
        **{"started": "2025-01-01T00:00:00Z", "lateness_max_ms": 0.0, "tail_s": 0.0},
    }
    return pd.DataFrame({k: [v] * n for k, v in base.items()} | columns)


def quoted(rows):
    return {name: value for name, value, _ in points.numbers(rows)}


def test_counts_of_runs_by_their_steadiness():
    words = [*steadiness.UNSTEADY, *steadiness.UNSTEADY, "steady", "steady", "steady", "too short"]
    found = quoted(run_rows(steadiness=words))
    assert (found["unsteady"], found["steady"], found["too_short"]) == (2 * len(steadiness.UNSTEADY), 3, 1)
    assert found["points"] == found["points_measured"] == len(words)


def test_counts_of_hung_and_paused_runs():
    found = quoted(
        run_rows(hung=[0, 3, 4], cut_off=[2, 0, 5], pause_longest_ms=[points.PAUSED_MS, points.PAUSED_MS - 1, 900.0])
    )
    assert (found["hung"], found["hung_runs"], found["hung_unknown"], found["paused"]) == (7, 2, 2, 2)
    assert found["pause_longest"] == max(900.0, points.PAUSED_MS)
    none = quoted(run_rows(hung=[None, None], cut_off=[None, None], pause_longest_ms=[None, None]))
    assert not {"hung", "hung_runs", "paused", "pause_longest"} & set(none) and none["hung_unknown"] == 0


def test_what_disturbed_and_where_it_ran():
    other = [0.0, points.DISTURBED_PERCENT, points.DISTURBED_PERCENT + 1, 90.0, None]
    found = quoted(
        run_rows(other_cpu_percent=other, nodes=[1, 2, 3, None, 1], shared_host=[True, False, True, None, False])
    )
    assert (found["disturbed"], found["other_cpu_most"]) == (2, 90.0)
    assert found["other_cpu_median"] == statistics.median(other[:4])
    assert (found["over_nodes"], found["nodes_most"], found["shared_host"], found["shared_host_of"]) == (
        2,
        3,
        2,
        "2 of the 5",
    )
    assert quoted(run_rows(shared_host=[True, True]))["shared_host_of"] == "all 2"


def test_days_tries_and_states_of_points():
    rows = run_rows(
        **{
            "started": ["2025-03-02T01", "2025-03-01T23", "2025-03-09T00"],
            "tries": [1, 3, 2],
            "state": ["ok", "ok", "failed"],
        },
        **{
            "tail_s": [0.5, 2.5, 9.0],
            "lateness_max_ms": [4.0, 3.0, 9.0],
            "clients": [1, 4, 16],
            "operations": [5, 6, 100],
        },
    )
    found = quoted(rows)
    assert found["measured_on"] == "2025-03-01 to 2025-03-02" and found["points_tried_again"] == 2
    assert (found["points"], found["points_measured"], found["points_failed"]) == (3, 2, 1)
    assert (found["tail_most"], found["lateness_most"], found["operations"]) == (2.5, 4.0, 11)
    assert found["clients_most"] == "16 clients"
    only = quoted(run_rows(workload=["calibrate", "calibrate"], operations=[2, 3]))
    assert only["points"] == 2 and only["operations"] == 5, "there is nothing else"
    both = quoted(run_rows(workload=["calibrate", "get"], operations=[2, 3]))
    assert both["points"] == 1 and both["operations"] == 3


def test_definitions_in_the_words_of_the_method():
    """Fractions are told in percent, and are what the tests of steadiness and of medians are drawn against."""
    told = {name: (value, unit) for name, value, unit in numbers._definitions()}
    for name, fraction in (("still", steadiness.STILL), ("change", steadiness.LEAST_CHANGE)):
        value, unit = told[f"steadiness_{name}"]
        assert unit == "%" and 0 < value < 100 and value == pytest.approx(fraction / 0.01)
    assert told["steadiness_confidence"] == (pytest.approx(99), "%"), "1 in 100 steady windows is told"
    assert told["interval_least"][0] == next(
        n for n in range(1, 9) if medians.summarise(range(n)).kind != medians.RANGE
    )


def test_a_campaign_that_names_no_budget_has_one_percent():
    """docs: `failure_budget`, 1 %."""
    from storelab.core.campaign import Campaign as Settings

    named = Settings.model_fields["failure_budget"].default
    assert errors.budget(SimpleNamespace(plan={"campaign": {}})) == named
    assert errors.budget(SimpleNamespace(plan={"campaign": {"failure_budget": 0.2}})) == 0.2


def test_what_is_quoted_of_errors():
    """The worst run's store and workload; the class with the most operations over all runs."""
    found = pd.DataFrame(
        {
            **{"store": ["b", "a", "a"], "workload": ["put", "get", "get"], "run_fraction": [0.5, 0.2, 0.2]},
            **{"status": [404, 503, 503], "error": ["NoSuchKey", "SlowDown", "SlowDown"], "operations": [7, 4, 5]},
        }
    )
    rows = pd.DataFrame(
        {"state": ["ok", "invalid", "invalid", "ok"], "errors": [7, 4, 5, 0], "operations": [7, 16, 20, 3]}
    )
    campaign = SimpleNamespace(plan={"campaign": {"failure_budget": 0.03}})
    said = {name: value for name, value, _ in errors.numbers(campaign, rows, found)}
    assert said == {
        **{"failure_budget": 3.0, "points_invalid": 2, "errors_all": 16, "errors_runs": 3, "errors_worst": 50.0},
        **{"errors_worst_store": "b", "errors_worst_workload": "put", "errors_classes": "two kinds"},
        **{"errors_commonest": "503 SlowDown", "errors_commonest_count": 9},
    }


def test_what_a_calibration_measured_in_words():
    said = [
        calibration.shown({"target": t, "operation": o})
        for t, o in (
            ("network", "get_range"),
            ("memory", "copy"),
            ("tmpfs", "write"),
            ("disk", "read"),
            ("tmpfs", "read"),
        )
    ]
    assert said == ["get range", "memory copy", "write to tmpfs", "read from disk", "read from tmpfs"]


def test_steps_in_a_window_shorter_than_a_second(tmp_path):
    """Half a second, one event in one step: rates are of that half second."""
    names = ("entries", "needed_bytes", "asked_bytes", "wire_bytes", "requests", "end_ns")
    steps = [(1, 1000, 1500, 2000, 2, S + S // 4), (7, 5, 5, 5, 5, 9 * S)]
    columns = {"client": [0, 0], "open_ns": [0, 0]} | dict(zip(names, map(list, zip(*steps, strict=True)), strict=True))
    campaign = campaign_of(tmp_path, [2], begins=(1,), stops=(S + S // 2 + 1,))
    records.write_table(tmp_path / "raw" / "k" / "reads.0.parquet", records.READS, columns)
    campaign.runs["k"]["files"]["reads.0.parquet"] = {}
    campaign.runs["k"]["clients"][0] |= {
        "client": 0,
        "engine": {"opening": {"requests": 1, "asked_bytes": 1, "wire_bytes": 1}},
    }
    campaign.runs["k"]["point"] |= {"workload": "events"}
    campaign.plan["points"].append({"key": "k", "workload": "events", "axes": {}, "store": "s"})
    row = events.runs(campaign).loc["k"]
    assert row["events_per_s"] == pytest.approx(2) and row["wire_mb_per_s"] == pytest.approx(0.004)
    assert (
        row["wire_bytes_per_event"] == 2000 and row["needed_bytes_per_event"] == 1000 and row["requests_per_event"] == 2
    )
    assert row["amplification_ratio"] == 2 and row["processed_events"] == 1 and row["moved_mb"] == 0.002


@pytest.mark.parametrize("n", range(1, 40))
def test_ranks_that_hold_the_median_by_counting(n):
    """Of 2^n halves of the runs (those above the median), each as likely: the k-th of n lies below and above it in so many."""

    def holds(k):
        return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n

    able = [k for k in range(1, n + 1) if n - k + 1 > k and holds(k) >= 0.95] or [1]
    assert medians.order_statistics(n) == (max(able), pytest.approx(max(0, holds(max(able)))))


def test_sums_over_the_runs():
    found = quoted(run_rows(errors=[1, 2, 6], operations=[10, 20, 60], state=["ok", "invalid", "ok"]))
    assert (found["errors"], found["operations"]) == (7, 70)


def test_buckets_in_words():
    from storelab.analysis.parts import words

    assert words.value_text("buckets", 3) == "3 buckets" and words.value_text("buckets", 1) == "1 bucket"
    assert words.value_text("read_ahead_bytes", 2**20) == "1 MiB read ahead" and not words.value_text(
        "read_ahead_bytes", 0
    )


@pytest.mark.parametrize(
    ("percent", "of", "bound"),
    [(79.5, "link", None), (80.5, "link", "link"), (80.0, "client", None), (99.0, "shared cores", None)],
)
def test_a_group_is_bound_from_80_percent_of_its_ceiling_on(percent, of, bound):
    """docs/calibration.md: above 80 %; shared cores bind nothing."""
    runs = pd.DataFrame({"ceiling_rate_per_s": pd.array([1000.0, 900.0], "Float64"), "ceiling_of": [of, of]})
    found = calibration.of_group(runs, 10 * percent)
    assert (found["ceiling_rate_per_s"], found["ceiling_percent"]) == (1000.0, pytest.approx(percent))
    assert (found["ceiling_of"], found["bound_by"]) == (of, bound)


def test_more_than_ten_percent_of_the_host_is_a_disturbance():
    """docs/records.md: above 10 %."""
    found = quoted(run_rows(other_cpu_percent=[9.5, 10.0, 10.5, 11.5]))
    assert (found["disturbed"], found["disturbed_from"]) == (2, 10)


def test_what_has_no_interval_covers_nothing():
    for one in (ratios.ratio([], [1.0]), ratios.ratio([1.0], [0.0]), ratios.ratio([1.0], [2.0])):
        assert one.coverage == 0.0 and math.isnan(one.low) and one.verdict == ratios.CANNOT_TELL


def test_a_whole_without_scatter_is_its_own_interval():
    """Every repetition alike: B is 1.5 times A to the last digit, or nothing at all."""
    runs = [dict.fromkeys(range(8), speed) for speed in (2.0, 8.0)]
    more = [{rep: v * 1.5 for rep, v in side.items()} for side in runs]
    found = ratios.whole(runs, more)
    assert (found.low, found.ratio, found.high) == pytest.approx((1.5, 1.5, 1.5)) and (found.p, found.verdict) == (
        0.0,
        "faster",
    )
    none = ratios.whole(runs, runs)
    assert (none.low, none.high, none.p, none.verdict) == (1.0, 1.0, 1.0, ratios.CANNOT_TELL)


def test_ends_of_loads():
    """Per loop the least and the most load; of an open loop the least only where it is asked for."""
    row = {
        "store": "s",
        "op": "GET",
        "engine": "e",
        "object_size_bytes": 1,
        "workload": "get",
        "latency_p50_median_ms": 1.0,
    }
    rows = pd.DataFrame(
        [row | {"loop": "closed", "concurrency": n, "arrival_rate": None} for n in (8, 2, 4)]
        + [row | {"loop": "open", "concurrency": 9, "arrival_rate": n} for n in (300, 100, 200)]
    )
    assert latency.ends(rows).index.tolist() == latency.ends(rows, True).index.tolist() == [1, 0, 4, 3]
    assert latency.ends(rows, False).index.tolist() == [1, 0, 3]


def test_space_is_counted_by_what_is_known_after_reclaiming():
    """Three runs, of which one could not reclaim: it is no run of the group's count."""
    runs = {}
    for key, after in (("a", 120), ("b", 110), ("c", None)):
        used = {"used_before_bytes": 100, "used_after_put_bytes": 400, "used_after_delete_bytes": 300}
        observed = {"stored_bytes": 100, "objects": 4, "delete_s": 1.0, "reclaim_s": 2.0}
        runs[key] = {"observed": observed | used | {"used_after_reclaim_bytes": math.nan if after is None else after}}
    rows = pd.DataFrame({"key": list("abc"), "store": "s", "workload": "space", "state": ["ok"] * 3})
    found = space.table(SimpleNamespace(runs=runs), rows, ["store"]).iloc[0]
    assert found["n"] == 2 and found["raw_per_byte_after_put_median_ratio"] == 3.0
    assert found["raw_per_byte_after_reclaim_low_ratio"] == pytest.approx(0.1)
    assert found["raw_per_byte_after_reclaim_high_ratio"] == pytest.approx(0.2)
