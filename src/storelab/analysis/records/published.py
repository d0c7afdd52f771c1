"""The published numbers and findings of earlier evaluations, 2010-2015.

Our results are compared with the published numbers, but never mixed with them. The CSV files in `printed/` contain the
numbers as printed; the README of that folder lists sources and peculiarities. `claims.yaml` contains the findings as
claims (defined in `core.campaign.claims`), with numbers from `printed/`.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.records.selection import select
from storelab.core import yaml_text
from storelab.core.axes import ALL

FINDINGS = Path(__file__).with_name("claims.yaml")
ACCOUNTS = "21 clients, 21 accounts, 2100 buckets"  # setting of a measurement of 2013
NAMES = (
    "hepix_2010_storage_lab",
    "systems_2015",
    "uds1_2012_single_client_threads",
    "uds_2015_sparse_reads",
    "uds_headlines",
)


def load(name: str) -> pd.DataFrame:
    """Return one of the tables NAMES as printed, with null for lost or empty cells. Raises KeyError for other names."""
    if name not in NAMES:
        raise KeyError(name)
    return _read(name).copy()


@cache
def _read(name: str) -> pd.DataFrame:
    with resources.files("storelab.analysis.records").joinpath("printed", f"{name}.csv").open() as f:
        return pd.read_csv(f)


def places() -> list[dict[str, Any]]:
    """Return where the paper shows the printed numbers (`printed/places.yaml`).

    Each place has `table`, `columns` and `rows` (column: value or values), which select printed numbers. It also has
    the names of `tables`, `tex`, `figures` and `numbers` that show these numbers, and `how` they are shown.
    """
    path = resources.files("storelab.analysis.records").joinpath("printed", "places.yaml")
    with resources.as_file(path) as file:
        return list(yaml_text.read(file))


def select_printed(place: dict[str, Any]) -> pd.DataFrame:
    """Return the rows and columns of printed numbers that a place selects."""
    return select(load(place["table"]), place.get("rows", {}))[place["columns"]]


def share_amplification() -> pd.DataFrame:
    """Return `uds_2015_sparse_reads` with the column share_amplification_ratio.

    It is the volume moved, divided by the share of the whole volume that corresponds to the entries read.
    """
    t = load("uds_2015_sparse_reads")
    whole = t[t["percent_of_entries"] == 100].iloc[0]
    return t.assign(share_amplification_ratio=t["volume_mb"] / (whole["volume_mb"] * t["entries"] / whole["entries"]))


def derived(name: str) -> pd.DataFrame:
    """Return a table of NAMES with its computed column, if it has one (`share_amplification`)."""
    return share_amplification() if name == "uds_2015_sparse_reads" else load(name)


def headline(system: str, quantity: str, setting: str | None = None) -> float:
    """Return the value of this quantity of a system in `uds_headlines`.

    setting: selects one of several values. Raises ValueError if not exactly one row matches.
    """
    t = load("uds_headlines")
    return t[(t["system"] == system) & (t["quantity"] == quantity) & ((t["setting"] == setting) | (setting is None))][
        "value"
    ].item()


def chassis() -> dict[str, Any]:
    """Return the numbers of a chassis that was powered off under load.

    The keys are store, source, failed (number of operations), back_s (seconds until the nodes were back) and whole_s
    (seconds until the store was fully operative).
    """
    system, setting, rows = "uds1_2013", "chassis powered off (16 disks)", load("uds_headlines")
    back, operative = (
        60 * headline(system, quantity, setting)
        for quantity in ("return of the nodes", "fully operative again, after their return")
    )
    return {
        "store": system,
        "source": rows.loc[rows["setting"] == setting, "source"].iloc[0],
        "failed": int(headline(system, "failed operations", setting)),
        "back_s": back,
        "whole_s": back + operative,
    }


def _nightly(*quantities: str) -> tuple[float, ...]:
    """Return these quantities of the nightly release from `uds_headlines`."""
    return tuple(headline("uds1_2015", quantity, "CvmFS stratum 0") for quantity in quantities)


def release() -> tuple[float, ...]:
    """Return the mean number of new files, and the mean new volume in GB, per day of the nightly release."""
    return _nightly("new files a day, mean", "new volume a day, mean")


def release_spread() -> tuple[float, ...]:
    """Return the standard deviations over days of the number of new files and the new volume in GB."""
    return _nightly("new files a day, standard deviation", "new volume a day, standard deviation")


def release_at_end() -> tuple[float, ...]:
    """Return the printed lower bounds of the number of files and the volume in GB at the end of the nightly release."""
    return _nightly("unique files at the end", "volume at the end")


def release_days() -> float:
    """Return the number of days on which the nightly release was published."""
    return _nightly("days of publishing")[0]


def one_client(threads: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about threads in `uds1_2012_single_client_threads`."""
    small_up, small_down, large_up = (
        threads[(threads["operation"] == operation) & (threads["object_size_printed"] == size)]
        for operation, size in (("upload", "4 kB"), ("download", "4 kB"), ("upload", "10 MB"))
    )
    one = small_up.loc[small_up["threads"] == 1, "files_per_s"].item()
    full = large_up.loc[large_up["mb_per_s"] >= 0.95 * large_up["mb_per_s"].max(), "threads"].min()
    lost = set(small_up["threads"]) - set(large_up["threads"])  # measured also for large objects, but never printed
    return [
        ("small_upload_one_thread", one, "files/s"),
        ("small_download_threads", small_down["threads"].max(), ""),
        ("large_threads", full, ""),
        ("memory_threads", min(lost), ""),
    ]


def numbers() -> list[dict[str, Any]]:
    """Return the published numbers that the paper's text quotes: rows of name, value, unit and source."""
    sparse, threads = share_amplification(), load("uds1_2012_single_client_threads")
    hepix = load("hepix_2010_storage_lab")
    atlas = hepix[(hepix["use_case"] == "ATLAS") & (hepix["threads"] == 80)].set_index("solution")
    plain, tuned = atlas.loc["Xrootd vanilla"], atlas.loc["Xrootd"]
    large = threads[threads["object_size_printed"] == "10 MB"].groupby("operation")["mb_per_s"].max()
    tried, per_s = chassis(), "files/s"
    rows: list[tuple[str, list[tuple[str, Any, str]]]] = [
        (
            "uds_2015_sparse_reads",
            [
                ("entries", sparse["entries"].iloc[0], ""),
                ("few_entries", sparse["entries"].iloc[1], ""),
                ("few_share_amplification", sparse["share_amplification_ratio"].iloc[1], ""),
                ("one_share_amplification", sparse["share_amplification_ratio"].iloc[2], ""),
            ],
        ),
        (
            "uds_headlines",
            [
                ("front_end_download", headline("uds2_2015", "download 100 MB"), "MB/s"),
                ("front_end_upload", headline("uds2_2015", "upload 100 MB"), "MB/s"),
                ("front_end_files", headline("uds2_2015", "download 4 kB"), per_s),
                ("network", headline("uds2_2015", "network limit, reached"), "Gb/s"),
                ("single_small_upload", headline("uds1_2012", "upload 4 kB, 1 bucket, limit"), per_s),
                ("single_buckets_upload", headline("uds1_2012", "upload 4 kB, 5 buckets"), per_s),
                ("single_buckets", "5 buckets", ""),
                ("accounts_upload", headline("uds1_2013", "upload 4 kB", ACCOUNTS), per_s),
                ("accounts", ACCOUNTS.partition(", ")[2], ""),
                ("single_small_download", headline("uds1_2012", "download 4 kB, client limit"), per_s),
            ],
        ),
        (
            "uds1_2012_single_client_threads",
            [
                *((f"single_{name}", value, unit) for name, value, unit in one_client(threads)),
                ("single_large_upload", large["upload"], "MB/s"),
                ("single_large_download", large["download"], "MB/s"),
            ],
        ),
        (
            "uds_headlines",
            [
                ("back", tried["back_s"] / 60, "minutes"),
                ("operative", (tried["whole_s"] - tried["back_s"]) / 60, "minutes"),
                ("deletions", headline("uds2_2015", "parallel delete requests beside maximum upload"), ""),
                ("release_days", release_days(), ""),
                ("release_files", release()[0], ""),
                ("release_volume", release()[1], "GB"),
                ("release_volume_end", release_at_end()[1], "GB"),
                ("release_files_end", release_at_end()[0], ""),
            ],
        ),
        (
            "hepix_2010_storage_lab",
            [
                ("jobs", 80, ""),
                ("plain_events", plain["events"] / 1e6, ""),
                ("plain_throughput", plain["mb_per_s"], "MB/s"),
                ("tuned_events", tuned["events"] / 1e6, ""),
                ("cache_factor", tuned["events"] / plain["events"], ""),
                ("tuned_throughput", tuned["mb_per_s"], "MB/s"),
            ],
        ),
    ]
    return [
        {"name": f"published_{name}", "value": value, "unit": unit, "source": f"published/{source}.csv"}
        for source, quoted in rows
        for name, value, unit in quoted
    ]


@cache
def findings() -> dict[str, dict[str, Any]]:
    """Return the findings, name -> claim, in the form of `core.campaign.claims.resolved` and the order of the file."""
    from storelab.core.campaign.claims import Claim, resolved  # imported here because pydantic is slow to load

    claims = yaml_text.read(FINDINGS)
    return resolved({name: Claim.model_validate(claim) for name, claim in claims.items()}, ALL)


def claims_of(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the claims in a campaign's plan, followed by the published findings. Older plans have no claims."""
    claims = plan.get("claims", {})
    return {**claims, **{name: claim for name, claim in findings().items() if name not in claims}}


def printed_number(number: Mapping[str, Any] | None) -> tuple[float, str]:
    """Return the published number of a claim and its unit. The number is NaN if none was printed.

    Raises ValueError if the conditions of the claim do not select exactly one row.
    """
    if not number:
        return float("nan"), ""
    if number["value"] is not None:
        return float(number["value"]), number["unit"]
    table = derived(number["table"])

    def one(rows: Mapping[str, Any]) -> pd.Series:
        found = select(table, rows)
        if len(found) != 1:
            raise ValueError(f"{number['table']}: {len(found)} rows match {dict(rows)}")
        return found.iloc[0]

    row, column = one(number["rows"]), number["column"]
    if not number["over"]:
        return float(row[column]), number["unit"] or str(row.get("unit", ""))
    return float(row[column]) / float(one({**number["rows"], **number["over"]})[column]), number["unit"]
