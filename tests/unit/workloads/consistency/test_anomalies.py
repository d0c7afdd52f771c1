"""Bounds and the table of `consistency`, from records written here; and bodies that say what they are."""

import math
import re

import pandas as pd
import pytest
from make_examples import T0, S, run_json
from scipy.stats import binom

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import build
from storelab.analysis.tables.systems import consistency
from storelab.core import config, evidence, plan, records
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.consistency import ledger, listings, seen
from storelab.workloads.consistency.s3 import S3View


@pytest.mark.parametrize(("tried", "bound"), [(1, 0.95), (10, 0.2589), (100, 0.029513), (3000, 0.00099807)])
def test_none_of_n(tried, bound):
    assert (
        consistency.upper_bound(0, tried)
        == pytest.approx(bound, rel=1e-3)
        == pytest.approx(1 - 0.05 ** (1 / tried), rel=1e-3)
    )
    assert consistency.upper_bound(0, tried) <= 3 / tried, "the rule of three is on the safe side"


@pytest.mark.parametrize(("k", "n"), [(1, 10), (3, 1000), (999, 1000), (1, 2)])
def test_the_bound_is_exact(k, n):
    """At the bound, as few anomalies as these or fewer have a probability of 5 %."""
    assert binom.cdf(k, n, consistency.upper_bound(k, n)) == pytest.approx(0.05, rel=1e-6)


def test_edges_of_the_bound():
    assert consistency.upper_bound(7, 7) == 1.0 and math.isnan(consistency.upper_bound(0, 0))
    for k, n in ((1, 0), (-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="anomalies of"):
            consistency.upper_bound(k, n)


def test_both_sides_know_the_same_scenarios():
    assert tuple(consistency.SCENARIOS) == ledger.OBJECTS + ledger.ONCE


@pytest.fixture
def campaign(tmp_path):
    """Two runs of two clients on two front-ends: 1000 + 500 tries each; two anomalies in the first, one of them never right."""
    settings = config.Config.model_validate(
        {
            "campaign": "x",
            "name": "x",
            "results": str(tmp_path),
            "stores": {"alpha": {"kind": "seaweedfs"}},
            "use_stores": ["alpha"],
            "repetitions": 2,
            "calibrate": False,
            "sweeps": {
                "c": {"workload": "consistency", "duration": "4 s", "axes": {"clients": 2, "front_ends": 2}},
                "p": {"workload": "put", "duration": "4 s"},
            },
        }
    )
    points = plan.make(settings, WORKLOADS)
    raw = tmp_path / "raw"
    for point in points:
        folder = raw / point.key
        for client in range(point.axes["clients"]):
            ops = {
                "client": [client],
                "op": ["PUT"],
                "count": [1],
                "bytes": [4000],
                "end_ns": [T0 + 2 * S],
                "status": [200],
            }
            records.write_table(folder / f"ops.{client}.parquet", records.OPS, ops)
            if point.workload != "consistency":
                continue
            wrong = 2 if client == 0 and point.rep == 1 else 0
            scenarios = {
                "client": [client] * 3,
                "scenario": ["overwrite", "read_after_write", "read_after_write"],
                "same_front_end": [True, True, False],
                "tried": [0, 1000, 500],
                "anomalies": [0, 0, wrong],
                "errors": [3, 0, 0],
            }
            found = {
                "client": [client] * wrong,
                "scenario": ["read_after_write"] * wrong,
                "key": ["k"] * wrong,
                "same_front_end": [False] * wrong,
                "start_ns": [T0] * wrong,
                "lasted_ns": [250_000_000, None][:wrong],
                "watched_ns": [250_000_000, 5 * S][:wrong],
                "evidence": ["put: is not there", "again"][:wrong],
            }
            records.write_table(folder / f"scenarios.{client}.parquet", records.SCENARIOS, scenarios)
            records.write_table(folder / f"anomalies.{client}.parquet", records.ANOMALIES, found)
        records.finish(folder, run_json(point, T0, "http://127.0.0.1:1"))
    records.write_json(raw / "plan.json", plan.to_json(settings, points, WORKLOADS))
    evidence.write_sums(raw)
    return tmp_path


def test_the_table(campaign):
    build.build(campaign, ["consistency"])
    t = build.read(campaign, "consistency")
    assert list(t["scenario"]) == ["read_after_write", "read_after_write", "overwrite"], "in the order of SCENARIOS"
    same, other, untried = (row for _, row in t.iterrows())
    assert (same["front_end"], same["runs"], same["tried"], same["anomalies"], same["fraction"]) == (
        "same",
        2,
        4000,
        0,
        0,
    )
    assert same["fraction_upper95"] == pytest.approx(1 - 0.05 ** (1 / 4000)) and same["never_right"] == 0
    assert pd.isna(same["lasted_max_s"]) and pd.isna(same["example"])
    assert (other["front_end"], other["tried"], other["anomalies"], other["never_right"]) == ("other", 2000, 2, 1)
    assert other["fraction"] == 0.001 and other["fraction_upper95"] == pytest.approx(consistency.upper_bound(2, 2000))
    assert (other["lasted_max_s"], other["lasted_median_s"], other["watched_max_s"], other["example"]) == (
        0.25,
        0.25,
        5,
        "put: is not there",
    )
    assert (
        (untried["tried"], untried["errors"]) == (0, 12)
        and pd.isna(untried["fraction"])
        and pd.isna(untried["fraction_upper95"])
    )
    assert (
        same["store"] == "alpha"
        and same["clients"] == 2
        and same["front_ends"] == 2
        and same["redundancy"] == "default"
    )


def test_its_points_have_no_rates(campaign):
    build.build(campaign, ["throughput", "points"])
    assert set(build.read(campaign, "throughput")["workload"]) == {"put"}
    assert set(build.read(campaign, "points")["workload"]) == {"put", "consistency"}


def test_without_such_points_there_is_a_header(tmp_path):
    empty = Campaign(tmp_path, {"workloads": {}, "points": []}, {}, {})
    t = consistency.consistency(empty, {})
    assert len(t) == 0 and list(t.columns) == ["store", "scenario", "front_end", *consistency.MEASURES]


def test_a_body_says_what_it_is():
    one = seen.body("put/a/0/0/0000001", 1, "cafe", 4000)
    assert len(one) == 4000 and seen.recognise(one, 4000) == ("put/a/0/0/0000001", 1, "cafe")
    other = seen.body("put/a/0/0/0000001", 2, "beef", 4000)
    for damaged in (one[:-1], one + b"x", one[:2000] + other[2000:], b"", b"\xff" * 4000, b"storelab k version x y\n"):
        assert seen.recognise(damaged, 4000) is None


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (seen.body("k", 2, "n", 300), None),
        (seen.body("k", 1, "m", 300), "is version 1 instead of 2"),
        (seen.body("j", 2, "n", 300), "is the content of another key, j"),
        (seen.body("k", 2, "m", 300), r"is version 2 of another write \(m\)"),
        (seen.body("k", 2, "n", 300)[:-1], r"is no body that was written \(299 B instead of 300 B\)"),
    ],
)
def test_what_is_wrong_with_an_answer(data, finding):
    found = seen.difference(seen.Seen(0, 1, data=data), "k", 2, seen.body("k", 2, "n", 300))
    assert found is None if finding is None else re.search(finding, found)
    assert (
        seen.difference(seen.Seen(0, 1, seen.ABSENT, 404, "NoSuchKey"), "k", 2, b"") == "is not there (404 NoSuchKey)"
    )


def test_a_long_listing_is_judged():
    many = listings.Many("many/")
    many.there, many.unknown = {"many/1", "many/2", "many/3"}, {"many/4"}
    sizes = dict.fromkeys(many.there, listings.MANY_BYTES)
    assert many.wrong(seen.Seen(0, 1, names=sizes)) is None
    assert many.wrong(seen.Seen(0, 1, names=sizes | {"many/4": 256})) is None, (
        "nothing is said of an upload that failed"
    )
    assert many.wrong(seen.Seen(0, 1, names={"many/1": 256})) == "of 3 keys 2 missing (many/2, many/3)"
    wrong = many.wrong(seen.Seen(0, 1, names=sizes | {"many/5": 256, "many/1": 1}, repeated=("many/2",)))
    assert wrong == "of 3 keys 1 listed twice (many/2), 1 never written (many/5), 1 of a wrong size (many/1)"


def page(names: list[str], truncated: bool = False, token: str = "") -> bytes:
    entries = "".join(f"<Contents><Key>p/{n}</Key><Size>5</Size></Contents>" for n in names)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"""<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
        <IsTruncated>{str(truncated).lower()}</IsTruncated>{more}{entries}</ListBucketResult>""".encode()


@pytest.fixture
def pages(monkeypatch):
    """A function that lists a bucket whose answers are these, in turn."""

    def listed(*answers: bytes) -> seen.Seen:
        view = S3View(
            Endpoint("http://127.0.0.1:1"), Bucket("b", "p/"), {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}
        )
        turn = iter(range(len(answers)))
        monkeypatch.setattr(
            view, "_ask", lambda *_, **__: seen.Seen(n := next(turn), n + 1, status=200, data=answers[n], requests=1)
        )
        return view.list("")

    return listed


def test_pages_make_one_listing(pages):
    found = pages(page(["1", "2"], True, "t1"), page(["3", "2"], True, "t2"), page(["4"]))
    assert found.names == dict.fromkeys("1324", 5) and found.repeated == ("2",)
    assert (found.state, found.requests, found.start_ns, found.end_ns) == (seen.OK, 3, 0, 3)


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        ([page(["1"], True, "t1"), page(["2"], True, "t1")], "BrokenListing", "the same token again"),
        ([page(["1"], True)], "BrokenListing", "no token"),
        ([page(["1"], True, "t1"), page(["2"])[:-9]], "ParseError", "unclosed token|no element found"),
        ([b"<html></html>"], "BrokenListing", "answered html"),
    ],
)
def test_a_broken_listing_is_a_failure(pages, answers, error, message):
    found = pages(*answers)
    assert (found.state, found.error) == (seen.FAILED, error) and re.search(message, found.message)


def test_names_of_own_buckets():
    assert listings.stem(Bucket("storelab-demo-0000"), "0a1b2c3d") == "storelab-demo-x0a1b2c3d-"
    long = listings.stem(Bucket("s" * 59 + "0000"), "0a1b2c3d")
    assert len(long) + 5 <= 63 and long.endswith("-x0a1b2c3d-")
