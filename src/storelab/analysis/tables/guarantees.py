"""Capabilities, consistency and durability of stores.

* `capabilities.csv`: the capabilities of each store, from the answers of the workload `probe`. A probe has no rate, so
  that its points are not in tables of rates. The answers of all clients and runs are combined into one row. The answers
  `not tried` and `error` are only used if there is no other answer. If answers contradict each other, the answer is
  `unclear`, and the evidence states how often each was given.
* `consistency.csv`: anomalies and tries of the workload `consistency`, with the upper bound of their fraction. A try is
  one judged answer. Failed operations are errors and do not count as tries. The bound is one-sided and exact: C. J.
  Clopper and E. S. Pearson, *The use of confidence or fiducial limits illustrated in the case of the binomial*,
  Biometrika 26 (1934) 404-413. For 0 of n it is 1 - 0.05^(1/n), about 3/n. This is the rule of three of J. A. Hanley
  and A. Lippman-Hand, *If nothing goes wrong, is everything all right?*, JAMA 249 (1983) 1743-1745.
* `durability.csv`: the state of acknowledged writes, with the same upper bounds. Each write that the store acknowledged
  was recorded in a ledger, and read back (docs/durability.md): while an actor was down, and after the recovery or,
  without a fault, at the end. The last reading shows which data remain. If an operation was not acknowledged, it is not
  known if the store did it, so that it is not an anomaly.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.core import records
from storelab.core.axes import DEPLOYMENT_NAMES
from storelab.core.model import OF_ROLE

PROBE = "probe"
WEAK = ("error", "not tried")  # answers without information about the store; `error` takes precedence
UNCLEAR = "unclear"
CAPABILITY_COLUMNS = {"topic": "string", "check": "string", "answer": "string", "evidence": "string", "asked": "Int64"}


def answers(campaign: Campaign) -> pd.DataFrame:
    """Return all recorded answers, ordered by the plan, the client and the time.

    Columns: store, the axes of its deployment, key, and the columns of `answers.<client>.parquet`.
    """
    points = {p["key"]: p for p in campaign.points}
    axes = deployment_axes(campaign)
    parts = []
    for key in sorted({key for key, _ in campaign.files("answers")}, key=lambda key: points[key]["order"]):
        point = points[key]
        where = {"store": point["store"], **{a: point["axes"].get(a) for a in axes}, "key": key}
        con = scan.connect(campaign, "answers", [key])
        assert con is not None
        part = con.execute("SELECT * FROM rows ORDER BY client, start_ns, end_ns").df()[[*records.ANSWERS]]
        parts.append(pd.concat([pd.DataFrame([where] * len(part)), part], axis=1))
    empty = pd.DataFrame({c: pd.Series(dtype=object) for c in ("store", *axes, "key", *CAPABILITY_COLUMNS)})
    return pd.concat(parts, ignore_index=True) if parts else empty


def deployment_axes(campaign: Campaign) -> list[str]:
    """Return the axes of the probe that distinguish deployments of a store."""
    known = campaign.plan["workloads"].get(PROBE, {"axes": []})["axes"]
    return [a["name"] for a in known if a["name"] in DEPLOYMENT_NAMES]


def agreed(answered: pd.DataFrame) -> dict[str, Any]:
    """Return answer, evidence and asked (number of tries), combined from all answers to one question.

    answered: the rows of `answers` for one question and one deployment.
    """
    given = [*zip(answered["answer"], answered["evidence"], strict=True)]
    tried = [(answer, evidence) for answer, evidence in given if answer not in WEAK]
    if not tried:
        answer, evidence = min(given, key=lambda pair: WEAK.index(pair[0]))
        return {"answer": answer, "evidence": evidence, "asked": 0}
    first, counts = dict(reversed(tried)), Counter(answer for answer, _ in tried)
    if len(counts) == 1:
        return {"answer": tried[0][0], "evidence": tried[0][1], "asked": len(tried)}
    evidence = "; ".join(f"{n} x {answer} ({first[answer]})" for answer, n in counts.most_common())
    return {"answer": UNCLEAR, "evidence": evidence, "asked": len(tried)}


def capabilities(campaign: Campaign, axes: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per store, deployment and question, in the order of the questions.

    axes: column -> dtype of the plan's axes.
    """
    found, by = answers(campaign), ["store", *deployment_axes(campaign)]
    rows = [
        dict(zip([*by, "topic", "check"], key, strict=True)) | agreed(group)
        for key, group in found.groupby([*by, "topic", "check"], sort=False, dropna=False)
    ]
    table = pd.DataFrame(rows, columns=[*by, *CAPABILITY_COLUMNS])
    rank = {name: i for i, name in enumerate(campaign.plan["stores"])}
    table = table.assign(rank=table["store"].map(rank)).sort_values(["rank", *by[1:]], kind="stable", ignore_index=True)
    return table.drop(columns="rank").astype({c: axes[c] for c in by if c in axes} | CAPABILITY_COLUMNS)


CONSISTENCY = "consistency"
CONFIDENCE = 0.95
SCENARIOS = {  # in the order of the table; docs/records.md describes them
    "read_after_write": "object put, then read",
    "list_after_write": "object put, then listed",
    "overwrite": "object overwritten, then read",
    "monotonic_reads": "new version seen, then read again",
    "read_after_delete": "object deleted, then read",
    "list_after_delete": "object deleted, then listed",
    "comes_back": "deleted object gone, then read again",
    "comes_back_listed": "deleted objects gone, then listed again",
    "listing_works": "listing of an existing bucket",
    "listing_complete": "listing of more than one page",
    "bucket_usable": "bucket made, then used",
    "bucket_listed": "bucket made, then listed",
    "bucket_gone": "bucket deleted, then used",
    "bucket_unlisted": "bucket deleted, then listed",
    "bucket_comes_back": "deleted buckets gone, then listed again",
    "listed_bucket_exists": "bucket listed, then used",
}
MEASURES = {
    "runs": "Int64",
    "tried": "Int64",
    "anomalies": "Int64",
    "errors": "Int64",
    "fraction": "Float64",
    "fraction_upper95": "Float64",
    "never_right": "Int64",
    "lasted_median_s": "Float64",
    "lasted_max_s": "Float64",
    "watched_max_s": "Float64",
    "example": "string",
}


def upper_bound(anomalies: int, tried: int, confidence: float = CONFIDENCE) -> float:
    """Return the largest fraction (0..1) that is compatible with `anomalies` of `tried` (one-sided Clopper-Pearson).

    It is NaN without a try. Raises ValueError if the counts are impossible.
    """
    if not 0 <= anomalies <= tried:
        raise ValueError(f"{anomalies} anomalies of {tried} tries")
    if tried == 0:
        return float("nan")
    return 1.0 if anomalies == tried else float(betaincinv(anomalies + 1, tried - anomalies, confidence))


def _recorded(campaign: Campaign, name: str) -> pd.DataFrame:
    """Return all rows of the files `<name>.<client>.parquet`, with the key of their point in the column `point`."""
    con = scan.connect(campaign, name)
    if con is None:
        return pd.DataFrame(columns=["point", *records.TABLES[name]])
    return con.execute("SELECT *, key AS point FROM rows ORDER BY point, client").df()


def consistency(campaign: Campaign, axes: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per store, deployment and axes, scenario, and front-end.

    front_end: `same` if the answer came from the front-end that received the write, else `other`. Counts are sums over
    clients and runs. fraction = anomalies / tried; fraction_upper95: `upper_bound`; never_right: anomalies that did not
    end while they were watched (for at most watched_max_s); lasted_*: duration of the other anomalies, from the write's
    acknowledgement (or the first wrong answer) to the first right answer; example: evidence of the first anomaly.

    axes: column -> dtype of the axes of the plan.
    """
    columns = {a["name"]: a["column"] for a in campaign.plan["workloads"].get(CONSISTENCY, {"axes": []})["axes"]}
    by = ["store", *columns.values()]
    head = [*by, "scenario", "front_end"]
    tries, found = _recorded(campaign, "scenarios"), _recorded(campaign, "anomalies")
    rows: list[dict[str, Any]] = []
    if len(tries):
        points = [
            {"point": p["key"], "store": p["store"]} | {columns[k]: v for k, v in p["axes"].items()}
            for p in campaign.measured(CONSISTENCY)
        ]
        tries, found = (t.merge(pd.DataFrame(points), on="point") for t in (tries, found))
        for key, group in tries.groupby([*by, "scenario", "same_front_end"], dropna=False):
            identity = dict(zip([*by, "scenario", "same_front_end"], key, strict=True))
            wrong = found[np.logical_and.reduce([found[c] == v for c, v in identity.items()])]
            rows.append(_consistency_row(identity, group, wrong))
    table = pd.DataFrame(rows, columns=[*head, *MEASURES])
    order = {s: i for i, s in enumerate(SCENARIOS)}
    table = table.assign(rank=table["scenario"].map(lambda s: order.get(s, len(order)))).sort_values(
        [*by, "rank", "scenario", "front_end"], ascending=[True] * (len(by) + 2) + [False]
    )
    types = {c: axes[c] for c in columns.values() if c in axes}
    return table.drop(columns="rank").reset_index(drop=True).astype(types | MEASURES)


def _consistency_row(identity: Mapping[str, Any], tries: pd.DataFrame, wrong: pd.DataFrame) -> dict[str, Any]:
    tried, anomalies = int(tries["tried"].sum()), int(tries["anomalies"].sum())
    lasted = wrong["lasted_ns"].dropna() / 1e9
    return {
        **{k: v for k, v in identity.items() if k != "same_front_end"},
        "front_end": "same" if identity["same_front_end"] else "other",
        "runs": tries["point"].nunique(),
        "tried": tried,
        "anomalies": anomalies,
        "errors": int(tries["errors"].sum()),
        "fraction": anomalies / tried if tried else None,
        "fraction_upper95": upper_bound(anomalies, tried),
        "never_right": int(wrong["lasted_ns"].isna().sum()),
        "lasted_median_s": lasted.median() if len(lasted) else None,
        "lasted_max_s": lasted.max() if len(lasted) else None,
        "watched_max_s": wrong["watched_ns"].max() / 1e9 if len(wrong) else None,
        "example": wrong["evidence"].iloc[0] if len(wrong) else None,
    }


KINDS = ("put", "overwrite", "delete")
WRONG = ("lost", "corrupted", "stale", "resurrected")
WHEN = ("down", "recovered", "end")
LAST = WHEN[1:]  # readings of what remains
DURABILITY_COLUMNS = (
    "n",
    "when",
    *(f"acknowledged_{kind}" for kind in KINDS),
    "unacknowledged",
    "states",
    "read",
    *WRONG,
    "unreadable",
    *(f"{wrong}_upper95_percent" for wrong in WRONG),
    "wrong",
    "wrong_upper95_percent",
    "example",
)
DURABILITY_COUNTS = ("n", *(c for c in DURABILITY_COLUMNS[2:-1] if not c.endswith("_percent")))


def durability_table(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each group of points with a ledger, and stage at which it was read back (`when`).

    Columns: store, workload, the axes of these workloads, and counts over the valid runs (n). The counts of WRONG have
    upper bounds in percent of the states read. If a run was read several times at one stage, the largest count is used.
    wrong: sum of WRONG; unreadable: failed reads, which are neither right nor wrong; example: evidence of one anomaly.
    """
    rows = []
    order = {name: i for i, name in enumerate(WHEN)}
    ledgers = {key: run["durability"] for key, run in campaign.runs.items() if run.get("durability")}
    having = {p["workload"] for p in campaign.points if p["key"] in ledgers}
    axes = [a["column"] for name, w in campaign.plan["workloads"].items() if name in having for a in w["axes"]]
    by = ["store", "workload", *dict.fromkeys(sorted(axes, key=lambda column: OF_ROLE in column))]
    for key, durability in ledgers.items():
        for reading in durability["readings"]:
            counts = {name: reading.get(name, 0) for name in ("states", "read", *WRONG, "unreadable")}
            known = {f"acknowledged_{kind}": durability["acknowledged"].get(kind, 0) for kind in KINDS}
            known |= {"unacknowledged": durability["unacknowledged"], "when": reading["when"]}
            examples = reading.get("examples") or [None]
            rows.append(
                {"key": key, "place": order.get(reading["when"], len(order)), "example": examples[0]} | known | counts
            )
    read = pd.DataFrame(rows, columns=["key", "place", "example", "when", *DURABILITY_COUNTS[1:-1]])
    # A run can be read several times at one stage, first only a sample. These readings are of the same states.
    once = dict.fromkeys(DURABILITY_COUNTS[1:-1], "max") | {"example": "first"}
    found = read.groupby(["key", "place", "when"], as_index=False).agg(once)
    ok = points[points["state"] == "ok"].reindex(columns=[*by, "key"]).merge(found, on="key")
    out = []
    for identity, group in ok.groupby([*by, "place", "when"], dropna=False) if len(ok) else []:
        row = dict(zip([*by, "place", "when"], identity, strict=True)) | {"n": group["key"].nunique()}
        row |= {name: int(group[name].sum()) for name in DURABILITY_COUNTS[1:-1]}
        row["wrong"] = sum(row[name] for name in WRONG)
        row |= {f"{name}_upper95_percent": 100 * upper_bound(row[name], row["read"]) for name in (*WRONG, "wrong")}
        row["example"] = next(iter(group["example"].dropna()), None)
        out.append(row)
    made = pd.DataFrame(out, columns=[*by, *DURABILITY_COLUMNS])
    types = {c: points.dtypes[c] for c in by if c in points}
    return made.astype(types | dict.fromkeys(DURABILITY_COUNTS, "Int64"))


def summed(table: pd.DataFrame) -> pd.DataFrame:
    """Return durability.csv with the parts of each series added up, and without the axis `part`."""
    if "part" not in table or table["part"].nunique() < 2:
        return table
    same = [c for c in table.columns[: table.columns.get_loc("n")] if c != "part"] + ["when"]
    sums = dict.fromkeys(DURABILITY_COUNTS, "sum")
    made = table.groupby(same, dropna=False, sort=False, as_index=False).agg(sums)
    bounds = [100 * upper_bound(w, n) for w, n in zip(made["wrong"], made["read"], strict=True)]
    made = made.assign(wrong_upper95_percent=bounds)
    return made[[*same[:-1], "n", *(c for c in made if c not in (*same[:-1], "n"))]]


def durability_numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about durability. Without data, the list is empty.

    The numbers are acknowledged writes, states read, and wrong states with their upper bound, all at the last reading;
    and the wrong states of all readings.
    """
    last = table[table["when"].isin(LAST)]
    if last.empty:
        return []
    read, wrong = int(last["read"].sum()), int(last["wrong"].sum())
    acknowledged = int(sum(last[f"acknowledged_{kind}"].sum() for kind in KINDS))
    return [
        ("durability_acknowledged", acknowledged, ""),
        ("durability_read", read, ""),
        ("durability_wrong", wrong, ""),
        ("durability_bound", 100 * upper_bound(wrong, read), "%"),
        ("durability_wrong_anywhere", int(table["wrong"].sum()), ""),
    ]
