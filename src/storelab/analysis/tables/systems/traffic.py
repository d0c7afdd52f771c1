"""`traffic.csv`: what each front-end of a point carried: was the load balanced?

Where a front-end has an interface of its own (a testbed), its counters tell: bytes received and sent from the agreed
start to the deadline. What the clients had done by it comes from their records, from the agreed start until the first
client stopped, an operation by the part of its time in this window: by the front-end that each client was given, or, of
clients that use several, by the `endpoint` of each operation; null where they do not tell (bins, and front-ends that
share one name). Front-ends are numbered from 1, in the order in which clients are given them; one that no client was
given counts, too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups
from storelab.analysis.records import links, scan
from storelab.analysis.records.campaign import Campaign

COUNTERS, CLIENTS = "counters", "clients"  # where a share comes from
METRICS = (
    ("operations", "per_s"),  # from the clients' records
    ("throughput", "mb_per_s"),
    ("received", "mb_per_s"),  # from the front-end's own counters
    ("sent", "mb_per_s"),
    ("share", "percent"),  # of what all front-ends of the run carried
    ("spread", "percent"),  # of all front-ends of a run: the most less the least, over their mean
)
COLUMNS = ("given_to", "source", "shared_host")
LEAST_OPERATIONS = 10  # of each front-end: with fewer, chance decides what it carried
# An operation counts by the part of its time in the window; one whose begin is not recorded, where it ends there.
_DONE = """
SELECT key, client, endpoint, sum(part * count) AS operations, sum(part * bytes) AS bytes,
  any_value(first_end_ns - agreed_ns) / 1e9 AS seconds
FROM (SELECT *, CASE
    WHEN start_ns < end_ns
      THEN greatest(0, least(end_ns, first_end_ns) - greatest(start_ns, agreed_ns)) / (end_ns - start_ns)
    WHEN end_ns <= first_end_ns THEN 1 ELSE 0 END AS part
  FROM rows WHERE error IS NULL AND end_ns > agreed_ns)
WHERE part > 0 GROUP BY key, client, endpoint ORDER BY key, client, endpoint"""
Done = Sequence[Mapping[str, Any]]  # rows of _DONE


def counters(run: Mapping[str, Any], number: int) -> list[tuple[float, float]] | None:
    """(received, sent) MB/s of each front-end, from its own interface; None where not all have one."""
    found = links.front_end_counters(run, number)
    return None if found is None else [(received / 1e6, sent / 1e6) for received, sent in found]


def by_records(run: Mapping[str, Any], number: int, done: Done) -> list[tuple[float, float]] | None:
    """(operations/s, useful MB/s) of each front-end, from what the clients recorded; None where they do not tell."""
    urls, parts = links.endpoints(run), [dict[float, tuple[float, float]]() for _ in range(number)]
    order, ranks = list(dict.fromkeys(urls)), sorted(c["client"] for c in run["clients"])
    if links.is_alone(run) and len(order) != min(number, len(urls)):  # one name for all: it is not known which answers
        return None
    for row in done:
        at = order.index(urls[ranks.index(row["client"])]) if links.is_alone(run) else row["endpoint"]
        if at is None or pd.isna(at) or not row["seconds"] or at >= number:
            return None
        own, seconds = parts[int(at)], row["seconds"]
        operations, moved = own.get(seconds, (0.0, 0.0))
        own[seconds] = operations + row["operations"], moved + row["bytes"]
    # Summed before they are divided: front-ends that carried as much differ in nothing, not even in a last digit.
    return [
        (math.fsum(n / s for s, (n, _) in own.items()), math.fsum(moved / 1e6 / s for s, (_, moved) in own.items()))
        for own in parts
    ]


def of_run(run: Mapping[str, Any], number: int, done: Done) -> Iterator[dict[str, Any]]:
    """A row for each front-end of a run; none where nothing is known. done: what its clients did."""
    seen, told = counters(run, number), by_records(run, number, done)
    carried = [sum(both) for both in seen or ()]
    if told and not seen:  # bytes, or operations where none moves any
        carried = [mb for _, mb in told] if any(mb for _, mb in told) else [rate for rate, _ in told]
    if not (whole := sum(carried)):
        return
    urls = links.endpoints(run)
    order = list(dict.fromkeys(urls))
    for i in range(number):
        mine = urls.count(order[i]) if i < len(order) else 0
        row: dict[str, Any] = {
            "front_end": i + 1,
            "given_to": mine if links.is_alone(run) else len(urls),
            "source": COUNTERS if seen else CLIENTS,
            "share_percent": 100 * carried[i] / whole,
            "spread_percent": 100 * number * (max(carried) - min(carried)) / whole,
        }
        for names, values in ((METRICS[:2], told), (METRICS[2:4], seen)):
            row |= {"_".join(name): values[i][j] if values else None for j, name in enumerate(names)}
        yield row


def of_runs(campaign: Campaign, rated: pd.DataFrame) -> pd.DataFrame:
    """One row per run with several front-ends, and front-end: what points.csv has of it, `front_end`, the columns of
    METRICS and COLUMNS; spread is that of the run, the same for all of its front-ends."""
    names = [*("_".join(m) for m in METRICS), "front_end", *COLUMNS[:2]]
    ok = rated[rated["state"] == "ok"]
    ok = ok[ok["front_ends"].fillna(1) > 1] if "front_ends" in ok else ok.iloc[:0]
    con = scan.connect(campaign, "ops", ok["key"]) if len(ok) else None
    done = con.execute(_DONE).df() if con else pd.DataFrame({"key": []})
    rows = []
    for p in ok[["key", "front_ends"]].itertuples(index=False) if len(ok) else ():
        own = done[done["key"] == p.key].to_dict("records")
        rows += [{"key": p.key, **row} for row in of_run(campaign.runs[p.key], int(p.front_ends), own)]
    return ok.drop(columns=ok.columns.intersection(names)).merge(
        pd.DataFrame(rows, columns=["key", *names]).astype({"front_end": "Int64", "given_to": "Int64"}), on="key"
    )


def table(both: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points with several front-ends, and front-end: medians over the runs."""
    identity = [*by, "front_end"]
    columns = [*identity, *groups.COUNTS, *COLUMNS, *groups.spread(METRICS)]
    return groups.summarised(both, identity, METRICS, columns, _more)


def _more(runs: pd.DataFrame) -> dict[str, Any]:
    return {
        "given_to": int(runs["given_to"].max()),
        "source": groups.joined(runs["source"]),
        "shared_host": bool(runs["shared_host"].any()),
    }


def evenly_given(found: pd.DataFrame, by: list[str] | None = None) -> pd.DataFrame:
    """The rows of groups (default: those of traffic.csv) whose front-ends were given to as many clients each."""
    by = by or list(found.columns[: found.columns.get_loc("front_end")])
    return found[found.groupby(by, dropna=False)["given_to"].transform("nunique") == 1] if len(found) else found


def enough(both: pd.DataFrame) -> pd.DataFrame:
    """The rows of runs of which counters tell what each front-end carried, or enough operations."""
    many = both["operations_per_s"] * both["duration_s"] >= LEAST_OPERATIONS
    return both[(many.fillna(False) | (both["source"] == COUNTERS)).groupby(both["key"]).transform("all")]


def numbers(both: pd.DataFrame, by: list[str]) -> list[tuple[str, Any, str]]:
    """name, value, unit: the largest median spread where each front-end was given to as many clients as the others,
    and `enough` is known."""
    even = evenly_given(table(enough(both), by))
    if even.empty:
        return []
    most = even["spread_median_percent"].astype(float).max()
    return [("traffic_spread_most", most, "%"), ("traffic_least", LEAST_OPERATIONS, "")]
