"""Claims: each rule confirms, refutes, or cannot decide, on tables made for it; many claims at once are corrected.

Factors, exponents and counts are put into the tables; scatter is symmetric in the logarithm.
"""

import math

import numpy as np
import pandas as pd
import pytest
from throughput_rows import SCATTER, runs

from storelab.analysis.latex import verdicts as latex
from storelab.analysis.statistics import judging
from storelab.analysis.tables import claims
from storelab.analysis.tables import claims as table_of
from storelab.core.axes import ALL
from storelab.core.campaign.claims import Claim, resolved

UNDECIDED = "undecided"
WIDE = (0.5, 2.0, 0.6, 1.7, 0.8, 1.25)


def judged(*parts: pd.DataFrame, table="throughput", axes=ALL, **said) -> pd.DataFrame:
    claim = Claim.model_validate({"statement": "So it is.", "source": "somebody", "table": table} | said)
    return table_of.judged(resolved({"mine": claim}, axes), {table: pd.concat(parts, ignore_index=True)})


def verdict(*parts: pd.DataFrame, **said) -> str:
    found = judged(*parts, **said)
    assert len(found) == 1
    return found["verdict"].iloc[0]


SLOPE = {"metric": "throughput", "along": "front_ends", "rule": "slope", "at_least": 0.8}


def front_ends(exponent: float, scatter=SCATTER, **more) -> list[pd.DataFrame]:
    return [runs(100 * n**exponent, scatter, front_ends=n, **more) for n in (1, 2, 4)]


def test_slope():
    row = judged(*front_ends(1.0), **SLOPE).iloc[0]
    assert row["verdict"] == "confirmed" and row["low"] < 1 < row["high"] and row["value"] == pytest.approx(1, abs=1e-9)
    assert row["n"] == 18 and len(row["points"].split()) == 18
    assert verdict(*front_ends(0.5), **SLOPE) == "refuted"
    assert verdict(*front_ends(0.8, WIDE), **SLOPE) == UNDECIDED
    assert verdict(*front_ends(1.0, (1.0,)), **SLOPE) == UNDECIDED, "single runs have no scatter"
    assert verdict(*front_ends(0.05), **SLOPE | {"at_least": None, "at_most": 0.2}) == "confirmed"
    assert verdict(runs(100, front_ends=1), **SLOPE) == "not measured here"


RATIO = {"metric": "rate", "along": "buckets", "values": [1, 5], "rule": "ratio", "at_least": 1.5}


def buckets(factor: float, scatter=SCATTER) -> list[pd.DataFrame]:
    return [runs(100, scatter, buckets=1), runs(100 * factor, scatter, buckets=5)]


def test_ratio():
    row = judged(*buckets(2.0), **RATIO).iloc[0]
    assert row["verdict"] == "confirmed" and row["value"] == pytest.approx(2, rel=1e-6) and row["low"] > 1.9
    assert verdict(*buckets(1.2), **RATIO) == "refuted"
    assert verdict(*buckets(1.5, WIDE), **RATIO) == UNDECIDED
    assert verdict(*buckets(2.0, SCATTER[:3]), **RATIO) == UNDECIDED, "3 against 3 runs have no interval"
    lacks = {judged(*buckets(*of), **RATIO)["would_decide"].iloc[0] for of in ((2.0, SCATTER[:3]), (0.0,), (1.5, WIDE))}
    assert lacks == {judging.MORE_RUNS, judging.LONGER, judging.NARROWER}
    assert verdict(*buckets(1.0), **RATIO | {"at_least": None, "at_most": 1.1}) == "confirmed"
    assert verdict(*buckets(2.0), **RATIO | {"values": [1, 7]}) == "not measured here"
    assert verdict(*buckets(2.0), **RATIO | {"values": ["least", "most"]}) == "confirmed"


def test_ratio_depends_on_named_values_only():
    """Other values were measured too, and there are runs without a value."""
    lost = runs(100, buckets=1).assign(throughput_mb_per_s=np.nan, rate_per_s=np.nan, key="lost")
    row = judged(*buckets(2.0), runs(500, buckets=4096), lost, **RATIO).iloc[0]
    assert row["value"] == pytest.approx(2, rel=1e-6) and row["n"] == 2 * len(SCATTER)
    assert len(row["points"].split()) == row["n"] and "lost" not in row["points"]


def test_best_and_worst_count_for_all_pairs():
    stores = [runs(100 * f, store=s) for s, f in (("a", 1.0), ("b", 1.03), ("c", 1.3), ("d", 1.05))]
    result = {"metric": "rate", "along": "store", "values": ["worst", "best"], "rule": "ratio", "at_least": 1.2}
    row = judged(*stores, **result).iloc[0]
    assert row["system"] == "all systems" and row["value"] == pytest.approx(1.3, rel=1e-6)
    pair = judged(stores[0], stores[2], **result).iloc[0]
    assert row["p"] == pytest.approx(6 * pair["p"]) and pair["p"] == pytest.approx(2 / math.comb(12, 6))
    assert "a 100" in row["evidence"] and "c 130" in row["evidence"]


LEVEL = {"metric": "throughput", "rule": "level", "at_least": 300}


def test_level():
    row = judged(runs(400), **LEVEL).iloc[0]
    assert row["verdict"] == "confirmed" and row["unit"] == "MB/s" and row["p"] == pytest.approx(2 / 2**6)
    assert row["low"] < 400 < row["high"]
    assert verdict(runs(200), **LEVEL) == "refuted"
    assert verdict(runs(300), **LEVEL) == UNDECIDED
    assert verdict(runs(400, SCATTER[:5]), **LEVEL) == UNDECIDED, "5 runs have no interval"
    assert verdict(runs(200), **LEVEL | {"at_least": None, "at_most": 300}) == "confirmed"
    per = {"along": "front_ends", "metric": "throughput", "rule": "level", "at_least": 90}
    row = judged(runs(400, front_ends=4), **per).iloc[0]
    assert row["value"] == pytest.approx(100, rel=0.01) and row["verdict"] == "confirmed"
    assert verdict(runs(200, front_ends=4), **per) == "refuted"
    assert verdict(runs(200, front_ends=4).assign(bound_by="link"), **per) == UNDECIDED


def counted(anomalies: int, tried: int) -> pd.DataFrame:
    return pd.DataFrame([{"store": "alpha", "scenario": "comes_back", "tried": tried, "anomalies": anomalies}])


def test_count():
    comes = {"table": "consistency", "metric": "anomalies", "rule": "count", "at_least": 1}
    never = comes | {"at_least": None, "at_most": 0}
    verdicts = ((3, 50, "confirmed", "refuted"), (0, 1000, "refuted", "confirmed"), (0, 50, UNDECIDED, UNDECIDED))
    for n, of, some, none in verdicts:
        assert verdict(counted(n, of), **comes) == some and verdict(counted(n, of), **never) == none
    row = judged(counted(0, 1000), **comes).iloc[0]
    assert row["high"] == pytest.approx(1000 * (1 - 0.025 ** (1 / 1000))) and row["low"] == 0
    assert verdict(counted(0, 50), **never, min_attempts=20) == "confirmed"
    assert judged(counted(0, 50), **never)["would_decide"].iloc[0] == judging.MORE_TRIES
    more = pd.concat([counted(0, 60).assign(runs=2), counted(0, 60).assign(runs=2, scenario="overwrite")])
    row = judged(more, **never).iloc[0]
    assert (row["verdict"], row["n"], row["evidence"]) == ("confirmed", 2, "0 in 120 tries"), "counts add up"


def test_count_of_failed_operations_is_over_runs():
    role = {"store": "a", "workload": "roles-x", "role": "up", "does": "put"}
    lost = pd.DataFrame([role | {"failed_operations": 0}] * 3)
    result = {"table": "recovery", "metric": "failed_operations", "rule": "count", "at_most": 0, "min_attempts": 3}
    assert verdict(lost, **result) == "confirmed"
    assert verdict(lost.iloc[:2], **result) == UNDECIDED
    assert verdict(lost.assign(failed_operations=[0, 2, 0]), **result) == "refuted"
    both = lost.assign(role=["up", "down", "down"], failed_operations=[7, 0, 0])
    row = judged(both, **result).iloc[0]
    assert (row["verdict"], row["value"], row["cases"]) == ("refuted", 7, 1), "one failure is enough against `never`"
    assert pd.isna(row["high"])
    roles = pd.concat([lost.assign(key=["k", "l", "m"], role=role) for role in ("up", "down")])
    row = judged(roles, **result).iloc[0]
    assert (row["verdict"], row["n"], row["evidence"]) == ("confirmed", 3, "0 in 3 runs"), "two roles are one run"
    assert verdict(roles[roles["key"] != "m"], **result) == UNDECIDED


ORDER = {"metric": "rate", "along": "workers", "values": [1, 4, 16], "rule": "order"}


def test_order():
    def of(*values, scatter=SCATTER):
        return [runs(v, scatter, workers=w) for v, w in zip(values, (1, 4, 16), strict=True)]

    row = judged(*of(100, 150, 300), **ORDER).iloc[0]
    assert row["verdict"] == "confirmed" and row["value"] == pytest.approx(1.5, rel=1e-6)
    assert verdict(*of(100, 150, 120), **ORDER) == "refuted"
    assert verdict(*of(100, 101, 300), **ORDER) == UNDECIDED
    assert verdict(*of(100, 150, 300, scatter=WIDE[:3]), **ORDER) == UNDECIDED
    assert verdict(*of(100, 150, 300)[:2], **ORDER) == "not measured here"


def test_shape():
    result = {"metric": "rate", "along": "clients", "rule": "shape", "shapes": ["peak"]}
    falls = [runs(v, clients=c) for c, v in ((1, 100), (2, 200), (4, 400), (8, 200), (16, 100))]
    rises = [runs(100 * c, clients=c) for c in (1, 2, 4, 8)]
    row = judged(*falls, **result).iloc[0]
    assert row["verdict"] == "confirmed" and row["low"] <= 4 <= row["high"] and row["unit"] == "clients"
    assert verdict(*rises, **result) == "refuted"
    assert verdict(*[runs(100 * c, (1.0,), clients=c) for c in (1, 2, 4)], **result) == UNDECIDED
    assert verdict(*rises, **result | {"shapes": ["peak", "still rising"]}) == "confirmed"
    assert verdict(*rises[:2], **result) == "not measured here"


def test_answer():
    def of(**given):
        rows = pd.DataFrame(given.items(), columns=["store", "answer"])
        return rows.assign(topic="ranges", check="multi-range 2")

    one = {"table": "capabilities", "where": {"store": "ceph"}, "rule": "answer", "answers": ["no"]}
    assert verdict(of(ceph="no", nginx="yes"), **one) == "confirmed"
    assert verdict(of(ceph="yes"), **one) == "refuted"
    assert verdict(of(ceph="differs"), **one) == "confirmed", "a single range or other bytes do not count"
    assert verdict(of(ceph="unclear"), **one) == UNDECIDED
    assert verdict(of(ceph="not tried"), **one) == verdict(of(nginx="no"), **one) == "not measured here"
    some = {"table": "capabilities", "along": "store", "rule": "answer", "answers": ["yes", "no"]}
    assert verdict(of(ceph="no", nginx="yes"), **some) == "confirmed"
    units = {
        (r["value"], r["unit"]) for r in (judged(of(ceph="no"), **one).iloc[0], judged(of(ceph="yes"), **one).iloc[0])
    }
    assert units == {(1, "answer"), (0, "answers")}
    assert verdict(of(ceph="no", hdfs="no"), **some) == "refuted"
    assert verdict(of(ceph="no"), **some) == UNDECIDED


# Cases


def test_pairs_agree_in_all_other_axes():
    apart = [runs(100, buckets=1, clients=1), runs(200, buckets=5, clients=2)]
    assert verdict(*apart, **RATIO) == "not measured here"
    assert verdict(*apart, **RATIO, may_differ=["clients"]) == "confirmed"


def test_contradicting_cases_are_undecided():
    mixed = [*front_ends(1.0, engine="s5cmd"), *front_ends(0.3, engine="obstore")]
    row = judged(*mixed, **SLOPE).iloc[0]
    assert (row["verdict"], row["cases"], row["confirmed"], row["refuted"]) == (UNDECIDED, 2, 1, 1)
    alike = [*front_ends(1.0, engine="s5cmd"), *front_ends(0.95, engine="obstore")]
    row = judged(*alike, **SLOPE).iloc[0]
    assert (row["verdict"], row["confirmed"]) == ("confirmed", 2) and row["value"] == pytest.approx(0.95)
    assert row["evidence"].startswith("obstore: ")


def test_each_system_has_a_row():
    found = judged(*front_ends(1.0, store="a"), *front_ends(0.3, store="b"), **SLOPE)
    assert list(zip(found["system"], found["verdict"], strict=True)) == [("a", "confirmed"), ("b", "refuted")]


def test_most_clients_at_each_number_of_front_ends():
    """In a product, the most clients are the most of all; in rows that go together, each front-end has its own."""
    rising = [runs(100 * n, front_ends=n, clients=3 * n) for n in (1, 2, 4)]
    assert verdict(*rising, **SLOPE, where={"clients": "most"}) == "confirmed"
    product = [runs(100 * min(n, c), front_ends=n, clients=c) for n in (1, 2, 4) for c in (1, 4)]
    assert verdict(*product, **SLOPE, where={"clients": "most"}) == "confirmed"
    assert verdict(*product, **SLOPE, where={"clients": "least"}) == "refuted"


def test_speed_limited_by_client_refutes_no_claim():
    flat = front_ends(0.0)
    assert verdict(*flat, **SLOPE) == "refuted"
    bound = [part.assign(bound_by=None if i < 2 else "link") for i, part in enumerate(flat)]
    row = judged(*bound, **SLOPE).iloc[0]
    assert (row["verdict"], row["reason"]) == (UNDECIDED, "the link was near its limit")
    busy = [part.assign(shared_host=True, host_cpu_percent=97.0) for part in flat]
    row = judged(*busy, **SLOPE).iloc[0]
    assert row["verdict"] == UNDECIDED and "97 % busy" in row["reason"]
    assert verdict(*[part.assign(host_cpu_percent=80.0) for part in busy], **SLOPE) == "refuted"
    assert verdict(*[part.assign(shared_host=False) for part in busy], **SLOPE) == "refuted"
    row = judged(*[part.iloc[:1] for part in busy], **SLOPE).iloc[0]
    assert row["would_decide"] == claims.SEPARATE_HOSTS, "more runs would not decide it"
    row = judged(*[p.iloc[:1].assign(shared_host=True, host_cpu_percent=97.0) for p in front_ends(1.0)], **SLOPE).iloc[
        0
    ]
    assert row["would_decide"] == judging.MORE_RUNS
    linear = [part.assign(shared_host=True, host_cpu_percent=97.0) for part in front_ends(1.0)]
    assert verdict(*linear, **SLOPE) == "confirmed", "it rose nevertheless"
    none = SLOPE | {"at_least": None, "at_most": 0.2}
    assert verdict(*busy, **none) == UNDECIDED and verdict(*flat, **none) == "confirmed"


def test_shape_of_client_counts_and_of_busy_host_not():
    result = {"metric": "rate", "along": "workers", "rule": "shape", "shapes": ["knee"]}
    knee = [runs(100 * min(w, 4), workers=w) for w in (1, 2, 4, 8, 16)]
    assert verdict(*knee, **result) == "confirmed"
    assert verdict(*[part.assign(bound_by="client") for part in knee], **result) == "confirmed"
    busy = [part.assign(shared_host=True, host_cpu_percent=97.0) for part in knee]
    assert verdict(*busy, **result) == UNDECIDED


def linked(parts: list[pd.DataFrame], *used: float | None) -> list[pd.DataFrame]:
    """Return the runs with a use of their links in percent; None is not known."""
    return [part.assign(link_used_percent=u, link_each="2 × 10 Gbit/s") for part, u in zip(parts, used, strict=True)]


def test_slope_counts_below_a_share_of_the_link():
    """1000 MB/s for each front-end, until 2500 MB/s are full, are linear; without the link it is undecided."""
    result = SLOPE | {"below_link": 80}
    full = [runs(min(1000 * n, 2500), front_ends=n) for n in (1, 2, 3, 4)]
    row = judged(*linked(full, 40, 80, 100, 100), **result).iloc[0]
    assert (row["verdict"], row["n"]) == ("confirmed", 12) and row["value"] == pytest.approx(1, abs=1e-6)
    assert verdict(*linked(full, 40, 80, 100, 100), **SLOPE) == UNDECIDED, "the links were full"
    row = judged(*full, **result).iloc[0]
    assert (row["verdict"], row["reason"]) == (UNDECIDED, "the capacity of the links is not known")
    assert verdict(*linked(full, None, None, None, None), **result) == UNDECIDED
    row = judged(*linked(full, 40, None, 100, 100), **result).iloc[0]
    assert (row["verdict"], row["n"]) == ("confirmed", 12), "an unknown link does not count as full"
    assert verdict(*front_ends(1.0), **result) == "confirmed", "an unknown link can only reduce the rate"
    assert verdict(*linked(front_ends(0.3), 20, 30, 40), **result) == "refuted"
    row = judged(*linked(full, 79, 95, 100, 100), **result).iloc[0]
    assert row["verdict"] == UNDECIDED and row["reason"].startswith("3 of 4 numbers of front-ends used more than 80 %")
    assert (row["would_decide"], row["evidence"]) == (claims.FASTER_LINKS, "97.5 % of 2 × 10 Gbit/s")
    own, network = [linked(full, *[95] * 4) for _ in range(2)]
    own = [part.assign(link_of="front-ends") for part in own[:2]] + [part.assign(link_of="clients") for part in own[2:]]
    row = judged(*own, **result).iloc[0]
    assert (row["verdict"], row["n"]) == ("confirmed", 12), "the link of a front-end is a part of it, not the network"
    assert verdict(*(part.assign(link_of="clients") for part in network), **result) == UNDECIDED
    with pytest.raises(ValueError, match="below_link"):
        Claim.model_validate({"statement": "x", "source": "y", "table": "throughput", **RATIO, "below_link": 80})


def test_full_links_hold_speeds_down():
    ratio = [runs(100, workload="put"), runs(100, workload="get")]
    result = {"metric": "throughput", "along": "workload", "values": ["put", "get"], "rule": "ratio", "at_least": 1.41}
    assert verdict(*linked(ratio, 50, 50), **result) == "refuted"
    row = judged(*linked(ratio, 95, 95), **result).iloc[0]
    assert (row["verdict"], row["reason"]) == (UNDECIDED, "the links were full (95 % of 2 × 10 Gbit/s)")


def test_link_that_is_filled():
    result = {"metric": "link_used", "rule": "level", "at_least": 75}
    assert verdict(runs(100).assign(link_used_percent=90.0), **result) == "confirmed"
    assert verdict(runs(100).assign(link_used_percent=60.0), **result) == "refuted"
    for unknown in (runs(100), runs(100).assign(link_used_percent=None)):
        row = judged(unknown, **result).iloc[0]
        assert (row["verdict"], row["would_decide"]) == (UNDECIDED, claims.KNOWN_LINKS)
        assert judged(unknown.assign(shared_host=True), **result)["would_decide"].iloc[0] == claims.SEPARATE_HOSTS


def test_level_without_axis_is_held_back_too():
    """Uploads slowed down by deletions on a host that is busy: the processors may have done it."""
    slowed = pd.DataFrame({"store": "a", "does": "put", "phase": "during", "rate_over_before_ratio": [0.15, 0.16] * 3})
    result = {"table": "roles", "metric": "rate_over_before", "rule": "level", "at_least": 0.8}
    assert verdict(slowed, **result) == "refuted"
    row = judged(slowed.assign(shared_host=True, host_cpu_percent=98.0), **result).iloc[0]
    assert row["verdict"] == UNDECIDED and row["would_decide"] == claims.SEPARATE_HOSTS and "98 % busy" in row["reason"]
    ports = {"table": "resources", "metric": "ports", "rule": "level", "at_least": 90}
    few = runs(1).assign(ports_percent=5.0)
    assert verdict(few, **ports) == "refuted" and verdict(few.assign(shared_host=True), **ports) == UNDECIDED


def test_measurement_that_does_not_reach_far_enough_is_not_judged():
    result = SLOPE | {"reach": {"front_ends": 4}}
    assert verdict(*front_ends(0.5), **result) == "refuted"
    assert verdict(*front_ends(0.5)[:2], **result) == "not measured here"
    most = {"where": {"clients": "most"}, "reach": {"clients": 64}}
    assert verdict(*front_ends(0.5, clients=8), **SLOPE | most) == "not measured here"
    few = front_ends(0.0, clients=8)
    assert verdict(*few, *front_ends(1.0, clients=64), **SLOPE | most) == "confirmed"
    assert "clients at least 64" in claims.query_text(claim(reach={"clients": 64}))
    for result, along in ((most, {}), ({"reach": {"front_ends": 64}}, {"along": "front_ends"})):
        for demand, expected in ((3.2, "refuted"), (2.9, "not measured here"), (None, "not measured here")):
            busy = [group.assign(link_demand_ratio=demand) for group in front_ends(0.5, clients=8)]
            assert verdict(*busy, **SLOPE | result | along | {"or_link_demand": 3}) == expected, (result, demand)


def test_quarter_of_maximum_is_compared():
    result = {"metric": "rate", "along": "clients", "values": ["most / 4", "most"], "rule": "ratio", "at_least": 1.46}
    grid = {1: 100, 5: 100, 10: 190, 20: 210, 21: 150}
    row = judged(*[runs(v, clients=c) for c, v in grid.items()], **result).iloc[0]
    assert (row["verdict"], row["n"]) == ("confirmed", 12) and row["value"] == pytest.approx(2.1)
    assert row["evidence"] == "5 clients 100, 20 clients 210 /s" and len(row["points"].split()) == 12
    assert verdict(*[runs(v, clients=c) for c, v in ((1, 1), (2, 2), (3, 3))], **result) == "not measured here"
    assert "most over most / 4" in row["expected"]


def test_order_of_each_value():
    found = ORDER | {"values": ["each"]}
    assert verdict(*[runs(v, workers=w) for w, v in ((1, 1), (2, 2), (9, 3))], **found) == "confirmed"
    assert verdict(*[runs(v, workers=w) for w, v in ((1, 1), (2, 3), (9, 2))], **found) == "refuted"
    assert verdict(runs(1, workers=1), **found) == "not measured here"


def test_finding_about_the_file_is_one_for_all_stores():
    read = {"workload": "read_entries", "file_size": "S", "entries_per_read": 1.0, "file_entries": 1000.0}
    read |= {"clusters_per_read": 1.0, "file_clusters": 4.0, "share_amplification_ratio": 250.0}
    rows = [runs(1, SCATTER[:2], store=s, redundancy=r).assign(**read) for s, r in (("a", "x"), ("b", "y"), ("c", "y"))]
    result = {"table": "sparse", "metric": "share_amplification", "rule": "level", "at_least": 20.5}
    found = judged(*rows, **result, about="file")
    assert found[["system", "verdict", "n"]].values.tolist() == [["file S", "confirmed", 6]]
    assert found["evidence"].iloc[0] == "median of 6 runs; 1 of 1000 entries in 1 of 4 clusters"
    assert len(judged(*rows, **result)) == 3


def test_uploads_and_downloads_are_a_pair():
    both = [runs(100, workload="put", payload="default"), runs(300, workload="get", access="warm")]
    result = {"metric": "throughput", "along": "workload", "values": ["put", "get"], "rule": "ratio", "at_least": 1.41}
    assert judged(*both, **result).iloc[0]["value"] == pytest.approx(3, rel=1e-6)
    cold = runs(30, workload="get", access="cold")
    assert judged(*both, cold, **result).iloc[0]["value"] == pytest.approx(3, rel=1e-6), "the default, which puts lack"


def test_partial_axis_separates_cases():
    plain = [runs(100, workload="put"), runs(300, workload="get")]
    parts = [runs(50, workload="put", part_size_bytes=5), runs(60, workload="get", part_size_bytes=5)]
    result = {"metric": "throughput", "along": "workload", "values": ["put", "get"], "rule": "ratio", "at_least": 1.41}
    row = judged(*plain, *parts, **result).iloc[0]
    assert (row["cases"], row["confirmed"], row["refuted"]) == (2, 1, 1)


def test_many_claims_are_corrected():
    """The bound is the truth for 300 systems: one in twenty has p below 5 %, and almost none after the correction."""
    rng = np.random.default_rng(7)
    x = np.tile(np.repeat([1, 2, 4], 6), 300)
    same = {"store": [f"s{i:03}" for i in range(300) for _ in range(18)], "workload": "get", "front_ends": x}
    rows = pd.DataFrame(same | {"throughput_mb_per_s": x * rng.lognormal(0, 0.1, len(x))})
    found = judged(rows, **SLOPE | {"at_least": 1.0})
    alone = found["verdict_uncorrected"].isin(("confirmed", "refuted")).sum()
    assert len(found) == 300 and 6 <= alone <= 26 and found["verdict"].isin(("confirmed", "refuted")).sum() <= 1
    reasons = {"the interval contains the bound", "not significant after the correction for the number of claims"}
    assert set(found.loc[found["verdict"] == UNDECIDED, "reason"]) <= reasons


def test_paper_has_judged_and_missing_claims():
    claim = {"statement": "It scales 100 % & more.", "source": "A & B", "table": "throughput", **SLOPE}
    claim |= {"campaigns": ["scaling"]}
    models = {n: Claim.model_validate(claim | {"where": {"store": n}}) for n in ("alpha", "gone")}
    found = table_of.judged(resolved(models, ALL), {"throughput": pd.concat(front_ends(1.0))})
    text = latex.claims(found)
    assert r"It scales 100~\% \& more." in text and r"\textbf{confirmed}" in text
    assert r"1 finding was not measured here. Campaigns that measure them at full size: \texttt{scaling} (1);" in text
    assert "1: alpha" in latex.short(found)
    none = found[found["verdict"] == "not measured here"]
    assert latex.claims(none) == latex.short(none) == ""


def test_paper_has_a_sentence_for_each_reason_of_the_undecided():
    """The evidence names what would decide the claims only once, for any number of claims and systems."""
    few = [part for s in "abcd" for part in front_ends(1.0, SCATTER[:1], store=s)]
    busy = [
        p.assign(shared_host=True, host_cpu_percent=99.0) for s in "ab" for p in front_ends(0.0, store=s, clients=9)
    ]
    claim = {"statement": "It scales.", "source": "A", "table": "throughput", **SLOPE}
    named = {"one_run": {"clients": 1}, "busy_hosts": {"clients": 9}}
    models = {n: Claim.model_validate(claim | {"where": where}) for n, where in named.items()}
    found = table_of.judged(resolved(models, ALL), {"throughput": pd.concat([*few, *busy])})
    assert set(found["verdict"]) == {UNDECIDED}
    text = latex.claims(found)
    assert "There are too few runs; six runs or more of each point would decide: one run (4 systems)." in text
    assert "was busy; clients on hosts that the store does not use would decide: busy hosts (a, b)." in text
    assert "tabular" not in text and text.count("would decide") == 2
    assert latex.short(found) == (
        "none of the 2 that were measured is decided: "
        "there are too few runs (1); the host that clients and store share was busy (1).\n"
    )


def test_short_table_has_stores_before_files():
    """A file, and all systems together, have no claims that were not measured on them, nor have stores theirs."""
    rows = [("all systems", "confirmed"), ("file S", "refuted"), ("tmpfs", "confirmed"), ("ceph, ec-2-1", "refuted")]
    found = pd.DataFrame(rows, columns=["system", "verdict"]).assign(claim=[f"c{i}" for i in range(4)])
    assert latex.systems(found) == ["ceph, ec-2-1", "tmpfs", "file S", "all systems"]
    lines = latex.short(found).splitlines()
    missing = [line.split("&")[-1] for name in latex.systems(found) for line in lines if line.startswith(name)]
    assert [cell.removesuffix(r"\\").strip() for cell in missing] == ["1", "1", "--", "--"]


def test_all_reasons_have_their_sentence():
    """The paper gives the reason for everything that a rule lacks."""
    lacks = {
        v for name in ("MORE_RUNS", "NARROWER", "LONGER", "MORE_TRIES", "ANSWERS") if (v := getattr(judging, name))
    }
    lacks |= {
        claims.SEPARATE_HOSTS,
        claims.MORE_CLIENTS,
        claims.FASTER_LINKS,
        claims.KNOWN_LINKS,
        table_of.NARROWER_CLAIM,
    }
    assert set(latex.WHY) == lacks


# Words of claims, and values chosen by their speed


def claim(**more):
    least = {"table": "throughput", "where": {}, "metric": "rate", "along": "", "rule": "level", "values": []}
    least |= {"shapes": [], "answers": [], "at_least": None, "at_most": None, "may_differ": [], "min_attempts": 100}
    return least | more


def test_words_of_claims():
    """Changes to a claim, its query and what it expects."""
    buckets = {"rule": "ratio", "along": "buckets", "values": [1, 5], "at_least": 1.54, "where": {"workload": "put"}}
    where = {"clients": "most", "size": [1.0, 2.5]}
    rows = "throughput.csv: all rows; rate"
    best = {"rule": "ratio", "along": "store", "values": ["worst", "best"], "at_most": 2.0}
    exponent = {"rule": "slope", "along": "front_ends", "at_most": 0.2, "where": where}
    order = {"rule": "order", "along": "clients", "values": ["least", 4, "most"]}
    answer = {"rule": "answer", "metric": "", "answers": ["yes", "no"], "along": "store"}
    along = "throughput.csv: workload put; rate along buckets"
    chosen = "throughput.csv: clients most, size 1 or 2.5; rate along front_ends"
    words = [
        ({"at_least": 300.0}, rows, "at least 300"),
        ({"at_most": 0.5, "along": "clients"}, f"{rows} per clients", "at most 0.5"),
        (buckets, along, "ratio of 5 buckets over 1 bucket at least 1.54"),
        (best, f"{rows} along store", "ratio of best over worst at most 2"),
        (exponent, chosen, "exponent at most 0.2"),
        ({"rule": "count", "at_most": 0}, rows, "at most 0"),
        (order, f"{rows} along clients", "rising: least, 4 clients, most"),
        ({"rule": "shape", "shapes": ["knee", "peak"]}, rows, "knee or peak"),
        (answer, "throughput.csv: all rows; answer along store", "yes and no"),
    ]
    for found, query, expected in words:
        of = claim(**found)
        assert (claims.query_text(of), claims.expected(of)) == (query, expected)
        assert claims.bound_of(of).most == ("at_most" in found)
        assert claims.bound_of(of).at == found.get("at_most", found.get("at_least", 1.0))


def of_buckets(*medians):
    rows = [(b, 100 * m * f) for b, m in zip((1, 2, 5), medians, strict=True) for f in SCATTER]
    return pd.DataFrame(rows, columns=["buckets", "rate_per_s"])


def test_values_chosen_by_speed_count_for_all_pairs():
    chosen = [  # values, medians of 1, 2 and 5 buckets, base, over, pairs
        ([1, 5], (1, 2, 3), 1, 5, 1),
        (["least", "most"], (1, 5, 3), 1, 5, 1),
        (["most", "least"], (1, 5, 3), 5, 1, 1),
        (["worst", "best"], (1, 5, 3), 1, 2, 3),
        (["best", "worst"], (3, 5, 1), 2, 5, 3),
        ([1, "best"], (1, 5, 3), 1, 2, 3),
        (["worst", 5], (2, 1, 3), 2, 5, 3),
    ]
    for values, medians, base, over, pairs in chosen:
        group, of = of_buckets(*medians), claim(rule="ratio", along="buckets", values=values, at_least=1.2)
        found, result, top = claims.CLAIM_RULES["ratio"](of, group, "rate_per_s")
        one, other = (group.loc[group["buckets"] == b, "rate_per_s"] for b in (base, over))
        alone = judging.ratio(one, other, claims.bound_of(of))
        assert top == over and found.value == alone.value, values
        assert found.p == pytest.approx(min(1.0, pairs * alone.p)), values
        speeds = [f"{100 * medians[(1, 2, 5).index(b)]:g}" for b in (base, over)]
        assert [part.split()[2] for part in result.split(", ")] == speeds, result


def test_ratio_needs_two_measured_sides():
    of = claim(rule="ratio", along="buckets", at_least=1.2)
    for values in ([1, 9], [9, 1], [1, 1], ["least", 1], ["worst", "least"]):
        assert claims.CLAIM_RULES["ratio"](of | {"values": values}, of_buckets(1, 2, 3), "rate_per_s") is None, values


def test_store_may_have_the_name_of_a_choice():
    """The fastest has the highest median."""
    sides = {"best": [1.0, 1.0, 90.0], "b": [2.0, 2.0, 2.0], "least": [3.0]}
    of = claim(along="store", values=["b", "best", "most", "worst", "gone"])
    assert claims._picked(of, sides) == ["b", "best", "least", "best", None]


def test_cases_without_a_test_count_in_no_correction():
    """One store has six runs a side, p = 2 / C(12, 6); forty stores have one run a side, and no test."""

    def of_store(name, scatter):
        rows = [(b, 100 * b * f) for b in (1, 5) for f in scatter]
        return pd.DataFrame(rows, columns=["buckets", "rate_per_s"]).assign(store=name, key=name, clients=1)

    content = {"statement": "So.", "source": "me", "published": None, "campaigns": []}
    mine = {"mine": claim(rule="ratio", along="buckets", values=[1, 5], at_least=1.5, **content)}
    rows = pd.concat([of_store("a", SCATTER), *(of_store(f"b{i}", (1.0,)) for i in range(40))], ignore_index=True)
    found = table_of.judged(mine, {"throughput": rows}).set_index("system")
    assert found.loc["a", "p"] == pytest.approx(2 / math.comb(12, 6)) and found.loc["a", "verdict"] == "confirmed"
    others = found.drop("a")
    assert others["p"].isna().all() and set(others["verdict"]) == {UNDECIDED}
    assert others["reason"].str.contains("too few").all()
