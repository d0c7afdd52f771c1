"""`consistency` on a real store, and behind a proxy whose false answers are found only in their own scenario."""

import csv
import os
import signal
import threading
from collections import Counter
from urllib.parse import urlsplit

import managed
import pytest
from lying_proxy import BUCKET_LIES, OBJECT_LIES, PHANTOM, LyingProxy
from store_clients import for_store

from storelab.analysis.tables import build, guarantees
from storelab.core import integrity, records
from storelab.measure import plan_file
from storelab.workloads import WORKLOADS
from storelab.workloads.consistency.seen import OBJECTS, ONCE

# Every answer is compared with a clock: other work on the machine makes a store late.
pytestmark = [pytest.mark.real, pytest.mark.heavy]
by_the_clock = pytest.mark.alone  # holds answers against times: a busy machine makes a store look wrong or late

AXES = {"clients": 2, "workers": 3, "front_ends": 2}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that measures one point of `consistency`.

    It returns (folder of the point, its record, counts by scenario, anomalies).
    """

    def measured(settings: dict, keys=None, duration: str = "2500 ms", axes=None, error_fraction: float = 0.01):
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in (keys.environ() if keys else {}).items():
            monkeypatch.setenv(name, value)
        sweep = {"workload": "consistency", "duration": duration, "warm_up": "100 ms", "axes": axes or AXES}
        content = {"name": "judged", "campaign": "judged", "limits": {"error_fraction": error_fraction}}
        lab = managed.Lab(tmp_path, settings, {"c": sweep}, **content)
        plan_file.write(lab.config, list(lab.points.values()), WORKLOADS)
        try:
            _, record, folder = lab.measured("c")
        finally:
            lab.store.down()
        counts: dict[tuple[str, bool], Counter] = {}
        for row in managed.rows_of(folder, "scenarios"):
            count = counts.setdefault((row["scenario"], row["same_front_end"]), Counter())
            count.update({k: row[k] for k in ("tried", "anomalies", "errors")})
        found = managed.rows_of(folder, "anomalies")
        return folder, record, counts, found

    return measured


@pytest.fixture
def behind():
    """Return a function that returns settings of a store behind proxies."""
    return lambda proxy: {"kind": "s3", "endpoint": proxy.urls, "prefix": "judged"}


def targets(store) -> list[tuple[str, int]]:
    return [(parts.hostname, parts.port) for parts in (urlsplit(e.url) for e in store.endpoints(2))]


def by_scenario(counts, what: str) -> Counter:
    total: Counter = Counter()
    for (scenario, _), count in counts.items():
        total[scenario] += count[what]
    return +total


def names(store) -> list[str]:
    return [b["Name"] for b in for_store(store).list_buckets()["Buckets"]]


@by_the_clock
def test_honest_store_has_no_anomaly(run, seaweedfs):
    urls = [e.url for e in seaweedfs.endpoints(2)]
    settings = {"kind": "s3", "endpoint": urls, "prefix": "judged"}
    folder, record, counts, found = run(settings, seaweedfs.credentials())
    assert not found and not by_scenario(counts, "anomalies")
    assert set(counts) == {(s, same) for s in (*OBJECTS, *ONCE) for same in (True, False)}
    assert not {k for k, c in counts.items() if c["tried"] == 0}, counts
    assert all(c["ok"] for c in record["checks"])
    assert record["engine"]["settings"]["long_listing_keys"] == 1100
    # Every operation is a row, in time, and an expected 404 is not an error.
    ops = managed.rows_of(folder, "ops")
    of_buckets = {"MAKE_BUCKET", "DELETE_BUCKET", "HEAD_BUCKET", "LIST_BUCKETS"}
    assert {o["op"] for o in ops} >= of_buckets | {"PUT", "GET", "LIST", "DELETE"}
    assert all(record["start_ns"] <= o["start_ns"] <= o["end_ns"] <= record["deadline_ns"] for o in ops)
    assert any(o["status"] == 404 for o in ops) and not [o for o in ops if o["error"]]
    assert len(ops) == sum(c["operations"] for c in record["clients"])
    assert not [name for name in names(seaweedfs) if "-x" in name], "its own buckets were removed"
    # … and the table.
    campaign = folder.parents[3]
    integrity.write_sums(campaign / "raw")
    build.build(campaign)
    with open(campaign / "tables" / "consistency.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert [r["scenario"] for r in rows[::2]] == list(guarantees.SCENARIOS)
    assert {r["front_end"] for r in rows} == {"same", "other"}
    for row in rows:
        tried = counts[row["scenario"], row["front_end"] == "same"]["tried"]
        assert int(row["tried"]) == tried and row["anomalies"] == row["errors"] == "0" and row["runs"] == "1"
        assert float(row["fraction_upper95"]) == pytest.approx(1 - 0.05 ** (1 / tried), rel=1e-6)
    assert not (campaign / "tables" / "throughput.csv").read_text().splitlines()[1:], "this workload has no rates"


@by_the_clock
def test_each_false_answer_is_found_only_in_its_scenario(run, seaweedfs, behind):
    lies = {*OBJECT_LIES.values(), *(lie for lies in BUCKET_LIES.values() for lie in lies)}
    lies |= {"listing_complete", "listed_bucket_exists"}
    with LyingProxy(targets(seaweedfs), lies) as proxy:
        axes = {**AXES, "workers": 2}
        _, record, counts, found = run(behind(proxy), seaweedfs.credentials(), duration="4 s", axes=axes)
        result = proxy.false_answers
    assert result.keys() == lies, lies - result.keys()
    caught = by_scenario(counts, "anomalies")
    # The last answers came after the deadline.
    workers = axes["clients"] * axes["workers"]
    assert caught.keys() == lies
    missed = {s: (result[s], caught[s]) for s in lies if not 0 <= result[s] - caught[s] <= workers}
    assert not missed, (missed, [a for a in found if a["scenario"] in missed])
    assert not by_scenario(counts, "errors")
    assert Counter(a["scenario"] for a in found) == caught
    for a in found:
        assert a["evidence"] and a["key"] and a["watched_ns"] >= 0
        assert a["lasted_ns"] is None or 0 < a["lasted_ns"] == a["watched_ns"]
    right_again = [a for a in found if a["lasted_ns"] is not None]
    assert len(right_again) >= len(found) - workers and all(c["ok"] for c in record["checks"])
    assert {a["key"] for a in found if a["scenario"] == "listed_bucket_exists"} == {PHANTOM}
    integrity = {a["scenario"]: a["evidence"] for a in found}
    assert "is version 1 instead of 2" in integrity["overwrite"] and "404 NoSuchKey" in integrity["read_after_write"]
    assert {a["same_front_end"] for a in found} == {True, False}


@by_the_clock
def test_lasting_anomaly_is_counted_once(run, seaweedfs, behind):
    with LyingProxy(targets(seaweedfs), {"read_after_write"}, stubborn=True) as proxy:
        _, _, counts, found = run(behind(proxy), seaweedfs.credentials(), duration="2 s")
    assert by_scenario(counts, "anomalies").keys() == {"read_after_write"}
    assert 0 < len(found) <= AXES["clients"] * AXES["workers"], "each worker observed its first key until the deadline"
    assert {a["lasted_ns"] for a in found} == {None} and all(0 < a["watched_ns"] < 2_000_000_000 for a in found)


@by_the_clock
def test_failures_are_errors_not_anomalies(run, seaweedfs, behind):
    """Every tenth GET is answered with 503; one worker's listings fail for half a second, and only these count."""
    with LyingProxy(targets(seaweedfs), {"failures"}) as proxy:
        _, record, counts, found = run(behind(proxy), seaweedfs.credentials(), error_fraction=0.3)
    errors, wrong = by_scenario(counts, "errors"), by_scenario(counts, "anomalies")
    assert errors["read_after_write"] and errors["overwrite"] and errors["comes_back"]
    assert wrong == Counter(listing_works=1), found
    assert "500 InternalError" in found[0]["evidence"] and 200e6 < found[0]["lasted_ns"] < 1500e6
    assert sum(c["errors"] for c in record["clients"]) > 0
    assert record["clients"][0]["engine"]["errors"]["SlowDown"]


@by_the_clock
def test_hanging_store_ends_by_the_deadline(run, seaweedfs):
    """An answer that is neither right nor wrong does not count."""
    pid = seaweedfs.actors()["filer"]
    settings = {"kind": "s3", "endpoint": [e.url for e in seaweedfs.endpoints(2)], "prefix": "judged"}
    signals = ((4.0, signal.SIGSTOP), (12.0, signal.SIGCONT))
    timers = [threading.Timer(after, os.kill, (pid, sig)) for after, sig in signals]
    for timer in timers:
        timer.start()
    try:
        _, record, counts, found = run(settings, seaweedfs.credentials(), duration="6 s", axes={**AXES, "clients": 1})
    finally:
        for timer in timers:
            timer.cancel()
        os.kill(pid, signal.SIGCONT)
    assert not found and by_scenario(counts, "tried")["read_after_write"]
    assert record["clients"][0]["end_ns"] <= record["deadline_ns"]


def test_directory(run, tmp_path):
    (tmp_path / "data").mkdir()
    axes = {"engine": "fsspec", "clients": 2, "workers": 2}
    _, record, counts, found = run({"kind": "directory", "path": str(tmp_path / "data")}, duration="1500 ms", axes=axes)
    assert not found and set(counts) == {(s, True) for s in (*OBJECTS, *ONCE)}
    assert not {k for k, c in counts.items() if c["tried"] == 0 or c["errors"]}, counts
    assert record["engine"]["settings"]["protocol"] == "file"
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["storelab-judged-0000"]


def test_given_bucket_gets_no_second_one(run, seaweedfs):
    for_store(seaweedfs).create_bucket(Bucket="given-to-us")
    urls = [e.url for e in seaweedfs.endpoints(2)]
    settings = {"kind": "s3", "endpoint": urls, "bucket": "given-to-us", "prefix": "mine"}
    _, _, counts, found = run(settings, seaweedfs.credentials(), duration="1 s")
    assert not found and {s for s, _ in counts} == {*OBJECTS, "listing_complete"}
    keys = [e["Key"] for e in for_store(seaweedfs).list_objects_v2(Bucket="given-to-us")["Contents"]]
    assert all(key.startswith("mine/judged/b0000/") for key in keys)


def test_buckets_left_by_a_crash_are_removed(run, seaweedfs, tmp_path):
    s3 = for_store(seaweedfs)
    s3.create_bucket(Bucket="judged-judged-xfeedbeef-00003")
    s3.create_bucket(Bucket="judged-judged-xfeedbee-00003")  # of somebody else
    note = tmp_path / "results/judged/work/made-buckets-one.json"
    records.write_json(note, ["judged-judged-xfeedbeef-"])
    settings = {"kind": "s3", "endpoint": seaweedfs.endpoints(1)[0].url, "prefix": "judged"}
    run(settings, seaweedfs.credentials(), duration="500 ms", axes={"clients": 1, "workers": 1})
    assert [n for n in names(seaweedfs) if "-x" in n] == ["judged-judged-xfeedbee-00003"]
    assert len(records.read_json(note)) == 1
    s3.delete_bucket(Bucket="judged-judged-xfeedbee-00003")
