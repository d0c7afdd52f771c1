"""Rows that claims are judged on, by table: one per run where the table has medians over runs, else its counts. May
import: what `tables` may."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pandas as pd

from storelab.analysis.parts import words
from storelab.analysis.tables import roles
from storelab.analysis.tables.distribution import releases
from storelab.analysis.tables.systems import space, traffic
from storelab.core.axes import BY_COLUMN
from storelab.core.axes.root_files import SCALE
from storelab.core.campaign.claims import COUNTED, LINK_USED, MEASURED, TOLD
from storelab.core.figures import EVERYWHERE

BESIDE = (  # that verdicts look at
    *("key", "answer", "runs", "n", "bound_by", "shared_host", "host_cpu_percent", LINK_USED, "link_each"),
    *("entries_per_read", "clusters_per_read", "file_entries", "file_clusters"),
)


class Runs(dict[str, pd.DataFrame]):
    """Table -> its rows for claims: one per valid run with the columns of `MEASURED`, or the counted groups. Each is
    made when it is first asked for."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self._make: dict[str, Callable[[], pd.DataFrame]] = {
            "throughput": lambda: _rates(tables["rated"]),
            "sparse": lambda: _clusters(tables["read_runs"]),
            "events": lambda: tables["step_runs"],
            "latency": lambda: tables["latency_runs"],
            "traffic": lambda: _even(tables["traffic_runs"]),
            "resources": lambda: tables["used"],
            "space": lambda: space.runs(tables["campaign"], tables["plain"]),
            "roles": lambda: roles.with_points(tables["role_phases"], tables["points"], tables["roles_by"]),
            "releases": lambda: releases.with_points(tables["release_days"], tables["plain"]),
            "recovery": lambda: roles.with_points(tables["recoveries"], tables["points"], tables["roles_by"]),
        }
        self._tables = tables

    def __missing__(self, name: str) -> pd.DataFrame:
        made = self._make[name]() if name in self._make else self._tables[name]
        closed = _closed(made[[c for c in made if _wanted(c, name)]], name)
        self[name] = closed[[c for c in closed if not _says_nothing(c, name, closed[c])]]
        return self[name]


@cache
def _known(table: str) -> frozenset[str]:
    """Columns that a claim may ask for, axes aside."""
    counted = COUNTED.get(table, {})
    own = {*MEASURED.get(table, {}).values(), *counted, *(c for tries in counted.values() for c in tries)}
    return frozenset({*EVERYWHERE, *TOLD.get(table, ()), *own, *BESIDE})


def _wanted(column: str, table: str) -> bool:
    """Whether a claim may ask for this column: the rows of a run have some hundred others."""
    return column in _known(table) or words.of_role(column)[1] in BY_COLUMN


def _says_nothing(column: str, table: str, values: pd.Series) -> bool:
    """An axis that no row has sets none apart."""
    return column not in _known(table) and not values.notna().any()


def _good(points: pd.DataFrame) -> pd.DataFrame:
    return points[points["state"] == "ok"]


def _closed(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Without open loops, but for latencies, which name the loop."""
    if "arrival_rate" not in rows or name == "latency":
        return rows
    return rows[rows["arrival_rate"].fillna(0) == 0]


def _clusters(reads: pd.DataFrame) -> pd.DataFrame:
    """Return the reads with the clusters that each takes (baskets per branch, see `sparse.table2`), and the entries and
    clusters of the file: those of a read of all of it."""
    if reads.empty:
        return reads
    branches = reads["branches_per_read"].where(reads["branches_per_read"] > 0)
    made = reads.assign(clusters_per_read=reads["baskets_per_read"] / branches)
    of_file = made.groupby(made.get(SCALE.column, pd.Series("", index=made.index)), dropna=False)
    most = of_file[["entries_per_read", "clusters_per_read"]].transform("max")
    return made.assign(file_entries=most["entries_per_read"], file_clusters=most["clusters_per_read"])


def _even(carried: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run whose front-ends were given to as many clients each, if what they carried is known from
    counters, or from enough operations."""
    return traffic.evenly_given(traffic.enough(carried), ["key"]).drop_duplicates("key")


def _rates(rated: pd.DataFrame) -> pd.DataFrame:
    ok = _good(rated)
    return ok.assign(throughput_mb_per_s=ok["overlap_throughput_mb_per_s"], rate_per_s=ok["overlap_rate_per_s"])
