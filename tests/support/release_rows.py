"""A table of published releases with known values, made from synthetic records."""

import made_records
import pandas as pd

from storelab.analysis.tables import releases
from storelab.core import records

S = 10**9


BY = ["store", "workload", "pattern", "stratum0", "days"]


def day(n, stratum, state, begin, end, stored=10, size=2_000_000, **more):
    times = {"begin_ns": begin * S, "end_ns": end * S, "prepare_ns": None if stratum else 2 * S}
    counts = dict.fromkeys(("heads", "gets", "puts", "skipped", "retries", "failures"), 1)
    row = {"client": 0, "day": n, "stratum": stratum, "state": state, "stored": stored, "bytes": size}
    return row | times | counts | more


DAYS = [
    day(1, 0, "published", 0, 10),
    day(1, 1, "published", 10, 14),
    day(2, 0, "published", 20, 30, stored=30),
    day(2, 1, "failed", 30, 31, stored=4, size=500_000, failures=3),
    day(3, 0, "failed", 40, 41, stored=0, size=0),
    day(3, 1, "published", 41, 50, stored=26, size=1_500_000),  # publishes also day 2
    day(4, 0, "published", 60, 61),
    day(4, 1, "unchanged", 62, 63, stored=0, size=0),
]


def make_table(tmp_path):
    """Make the table of two runs of a group, of which the second has twice the bytes, and of an invalid run."""
    rows = {
        f"a/replicate/rep~{number}": [row | {"bytes": row["bytes"] * factor} for row in DAYS]
        for number, factor in enumerate((1, 2, 100))
    }
    runs = {key: {"point": {"fixed": {"release": {"factor": 0.001}}}} for key in rows}
    campaign = made_records.campaign(tmp_path, "days", records.DAYS, rows, runs)
    points = pd.DataFrame(
        {"key": list(runs), "state": ["ok", "ok", "invalid"], "shared_host": pd.array([True] * 3, "boolean")}
        | {name: [value] * 3 for name, value in zip(BY, ("a", "replicate", "cvmfs", "b", 4), strict=True)}
    )
    return releases.releases_table(releases.days_of_runs(campaign), points, BY)
