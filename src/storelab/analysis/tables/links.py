"""What the links between clients and store can carry: columns of points.csv and throughput.csv. See docs/tables.md.

A link that carried more than it can is a contradiction: `link_problem` reports it, and no point of that store (of that
campaign, if it is a link of the clients) has this limit.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import speed, words
from storelab.analysis.records import links
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.records.links import BOTH, CLIENTS, FRONT_ENDS, Links

SLACK = 1.02  # more than this times its capacity went over a link: the buckets of a shaped link allow less
# Percent of what links can carry in one direction: headers take 4 % of it, the start and the end of a run some more.
# Links that nothing else slowed down were at 94 % to 97 % in all sealed campaigns.
LINK_FULL = 92.0
COLUMNS = {
    "link_bits_per_s": "Float64",  # the most that the links of clients and front-ends let pass
    "link_of": "string",  # whose links these are
    "link_each": "string",  # in words: `2 × 300 Mbit/s`
    "link_used_percent": "Float64",
    "link_unknown": "string",  # whose links have no known capacity, where the bytes went over a link
    "link_problem": "string",
}


def with_links(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """points.csv with COLUMNS."""
    goodput, problems = _problems(campaign, points)
    rows = [_of_point(campaign.runs.get(key), goodput[key], problems) for key in points["key"]]
    return points.assign(**pd.DataFrame(rows, columns=list(COLUMNS), index=points.index).astype(COLUMNS))


def of_group(runs: pd.DataFrame) -> dict[str, Any]:
    """COLUMNS of some runs (rows of points.csv): those of the run with the lowest limit, and the median use."""
    runs = runs.reindex(columns=list(COLUMNS))
    said = {c: next(iter(runs[c].dropna()), None) for c in ("link_unknown", "link_problem")}
    known = runs[runs["link_bits_per_s"].notna()].sort_values("link_bits_per_s", kind="stable")
    if known.empty:
        return dict.fromkeys(COLUMNS) | said
    used = known["link_used_percent"].astype(float).median()
    return known.iloc[0].to_dict() | said | {"link_used_percent": used}


def numbers(campaign: Campaign, points: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """(name, value, unit) of what the text says of links. Absent where nothing is known."""
    _, problems = _problems(campaign, points)
    runs = campaign.runs.values()
    known = [found for run in runs if (found := links.of_run(run, tuple(_ignored(run, problems))))]
    sides = {
        "each client's node": {bits for found in known if found.clients for bits in found.clients.links},
        "each front-end": {bits for found in known if found.front_ends for bits in found.front_ends.links},
    }
    said = [f"{words.listed([*map(links.rate, sorted(each))])} for {whose}" for whose, each in sides.items() if each]
    declared = links.declared(campaign.folder) if said else None
    texts = {
        "links_known": words.listed(said) if said else "",
        "links_declared": declared.source if declared else "",
        "link_problem": "; ".join(problems.values()),
    }
    return [(name, text, "") for name, text in texts.items() if text]


def _goodput(point: Mapping[str, Any]) -> tuple[float, float]:
    """(in the `overlap` window, until the last completion) bits/s, of workloads that move all bytes one way; else 0."""
    names = ("overlap_throughput_mb_per_s", "last_done_throughput_mb_per_s")
    if point["workload"] not in speed.MOVING:
        return 0.0, 0.0
    first, last = (0.0 if pd.isna(point.get(c)) else 8e6 * float(point[c]) for c in names)
    return first, last


def _of_point(
    run: Mapping[str, Any] | None, goodput: tuple[float, float], problems: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    if run is None:
        return {}
    ignored = _ignored(run, problems)
    said = {"link_problem": "; ".join(ignored.values()) or None}
    if not (found := links.of_run(run, tuple(ignored))):
        return said | {"link_unknown": BOTH if links.over_link(run) else None}
    counted = [sum(side.moved) for side in (found.clients, found.front_ends) if side and side.moved]
    used = max(goodput[0], min(counted, default=0.0))
    return said | {
        "link_bits_per_s": found.bits_per_s,
        "link_of": found.of,
        "link_each": _each(found),
        "link_used_percent": 100 * used / found.bits_per_s,
        "link_unknown": found.unknown,
    }


def _ignored(run: Mapping[str, Any], problems: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """The sides of a run whose links carried more than they can, with the problem."""
    return {side: said for side in (CLIENTS, FRONT_ENDS) if (said := problems.get((side, _whose(side, run))))}


def _each(found: Links) -> str:
    sides = {CLIENTS: found.clients, FRONT_ENDS: found.front_ends}
    return " into ".join(links.in_words(side.links) for of, side in sides.items() if side and found.of in (of, BOTH))


def _whose(side: str, run: Mapping[str, Any]) -> str:
    """The links that are believed or not together: those of a store's front-ends, those of all clients."""
    return links.store_of(run) if side == FRONT_ENDS else ""


def _problems(
    campaign: Campaign, points: pd.DataFrame
) -> tuple[dict[str, tuple[float, float]], dict[tuple[str, str], str]]:
    """Goodput of each point by its key, and (side, store) -> the largest contradiction, in words."""
    goodput = dict(zip(points["key"], map(_goodput, points.to_dict("records")), strict=True))
    worst: dict[tuple[str, str], tuple[float, str]] = {}
    for key, run in campaign.runs.items():
        found = links.of_run(run)
        for side, link, moved in _loads(found, goodput.get(key, (0.0, 0.0))[1]) if found else ():
            whose = (side, _whose(side, run))
            if moved > max(SLACK * link, worst.get(whose, (0.0, ""))[0] * link):
                said = f"{links.rate(link)} cannot be the capacity of the {side}' links"
                worst[whose] = moved / link, f"{said}: {words.number(moved / 1e6)} Mbit/s went over one in {key}"
    return goodput, {whose: said for whose, (_, said) in worst.items()}


def _loads(found: Links, goodput: float) -> Iterator[tuple[str, float, float]]:
    """(side, capacity, what went over it) of each link with a counter, else of all links of a side together."""
    for of, side in ((CLIENTS, found.clients), (FRONT_ENDS, found.front_ends)):
        if side is not None and side.moved is None:
            yield of, side.total, goodput
        elif side is not None:
            yield from ((of, link, moved) for link, moved in zip(side.links, side.moved or (), strict=True))
