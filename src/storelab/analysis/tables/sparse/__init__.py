"""`sparse.csv`: reads of selections by group of points: bytes, requests and time of a read, amplification, entries per
second. May import: what `tables` may."""

from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import windows
from storelab.analysis.records.campaign import Campaign

METRICS = (
    *((name, "mb_per_read") for name in ("needed", "asked", "wire")),
    ("requests", "per_read"),
    ("amplification", "ratio"),
    ("share_amplification", "ratio"),
    ("reads", "per_s"),
    ("entries", "per_s"),
    ("needed", "mb_per_s"),
    ("wire", "mb_per_s"),
    *((phase, "s_per_read") for phase in windows.PHASES),
    *windows.OPENED,
)
PER_READ = ("entries", "branches", "baskets")
COLUMNS = (*groups.COUNTS, "few", "reads", "shared_host", *groups.CPU, *PER_READ, *groups.spread(METRICS))


def read_points(campaign: Campaign, points: pd.DataFrame, axes: dict[str, str]) -> pd.DataFrame:
    """The points with reads, joined with `windows.reads`, and `share_amplification_ratio`: wire bytes per read over the
    entries' share of the volume, which is needed bytes * entries / entries of the same selection at 100 % of the
    entries (the measure that the published calls and volumes allow; null where no such point was measured)."""
    found = windows.reads(campaign)
    both = points[points["state"] != "invalid"]
    both = both.merge(found, left_on="key", right_index=True, how="inner", suffixes=("", "_of_reads"))
    both["share_amplification_ratio"] = np.nan
    if both.empty or "entry_fraction_percent" not in both:
        return both
    both.loc[both["workload"] == "read_volume", "entry_fraction_percent"] = 100.0  # all entries, so it has no such axis
    by = [c for c in ("store", "workload", *axes) if c not in ("entry_fraction_percent", "clients")]
    for _, g in groups.grouped(both, by):
        whole = g[g["entry_fraction_percent"] == 100]
        if len(whole):
            volume, entries = whole["needed_mb_per_read"].median(), whole["entries_per_read"].median()
            share = g["wire_mb_per_read"] / (volume * g["entries_per_read"] / entries)
            both.loc[g.index, "share_amplification_ratio"] = share
    return both


def table(both: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of `read_points`: medians over the runs of what `windows.reads` gives per run; reads: sum over
    the runs."""

    def more(group: pd.DataFrame) -> dict[str, Any]:
        return {
            "reads": group["reads"].sum(),
            "shared_host": bool(group["shared_host"].any()),
            **{name: group[name].astype(float).median() for name in groups.CPU},
            **{name: group[f"{name}_per_read"].median() for name in PER_READ},
        }

    return groups.summarised(both, by, METRICS, [*by, *COLUMNS], more, counted="reads_per_s")


def _extreme(table: pd.DataFrame, column: str, largest: bool = True) -> pd.Series | None:
    """The row with the largest (or smallest) value of a column; None where no row has one."""
    values = table[column].dropna().astype(float)
    return table.loc[values.idxmax() if largest else values.idxmin()] if len(values) else None


def of_all_branches(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the reads of the whole volume: a planner may read a whole file for a few entries of few branches."""
    if "volume_fraction_percent" not in rows:
        return rows
    return rows[rows["volume_fraction_percent"].fillna(100) == 100]


def entries_read(row: pd.Series, table: pd.DataFrame) -> tuple[float, float] | None:
    """Return how many entries a read had, and of how many: those of reads of 100 % of the entries; None where either is
    not known. One entry is the least, so that the fraction of a small file differs from the one that was asked for."""
    if "entries" not in table or pd.isna(row["entries"]):
        return None
    whole = table.loc[table["entry_fraction_percent"] == 100, "entries"].dropna()
    return (float(row["entries"]), float(whole.max())) if len(whole) else None


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return (name, value, unit) of reads by entries of all branches; the other reads have separate figures and tables.
    Amplifications that round alike have no row."""
    out: list[tuple[str, Any, str]] = []
    table = of_all_branches(table[table["workload"] == "read_entries"])
    said = table["amplification_median_ratio"].dropna().map(words.number)
    for name, column, largest in (
        ("amplification_most", "amplification_median_ratio", True),
        ("amplification_least", "amplification_median_ratio", False),
        ("share_amplification_most", "share_amplification_median_ratio", True),
    ):
        row = _extreme(table, column, largest)
        if row is not None and (name.startswith("share") or said.nunique() > 1):
            known = entries_read(row, table)
            percent = 100 * known[0] / known[1] if known else row["entry_fraction_percent"]
            out += [(name, row[column], ""), (f"{name}_entry_fraction", f"{percent:.3g} %", "")]
    for name, column, unit in (
        ("best_read_wire", "wire_median_mb_per_s", "MB/s"),
        ("best_read_entries", "entries_median_per_s", "entries/s"),
    ):
        row = _extreme(table, column)
        if row is not None:
            out += [(name, row[column], unit), (f"{name}_clients", words.plural(row["clients"], "client"), "")]
            if name == "best_read_wire":
                out += [("best_read_wire_entries", row["entries_median_per_s"], "entries/s")]
    return out
