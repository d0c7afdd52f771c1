"""DuckDB views of the Parquet records of a campaign, with all files of a kind in one view.

Files are grouped by the schema number of their run, so that DuckDB reads the columns of a group only from its first
file. Reading the columns from each of thousands of files (`union_by_name`) would take longer than reading the data. A
sealed campaign has one file of each kind.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics.medians import WIDTH
from storelab.core import integrity, records, sealed
from storelab.core.errors import UserError
from storelab.core.record_values import OPERATIONS_FILE

BIN_NS = 100_000_000  # default length of a bin
ADDED = {  # columns that records of older schemas lack
    "ops": {"intended_ns": "BIGINT", "endpoint": "SMALLINT"},
    "monitor": {"files": "BIGINT"},
}
KINDS = {"ops": records.OPS, "reads": records.READS, **records.TABLES}
# kind of a column (`records.OPS`) without its number of bits -> start of the name of DuckDB's type
TYPES = {
    "int": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    "float": ("FLOAT", "DOUBLE"),
    "bool": ("BOOLEAN",),
    "histogram": ("STRUCT",),
}
TEXT = ("VARCHAR", "ENUM")
# latency counts from the due time of an operation, otherwise from its start
LATENCY = "(end_ns - coalesce(intended_ns, start_ns))"


def share(low: str, high: str) -> str:
    """Return SQL for the fraction of an operation's duration that is between two times. low, high: columns in ns.

    If the start of an operation was not recorded, the fraction is 1 if the operation ends between them, else 0.
    """
    return f"""CASE WHEN end_ns > start_ns
      THEN greatest(0, least(end_ns, {high}) - greatest(start_ns, {low})) / (end_ns - start_ns)
      ELSE (end_ns > {low} AND end_ns <= {high})::INT END"""


def bucket(ns: str) -> str:
    """Return SQL for the upper end of the histogram bucket that contains a time in ns."""
    return f"pow({WIDTH}, ceil(ln(greatest({ns}, 1)) / ln({WIDTH})))::BIGINT"


def never_began(engines: Sequence[Mapping[str, Any]], rate: float | None) -> list[np.ndarray]:
    """Return how long the operations that never began had waited at the end of the run (ns), one array per client.

    The clients belong to an open loop. The operations that never began are the last ones that were due. Operations are
    assigned to the clients in turn. engines: the records of the clients' engines; rate: operations of all clients that
    are due per second.
    """
    return [np.arange(e.get("not_begun") or 0) * len(engines) * 1e9 / (rate or 1) for e in engines]


def bounds(campaign: Campaign) -> pd.DataFrame:
    """Return one row per key with agreed_ns (start), overlap_begin_ns and first_end_ns (see `windows`), and bin_ns.

    bin_ns is the length of the bins of operations. The last completion is not included, because it is known only from
    the operations.
    """
    rows = []
    for key, run in campaign.runs.items():
        starts = [c.get("start_ns") or run["start_ns"] for c in run["clients"]]
        ends = [min(c.get("end_ns") or run["deadline_ns"], run["deadline_ns"]) for c in run["clients"]]
        begin = max(starts, default=run["start_ns"]) + run["point"]["fixed"]["warm_up_ns"]
        rows.append((key, run["start_ns"], begin, min(ends, default=run["deadline_ns"]), bin_ns(run)))
    return pd.DataFrame(rows, columns=["key", "agreed_ns", "overlap_begin_ns", "first_end_ns", "bin_ns"])


def bin_ns(run: Mapping[str, Any]) -> int:
    """Return the length of a bin of operations in this run, in ns (docs/records.md)."""
    return int(run["point"]["fixed"].get("bin_ns", BIN_NS))


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the in-memory database of this process. It is opened only once, because this is slower than a query."""
    return duckdb.connect()


def connect(campaign: Campaign, name: str, keys: Iterable[str] | None = None) -> duckdb.DuckDBPyConnection | None:
    """Return a connection with the view `rows`: all rows of the files `<name>.<client>.parquet`.

    The view adds `key` (of the point), `filename` and the columns of `bounds`. If the files have a column `key` (the
    key of an object), it is renamed to `object`. keys: use only the files of these points. Returns None if there are no
    files.
    """
    wanted = set(campaign.runs if keys is None else keys)
    files = pd.DataFrame(
        [(str(campaign.raw / k / f), f, k) for k, f in campaign.files(name) if k in wanted],
        columns=["filename", "file", "key"],
    )
    if files.empty:
        return None
    con = _database().cursor()
    con.register("found", files.merge(bounds(campaign), on="key"))
    con.execute("CREATE TEMP TABLE of_file AS SELECT * FROM found")
    parts, added = [], ADDED.get(name, {})

    def add(relation: duckdb.DuckDBPyRelation, condition: str) -> None:
        _check_columns(relation, name, campaign)
        view = f"part{len(parts)}"
        con.register(view, relation)
        other_columns = [c for c in relation.columns if c not in ("point", "file", "filename")]
        columns = [f'{view}."{c}"' + " AS object" * (c == "key") for c in other_columns]
        columns += [f"NULL::{kind} AS {column}" for column, kind in added.items() if column not in other_columns]
        columns.append("of_file.* EXCLUDE (file)")
        parts.append(f"SELECT {', '.join(columns)} FROM {view} JOIN of_file ON {condition.format(view=view)}")

    if packed := sealed.tables(campaign.raw).get(name):
        add(con.read_parquet(str(packed)), "{view}.point = of_file.key AND {view}.file = of_file.file")
    else:
        for _, group in files.groupby(files["key"].map(lambda k: campaign.runs[k].get("schema", 0))):
            relation = con.read_parquet(group["filename"].tolist(), filename=True)
            add(relation, "{view}.filename = of_file.filename")
    con.execute(f"CREATE TEMP VIEW rows AS {' UNION ALL BY NAME '.join(parts)}")
    return con


def _check_columns(relation: duckdb.DuckDBPyRelation, name: str, campaign: Campaign) -> None:
    """Raise UserError if a column of the files `<name>.<client>.parquet` has another type than storelab writes."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    for column, kind in KINDS[name].items():
        known = next((known for start, known in TYPES.items() if kind.startswith(start)), TEXT)
        if column in types and not types[column].startswith(known):
            problem = f"column {column!r} of a file {name}.*.parquet has the type {types[column]}: the file is damaged"
            raise UserError(str(campaign.raw), problem, integrity.MEASURE_AGAIN)


# One row for each file of operations whose rows are impossible, or do not agree with the client in run.json.
_WRONG_ROWS = """
SELECT filename, CASE
    WHEN clients.filename IS NULL THEN 'operations of a client that run.json does not have'
    WHEN lowest_count < 1 THEN 'an operation with the count ' || lowest_count
    WHEN lowest_bytes < 0 THEN 'an operation of ' || lowest_bytes || ' bytes'
    WHEN unended > 0 THEN 'an operation without an end'
    WHEN reversed > 0 THEN 'an operation that ends before its start'
    WHEN others > 0 THEN 'operations of another client'
    ELSE concat(good, ' completed and ', bad, ' failed operations, but run.json has ', operations, ' and ', errors)
  END AS problem
FROM (
  SELECT filename, any_value(key) AS key, min("count") AS lowest_count, min(bytes) AS lowest_bytes,
    count(*) FILTER (end_ns IS NULL) AS unended, count(*) FILTER (end_ns < start_ns) AS reversed,
    count(*) FILTER (client IS NULL OR client <> regexp_extract(filename, 'ops\\.(\\d+)\\.[^/]*$', 1)::INT) AS others,
    coalesce(sum("count") FILTER (error IS NULL), 0)::BIGINT AS good,
    coalesce(sum("count") FILTER (error IS NOT NULL), 0)::BIGINT AS bad
  FROM rows GROUP BY filename
) LEFT JOIN clients USING (filename)
WHERE clients.filename IS NULL OR lowest_count < 1 OR lowest_bytes < 0 OR unended > 0 OR reversed > 0 OR others > 0
  OR good <> coalesce(operations, good) OR bad <> coalesce(errors, bad)
ORDER BY filename LIMIT 1
"""


def check_operations(campaign: Campaign) -> None:
    """Check that the operations of all clients are possible, and agree with the counts in run.json.

    Checksums do not show rows that were added, removed or changed if they were made again. Raises UserError.
    """
    if (con := connect(campaign, "ops")) is None:
        return
    clients = [
        (str(campaign.raw / key / name), c.get("operations"), c.get("errors"))
        for key, run in campaign.runs.items()
        for name in run["files"]
        for c in run["clients"]
        if (found := OPERATIONS_FILE.fullmatch(name)) and int(found[1]) == c["client"]
    ]
    kinds = {"operations": "Int64", "errors": "Int64"}
    con.register("clients", pd.DataFrame(clients, columns=["filename", *kinds]).astype(kinds))
    if found := con.execute(_WRONG_ROWS).fetchone():
        raise UserError(found[0], f"has {found[1]}: the file is damaged", integrity.MEASURE_AGAIN)
