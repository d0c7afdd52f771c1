"""DuckDB over the Parquet records of a campaign: all files of a kind in one scan.

Files are grouped by the schema number of their run, so that DuckDB takes the columns of a group from its first file: to
look into each of thousands of files for its columns (`union_by_name`) takes longer than to read them.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import duckdb
import pandas as pd

from storelab.analysis.records.campaign import Campaign

BIN_NS = 100_000_000  # length of a bin, where the sweep gives none
ADDED = {  # columns that records of older schemas lack
    "ops": {"intended_ns": "BIGINT", "endpoint": "SMALLINT"},
    "monitor": {"files": "BIGINT"},
}


def bounds(campaign: Campaign) -> pd.DataFrame:
    """Per key: agreed_ns (start), overlap_begin_ns, first_end_ns, as `windows` defines them, and bin_ns, the length of
    its bins of operations. The last completion comes from the operations."""
    rows = []
    for key, run in campaign.runs.items():
        starts = [c.get("start_ns") or run["start_ns"] for c in run["clients"]]
        ends = [min(c.get("end_ns") or run["deadline_ns"], run["deadline_ns"]) for c in run["clients"]]
        begin = max(starts, default=run["start_ns"]) + run["point"]["fixed"]["warm_up_ns"]
        rows.append((key, run["start_ns"], begin, min(ends, default=run["deadline_ns"]), bin_ns(run)))
    return pd.DataFrame(rows, columns=["key", "agreed_ns", "overlap_begin_ns", "first_end_ns", "bin_ns"])


def bin_ns(run: Mapping[str, Any]) -> int:
    """Length of a bin of this run (docs/records.md)."""
    return int(run["point"]["fixed"].get("bin_ns", BIN_NS))


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """In memory, one for the process: to open one takes longer than to ask it for some rows."""
    return duckdb.connect()


def of_files(files: Mapping[str, str], column: str = "key") -> duckdb.DuckDBPyConnection:
    """A connection with the view `rows`: all rows of these Parquet files of one schema, with a column for what each
    file maps to."""
    con = _database().cursor()
    con.register("files", pd.DataFrame({"filename": list(files), column: list(files.values())}))
    con.register("found", con.read_parquet(list(files), filename=True))
    con.execute("CREATE TEMP VIEW rows AS SELECT * EXCLUDE (filename) FROM found JOIN files USING (filename)")
    return con


def connect(campaign: Campaign, name: str, keys: Iterable[str] | None = None) -> duckdb.DuckDBPyConnection | None:
    """A connection with the view `rows`: all rows of the files `<name>.<client>.parquet`, with `key` and the columns of
    `bounds`.

    keys: only the files of these points. None where there is no such file.
    """
    wanted = set(campaign.runs if keys is None else keys)
    files = pd.DataFrame([(p, k) for p, k in campaign.files(name).items() if k in wanted], columns=["filename", "key"])
    if files.empty:
        return None
    con = _database().cursor()
    con.register("found", files.merge(bounds(campaign), on="key"))
    con.execute("CREATE TEMP TABLE files AS SELECT * FROM found")
    parts = []
    for i, group in files.groupby(files["key"].map(lambda k: campaign.runs[k].get("schema", 0))):
        relation = con.read_parquet(group["filename"].tolist(), filename=True)
        con.register(f"schema{i}", relation)
        added = ADDED.get(name, {})
        lacking = [f", NULL::{kind} AS {column}" for column, kind in added.items() if column not in relation.columns]
        parts.append(f"SELECT *{''.join(lacking)} FROM schema{i}")
    con.execute(
        f"CREATE TEMP VIEW rows AS SELECT * FROM ({' UNION ALL BY NAME '.join(parts)}) JOIN files USING (filename)"
    )
    return con
