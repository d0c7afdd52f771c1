"""Verdicts and claims on small tables made here: what a subject is, what stands beside a verdict, which runs a claim is judged on, and the
words of a claim."""

import math

import pandas as pd
import pytest

from storelab.analysis.parts.registry import Made
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics import judging
from storelab.analysis.tables import GIVEN, verdicts
from storelab.analysis.tables.verdicts import cases, claims, rules
from storelab.analysis.tables.verdicts.runs import Runs
from storelab.analysis.tables.verdicts.subject import Group, Subject
from storelab.core import records

S = 10**9
BY = ["store", "workload", "clients", "part_size_bytes"]
NULL = pd.NA


def points(*rows):
    """(clients, part size, speed) of each run."""
    table = pd.DataFrame(rows, columns=["clients", "part_size_bytes", "value"])
    table = table.assign(store="a", workload="get", state="ok", reason=None, metric="throughput")
    return table.astype({"clients": "Int64", "part_size_bytes": "Int64"})


RUNS = points((1, 5, 10.0), (1, 5, 12.0), (4, 5, 40.0), (4, 5, 44.0), (1, NULL, 900.0), (4, 6, 800.0))
GROUPS = pd.DataFrame(
    {"store": "a", "workload": "get", "clients": [1, 4, 4, 4], "part_size_bytes": [5, 5, NULL, 6], "n": [2, 2, 7, 8]}
).astype({"part_size_bytes": "Int64"})


def about(size, **tables):
    own = RUNS[RUNS["part_size_bytes"] == size] if size else RUNS[RUNS["part_size_bytes"].isna()]
    given = {"points": RUNS, "throughput": GROUPS, "resources": GROUPS.assign(n=99, cores=2)}
    known = verdicts.Known(given | tables, BY, ["store", "workload", "part_size_bytes"])
    return known.subject(verdicts.identities(own, BY), own["value"])


def test_a_subject_is_its_own_runs_and_what_is_known_of_its_best_group():
    s = about(5)
    assert s.best == Group({"store": "a", "workload": "get", "clients": 4, "part_size_bytes": 5}, (40.0, 44.0))
    assert [g.values for g in s.groups] == [(10.0, 12.0), (40.0, 44.0)]
    assert (s.row["n"], s.row["cores"]) == (2, 2), "throughput.csv before resources.csv"
    assert s.points.index.tolist() == [0, 1, 2, 3], "a null is no part size"


def test_a_subject_without_a_part_size_is_those_that_have_none():
    s = about(None)
    assert s.points.index.tolist() == [4] and s.best.axes["part_size_bytes"] is None and s.row == {}


def test_a_subject_has_its_curves_where_there_is_such_a_table():
    assert about(5).curves.empty, "a campaign may have no scaling.csv"
    curves = pd.DataFrame({"store": "a", "workload": "get", "part_size_bytes": [5, 6, NULL], "axis": "clients"})
    curves = curves.astype({"part_size_bytes": "Int64"})
    assert about(5, scaling=curves).curves.index.tolist() == [0]
    assert about(None, scaling=curves).curves.index.tolist() == [2]
    assert about(5, scaling=curves.drop(columns="part_size_bytes")).curves.index.tolist() == [0, 1, 2]
    assert about(5, scaling=curves.iloc[:0]).curves.empty


@pytest.mark.parametrize(
    ("axes", "kept"),
    [({"x": 1}, [0]), ({"x": None}, [1, 3]), ({"x": 2}, [2]), ({"x": 1, "y": "b"}, []), ({"x": None, "y": "b"}, [3])],
)
def test_rows_like_these_axes(axes, kept):
    for x in (pd.array([1, None, 2, None], dtype="Int64"), [1.0, math.nan, 2.0, math.nan]):
        table = pd.DataFrame({"x": x, "y": ["a", "a", "a", "b"]})
        assert verdicts.Alike(table, [*axes]).to(axes).index.tolist() == kept


CPU = {"host_cpu_median_percent": 95.0, "cores": 10, "client_cpu_median_cores": 9.0, "server_cpu_median_cores": 0.1}


def told(**row):
    axes = {
        "store": "a",
        "workload": "get",
        "engine": "loadgen",
        "object_size_bytes": 10**6,
        "clients": 2,
        "workers": 8,
    }
    best = Group(axes, (100.0, 101.0, 102.0))
    ok = pd.DataFrame({"state": ["ok"] * 3, "clients": 2, "workers": 8, "reason": None})
    s = Subject(best, row, (best,), ok, pd.DataFrame())
    return verdicts._row({"store": "a", "workload": "get", "metric": "throughput"}, s)


def test_a_verdict_is_the_first_rule_that_fires_and_the_others_stand_beside():
    row = told(bound_by="client", ceiling_percent=97.0, **CPU, host_memory_median_percent=96.0)
    assert row["verdict"] == "client memory" and row["evidence"].startswith("96 % of the memory")
    beside = [part.partition(": ")[0] for part in row["also"].split("; ")]
    assert beside == ["client ceiling", "client CPU"], "the verdict is not said twice"
    assert row["would_tell"] == "" and (row["best"], row["unit"], row["n"]) == (101.0, "MB/s", 3)
    alone = told(bound_by="client", ceiling_percent=97.0)
    assert (alone["verdict"], alone["also"]) == ("client ceiling", "")


def test_where_no_rule_fires_it_says_what_would_tell():
    row = told()
    assert (row["verdict"], row["also"]) == ("not known", "")
    assert row["evidence"] == "nothing was recorded that could tell" and "a calibration" in row["would_tell"]
    assert row["where"] == "2 clients, 8 workers per client" and row["engine"] == "loadgen"
    assert [*row] == list(verdicts.COLUMNS) and (row["store"], row["deployment"], row["workload"]) == ("a", "a", "get")
    assert row["what"] == "1 MB objects"


def test_where_the_best_rate_was_names_what_was_varied():
    """Clients and workers always, others where they were varied, none that the workload lacks."""
    axes = {"store": "a", "workload": "get", "clients": 2, "workers": None, "buckets": 5, "front_ends": 1}
    best, other = Group(axes, (2.0,)), Group(axes | {"buckets": 1}, (1.0,))
    s = Subject(best, {}, (best, other), pd.DataFrame({"state": ["ok"]}), pd.DataFrame())
    row = verdicts._row({"store": "a", "workload": "get", "metric": "rate"}, s)
    assert row["where"] == "2 clients, 5 buckets" and row["unit"] == "objects/s"


@pytest.mark.parametrize(
    ("client", "server", "shared", "taken"),
    [
        (8.0, 0.0, True, None),  # 1 of 10 cores: a tenth, and not more
        (7.0, 1.0, True, None),
        (7.995, 0.0, True, "1.00"),  # 10.05 %
        (8.0, None, False, None),
        (7.995, None, False, "1.00"),
        (1.0, None, True, None),  # the server's part is not known
        (5.5, 0.5, True, "3"),
    ],
)
def test_what_neither_side_took_is_told_from_a_tenth_of_the_host_on(client, server, shared, taken):
    row = {"host_cpu_median_percent": 90.0, "cores": 10, "shared_host": shared}
    row |= {"client_cpu_median_cores": client, "server_cpu_median_cores": server}
    used, own, other, said = rules._sides(Subject(Group({}, (1.0,)), row, (), pd.DataFrame(), pd.DataFrame()))
    assert (used, own, other) == (9.0, client, server)
    assert ("taken by the kernel and by other programs" in said) == (taken is not None)
    assert taken is None or f", {taken} taken by" in said
    assert ("is not known" in said) == (shared and server is None)
    assert said.startswith(f"host 90 % busy: clients {rules._n(client)}") and " of 10 cores" in said
    assert (", server " in said) == (server is not None)


# Claims


def claim(**more):
    least = {
        "table": "throughput",
        "where": {},
        "metric": "rate",
        "along": "",
        "rule": "level",
        "values": [],
        "shapes": [],
    }
    return least | {"answers": [], "at_least": None, "at_most": None, "apart": [], "enough": 100} | more


@pytest.mark.parametrize(
    ("said", "query", "expected"),
    [
        ({"at_least": 300.0}, "throughput.csv: all rows; rate", "at least 300"),
        ({"at_most": 0.5, "along": "clients"}, "throughput.csv: all rows; rate per clients", "at most 0.5"),
        (
            {"rule": "ratio", "along": "buckets", "values": [1, 5], "at_least": 1.54, "where": {"workload": "put"}},
            "throughput.csv: workload put; rate along buckets",
            "ratio of 5 buckets over 1 bucket at least 1.54",
        ),
        (
            {"rule": "ratio", "along": "store", "values": ["worst", "best"], "at_most": 2.0},
            "throughput.csv: all rows; rate along store",
            "ratio of best over worst at most 2",
        ),
        (
            {"rule": "slope", "along": "front_ends", "at_most": 0.2, "where": {"clients": "most", "size": [1.0, 2.5]}},
            "throughput.csv: clients most, size 1 or 2.5; rate along front_ends",
            "exponent at most 0.2",
        ),
        ({"rule": "count", "at_most": 0}, "throughput.csv: all rows; rate", "at most 0"),
        (
            {"rule": "order", "along": "clients", "values": ["least", 4, "most"]},
            "throughput.csv: all rows; rate along clients",
            "rising: least, 4 clients, most",
        ),
        ({"rule": "shape", "shapes": ["knee", "peak"]}, "throughput.csv: all rows; rate", "knee or peak"),
        (
            {"rule": "answer", "metric": "", "answers": ["yes", "no"], "along": "store"},
            "throughput.csv: all rows; answer along store",
            "yes and no",
        ),
    ],
)
def test_a_claim_in_words(said, query, expected):
    of = claim(**said)
    assert (cases.asked(of), cases.expected(of)) == (query, expected)
    assert cases.bound(of).most == ("at_most" in said)
    assert cases.bound(of).at == said.get("at_most", said.get("at_least", 1.0))


def three(*medians):
    rows = [
        (b, 100 * m * f) for b, m in zip((1, 2, 5), medians, strict=True) for f in (0.97, 1.03, 0.98, 1.02, 0.99, 1.01)
    ]
    return pd.DataFrame(rows, columns=["buckets", "rate_per_s"])


@pytest.mark.parametrize(
    ("values", "medians", "base", "over", "pairs"),
    [
        ([1, 5], (1, 2, 3), 1, 5, 1),
        (["least", "most"], (1, 5, 3), 1, 5, 1),
        (["most", "least"], (1, 5, 3), 5, 1, 1),
        (["worst", "best"], (1, 5, 3), 1, 2, 3),  # chosen of three: all pairs count
        (["best", "worst"], (3, 5, 1), 2, 5, 3),
        ([1, "best"], (1, 5, 3), 1, 2, 3),
        (["worst", 5], (2, 1, 3), 2, 5, 3),
    ],
)
def test_only_what_was_chosen_by_its_speed_counts_for_all_pairs(values, medians, base, over, pairs):
    group = three(*medians)
    of = claim(rule="ratio", along="buckets", values=values, at_least=1.2)
    found, said, top = cases.RULES["ratio"](of, group, "rate_per_s")
    one, other = (group.loc[group["buckets"] == b, "rate_per_s"] for b in (base, over))
    alone = judging.ratio(one, other, cases.bound(of))
    assert top == over and found.value == alone.value and found.p == pytest.approx(min(1.0, pairs * alone.p))
    assert said == "{}, {} /s".format(
        *(f"{b} bucket{'s' * (b > 1)} {100 * medians[(1, 2, 5).index(b)]:g}" for b in (base, over))
    )


def test_a_ratio_needs_two_sides_that_were_measured():
    of = claim(rule="ratio", along="buckets", at_least=1.2)
    for values in ([1, 9], [9, 1], [1, 1], ["least", 1], ["worst", "least"]):
        assert cases.RULES["ratio"](of | {"values": values}, three(1, 2, 3), "rate_per_s") is None


def test_the_fastest_is_that_with_the_highest_median_and_a_store_may_bear_any_name():
    sides = {"best": [1.0, 1.0, 90.0], "b": [2.0, 2.0, 2.0], "least": [3.0]}
    of = claim(along="store", values=["b", "best", "most", "worst", "gone"])
    assert cases._picked(of, sides) == ["b", "best", "least", "best", None]


# The rules, of runs whose factors are seen at a glance

SCATTER = (0.97, 1.03, 0.98, 1.02, 0.99, 1.01)
ONE = judging.Bound(1.0)


def around(*factors, scatter=SCATTER):
    return [[f * s for s in scatter] for f in factors]


def test_an_order_with_steps_that_nobody_can_tell():
    """Two runs against six have no test (2 / C(8, 2) is above 5 %). What rises cannot be told then; a step that surely falls refutes all the same."""
    few, low, high = [1.0, 1.01], *around(2, 4)
    found = judging.order([few, low, high])
    assert math.isnan(found.p) and "too few" in found.reason and found.value == pytest.approx(2, rel=0.05)
    found = judging.order([high, low, [9.0, 9.1]])
    alone = judging.ratio(high, low, ONE).p
    assert found.value == pytest.approx(0.5) and found.p == pytest.approx(2 * alone) and found.reason == ""
    found = judging.order([low, high, few])
    assert found.value == pytest.approx(0.25, rel=0.05) and math.isnan(found.p) and "too few" in found.reason
    level = judging.order([[5.0] * 6, [5.0] * 6, [1.0] * 2])
    assert level.value == pytest.approx(0.2) and math.isnan(level.p)
    assert math.isnan(judging.order([[5.0] * 6, [5.0] * 6, [9.0] * 2]).p), "a step of exactly 1 falls not"
    none = judging.order([low, [], high])
    assert math.isnan(none.p) and "no run" in none.reason


def test_an_order_whose_steps_are_level_or_fall():
    same = around(1, 1, 1)
    assert judging.order(same).p == 1.0, "all alike: a p of 1, whatever number of steps"
    falling = around(4, 2, 2.001, 2.002)
    assert judging.order(falling).p == pytest.approx(3 * judging.ratio(falling[0], falling[1], ONE).p)
    fallen = around(1.001, 1, 1, scatter=(0.5, 2.0, 0.6, 1.7, 0.8, 1.25))
    assert judging.order(fallen).value < 1 and judging.order(fallen).p == 1.0, "no p above 1"


def test_a_ratio_that_was_chosen_of_many():
    a, b = around(1, 2)
    alone = judging.ratio(a, b, ONE)
    assert alone.p == pytest.approx(2 / math.comb(12, 6)) and alone.reason == ""
    assert judging.ratio(a, b, ONE, 10).p == pytest.approx(10 * alone.p) and judging.ratio(a, b, ONE, 10**4).p == 1.0
    assert "too few" in judging.ratio(a[:3], b[:3], ONE).reason


def test_a_case_without_a_test_counts_in_no_correction():
    """A claim on one store with six runs a side, p = 2 / C(12, 6); beside it forty stores with one run a side, which have none."""

    def of_store(name, runs):
        return pd.DataFrame(
            {"store": name, "buckets": b, "rate_per_s": v, "key": f"{name} {b}", "clients": 1}
            for b, own in zip((1, 5), around(1, 2, scatter=SCATTER[:runs]), strict=True)
            for v in own
        )

    said = {"says": "So.", "source": "me", "published": None, "campaigns": []}
    mine = {"mine": claim(rule="ratio", along="buckets", values=[1, 5], at_least=1.5, **said)}
    rows = pd.concat([of_store("a", 6), *(of_store(f"b{i}", 1) for i in range(40))], ignore_index=True)
    found = claims.judged(mine, {"throughput": rows}).set_index("system")
    assert found.loc["a", "p"] == pytest.approx(2 / math.comb(12, 6)) and found.loc["a", "verdict"] == "confirmed"
    assert found.drop("a")["p"].isna().all() and set(found.drop("a")["verdict"]) == {"cannot tell"}
    assert found.drop("a")["reason"].str.contains("one run against one is too few").all()


@pytest.mark.parametrize(
    ("x", "y", "tells"),
    [
        ([1, 2, 4], [1, 2, 4], False),  # a run at each value: no scatter
        ([1, 1, 2], [1, 1, 2], False),  # one degree of freedom
        ([1, 2, 4, 8], [1, 2, 4, 8], False),
        ([1, 1, 2, 2], [1.0, 1.1, 2.0, 2.2], True),
        ([1, 1, 2, 4, 8], [1.0, 1.1, 2.0, 4.0, 8.0], True),
    ],
)
def test_an_exponent_needs_repetitions(x, y, tells):
    found = judging.slope(x, y, judging.Bound(0.5))
    assert found.value == pytest.approx(1, abs=0.06)
    assert math.isfinite(found.p) == math.isfinite(found.low) == tells and (found.reason == "") == tells
    assert tells or f"{len(x)} runs at {len(set(x))} values" in found.reason


def test_an_exponent_without_scatter_is_sure_on_either_side_of_the_bound():
    found = judging.slope([1, 1, 2, 2], [3, 3, 3, 3], judging.Bound(0.5))
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 0)
    for x, y in (([1, 0, 2, 2], [1, 1, 2, 2]), ([1, 1, 2, 2], [1, -1, 2, 2])):
        assert "no exponent" in judging.slope(x, y, ONE).reason


# Rows that claims are judged on


def read_at(end, **more):
    row = {
        "client": 0,
        "read": 0,
        "entries": 10,
        "branches": 1,
        "baskets": 2,
        "needed_bytes": 1000,
        "asked_bytes": 1500,
    }
    row |= {"wire_bytes": 2000, "requests": 4, "start_ns": end - 1, "end_ns": end, "open_ns": 0}
    return row | dict.fromkeys(("plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns"), 10**6) | more


@pytest.fixture
def campaign(tmp_path):
    """Two runs of 4 s without warm-up: jobs, that read 8 times, and readers of entries, that read twice."""
    runs = {}
    for key, n in (("jobs", 8), ("entries", 2)):
        rows = [read_at((i + 1) * S // 4) for i in range(n)]
        columns = {c: [r[c] for r in rows] for c in records.READS}
        records.write_table(tmp_path / "raw" / key / "reads.0.parquet", records.READS, columns)
        clients = [{"client": 0, "host": "n", "start_ns": 0, "end_ns": 4 * S, "engine": {}}]
        runs[key] = {"start_ns": 0, "deadline_ns": 4 * S, "clients": clients, "files": {"reads.0.parquet": {}}}
        runs[key]["point"] = {"fixed": {"warm_up_ns": 0}, "axes": {"clients": 1}}
    plan = {"points": [{"key": "jobs", "workload": "events"}, {"key": "entries", "workload": "read_entries"}]}
    return Campaign(tmp_path, plan, runs, {})


PLAIN = pd.DataFrame(
    {"key": ["jobs", "entries", "gone"], "store": "a", "workload": ["events", "read_entries", "events"], "clients": 1}
).assign(state=["ok", "ok", "failed"], rep=1, shared_host=False, entry_fraction_percent=[None, 100.0, None])


def test_claims_on_events_are_judged_on_the_runs_of_jobs(campaign):
    found = Runs(Made({"campaign": campaign, "plain": PLAIN}, GIVEN))["events"]
    assert found["key"].tolist() == ["jobs"] and found["events_per_s"].tolist() == [8 * 10 / 4]
    assert found["wire_bytes_per_event"].tolist() == [200] and found["requests_per_event"].tolist() == [0.4]


def test_claims_on_reads_are_judged_on_the_runs_that_read(campaign):
    axes = {"entry_fraction_percent": "Float64", "clients": "Int64"}
    tables = Made({"campaign": campaign, "plain": PLAIN, "axes": axes}, GIVEN)
    found = Runs(tables)["sparse"].set_index("key")
    assert found.loc["entries", "reads_per_s"] == 2 / 4 and found.loc["jobs", "reads_per_s"] == 8 / 4
    assert set(found.index) == {"jobs", "entries"} and found["amplification_ratio"].tolist() == [2, 2]


def of_roles(**more):
    return pd.DataFrame({"key": ["k", "k", "bad"], "role": ["up", "down", "up"], "does": ["put", "get", "put"]} | more)


ROLES = pd.DataFrame({"key": ["k", "bad"], "store": "a", "workload": "roles-x", "state": ["ok", "invalid"], "rep": 1})


def test_claims_on_roles_and_their_recovery_are_judged_on_valid_runs():
    tables = {"points": ROLES, "roles_by": ["store", "workload"], "rated": ROLES.assign(key="another", pause_s=-1)}
    tables["role_phases"] = of_roles(phase="during", rate_per_s=[10.0, 20.0, 30.0])
    tables["recoveries"] = of_roles(pause_s=[1.0, 2.0, 3.0], failed_operations=[0, 5, 9])
    runs = Runs(tables)
    assert runs["recovery"]["pause_s"].tolist() == [1, 2] and runs["recovery"]["failed_operations"].tolist() == [0, 5]
    assert runs["recovery"]["role"].tolist() == ["up", "down"] and "rate_per_s" not in runs["recovery"]
    assert runs["roles"]["rate_per_s"].tolist() == [10, 20] and "pause_s" not in runs["roles"]
    assert set(runs["roles"]["store"]) == {"a"} and runs["roles"] is runs["roles"], "made once"


def test_claims_on_space_are_judged_on_what_it_used(tmp_path):
    used = {"objects": 3, "stored_bytes": 1000, "used_before_bytes": 500, "used_after_put_bytes": 2500}
    used |= {"used_after_delete_bytes": 2000, "used_after_reclaim_bytes": 500, "delete_s": 1.0, "reclaim_s": 1.0}
    observed = {"k": {"observed": used}, "other": {}}
    rows = pd.DataFrame({"key": ["k", "other"], "store": "a", "workload": "space", "state": "ok"})
    found = Runs({"campaign": Campaign(tmp_path, {}, observed, {}), "plain": rows})["space"]
    assert found["key"].tolist() == ["k"] and found["raw_per_byte_after_put_ratio"].tolist() == [2]


def test_tables_of_counts_are_judged_as_they_are_without_columns_of_no_claim():
    counts = pd.DataFrame({"store": ["a"], "scenario": ["overwrite"], "tried": [9], "anomalies": [1], "secret": [3]})
    assert Runs({"consistency": counts})["consistency"].to_dict("list") == {
        **{"store": ["a"], "scenario": ["overwrite"], "tried": [9], "anomalies": [1]}
    }
    with pytest.raises(KeyError):
        Runs({})["nothing"]
