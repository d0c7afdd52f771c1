"""`capabilities.csv`: what each store can do, from the answers of the workload `probe`.

A probe has no rate: its points are in no table of rates. Clients and runs that agree make one row; an answer beats `not
tried` and `error`; where answers contradict each other the row says `unclear` and how often each was given.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.core import records
from storelab.core.axes import DEPLOYMENT_NAMES

WORKLOAD = "probe"
WEAK = ("error", "not tried")  # say nothing of the store; the first of them is shown where nothing better is known
UNCLEAR = "unclear"
COLUMNS = {"topic": "string", "check": "string", "answer": "string", "evidence": "string", "asked": "Int64"}


def answers(campaign: Campaign) -> pd.DataFrame:
    """Every answer that was recorded: store, the axes of its deployment, key, and the columns of
    `answers.<client>.parquet`.

    In the order of the plan, of the clients, and of asking.
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
    empty = pd.DataFrame({c: pd.Series(dtype=object) for c in ("store", *axes, "key", *COLUMNS)})
    return pd.concat(parts, ignore_index=True) if parts else empty


def deployment_axes(campaign: Campaign) -> list[str]:
    """Axes of the probe that tell deployments of one store apart."""
    known = campaign.plan["workloads"].get(WORKLOAD, {"axes": []})["axes"]
    return [a["name"] for a in known if a["name"] in DEPLOYMENT_NAMES]


def agreed(answered: pd.DataFrame) -> dict[str, Any]:
    """answer, evidence, asked (how often it was tried) of all that was answered to one question about one
    deployment."""
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
    """One row per store, deployment and question, in the order of asking. `axes`: column -> dtype of the plan's
    axes."""
    found, by = answers(campaign), ["store", *deployment_axes(campaign)]
    rows = [
        dict(zip([*by, "topic", "check"], key, strict=True)) | agreed(group)
        for key, group in found.groupby([*by, "topic", "check"], sort=False, dropna=False)
    ]
    table = pd.DataFrame(rows, columns=[*by, *COLUMNS])
    rank = {name: i for i, name in enumerate(campaign.plan["stores"])}
    table = table.assign(rank=table["store"].map(rank)).sort_values(["rank", *by[1:]], kind="stable", ignore_index=True)
    return table.drop(columns="rank").astype({c: axes[c] for c in by if c in axes} | COLUMNS)
