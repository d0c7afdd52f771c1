"""What the paper quotes of a table, in a sentence: from small tables whose extremes are seen at a glance."""

import pandas as pd
import pytest

from storelab.analysis.parts import words
from storelab.analysis.records import claims, published
from storelab.analysis.records.rows import select
from storelab.analysis.statistics import judging, medians
from storelab.analysis.statistics.judging import Bound
from storelab.analysis.tables import latency, roles, throughput
from storelab.analysis.tables.roles import collections, recovery
from storelab.analysis.tables.verdicts import cases


def quoted(out: list[tuple[str, object, str]]) -> dict[str, object]:
    return {name: value for name, value, _ in out}


def spread(name: str, unit: str, median: float) -> dict[str, float]:
    return {f"{name}_{p}_{unit}": median * f for p, f in (("median", 1.0), ("low", 0.9), ("high", 1.1))}


def recovered(fault: str | None, pause: float | None, **more) -> dict[str, object]:
    row = {"store": "ceph", "role": "uploads", "fault": fault, "source": recovery.MEASURED, "failed_operations": 3}
    times = spread("pause", "s", pause or float("nan")) | spread("whole", "s", float("nan"))
    return row | times | spread("noticed", "s", float("nan")) | dict.fromkeys(NEVER, 0) | more


NEVER = ("never_served", "never_noticed", "never_whole")


def test_recovery_quotes_the_longest_pause_and_sums_of_runs():
    rows = [
        recovered("osd-killed", 2.0, never_noticed=2, never_whole=1),
        recovered("osd-hung", 20.0, never_noticed=1, never_whole=4, never_served=1, failed_operations=0),
        recovered("cut", None),
    ]
    said = quoted(recovery.numbers(pd.DataFrame(rows)))
    assert (said["recovery_groups"], said["recovery_failed"], said["recovery_without_failure"]) == (3, 6, 1)
    assert (said["recovery_never_served"], said["recovery_never_noticed"], said["recovery_never_whole"]) == (1, 3, 5)
    assert said["recovery_pause_longest"] == "20.0 [18.0, 22.0]"
    assert said["recovery_pause_longest_where"] == "uploads on ceph, osd-hung"
    assert "recovery_whole_longest" not in said
    assert recovery.numbers(pd.DataFrame()) == []


def test_where_tells_no_fault_that_was_none():
    assert recovery.where(recovered(None, 1.0)) == "uploads on ceph"


def test_roles_quote_how_many_were_there_at_once():
    rows = [(w, r) for w, several in (("roles-a", "xyz"), ("roles-b", "x")) for r in several]
    table = pd.DataFrame(rows, columns=["workload", "role"]).assign(
        phase="during", does="get", rate_over_before_median_ratio=1.0
    )
    said = quoted(roles.numbers(table))
    assert (said["roles_sweeps"], said["roles_most"]) == (2, 3)


def latencies(loop: str, p50: float, p99: float, bounds: str = "") -> dict[str, object]:
    row = {"store": "alpha", "op": "GET", "workload": "get", "loop": loop, "concurrency": 1, "arrival_rate": None}
    row |= spread("latency_p50", "ms", p50) | spread("latency_p99", "ms", p99)
    return row | {latency.BOUNDS: bounds, "completed_percent": 50.0 if loop == "open" else None}


def test_latency_quotes_the_least_median_and_the_longest_tail():
    rows = [latencies("closed", 2.0, 9.0), latencies("closed", 5.0, 40.0, "latency_p99"), latencies("open", 7.0, 70.0)]
    said = quoted(latency.numbers(pd.DataFrame(rows)))
    assert said["latency_closed_least"] == "2.00 [1.80, 2.20]"
    assert said["latency_closed_longest"] == "at least 40.0 [36.0, 44.0]", "hung operations: a lower bound"
    assert said["latency_open_longest"] == "70.0 [63.0, 77.0]"
    assert (said["latency_open_groups"], said["latency_open_behind"]) == (1, 1)
    assert {"latency_closed_least_where", "latency_closed_longest_where"} <= {*said}


def test_a_quantile_needs_one_operation_beyond_it():
    said = quoted(latency.definitions())
    assert (said["latency_fewest"], said["latency_fewest_highest"]) == (100, 1000)


def moved(workload: str, size: int | None, rate: float, **more) -> dict[str, object]:
    row = {
        "store": "alpha",
        "workload": workload,
        "object_size_bytes": size,
        "engine": "s5cmd",
        "n": 6,
        "interval": "x",
    }
    return row | spread("throughput", "mb_per_s", rate) | spread("rate", "per_s", rate) | more


def test_throughput_quotes_the_best_group_of_each_class():
    large = throughput.speed.LARGE
    table = pd.DataFrame([moved("get", large, 100.0, engine="obstore"), moved("get", large * 2, 90.0)])
    table["object_size_bytes"] = table["object_size_bytes"].astype("Int64")
    names = [n for n, of in throughput.CLASSES.items() if of.workload == "get" and of.large]
    assert names and all(len(throughput.of_class(table, n)) == 2 for n in names), "LARGE itself is large"
    said = quoted(throughput.numbers(table))
    for name in names:
        assert (said[f"best_{name}"], said[f"best_{name}_spread"]) == (100.0, "100 [90, 110]")
        assert said[f"best_{name}_store"] == "alpha"
    small = [n for n, of in throughput.CLASSES.items() if of.large is False]
    assert small and not any(f"best_{n}" in said for n in small)


def test_unsteady_runs_are_counted():
    one, other = throughput.steadiness.UNSTEADY[:2]
    assert throughput.unsteady(pd.Series(["steady", one, other, one])) == f"{one} 2, {other} 1"


def test_a_spread_has_digits_that_tell_its_ends_apart():
    """Three digits of the median; more, where the ends would look alike."""
    assert words.spread([100.04, 100.01, 100.07]) == "100.04 [100.01, 100.07]"
    assert words.spread([100.4, 90.2, 110.8]) == "100 [90, 111]"


@pytest.mark.parametrize(("at", "seen"), [(0.5, "confirmed"), (2.0, "refuted")])
def test_a_ratio_is_tested_against_the_bound_itself(at, seen):
    """b is 1.0 times a: more than half of it, less than twice."""
    same = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03]
    found = judging.ratio(same, same[::-1], Bound(at))
    assert found.p < 0.05 and judging.verdict(found, Bound(at), found.p) == seen


def test_a_zero_has_no_exponent():
    found = judging.slope([1, 1, 2, 2], [1, 0, 2, 2], Bound(1.0))
    assert "no exponent" in found.reason and judging.verdict(found, Bound(1.0), found.p) == "cannot tell"


def test_an_order_is_that_of_all_neighbours():
    base = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03]
    rising = [[v * f for v in base] for f in (1, 2, 4)]
    assert judging.order(rising).p < 0.05
    fallen = judging.order([*rising, [v * 3 for v in base]])
    assert fallen.value == pytest.approx(0.75, rel=0.05)
    alone = judging.ratio(rising[2], [v * 3 for v in base], Bound(1.0)).p
    assert fallen.p == pytest.approx(min(1.0, alone * 3)), "Bonferroni, of three steps"


def test_ranks_of_a_median_of_even_and_odd_numbers():
    """The textbook's table of the sign test: of 6 values the ends, of 9 the second, of 20 the sixth of each side."""
    assert [medians.order_statistics(n)[0] for n in (6, 9, 20)] == [1, 2, 6]


def test_what_is_asked_and_expected_is_said():
    claim = {"table": "throughput", "where": {"workload": "put"}, "metric": "rate", "along": "buckets", "rule": "level"}
    assert cases.asked(claim) == "throughput.csv: workload put; rate per buckets"
    assert cases.asked(claim | {"rule": "ratio"}).endswith("; rate along buckets")
    assert (
        cases.expected(claim | {"at_most": 3.0, "at_least": None, "values": [], "shapes": [], "answers": []})
        == "at most 3"
    )
    assert (
        cases.expected(claim | {"at_most": None, "at_least": 3.0, "values": [], "shapes": [], "answers": []})
        == "at least 3"
    )


def test_a_ratio_at_the_bound_itself_cannot_be_told():
    """b is twice a, give or take 3 %: nobody can tell whether it is more or less than twice."""
    a = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03]
    found = judging.ratio(a, [2 * v for v in reversed(a)], Bound(2.0))
    assert found.p > 0.5 and judging.verdict(found, Bound(2.0), found.p) == "cannot tell"


def test_a_rising_order_has_the_p_of_its_weakest_step():
    base = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03]
    steps = [base, [v * 1.02 for v in base], [v * 3 for v in base]]
    weak = judging.ratio(steps[0], steps[1], Bound(1.0)).p
    assert judging.order(steps).p == weak > judging.ratio(steps[1], steps[2], Bound(1.0)).p


def test_conditions_take_the_least_or_the_most_of_what_is_left():
    table = pd.DataFrame({"a": [1, 1, 2, 3], "b": [5, 4, 3, 9]})
    assert select(table, {"b": "least"}).index.tolist() == [2]
    assert select(table, {"b": "most"}).index.tolist() == [3]
    assert select(table, {"a": 1, "b": "least"}).index.tolist() == [1]
    assert select(table, {"a": 1, "b": "most"}).index.tolist() == [0]
    assert select(table, {"a": ">= 2", "b": "least"}).index.tolist() == [2]
    assert select(table, {"c": 1}).empty and select(table, {"a": 7, "b": "least"}).empty
    assert select(table, {"a": [2, 3]}).index.tolist() == select(table, {"a": "> 1"}).index.tolist() == [2, 3]
    assert select(table, {"a": "<=1", "b": "< 5"}).index.tolist() == [1] and len(select(table, {})) == 4


def test_every_printed_number_has_a_unit_of_its_own():
    """A number of a finding: the value itself, or a cell of a printed table, or one cell over another."""
    assert claims.printed({"value": 1.54, "unit": "x"}) == (1.54, "x")
    assert claims.printed({})[1] == ""


def test_places_of_printed_numbers_are_known():
    assert len(published.places()) > 5 and all(place["table"] for place in published.places())


def test_uploads_beside_a_collection_are_felt_over_those_before():
    rows = [("k", "before", "put", 10.0), ("k", "during", "put", 4.0), ("other", "during", "put", 3.0)]
    phases = pd.DataFrame(rows, columns=["key", "phase", "does", "rate_per_s"])
    assert collections._felt(phases) == {("k", "during"): 0.4}, "without a rate before, none is told"
