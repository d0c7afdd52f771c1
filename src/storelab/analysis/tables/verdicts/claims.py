"""`claims.csv`: the findings of 2010-2015, and a campaign's own claims, judged on what was measured.

docs/claims.md explains it; `records/claims.yaml` holds the findings, `statistics/judging.py` the rules. Many claims are
judged at once: p values are corrected for all cases of a campaign that have one (`statistics/many.py`). May import:
what `tables` may.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storelab.analysis.records import claims as known
from storelab.analysis.statistics import judging, many
from storelab.analysis.statistics.judging import CANNOT_TELL, CONFIRMED, NOT_MEASURED, REFUTED, Bound
from storelab.analysis.tables.verdicts import cases as of_claim
from storelab.analysis.tables.verdicts.cases import Case
from storelab.analysis.tables.verdicts.runs import Runs

COLUMNS = (
    "claim",
    "says",
    "source",
    "published",
    "published_unit",
    "system",
    "verdict",
    "value",
    "low",
    "high",
    "unit",
    "expected",
    "p",
    "verdict_alone",
    "evidence",
    "reason",
    "would_decide",
    "n",
    "cases",
    "confirmed",
    "refuted",
    "query",
    "points",
    "campaigns",
)
NARROWER_CLAIM = "a claim about one of them"  # would decide a claim whose cases contradict each other


def table(plan: Mapping[str, Any], tables: Mapping[str, Any]) -> pd.DataFrame:
    """`judged` of the campaign's own claims and the findings, on what the campaign measured."""
    return judged(known.of(plan), Runs(tables))


def judged(claims: Mapping[str, Mapping[str, Any]], runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per claim and system that measured it, one per claim that was not measured, in the order of the claims.

    claims: as of `core.campaign.claims.resolved`; runs: table -> its rows. Of the cases of a row (`cases`), `confirmed`
    and `refuted` count; the row is what all of them say that say anything, `cannot tell` where they contradict each
    other. value, low, high, evidence, n, points: of the case that is least in favour of this verdict. p: of that case,
    two-sided, corrected for all cases; verdict_alone: what it would say by itself.
    """
    found = [(name, case) for name, claim in claims.items() for case in of_claim.cases(claim, runs)]
    corrected = many.corrected([case.found.p for _, case in found])
    rows = []
    for name, claim in claims.items():
        own = [(case, p) for (of, case), p in zip(found, corrected, strict=True) if of == name]
        systems = list(dict.fromkeys(case.system for case, _ in own))
        rows += [_row(name, claim, [pair for pair in own if pair[0].system == s]) for s in systems]
        rows += [] if own else [_head(name, claim) | {"verdict": NOT_MEASURED}]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(dict.fromkeys(("n", "cases", "confirmed", "refuted"), "Int64"))


def _head(name: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    value, unit = known.printed(claim["published"])
    return {
        "claim": name,
        "says": claim["says"],
        "source": claim["source"],
        "published": value,
        "published_unit": unit or None,
        "expected": of_claim.expected(claim),
        "query": of_claim.asked(claim),
        "campaigns": ", ".join(claim["campaigns"]) or None,
    }


def _row(name: str, claim: Mapping[str, Any], own: Sequence[tuple[Case, float]]) -> dict[str, Any]:
    bound = of_claim.bound(claim)
    said = [_said(claim, case, p) for case, p in own]
    confirmed, refuted = said.count(CONFIRMED), said.count(REFUTED)
    verdict = CONFIRMED if confirmed and not refuted else REFUTED if refuted and not confirmed else CANNOT_TELL
    # The one least in favour of the verdict: nearest to the bound, or on its other side.
    sign = (-1 if bound.most else 1) * (-1 if verdict == REFUTED else 1)
    shown = [i for i, word in enumerate(said) if word == verdict] or [*range(len(own))]
    least = min(shown, key=lambda i: sign * own[i][0].found.value if math.isfinite(own[i][0].found.value) else math.inf)
    case, p = own[least]
    reason, decides = case.found.reason, ""
    if confirmed and refuted:
        reason, decides = f"{confirmed} of {len(own)} cases confirm it, {refuted} refute it", NARROWER_CLAIM
    elif said[least] == CANNOT_TELL:
        chance = "the interval holds the bound" if case.found.p >= 0.05 else "not beyond chance among so many claims"
        reason, decides = reason or chance, case.found.lacks or judging.NARROWER
        if case.held_back and _low(claim) in (judging.verdict(case.found, bound, p), _side(case, bound)):
            reason, decides = case.held_back, case.then_decides
    return _head(name, claim) | {
        "system": case.system,
        "verdict": verdict,
        "value": case.found.value,
        "low": case.found.low,
        "high": case.found.high,
        "unit": _unit(claim, case.found.value),
        "p": p,
        "verdict_alone": judging.verdict(case.found, bound, case.found.p),
        "evidence": ": ".join(filter(None, (case.where, case.evidence))) or None,
        "reason": reason or None,
        "would_decide": decides or None,
        "n": case.n,
        "cases": len(own),
        "confirmed": confirmed,
        "refuted": refuted,
        "points": " ".join(case.keys) or None,
    }


def _said(claim: Mapping[str, Any], case: Case, p: float) -> str:
    """The verdict on one case. A speed that something else than the store kept down is not held against the claim, nor
    for it where the claim says that it is low."""
    verdict = judging.verdict(case.found, of_claim.bound(claim), p)
    return CANNOT_TELL if case.held_back and verdict == _low(claim) else verdict


def _low(claim: Mapping[str, Any]) -> str:
    """The verdict that a speed gives which something kept down."""
    return CONFIRMED if of_claim.bound(claim).most or claim["rule"] == "shape" else REFUTED


def _side(case: Case, bound: Bound) -> str | None:
    """The verdict on whose side the number is, sure or not; None where there is none."""
    if not math.isfinite(case.found.value):
        return None
    return CONFIRMED if bound.met(case.found.value) else REFUTED


def _unit(claim: Mapping[str, Any], value: float) -> str | None:
    if claim["rule"] == "level":
        return of_claim.unit_of(claim) or None
    answers = ("system" if claim["along"] else "answer") + ("" if value == 1 else "s")
    said = {"shape": claim["along"], "count": claim["metric"], "answer": answers}
    return said[claim["rule"]].replace("_", " ") if claim["rule"] in said else None


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """How many claims there are, and how often (claims times systems) each verdict was given."""
    counts = found["verdict"].value_counts()
    return [("claims", found["claim"].nunique(), "")] + [
        (f"claims_{name}", int(counts.get(verdict, 0)), "")
        for name, verdict in (
            ("confirmed", CONFIRMED),
            ("refuted", REFUTED),
            ("cannot_tell", CANNOT_TELL),
            ("not_measured", NOT_MEASURED),
        )
    ]
