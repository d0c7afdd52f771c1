"""Numbers that earlier evaluations printed, 2010-2015: facts to stand beside ours, never mixed with
them.

The CSV files in `printed/` hold them as printed; their README names sources and oddities.
"""

from functools import cache
from importlib import resources
from typing import Any

import pandas as pd

from storelab.analysis.records.rows import select
from storelab.core import yaml_text

CHASSIS = (  # of 2013: system, setting, quantities
    "uds1_2013",
    "chassis powered off (16 disks)",
    "failed operations",
    "return of the nodes",
    "fully operative again, after their return",
)
ACCOUNTS = "21 clients, 21 accounts, 2100 buckets"  # a setting of 2013
NAMES = (
    "hepix_2010_storage_lab",
    "systems_2015",
    "uds1_2012_single_client_threads",
    "uds_2015_sparse_reads",
    "uds_headlines",
)


def load(name: str) -> pd.DataFrame:
    """One of NAMES as printed; lost or empty cells are null. Raises KeyError for another name."""
    if name not in NAMES:
        raise KeyError(name)
    return _read(name).copy()


@cache
def _read(name: str) -> pd.DataFrame:
    with resources.files("storelab.analysis.records").joinpath("printed", f"{name}.csv").open() as f:
        return pd.read_csv(f)


def places() -> list[dict[str, Any]]:
    """Where printed numbers stand in the paper (`printed/places.yaml`): `table`, `columns`, `rows` (column: value or
    values), and the names of `tables`, `tex`, `figures`, `numbers` that have them; `how`."""
    path = resources.files("storelab.analysis.records").joinpath("printed", "places.yaml")
    with resources.as_file(path) as file:
        return list(yaml_text.read(file))


def standing(place: dict[str, Any]) -> pd.DataFrame:
    """The rows that a place is about, with its columns alone."""
    return select(load(place["table"]), place.get("rows", {}))[place["columns"]]


def share_amplification() -> pd.DataFrame:
    """`uds_2015_sparse_reads` with share_amplification_ratio: volume moved over the entries' share of the volume of
    all."""
    t = load("uds_2015_sparse_reads")
    whole = t[t["percent_of_entries"] == 100].iloc[0]
    return t.assign(share_amplification_ratio=t["volume_mb"] / (whole["volume_mb"] * t["entries"] / whole["entries"]))


def derived(name: str) -> pd.DataFrame:
    """`load`, with what `share_amplification` adds."""
    return share_amplification() if name == "uds_2015_sparse_reads" else load(name)


def headline(system: str, quantity: str, setting: str | None = None) -> float:
    """The one value of `uds_headlines` with this system and quantity (and setting, where they have several)."""
    t = load("uds_headlines")
    return t[(t["system"] == system) & (t["quantity"] == quantity) & ((t["setting"] == setting) | (setting is None))][
        "value"
    ].item()


def chassis() -> dict[str, Any]:
    """A chassis that was powered off under load: store, source, failed (operations), back_s (until its nodes were
    back), whole_s (until the store was fully operative)."""
    system, setting, failed, back, operative = CHASSIS
    minutes = [headline(system, quantity, setting) for quantity in (back, operative)]
    rows = load("uds_headlines")
    return {
        "store": system,
        "source": rows.loc[rows["setting"] == setting, "source"].iloc[0],
        "failed": int(headline(system, failed, setting)),
        "back_s": 60 * minutes[0],
        "whole_s": 60 * sum(minutes),
    }


STRATUM = ("uds1_2015", "CvmFS stratum 0")  # system and setting of the nightly release


def release() -> tuple[float, float]:
    """New files and GB of a day of the nightly release, means."""
    system, setting = STRATUM
    return headline(system, "new files a day, mean", setting), headline(system, "new volume a day, mean", setting)


def release_spread() -> tuple[float, float]:
    """The same, standard deviations over the days."""
    system, setting = STRATUM
    names = ("new files a day, standard deviation", "new volume a day, standard deviation")
    files, volume = (headline(system, name, setting) for name in names)
    return files, volume


def release_at_end() -> tuple[float, float]:
    """Files and GB that it had in the end, at least."""
    system, setting = STRATUM
    return headline(system, "unique files at the end", setting), headline(system, "volume at the end", setting)


def release_days() -> float:
    """Days of it that were published."""
    system, setting = STRATUM
    return headline(system, "days of publishing", setting)


def one_client(threads: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """name, value, unit of what `uds1_2012_single_client_threads` tells about threads."""
    small_up, small_down, large_up = (
        threads[(threads["operation"] == operation) & (threads["object_size_printed"] == size)]
        for operation, size in (("upload", "4 kB"), ("download", "4 kB"), ("upload", "10 MB"))
    )
    one = small_up.loc[small_up["threads"] == 1, "files_per_s"].item()
    full = large_up.loc[large_up["mb_per_s"] >= 0.95 * large_up["mb_per_s"].max(), "threads"].min()
    lost = set(small_up["threads"]) - set(large_up["threads"])  # asked of large objects as well, and never printed
    return [
        ("small_upload_one_thread", one, "files/s"),
        ("small_download_threads", small_down["threads"].max(), ""),
        ("large_threads", full, ""),
        ("memory_threads", min(lost), ""),
    ]


def numbers() -> list[dict[str, Any]]:
    """Rows name, value, unit, source of the published numbers that the paper's text quotes."""
    sparse, threads, hepix = (
        share_amplification(),
        load("uds1_2012_single_client_threads"),
        load("hepix_2010_storage_lab"),
    )
    atlas = hepix[(hepix["use_case"] == "ATLAS") & (hepix["threads"] == 80)].set_index("solution")
    large = threads[threads["object_size_printed"] == "10 MB"].groupby("operation")["mb_per_s"].max()
    single = one_client(threads)
    rows = [
        ("published_entries", sparse["entries"].iloc[0], "", "uds_2015_sparse_reads"),
        ("published_few_entries", sparse["entries"].iloc[1], "", "uds_2015_sparse_reads"),
        ("published_few_share_amplification", sparse["share_amplification_ratio"].iloc[1], "", "uds_2015_sparse_reads"),
        ("published_one_share_amplification", sparse["share_amplification_ratio"].iloc[2], "", "uds_2015_sparse_reads"),
        ("published_front_end_download", headline("uds2_2015", "download 100 MB"), "MB/s", "uds_headlines"),
        ("published_front_end_upload", headline("uds2_2015", "upload 100 MB"), "MB/s", "uds_headlines"),
        ("published_front_end_files", headline("uds2_2015", "download 4 kB"), "files/s", "uds_headlines"),
        ("published_network", headline("uds2_2015", "network limit, reached"), "Gb/s", "uds_headlines"),
        (
            "published_single_small_upload",
            headline("uds1_2012", "upload 4 kB, 1 bucket, limit"),
            "files/s",
            "uds_headlines",
        ),
        (
            "published_single_buckets_upload",
            headline("uds1_2012", "upload 4 kB, 5 buckets"),
            "files/s",
            "uds_headlines",
        ),
        ("published_single_buckets", "5 buckets", "", "uds_headlines"),
        ("published_accounts_upload", headline("uds1_2013", "upload 4 kB", ACCOUNTS), "files/s", "uds_headlines"),
        ("published_accounts", ACCOUNTS.partition(", ")[2], "", "uds_headlines"),
        (
            "published_single_small_download",
            headline("uds1_2012", "download 4 kB, client limit"),
            "files/s",
            "uds_headlines",
        ),
        *((f"published_single_{name}", value, unit, "uds1_2012_single_client_threads") for name, value, unit in single),
        ("published_single_large_upload", large["upload"], "MB/s", "uds1_2012_single_client_threads"),
        ("published_single_large_download", large["download"], "MB/s", "uds1_2012_single_client_threads"),
        ("published_back", chassis()["back_s"] / 60, "minutes", "uds_headlines"),
        ("published_operative", (chassis()["whole_s"] - chassis()["back_s"]) / 60, "minutes", "uds_headlines"),
        (
            "published_deletions",
            headline("uds2_2015", "parallel delete requests beside maximum upload"),
            "",
            "uds_headlines",
        ),
        ("published_release_days", release_days(), "", "uds_headlines"),
        ("published_release_files", release()[0], "", "uds_headlines"),
        ("published_release_volume", release()[1], "GB", "uds_headlines"),
        ("published_release_volume_end", release_at_end()[1], "GB", "uds_headlines"),
        ("published_release_files_end", release_at_end()[0], "", "uds_headlines"),
        ("published_jobs", 80, "", "hepix_2010_storage_lab"),
        ("published_plain_events", atlas.loc["Xrootd vanilla", "events"] / 1e6, "", "hepix_2010_storage_lab"),
        ("published_plain_throughput", atlas.loc["Xrootd vanilla", "mb_per_s"], "MB/s", "hepix_2010_storage_lab"),
        ("published_tuned_events", atlas.loc["Xrootd", "events"] / 1e6, "", "hepix_2010_storage_lab"),
        (
            "published_cache_factor",
            atlas.loc["Xrootd", "events"] / atlas.loc["Xrootd vanilla", "events"],
            "",
            "hepix_2010_storage_lab",
        ),
        ("published_tuned_throughput", atlas.loc["Xrootd", "mb_per_s"], "MB/s", "hepix_2010_storage_lab"),
    ]
    return [{"name": n, "value": v, "unit": u, "source": f"published/{s}.csv"} for n, v, u, s in rows]
