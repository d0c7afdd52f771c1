"""Claims: each rule confirms, refutes and cannot tell on tables made for it; the list of findings is sound; many claims at once are corrected.

Truth comes from how the tables are made: factors, exponents and counts are put in, scatter is symmetric in the logarithm.
"""

import math
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml
from paths import ROOT
from pydantic import ValidationError

from storelab.analysis.latex.verdicts import claims as latex
from storelab.analysis.records import claims as findings
from storelab.analysis.statistics import judging
from storelab.analysis.statistics.judging import Bound
from storelab.analysis.tables.verdicts import cases
from storelab.analysis.tables.verdicts import claims as table_of
from storelab.analysis.tables.verdicts.runs import Runs
from storelab.core import config
from storelab.core import plan as planning
from storelab.core.axes import ALL
from storelab.core.campaign.claims import NEEDS, Claim, resolved
from storelab.core.errors import UserError
from storelab.workloads import WORKLOADS

PAGE = (ROOT / "docs" / "claims.md").read_text()
SCATTER = (0.97, 1.03, 0.98, 1.02, 0.99, 1.01)  # its logarithms sum up to about 0
WIDE = (0.5, 2.0, 0.6, 1.7, 0.8, 1.25)


def runs(value, scatter=SCATTER, **columns) -> pd.DataFrame:
    """Runs of one point, around the value."""
    same = {"store": "alpha", "workload": "get", "object_size_bytes": 10**7, "clients": 1, "workers": 1} | columns
    rows = [same | {"throughput_mb_per_s": value * s, "rate_per_s": value * s} for s in scatter]
    return pd.DataFrame(rows).assign(key=[f"{'/'.join(map(str, same.values()))}/{i}" for i in range(len(rows))])


def judged(*parts: pd.DataFrame, table="throughput", axes=ALL, **said) -> pd.DataFrame:
    claim = Claim.model_validate({"says": "So it is.", "source": "somebody", "table": table} | said)
    return table_of.judged(resolved({"mine": claim}, axes), {table: pd.concat(parts, ignore_index=True)})


def verdict(*parts: pd.DataFrame, **said) -> str:
    found = judged(*parts, **said)
    assert len(found) == 1
    return found["verdict"].iloc[0]


SLOPE = {"metric": "throughput", "along": "front_ends", "rule": "slope", "at_least": 0.8}


def front_ends(exponent: float, scatter=SCATTER, **more) -> list[pd.DataFrame]:
    return [runs(100 * n**exponent, scatter, front_ends=n, **more) for n in (1, 2, 4)]


def test_a_slope():
    row = judged(*front_ends(1.0), **SLOPE).iloc[0]
    assert row["verdict"] == "confirmed" and row["low"] < 1 < row["high"] and row["value"] == pytest.approx(1, abs=1e-9)
    assert row["n"] == 18 and len(row["points"].split()) == 18
    assert verdict(*front_ends(0.5), **SLOPE) == "refuted"
    assert verdict(*front_ends(0.8, WIDE), **SLOPE) == "cannot tell"
    assert verdict(*front_ends(1.0, (1.0,)), **SLOPE) == "cannot tell", "single runs have no scatter"
    assert verdict(*front_ends(0.05), **SLOPE | {"at_least": None, "at_most": 0.2}) == "confirmed"
    assert verdict(runs(100, front_ends=1), **SLOPE) == "not measured here"


def test_the_interval_of_a_slope_is_that_of_the_textbook():
    """Against scipy's regression, another implementation."""
    from scipy import stats

    x, y = np.repeat([1.0, 2, 5], 4), np.random.default_rng(1).lognormal(2, 0.3, 12)
    found, other = judging.slope(x, y, Bound(0.3)), stats.linregress(np.log(x), np.log(y))
    reach = stats.t.ppf(0.975, 10) * other.stderr
    assert (found.value, found.low, found.high) == pytest.approx(
        (other.slope, other.slope - reach, other.slope + reach)
    )
    assert found.p == pytest.approx(2 * stats.t.sf(abs(other.slope - 0.3) / other.stderr, 10))


RATIO = {"metric": "rate", "along": "buckets", "values": [1, 5], "rule": "ratio", "at_least": 1.5}


def buckets(factor: float, scatter=SCATTER) -> list[pd.DataFrame]:
    return [runs(100, scatter, buckets=1), runs(100 * factor, scatter, buckets=5)]


def test_a_ratio():
    row = judged(*buckets(2.0), **RATIO).iloc[0]
    assert row["verdict"] == "confirmed" and row["value"] == pytest.approx(2, rel=1e-6) and row["low"] > 1.9
    assert verdict(*buckets(1.2), **RATIO) == "refuted"
    assert verdict(*buckets(1.5, WIDE), **RATIO) == "cannot tell"
    assert verdict(*buckets(2.0, SCATTER[:3]), **RATIO) == "cannot tell", "3 against 3 runs have no interval"
    assert verdict(*buckets(1.0), **RATIO | {"at_least": None, "at_most": 1.1}) == "confirmed"
    assert verdict(*buckets(2.0), **RATIO | {"values": [1, 7]}) == "not measured here"
    assert verdict(*buckets(2.0), **RATIO | {"values": ["least", "most"]}) == "confirmed"


def test_a_ratio_rests_on_the_values_that_it_names_alone():
    """Not on others that were measured beside them, nor on runs without a value."""
    lost = runs(100, buckets=1).assign(throughput_mb_per_s=np.nan, rate_per_s=np.nan, key="lost")
    row = judged(*buckets(2.0), runs(500, buckets=4096), lost, **RATIO).iloc[0]
    assert row["value"] == pytest.approx(2, rel=1e-6) and row["n"] == 2 * len(SCATTER)
    assert len(row["points"].split()) == row["n"] and "lost" not in row["points"]


def test_the_best_and_the_worst_count_for_all_their_pairs():
    stores = [runs(100 * f, store=s) for s, f in (("a", 1.0), ("b", 1.03), ("c", 1.3), ("d", 1.05))]
    said = {"metric": "rate", "along": "store", "values": ["worst", "best"], "rule": "ratio", "at_least": 1.2}
    row = judged(*stores, **said).iloc[0]
    assert row["system"] == "all systems" and row["value"] == pytest.approx(1.3, rel=1e-6)
    pair = judged(stores[0], stores[2], **said).iloc[0]
    assert row["p"] == pytest.approx(6 * pair["p"]) and pair["p"] == pytest.approx(2 / math.comb(12, 6))
    assert "a 100" in row["evidence"] and "c 130" in row["evidence"]


LEVEL = {"metric": "throughput", "rule": "level", "at_least": 300}


def test_a_level():
    row = judged(runs(400), **LEVEL).iloc[0]
    assert row["verdict"] == "confirmed" and row["unit"] == "MB/s" and row["p"] == pytest.approx(2 / 2**6)
    assert row["low"] < 400 < row["high"]
    assert verdict(runs(200), **LEVEL) == "refuted"
    assert verdict(runs(300), **LEVEL) == "cannot tell"
    assert verdict(runs(400, SCATTER[:5]), **LEVEL) == "cannot tell", "5 runs have no interval"
    assert verdict(runs(200), **LEVEL | {"at_least": None, "at_most": 300}) == "confirmed"
    per = {"along": "front_ends", "metric": "throughput", "rule": "level", "at_least": 90}
    row = judged(runs(400, front_ends=4), **per).iloc[0]
    assert row["value"] == pytest.approx(100, rel=0.01) and row["verdict"] == "confirmed"
    assert verdict(runs(200, front_ends=4), **per) == "refuted"
    assert verdict(runs(200, front_ends=4).assign(bound_by="link"), **per) == "cannot tell"


def counted(anomalies: int, tried: int) -> pd.DataFrame:
    return pd.DataFrame([{"store": "alpha", "scenario": "comes_back", "tried": tried, "anomalies": anomalies}])


def test_a_count():
    comes = {"table": "consistency", "metric": "anomalies", "rule": "count", "at_least": 1}
    never = comes | {"at_least": None, "at_most": 0}
    for n, of, some, none in (
        (3, 50, "confirmed", "refuted"),
        (0, 1000, "refuted", "confirmed"),
        (0, 50, "cannot tell", "cannot tell"),
    ):
        assert verdict(counted(n, of), **comes) == some and verdict(counted(n, of), **never) == none
    row = judged(counted(0, 1000), **comes).iloc[0]
    assert row["high"] == pytest.approx(1000 * (1 - 0.025 ** (1 / 1000))) and row["low"] == 0
    assert verdict(counted(0, 50), **never, enough=20) == "confirmed"
    more = pd.concat([counted(0, 60).assign(runs=2), counted(0, 60).assign(runs=2, scenario="overwrite")])
    row = judged(more, **never).iloc[0]
    assert (row["verdict"], row["n"], row["evidence"]) == ("confirmed", 2, "0 in 120 tries"), "counts add up"


def test_a_count_of_failed_operations_has_runs_for_tries():
    lost = pd.DataFrame(
        [{"store": "a", "workload": "roles-x", "role": "up", "does": "put", "failed_operations": f} for f in (0, 0, 0)]
    )
    said = {"table": "recovery", "metric": "failed_operations", "rule": "count", "at_most": 0, "enough": 3}
    assert verdict(lost, **said) == "confirmed"
    assert verdict(lost.iloc[:2], **said) == "cannot tell"
    assert verdict(lost.assign(failed_operations=[0, 2, 0]), **said) == "refuted"
    both = lost.assign(role=["up", "down", "down"], failed_operations=[7, 0, 0])
    row = judged(both, **said).iloc[0]
    assert (row["verdict"], row["value"], row["cases"]) == ("refuted", 7, 1), "one failure is enough against `never`"
    assert pd.isna(row["high"])


ORDER = {"metric": "rate", "along": "workers", "values": [1, 4, 16], "rule": "order"}


def test_an_order():
    def of(*values, scatter=SCATTER):
        return [runs(v, scatter, workers=w) for v, w in zip(values, (1, 4, 16), strict=True)]

    row = judged(*of(100, 150, 300), **ORDER).iloc[0]
    assert row["verdict"] == "confirmed" and row["value"] == pytest.approx(1.5, rel=1e-6)
    assert verdict(*of(100, 150, 120), **ORDER) == "refuted"
    assert verdict(*of(100, 101, 300), **ORDER) == "cannot tell"
    assert verdict(*of(100, 150, 300, scatter=WIDE[:3]), **ORDER) == "cannot tell"
    assert verdict(*of(100, 150, 300)[:2], **ORDER) == "not measured here"


def test_a_shape():
    said = {"metric": "rate", "along": "clients", "rule": "shape", "shapes": ["peak"]}
    falls = [runs(v, clients=c) for c, v in ((1, 100), (2, 200), (4, 400), (8, 200), (16, 100))]
    rises = [runs(100 * c, clients=c) for c in (1, 2, 4, 8)]
    row = judged(*falls, **said).iloc[0]
    assert row["verdict"] == "confirmed" and row["low"] <= 4 <= row["high"] and row["unit"] == "clients"
    assert verdict(*rises, **said) == "refuted"
    assert verdict(*[runs(100 * c, (1.0,), clients=c) for c in (1, 2, 4)], **said) == "cannot tell"
    assert verdict(*rises, **said | {"shapes": ["peak", "still rising"]}) == "confirmed"
    assert verdict(*rises[:2], **said) == "not measured here"


def test_an_answer():
    def of(**given):
        return pd.DataFrame(
            [{"store": s, "topic": "ranges", "check": "multi-range 2", "answer": a} for s, a in given.items()]
        )

    one = {"table": "capabilities", "where": {"store": "ceph"}, "rule": "answer", "answers": ["no"]}
    assert verdict(of(ceph="no", nginx="yes"), **one) == "confirmed"
    assert verdict(of(ceph="yes"), **one) == "refuted"
    assert verdict(of(ceph="differs"), **one) == "cannot tell"
    assert verdict(of(ceph="not tried"), **one) == verdict(of(nginx="no"), **one) == "not measured here"
    some = {"table": "capabilities", "along": "store", "rule": "answer", "answers": ["yes", "no"]}
    assert verdict(of(ceph="no", nginx="yes"), **some) == "confirmed"
    assert verdict(of(ceph="no", hdfs="no"), **some) == "refuted"
    assert verdict(of(ceph="no"), **some) == "cannot tell"


# --- cases ----------------------------------------------------------------------------------------------------------------------------


def test_what_differs_in_something_else_is_no_pair():
    apart = [runs(100, buckets=1, clients=1), runs(200, buckets=5, clients=2)]
    assert verdict(*apart, **RATIO) == "not measured here"
    assert verdict(*apart, **RATIO, apart=["clients"]) == "confirmed"


def test_cases_that_contradict_each_other_cannot_be_told():
    mixed = [*front_ends(1.0, engine="s5cmd"), *front_ends(0.3, engine="obstore")]
    row = judged(*mixed, **SLOPE).iloc[0]
    assert (row["verdict"], row["cases"], row["confirmed"], row["refuted"]) == ("cannot tell", 2, 1, 1)
    alike = [*front_ends(1.0, engine="s5cmd"), *front_ends(0.95, engine="obstore")]
    row = judged(*alike, **SLOPE).iloc[0]
    assert (row["verdict"], row["confirmed"]) == ("confirmed", 2) and row["value"] == pytest.approx(0.95)
    assert row["evidence"].startswith("obstore: ")


def test_systems_have_a_row_each():
    found = judged(*front_ends(1.0, store="a"), *front_ends(0.3, store="b"), **SLOPE)
    assert list(zip(found["system"], found["verdict"], strict=True)) == [("a", "confirmed"), ("b", "refuted")]


def test_the_most_clients_at_each_number_of_front_ends():
    """Of a product all clients are the most of all; of rows that go together each front-end has its own."""
    rising = [runs(100 * n, front_ends=n, clients=3 * n) for n in (1, 2, 4)]
    assert verdict(*rising, **SLOPE, where={"clients": "most"}) == "confirmed"
    product = [runs(100 * min(n, c), front_ends=n, clients=c) for n in (1, 2, 4) for c in (1, 4)]
    assert verdict(*product, **SLOPE, where={"clients": "most"}) == "confirmed"
    assert verdict(*product, **SLOPE, where={"clients": "least"}) == "refuted"


def test_a_speed_that_the_client_kept_down_is_not_held_against_a_claim():
    flat = front_ends(0.0)
    assert verdict(*flat, **SLOPE) == "refuted"
    bound = [part.assign(bound_by=None if i < 2 else "link") for i, part in enumerate(flat)]
    row = judged(*bound, **SLOPE).iloc[0]
    assert (row["verdict"], row["reason"]) == ("cannot tell", "the link was near its limit")
    busy = [part.assign(shared_host=True, host_cpu_percent=97.0) for part in flat]
    row = judged(*busy, **SLOPE).iloc[0]
    assert row["verdict"] == "cannot tell" and "97 % busy" in row["reason"]
    assert verdict(*[part.assign(host_cpu_percent=80.0) for part in busy], **SLOPE) == "refuted"
    assert verdict(*[part.assign(shared_host=False) for part in busy], **SLOPE) == "refuted"
    linear = [part.assign(shared_host=True, host_cpu_percent=97.0) for part in front_ends(1.0)]
    assert verdict(*linear, **SLOPE) == "confirmed", "it rose all the same"
    none = SLOPE | {"at_least": None, "at_most": 0.2}
    assert verdict(*busy, **none) == "cannot tell" and verdict(*flat, **none) == "confirmed"


def test_a_fall_counts_for_all_steps():
    low, high, between = ([100 * f * v for v in SCATTER] for f in (1, 2, 1.5))
    assert judging.order([low, high, between]).p == pytest.approx(2 * 2 / math.comb(12, 6))


def test_a_shape_may_be_the_clients_own_but_not_that_of_a_busy_host():
    said = {"metric": "rate", "along": "workers", "rule": "shape", "shapes": ["knee"]}
    knee = [runs(100 * min(w, 4), workers=w) for w in (1, 2, 4, 8, 16)]
    assert verdict(*knee, **said) == "confirmed"
    assert verdict(*[part.assign(bound_by="client") for part in knee], **said) == "confirmed"
    busy = [part.assign(shared_host=True, host_cpu_percent=97.0) for part in knee]
    assert verdict(*busy, **said) == "cannot tell"


def test_open_loops_are_no_speeds():
    rated = runs(100).assign(state=["ok"] * 5 + ["invalid"], arrival_rate=[0, None, 0, 500, 500, 0])
    rated = rated.rename(
        columns={"rate_per_s": "overlap_rate_per_s", "throughput_mb_per_s": "overlap_throughput_mb_per_s"}
    )
    assert list(Runs({"rated": rated})["throughput"]["rate_per_s"]) == pytest.approx([97, 103, 98])


def test_uploads_and_downloads_are_a_pair_though_their_axes_differ():
    both = [runs(100, workload="put", payload="default"), runs(300, workload="get", access="warm")]
    said = {"metric": "throughput", "along": "workload", "values": ["put", "get"], "rule": "ratio", "at_least": 1.41}
    assert judged(*both, **said).iloc[0]["value"] == pytest.approx(3, rel=1e-6)
    cold = runs(30, workload="get", access="cold")
    assert judged(*both, cold, **said).iloc[0]["value"] == pytest.approx(3, rel=1e-6), "the default of what puts lack"


def test_an_axis_that_some_runs_of_each_side_lack_still_tells_cases_apart():
    plain = [runs(100, workload="put"), runs(300, workload="get")]
    parts = [runs(50, workload="put", part_size_bytes=5), runs(60, workload="get", part_size_bytes=5)]
    said = {"metric": "throughput", "along": "workload", "values": ["put", "get"], "rule": "ratio", "at_least": 1.41}
    row = judged(*plain, *parts, **said).iloc[0]
    assert (row["cases"], row["confirmed"], row["refuted"]) == (2, 1, 1)


def test_many_claims_at_once_are_corrected():
    """A claim on 300 systems whose bound is the truth: alone one in twenty has p below 5 %, corrected next to none."""
    rng = np.random.default_rng(7)
    x = np.tile(np.repeat([1, 2, 4], 6), 300)
    same = {"store": [f"s{i:03}" for i in range(300) for _ in range(18)], "workload": "get", "front_ends": x}
    found = judged(
        pd.DataFrame(same | {"throughput_mb_per_s": x * rng.lognormal(0, 0.1, len(x))}), **SLOPE | {"at_least": 1.0}
    )
    alone = found["verdict_alone"].isin(("confirmed", "refuted")).sum()
    assert len(found) == 300 and 6 <= alone <= 26 and found["verdict"].isin(("confirmed", "refuted")).sum() <= 1
    assert set(found.loc[found["verdict"] == "cannot tell", "reason"]) <= {
        "the interval holds the bound",
        "not beyond chance among so many claims",
    }


# --- the list of findings ---------------------------------------------------------------------------------------------------------------


def test_the_findings_are_whole():
    known = findings.findings()
    assert len(known) >= 30 and {c["rule"] for c in known.values()} == set(NEEDS)
    campaigns = {p.stem for p in (ROOT / "campaigns").glob("*.yaml")}
    for name, claim in known.items():
        assert set(claim["campaigns"]) <= campaigns, name
        value, unit = findings.printed(claim["published"])
        assert math.isfinite(value) == bool(claim["published"]), name
        assert claim["says"].endswith(".") and cases.asked(claim) and cases.expected(claim) and isinstance(unit, str)
    assert findings.printed(known["five_buckets_double_uploads"]["published"]) == (pytest.approx(118 / 50), "")
    assert findings.printed(known["accounts_double_uploads"]["published"]) == (1400, "files/s")
    assert findings.printed(known["few_entries_cost_420_times"]["published"])[0] == pytest.approx(
        320.92 / (758.42 * 12 / 11918)
    )


def test_what_a_finding_asks_for_is_in_the_campaigns_that_are_told():
    """Each campaign that a finding names has its workloads and the axis along which it compares, with two values or more."""

    @cache
    def planned_points(campaign: str):
        return planning.make(config.load(ROOT / "config.yaml", overrides={"campaign": campaign}), WORKLOADS)

    for name, claim in findings.findings().items():
        for campaign in claim["campaigns"]:
            points = planned_points(campaign)
            workload = claim["where"].get("workload")
            own = [p for p in points if workload in (None, p.workload)]
            assert own, f"{name}: {campaign} has no {workload}"
            if claim["along"] and claim["rule"] != "level" and claim["along"] not in ("store", "workload", "does"):
                columns = {a.column: a.name for a in ALL.values()}
                values = {p.axes.get(columns[claim["along"]]) for p in own} - {None}
                assert len(values) > 1, f"{name}: {campaign} has one value of {claim['along']}"


def found_of(name: str, *parts: pd.DataFrame) -> str:
    """What a finding of the list says of these runs."""
    rows = {"throughput": pd.concat(parts, ignore_index=True)}
    return table_of.judged({name: findings.findings()[name]}, rows)["verdict"].iloc[0]


def test_more_accounts_are_no_more_buckets():
    """One account has 1 or 100 buckets; 2100 buckets have 21 accounts, which double the rate."""

    def of(workload: str, gain: float) -> list[pd.DataFrame]:
        grid = ((1, 1, 100), (100, 1, 100 * gain), (2100, 21, 200))
        return [runs(v, workload=workload, object_size_bytes=4000, buckets=b, accounts=a) for b, a, v in grid]

    assert found_of("buckets_bring_uploads", *of("put", 1.0)) == "refuted"
    assert found_of("buckets_bring_uploads", *of("put", 1.5)) == "confirmed"
    assert found_of("buckets_leave_downloads", *of("get", 1.0)) == "confirmed"
    assert found_of("buckets_leave_downloads", *of("get", 1.5)) == "refuted"
    assert found_of("buckets_bring_uploads", of("put", 1.5)[2]) == "not measured here"


def test_three_copies_are_those_of_the_campaign_that_has_them():
    def of(store: str, factor: float) -> list[pd.DataFrame]:
        sides = (("put", 100), ("get", 100 * factor))
        return [runs(v, workload=w, store=store, object_size_bytes=4000) for w, v in sides]

    name = "replicated_downloads_double_uploads"
    assert found_of(name, *of("ceph-copies", 2.0), *of("ceph-shards", 1.0)) == "confirmed"
    assert found_of(name, *of("ceph-copies", 1.2), *of("ceph-shards", 2.0)) == "refuted"
    assert found_of(name, *of("ceph-shards", 2.0)) == "not measured here"
    stores = planning.make(config.load(ROOT / "config.yaml", overrides={"campaign": "ihep"}), WORKLOADS)
    assert "ceph-copies" in {p.store for p in stores}


@pytest.mark.parametrize("rows", [{}, {"system": "uds1_2013"}])
def test_a_published_number_is_one_row(rows):
    with pytest.raises(ValueError, match="rows are"):
        findings.printed(
            {"value": None, "unit": "", "table": "uds_headlines", "column": "value", "rows": rows, "over": {}}
        )


# --- a campaign's own claims ------------------------------------------------------------------------------------------------------------

MINE = yaml.safe_load(re.search(r"```yaml\n(claims:.*?)```", PAGE, re.S)[1])["claims"]


def planned(name="fast", campaign="reference", **change):
    said = MINE[next(iter(MINE))] | change
    settings = config.load(ROOT / "config.yaml", overrides={"campaign": campaign, "claims": {name: said}})
    points = planning.make(settings, WORKLOADS)
    return planning.to_json(settings, points, WORKLOADS)


def test_the_pages_example_is_carried_by_the_plan_and_judged_first():
    plan = planned("ours")
    assert list(plan["claims"]) == ["ours"] and next(iter(findings.of(plan))) == "ours"
    assert len(findings.of(plan)) == len(findings.findings()) + 1
    plain = config.load(ROOT / "config.yaml")
    assert "claims" not in planning.to_json(plain, planning.make(plain, WORKLOADS), WORKLOADS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"table": "throughputs"},
            "claims.fast.table: 'throughputs' is no table of claims; did you mean 'throughput'?",
        ),
        ({"table": "verdicts"}, "claims.fast.table: 'verdicts' is no table of claims"),
        ({"metric": "speed"}, "claims.fast.metric: 'speed' is no metric of"),
        ({"where": {"colour": 1}}, "claims.fast.where: 'colour' is no column of this table and campaign"),
        ({"where": {"workload": "gett"}}, "claims.fast.where.workload: 'gett' is no workload of this campaign"),
        ({"where": {"clients": "many"}}, "claims.fast.where.clients"),
        ({"campaigns": ["elsewhere"]}, "claims.fast.campaigns: there is no campaign 'elsewhere'"),
        ({"tabel": "sparse"}, "claims.fast.tabel: unknown key 'tabel'; did you mean 'table'?"),
        ({"rule": "level", "at_least": None}, "claims.fast: the rule `level` needs `at_least` or `at_most`; add it"),
        ({"at_most": 2}, "claims.fast: has two bounds; give `at_least` or `at_most`"),
        ({"values": [1, 2]}, "claims.fast: the rule `level` takes no `values`; leave it out"),
        ({"published": {"value": 1, "table": "uds_headlines"}}, "claims.fast.published: names a value and a table"),
        ({"published": {"table": "uds_headlines"}}, "claims.fast.published.table: the tables of published numbers"),
    ],
)
def test_a_mistake_is_one_line(change, said):
    with pytest.raises(UserError) as error:
        planned(**change)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_name_is_a_word():
    with pytest.raises(UserError, match="is no name of a claim"):
        planned("Our Claim")


@pytest.mark.parametrize(
    "change",
    [{"rule": "ratio", "along": "clients", "values": [1]}, {"rule": "order", "along": "clients", "values": [1]}],
)
def test_values_fit_the_rule(change):
    said = {"says": "x", "source": "y", "table": "throughput", "metric": "rate"} | change
    with pytest.raises(ValidationError):
        Claim.model_validate(said | ({"at_least": 2} if change["rule"] == "ratio" else {}))


# --- the page and the paper -------------------------------------------------------------------------------------------------------------


def test_the_page_names_rules_verdicts_and_columns():
    quoted = set(re.findall(r"`([^`\n]+)`", PAGE))
    assert set(NEEDS) | {"claims.csv"} <= quoted
    assert all(f"*{verdict}*" in PAGE for verdict in judging.VERDICTS)


def test_latex_tells_what_was_judged_and_what_was_not():
    claim = {"says": "It scales 100 % & more.", "source": "A & B", "table": "throughput", **SLOPE}
    models = {
        n: Claim.model_validate(claim | {"where": {"store": n}, "campaigns": ["scaling"]}) for n in ("alpha", "gone")
    }
    found = table_of.judged(resolved(models, ALL), {"throughput": pd.concat(front_ends(1.0))})
    text = latex.claims(found)
    assert r"It scales 100~\% \& more." in text and r"\textbf{confirmed}" in text and r"gone (\texttt{scaling})" in text
    assert "1: alpha" in latex.short(found) and latex.flags(found) == {"claims": True}
    none = found[found["verdict"] == "not measured here"]
    assert latex.claims(none) == latex.short(none) == "" and latex.flags(none) == {"claims": False}
