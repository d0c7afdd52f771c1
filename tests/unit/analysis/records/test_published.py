"""Published numbers, compared with the printed tables by hand."""

import csv
from pathlib import Path

import pytest

from storelab.analysis.records import published


def printed(name):
    with (Path(published.__file__).parent / "printed" / f"{name}.csv").open() as f:
        return list(csv.DictReader(f))


@pytest.fixture(scope="module")
def found():
    return {r["name"].removeprefix("published_"): r["value"] for r in published.numbers()}


def test_sparse_reads_are_those_printed(found):
    whole, few, one = printed("uds_2015_sparse_reads")
    assert found["entries"] == int(whole["entries"]) and found["few_entries"] == int(few["entries"])
    for row, name in ((few, "few"), (one, "one")):
        share = float(row["volume_mb"]) / (float(whole["volume_mb"]) * float(row["entries"]) / float(whole["entries"]))
        assert found[f"{name}_share_amplification"] == pytest.approx(share)


def test_cache_factor_is_that_printed(found):
    rows = [r for r in printed("hepix_2010_storage_lab") if r["use_case"] == "ATLAS" and r["threads"] == "80"]
    by_solution = {r["solution"]: r for r in rows}
    plain, tuned = by_solution["Xrootd vanilla"], by_solution["Xrootd"]
    for name, row in (("plain", plain), ("tuned", tuned)):
        assert found[f"{name}_events"] == pytest.approx(int(row["events"]) / 1e6)
        assert found[f"{name}_throughput"] == float(row["mb_per_s"])
    assert found["cache_factor"] == pytest.approx(int(tuned["events"]) / int(plain["events"]))


def test_single_client_numbers_are_those_printed(found):
    threads = printed("uds1_2012_single_client_threads")

    def rows(operation, size):
        return [r for r in threads if (r["operation"], r["object_size_printed"]) == (operation, size)]

    def speeds(operation):
        return {int(r["threads"]): float(r["mb_per_s"]) for r in rows(operation, "10 MB") if r["mb_per_s"]}

    up, small = speeds("upload"), {int(r["threads"]) for r in rows("upload", "4 kB")}
    expected = {
        "small_upload_one_thread": float(rows("upload", "4 kB")[0]["files_per_s"]),
        "small_download_threads": max(int(r["threads"]) for r in rows("download", "4 kB")),
        "large_threads": min(n for n, speed in up.items() if speed >= 0.95 * max(up.values())),
        "memory_threads": min(small - {int(r["threads"]) for r in rows("upload", "10 MB")}),
        "large_upload": max(up.values()),
        "large_download": max(speeds("download").values()),
    }
    assert {name: found[f"single_{name}"] for name in expected} == expected


def test_headlines_and_sources_are_those_printed(found):
    heads = {(r["system"], r["quantity"]): float(r["value"]) for r in printed("uds_headlines") if r["value"]}
    for name, key in (
        ("front_end_download", ("uds2_2015", "download 100 MB")),
        ("front_end_upload", ("uds2_2015", "upload 100 MB")),
        ("front_end_files", ("uds2_2015", "download 4 kB")),
        ("network", ("uds2_2015", "network limit, reached")),
        ("single_small_upload", ("uds1_2012", "upload 4 kB, 1 bucket, limit")),
        ("single_buckets_upload", ("uds1_2012", "upload 4 kB, 5 buckets")),
        ("single_small_download", ("uds1_2012", "download 4 kB, client limit")),
    ):
        assert found[name] == heads[key], name
    assert [found[k] for k in ("jobs", "accounts", "single_buckets")] == [80, "21 accounts, 2100 buckets", "5 buckets"]
    sources = {r["name"]: (r["unit"], r["source"]) for r in published.numbers()}
    assert sources["published_network"] == ("Gb/s", "published/uds_headlines.csv")
    assert sources["published_cache_factor"][1] == "published/hepix_2010_storage_lab.csv"
    with pytest.raises(KeyError):
        published.load("nothing")


def test_places_of_printed_numbers_are_a_list_with_what_each_needs():
    places = published.places()
    assert isinstance(places, list) and {p["table"] for p in places} <= set(published.NAMES)
    assert all(
        p["columns"] and len(published.select_printed(p)) and [*published.select_printed(p)] == p["columns"]
        for p in places
    )
