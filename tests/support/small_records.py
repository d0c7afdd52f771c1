"""Write campaigns with a few runs and the columns that a test needs."""

from storelab.analysis.records.campaign import Campaign
from storelab.core import records

AGREED = 10**18  # UTC ns; a time in 2001, with as many digits as in real records


def campaign_of(folder, tables, **more):
    """Write a campaign. tables: key -> name of a table (`ops.0`) -> columns; more: key -> other keys of run.json."""
    runs = {}
    for key, files in tables.items():
        for name, columns in files.items():
            kinds = records.OPS if name.startswith("ops") else records.TABLES.get(name.partition(".")[0], records.READS)
            path = folder / "raw" / key / f"{name}.parquet"
            records.write_table(path, {c: k for c, k in kinds.items() if c in columns or name[0] != "m"}, columns)
        over = AGREED + 10
        run = {"start_ns": AGREED, "deadline_ns": over, "clients": [{"client": 0, "start_ns": AGREED, "end_ns": over}]}
        run |= {"files": dict.fromkeys(f"{name}.parquet" for name in files)}
        run["point"] = {"fixed": {"warm_up_ns": 2}, "axes": {"clients": 1}}
        runs[key] = run | more.get(key, {})
    return Campaign(folder, {"points": [], "workloads": {}}, runs, {})


def operations(*ends, errors=()):
    n = len(ends)
    found = [errors[i] if i < len(errors) else None for i in range(n)]
    return {"client": [0] * n, "count": [1] * n, "bytes": [7] * n, "end_ns": [AGREED + e for e in ends], "error": found}
